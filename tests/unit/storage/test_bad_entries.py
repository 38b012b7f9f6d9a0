"""What is known of bad entries: who finds them, what is no find, what outlives the process, and where the list ends."""

from __future__ import annotations

from typing import Any

import pytest

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.sim.node import ProcessEnd
from bookie.storage import bad_entries
from bookie.storage.entrylog.logs import EntryPlace
from bookie.storage.location import Location
from bookie.storage.partition import Partition
from bookie.storage.scrub import Scrubber
from bookie.storage.scrub_options import ScrubOptions
from bookie.storage.store import EntryStore
from storage_support import KEY, Bench, entry, run
from story_support import story

PAYLOAD = bytes(300)
LEDGER = LedgerId(2)


async def stored(bench: Bench, store: EntryStore) -> None:
    for ledger_id in range(1, 5):
        await bench.put_all(store, ledger_id, range(10), payload=PAYLOAD)
    await store.flush()


def known(store: EntryStore) -> list[tuple[int, int]]:
    return [(bad.ledger_id, bad.entry_id) for bad in store.bad_entries.listed()]


async def meet(store: EntryStore, *entry_ids: int) -> None:
    for entry_id in entry_ids:
        with pytest.raises(errors.StorageFailed):
            await store.read(LEDGER, EntryId(entry_id))


@pytest.mark.parametrize("way", ["read", "batch", "nowait"])
@story(run)
async def test_whoever_reads_finds_it_once(bench: Bench, *, way: str) -> None:
    async def write(store: EntryStore) -> None:
        await stored(bench, store)

    async def read(store: EntryStore) -> None:
        bench.rot_entry(store, LEDGER, 3)
        bench.node.disk_faults.must_wait_percent = 0
        await store.read(LEDGER, EntryId(9))  # opens the log
        for _ in range(2):
            match way:
                case "read":
                    await meet(store, 3)
                case "batch":
                    answers = await store.read_many(LEDGER, [EntryId(0), EntryId(3)])
                    assert isinstance(answers[1], errors.CorruptFile)
                case _:
                    with pytest.raises(errors.CorruptFile):
                        store.read_nowait(LEDGER, EntryId(3))
        assert known(store) == [(2, 3)]
        assert (store.bad_entries.found, store.stats.scrub_bad) == (1, 1)
        assert store.bad_entries.of(LEDGER) == [3]
        assert store.bad_entries.of(LedgerId(1)) == []

    await bench.life(write)
    await bench.life(read)


@story(run)
async def test_what_is_known_outlives_the_process_until_a_copy_took_its_place(bench: Bench) -> None:
    async def first(store: EntryStore) -> None:
        await stored(bench, store)

    async def second(store: EntryStore) -> None:
        for entry_id in (3, 4, 5):
            bench.rot_entry(store, LEDGER, entry_id)
        await meet(store, 5, 3, 4)
        await bench.put_all(store, 9, [0])  # a hint is durable with a checkpoint that has something to write
        await store.flush()

    async def third(store: EntryStore) -> None:
        assert sorted(known(store)) == [(2, 3), (2, 4), (2, 5)]
        assert (store.bad_entries.found, store.stats.scrub_bad) == (3, 3)
        store.add_copied(LEDGER, EntryId(3), entry(2, 3, payload=PAYLOAD), KEY)
        store.bad_entries.forget_gone()
        assert len(store.bad_entries) == 3  # its copy is not durable yet: after a crash it is bad again
        await store.flush()
        store.bad_entries.forget_gone()
        assert (store.bad_entries.of(LEDGER), store.stats.scrub_bad, store.bad_entries.found) == ([4, 5], 2, 3)
        await bench.put_all(store, 9, [1])
        await store.flush()

    async def fourth(store: EntryStore) -> None:
        assert store.bad_entries.of(LEDGER) == [4, 5]
        store.delete_ledger(LEDGER)
        store.bad_entries.forget_gone()
        await store.flush()

    async def fifth(store: EntryStore) -> None:
        assert (known(store), store.bad_entries.found) == ([], 0)

    await bench.life(first)
    await bench.life(second, end=ProcessEnd.POWER_CUT)
    await bench.life(third, end=ProcessEnd.POWER_CUT)
    await bench.life(fourth)
    await bench.life(fifth)


