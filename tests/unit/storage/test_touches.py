"""Touches: without data in the journal it names the ledgers of which entries are in memory alone. A crash puts these in
limbo, and no other (docs/decisions/0025-touches.md)."""

import struct
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

import pytest

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.sim.node import NodeCrashed, ProcessEnd
from bookie.storage import inspect, restart, versions
from bookie.storage.journal import format as journal_format
from bookie.storage.store import EntryStore
from storage_support import KEY, Bench, Outcome, entry, options, put, run
from story_support import story

NEVER_MS = 3_600_000
TOUCHING = {
    "journal_write_data": False,
    "touch_unjournaled_ledgers": True,
    "unjournaled_flush_interval_ms": NEVER_MS,
}
ENDS = pytest.mark.parametrize("how", [ProcessEnd.KILL, ProcessEnd.POWER_CUT])
EPOCH = 7


class TouchBench(Bench):
    """Opens its store as a boot does, with the epoch of the boot."""

    def __init__(self, seed: int | str = 1, **changes: Any) -> None:
        super().__init__(seed, **{**TOUCHING, **changes})

    def change(self, **changes: Any) -> None:
        self.options = options(**{**TOUCHING, **changes})

    async def opened(self, work: Callable[[EntryStore], Awaitable[None]], *, end: ProcessEnd) -> None:
        """A life that is told its epoch."""
        world = self.node.begin()

        async def serve() -> None:
            store = await restart.open_store(self.options, world, fail=self.failures.append, epoch=EPOCH)
            await work(store)

        try:
            await self.node.do(serve())
        finally:
            if self.node.life is not None:
                self.node.end(end)


def in_limbo(store: EntryStore, ledger_ids: Iterable[int]) -> list[int]:
    """Which of these ledgers are in limbo."""
    found = [(ledger_id, store.facts(LedgerId(ledger_id))) for ledger_id in ledger_ids]
    return [ledger_id for ledger_id, facts in found if facts is not None and facts.is_limbo]


async def put_journaled(bench: Bench, store: EntryStore, ledger_id: int) -> None:
    """A replicator's copy: the next start has it to write into a log."""
    done = Outcome()
    body = entry(ledger_id, 0)
    store.add(LedgerId(ledger_id), [EntryId(0)], [body], KEY, is_recovery=True, is_journaled=True, done=done)
    await bench.settle(done)


async def touches_on_disk(bench: Bench) -> list[int]:
    """The ledgers that the journal's files name, each as often as they do, while no process runs."""
    found: list[int] = []

    async def look() -> None:
        disk = bench.node.world.disk
        for file_id in await inspect.journal_ids(disk, "/journal"):
            async for record in inspect.journal_records(disk, "/journal", file_id, is_last=True):
                if isinstance(record, inspect.JournalRecord) and record.kind == "touch":
                    found.append(record.ledger_id)

    await bench.look(look())
    return found


def journal_versions(bench: Bench) -> set[int]:
    """The formats of the journal files that are there."""
    found = [bench.image(path).data for path in bench.paths(".journal")]
    return {struct.unpack_from(">I", data, 8)[0] for data in found}


async def is_told(bench: Bench, outcome: Outcome) -> bool:
    """Whether the answer comes without the disk: within a few turns of the loop."""
    await bench.simulation.loop.sleep_ns(100)
    return outcome.is_done


def hold_disk(bench: Bench) -> None:
    bench.node.disk_faults.write_latency_ns = 10**10


def free_disk(bench: Bench) -> None:
    bench.node.disk_faults.write_latency_ns = 10_000


# ---- when an add is answered ----------------------------------------------------------------------------------------


@story(run, bench=TouchBench)
async def test_no_entry_is_acknowledged_before_its_ledger_has_a_durable_touch(bench: Bench) -> None:
    """Not the first one of a generation, nor one that comes right behind it; those after that are answered at once."""

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, [0])
        await store.flush()
        hold_disk(bench)
        first = put(store, 7, 1)
        second = put(store, 7, 2)
        third = put(store, 7, 3, is_recovery=True)
        assert not await is_told(bench, first)
        assert not second.is_done
        assert not third.is_done
        free_disk(bench)
        await bench.settle(first, second, third)
        assert first.is_ok
        assert second.is_ok
        assert third.is_ok
        hold_disk(bench)
        assert await is_told(bench, put(store, 7, 4))
        free_disk(bench)
        assert store.stats.touches == 2

    await bench.life(work)


