"""One short life in which one write after the other fails: what was acknowledged is there, and a full disk passes."""

import asyncio
import contextlib
from typing import Any, cast

import pytest

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.base.units import NS_PER_S
from bookie.ports.disk import Disk, File
from bookie.sim.disk import DiskFaults, WriteFault
from bookie.sim.faults import Dials
from bookie.sim.node import ProcessEnd
from bookie.storage.collect import brake, collector
from bookie.storage.collect.compactor import Compactor
from bookie.storage.collect.daily import DailyCounts
from bookie.storage.collect.plan import Kind
from bookie.storage.collect_options import CompactionOptions, CompactionRule
from bookie.storage.store import EntryStore
from storage_support import KEY, VOLUMES, Bench, Outcome, ShortDisk, entry, explicit_lac, options, put, run

PAYLOAD = bytes(700)
ALL = CompactionOptions(entries_per_s=None, major=CompactionRule(0.99, 100_000_000))


class Told:
    """What the dead process had told its clients."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int]] = []
        self.fenced: list[int] = []
        self.copied: list[int] = []
        self.gone: list[int] = []

    async def work(self, bench: Bench, store: EntryStore) -> None:
        """A little of everything, whatever is refused."""
        for round_ in range(3):
            await self.add(bench, store, round_)
            await self.fence(bench, store, 20 + round_)
            with contextlib.suppress(errors.BookieError):
                await store.protect([(LedgerId(30 + round_), False, True, KEY)], epoch=round_)
                store.add_copied(LedgerId(30 + round_), EntryId(5), entry(30 + round_, 5, payload=PAYLOAD), KEY)
                await store.flush()
                self.copied.append(30 + round_)
            with contextlib.suppress(errors.BookieError):
                await self.reclaim(bench, store, 10 + round_)

    async def add(self, bench: Bench, store: EntryStore, round_: int) -> None:
        for ledger_id, count in ((1, 4), (2, 4), (10 + round_, 2)):
            with contextlib.suppress(errors.BookieError):
                outcomes = [
                    (entry_id, put(store, ledger_id, entry_id, payload=PAYLOAD))
                    for entry_id in range(round_ * 4, round_ * 4 + count)
                ]
                await bench.settle(*(outcome for _, outcome in outcomes))
                self.entries += [(ledger_id, entry_id) for entry_id, outcome in outcomes if outcome.is_ok]

    async def fence(self, bench: Bench, store: EntryStore, ledger_id: int) -> None:
        with contextlib.suppress(errors.BookieError):
            fence = Outcome()
            store.fence(LedgerId(ledger_id), KEY, fence)
            await bench.settle(fence)
            if fence.is_ok:
                self.fenced.append(ledger_id)

    async def reclaim(self, bench: Bench, store: EntryStore, ledger_id: int) -> None:
        async def is_absent(known: LedgerId) -> bool:
            return known == ledger_id

        self.entries = [(known, entry_id) for known, entry_id in self.entries if known != ledger_id]
        await collector.collect(store, is_absent)
        if store.partitions[ledger_id % len(store.partitions)].failure is None:  # else it is left to the restart
            self.gone.append(ledger_id)
        await Compactor(store, ALL, bench.node.world.clock).compact(Kind.MAJOR)

    async def check(self, bench: Bench, store: EntryStore) -> None:
        for ledger_id, entry_id in self.entries:
            assert await bench.read(store, ledger_id, entry_id) == entry(ledger_id, entry_id, payload=PAYLOAD)
        for ledger_id in self.fenced:
            facts = store.facts(LedgerId(ledger_id))
            assert facts is not None
            assert facts.is_fenced
        for ledger_id in self.copied:
            assert await bench.read(store, ledger_id, 5) == entry(ledger_id, 5, payload=PAYLOAD)
        for ledger_id in self.gone:
            assert store.facts(LedgerId(ledger_id)) is None


def bench_with(seed: int, faults: DiskFaults, *, partitions: int) -> Bench:
    bench = Bench(seed, dials=Dials(disk=lambda name: faults))
    ledger_dirs = ("/ledgers", "/ledgers1")[:partitions]
    for path in {*ledger_dirs} - {*VOLUMES}:
        bench.node.image.add_volume(path)
    bench.options = options(
        ledger_dirs=ledger_dirs, index_dirs=(), journal_file_bytes_max=12_288, entry_log_bytes_max=12_288
    )
    return bench


def run_failing_at(write: int, fault: WriteFault, partitions: int) -> bool:
    """False: the life has fewer writes than that."""
    faults = DiskFaults(fails_as=fault)
    bench, told = bench_with(write, faults, partitions=partitions), Told()

    async def story(bench: Bench) -> bool:
        async def first(store: EntryStore) -> bool:
            faults.fails_at_write = bench.node.disk.writes + write
            await told.work(bench, store)
            was_reached = bench.node.disk.writes >= faults.fails_at_write
            faults.fails_at_write = 0
            if fault is WriteFault.FULL and not bench.failures:
                await store.flush()  # there is room again
                assert not store.is_read_only
                await bench.put_all(store, 3, [0], payload=PAYLOAD)
                told.entries.append((3, 0))
            if not bench.failures:
                await told.check(bench, store)
            return was_reached

        was_reached = await bench.life(first, end=ProcessEnd.POWER_CUT if write % 2 else ProcessEnd.KILL)
        assert all(isinstance(failure, errors.StorageFailed) for failure in bench.failures), bench.failures
        await bench.life(lambda store: told.check(bench, store))
        return was_reached

    return run(story, bench)


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("fault", list(WriteFault))
@pytest.mark.slow
def test_a_failure_of_any_write_loses_nothing_acknowledged(fault: WriteFault, partitions: int) -> None:
    write = 1
    while run_failing_at(write, fault, partitions):
        write += 1
    assert write > 100, "the life was too short to say anything"


def test_a_directory_that_refuses_writes_makes_the_bookie_read_only_and_it_serves_what_it_has() -> None:
    faults = DiskFaults(fails_as=WriteFault.BROKEN, fails_for=1_000_000)
    bench = bench_with(1, faults, partitions=2)

    async def story(bench: Bench) -> None:
        async def first(store: EntryStore) -> None:
            for ledger_id in (2, 3):  # 3 lives in the second directory
                await bench.put_all(store, ledger_id, range(3))
            await store.flush()
            for ledger_id in (2, 3):
                await bench.put_all(store, ledger_id, range(3, 6))
            faults.fails_path = "/ledgers1/current/0"  # its entry logs
            faults.fails_at_write = bench.node.disk.writes + 1
            with pytest.raises(errors.PartitionFailed, match="ledger directory 2"):
                await store.flush()

            assert store.is_read_only
            assert store.health.why_read_only == "a ledger directory failed; a restart looks at it anew"
            assert not bench.failures
            with pytest.raises(errors.BookieReadOnly):
                put(store, 2, 6)
            for ledger_id in (2, 3):
                for entry_id in range(6):
                    assert await bench.read(store, ledger_id, entry_id) == entry(ledger_id, entry_id)
            with pytest.raises(errors.NoSuchEntry):
                await bench.read(store, 2, 6)
            with pytest.raises(errors.UnknownLedgerState):  # its disk cannot be asked for a proof
                await bench.read(store, 3, 6)
            await bench.fence(store, 3)
            faults.fails_at_write = 0
            with pytest.raises(errors.PartitionFailed):  # until a restart, even if it recovers
                await store.flush()

        async def second(store: EntryStore) -> None:
            assert not store.is_read_only
            assert await store.entry_ranges(LedgerId(3)) == [(0, 5)]
            facts = store.facts(LedgerId(3))
            assert facts is not None
            assert facts.is_fenced

        await bench.life(first)
        assert bench.was_clean is False
        await bench.life(second)

    run(story, bench)


def test_a_directory_that_fails_is_told_of_in_the_turn_in_which_another_one_is_short() -> None:
    """Else the bookie takes adds for as long as that lasts, into a directory that writes nothing any more."""
    faults = DiskFaults(fails_as=WriteFault.BROKEN, fails_for=1_000_000)
    bench = bench_with(1, faults, partitions=2)

    async def story(bench: Bench) -> None:
        async def work(store: EntryStore) -> None:
            logs = store.partitions[0].logs
            logs.disk = cast(Disk, ShortDisk(logs.disk))
            for ledger_id in (2, 3):  # 3 lives in the second directory
                await bench.put_all(store, ledger_id, [0])
            faults.fails_path = "/ledgers1/current/0"
            faults.fails_at_write = bench.node.disk.writes + 1

            with pytest.raises(errors.OutOfResources):
                await store.flush()

            assert store.health.why_read_only == "a ledger directory failed; a restart looks at it anew"
            assert not bench.failures
            faults.fails_at_write = 0

        await bench.life(work)

    run(story, bench)


def test_deleted_ledgers_of_the_other_directories_make_room_beside_one_that_failed() -> None:
    faults = DiskFaults(fails_as=WriteFault.BROKEN, fails_for=1_000_000)
    bench = bench_with(1, faults, partitions=2)
    asked: list[int] = []

    async def is_absent(ledger_id: LedgerId) -> bool:
        asked.append(ledger_id)
        return ledger_id in (2, 3)

    def logs(volume: str) -> list[str]:
        return [path for path in bench.paths(".log") if path.startswith(f"{volume}/")]

    async def story(bench: Bench) -> None:
        async def first(store: EntryStore) -> None:
            for ledger_id in (2, 3):  # 3 lives in the second directory
                await bench.put_all(store, ledger_id, range(6), payload=PAYLOAD)
            await store.flush()
            for ledger_id in (4, 5):
                await bench.put_all(store, ledger_id, range(6), payload=PAYLOAD)
            faults.fails_path = "/ledgers1/current/0"
            faults.fails_at_write = bench.node.disk.writes + 1
            with pytest.raises(errors.PartitionFailed):
                await store.flush()
            healthy, failed, writes = logs("/ledgers"), logs("/ledgers1"), bench.node.disk.writes

            found = await collector.collect(store, is_absent)

            assert (found.ledgers_seen, found.ledgers_deleted) == (2, 1)
            assert sorted(set(asked)) == [2, 4]
            assert found.logs_dropped == len(healthy) - len(logs("/ledgers")) > 0
            assert logs("/ledgers1") == failed
            assert writes == bench.node.disk.writes
            for ledger_id in (3, 4, 5):
                assert await bench.read(store, ledger_id, 5) == entry(ledger_id, 5, payload=PAYLOAD)
            done = await Compactor(store, ALL, bench.node.world.clock).compact(Kind.MAJOR, is_forced=True)
            assert (done.logs, "until a restart" in done.refused) == (0, True)
            faults.fails_at_write = 0

        async def second(store: EntryStore) -> None:
            assert sorted([ledger async for ledger in store.ledgers()]) == [3, 4, 5]  # 3 was not collected
            for ledger_id in (3, 4, 5):
                assert await store.entry_ranges(LedgerId(ledger_id)) == [(0, 5)]
            assert (await collector.collect(store, is_absent)).ledgers_deleted == 1

        await bench.life(first, end=ProcessEnd.POWER_CUT)
        await bench.life(second)

    run(story, bench)


def test_a_compaction_during_which_another_directory_fails_ends_and_drops_no_log() -> None:
    """No flush tells any more whether its copies are durable, and no log is damaged because of that."""
    faults = DiskFaults(fails_as=WriteFault.BROKEN, fails_for=1_000_000)
    bench = bench_with(1, faults, partitions=2)
    slowly = CompactionOptions(entries_per_s=1, major=CompactionRule(0.99, 100_000_000))

    async def story(bench: Bench) -> None:
        async def first(store: EntryStore) -> None:
            for start in (0, 10, 20):
                for ledger_id in (2, 4, 3):  # 3 lives in the second directory
                    await bench.put_all(store, ledger_id, range(start, start + 10), payload=PAYLOAD)
                await store.flush()
            store.delete_ledger(LedgerId(4))
            await store.flush()
            compacting = bench.simulation.loop.create_task(
                Compactor(store, slowly, bench.node.world.clock).compact(Kind.MAJOR, is_forced=True)
            )
            await bench.simulation.loop.sleep_ns(10_000_000)
            await bench.put_all(store, 3, [30], payload=PAYLOAD)
            faults.fails_path = "/ledgers1/current/0"
            faults.fails_at_write = bench.node.disk.writes + 1
            with pytest.raises(errors.PartitionFailed):
                await store.flush()
            assert not compacting.done()
            before = bench.paths(".log")

            with pytest.raises(errors.PartitionFailed):
                await compacting
            assert store.stats.logs_compacted == 0
            assert set(before) <= set(bench.paths(".log"))
            faults.fails_at_write = 0

        async def second(store: EntryStore) -> None:
            assert await store.entry_ranges(LedgerId(2)) == [(0, 29)]
            assert await store.entry_ranges(LedgerId(3)) == [(0, 30)]

        await bench.life(first, end=ProcessEnd.POWER_CUT)
        await bench.life(second)

    run(story, bench)


def test_a_compaction_that_meets_a_failed_sync_ends() -> None:
    """The node stops; nothing is told of logs, which are as they were."""
    faults = DiskFaults(sync_fails_path=".log")
    bench = bench_with(1, faults, partitions=1)

    async def story(bench: Bench) -> None:
        async def first(store: EntryStore) -> None:
            for start in (0, 10, 20):
                for ledger_id in (2, 4):
                    await bench.put_all(store, ledger_id, range(start, start + 10), payload=PAYLOAD)
                await store.flush()
            store.delete_ledger(LedgerId(4))
            await store.flush()
            faults.sync_fails_per_million = 1_000_000
            with pytest.raises(errors.DiskFailed):
                await Compactor(store, ALL, bench.node.world.clock).compact(Kind.MAJOR, is_forced=True)
            assert len(bench.failures) == 1
            assert store.stats.logs_compacted == 0
            faults.sync_fails_per_million = 0

        async def second(store: EntryStore) -> None:
            assert await store.entry_ranges(LedgerId(2)) == [(0, 29)]

        await bench.life(first, end=ProcessEnd.POWER_CUT)
        await bench.life(second)

    run(story, bench)


def test_the_collector_touches_nothing_of_a_directory_that_failed() -> None:
    """A log of which all was deleted goes in the other directory; a write to the failed one would stop the node."""
    faults = DiskFaults(fails_as=WriteFault.BROKEN, fails_for=1_000_000)
    bench = bench_with(1, faults, partitions=2)

    async def is_absent(ledger_id: LedgerId) -> bool:
        return False

    async def story(bench: Bench) -> None:
        async def first(store: EntryStore) -> None:
            for round_ in range(2):
                for ledger_id in (2 + 2 * round_, 3 + 2 * round_):  # odd ones live in the second directory
                    await bench.put_all(store, ledger_id, range(20), payload=PAYLOAD)
                await store.flush()
            for ledger_id in (2, 3):
                store.delete_ledger(LedgerId(ledger_id))
            await store.flush()
            await bench.put_all(store, 5, [20], payload=PAYLOAD)
            faults.fails_path = "/ledgers1/"
            faults.fails_at_write = bench.node.disk.writes + 1
            with pytest.raises(errors.PartitionFailed):
                await store.flush()
            before = bench.paths(".log")

            assert (await collector.collect(store, is_absent)).logs_dropped > 0

            assert [path for path in before if path.startswith("/ledgers1/")] == [
                path for path in bench.paths(".log") if path.startswith("/ledgers1/")
            ]
            assert not bench.failures
            assert await bench.read(store, 5, 20) == entry(5, 20, payload=PAYLOAD)
            faults.fails_at_write = 0

        async def second(store: EntryStore) -> None:
            assert (await collector.collect(store, is_absent)).logs_dropped > 0

        await bench.life(first)
        await bench.life(second)

    run(story, bench)


def test_the_hours_of_the_brake_are_not_written_to_a_directory_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brake, "_HOUR_NS", NS_PER_S)
    faults = DiskFaults(fails_as=WriteFault.BROKEN, fails_for=1_000_000)
    bench = bench_with(1, faults, partitions=2)

    async def is_absent(ledger_id: LedgerId) -> bool:
        return ledger_id == 3

    async def story(bench: Bench) -> None:
        async def work(store: EntryStore) -> None:
            counts = DailyCounts(store.partitions, bench.node.world.clock)
            for ledger_id in (2, 3, 5):
                await bench.put_all(store, ledger_id, [0])
            assert (await collector.collect(store, is_absent, counts)).ledgers_deleted == 1
            await bench.put_all(store, 5, [1])
            faults.fails_path = "/ledgers1/"
            faults.fails_at_write = bench.node.disk.writes + 1
            with pytest.raises(errors.PartitionFailed):
                await store.flush()
            await bench.simulation.loop.sleep_ns(2 * NS_PER_S)

            assert (await collector.collect(store, is_absent, counts)).ledgers_seen == 1

            assert not bench.failures
            faults.fails_at_write = 0

        await bench.life(work)

    run(story, bench)


def test_the_last_directory_that_fails_stops_the_node() -> None:
    faults = DiskFaults(fails_as=WriteFault.BROKEN, fails_for=1_000_000, fails_path=".log")
    bench = bench_with(1, faults, partitions=1)

    async def story(bench: Bench) -> None:
        async def first(store: EntryStore) -> None:
            await bench.put_all(store, 2, range(3))
            faults.fails_at_write = 1
            with pytest.raises(errors.DiskFailed):
                await store.flush()
            assert len(bench.failures) == 1
            faults.fails_at_write = 0

        async def second(store: EntryStore) -> None:
            assert await store.entry_ranges(LedgerId(2)) == [(0, 2)]

        await bench.life(first)
        await bench.life(second)

    run(story, bench)


def test_one_full_directory_keeps_the_others_from_nothing() -> None:
    faults = DiskFaults(fails_as=WriteFault.FULL, fails_for=1_000_000, fails_path="/ledgers/current/0")
    bench = bench_with(1, faults, partitions=2)

    async def story(bench: Bench) -> None:
        async def work(store: EntryStore) -> None:
            for ledger_id in (2, 3):
                await bench.put_all(store, ledger_id, range(3))
            faults.fails_at_write = 1
            with pytest.raises(errors.DiskFull):
                await store.flush()
            first, second = store.partitions
            assert (first.flushing is None, second.flushing is None) == (False, True)
            assert second.index.last_entry(LedgerId(3)) == 2
            faults.fails_at_write = 0
            await store.flush()
            assert not store.is_read_only

        await bench.life(work)

    run(story, bench)


def test_a_bookie_is_read_only_while_its_journal_takes_nothing_whatever_its_disk_says_of_room() -> None:
    # The second file cannot be begun: a quota, say.
    faults = DiskFaults(fails_as=WriteFault.FULL, fails_for=1_000_000, fails_path="2.journal")
    bench = bench_with(1, faults, partitions=1)

    async def story(bench: Bench) -> None:
        async def work(store: EntryStore) -> None:
            faults.fails_at_write = 1
            for entry_id in range(2):
                await bench.put_all(store, 2, [entry_id])
            refused = put(store, 2, 2)
            await bench.settle(refused)
            assert isinstance(refused.error, errors.DiskFull)
            for _ in range(3):
                with pytest.raises(errors.DiskFull):
                    await store.flush()
                assert store.is_read_only
                assert "a write to /journal/current waits for space" in store.health.why_read_only

            faults.fails_at_write = 0
            await store.flush()
            assert not store.is_read_only
            await bench.put_all(store, 2, [2])

        await bench.life(work)

    run(story, bench)


def test_a_full_journal_refuses_what_is_its_own_to_keep_beside_one_that_has_room() -> None:
    faults = DiskFaults(fails_as=WriteFault.FULL, fails_for=1_000_000, fails_path="2.journal")
    bench = bench_with(1, faults, partitions=1)
    bench.options = options(journal_dirs=("/journal", "/index"), index_dirs=(), journal_file_bytes_max=12_288)

    async def story(bench: Bench) -> None:
        async def work(store: EntryStore) -> None:
            faults.fails_at_write = 1
            for entry_id in range(2):
                await bench.put_all(store, 2, [entry_id])
            refused = put(store, 2, 2)
            await bench.settle(refused)
            assert isinstance(refused.error, errors.DiskFull)

            for attempt in (
                lambda: put(store, 2, 3, is_recovery=True),
                lambda: store.fence(LedgerId(2), KEY, Outcome()),
                lambda: store.fence(LedgerId(4), KEY, Outcome()),
                lambda: store.write_lac(LedgerId(2), explicit_lac(2, 1), KEY, Outcome()),
                lambda: store.force(LedgerId(2), Outcome()),
            ):
                with pytest.raises(errors.BookieReadOnly):
                    attempt()
            faults.fails_at_write = 0
            await store.flush()
            await bench.put_all(store, 2, [3])
            await bench.fence(store, 2)

        await bench.life(work)
        assert not bench.failures

    run(story, bench)


def test_a_node_that_failed_tells_so_once_and_lets_nobody_wait_for_room() -> None:
    faults = DiskFaults(fails_as=WriteFault.BROKEN, fails_for=1_000_000)
    bench = bench_with(1, faults, partitions=1)
    bench.options = options(index_dirs=(), write_cache_bytes_max=16_384, flush_interval_ms=1_000)

    async def story(bench: Bench) -> None:
        async def work(store: EntryStore) -> None:
            await bench.put_all(store, 2, [0])
            bench.node.disk_faults.write_latency_ns = NS_PER_S  # no checkpoint ends meanwhile
            for entry_id in range(1, 100):
                if not store.is_congested:
                    put(store, 2, entry_id, payload=PAYLOAD)
            assert store.is_congested
            faults.fails_at_write = 1

            await store.room()

            assert len(bench.failures) == 1
            with pytest.raises(errors.StorageFailed, match="is stopping"):
                put(store, 2, 100)
            await bench.simulation.loop.sleep_ns(10 * NS_PER_S)
            assert len(bench.failures) == 1

        await bench.life(work, end=ProcessEnd.KILL)

    run(story, bench)


class DefectiveDisk:
    """A disk that ends the task which begins an entry log with an error that nobody expects."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    async def open(self, path: str, **how: Any) -> File:
        raise RuntimeError("a defect")


