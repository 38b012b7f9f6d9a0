"""What one read ahead asks the disk for: how far it reaches, and what it leaves out. Index and logs are played."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest

from bookie.base.ids import EntryId, LedgerId
from bookie.base.units import KIB, MIB
from bookie.storage.entrylog.logs import SPAN_GAP_BYTES, EntryLogs, EntryPlace, end_of
from bookie.storage.index import Index
from bookie.storage.location import Location
from bookie.storage.read_ahead import ENTRIES_MAX, DiskReadAhead
from bookie.storage.read_cache import WINDOW_BYTES_MIN, ReadCache
from bookie.storage.stats import StorageStats
from story_support import in_a_loop

LEDGER = LedgerId(7)
BODY_BYTES = 1000
RECORD_BYTES = end_of(Location(0, 0, BODY_BYTES))
PER_WINDOW = WINDOW_BYTES_MIN // RECORD_BYTES  # entries of the first read ahead


class Disk:
    """The index and the logs of one ledger: entries one after the other, where a test does not say otherwise."""

    def __init__(self, count: int = 1000, *, size: int = BODY_BYTES) -> None:
        self.rows: dict[int, Location] = {}
        self.asked: list[tuple[int, list[int]]] = []  # log and entries of each read
        self.gates: list[asyncio.Event] = []  # each read waits for one of these, while there are any
        offset = 0
        for entry_id in range(count):
            self.rows[entry_id] = location = Location(1, offset, size)
            offset = end_of(location)

    def move(self, first: int, *, log_id: int | None = None, more: int = 0) -> None:
        """Move the entries from `first` on to another log, or further away in theirs."""
        for entry_id, row in self.rows.items():
            if entry_id >= first:
                self.rows[entry_id] = Location(log_id or row.log_id, row.offset + more, row.size)

    def place(self, entry_id: int) -> EntryPlace:
        return EntryPlace(LEDGER, EntryId(entry_id), self.rows[entry_id])

    def locations(self, _: LedgerId, first: EntryId) -> Iterator[tuple[EntryId, Location]]:
        return ((EntryId(each), self.rows[each]) for each in sorted(self.rows) if each >= first)

    async def read_many(self, log_id: int, places: Sequence[EntryPlace]) -> list[bytes | None]:
        self._note(log_id, places)
        if self.gates:
            await self.gates.pop(0).wait()
        return [bytes(each.location.size) for each in places]

    def read_many_nowait(self, log_id: int, places: Sequence[EntryPlace]) -> list[bytes | None]:
        self._note(log_id, places)
        return [bytes(each.location.size) for each in places]

    def _note(self, log_id: int, places: Sequence[EntryPlace]) -> None:
        self.asked.append((log_id, [each.entry_id for each in places]))


def reading(disk: Disk, *, window_bytes_max: int = 1 * MIB) -> DiskReadAhead:
    cache, stats = ReadCache(64 * MIB), StorageStats()
    index, logs = cast(Index, disk), cast(EntryLogs, disk)
    return DiskReadAhead(index, logs, cache, stats, window_bytes_max=window_bytes_max)


async def read(ahead: DiskReadAhead, disk: Disk, *entry_ids: int) -> None:
    found = await ahead.read_many([disk.place(each) for each in entry_ids])
    assert None not in found


@in_a_loop
async def test_what_a_batch_in_order_has_planned_already_is_neither_planned_again_nor_a_new_beginning() -> None:
    disk = Disk()
    ahead = reading(disk)
    await read(ahead, disk, 0)

    await read(ahead, disk, 1, 2, 3, 4)
    await read(ahead, disk, PER_WINDOW + 1, PER_WINDOW + 2)

    sizes = [len(entries) for _, entries in disk.asked]
    assert sizes == [1, PER_WINDOW, 2 * WINDOW_BYTES_MIN // RECORD_BYTES], "the window doubles"
    assert disk.asked[2][1][0] == PER_WINDOW + 1


@in_a_loop
async def test_all_windows_of_a_batch_together_are_no_larger_than_one_may_be() -> None:
    """A hundred clients' batches, each of windows in a row, would bring what no memory holds."""
    disk = Disk()
    ahead = reading(disk, window_bytes_max=2 * WINDOW_BYTES_MIN)
    await read(ahead, disk, 0)
    first, second, third = 1, PER_WINDOW + 10, 3 * PER_WINDOW

    await read(ahead, disk, first, second, third, third + 1)

    entries = disk.asked[1][1]
    assert entries[:PER_WINDOW] == list(range(first, first + PER_WINDOW))
    assert entries[-2:] == [third, third + 1], "the last ones are read, and nothing after them"
    rest = entries[PER_WINDOW:-2]
    assert rest[0] == second
    assert PER_WINDOW <= len(rest) <= PER_WINDOW + 1


@pytest.mark.parametrize("way", ["waits", "does not wait"])
@in_a_loop
async def test_a_read_ahead_ends_where_another_log_or_a_wide_gap_begins(*, way: str) -> None:
    second = PER_WINDOW + 1  # a window that is wide enough for the gap, too
    for change in ({"log_id": 2}, {"more": SPAN_GAP_BYTES + 1}):
        disk = Disk()
        disk.move(second + 5, **cast(dict[str, Any], change))
        ahead = reading(disk)
        await read(ahead, disk, 0)
        await read(ahead, disk, 1)
        if way == "waits":
            await read(ahead, disk, second)
        else:
            assert ahead.read_nowait(disk.place(second)) is not None

        assert disk.asked[2:] == [(1, list(range(second, second + 5)))], change

    disk = Disk()
    disk.move(second + 5, more=1 * KIB)
    ahead = reading(disk)
    for entry_id in (0, 1, second):
        await read(ahead, disk, entry_id)
    assert len(disk.asked[2][1]) > 5, "a narrow one costs less than another read"


@in_a_loop
async def test_a_read_ahead_brings_a_bounded_number_of_entries_however_small_they_are() -> None:
    disk = Disk(10 * ENTRIES_MAX, size=10)
    ahead = reading(disk)
    await read(ahead, disk, 0)
    await read(ahead, disk, 1)
    assert len(disk.asked[1][1]) == ENTRIES_MAX


@in_a_loop
async def test_of_two_reads_under_way_the_first_that_lands_leaves_the_other_in_the_air() -> None:
    disk = Disk()
    ahead = reading(disk)
    await read(ahead, disk, 0)
    disk.gates = [first_may, second_may] = [asyncio.Event(), asyncio.Event()]
    first = asyncio.ensure_future(read(ahead, disk, 1))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(read(ahead, disk, PER_WINDOW + 1))
    await asyncio.sleep(0)

    first_may.set()
    await first
    landing = ahead.flight_with(LEDGER, EntryId(PER_WINDOW + 2))
    assert landing is not None
    assert not landing.is_set()
    second_may.set()
    await second

    assert landing.is_set()
    assert ahead.flight_with(LEDGER, EntryId(PER_WINDOW + 2)) is None
