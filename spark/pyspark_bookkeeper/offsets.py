"""Where reading of each ledger starts and ends, as a query says it: `{"17": 120, "18": -2}`, "earliest", "latest".

An offset is the id of the next entry to read, so a start is included and an end is not (as in Spark's Kafka source).
-2 is the first entry, -1 the one after the last confirmed. The offsets of streams will stand beside these.
"""

import bisect
import json
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.ids import LedgerId, parse_ledger_id
from pyspark_bookkeeper.option_values import shown

EARLIEST = -2
LATEST = -1
_WORDS = {"earliest": EARLIEST, "latest": LATEST}


@dataclass(frozen=True, slots=True)
class Offsets:
    """The offsets of a query. `default` is for every ledger that `named`, which ascends, does not name."""

    default: int
    named: tuple[tuple[LedgerId, int], ...] = ()

    def of(self, ledger_id: LedgerId) -> int:
        place = bisect.bisect_left(self.named, ledger_id, key=lambda one: one[0])
        if place < len(self.named) and self.named[place][0] == ledger_id:
            return self.named[place][1]
        return self.default


def parse_starting(text: str) -> Offsets:
    """Return the starting offsets in `text`. Raises ValueError. "latest" is refused: a batch read from there would
    always be empty."""
    return _parse(text, default=EARLIEST, refused=LATEST, why="a batch read that starts at the latest entry is empty")


def parse_ending(text: str) -> Offsets:
    """Return the ending offsets in `text`. Raises ValueError. "earliest" is refused: a read up to there would always be
    empty."""
    return _parse(text, default=LATEST, refused=EARLIEST, why="a read that ends at the earliest entry is empty")


def _parse(text: str, *, default: int, refused: int, why: str) -> Offsets:
    word = text.strip().lower()
    offsets = Offsets(_WORDS[word]) if word in _WORDS else Offsets(default, _parse_named(text))
    if refused in (offsets.default, *dict(offsets.named).values()):
        raise ValueError(f"{text!r}: {why}")
    return offsets


def _parse_named(text: str) -> tuple[tuple[LedgerId, int], ...]:
    shape = f'{shown(text)} is neither "earliest", "latest" nor JSON like {{"17": 120, "18": -2}}'
    try:
        found = json.loads(text, object_pairs_hook=tuple)
    except (ValueError, RecursionError):
        raise ValueError(shape) from None
    if not isinstance(found, tuple):
        raise ValueError(shape)
    named: dict[LedgerId, int] = {}
    for key, offset in found:
        if not isinstance(offset, int) or isinstance(offset, bool) or offset < EARLIEST:
            raise ValueError(
                f"{shown(text)}: the offset of ledger {key} must be an entry id, -1 (latest) or -2 (earliest)"
            )
        try:
            ledger_id = parse_ledger_id(key)
        except errors.BadInput as error:
            raise ValueError(str(error)) from None
        if ledger_id in named:
            raise ValueError(f"{shown(text)} names ledger {ledger_id} twice")
        named[ledger_id] = offset
    return tuple(sorted(named.items()))