@story(run, bench=TouchBench)
async def test_an_add_behind_a_touch_whose_group_was_cut_waits_for_it(bench: Bench) -> None:
    """The touch is on its way to the disk, and nothing is pending behind it."""

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, [0])
        await store.flush()
        hold_disk(bench)
        first = put(store, 7, 1)
        assert not await is_told(bench, first)
        second = put(store, 7, 2)
        assert not await is_told(bench, second)
        free_disk(bench)
        await bench.settle(first, second)

    await bench.life(work)


@story(run, bench=TouchBench)
async def test_adds_of_many_ledgers_are_plain_only_where_their_ledgers_have_a_touch(bench: Bench) -> None:
    def not_plain(store: EntryStore) -> list[int]:
        ledger_ids, entry_ids = [LedgerId(7), LedgerId(8), LedgerId(7)], [EntryId(9), EntryId(9), EntryId(10)]
        bodies = [entry(ledger_id, entry_id) for ledger_id, entry_id in zip(ledger_ids, entry_ids, strict=True)]
        return list(store.not_plain(ledger_ids, [KEY] * 3, entry_ids, bodies))

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, [0])
        await bench.put_all(store, 8, [0])
        await store.flush()
        assert not_plain(store) == [0, 1, 2]
        hold_disk(bench)
        waiting = put(store, 7, 1)
        assert not_plain(store) == [0, 1, 2]
        free_disk(bench)
        await bench.settle(waiting)
        assert not_plain(store) == [1]
        done = Outcome()
        store.add_plain([LedgerId(7)], [EntryId(2)], [entry(7, 2)], done)
        assert await is_told(bench, done)

    await bench.life(work, end=ProcessEnd.KILL)
    await bench.life(lambda store: limbo_is(store, [7]))


async def limbo_is(store: EntryStore, expected: list[int]) -> None:
    assert in_limbo(store, range(20)) == expected


@story(run, bench=TouchBench)
async def test_a_touch_that_comes_too_late_for_a_generation_is_none_of_the_next(bench: Bench) -> None:
    """The checkpoint begins while the touch is on its way; what comes then needs one of its own."""

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, [0])
        await store.flush()
        (partition,) = store.partitions
        hold_disk(bench)
        first = put(store, 7, 1)
        flushing = store._loop.create_task(store.flush())
        await bench.simulation.until(lambda: partition.flushing is not None, "the checkpoint")
        second = put(store, 7, 2)
        free_disk(bench)
        await bench.settle(first, second)
        await flushing
        assert store.stats.touches == 3
        assert partition.active.touches == {7: True}

    await bench.life(work, end=ProcessEnd.POWER_CUT)

    async def later(store: EntryStore) -> None:
        assert in_limbo(store, [7]) == [7]
        assert await bench.read(store, 7, 1) == entry(7, 1)
        with pytest.raises(errors.UnknownLedgerState):
            await bench.read(store, 7, 2)

    await bench.life(later)


@story(run, bench=TouchBench)
async def test_copies_and_what_goes_through_the_journal_need_no_touch(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, [0])
        await store.flush()
        before = store.stats.touches
        store.add_copied(LedgerId(7), EntryId(3), entry(7, 3), KEY)
        await put_journaled(bench, store, 8)
        await bench.fence(store, 7)
        await bench.write_lac(store, 7, 0)
        assert store.stats.touches == before

    await bench.life(work, end=ProcessEnd.KILL)

    async def later(store: EntryStore) -> None:
        assert in_limbo(store, [7, 8]) == []
        assert await bench.read(store, 8, 0) == entry(8, 0)
        facts = store.facts(LedgerId(7))
        assert facts is not None
        assert facts.is_fenced

    await bench.life(later)


@ENDS
@story(run, bench=TouchBench)
async def test_an_entry_that_a_recovery_wrote_back_is_unknown_after_a_crash(bench: Bench, *, how: ProcessEnd) -> None:
    """Also where the ledger is fenced, and came just now."""

    async def work(store: EntryStore) -> None:
        await bench.fence(store, 7)
        await store.flush()
        await bench.put_all(store, 7, [0], is_recovery=True)

    await bench.life(work, end=how)

    async def later(store: EntryStore) -> None:
        with pytest.raises(errors.UnknownLedgerState):
            await bench.read(store, 7, 0)

    await bench.life(later)