def test_a_task_that_ends_by_a_defect_stops_the_node() -> None:
    async def story(bench: Bench) -> None:
        async def first(store: EntryStore) -> None:
            await bench.put_all(store, 2, [0])
            (directory,) = store.partitions
            directory.logs.disk = cast(Disk, DefectiveDisk(directory.logs.disk))
            flushing = asyncio.ensure_future(store.flush())
            await bench.simulation.until(lambda: bool(bench.failures), "the end of the node")
            assert "a defect" in str(bench.failures[0])
            with pytest.raises(errors.StorageFailed):
                put(store, 2, 1)
            flushing.cancel()

        async def second(store: EntryStore) -> None:
            assert await store.entry_ranges(LedgerId(2)) == [(0, 0)]

        await bench.life(first, end=ProcessEnd.KILL)
        await bench.life(second)

    run(story)


def test_what_one_directory_could_not_write_stays_in_the_journal() -> None:
    """CONFORMANCE.md#O33: the checkpoints of the others cover their own entries, and not those of this one."""
    faults = DiskFaults(fails_as=WriteFault.FULL, fails_for=1_000_000, fails_path="/ledgers/current/0")
    bench = bench_with(1, faults, partitions=2)

    async def story(bench: Bench) -> None:
        async def first(store: EntryStore) -> None:
            await bench.put_all(store, 2, [0])
            for number in range(8):
                await bench.put_all(store, 3, [number], payload=bytes(2000))
            faults.fails_at_write = 1
            with pytest.raises(errors.DiskFull):
                await store.flush()

        async def second(store: EntryStore) -> None:
            assert await bench.read(store, 2, 0) == entry(2, 0)

        await bench.life(first, end=ProcessEnd.KILL)
        faults.fails_at_write = 0
        await bench.life(second)

    run(story, bench)
