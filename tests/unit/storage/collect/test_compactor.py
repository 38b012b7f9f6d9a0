"""Compaction: what lives moves, what is dead goes, and nobody who reads meanwhile notices."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import EntryId, LedgerId
from bookie.ports.disk import BLOCK_BYTES, Buffer
from bookie.sim.node import ProcessEnd
from bookie.storage.collect import collector, survey
from bookie.storage.collect.compactor import Compacted, Compactor, keep_copies
from bookie.storage.collect.plan import Kind
from bookie.storage.collect_options import CompactionOptions, CompactionRule
from bookie.storage.entrylog.logs import EntryLogs, EntryPlace
from bookie.storage.store import EntryStore
from storage_support import Bench, entry, put, run
from story_support import story

LIVE, DEAD = LedgerId(7), LedgerId(8)
UNLIMITED = CompactionOptions(entries_per_s=None)
BIG = bytes(2000)


async def is_dead(ledger_id: LedgerId) -> bool:
    return ledger_id == DEAD


async def half_dead_logs(bench: Bench, store: EntryStore) -> None:
    """Two full logs, of each of which a fifth or less is live, and the log being written."""
    for start in (0, 10):
        await bench.put_all(store, LIVE, [start], payload=BIG)
        await bench.put_all(store, DEAD, range(start, start + 10), payload=BIG)
        await store.flush()
    await bench.put_all(store, 9, [0])
    await store.flush()
    await collector.collect(store, is_dead)
    assert log_names(bench) == ["0", "1", "2"]


def log_names(bench: Bench) -> list[str]:
    return [path.rsplit("/", 1)[1][7:-4] for path in bench.paths(".log")]


def compactor(bench: Bench, store: EntryStore, options: CompactionOptions = UNLIMITED) -> Compactor:
    return Compactor(store, options, bench.node.world.clock)


async def check(bench: Bench, store: EntryStore) -> None:
    for entry_id in (0, 10):
        assert await bench.read(store, LIVE, entry_id) == entry(LIVE, entry_id, payload=BIG)
    assert await bench.read(store, 9, 0) == entry(9, 0)
    with pytest.raises(errors.NoSuchLedger):
        await bench.read(store, DEAD, 0)


def small() -> Bench:
    return Bench(entry_log_bytes_max=16_384)


@story(run, small)
async def test_live_entries_move_and_their_logs_go(bench: Bench) -> None:
    async def first(store: EntryStore) -> None:
        await half_dead_logs(bench, store)
        done = await compactor(bench, store).compact(Kind.MINOR)
        assert (done.logs, done.entries, done.logs_damaged, done.refused) == (2, 2, 0, "")
        assert done.bytes_freed > 40_000
        assert log_names(bench) == ["2"]
        assert (store.stats.logs_compacted, store.stats.entries_compacted) == (2, 2)
        await check(bench, store)

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(lambda store: check(bench, store))


@story(run, small)
async def test_a_log_above_the_threshold_waits_for_the_major_run(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, LIVE, range(5), payload=BIG)
        await bench.put_all(store, DEAD, range(5), payload=BIG)
        await store.flush()
        await bench.put_all(store, 9, [0])
        await store.flush()
        await collector.collect(store, is_dead)
        assert (await compactor(bench, store).compact(Kind.MINOR)).logs == 0
        assert (await compactor(bench, store).compact(Kind.MAJOR)).logs == 1

    await bench.life(work)


async def put_half_dead(bench: Bench, store: EntryStore) -> None:
    """One more full log, of which a half is live."""
    await bench.put_all(store, LIVE, range(20, 25), payload=BIG)
    await bench.put_all(store, DEAD, range(5), payload=BIG)
    await store.flush()
    await bench.put_all(store, 9, [1])
    await store.flush()
    await collector.collect(store, is_dead)


@story(run, small)
async def test_runs_come_when_they_are_due_and_not_before(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await half_dead_logs(bench, store)
        await bench.simulation.loop.sleep_ns(700 * 10**9)  # machines are up for longer than their bookies
        options = CompactionOptions(
            entries_per_s=None, minor=CompactionRule(0.2, 60_000), major=CompactionRule(0.8, 600_000)
        )
        driver = compactor(bench, store, options)
        assert await driver.run() is None
        await bench.simulation.loop.sleep_ns(60 * 10**9)
        done = await driver.run()
        assert done is not None
        assert done.logs == 2
        assert await driver.run() is None
        await bench.simulation.loop.sleep_ns(540 * 10**9)
        assert await driver.run() is not None, "the major one"
        await bench.simulation.loop.sleep_ns(59 * 10**9)
        assert await driver.run() is None, "it counts as a minor one too"
        await bench.simulation.loop.sleep_ns(10**9)
        await put_half_dead(bench, store)
        done = await driver.run()
        assert done is not None
        assert done.logs == 0, "a minor one, for which too much of that log lives: the next major one has its own time"

    await bench.life(work)


@story(
    run,
    entry_log_bytes_max=16_384,
    ledger_dirs=("/ledgers", "/index/ledgers"),
    index_dirs=("/index", "/index/2"),
)
async def test_a_directory_that_is_full_is_told_of_and_the_next_one_is_compacted(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        for live in (6, 7):  # one in each directory
            await bench.put_all(store, live, [0], payload=BIG)
            await bench.put_all(store, live + 2, range(10), payload=BIG)
            await bench.put_all(store, live + 4, [0], payload=BIG)
            await store.flush()
            await bench.put_all(store, live, [1])
            await store.flush()
            store.delete_ledger(LedgerId(live + 2))
        await store.flush()
        bench.fill("/ledgers", room=1000)
        await store.flush()
        await bench.simulation.loop.sleep_ns(11 * 10**9)  # a turn measures the disks

        done = await compactor(bench, store).compact(Kind.MINOR)

        assert done.logs == 1
        assert "full" in done.refused

    await bench.life(work)


@story(run, entry_log_bytes_max=1 << 30, write_cache_bytes_max=1 << 20)
async def test_copies_take_no_more_memory_than_the_write_cache(bench: Bench) -> None:
    """A log is copied faster than checkpoints come by themselves."""
    count, payload, most = 1_000, bytes(5_000), 0

    async def first(store: EntryStore) -> None:
        for start in range(0, count, 100):
            await bench.put_all(store, LIVE, range(start, start + 100), payload=payload)
            await bench.put_all(store, DEAD, range(start, start + 5), payload=payload)
            await store.flush()

    async def second(store: EntryStore) -> None:
        nonlocal most
        (directory,) = store.partitions
        await collector.collect(store, is_dead)
        whole = CompactionOptions(
            entries_per_s=None, minor=CompactionRule(0.98, 60_000), major=CompactionRule(0.99, 600_000)
        )
        copying = asyncio.ensure_future(compactor(bench, store, whole).compact(Kind.MINOR))
        while not copying.done():
            most = max(most, directory.active.size_bytes)
            await bench.simulation.loop.sleep_ns(1_000)
        assert (await copying).entries == count

    await bench.life(first)
    await bench.life(second)
    assert 0 < most <= 2 * (1 << 20)


@story(run, small)
async def test_facts_of_ledgers_outlive_the_logs_of_their_entries(bench: Bench) -> None:
    async def first(store: EntryStore) -> None:
        await half_dead_logs(bench, store)
        await bench.fence(store, LIVE)
        await store.protect([(LIVE, True, True, None)], epoch=3)
        before = store.facts(LIVE)
        await compactor(bench, store).compact(Kind.MINOR)
        assert store.facts(LIVE) == before

    async def second(store: EntryStore) -> None:
        facts = store.facts(LIVE)
        assert facts is not None
        assert (facts.is_fenced, facts.is_limbo, facts.limbo_epoch) == (True, True, 3)
        with pytest.raises(errors.UnknownLedgerState):
            await bench.read(store, LIVE, 5)

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(second)


@story(run, small)
async def test_an_entry_written_anew_meanwhile_is_not_replaced_by_its_old_bytes(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await half_dead_logs(bench, store)
        (partition,) = store.partitions
        pieces = [piece async for piece in survey.live_places(partition, 0)]
        (place,) = pieces[0]
        old = await partition.logs.read_many(0, [place])
        # Entry 0 is added again, with other bytes (a recovery's LAC, say), while the copy is on its way.
        new = put(store, LIVE, 0, lac=-1, payload=b"newer", is_recovery=True)
        assert not partition.is_current(place)
        assert keep_copies(partition, [place], old) == (0, 0, True)
        await bench.settle(new)
        await store.flush()
        assert not partition.is_current(place)
        assert keep_copies(partition, [place], old) == (0, 0, True)
        assert old[0] is not None
        await compactor(bench, store).compact(Kind.MINOR)
        assert await bench.read(store, LIVE, 0) == entry(LIVE, 0, lac=-1, payload=b"newer")

    await bench.life(work)


@story(run, small)
async def test_a_ledger_deleted_meanwhile_does_not_come_back(bench: Bench) -> None:
    async def first(store: EntryStore) -> None:
        await half_dead_logs(bench, store)
        (partition,) = store.partitions
        slow = CompactionOptions(entries_per_s=1)
        running = bench.simulation.loop.create_task(compactor(bench, store, slow).compact(Kind.MINOR))
        while not store.stats.entries_compacted:
            await bench.simulation.loop.sleep_ns(1_000_000)
        store.delete_ledger(LIVE)
        await running
        await store.flush()
        with pytest.raises(errors.NoSuchLedger):
            await bench.read(store, LIVE, 0)
        assert [row async for rows in partition.index.walk_locations(LIVE) for row in rows] == []

    async def second(store: EntryStore) -> None:
        assert store.facts(LIVE) is None

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(second)


def test_readers_never_meet_an_error_while_their_log_goes_away() -> None:
    async def story(bench: Bench) -> None:
        async def work(store: EntryStore) -> None:
            bench.node.disk_faults.must_wait_percent = 100  # every read waits for the disk
            await half_dead_logs(bench, store)
            loop, reads = bench.simulation.loop, 0
            running = loop.create_task(compactor(bench, store).compact(Kind.MINOR))
            while not running.done():
                tasks = [loop.create_task(bench.read(store, LIVE, entry_id)) for entry_id in (0, 10)]
                await loop.sleep_ns(7_000)
                for entry_id, task in zip((0, 10), tasks, strict=True):
                    assert await task == entry(LIVE, entry_id, payload=BIG)
                reads += 2
            assert reads > 20
            assert (await running).logs == 2

        await bench.life(work)

    for seed in range(5):
        run(story, Bench(seed, entry_log_bytes_max=16_384))


@pytest.mark.parametrize("is_batch", [False, True])
@story(run, small)
async def test_a_read_whose_log_is_gone_when_its_turn_comes_finds_the_new_place(
    bench: Bench, *, is_batch: bool
) -> None:
    async def read(store: EntryStore) -> list[object]:
        if is_batch:
            return [*await store.read_many(LIVE, [EntryId(10), EntryId(0)])]
        return [await store.read(LIVE, EntryId(10)), await store.read(LIVE, EntryId(0))]

    async def second(store: EntryStore) -> None:
        faults = bench.node.disk_faults
        faults.must_wait_percent, faults.write_latency_ns = 100, 10**10
        reading = bench.simulation.loop.create_task(read(store))
        await bench.simulation.loop.sleep_ns(10)  # it has a location by now and opens the log
        faults.write_latency_ns = 10_000
        # The third is the last one of the life before, which holds little but padding.
        assert (await compactor(bench, store).compact(Kind.MINOR)).logs == 3
        assert not reading.done()
        assert await reading == [entry(LIVE, entry_id, payload=BIG) for entry_id in (10, 0)]

    await bench.life(lambda store: half_dead_logs(bench, store))
    await bench.life(second)


class Late:
    """Entry logs that begin to read when they are told so."""

    def __init__(self, logs: EntryLogs) -> None:
        self._logs = logs
        self.may_read = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logs, name)

    async def read(self, *place: Any) -> Any:
        await self.may_read.wait()
        return await self._logs.read(*place)

    async def read_many(self, *places: Any) -> Any:
        await self.may_read.wait()
        return await self._logs.read_many(*places)


async def looked_up(store: EntryStore, *, is_check: bool) -> object:
    if is_check:
        return await store.check_entry(LIVE, EntryId(10))
    return await store.read(LIVE, EntryId(10))


@pytest.mark.parametrize("is_check", [False, True])
@story(run, small)
async def test_a_read_that_begins_when_its_log_is_known_to_be_gone_finds_the_new_place(
    bench: Bench, *, is_check: bool
) -> None:
    """Neither an error nor a "no": the entry was here all the time."""

    async def second(store: EntryStore) -> None:
        (partition,) = store.partitions
        logs = partition.logs
        late = cast(EntryLogs, Late(logs))
        partition.ahead._logs = late
        if is_check:
            partition.logs = late
        reading = bench.simulation.loop.create_task(looked_up(store, is_check=is_check))
        await bench.simulation.loop.sleep_ns(10)
        partition.logs = logs
        assert (await compactor(bench, store).compact(Kind.MINOR)).logs == 3
        assert not reading.done()
        cast(Late, late).may_read.set()
        assert await reading == (True if is_check else entry(LIVE, 10, payload=BIG))

    await bench.life(lambda store: half_dead_logs(bench, store))
    await bench.life(second)


@story(run, small)
async def test_a_check_whose_log_is_gone_when_it_is_opened_finds_the_new_place(bench: Bench) -> None:
    async def second(store: EntryStore) -> None:
        faults = bench.node.disk_faults
        faults.must_wait_percent, faults.write_latency_ns = 100, 10**10
        reading = bench.simulation.loop.create_task(looked_up(store, is_check=True))
        await bench.simulation.loop.sleep_ns(10)
        faults.write_latency_ns = 10_000
        assert (await compactor(bench, store).compact(Kind.MINOR)).logs == 3
        assert not reading.done()
        assert await reading is True

    await bench.life(lambda store: half_dead_logs(bench, store))
    await bench.life(second)


@story(run)
async def test_an_entry_that_is_in_the_write_cache_alone_is_a_good_one(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, LIVE, [0])
        assert await store.check_entry(LIVE, EntryId(0))

    await bench.life(work)


@story(run, small)
async def test_a_log_with_an_entry_that_does_not_check_is_kept_and_its_error_stays_an_error(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, LIVE, range(3), payload=BIG)
        await bench.put_all(store, DEAD, range(20), payload=BIG)
        await store.flush()
        await bench.put_all(store, 9, [0])
        await store.flush()
        await collector.collect(store, is_dead)
        bench.rot("00000000.log", BLOCK_BYTES + 2080 + 50)  # in entry 1

        done = await compactor(bench, store).compact(Kind.MINOR)

        assert (done.logs, done.logs_damaged, done.entries) == (0, 1, 2)
        assert await bench.read(store, LIVE, 0) == entry(LIVE, 0, payload=BIG)
        with pytest.raises(errors.CorruptFile, match="does not check"):
            await bench.read(store, LIVE, 1)
        # Another bookie's copy heals it, and then the log may go.
        store.add_copied(LIVE, EntryId(1), entry(LIVE, 1, payload=BIG), b"k" * 20)
        await store.flush()
        assert (await compactor(bench, store).compact(Kind.MINOR)).logs == 1
        assert await bench.read(store, LIVE, 1) == entry(LIVE, 1, payload=BIG)

    await bench.life(work)


@pytest.mark.parametrize("bad", [0, 1, 2])
@story(run, small)
async def test_a_log_is_kept_whichever_of_its_pieces_has_an_entry_that_does_not_check(
    bench: Bench, *, bad: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that cannot read now may be able to later: nothing of what it did not give goes with the log."""
    monkeypatch.setattr(survey, "PIECE_BYTES", 1)  # an entry each

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, LIVE, range(3), payload=BIG)
        await bench.put_all(store, DEAD, range(20), payload=BIG)
        await store.flush()
        await bench.put_all(store, 9, [0])
        await store.flush()
        await collector.collect(store, is_dead)
        location = store.partitions[0].index.locate(LIVE, EntryId(bad))
        assert location is not None
        bench.rot("00000000.log", location.offset + 100)

        done = await compactor(bench, store).compact(Kind.MINOR)

        assert (done.logs, done.logs_damaged, done.entries) == (0, 1, 2)
        bench.rot("00000000.log", location.offset + 100)  # the bit turns back
        assert await bench.read(store, LIVE, bad) == entry(LIVE, bad, payload=BIG)

    await bench.life(work)


