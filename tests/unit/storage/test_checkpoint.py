"""Checkpoints that fail: what they were to make durable stays, and no mark moves past it."""

import asyncio
import contextlib

import pytest

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.sim.disk import DiskFaults, WriteFault
from bookie.sim.faults import Dials
from bookie.sim.node import ProcessEnd
from bookie.storage import checkpoint
from bookie.storage.collect import collector
from bookie.storage.entrylog import format as log_format
from bookie.storage.store import EntryStore
from storage_support import KEY, Bench, Outcome, entry, put, run
from story_support import story

LEDGER = LedgerId(7)


@story(run)
async def test_entries_of_a_failed_checkpoint_survive_a_later_idle_one_and_a_kill(bench: Bench) -> None:
    async def first(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(10))
        bench.fill("/ledgers")
        for _ in range(2):
            with pytest.raises(errors.DiskFull):
                await store.flush()
        assert store.is_read_only
        assert await bench.read(store, 7, 9) == entry(7, 9)

    async def second(store: EntryStore) -> None:
        assert store.stats.entries_replayed == 10
        assert await store.entry_ranges(LEDGER) == [(0, 9)]

    await bench.life(first, end=ProcessEnd.KILL)
    bench.make_room("/ledgers")
    await bench.life(second)


@story(run)
async def test_a_failed_checkpoint_is_finished_when_there_is_room_again(bench: Bench) -> None:
    async def first(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(10))
        await bench.fence(store, 8)
        bench.fill("/ledgers", room=100)
        with pytest.raises(errors.DiskFull):
            await store.flush()
        with pytest.raises(errors.BookieReadOnly):
            put(store, 7, 10)
        await bench.put_all(store, 9, [0], is_recovery=True)
        bench.make_room("/ledgers")
        await store.flush()
        assert not store.is_read_only
        await bench.put_all(store, 7, [10])

    async def second(store: EntryStore) -> None:
        assert await store.entry_ranges(LEDGER) == [(0, 10)]
        assert await store.entry_ranges(LedgerId(9)) == [(0, 0)]
        facts = store.facts(LedgerId(8))
        assert facts is not None
        assert facts.is_fenced

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(second)
    assert not bench.failures


@story(run)
async def test_a_full_journal_refuses_and_keeps_what_it_acknowledged(bench: Bench) -> None:
    async def first(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(3))
        bench.fill("/journal", room=10)
        refused = put(store, 7, 3)
        fence = Outcome()
        store.fence(LedgerId(8), KEY, fence)
        await bench.settle(refused, fence)
        assert isinstance(refused.error, errors.DiskFull)
        assert isinstance(fence.error, errors.DiskFull)
        with pytest.raises(errors.BookieReadOnly):
            put(store, 7, 4, is_recovery=True)
        with pytest.raises(errors.BookieReadOnly):
            store.fence(LedgerId(9), KEY, Outcome())
        bench.make_room("/journal")
        await store.flush()
        assert not store.is_read_only
        await bench.put_all(store, 7, [4])
        await bench.fence(store, 9)

    async def second(store: EntryStore) -> None:
        # Entry 3 was refused, so it may be there or not; the checkpoint that made room kept it.
        assert await store.entry_ranges(LEDGER) == [(0, 4)]
        facts = store.facts(LedgerId(9))
        assert facts is not None
        assert facts.is_fenced

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(second)
    assert not bench.failures


@pytest.mark.parametrize("path", [".journal", ".log"])
@story(run)
async def test_a_failed_sync_stops_the_node_once_and_acknowledges_nothing(bench: Bench, *, path: str) -> None:
    async def first(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(3))
        bench.node.disk_faults.sync_fails_path = path
        bench.node.disk_faults.sync_fails_per_million = 1_000_000
        outcomes = [put(store, 7, 3), put(store, 7, 4)]
        flushed = Outcome()
        if path == ".log":
            with pytest.raises(errors.DiskFailed):
                await store.flush()
        await bench.settle(outcomes[0])
        assert outcomes[0].is_ok == (path == ".log")
        with pytest.raises(errors.StorageFailed):
            put(store, 7, 5)
        with pytest.raises(errors.StorageFailed):
            store.fence(LEDGER, KEY, flushed)
        with pytest.raises(errors.StorageFailed):
            await store.flush()
        bench.node.disk_faults.sync_fails_per_million = 0

    async def second(store: EntryStore) -> None:
        assert (await store.entry_ranges(LEDGER))[0][1] >= (2 if path == ".journal" else 4)

    await bench.life(first)
    assert bench.was_clean is False
    assert len(bench.failures) == 1
    assert isinstance(bench.failures[0], errors.DiskFailed)
    await bench.life(second)