# ---- what a crash leaves --------------------------------------------------------------------------------------------


@ENDS
@story(run, bench=TouchBench)
async def test_a_crash_puts_in_limbo_what_was_in_memory_and_not_what_was_flushed_long_ago(
    bench: TouchBench, *, how: ProcessEnd
) -> None:
    async def work(store: EntryStore) -> None:
        for ledger_id in (1, 2, 3):
            await bench.put_all(store, ledger_id, range(3))
        await store.flush()
        await bench.put_all(store, 2, [3])
        await bench.put_all(store, 4, [0])

    await bench.life(work, end=how)

    async def later(store: EntryStore) -> None:
        assert in_limbo(store, range(9)) == [2, 4]
        assert store.stats.touches_replayed == 2
        facts = store.facts(LedgerId(4))
        assert facts is not None
        assert (facts.limbo_epoch, facts.is_fenced, facts.master_key) == (EPOCH, False, KEY)
        with pytest.raises(errors.UnknownLedgerState):
            await bench.read(store, 2, 3)
        with pytest.raises(errors.NoSuchEntry):
            await bench.read(store, 1, 3)
        await bench.put_all(store, 3, [3])

    await bench.opened(later, end=how)


@ENDS
@story(run, bench=TouchBench)
async def test_limbo_is_durable_before_the_touch_goes(bench: Bench, *, how: ProcessEnd) -> None:
    """A second crash forgets nothing, nor does an orderly stop; also where nothing else of the ledger is replayed."""

    await bench.life(lambda store: bench.put_all(store, 7, range(3)))
    await bench.life(lambda store: bench.put_all(store, 7, [3]), end=how)
    await bench.life(lambda store: limbo_is(store, [7]), end=how)
    if how is ProcessEnd.KILL:  # a power cut may bring the trimmed file back, which no start reads
        assert await touches_on_disk(bench) == []
    await bench.life(lambda store: limbo_is(store, [7]))
    await bench.life(lambda store: limbo_is(store, [7]))


@ENDS
@story(run, bench=TouchBench)
async def test_an_orderly_stop_leaves_no_limbo(bench: Bench, *, how: ProcessEnd) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(3))

    async def nothing(store: EntryStore) -> None:
        assert store.stats.touches_replayed == 0
        await limbo_is(store, [])

    await bench.life(work)
    await bench.life(nothing, end=how)
    await bench.life(nothing)


@ENDS
@story(run, bench=TouchBench)
async def test_a_checkpoint_that_failed_keeps_the_touches_of_its_entries(bench: Bench, *, how: ProcessEnd) -> None:
    """The directory is full: its entries stay in memory, and its mark where it was."""

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, [0])
        bench.fill("/ledgers")
        with pytest.raises(errors.DiskFull):
            await store.flush()
        (partition,) = store.partitions
        assert partition.active.touches == {}

    await bench.life(work, end=how)
    bench.make_room("/ledgers")
    await bench.life(lambda store: limbo_is(store, [7]))


@ENDS
@story(run, bench=TouchBench, ledger_dirs=("/ledgers", "/index"), index_dirs=(), journal_file_bytes_max=4_096)
async def test_a_partition_that_lags_behind_keeps_the_journal_that_names_its_ledgers(
    bench: Bench, *, how: ProcessEnd
) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 6, [0])
        await bench.put_all(store, 7, [0])
        bench.fill("/ledgers")
        with pytest.raises(errors.DiskFull):
            await store.flush()
        bench.make_room("/index")
        for number in range(4):
            with pytest.raises(errors.DiskFull):
                await store.flush()
            await bench.put_all(store, 7, [1 + number], is_recovery=True)

    await bench.life(work, end=how)
    bench.make_room("/ledgers")
    bench.change(ledger_dirs=("/ledgers", "/index"), index_dirs=())
    await bench.life(lambda store: limbo_is(store, [6, 7]))