def test_copies_go_no_faster_than_told() -> None:
    seconds = []
    for options in (
        UNLIMITED,
        CompactionOptions(entries_per_s=1),
        CompactionOptions(entries_per_s=None, bytes_per_s=500),
    ):

        async def story(bench: Bench, options: CompactionOptions = options) -> float:
            async def work(store: EntryStore) -> float:
                await half_dead_logs(bench, store)
                began = bench.simulation.loop.time()
                await compactor(bench, store, options).compact(Kind.MINOR)
                return bench.simulation.loop.time() - began

            return await bench.life(work)

        seconds.append(run(story, small()))
    free, by_entries, by_bytes = seconds

    assert free < 0.2
    assert by_entries > 1.5  # two entries at one a second, less the burst
    assert by_bytes > 7  # two of 2,032 bytes at 500 a second


@story(run, small)
async def test_a_run_ends_when_its_time_is_over(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await half_dead_logs(bench, store)
        options = CompactionOptions(entries_per_s=1, minor=CompactionRule(0.2, 1000, time_max_ms=500))
        assert (await compactor(bench, store, options).compact(Kind.MINOR)).logs == 1

    await bench.life(work)


@story(run, small)
async def test_a_full_disk_stops_it_and_nothing_is_lost(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await half_dead_logs(bench, store)
        bench.fill("/ledgers", room=100)
        await store.flush()
        done: Compacted = await compactor(bench, store).compact(Kind.MINOR)
        assert "full" in done.refused
        forced = CompactionOptions(entries_per_s=None, is_forced_when_full=True)
        done = await compactor(bench, store, forced).compact(Kind.MINOR, is_forced=True)
        assert (done.logs, done.refused) == (0, "")  # there is no room for a copy either
        bench.node.image.volumes["/ledgers"].used_bytes += 1_000_000  # somebody else's
        bench.fill("/ledgers", room=20_000)
        await store.flush()
        assert store.is_read_only
        done = await compactor(bench, store, forced).compact(Kind.MINOR, is_forced=True)
        assert done.logs == 2  # little to copy, much to free
        await check(bench, store)

    await bench.life(work)


@story(run, small)
async def test_a_log_that_cannot_be_opened_keeps_no_other_from_being_compacted_or_dropped(bench: Bench) -> None:
    async def fill(store: EntryStore) -> None:
        await half_dead_logs(bench, store)

    async def lose_the_first_log() -> None:
        await bench.node.world.disk.remove("/ledgers/current/00000000.log")

    async def work(store: EntryStore) -> None:
        # As a log that is there and answers an I/O error: the index, and the list of names, still have it.
        store.partitions[0].logs.ids.add(0)

        done = await compactor(bench, store).compact(Kind.MINOR)

        assert (done.logs, log_names(bench)) == (2, ["3"])
        assert await bench.read(store, LIVE, 10) == entry(LIVE, 10, payload=BIG)
        with pytest.raises(errors.StorageFailed):
            await store.read(LIVE, EntryId(0))
        assert await collector.drop_dead_logs(store) == 0

    await bench.life(fill)
    await bench.look(lose_the_first_log())
    await bench.life(work)


@story(run, small)
async def test_a_log_that_holds_a_quarantined_ledger_is_kept(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await half_dead_logs(bench, store)
        store.partitions[0].table.quarantine(LIVE, "a row of its entries cannot be read")

        done = await compactor(bench, store).compact(Kind.MINOR)

        assert (done.logs, done.logs_damaged, done.entries) == (0, 2, 2)
        assert await bench.read(store, LIVE, 0) == entry(LIVE, 0, payload=BIG)

    await bench.life(work)


class FailingLogs:
    """The logs of a directory: a read fails with `error` where `where` says so of the asked entries. None goes."""

    def __init__(self, logs: EntryLogs, error: BookieError, where: Callable[[list[EntryId]], bool]) -> None:
        self._logs = logs
        self._error = error
        self._where = where
        self.asked: list[list[EntryId]] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._logs, name)

    async def read_many(self, log_id: int, places: Sequence[EntryPlace]) -> Sequence[Buffer | None]:
        self.asked.append([place.entry_id for place in places])
        if self._where(self.asked[-1]):
            raise self._error
        return await self._logs.read_many(log_id, places)

    async def remove(self, log_id: int) -> None:
        raise self._error


def with_failing(store: EntryStore, error: BookieError, where: Callable[[list[EntryId]], bool]) -> FailingLogs:
    partition = store.partitions[0]
    failing = FailingLogs(partition.logs, error, where)
    partition.logs = cast(EntryLogs, failing)
    return failing


async def three_live_ones(bench: Bench, store: EntryStore) -> None:
    """A full log with three live entries, and the log being written."""
    await bench.put_all(store, LIVE, range(3), payload=BIG)
    await bench.put_all(store, DEAD, range(20), payload=BIG)
    await store.flush()
    await bench.put_all(store, 9, [0])
    await store.flush()
    await collector.collect(store, is_dead)


@story(run, small)
async def test_of_a_log_with_a_bad_sector_all_others_are_copied(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await three_live_ones(bench, store)
        failing = with_failing(store, errors.StorageFailed("a bad sector"), lambda asked: EntryId(1) in asked)

        done = await compactor(bench, store).compact(Kind.MINOR)

        assert (done.logs, done.logs_damaged, done.entries) == (0, 1, 2)
        assert failing.asked == [[0, 1, 2], [0], [1], [2]], "together first, then one by one"

    await bench.life(work)


@story(run, small)
async def test_a_node_without_descriptors_damages_no_log_and_ends_the_run(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await three_live_ones(bench, store)
        with_failing(store, errors.OutOfResources("no descriptor"), lambda asked: True)

        with pytest.raises(errors.OutOfResources):
            await compactor(bench, store).compact(Kind.MINOR)

    await bench.life(work)


@story(
    run,
    entry_log_bytes_max=16_384,
    ledger_dirs=("/ledgers", "/index/ledgers"),
    index_dirs=("/index", "/index/2"),
)
async def test_where_a_directory_takes_no_writes_nothing_is_rewritten(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        for live in (6, 7):
            await bench.put_all(store, live, [0], payload=BIG)
            await bench.put_all(store, live + 2, range(10), payload=BIG)
            await store.flush()
            await bench.put_all(store, live, [1])
            await store.flush()
            store.delete_ledger(LedgerId(live + 2))
        await store.flush()
        store.partitions[1].failure = errors.PartitionFailed("ledger directory 2 takes no writes")
        with pytest.raises(errors.PartitionFailed):
            await store.flush()
        failing = with_failing(store, errors.StorageFailed("not asked"), lambda asked: True)

        done = await compactor(bench, store).compact(Kind.MINOR)

        assert "has failed" in done.refused
        assert not failing.asked

    await bench.life(work)


@pytest.mark.parametrize("error", [errors.DiskFull, errors.PartitionFailed, errors.DiskFailed])
@story(run, small)
async def test_what_is_no_fault_of_one_log_ends_a_run(bench: Bench, *, error: type[BookieError]) -> None:
    async def work(store: EntryStore) -> None:
        await half_dead_logs(bench, store)
        failing = with_failing(store, error("its removal"), lambda asked: False)

        with pytest.raises(error):
            await compactor(bench, store).compact(Kind.MINOR)
        assert len(failing.asked) == 1, "the other log waits for the next run"

    await bench.life(work)


@story(run, small)
async def test_a_fault_of_one_log_keeps_that_log_alone(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await half_dead_logs(bench, store)
        failing = with_failing(store, errors.CorruptFile("its removal"), lambda asked: False)

        done = await compactor(bench, store).compact(Kind.MINOR)

        assert (done.logs, done.logs_damaged) == (0, 2)
        assert len(failing.asked) == 2

    await bench.life(work)


@story(run, small)
async def test_while_clients_wait_for_room_nothing_is_copied(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await half_dead_logs(bench, store)
        reads = with_failing(store, errors.CorruptFile("its removal"), lambda asked: False)
        store.health.room.clear()

        copying = asyncio.ensure_future(compactor(bench, store).compact(Kind.MINOR))
        await bench.simulation.loop.sleep_ns(10**8)
        assert store.is_congested
        assert reads.asked == []
        store.health.room.set()
        await copying

        assert len(reads.asked) == 2

    await bench.life(work)


class UnmeasuredLogs(FailingLogs):
    """Logs of which nobody can say how long they are."""

    async def size_of(self, log_id: int) -> int:
        raise self._error


@pytest.mark.parametrize("error", [errors.CorruptFile, errors.StorageFailed])
@story(run, small)
async def test_a_log_that_cannot_be_looked_at_counts_as_wholly_live(bench: Bench, *, error: type[BookieError]) -> None:
    async def work(store: EntryStore) -> None:
        await half_dead_logs(bench, store)
        (partition,) = store.partitions
        partition.logs = cast(EntryLogs, UnmeasuredLogs(partition.logs, error("its head"), lambda asked: False))

        found = await survey.survey(partition)

        assert [(usage.log_id, usage.share, usage.ledgers) for usage in found] == [(0, 1.0, 1), (1, 1.0, 1)]

    await bench.life(work)


@story(run, small)
async def test_a_disk_that_failed_ends_a_look_at_its_logs(bench: Bench) -> None:
    """Else the node would go on beside it, and each of its logs were one that is kept."""

    async def work(store: EntryStore) -> None:
        await half_dead_logs(bench, store)
        (partition,) = store.partitions
        failed = UnmeasuredLogs(partition.logs, errors.DiskFailed("gone"), lambda asked: False)
        partition.logs = cast(EntryLogs, failed)

        with pytest.raises(errors.DiskFailed):
            await survey.survey(partition)

    await bench.life(work)
