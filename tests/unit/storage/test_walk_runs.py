"""A walk of a ledger while a checkpoint moves entries from the caches to the index, behind the walk."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from bookie.base.ids import EntryId, LedgerId
from bookie.storage.ledgers import Ledger
from bookie.storage.reads import Reads
from bookie.storage.stats import StorageStats

LEDGER = LedgerId(7)


class MovingPartition:
    """Entries 10 to 12 are indexed and 0 is cached; while the index is walked 0 moves into it, in front."""

    flushing = None

    def __init__(self) -> None:
        self.cached = [EntryId(0)]
        self.table = self.active = self.index = self  # all of it is here

    def find(self, ledger_id: LedgerId) -> Ledger:
        return Ledger(ledger_id, b"key")

    def ids_of(self, ledger_id: LedgerId) -> list[EntryId]:
        return list(self.cached)

    def has_log_of(self, place: object) -> bool:
        return True

    async def walk_locations(self, ledger_id: LedgerId) -> AsyncIterator[list[tuple[EntryId, Any]]]:
        yield [(EntryId(10), None), (EntryId(11), None)]
        self.cached.clear()  # it is in the index now, where the walk has been
        yield [(EntryId(12), None)]


def test_what_reaches_the_index_behind_the_walk_is_not_missed() -> None:
    reads = Reads([MovingPartition()], StorageStats())  # type: ignore[list-item]

    assert asyncio.run(reads.walk_entry_runs(LEDGER)) == [(0, 0), (10, 12)]