@story(run, bench=TouchBench)
async def test_without_space_at_the_start_the_touches_stay_until_limbo_is_durable(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(3))
        await put_journaled(bench, store, 8)

    async def without_space(store: EntryStore) -> None:
        await limbo_is(store, [7])
        (partition,) = store.partitions
        assert partition.flushing is not None

    await bench.life(work, end=ProcessEnd.POWER_CUT)
    bench.fill("/ledgers")
    await bench.life(without_space, end=ProcessEnd.POWER_CUT)
    assert await touches_on_disk(bench) == [7]
    bench.make_room("/ledgers")
    await bench.life(lambda store: limbo_is(store, [7]), end=ProcessEnd.POWER_CUT)
    await bench.life(lambda store: limbo_is(store, [7]))


@story(run, bench=TouchBench)
async def test_a_journal_without_space_takes_no_touch_and_no_add_and_the_next_one_needs_its_own(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, [0])
        await store.flush()
        (partition,) = store.partitions
        touches = partition.active.touches
        bench.fill("/journal")
        first, second = put(store, 7, 1), put(store, 7, 2)
        assert touches == {7: False}
        await bench.settle(first, second)
        assert touches == {}
        assert isinstance(first.error, errors.DiskFull)
        assert isinstance(second.error, errors.DiskFull)
        assert partition.active.touches == {}
        with pytest.raises(errors.BookieReadOnly):
            put(store, 7, 3)
        with pytest.raises(errors.BookieReadOnly):
            put(store, 7, 3, is_recovery=True)
        bench.make_room("/journal")
        await store.flush()
        await bench.put_all(store, 7, [4], is_recovery=True)
        assert partition.active.touches == {7: True}

    await bench.life(work, end=ProcessEnd.POWER_CUT)
    await bench.life(lambda store: limbo_is(store, [7]))


@story(run, bench=TouchBench)
async def test_a_touch_of_a_ledger_that_was_deleted_makes_it_again_in_limbo_and_never_denies(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(3))
        store.delete_ledger(LedgerId(7))
        await store.flush()
        await bench.put_all(store, 7, [0])

    await bench.life(work, end=ProcessEnd.POWER_CUT)
    await bench.life(lambda store: limbo_is(store, [7]))


@ENDS
def test_a_crash_before_each_step_of_a_repair_leaves_limbo_and_after_it_none(how: ProcessEnd) -> None:
    """The start, the copies, the clearing: cut anywhere, the ledger is in limbo, or whole."""

    async def tale(bench: Bench, operation: int) -> bool:
        async def work(store: EntryStore) -> None:
            await bench.put_all(store, 7, range(3))

        async def repairs(store: EntryStore) -> None:
            assert in_limbo(store, [7]) == [7]
            for number in range(3):
                store.add_copied(LedgerId(7), EntryId(number), entry(7, number), KEY)
            await store.flush()
            store.clear_limbo(LedgerId(7))
            await store.flush()

        async def is_in_limbo_or_whole(store: EntryStore) -> None:
            assert in_limbo(store, [7]) == [7] or await store.entry_ranges(LedgerId(7)) == [(0, 2)]

        await bench.life(work, end=how)
        died = await bench.dies(repairs, operation=operation, how=how)
        await bench.life(is_in_limbo_or_whole, end=how)
        await bench.life(is_in_limbo_or_whole)
        return died

    operation, died = 0, True
    while died:
        operation += 1
        died = run(partial(tale, operation=operation), TouchBench(operation))
    assert operation > 12


@story(run, bench=TouchBench)
async def test_a_touch_that_makes_no_sense_quarantines_its_ledger(bench: Bench) -> None:
    """As any record that checks and cannot be applied."""

    async def work(store: EntryStore) -> None:
        done = Outcome()
        (journal,) = store._journals
        journal.put(journal_format.TOUCH, LedgerId(7), journal_format.NO_ENTRY, b"?", done)
        await bench.settle(done)

    async def later(store: EntryStore) -> None:
        assert list(store.quarantined) == [7]

    await bench.life(work, end=ProcessEnd.KILL)
    await bench.life(later)


@story(run, bench=TouchBench)
async def test_a_ledger_leaves_limbo_once_and_a_crash_brings_it_back_only_with_its_mark(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(3))

    async def repairs(store: EntryStore) -> None:
        for number in range(3):
            store.add_copied(LedgerId(7), EntryId(number), entry(7, number), KEY)
        await store.flush()
        store.clear_limbo(LedgerId(7))
        await store.flush()

    await bench.life(work, end=ProcessEnd.KILL)
    await bench.life(repairs, end=ProcessEnd.POWER_CUT)
    await bench.life(lambda store: limbo_is(store, []))


