"""Looks at adds of many ledgers together, and keeps those that are plain. Pure, and compiled: each such add comes here.

An add is plain when the store's `add` would find nothing to refuse or to write besides the entry: its ledger is known
and has neither mark nor another key, and its head is right. Whether there is room at all, the store asks before.
"""

import struct
from collections.abc import Callable, Container, Sequence
from typing import Final

from bookie.base.ids import EntryId, LedgerId
from bookie.storage import heads
from bookie.storage.ledgers import UNKNOWN_LAST, Ledger
from bookie.storage.write_cache import CacheGeneration

_HEAD: Final = heads.HEAD
_IDS: Final = struct.Struct(">qq")
_HEAD_SIZE: Final = _HEAD.size
_UNKNOWN_LAST: Final = int(UNKNOWN_LAST)


class Directories:
    """Where ledgers are: what is `known` of them and what is `active`, by the number of their directory
    (`shapes.Routing`)."""

    __slots__ = ("active", "count", "first", "known", "number_of")

    def __init__(
        self,
        known: list[dict[LedgerId, Ledger]],
        active: list[CacheGeneration],
        first: int,
        number_of: Callable[[LedgerId], int],
    ) -> None:
        self.known = known
        self.active = active
        self.first = first
        self.count = len(known)
        self.number_of = number_of


def not_plain(
    directories: Directories,
    ledger_ids: Sequence[LedgerId],
    master_keys: Sequence[bytes],
    entry_ids: Sequence[EntryId],
    bodies: Sequence[bytes],
    on_the_way: Container[LedgerId],
) -> list[int]:
    """Return the numbers of those adds that are not plain. `on_the_way`: ledgers with a key that is not durable yet."""
    known, first, count, number_of = directories.known, directories.first, directories.count, directories.number_of
    ids_of = _IDS.unpack_from
    found: list[int] = []
    adds = zip(ledger_ids, master_keys, entry_ids, bodies, strict=True)
    for place, (ledger_id, key, entry_id, body) in enumerate(adds):
        number = ledger_id % count if ledger_id >= first else number_of(ledger_id)
        ledger = known[number].get(ledger_id)
        is_open = ledger is not None and not ledger.flags and ledger.master_key == key and key != b""
        is_whole = entry_id >= 0 and len(body) >= _HEAD_SIZE and ids_of(body) == (ledger_id, entry_id)
        if not is_open or not is_whole or ledger_id in on_the_way:
            found.append(place)
    return found


def not_touched(directories: Directories, ledger_ids: Sequence[LedgerId]) -> list[int]:
    """Return the numbers of those adds whose ledger has no durable touch in the generation that would take them."""
    first, count, number_of = directories.first, directories.count, directories.number_of
    touches = [generation.touches for generation in directories.active]
    found: list[int] = []
    for place, ledger_id in enumerate(ledger_ids):
        number = ledger_id % count if ledger_id >= first else number_of(ledger_id)
        if not touches[number].get(ledger_id, False):
            found.append(place)
    return found


def keep(
    directories: Directories, ledger_ids: Sequence[LedgerId], entry_ids: Sequence[EntryId], bodies: Sequence[bytes]
) -> list[Ledger]:
    """Keep plain adds. Return the watched ledgers of which the LAC moved, as often as it did."""
    known, active = directories.known, directories.active
    first, count, number_of = directories.first, directories.count, directories.number_of
    head_of = _HEAD.unpack_from
    moved: list[Ledger] = []
    for ledger_id, entry_id, body in zip(ledger_ids, entry_ids, bodies, strict=True):
        number = ledger_id % count if ledger_id >= first else number_of(ledger_id)
        active[number].put(ledger_id, entry_id, body)
        ledger = known[number][ledger_id]
        lac = EntryId(head_of(body)[2])
        if ledger.lac < lac < entry_id:
            ledger.lac = lac
            if ledger.watchers:
                moved.append(ledger)
        if ledger.last < entry_id and ledger.last != _UNKNOWN_LAST:
            ledger.last = entry_id
    return moved
