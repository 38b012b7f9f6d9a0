"""Garbage collection: only what is proven gone, only logs that nothing points into."""

import asyncio

import pytest

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.sim.disk import WriteFault
from bookie.sim.disk_image import StoreImage
from bookie.sim.node import ProcessEnd
from bookie.storage import checkpoint
from bookie.storage.collect import collector
from bookie.storage.store import EntryStore
from storage_support import KEY, Bench, entry, run
from story_support import story


@story(run, entry_log_bytes_max=4096)
async def test_ledgers_proven_absent_go_with_their_logs_and_the_others_stay(bench: Bench) -> None:
    async def is_absent(ledger_id: LedgerId) -> bool:
        return ledger_id < 10

    async def first(store: EntryStore) -> None:
        for round_ in range(3):
            await bench.put_all(store, round_, range(5), payload=bytes(2000))
            await bench.put_all(store, 10 + round_ % 2, [round_], payload=bytes(10))
            if round_ == 1:
                await bench.put_all(store, 20, [0])
            await store.flush()
        assert len(bench.paths(".log")) == 3
        found = await collector.collect(store, is_absent)
        assert (found.ledgers_seen, found.ledgers_deleted) == (6, 3)

    async def second(store: EntryStore) -> None:
        assert [ledger async for ledger in store.ledgers()] == [10, 11, 20]
        assert await bench.read(store, 20, 0) == entry(20, 0)
        assert await bench.read(store, 11, 1) == entry(11, 1, payload=bytes(10))

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(second)


@story(run, entry_log_bytes_max=4096)
async def test_a_log_without_live_ledgers_is_removed_and_its_id_never_comes_back(bench: Bench) -> None:
    async def is_absent(ledger_id: LedgerId) -> bool:
        return ledger_id == 7

    async def first(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(5), payload=bytes(2000))
        await store.flush()
        await bench.put_all(store, 8, [0])
        await store.flush()
        found = await collector.collect(store, is_absent)
        assert found.logs_dropped == 1
        assert await bench.read(store, 8, 0) == entry(8, 0)

    async def second(store: EntryStore) -> None:
        assert [path[-12:] for path in bench.paths(".log")] == ["00000001.log"]
        assert await bench.read(store, 8, 0) == entry(8, 0)
        await bench.put_all(store, 8, [1])
        await store.flush()
        assert [path[-12:] for path in bench.paths(".log")] == ["00000001.log", "00000002.log"]

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(second)


@story(run)
async def test_nothing_is_deleted_on_a_doubt(bench: Bench) -> None:
    async def gone(ledger_id: LedgerId) -> bool:
        return True

    async def silent(ledger_id: LedgerId) -> bool:
        raise errors.MetadataError("no answer")

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, [0])
        with pytest.raises(errors.MetadataError):
            await collector.collect(store, silent)
        store.is_doubtful = True
        assert (await collector.collect(store, gone)).ledgers_deleted == 0
        store.is_doubtful = False
        await store.protect([(LedgerId(7), True, True, KEY)])
        found = await collector.collect(store, gone)
        assert (found.ledgers_seen, found.ledgers_deleted) == (0, 0)  # nor is it one of which others are a share
        assert await bench.read(store, 7, 0) == entry(7, 0)

    await bench.life(work)


@story(run)
async def test_an_answer_that_ends_the_node_ends_the_run_before_anything_is_deleted(bench: Bench) -> None:
    async def broken(ledger_id: LedgerId) -> bool:
        if ledger_id == 8:
            raise errors.DiskFailed("the index cannot be read any more")
        return True

    async def work(store: EntryStore) -> None:
        for ledger_id in (7, 8, 9):
            await bench.put_all(store, ledger_id, [0])
        with pytest.raises(errors.DiskFailed):
            await collector.collect(store, broken)
        assert [ledger_id async for ledger_id in store.ledgers()] == [7, 8, 9]

    await bench.life(work)