@story(run)
async def test_what_waits_behind_a_failed_sync_is_refused_too(bench: Bench) -> None:
    """CONFORMANCE.md#P14, P26: the group that is on its way, and what gathers behind it."""

    async def work(store: EntryStore) -> None:
        bench.node.disk_faults.sync_fails_path = ".journal"
        bench.node.disk_faults.sync_fails_per_million = 1_000_000
        outcomes = [put(store, 7, 0)]
        for number in range(1, 6):
            await asyncio.sleep(0)
            outcomes.append(put(store, 7, number))
        fenced = Outcome()
        store.fence(LedgerId(8), KEY, fenced)
        outcomes.append(fenced)
        await bench.settle(*outcomes)
        assert [outcome.is_ok for outcome in outcomes] == [False] * len(outcomes)

    await bench.life(work)


@story(run, journal_write_data=False, unjournaled_flush_interval_ms=3_600_000)
async def test_force_without_journaled_data_waits_for_a_checkpoint(bench: Bench) -> None:
    # spec/bp46.md#R18: Java says OK and has forced nothing.
    async def first(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(3))
        forced = Outcome()
        store.force(LEDGER, forced)
        await bench.settle(forced)
        assert forced.is_ok

    async def second(store: EntryStore) -> None:
        assert await store.entry_ranges(LEDGER) == [(0, 2)]

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(second)


@story(run)
async def test_force_with_journaled_data_waits_for_adds_on_their_way(bench: Bench) -> None:
    async def first(store: EntryStore) -> None:
        added = [put(store, 7, entry_id) for entry_id in range(3)]
        at_the_force: list[bool] = []
        store.force(LEDGER, lambda error: at_the_force.extend(outcome.is_ok for outcome in added))
        await bench.simulation.until(lambda: bool(at_the_force), "the answer to the force")
        assert at_the_force == [True] * 3

    async def second(store: EntryStore) -> None:
        assert await store.entry_ranges(LEDGER) == [(0, 2)]

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(second)


@story(run, journal_write_data=False, unjournaled_flush_interval_ms=200)
async def test_unjournaled_entries_are_flushed_within_their_interval(bench: Bench) -> None:
    async def first(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(3))
        await bench.simulation.loop.sleep_ns(500_000_000)

    async def second(store: EntryStore) -> None:
        assert await store.entry_ranges(LEDGER) == [(0, 2)]

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(second)