# ---- one life, cut everywhere ---------------------------------------------------------------------------------------


class Told:
    """What the dead process had told its clients; which ledgers may be in limbo after it."""

    def __init__(self) -> None:
        self.entries: dict[tuple[int, int], None] = {}
        self.safe: dict[tuple[int, int], None] = {}  # on disk, whatever comes
        self.touched: dict[int, None] = {}  # given an entry since the last checkpoint that has ended
        self.fenced: list[int] = []

    async def work(self, bench: Bench, store: EntryStore) -> None:
        for round_ in range(4):
            await self.add(bench, store, 1, [round_])
            if round_ < 2:
                await self.add(bench, store, 2, [round_])
            await self.add(bench, store, 10 + round_, [0, 1, 2])
            await self.add(bench, store, 20 + round_, [0], is_recovery=True)
            await bench.fence(store, 20 + round_)
            self.fenced.append(20 + round_)
            if round_ != 1:
                covered, touched = dict(self.entries), dict(self.touched)
                await store.flush()
                self.safe.update(covered)
                for ledger_id in touched:
                    del self.touched[ledger_id]
            # In two generations while the checkpoint runs.
            flushing = store._loop.create_task(store.flush())
            await self.add(bench, store, 3, [round_])
            await flushing
            await self.add(bench, store, 1, [10 + round_])

    async def add(self, bench: Bench, store: EntryStore, ledger_id: int, entry_ids: list[int], **how: bool) -> None:
        self.touched[ledger_id] = None
        outcomes = [(entry_id, put(store, ledger_id, entry_id, **how)) for entry_id in entry_ids]
        await bench.settle(*(outcome for _, outcome in outcomes))
        self.entries.update(dict.fromkeys((ledger_id, entry_id) for entry_id, outcome in outcomes if outcome.is_ok))

    async def check(self, bench: Bench, store: EntryStore) -> None:
        """Nothing acknowledged is denied, nothing durable is gone, and limbo is where an entry was in memory."""
        for ledger_id, entry_id in self.entries:
            try:
                assert await bench.read(store, ledger_id, entry_id) == entry(ledger_id, entry_id)
            except errors.UnknownLedgerState:
                assert (ledger_id, entry_id) not in self.safe, f"{ledger_id} {entry_id} was flushed"
        known = {ledger_id for ledger_id, _ in self.entries} | set(self.touched)
        assert set(in_limbo(store, sorted(known))) <= set(self.touched)
        for ledger_id in self.fenced:
            facts = store.facts(LedgerId(ledger_id))
            assert facts is not None
            assert facts.is_fenced


def run_cut_at(operation: int, how: ProcessEnd, **changes: Any) -> bool:
    bench, told = TouchBench(operation, journal_file_bytes_max=12_288, entry_log_bytes_max=12_288, **changes), Told()

    async def tale(bench: Bench) -> bool:
        died = await bench.dies(lambda store: told.work(bench, store), operation=operation, how=how)
        # The restart is cut too, somewhere else, before the one that is looked at; and so is the one after it.
        await bench.dies(lambda store: told.check(bench, store), operation=1 + operation % 23, how=how)
        await bench.life(lambda store: told.check(bench, store), end=how)
        await bench.life(lambda store: told.check(bench, store))
        return died

    return run(tale, bench)


@ENDS
@pytest.mark.parametrize("changes", [{}, {"ledger_dirs": ("/ledgers", "/index"), "index_dirs": ()}])
@pytest.mark.slow
def test_a_cut_at_any_disk_operation_denies_nothing_that_was_acknowledged(
    how: ProcessEnd, changes: dict[str, Any]
) -> None:
    operation, died = 0, True
    while died:
        operation += 1
        died = run_cut_at(operation, how, **changes)
    assert operation > 60, "the life was too short to say anything"


@ENDS
def test_a_start_that_puts_ledgers_in_limbo_may_be_cut_at_any_disk_operation(how: ProcessEnd) -> None:
    async def tale(bench: Bench, operation: int) -> bool:
        async def work(store: EntryStore) -> None:
            await bench.put_all(store, 1, range(3))
            await store.flush()
            for ledger_id in (2, 3):
                await bench.put_all(store, ledger_id, range(3))

        async def idle(store: EntryStore) -> None:
            await limbo_is(store, [2, 3])

        await bench.life(work, end=how)
        died = await bench.dies(idle, operation=operation, how=how)
        await bench.life(idle, end=how)
        await bench.life(idle)
        return died

    operation, died = 0, True
    while died:
        operation += 1
        died = run(partial(tale, operation=operation), TouchBench(operation))
    assert operation > 8


