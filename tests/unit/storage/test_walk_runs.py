"""A walk of a ledger while a checkpoint moves entries from the caches to the index, behind the walk."""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bookie.base.ids import EntryId, IdRange, LedgerId
from bookie.storage import shapes
from bookie.storage.bad_entries import BadEntries
from bookie.storage.ledgers import Ledger
from bookie.storage.reads import EntryReads
from bookie.storage.shapes import Routing
from bookie.storage.stats import StorageStats

LEDGER = LedgerId(7)


class StillPartition:
    """Index slices and cached ids, some of them in both, that nothing moves."""

    def __init__(self, slices: list[list[int]], cached: list[int]) -> None:
        self.slices, self.cached, self.failure = slices, cached, None
        self.table = self.index = self  # all of it is here

    def find(self, ledger_id: LedgerId) -> Ledger:
        return Ledger(ledger_id, b"key")

    def is_in_index(self, ledger_id: LedgerId) -> bool:
        return True

    def held(self, ledger_id: LedgerId) -> list[list[EntryId]]:
        return [[EntryId(entry_id) for entry_id in self.cached]]

    def has_log_of(self, place: object) -> bool:
        return True

    async def walk_locations(self, ledger_id: LedgerId) -> AsyncIterator[list[tuple[EntryId, Any]]]:
        for one in self.slices:
            yield [(EntryId(entry_id), None) for entry_id in one]


class MovingPartition:
    """Entries 10 to 12 are indexed and 0 is cached; while the index is walked 0 moves into it, in front."""

    def __init__(self) -> None:
        self.cached = [EntryId(0)]
        self.table = self.index = self  # all of it is here

    def find(self, ledger_id: LedgerId) -> Ledger:
        return Ledger(ledger_id, b"key")

    def is_in_index(self, ledger_id: LedgerId) -> bool:
        return True

    def held(self, ledger_id: LedgerId) -> list[list[EntryId]]:
        return [self.cached]

    def has_log_of(self, place: object) -> bool:
        return True

    async def walk_locations(self, ledger_id: LedgerId) -> AsyncIterator[list[tuple[EntryId, Any]]]:
        yield [(EntryId(10), None), (EntryId(11), None)]
        self.cached.clear()  # it is in the index now, where the walk has been
        yield [(EntryId(12), None)]


def reads_of(partition: Any) -> EntryReads:
    stats = StorageStats()
    return EntryReads([partition], Routing(shapes.plain(1)), BadEntries([], stats), stats)


def test_what_reaches_the_index_behind_the_walk_is_not_missed() -> None:
    reads = reads_of(MovingPartition())

    assert asyncio.run(reads.entry_ranges(LEDGER)) == [(0, 0), (10, 12)]


@pytest.mark.parametrize("seed", range(8))
def test_the_pieces_of_a_list_are_its_runs_ascending_and_apart(seed: int) -> None:
    """More of it in caches than one piece and one sort take, in any order, beside and between slices of the index."""
    chance = random.Random(seed)
    ids = chance.sample(range(60_000), chance.choice([3, 5_000, 40_000, 60_000]))
    indexed = sorted(chance.sample(ids, len(ids) // chance.choice([2, 10])))
    cached = [entry_id for entry_id in ids if chance.random() < 0.3] + list(set(ids) - set(indexed))
    slices = [[], *(indexed[start : start + 512] for start in range(0, len(indexed), 512)), []]
    pieces: list[list[IdRange]] = []
    partition = StillPartition(slices, cached)

    asyncio.run(reads_of(partition).whole_list(LEDGER, pieces.append))

    runs = [run for piece in pieces for run in piece]
    assert [entry_id for first, last in runs for entry_id in range(first, last + 1)] == sorted(ids)
    assert all(before[1] + 1 < after[0] for before, after in itertools.pairwise(runs))
    assert max(map(len, pieces)) <= 1024 + 1