@story(run)
async def test_many_are_asked_about_at_once_and_what_goes_once_more_by_itself(bench: Bench) -> None:
    asked: list[tuple[LedgerId, int]] = []  # and beside how many others
    under_way = 0

    async def is_absent(ledger_id: LedgerId) -> bool:
        nonlocal under_way
        asked.append((ledger_id, under_way))
        under_way += 1
        await asyncio.sleep(0.003)
        under_way -= 1
        return ledger_id % 20 == 0

    async def work(store: EntryStore) -> None:
        for ledger_id in range(100):
            await bench.put_all(store, ledger_id, [0])
        found = await collector.collect(store, is_absent)

        assert (found.ledgers_seen, found.ledgers_deleted) == (100, 5)
        first, again = asked[:100], asked[100:]
        assert [ledger_id for ledger_id, _ in first] == list(range(100))
        assert max(beside for _, beside in first) == 31  # bounded, whatever the number of ledgers
        assert again == [(ledger_id, 0) for ledger_id in range(0, 100, 20)]

    await bench.life(work)


@story(run)
async def test_answers_that_time_out_after_the_others_are_no_silence(bench: Bench) -> None:
    """Of one ledger in four nobody can tell; of 32 asked at once these eight end last, one after the other."""

    async def is_absent(ledger_id: LedgerId) -> bool:
        if ledger_id % 4 == 0:
            await asyncio.sleep(5)
            raise errors.MetadataError(f"no answer about ledger {ledger_id}")
        return True

    async def work(store: EntryStore) -> None:
        for ledger_id in range(1, 65):
            await bench.put_all(store, ledger_id, [0])
        found = await collector.collect(store, is_absent)

        assert (found.ledgers_seen, found.ledgers_deleted) == (64, 48)

    await bench.life(work)


@story(run)
async def test_of_many_answers_at_once_the_one_that_ends_the_node_is_not_hidden_by_another(bench: Bench) -> None:
    async def broken(ledger_id: LedgerId) -> bool:
        if ledger_id == 11:
            raise errors.DiskFailed("the index cannot be read any more")
        raise errors.MetadataError("no answer")

    async def work(store: EntryStore) -> None:
        for ledger_id in range(12):
            await bench.put_all(store, ledger_id, [0])
        with pytest.raises(errors.DiskFailed):
            await collector.collect(store, broken)

    await bench.life(work)


@story(run, entry_log_bytes_max=4096)
async def test_a_sync_that_fails_after_a_log_was_removed_is_not_passed_over(bench: Bench) -> None:
    """A log that the disk does not remove stays for another run; after a failed sync nothing is known
    (spec/storage.md#F4)."""

    async def work(store: EntryStore) -> None:
        for ledger_id in (7, 8, 9):  # a log each
            await bench.put_all(store, ledger_id, range(5), payload=bytes(2000))
            await store.flush()
        store.delete_ledger(LedgerId(7))
        await store.flush()
        faults = bench.node.disk_faults
        faults.fails_path, faults.fails_as = "/ledgers/current", WriteFault.BROKEN
        faults.fails_at_write = bench.node.disk.writes + 1  # the removal
        assert await collector.drop_dead_logs(store) == 0
        faults.fails_at_write = 0
        store.delete_ledger(LedgerId(8))
        await store.flush()
        faults.fails_at_write = bench.node.disk.writes + 2  # the sync of names after it
        with pytest.raises(errors.DiskFailed):
            await collector.drop_dead_logs(store)

    await bench.life(work, end=ProcessEnd.KILL)