@story(run, journal_file_bytes_max=4096, entry_log_bytes_max=4096)
async def test_journal_files_go_once_a_checkpoint_covers_them(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        for entry_id in range(20):
            await bench.put_all(store, 7, [entry_id], payload=bytes(900))
            if entry_id == 9:
                await store.flush()
        assert len(bench.paths(".journal")) > 2
        await store.flush()
        assert len(bench.paths(".journal")) == 1
        assert len(bench.paths(".log")) == 2
        for entry_id in range(20):
            assert await bench.read(store, 7, entry_id) == entry(7, entry_id, payload=bytes(900))

    await bench.life(work)


@story(run)
async def test_a_checkpoint_of_an_idle_store_writes_nothing(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, [0])
        await store.flush()
        await store.flush()  # makes rows of the deltas
        before = store.stats.checkpoints
        await store.flush()
        assert store.stats.checkpoints == before

    await bench.life(work)


@story(run)
async def test_reads_find_an_entry_in_every_phase_of_a_checkpoint(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(50), payload=bytes(2000))
        flush = bench.node.simulation.loop.create_task(store.flush())
        turns = 0
        while not flush.done():
            for entry_id in (0, 25, 49):
                assert await bench.read(store, 7, entry_id) == entry(7, entry_id, payload=bytes(2000))
            assert store.has_entry(LEDGER, EntryId(49))
            assert await store.entry_ranges(LEDGER) == [(0, 49)]
            turns += 1
            await bench.simulation.loop.sleep_ns(10_000)
        await flush
        assert turns > 3

    await bench.life(work)


@story(run, entry_log_bytes_max=500_000)
async def test_attempts_on_a_full_disk_leave_no_bytes_behind(bench: Bench) -> None:
    async def first(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(3), payload=bytes(200_000))
        await store.flush()
        used, logs = bench.node.image.volumes["/ledgers"].used_bytes, bench.paths(".log")
        await bench.put_all(store, 7, range(3, 20), payload=bytes(200_000))
        for room in (0, 10, 700_000, 1_500_000):
            bench.fill("/ledgers", room=room)
            for _ in range(3):
                with pytest.raises(errors.DiskFull):
                    await store.flush()
            assert bench.node.image.volumes["/ledgers"].used_bytes == used
            assert bench.paths(".log") == logs
        bench.make_room("/ledgers")
        await store.flush()
        assert await store.entry_ranges(LEDGER) == [(0, 19)]

    async def second(store: EntryStore) -> None:
        for entry_id in range(20):
            assert await bench.read(store, 7, entry_id) == entry(7, entry_id, payload=bytes(200_000))

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(second)
    assert not bench.failures


@story(run)
async def test_a_journal_takes_nothing_again_before_a_checkpoint_covers_what_it_refused(bench: Bench) -> None:
    async def first(store: EntryStore) -> None:
        bench.fill("/journal", room=10)
        bench.fill("/ledgers")
        refused = put(store, 7, 0)
        await bench.settle(refused)
        assert isinstance(refused.error, errors.DiskFull)
        bench.make_room("/journal")
        with pytest.raises(errors.DiskFull):
            await store.flush()
        with pytest.raises(errors.BookieReadOnly):
            put(store, 7, 1, is_recovery=True)
        bench.make_room("/ledgers")
        await store.flush()
        await bench.put_all(store, 7, [1])

    async def second(store: EntryStore) -> None:
        facts = store.facts(LEDGER)
        assert facts is not None
        assert facts.master_key == KEY

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(second)


@story(run, disk_used_max=0.8, disk_used_again=0.7, disk_used_warn=0.5)
async def test_above_the_threshold_the_bookie_is_read_only_until_it_is_below_the_low_water_mark(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        for path in ("/ledgers", "/journal", "/index"):
            volume = bench.node.image.volumes[path]
            for used, is_read_only in ((0.79, False), (0.81, True), (0.75, True), (0.69, False)):
                volume.total_bytes = 1_000_000
                volume.used_bytes = int(1_000_000 * used)
                await bench.put_all(store, 8, [0], is_recovery=True)
                await store.flush()
                assert store.is_read_only == is_read_only, f"{path} at {used}"
                assert store.health.disks[path].used_share == pytest.approx(used, abs=0.01)
                if is_read_only:
                    with pytest.raises(errors.BookieReadOnly):
                        put(store, 7, 0)
            bench.make_room(path)

    await bench.life(work)


@pytest.mark.parametrize("write", [1, 3, 4, 5, 6, 7])  # the second is the sync of the log, which stops the node
def test_what_a_log_holds_of_whom_is_right_also_when_any_write_of_the_checkpoint_failed_first(write: int) -> None:
    faults = DiskFaults(fails_as=WriteFault.FULL)

    async def story(bench: Bench) -> None:
        async def life(store: EntryStore) -> None:
            await bench.put_all(store, 7, range(3))
            await store.flush()
            await bench.put_all(store, 7, [3])
            await bench.put_all(store, 8, [0])
            faults.fails_at_write = failed = bench.node.disk.writes + write
            with contextlib.suppress(errors.DiskFull):
                await store.flush()
            assert bench.node.disk.writes >= failed
            faults.fails_at_write = 0
            await store.flush()

            size = len(entry(7, 0)) + log_format.RECORD_HEAD_SIZE
            assert list(store.partitions[0].index.all_use()) == [(0, 7, (4 * size, 0, 3)), (0, 8, (size, 0, 0))]
            assert await store.entry_ranges(LEDGER) == [(0, 3)]
            assert await store.entry_ranges(LedgerId(8)) == [(0, 0)]

        await bench.life(life)

    run(story, Bench(1, dials=Dials(disk=lambda name: faults)))


@story(run)
async def test_blocks_of_more_ledgers_than_are_put_at_once_are_all_in_the_index(bench: Bench) -> None:
    async def life(store: EntryStore) -> None:
        for entry_ids in (range(2), range(2, 40), range(1, 3)):
            for ledger_id in range(300):
                await bench.put_all(store, ledger_id, entry_ids)
            await store.flush()
        for ledger_id in range(300):
            found = [entry_id for entry_id, _ in store.partitions[0].index.locations(LedgerId(ledger_id))]
            assert found == list(range(40))

    await bench.life(life)


@story(run)
async def test_what_comes_while_a_checkpoint_runs_is_durable_when_a_flush_asked_for_then_returns(bench: Bench) -> None:
    async def first(store: EntryStore) -> None:
        store.add_copied(LEDGER, EntryId(0), entry(7, 0), KEY)
        running = asyncio.ensure_future(store.flush())
        while store.partitions[0].flushing is None:
            await bench.simulation.loop.sleep_ns(1_000)
        store.add_copied(LEDGER, EntryId(1), entry(7, 1), KEY)
        await store.flush()  # none of the checkpoint that runs
        await running

    async def second(store: EntryStore) -> None:
        assert await store.entry_ranges(LEDGER) == [(0, 1)]

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(second)


@story(run)
async def test_a_flush_after_a_failed_checkpoint_covers_what_came_since(bench: Bench) -> None:
    async def first(store: EntryStore) -> None:
        store.add_copied(LEDGER, EntryId(0), entry(7, 0), KEY)
        bench.fill("/ledgers")
        with pytest.raises(errors.DiskFull):
            await store.flush()
        store.add_copied(LEDGER, EntryId(1), entry(7, 1), KEY)
        bench.make_room("/ledgers")
        await store.flush()

    async def second(store: EntryStore) -> None:
        assert await store.entry_ranges(LEDGER) == [(0, 1)]

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(second)


@story(run)
async def test_a_fence_that_a_full_journal_refused_is_not_durable_by_the_checkpoint_that_ran_then(bench: Bench) -> None:
    """The fence is in memory, and a second one waits for the first alone: it must not find the journal open before a
    checkpoint has saved it."""

    async def first(store: EntryStore) -> None:
        await bench.put_all(store, 7, [0])
        await store.flush()
        await bench.put_all(store, 8, [0])  # the checkpoint writes the row of this one alone
        running = asyncio.ensure_future(store.flush())
        while store.partitions[0].flushing is None:
            await bench.simulation.loop.sleep_ns(1_000)
        bench.fill("/journal", room=10)
        refused = Outcome()
        store.fence(LEDGER, KEY, refused)
        while not refused.is_done:
            await bench.simulation.loop.sleep_ns(1_000)
        assert isinstance(refused.error, errors.DiskFull)
        assert store.partitions[0].flushing is not None, "it runs still"
        bench.make_room("/journal")
        again = Outcome()
        while not again.is_done:
            with contextlib.suppress(errors.BookieReadOnly):
                store.fence(LEDGER, KEY, again)
                break
            await bench.simulation.loop.sleep_ns(1_000)
        while not again.is_done:
            await bench.simulation.loop.sleep_ns(1_000)
        assert again.is_ok
        running.cancel()

    async def second(store: EntryStore) -> None:
        facts = store.facts(LEDGER)
        assert facts is not None
        assert facts.is_fenced

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(second)


@story(run)
async def test_the_use_and_lacs_of_more_ledgers_than_one_step_takes_are_all_in_the_index(
    bench: Bench, *, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log of which nobody is known to have entries is dropped."""
    monkeypatch.setattr(checkpoint, "INDEX_BATCH_COUNT", 4)

    async def work(store: EntryStore) -> None:
        for ledger_id in range(10):
            await bench.put_all(store, ledger_id, range(2))
        await store.flush()
        index = store.partitions[0].index
        assert [ledger_id for _, ledger_id, _ in index.all_use()] == list(range(10))
        assert index.deltas.lacs == dict.fromkeys(range(10), 0)

    await bench.life(work)


@pytest.mark.parametrize("is_index_full", [False, True])
@story(run, entry_log_bytes_max=4096)
async def test_a_deletion_drops_no_log_on_a_full_disk_before_it_is_durable(
    bench: Bench, *, is_index_full: bool
) -> None:
    async def first(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(5), payload=bytes(2000))
        await store.flush()
        await bench.put_all(store, 8, [0])
        await store.flush()
        await bench.put_all(store, 8, [1], payload=bytes(9000))
        store.delete_ledger(LEDGER)
        bench.fill("/ledgers")
        if is_index_full:

            async def full() -> None:
                raise errors.DiskFull("no space")

            store.partitions[0].index.flush = full  # type: ignore[method-assign]
        with pytest.raises(errors.DiskFull):
            await store.flush()
        assert await collector.drop_dead_logs(store) == (0 if is_index_full else 1)

    async def second(store: EntryStore) -> None:
        if is_index_full:
            assert await bench.read(store, 7, 4) == entry(7, 4, payload=bytes(2000))
        else:
            assert store.facts(LEDGER) is None

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    bench.make_room("/ledgers")
    await bench.life(second)
