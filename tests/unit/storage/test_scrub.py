"""Scrubbing finds what rots, tells it, changes nothing, and goes on where it was."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import pytest

from bookie.base import errors
from bookie.base.ids import LEDGER_ID_MAX, EntryId, LedgerId
from bookie.ports.ordered_store import OrderedStore
from bookie.sim.disk import DiskFaults, WriteFault
from bookie.sim.faults import Dials
from bookie.sim.node import ProcessEnd
from bookie.storage.collect.compactor import Compactor
from bookie.storage.collect.plan import Kind
from bookie.storage.collect_options import CompactionOptions, CompactionRule
from bookie.storage.entrylog.logs import EntryLogs, EntryPlace
from bookie.storage.index import HINTS_MAX, Index
from bookie.storage.location import Location
from bookie.storage.scrub import Scrubber
from bookie.storage.scrub_options import ScrubOptions
from bookie.storage.store import EntryStore
from storage_support import KEY, Bench, entry, options, put, run
from story_support import story

FAST = ScrubOptions(interval_ms=0, bytes_per_s=None)
PAYLOAD = bytes(300)
HOUR = 3600 * 10**9


async def stored(bench: Bench, store: EntryStore) -> None:
    for ledger_id in range(1, 5):
        await bench.put_all(store, ledger_id, range(40), payload=PAYLOAD)
    await store.flush()


def offset_of(store: EntryStore, ledger_id: int, entry_id: int) -> int:
    location = store.partitions[0].index.locate(LedgerId(ledger_id), EntryId(entry_id))
    assert location is not None
    return location.offset


class Running:
    """A scrubber and the task that runs it."""

    def __init__(self, bench: Bench, store: EntryStore, options: ScrubOptions = FAST) -> None:
        self.bench = bench
        self.scrubber = Scrubber(store.partitions, store.bad_entries, store.stats, options, bench.node.world.clock)
        self.task: Any = bench.simulation.loop.create_task(self.scrubber.run())

    async def whole_pass(self) -> None:
        done = self.scrubber.report().passes_done
        self.scrubber.request()
        await self.bench.simulation.until(lambda: self.scrubber.report().passes_done > done, "a pass of the scrub")

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


def scrubbing(work: Callable[[Bench, EntryStore, Running], Awaitable[None]], options: ScrubOptions = FAST) -> None:
    async def story(bench: Bench) -> None:
        async def life(store: EntryStore) -> None:
            await stored(bench, store)
            running = Running(bench, store, options)
            await work(bench, store, running)
            await running.stop()

        await bench.life(life)

    run(story, Bench(entry_log_bytes_max=8192))


@story(scrubbing)
async def test_a_sound_store_is_read_whole_and_nothing_is_found(
    bench: Bench, store: EntryStore, running: Running
) -> None:
    await running.whole_pass()
    report = running.scrubber.report()
    assert (report.entries_checked, report.bad_count, report.bad) == (160, 0, ())
    assert report.bytes_checked == 160 * (32 + 300)
    assert not report.is_running
    assert store.stats.scrub_entries == 160


@story(scrubbing)
async def test_every_flipped_bit_is_named_and_nothing_is_repaired(
    bench: Bench, store: EntryStore, running: Running
) -> None:
    for ledger_id, entry_id in ((2, 0), (2, 1), (4, 39)):
        location = store.partitions[0].index.locate(LedgerId(ledger_id), EntryId(entry_id))
        assert location is not None
        bench.rot(f"{location.log_id:08x}.log", location.offset + 200)
    await running.whole_pass()
    report = running.scrubber.report()
    assert [(bad.ledger_id, bad.entry_id) for bad in report.bad] == [(2, 0), (2, 1), (4, 39)]
    assert all("does not check" in bad.reason for bad in report.bad)
    assert all("`bookie node fill-holes --start` fetches copies" in bad.reason for bad in report.bad)
    assert store.stats.scrub_bad == 3
    with pytest.raises(errors.CorruptFile):
        await bench.read(store, 2, 0)
    # Another bookie's copy heals one; the next pass knows.
    store.add_copied(LedgerId(2), EntryId(0), entry(2, 0, payload=PAYLOAD), KEY)
    await store.flush()
    store.delete_ledger(LedgerId(4))
    await store.flush()
    await running.whole_pass()
    assert [(bad.ledger_id, bad.entry_id) for bad in running.scrubber.report().bad] == [(2, 1)]


@story(run, entry_log_bytes_max=8192)
async def test_a_log_that_is_gone_is_as_many_bad_entries(bench: Bench) -> None:
    async def second(store: EntryStore) -> None:
        running = Running(bench, store)
        await running.whole_pass()
        report = running.scrubber.report()
        assert (report.bad_count, report.entries_checked) == (160, 165)
        assert all("missing" in bad.reason and "fill-holes" in bad.reason for bad in report.bad)
        await running.stop()

    async def first(store: EntryStore) -> None:
        await stored(bench, store)
        await bench.put_all(store, 9, range(5))
        await store.flush()

    await bench.life(first)
    volume = bench.node.image.volumes["/ledgers"]
    directory: Any = volume.root.names["current"]
    del directory.names["00000000.log"], directory.durable["00000000.log"]
    await bench.life(second)


def test_it_goes_no_faster_than_told_and_rests_between_passes() -> None:
    async def work(bench: Bench, store: EntryStore, running: Running) -> None:
        loop = bench.simulation.loop
        await loop.sleep_ns(60 * 10**9)
        assert store.stats.scrub_entries == 0  # the first pass comes after the first interval
        await loop.sleep_ns(40 * 10**9)
        assert 0 < store.stats.scrub_entries < 160
        began_ns = loop.now_ns
        await bench.simulation.until(lambda: store.stats.scrub_passes == 1, "the pass")
        assert loop.now_ns - began_ns > 2 * 10**9  # 160 entries at 20 a second
        await loop.sleep_ns(50 * 10**9)
        assert store.stats.scrub_entries == 160
        await bench.simulation.until(lambda: store.stats.scrub_passes == 2, "the next one")
        assert store.stats.scrub_entries == 320  # and that from the beginning

    scrubbing(work, ScrubOptions(interval_ms=95_000, entries_per_s=20, bytes_per_s=None))


@story(run)
async def test_a_pass_goes_on_where_the_process_ended_and_one_asked_for_begins_anew(bench: Bench) -> None:
    options = ScrubOptions(interval_ms=1000, entries_per_s=20, bytes_per_s=None)

    async def first(store: EntryStore) -> None:
        await stored(bench, store)
        running = Running(bench, store, options)
        await bench.simulation.until(lambda: store.stats.scrub_entries >= 80, "half of it")
        await store.flush()
        await running.stop()

    async def second(store: EntryStore) -> None:
        running = Running(bench, store, options)
        await bench.simulation.until(lambda: store.stats.scrub_passes == 1, "the rest of it")
        assert store.stats.scrub_entries <= 80
        running.scrubber.request()
        await bench.simulation.until(lambda: store.stats.scrub_passes == 2, "a whole pass")
        assert running.scrubber.report().entries_checked == 160
        await running.stop()

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(second)


@story(run, ledger_dirs=("/ledgers/a", "/ledgers/b"), index_dirs=("/index/a", "/index/b"))
async def test_a_pass_that_was_cut_off_anywhere_looks_at_each_entry_once(bench: Bench) -> None:
    """Two directories, ledgers of several pieces: no entry is left out, none is read twice."""
    options = ScrubOptions(interval_ms=1000, entries_per_s=20, bytes_per_s=None)
    counts: list[int] = []

    async def first(store: EntryStore) -> None:
        for ledger_id in range(4):
            await bench.put_all(store, ledger_id, range(9), payload=bytes(200_000))
        await store.flush()

    async def some(store: EntryStore) -> None:
        running = Running(bench, store, options)
        wanted = 3 + 5 * len(counts) % 7
        await bench.simulation.until(lambda: store.stats.scrub_entries >= wanted, "some of it")
        counts.append(store.stats.scrub_entries)
        await running.stop()
        for ledger_id in (0, 1):  # the place becomes durable with a checkpoint that has something to write
            await bench.write_lac(store, ledger_id, len(counts))

    async def last(store: EntryStore) -> None:
        running = Running(bench, store, options)
        await bench.simulation.until(lambda: store.stats.scrub_passes == 1, "the rest of it")
        counts.append(store.stats.scrub_entries)
        await running.stop()

    await bench.life(first)
    while sum(counts) < 28:
        await bench.life(some)
    await bench.life(last)
    assert sum(counts) == 36, counts
    assert len(counts) > 4


@story(run)
async def test_a_bookie_that_writes_nothing_makes_the_place_durable_now_and_then(bench: Bench) -> None:
    """What is not flushed stays in memory a second time (`runtime.rocksdb`), and is gone with the process."""
    ledgers, interval = HINTS_MAX + 4_000, 1_000  # entries that are looked at between two checkpoints

    def unflushed(store: EntryStore) -> int:
        index: Any = store.partitions[0].index.store
        return len(index._image.batches)

    async def first(store: EntryStore) -> None:
        for ledger_id in range(ledgers):
            put(store, ledger_id, 0)
        await store.flush()

    async def some(store: EntryStore, count: int) -> None:
        rate = ScrubOptions(interval_ms=1000, entries_per_s=100, bytes_per_s=None)
        running, most = Running(bench, store, rate), 0
        while store.stats.scrub_entries < count:
            await bench.simulation.loop.sleep_ns(10**9)
            most = max(most, unflushed(store))
        await running.stop()
        assert most <= HINTS_MAX + 2 * interval

    async def last(store: EntryStore) -> None:
        running = Running(bench, store, ScrubOptions(interval_ms=1000, bytes_per_s=None))
        await bench.simulation.until(lambda: store.stats.scrub_passes == 1, "the rest of it")
        assert 0 < store.stats.scrub_entries <= ledgers - HINTS_MAX
        await running.stop()

    await bench.life(first)
    await bench.life(lambda store: some(store, HINTS_MAX + 3 * interval), end=ProcessEnd.POWER_CUT)
    await bench.life(last)


@story(run)
async def test_an_orderly_stop_of_a_bookie_that_wrote_nothing_keeps_the_place(bench: Bench) -> None:
    options = ScrubOptions(interval_ms=1000, entries_per_s=20, bytes_per_s=None)

    async def half(store: EntryStore) -> None:
        await store.flush()  # the marks of this life's journal
        running = Running(bench, store, options)
        await bench.simulation.until(lambda: store.stats.scrub_entries >= 80, "half of it")
        await running.stop()

    async def rest(store: EntryStore) -> None:
        running = Running(bench, store, options)
        await bench.simulation.until(lambda: store.stats.scrub_passes == 1, "the rest of it")
        assert 0 < store.stats.scrub_entries <= 80
        await running.stop()

    await bench.life(lambda store: stored(bench, store))
    await bench.life(half)
    await bench.life(rest)


@story(run)
async def test_a_bookie_that_starts_again_before_a_pass_is_due_scrubs_all_the_same(bench: Bench) -> None:
    """Nodes are exchanged once a week, and a pass comes once a week."""
    options = ScrubOptions(interval_ms=168_000, bytes_per_s=None)
    passes = []

    async def most_of_a_week(store: EntryStore) -> None:
        if not passes:
            await stored(bench, store)
        running = Running(bench, store, options)
        await bench.simulation.loop.sleep_ns(150 * 10**9)
        passes.append(store.stats.scrub_passes)
        await running.stop()

    for _ in range(5):
        await bench.life(most_of_a_week)
    assert passes == [0, 1, 1, 1, 1]


def test_beside_a_directory_that_failed_the_scrub_goes_on_and_writes_nothing_there() -> None:
    """Its index lies there too, and an index that cannot be written stops the node."""
    faults = DiskFaults(fails_as=WriteFault.BROKEN, fails_for=1_000_000)
    bench = Bench(dials=Dials(disk=lambda name: faults))
    bench.node.image.add_volume("/ledgers1")
    bench.options = options(ledger_dirs=("/ledgers", "/ledgers1"), index_dirs=())

    async def story(bench: Bench) -> None:
        async def life(store: EntryStore) -> None:
            await stored(bench, store)
            await bench.put_all(store, 5, [0])
            faults.fails_path = "/ledgers1"
            faults.fails_at_write = bench.node.disk.writes + 1
            with pytest.raises(errors.PartitionFailed):
                await store.flush()
            running = Running(bench, store)
            await running.whole_pass()
            assert running.scrubber.report().entries_checked == 160
            assert not bench.failures
            await running.stop()
            faults.fails_at_write = 0

        await bench.life(life, end=ProcessEnd.KILL)

    run(story, bench)


@story(run)
async def test_the_greatest_ids_are_looked_at_like_all_others(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        for ledger_id in (0, LEDGER_ID_MAX):
            await bench.put_all(store, ledger_id, [0, LEDGER_ID_MAX])
        await store.flush()
        running = Running(bench, store)
        for passes in (1, 2):
            await running.whole_pass()
            assert store.stats.scrub_entries == 4 * passes
        await running.stop()

    await bench.life(work)


@story(scrubbing)
async def test_entries_that_compaction_or_a_writer_moves_meanwhile_are_not_bad(
    bench: Bench, store: EntryStore, running: Running
) -> None:
    options = CompactionOptions(entries_per_s=None, major=CompactionRule(0.99, 100_000_000))
    compactor = Compactor(store, options, bench.node.world.clock)
    for round_ in range(4):
        running.scrubber.request()
        store.delete_ledger(LedgerId(1 + round_ % 2))
        await store.flush()
        await bench.settle(*(put(store, 3, number, payload=b"new", is_recovery=True) for number in range(5)))
        await compactor.compact(Kind.MAJOR)
        await bench.put_all(store, 1 + round_ % 2, range(40), payload=PAYLOAD)
        await store.flush()
    await running.whole_pass()
    assert running.scrubber.report().bad == ()


@story(run, entry_log_bytes_max=8192)
async def test_a_log_that_compaction_drops_while_the_scrub_opens_it_is_not_damage(
    bench: Bench, *, caplog: pytest.LogCaptureFixture
) -> None:
    async def first(store: EntryStore) -> None:
        await stored(bench, store)
        await bench.put_all(store, 9, [0])
        store.delete_ledger(LedgerId(4))
        await store.flush()

    async def second(store: EntryStore) -> None:
        faults, running = bench.node.disk_faults, Running(bench, store)
        faults.write_latency_ns = 10**10
        running.scrubber.request()
        before = bench.node.disk.operations
        await bench.simulation.until(lambda: bench.node.disk.operations > before, "the scrub opens a log")
        faults.write_latency_ns = 10_000
        options = CompactionOptions(entries_per_s=None, major=CompactionRule(0.99, 100_000_000))
        assert (await Compactor(store, options, bench.node.world.clock).compact(Kind.MAJOR)).logs > 0
        assert store.stats.scrub_entries == 0
        await bench.simulation.until(lambda: store.stats.scrub_passes == 1, "the pass")
        assert "bad entry" not in caplog.text
        assert running.scrubber.report().bad == ()
        await running.stop()

    await bench.life(first)
    await bench.life(second)


class OneReadShort:
    """Entry logs that do not give the bodies of many at once, and have no descriptor for a single one."""

    def __init__(self, logs: EntryLogs) -> None:
        self._logs = logs
        self.is_short = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logs, name)

    async def read_many(self, log_id: int, places: Sequence[EntryPlace]) -> list[bytes | None]:
        return [None] * len(places) if self.is_short else await self._logs.read_many(log_id, places)

    async def read(self, location: Location, ledger_id: LedgerId, entry_id: EntryId) -> Any:
        raise errors.OutOfResources("no descriptor")


@story(scrubbing)
async def test_a_process_without_descriptors_says_nothing_about_entries(
    bench: Bench, store: EntryStore, running: Running
) -> None:
    (partition,) = store.partitions
    short = OneReadShort(partition.logs)
    partition.logs = cast(EntryLogs, short)
    running.scrubber.request()
    await bench.simulation.loop.sleep_ns(10**9)
    assert (running.scrubber.report().bad_count, store.stats.scrub_passes) == (0, 0)
    assert not running.scrubber.report().is_running
    assert running.scrubber.report().given_up.endswith("no descriptor")
    assert store.stats.scrub_given_up == 1

    short.is_short = False
    await running.whole_pass()
    assert running.scrubber.report().entries_checked == 160
    assert (running.scrubber.report().given_up, store.stats.scrub_given_up) == ("", 0)


class Unwalkable:
    """An index with a block that cannot be read."""

    def __init__(self, index: Index, error: errors.BookieError | None = None) -> None:
        self._index = index
        self._error = error or errors.CorruptFile("a block of the index")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)

    async def walk_locations(self, ledger_id: LedgerId, first: EntryId) -> Any:
        if ledger_id == 2:
            raise self._error
        async for rows in self._index.walk_locations(ledger_id, first):
            yield rows


@story(scrubbing)
async def test_a_disk_that_failed_ends_the_scrub_and_so_the_node(
    bench: Bench, store: EntryStore, running: Running
) -> None:
    (partition,) = store.partitions
    partition.index = cast(Index, Unwalkable(partition.index, errors.DiskFailed("the disk of the index")))
    running.scrubber.request()

    with pytest.raises(errors.DiskFailed, match="of the index"):
        await running.task

    assert not running.scrubber.report().is_running


@story(run, ledger_dirs=("/ledgers/a", "/ledgers/b"), index_dirs=("/index/a", "/index/b"))
async def test_a_directory_whose_index_cannot_be_walked_is_told_and_keeps_no_other_from_being_looked_at(
    bench: Bench,
) -> None:
    async def work(store: EntryStore) -> None:
        await stored(bench, store)
        first, other = store.partitions
        first.index = cast(Index, Unwalkable(first.index))
        running = Running(bench, store)
        running.scrubber.request()
        await bench.simulation.until(lambda: bool(running.scrubber.report().given_up), "the end of a pass")
        assert running.scrubber.report().given_up == "/ledgers/a/current: a block of the index"
        assert (store.stats.scrub_passes, store.stats.scrub_given_up) == (0, 1)
        assert store.stats.scrub_entries == 80  # those of the other directory
        first.index = cast(Any, first.index)._index
        await running.whole_pass()
        assert (running.scrubber.report().given_up, store.stats.scrub_given_up) == ("", 0)
        await running.stop()
        assert other.number == 1

    await bench.life(work)


@story(scrubbing)
async def test_an_entry_that_reads_well_again_is_no_longer_listed(
    bench: Bench, store: EntryStore, running: Running
) -> None:
    for bad_count in (1, 0):
        bench.rot(".log", offset_of(store, 2, 5) + 100)  # the second time it turns the bit back
        await running.whole_pass()
        assert running.scrubber.report().bad_count == bad_count


class Forgetful:
    """An index store that does not read the rows of the scrub."""

    def __init__(self, store: OrderedStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get(self, key: bytes) -> bytes | None:
        if b"scrub" in key:
            raise errors.StorageFailed("cannot read that row")
        return self._store.get(key)


@pytest.mark.parametrize("stored_as", [None, b"", b"odd"])
@story(run)
async def test_a_place_that_cannot_be_read_or_makes_no_sense_costs_a_pass_from_the_beginning(
    bench: Bench, *, stored_as: bytes | None
) -> None:
    """One row of the scrub's own stops neither it nor the bookie."""

    async def work(store: EntryStore) -> None:
        (partition,) = store.partitions
        await stored(bench, store)
        if stored_as is None:
            partition.index.store = cast(OrderedStore, Forgetful(partition.index.store))
        else:
            for name in ("scrub", "scrub-rest"):
                partition.index.put_meta(name, stored_as)
        running = Running(bench, store, ScrubOptions(interval_ms=1_000, bytes_per_s=None))
        await bench.simulation.until(lambda: store.stats.scrub_passes == 1, "a pass")
        assert store.stats.scrub_entries == 160
        assert not running.task.done()
        await running.stop()

    await bench.life(work)


def test_options_out_of_range_are_refused() -> None:
    for bad in ({"interval_ms": -1}, {"entries_per_s": 0}, {"bytes_per_s": 0}):
        with pytest.raises(errors.BadInput, match="scrub options"):
            ScrubOptions(**bad)