@story(run, entry_log_bytes_max=4096)
async def test_a_log_that_the_disk_did_not_remove_goes_with_the_next_run(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        for ledger_id in (7, 8):  # a log each
            await bench.put_all(store, ledger_id, range(5), payload=bytes(2000))
            await store.flush()
        store.delete_ledger(LedgerId(7))
        await store.flush()
        faults = bench.node.disk_faults
        faults.fails_path, faults.fails_as = "/ledgers/current", WriteFault.BROKEN
        faults.fails_at_write = bench.node.disk.writes + 1  # the removal
        assert await collector.drop_dead_logs(store) == 0
        assert len(bench.paths(".log")) == 2
        faults.fails_at_write = 0

        assert await collector.drop_dead_logs(store) == 1

        assert [path[-12:] for path in bench.paths(".log")] == ["00000001.log"]
        assert await bench.read(store, 8, 0) == entry(8, 0, payload=bytes(2000))

    await bench.life(work)


@pytest.mark.parametrize("question", [1, 2])
@story(run)
async def test_a_ledger_that_may_be_lost_since_it_was_asked_about_is_kept(bench: Bench, *, question: int) -> None:
    """The answer was on its way when the mark was made; the second question is that before the deletion."""

    async def told(store: EntryStore) -> None:
        await bench.put_all(store, 7, [0])
        asked: list[LedgerId] = []

        async def is_absent(ledger_id: LedgerId) -> bool:
            asked.append(ledger_id)
            if len(asked) == question:
                await store.protect([(ledger_id, False, True, KEY)])
            return True

        found = await collector.collect(store, is_absent)

        assert (found.ledgers_deleted, len(asked)) == (0, question)
        assert await bench.read(store, 7, 0) == entry(7, 0)

    await bench.life(told)


@story(run, entry_log_bytes_max=4096)
async def test_logs_written_while_a_checkpoint_runs_are_left_alone(
    bench: Bench, *, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that it has filled already: no row of the index says yet what they hold."""
    monkeypatch.setattr(checkpoint, "LOG_BATCH_BYTES", 4096)

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(30), payload=bytes(2000))
        flush = bench.simulation.loop.create_task(store.flush())
        while not flush.done():
            assert await collector.drop_dead_logs(store) == 0
            await bench.simulation.loop.sleep_ns(10_000)
        await flush
        assert len(bench.paths(".log")) > 5
        assert await collector.drop_dead_logs(store) == 0
        assert await store.entry_ranges(LedgerId(7)) == [(0, 29)]
        assert await bench.read(store, 7, 29) == entry(7, 29, payload=bytes(2000))

    await bench.life(work)


@pytest.mark.parametrize("kept", range(10))
@story(run)
async def test_an_entry_found_again_after_a_cut_in_a_checkpoint_keeps_its_log(
    bench: Bench, *, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not in the journal: a copy, whose location RocksDB flushed by itself before the power failed. Integrity finds it
    # present and copies nothing, so the log it is in must not look dead.
    def cut(image: StoreImage, random_: object, *, keeps_prefix: bool) -> None:
        image.make_durable(image.settled + kept)
        image.settled += len(image.batches)
        image.batches.clear()
        image.values = dict(image.durable)

    async def first(store: EntryStore) -> None:
        await store.protect([(LedgerId(7), False, True, KEY)])
        for entry_id in range(3):
            store.add_copied(LedgerId(7), EntryId(entry_id), entry(7, entry_id), KEY)
        bench.node.disk_faults.lies_about_sync = True  # of the index only the prefix of the cut is durable
        await store.flush()

    async def second(store: EntryStore) -> None:
        bench.node.disk_faults.lies_about_sync = False
        found = await store.entry_ranges(LedgerId(7))
        await bench.put_all(store, 8, [0])
        await store.flush()
        await collector.collect(store, never)
        for start, end in found:
            for entry_id in range(start, end + 1):
                assert await bench.read(store, 7, entry_id) == entry(7, entry_id)

    async def never(ledger_id: LedgerId) -> bool:
        return False

    monkeypatch.setattr(StoreImage, "process_ended", cut)
    await bench.life(first, end=ProcessEnd.KILL)
    monkeypatch.undo()
    await bench.life(second)


@story(run, entry_log_bytes_max=4096)
async def test_a_deletion_that_a_crash_would_undo_drops_no_log(bench: Bench) -> None:
    async def first(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(5), payload=bytes(2000))
        await store.flush()
        await bench.put_all(store, 8, [0])
        await store.flush()
        store.delete_ledger(LedgerId(7))
        assert await collector.drop_dead_logs(store) == 0

    async def second(store: EntryStore) -> None:
        assert await bench.read(store, 7, 4) == entry(7, 4, payload=bytes(2000))
        store.delete_ledger(LedgerId(7))
        await store.flush()
        assert await collector.drop_dead_logs(store) == 1

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(second)
