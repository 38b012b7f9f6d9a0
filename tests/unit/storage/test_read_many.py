"""Many reads with one hop to the disk: each gets what it would have got alone, whatever happens meanwhile."""

from typing import Any

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import LAST_ENTRY, EntryId, LedgerId
from bookie.base.units import KIB
from bookie.sim.disk import DiskFaults
from bookie.sim.faults import Dials
from bookie.storage import reads
from bookie.storage.store import EntryStore
from storage_support import Bench, entry, put, run
from story_support import story

COUNT = 200
PAYLOAD = bytes(500)
Answer = bytes | type[BookieError]


def cold(**changes: Any) -> Bench:
    """Every read waits for the disk."""
    return Bench(dials=Dials(disk=lambda name: DiskFaults(must_wait_percent=100)), **changes)


def whole(entry_id: int) -> bytes:
    return entry(7, entry_id, payload=PAYLOAD)


async def answers(store: EntryStore, *entry_ids: int, ledger_id: int = 7) -> list[Answer]:
    """Bodies, or the classes of errors."""
    wanted = [EntryId(entry_id) for entry_id in entry_ids]
    found = await store.read_many(LedgerId(ledger_id), wanted)
    return [type(each) if isinstance(each, BookieError) else bytes(each) for each in found]


async def stored(bench: Bench, store: EntryStore) -> None:
    await bench.put_all(store, 7, range(COUNT), payload=PAYLOAD)
    await store.flush()


