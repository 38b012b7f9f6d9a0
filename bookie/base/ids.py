"""Identifiers as types of their own, with their sentinels, and how bookie ids are parsed.

Never arithmetic on a bookie id, never a ledger id where an entry id is meant: mypy tells them apart.
"""

import re
from typing import NamedTuple, NewType

from bookie.base import errors

LedgerId = NewType("LedgerId", int)
EntryId = NewType("EntryId", int)
BookieId = NewType("BookieId", str)
# One life of a bookie's disks. 1 for the first; a regenerated cookie starts the next. 0 means "never stamped".
Incarnation = NewType("Incarnation", int)
# Counts registrations of one bookie id; copied to each volume, so that a disk that went back in time is seen.
BootEpoch = NewType("BootEpoch", int)


# First and last entry, inclusive.
IdRange = tuple[EntryId, EntryId]


class Life(NamedTuple):
    """Names one process of a bookie. Each boot counts on, so no two processes share a life (docs/PROTOCOL.md)."""

    incarnation: Incarnation
    boot_epoch: BootEpoch


INVALID_ENTRY_ID = EntryId(-1)  # BookieProtocol.INVALID_ENTRY_ID: "nothing yet"
LAST_ENTRY = EntryId(-1)  # BookieProtocol.LAST_ADD_CONFIRMED: "the highest entry you have"
LEDGER_ID_MAX = LedgerId(2**63 - 1)
_DIGITS_MAX = len(str(LEDGER_ID_MAX))
_SHOWN_MAX = 40

# BookieId.java allows the ASCII range ':'..'_' as well; ids that we *make* stay within the readable part.
_BOOKIE_ID = re.compile(r"[a-zA-Z0-9:-_.\-]+")
# A bookie's nodes in the metadata store have its id as their name. ZooKeeper takes no node of the last two names, and
# its client ends a program that asks for one: a record that names such a bookie is one that cannot be read.
_NO_BOOKIE_IDS = ("readonly", ".", "..")


def parse_bookie_id(text: str) -> BookieId:
    """Return `text` as a bookie id. Raises BadInput. Rule: BookieId.java (pattern; `readonly` is taken)."""
    if not _BOOKIE_ID.fullmatch(text) or text.lower() in _NO_BOOKIE_IDS:
        raise errors.BadInput(
            f"bookie id {text!r} is not usable: letters, digits, '.', '-', '_' and ':' only, and not 'readonly',"
            " '.' or '..'"
        )
    return BookieId(text)


def parse_ledger_id(text: str) -> LedgerId:
    """Return the decimal ledger id in `text`. Raises BadInput outside 0..2^63-1."""
    number = decimal(text.lstrip("0") or text[:1])
    if number is None or number > LEDGER_ID_MAX:
        raise errors.BadInput(f"ledger id {text[:_SHOWN_MAX]!r} is not a number between 0 and 2^63-1")
    return LedgerId(number)


def decimal(text: str) -> int | None:
    """Return the whole number in `text`, which others wrote; None unless it is 1 to 19 digits of ASCII.

    `str.isdigit` takes more than `int` does ("²"), and `int` raises an error of its own for thousands of digits.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX else None