@story(run)
async def test_what_moved_while_an_older_life_knew_it_is_not_bad(bench: Bench) -> None:
    """A version of this program that keeps no list compacted or mended it between two lives that do."""

    async def first(store: EntryStore) -> None:
        await stored(bench, store)

    async def second(store: EntryStore) -> None:
        bench.rot_entry(store, LEDGER, 3)
        await meet(store, 3)
        store.add_copied(LEDGER, EntryId(3), entry(2, 3, payload=PAYLOAD), KEY)
        await store.flush()

    async def third(store: EntryStore) -> None:
        assert known(store) == []

    await bench.life(first)
    await bench.life(second)
    await bench.life(third)


@pytest.mark.parametrize("row", [b"odd", b"\xff" * 28, b"\x00" * 28])
@story(run)
async def test_a_list_that_makes_no_sense_stops_nobody(bench: Bench, *, row: bytes) -> None:
    async def first(store: EntryStore) -> None:
        await stored(bench, store)
        store.partitions[0].index.put_meta("scrub-bad", row)
        await store.flush()

    async def second(store: EntryStore) -> None:
        assert known(store) == []
        assert bytes(await store.read(LEDGER, EntryId(3))) == entry(2, 3, payload=PAYLOAD)

    await bench.life(first)
    await bench.life(second)


class Failing:
    """A log file whose disk does not give some bytes."""

    def __init__(self, file: Any, offset: int) -> None:
        self._file = file
        self._offset = offset

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def pread_nowait(self, offset: int, size: int) -> None:
        return None

    async def pread_many(self, spans: Any) -> list[bytes]:
        if any(offset <= self._offset < offset + size for offset, size in spans):
            raise errors.StorageFailed("read: input/output error")
        found: list[bytes] = await self._file.pread_many(spans)
        return found


@story(run)
async def test_a_sector_that_the_disk_does_not_read_is_a_bad_entry_and_is_fetched_like_one(bench: Bench) -> None:
    async def first(store: EntryStore) -> None:
        await stored(bench, store)

    async def second(store: EntryStore) -> None:
        (partition,) = store.partitions
        location = partition.locate(LEDGER, EntryId(3))
        assert location is not None
        await store.read(LedgerId(4), EntryId(9))  # opens the log
        files = partition.logs._files
        whole = files[location.log_id]
        files[location.log_id] = Failing(whole, location.offset + 50)
        assert not await store.check_entry(LEDGER, EntryId(3))
        assert await store.check_entry(LEDGER, EntryId(4))
        await meet(store, 3)
        assert known(store) == [(2, 3)]
        files[location.log_id] = whole  # it was a fault that passes
        assert await store.check_entry(LEDGER, EntryId(3))
        assert known(store) == []

    await bench.life(first)
    await bench.life(second)


def place(store: EntryStore, ledger_id: int, entry_id: int) -> tuple[Partition, EntryPlace]:
    (partition,) = store.partitions
    location = partition.locate(LedgerId(ledger_id), EntryId(entry_id))
    assert location is not None
    return partition, EntryPlace(LedgerId(ledger_id), EntryId(entry_id), location)


@story(run)
async def test_what_says_nothing_about_the_entry_is_no_find(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await stored(bench, store)
        partition, here = place(store, 2, 3)
        store.bad_entries.add(partition, here, errors.OutOfResources("no descriptor"))
        elsewhere = here._replace(location=Location(here.location.log_id, here.location.offset + 4096, 10))
        store.bad_entries.add(partition, elsewhere, errors.CorruptFile("an old place"))
        partition.failure = errors.PartitionFailed("the whole directory is gone")
        store.bad_entries.add(partition, here, errors.CorruptFile("of a failed directory"))
        assert store.bad_entries.found == 0
        partition.failure = None

    await bench.life(work)


@story(run)
async def test_where_the_list_is_full_the_ledgers_that_have_more_are_known(
    bench: Bench, *, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bad_entries, "BAD_MAX", 12)
    monkeypatch.setattr(bad_entries, "MORE_MAX", 2)

    async def first(store: EntryStore) -> None:
        await stored(bench, store)

    async def second(store: EntryStore) -> None:
        for ledger_id in range(1, 5):
            for entry_id in range(10):
                bench.rot_entry(store, ledger_id, entry_id)
        options = ScrubOptions(interval_ms=1, bytes_per_s=None)
        scrubber = Scrubber(store.partitions, store.bad_entries, store.stats, options, bench.node.world.clock)
        await scrubber._whole_pass()
        assert len(known(store)) == 12
        assert store.bad_entries.more == {2, 3}
        assert store.bad_entries.found == 14

    await bench.life(first)
    await bench.life(second)