# ---- the setting, and other programs --------------------------------------------------------------------------------


@story(run, bench=TouchBench, touch_unjournaled_ledgers=False)
async def test_without_the_setting_no_byte_and_no_answer_is_another_one(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, [0])
        await store.flush()
        hold_disk(bench)
        assert await is_told(bench, put(store, 7, 1))
        free_disk(bench)
        assert store.stats.touches == 0
        assert not store.may_hold_touches
        assert store._not_at_once is store._keys_on_the_way

    await bench.life(work, end=ProcessEnd.KILL)
    assert journal_versions(bench) == {3}
    await bench.life(lambda store: limbo_is(store, []))


@pytest.mark.parametrize("changes", [{"journal_write_data": True}, {"touch_unjournaled_ledgers": False}])
@story(run, bench=TouchBench)
async def test_a_life_without_touches_still_believes_those_of_the_one_before(
    bench: TouchBench, *, changes: dict[str, Any]
) -> None:
    """And writes files that older programs read; the others go with the first checkpoint."""

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, [0])

    async def later(store: EntryStore) -> None:
        await limbo_is(store, [7])
        assert not store.may_hold_touches

    await bench.life(work, end=ProcessEnd.KILL)
    assert journal_versions(bench) == {journal_format.TOUCH_VERSION}
    bench.change(**changes)
    await bench.life(later, end=ProcessEnd.KILL)
    assert journal_versions(bench) == {journal_format.VERSION}
    await bench.life(lambda store: limbo_is(store, [7]))


@story(run, bench=TouchBench)
async def test_a_file_that_may_hold_touches_is_told_of_as_long_as_a_start_needs_it(bench: TouchBench) -> None:
    async def work(store: EntryStore) -> None:
        assert store.may_hold_touches
        await bench.put_all(store, 7, [0])
        await put_journaled(bench, store, 8)

    async def later(store: EntryStore) -> None:
        assert store.may_hold_touches
        bench.make_room("/ledgers")
        await store.flush()
        assert not store.may_hold_touches

    await bench.life(work, end=ProcessEnd.KILL)
    bench.fill("/ledgers")
    bench.change(touch_unjournaled_ledgers=False)
    await bench.life(later)


@story(run, bench=TouchBench, touch_unjournaled_ledgers=False)
async def test_files_of_the_format_before_touches_are_read_on(bench: TouchBench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.fence(store, 7)

    async def later(store: EntryStore) -> None:
        facts = store.facts(LedgerId(7))
        assert facts is not None
        assert facts.is_fenced
        await bench.put_all(store, 8, [0])

    await bench.life(work, end=ProcessEnd.KILL)
    bench.change()
    await bench.life(later, end=ProcessEnd.KILL)
    await bench.life(lambda store: limbo_is(store, [8]))


def test_the_format_of_a_file_is_part_of_its_seed_and_of_its_header() -> None:
    old = journal_format.Header(1, b"saltsalt", 0)
    new = old._replace(version=journal_format.TOUCH_VERSION)

    assert journal_format.unpack_header(journal_format.pack_header(old)) == old
    assert journal_format.unpack_header(journal_format.pack_header(new)) == new
    assert journal_format.seed_of(old) != journal_format.seed_of(new)
    head = journal_format.pack_head_block(new)
    assert versions.other_format(head, journal_format.MAGIC, (3,), journal_format.HEADER_SIZE) == 4  # as they ask
    for version in (2, 5):
        assert journal_format.unpack_header(journal_format.pack_header(old._replace(version=version))) is None


def test_a_life_that_journals_its_data_makes_no_touches() -> None:
    assert not options(touch_unjournaled_ledgers=True).makes_touches
    assert not options(journal_write_data=False).makes_touches
    assert options(**TOUCHING).makes_touches


def test_the_bench_dies_where_it_is_told_to() -> None:
    """Else nothing would be cut above."""
    assert issubclass(NodeCrashed, BaseException)
    assert run_cut_at(40, ProcessEnd.KILL)
