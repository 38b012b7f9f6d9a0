"""Reading in order: few reads of the disk, and never an entry other than the index's."""

from typing import Any

import pytest

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.sim.disk import DiskFaults
from bookie.sim.faults import Dials
from bookie.storage.entrylog import logs
from bookie.storage.store import EntryStore
from storage_support import Bench, entry, put, run
from story_support import story

LEDGER = LedgerId(7)
COUNT = 200
PAYLOAD = bytes(500)


def cold(**changes: Any) -> Bench:
    """Every read waits for the disk."""
    return Bench(dials=Dials(disk=lambda name: DiskFaults(must_wait_percent=100)), **changes)


async def stored(bench: Bench, store: EntryStore) -> None:
    for ledger_id in (7, 8):
        await bench.put_all(store, ledger_id, range(COUNT), payload=PAYLOAD)
    await store.flush()


async def expect(bench: Bench, store: EntryStore, entry_id: int, ledger_id: int = 7) -> None:
    assert await bench.read(store, ledger_id, entry_id) == entry(ledger_id, entry_id, payload=PAYLOAD)


@pytest.mark.parametrize("step", [1, 3])
@story(run, cold)
async def test_a_reader_in_order_asks_the_disk_rarely(bench: Bench, *, step: int) -> None:
    async def work(store: EntryStore) -> None:
        await stored(bench, store)
        before = store.stats.disk_reads
        for entry_id in range(0, COUNT, step):
            await expect(bench, store, entry_id)
        assert store.stats.disk_reads - before < 8
        assert store.stats.read_cache_hits > COUNT // step - 8

    await bench.life(work)


@story(run, cold)
async def test_readers_of_one_ledger_at_a_time_share_what_is_fetched(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await stored(bench, store)
        loop, before = bench.simulation.loop, bench.node.disk.operations
        for start in range(0, COUNT, 20):
            tasks = [loop.create_task(expect(bench, store, start + number)) for number in range(20)]
            for task in tasks:
                await task
        assert bench.node.disk.operations - before < 20

    await bench.life(work)


@story(run, cold)
async def test_a_reader_out_of_order_pays_for_nothing_ahead(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await stored(bench, store)
        for number in range(40):
            await expect(bench, store, number * 89 % COUNT)
        assert store.stats.read_ahead_entries == 0

    await bench.life(work)


@story(run, cold, read_cache_bytes_max=0)
async def test_without_a_cache_every_read_is_one_of_the_disk(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await stored(bench, store)
        for entry_id in range(20):
            await expect(bench, store, entry_id)
        assert (store.stats.disk_reads, store.stats.read_cache_hits) == (20, 0)

    await bench.life(work)


@story(run, cold)
async def test_an_entry_written_anew_is_read_as_it_was_written_last(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await stored(bench, store)
        for entry_id in range(10):
            await expect(bench, store, entry_id)
        await bench.settle(put(store, 7, 20, payload=b"newer", is_recovery=True))
        assert await bench.read(store, 7, 20) == entry(7, 20, payload=b"newer")
        await store.flush()
        assert await bench.read(store, 7, 20) == entry(7, 20, payload=b"newer")
        await expect(bench, store, 21)

    await bench.life(work)


@story(run, cold)
async def test_a_read_under_way_while_a_checkpoint_moves_the_entry_keeps_nothing(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await stored(bench, store)
        await expect(bench, store, 0)
        faults = bench.node.disk_faults
        faults.write_latency_ns = 10**10
        slow = bench.simulation.loop.create_task(store.read(LEDGER, EntryId(1)))  # and entries after it
        await bench.simulation.loop.sleep_ns(10)
        faults.write_latency_ns = 10_000
        await bench.settle(put(store, 7, 5, payload=b"newer", is_recovery=True))
        await store.flush()
        assert not slow.done()
        await slow
        assert await bench.read(store, 7, 5) == entry(7, 5, payload=b"newer")

    await bench.life(work)


@story(run, cold)
async def test_a_deleted_ledger_is_not_read_from_the_cache(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await stored(bench, store)
        for entry_id in range(5):
            await expect(bench, store, entry_id)
        store.delete_ledger(LEDGER)
        with pytest.raises(errors.NoSuchLedger):
            await bench.read(store, 7, 3)
        await expect(bench, store, 3, ledger_id=8)

    await bench.life(work)


@story(run, cold)
async def test_one_entry_that_does_not_check_is_one_error_and_its_neighbours_are_read(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await stored(bench, store)
        (partition,) = store.partitions
        location = partition.index.locate(LEDGER, EntryId(30))
        assert location is not None
        bench.rot(".log", location.offset + 100)
        loop = bench.simulation.loop
        for start in range(0, 60, 20):
            tasks = [
                loop.create_task(expect(bench, store, number)) for number in range(start, start + 20) if number != 30
            ]
            if start == 20:
                with pytest.raises(errors.CorruptFile, match="entry 30 of ledger 7"):
                    await bench.read(store, 7, 30)
            for task in tasks:
                await task

    await bench.life(work)


@story(run, cold)
async def test_a_check_looks_at_the_disk_and_not_at_the_cache(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await stored(bench, store)
        for entry_id in range(3):
            await expect(bench, store, entry_id)
        (partition,) = store.partitions
        location = partition.index.locate(LEDGER, EntryId(2))
        assert location is not None
        assert await store.check_entry(LEDGER, EntryId(2))
        bench.rot(".log", location.offset + 100)
        await expect(bench, store, 2)
        assert not await store.check_entry(LEDGER, EntryId(2))

    await bench.life(work)


@story(run, cold, entry_log_bytes_max=4096, read_cache_bytes_max=0)
async def test_handles_of_many_logs_are_closed_and_opened_again(
    bench: Bench, *, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "FILES_MAX", 3)

    async def work(store: EntryStore) -> None:
        (partition,) = store.partitions
        for entry_id in range(12):
            await bench.put_all(store, 7, [entry_id], payload=bytes(5000))
            await store.flush()
        loop = bench.simulation.loop
        for _ in range(3):
            await bench.put_all(store, 8, [0, 1], payload=bytes(5000))  # a writer beside the readers
            flush = loop.create_task(store.flush())
            reads = [loop.create_task(bench.read(store, 7, entry_id)) for entry_id in range(12)]
            await flush
            for entry_id, read in enumerate(reads):
                assert await read == entry(7, entry_id, payload=bytes(5000))
            assert len(partition.logs._files) <= 3 + 12
            await bench.read(store, 7, 3)
        for entry_id in range(12):
            await store.check_entry(LEDGER, EntryId(entry_id))
        assert len(partition.logs._files) <= 5

    await bench.life(work)