@story(run, cold)
async def test_a_batch_out_of_order_is_one_operation_of_the_disk_and_reads_nothing_ahead(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await stored(bench, store)
        before = bench.node.disk.operations
        wanted = [number * 89 % COUNT for number in range(40)]
        assert await answers(store, *wanted) == [whole(entry_id) for entry_id in wanted]
        assert bench.node.disk.operations == before + 1
        assert store.stats.read_ahead_entries == 0

    await bench.life(work)


@story(run, cold)
async def test_a_batch_in_order_brings_what_follows_it_too(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await stored(bench, store)
        before = bench.node.disk.operations
        assert await answers(store, *range(40)) == [whole(entry_id) for entry_id in range(40)]
        assert bench.node.disk.operations == before + 1
        assert store.stats.read_ahead_entries > 20
        assert await answers(store, *range(40, 60)) == [whole(entry_id) for entry_id in range(40, 60)]
        assert bench.node.disk.operations == before + 1

    await bench.life(work)


@story(run, cold)
async def test_everybody_gets_what_a_read_alone_would_have_told_him(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await stored(bench, store)
        bench.rot_entry(store, 7, 120)
        await bench.settle(put(store, 7, 300, payload=b"fresh"))

        told = await answers(store, 50, 120, 250, 51, 300, 50, LAST_ENTRY)

        fresh = entry(7, 300, payload=b"fresh")
        assert told == [whole(50), errors.CorruptFile, errors.NoSuchEntry, whole(51), fresh, whole(50)]
        assert await answers(store, LAST_ENTRY, 50) == [fresh]
        assert await answers(store, 0, 1, ledger_id=8) == [errors.NoSuchLedger] * 2
        await store.protect([(LedgerId(7), True, True, None)], epoch=1)
        assert await answers(store, 60, 250) == [whole(60), errors.UnknownLedgerState]

    await bench.life(work)


@story(run, cold)
async def test_an_entry_that_is_written_anew_is_never_the_one_read_ahead_beside_it(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await stored(bench, store)
        await answers(store, 0)
        await bench.settle(put(store, 7, 5, payload=b"newer", is_recovery=True))
        assert await answers(store, 1, 2, 5) == [whole(1), whole(2), entry(7, 5, payload=b"newer")]
        assert store.stats.read_ahead_entries > 5
        await store.flush()
        assert await answers(store, 4, 5) == [whole(4), entry(7, 5, payload=b"newer")]

    await bench.life(work)


@story(run, cold)
async def test_a_batch_that_is_under_way_while_its_ledger_is_deleted_leaves_nothing_in_the_cache(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await stored(bench, store)
        bench.node.disk_faults.write_latency_ns = 10**10
        slow = bench.simulation.loop.create_task(answers(store, 10, 90, 50))
        await bench.simulation.loop.sleep_ns(10)
        bench.node.disk_faults.write_latency_ns = 10_000
        store.delete_ledger(LedgerId(7))
        await store.flush()
        await bench.put_all(store, 7, [1])
        assert not slow.done()
        await slow
        assert await answers(store, 10, 90, 1) == [errors.NoSuchEntry, errors.NoSuchEntry, entry(7, 1)]

    await bench.life(work)


@story(run, cold, entry_log_bytes_max=4096)
async def test_entries_of_many_logs_are_fetched_together(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        for entry_id in range(6):
            await bench.put_all(store, 7, [entry_id], payload=bytes(5000))
            await store.flush()
        assert await answers(store, 5, 0, 3, 1) == [entry(7, number, payload=bytes(5000)) for number in (5, 0, 3, 1)]

    await bench.life(work)


@story(run, cold, entry_log_bytes_max=4096)
async def test_a_log_that_is_gone_costs_its_own_entries_only(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        for entry_id in range(3):
            await bench.put_all(store, 7, [entry_id], payload=bytes(5000))
            await store.flush()
        (partition,) = store.partitions
        await partition.logs.remove(1)
        kept = [entry(7, entry_id, payload=bytes(5000)) for entry_id in (2, 0)]
        assert await answers(store, 2, 1, 0) == [kept[0], errors.CorruptFile, kept[1]]

    await bench.life(work)


@story(run, cold)
async def test_large_entries_come_in_answers_that_fit_into_memory(bench: Bench) -> None:
    size = reads.BATCH_BYTES_MAX // 2 - KIB

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(5), payload=bytes(size))
        await store.flush()
        assert [len(await answers(store, *range(start, 5))) for start in (0, 2, 4)] == [2, 2, 1]

    await bench.life(work)


@story(run, cold)
async def test_what_others_have_asked_for_already_fits_into_memory_too(bench: Bench) -> None:
    """Eighty clients that asked for the same 60 large entries got hundreds of them in one answer."""
    size = reads.BATCH_BYTES_MAX + KIB

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(3), payload=bytes(size))
        await store.flush()
        bench.node.disk_faults.write_latency_ns = 10**9
        slow = bench.simulation.loop.create_task(answers(store, 0))
        await bench.simulation.loop.sleep_ns(10)
        assert not slow.done()
        assert [len(await answers(store, *wanted)) for wanted in ((2, 0, 0), (0, 0, 0), (2, 0))] == [1, 1, 1]
        assert await slow == [entry(7, 0, payload=bytes(size))]
        await bench.put_all(store, 7, range(3, 6), payload=bytes(size))  # in the write cache
        assert len(await answers(store, 4, 4, 5)) == 1

    await bench.life(work)


# ---- without waiting


def here(store: EntryStore, *entry_ids: int, ledger_id: int = 7) -> list[bytes | None]:
    """What is there without waiting."""
    found = store.read_run_nowait(LedgerId(ledger_id), [EntryId(entry_id) for entry_id in entry_ids])
    return [None if body is None else bytes(body) for body in found]


def warm(**changes: Any) -> Bench:
    """Nothing waits for the disk."""
    return Bench(dials=Dials(disk=lambda name: DiskFaults(must_wait_percent=0)), **changes)


@story(run, warm)
async def test_without_waiting_the_newest_of_an_entry_is_found_wherever_it_is(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await stored(bench, store)
        assert here(store, 3, 90, 4, 3) == [whole(3), whole(90), whole(4), whole(3)]
        await bench.settle(put(store, 7, 4, payload=b"newer", is_recovery=True))
        newer = entry(7, 4, payload=b"newer")
        assert here(store, 3, 4, 5) == [whole(3), newer, whole(5)]
        bench.node.disk_faults.write_latency_ns = 10**9
        flushed = bench.simulation.loop.create_task(store.flush())
        await bench.simulation.until(lambda: store.partitions[0].flushing is not None, "a checkpoint")
        assert here(store, 4) == [newer]
        put(store, 7, 4, payload=b"newest", is_recovery=True)
        newest = entry(7, 4, payload=b"newest")
        assert here(store, 4) == [newest]
        bench.node.disk_faults.write_latency_ns = 10_000
        await flushed
        assert here(store, 4) == [newest]
        await store.flush()
        assert here(store, 4) == [newest]
        assert store.stats.cache_hits == 4

    await bench.life(work)


@story(run, warm)
async def test_without_waiting_nothing_is_ever_denied(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await stored(bench, store)
        bench.rot_entry(store, 7, 120)
        assert here(store, 50, 120, 250, LAST_ENTRY) == [whole(50), None, None, None]
        assert here(store, 0, 1, ledger_id=8) == [None, None]
        store.delete_ledger(LedgerId(7))
        assert here(store, 50, 51) == [None, None]

    await bench.life(work)


@story(run, warm)
async def test_without_waiting_a_reader_in_order_is_read_ahead_for_and_others_are_not(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await stored(bench, store)
        assert None not in here(store, *[number * 89 % COUNT for number in range(40)])
        assert store.stats.read_ahead_entries == 0
        assert here(store, *range(40)) == [whole(entry_id) for entry_id in range(40)]
        assert 20 < store.stats.read_ahead_entries < 100, "each stretch is read once"

    await bench.life(work)


@story(run, cold)
async def test_what_is_on_its_way_is_not_fetched_a_second_time(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await stored(bench, store)
        bench.node.disk_faults.must_wait_percent = 100
        await answers(store, 0)
        bench.node.disk_faults.write_latency_ns = 10**9
        slow = bench.simulation.loop.create_task(answers(store, 1, 2, 3))
        await bench.simulation.loop.sleep_ns(10)
        bench.node.disk_faults.must_wait_percent = 0
        assert here(store, 2, 90) == [None, whole(90)]
        assert await slow == [whole(entry_id) for entry_id in (1, 2, 3)]

    await bench.life(work)


@story(run, warm)
async def test_without_waiting_no_more_is_fetched_than_fits_into_memory(bench: Bench) -> None:
    size = reads.BATCH_BYTES_MAX // 2 - KIB

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(0, 500, 100), payload=bytes(size))
        await store.flush()
        found = here(store, *range(0, 500, 100))
        assert [body is not None for body in found] == [True, True, False, False, False]

    await bench.life(work)
