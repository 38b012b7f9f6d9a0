"""A store in doubt: of a ledger below the bound that nobody has examined since a loss, what is here is served, all else
is unknown, and only recoveries write (docs/decisions/0021-phase-one-in-constant-time.md, rules 1 to 3)."""

import contextlib
from collections.abc import Callable

import pytest

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.sim.node import ProcessEnd
from bookie.storage import doubt as rules
from bookie.storage import partition
from bookie.storage.collect.collector import collect
from bookie.storage.doubt import Doubt
from bookie.storage.ledgers import unpack_row
from bookie.storage.store import EntryStore
from storage_support import KEY, OTHER_KEY, Bench, Outcome, explicit_lac, put, run
from story_support import story

BOUND, EPOCH = 100, 7
OLD, OTHER, NEW = LedgerId(40), LedgerId(41), LedgerId(100)
TWO_OF_EACH = {
    "journal_dirs": ("/journal", "/journal/2"),
    "ledger_dirs": ("/ledgers", "/ledgers/2"),
    "index_dirs": ("/index", "/index/2"),
}


async def doubting(store: EntryStore) -> None:
    await store.doubt_below(BOUND, epoch=EPOCH)


async def all_unknown(store: EntryStore, ledger_id: LedgerId, *, entry_id: int = 0) -> None:
    """Nothing of it is denied, nor anything listed, and no writer may add to it."""
    asked: list[Callable[[], object]] = [
        lambda: store.read_nowait(ledger_id, EntryId(entry_id)),
        lambda: put(store, ledger_id, entry_id),
        lambda: store.force(ledger_id, Outcome()),
        lambda: store.write_lac(ledger_id, explicit_lac(ledger_id, 3), KEY, Outcome()),
    ]
    for ask in asked:
        with pytest.raises(errors.UnknownLedgerState):
            ask()
    with pytest.raises(errors.UnknownLedgerState):
        await store.read(ledger_id, EntryId(entry_id))
    with pytest.raises(errors.UnknownLedgerState):
        await store.read_lac(ledger_id)
    with pytest.raises(errors.UnknownLedgerState):
        await store.whole_list(ledger_id, lambda runs: None)
    assert [type(error) for error in await store.read_many(ledger_id, [EntryId(entry_id)])] == [
        errors.UnknownLedgerState
    ]
    assert store.is_in_doubt(ledger_id)
    assert store.may_hold(ledger_id)


@story(run)
async def test_a_ledger_below_the_bound_that_is_not_here_is_unknown_to_every_question(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await doubting(store)
        await all_unknown(store, OLD)
        with pytest.raises(errors.UnknownLedgerState):
            store.last_confirmed(OLD)
        with pytest.raises(errors.UnknownLedgerState):
            store.watch_lac(OLD, lambda lac: None)
        assert store.facts(OLD) is None

    await bench.life(work)


@story(run)
async def test_a_ledger_from_the_bound_on_is_as_ever(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await doubting(store)
        with pytest.raises(errors.NoSuchLedger):
            store.read_nowait(NEW, EntryId(0))
        await bench.put_all(store, NEW, [0, 1])
        await bench.put_all(store, NEW, [2])
        with pytest.raises(errors.NoSuchEntry):
            store.read_nowait(NEW, EntryId(3))
        assert await store.entry_ranges(NEW) == [(0, 2)]
        assert not store.is_in_doubt(NEW)

    await bench.life(work)


@story(run)
async def test_what_is_here_of_a_ledger_in_doubt_is_served_and_what_is_not_is_unknown(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, OLD, [0, 1])
        await doubting(store)
        assert store.read_nowait(OLD, EntryId(1)) is not None
        await all_unknown(store, OLD, entry_id=2)
        plain = store.not_plain([OLD, NEW], [KEY, KEY], [EntryId(2), EntryId(0)], [b"", b""])
        assert 0 in plain

    await bench.life(work)


@story(run)
async def test_a_recovery_writes_to_a_ledger_in_doubt_and_its_entry_outlives_a_power_cut(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await doubting(store)
        taken = put(store, OLD, 5, is_recovery=True)
        again = put(store, OLD, 6, is_recovery=True)
        await bench.settle(taken, again)
        assert (taken.is_ok, again.is_ok) == (True, True)

    await bench.life(work, end=ProcessEnd.POWER_CUT)

    async def then(store: EntryStore) -> None:
        assert store.read_nowait(OLD, EntryId(5)) is not None
        await all_unknown(store, OLD, entry_id=7)

    await bench.life(then)


@story(run)
async def test_a_fence_of_a_ledger_in_doubt_is_journaled_and_tells_the_writer_that_it_is_fenced(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await doubting(store)
        await bench.fence(store, OLD)
        with pytest.raises(errors.UnknownLedgerState):  # positive only with an entry
            store.read_nowait(OLD, EntryId(0))
        with pytest.raises(errors.LedgerFenced):
            put(store, OLD, 0)

    await bench.life(work, end=ProcessEnd.POWER_CUT)

    async def then(store: EntryStore) -> None:
        await store.settle([], [OLD])
        facts = store.facts(OLD)
        assert facts is not None
        assert (facts.is_fenced, facts.is_state_lost) == (True, False)

    await bench.life(then)


@story(run)
async def test_a_writer_gives_no_key_to_a_ledger_in_doubt_and_the_record_corrects_a_wrong_one(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await doubting(store)
        for _ in range(2):
            with pytest.raises(errors.UnknownLedgerState):
                put(store, OLD, 0, key=OTHER_KEY)
        assert store.facts(OLD) is None
        await bench.settle(put(store, OLD, 5, key=OTHER_KEY, is_recovery=True))
        await store.settle([(OLD, False, True, KEY)], [OLD])
        facts = store.facts(OLD)
        assert facts is not None
        assert facts.master_key == KEY
        await store.settle([(OLD, False, True, OTHER_KEY)], [OLD])  # it is not in doubt any more
        facts = store.facts(OLD)
        assert facts is not None
        assert facts.master_key == KEY

    await bench.life(work)


@pytest.mark.parametrize("how", [ProcessEnd.POWER_CUT, ProcessEnd.KILL, ProcessEnd.EXIT])
@story(run, **TWO_OF_EACH)
async def test_the_doubt_is_durable_in_every_index_when_it_has_begun(bench: Bench, *, how: ProcessEnd) -> None:
    await bench.life(doubting, end=how)

    async def then(store: EntryStore) -> None:
        assert [each.table.doubt for each in store.partitions] == [Doubt(EPOCH, BOUND, BOUND)] * 2
        await all_unknown(store, OLD)
        await all_unknown(store, OTHER)
        assert store.has_doubt_of(EPOCH)
        assert not store.has_doubt_of(EPOCH + 1)

    await bench.life(then)


@story(run, **TWO_OF_EACH)
async def test_a_doubt_that_only_one_index_has_is_missed(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        store.partitions[0].save_doubt(Doubt(EPOCH, BOUND, BOUND))
        await store.partitions[0].index.flush()

    await bench.life(work)

    async def then(store: EntryStore) -> None:
        assert not store.has_doubt_of(EPOCH)

    await bench.life(then)


@story(run)
async def test_a_ledger_that_was_examined_may_be_denied_and_the_others_may_not(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, OLD, [0])
        await doubting(store)
        await store.settle([], [OLD])
        with pytest.raises(errors.NoSuchEntry):
            store.read_nowait(OLD, EntryId(1))
        await bench.put_all(store, OLD, [1])
        await all_unknown(store, OTHER)

    await bench.life(work, end=ProcessEnd.POWER_CUT)

    async def then(store: EntryStore) -> None:
        assert not store.is_in_doubt(OLD)
        await all_unknown(store, OTHER)

    await bench.life(then)


@story(run, **TWO_OF_EACH)
async def test_examining_goes_down_and_resumes_where_it_was_durable(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await doubting(store)
        await store.settle([(LedgerId(60), True, True, KEY), (LedgerId(61), True, False, KEY)], rest=60)

    await bench.life(work, end=ProcessEnd.POWER_CUT)

    async def then(store: EntryStore) -> None:
        assert store.doubt.rest == 60
        await all_unknown(store, LedgerId(59))
        for gone in (62, 63):
            with pytest.raises(errors.NoSuchLedger):
                store.read_nowait(LedgerId(gone), EntryId(0))
        marked = [store.facts(LedgerId(ledger_id)) for ledger_id in (60, 61)]
        assert [(facts.is_fenced, facts.is_limbo, facts.limbo_epoch) for facts in marked if facts] == [
            (True, True, EPOCH),
            (True, False, 0),
        ]
        await store.settle([], rest=0)
        assert store.doubt.is_over
        assert store.has_doubt_of(EPOCH)
        with pytest.raises(errors.NoSuchLedger):
            store.read_nowait(LedgerId(59), EntryId(0))

    await bench.life(then, end=ProcessEnd.POWER_CUT)
    await bench.life(no_doubt)


async def no_doubt(store: EntryStore) -> None:
    assert store.doubt.is_over


@pytest.mark.parametrize("how", [ProcessEnd.POWER_CUT, ProcessEnd.KILL])
def test_no_ledger_leaves_doubt_without_its_marks_wherever_the_step_is_cut(how: ProcessEnd) -> None:
    """Cut at every disk operation of a settling: either it is in doubt still, or its marks are there."""
    cuts = 0
    for operation in range(1, 200):
        bench = Bench(3, **TWO_OF_EACH)
        done = bench.simulation.run(cut_settling(bench, operation, how))
        if done:
            break
        cuts += 1
    assert 4 < cuts < 199


async def cut_settling(bench: Bench, operation: int, how: ProcessEnd) -> bool:
    await bench.life(doubting)

    async def work(store: EntryStore) -> None:
        await store.settle([(OLD, True, True, KEY)], [OLD])
        await store.settle([(OTHER, True, True, KEY), (LedgerId(90), True, True, KEY)], rest=41)

    died = await bench.dies(work, operation=operation, how=how)

    async def then(store: EntryStore) -> None:
        for ledger_id in (OLD, OTHER, LedgerId(90)):
            facts = store.facts(ledger_id)
            is_marked = facts is not None and facts.is_fenced and facts.is_limbo
            is_doubted = store.partitions[ledger_id % 2].table.is_doubted(ledger_id)
            assert is_marked or is_doubted, ledger_id
            with pytest.raises(errors.UnknownLedgerState):
                store.read_nowait(ledger_id, EntryId(0))

    await bench.life(then)
    return not died


@story(run)
async def test_no_doubt_ends_before_that_is_durable(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await doubting(store)
        index = store.partitions[0].index

        async def full() -> None:
            raise errors.DiskFull("no space")

        index.flush = full  # type: ignore[method-assign]
        with pytest.raises(errors.DiskFull):
            await store.settle([], [OLD], rest=90)
        for ledger_id in (OLD, OTHER, LedgerId(95)):
            with pytest.raises(errors.UnknownLedgerState):
                store.read_nowait(ledger_id, EntryId(0))
        assert store.doubt.rest == BOUND

    await bench.life(work, end=ProcessEnd.KILL)


@story(run)
async def test_a_second_loss_begins_a_new_epoch_and_nothing_examined_before_counts(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, OLD, [0])
        await doubting(store)
        await store.settle([], [OLD])
        await store.settle([], rest=50)
        await store.doubt_below(BOUND + 50, epoch=EPOCH + 1)
        for ledger_id in (OLD, LedgerId(60), LedgerId(120)):
            await all_unknown(store, ledger_id, entry_id=9)

    await bench.life(work, end=ProcessEnd.POWER_CUT)

    async def then(store: EntryStore) -> None:
        assert store.doubt == Doubt(EPOCH + 1, BOUND + 50, BOUND + 50)
        for ledger_id in (OLD, LedgerId(60), LedgerId(120)):
            await all_unknown(store, ledger_id, entry_id=9)

    await bench.life(then)


@story(run)
async def test_a_row_of_an_earlier_epoch_lets_no_ledger_out_of_doubt(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await doubting(store)
        store.partitions[0].index.put_examined([OLD], EPOCH - 1)
        await all_unknown(store, OLD)

    await bench.life(work)


@story(run)
async def test_ledgers_in_doubt_that_somebody_asks_for_are_touched_and_no_others(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 43, [0])
        await doubting(store)
        for ask in (
            lambda: store.read_nowait(LedgerId(43), EntryId(9)),
            lambda: store.read_nowait(OLD, EntryId(0)),
            lambda: put(store, OTHER, 0),
            lambda: store.read_nowait(NEW, EntryId(0)),
        ):
            with contextlib.suppress(errors.UnknownLedgerState, errors.NoSuchLedger):
                ask()
        await bench.fence(store, LedgerId(42))
        assert store.touched() == [43, OLD, OTHER, 42]
        await store.settle([], [LedgerId(43), OLD, OTHER])
        assert store.touched() == [42]
        await store.settle([], rest=0)
        assert store.touched() == []

    await bench.life(work)


@story(run)
async def test_what_is_touched_is_bounded(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await store.doubt_below(10_000, epoch=EPOCH)
        for ledger_id in range(3_000):
            with pytest.raises(errors.UnknownLedgerState):
                store.read_nowait(LedgerId(ledger_id), EntryId(0))
        assert len(store.touched()) == 1_024

    await bench.life(work)


@story(run)
async def test_collection_leaves_ledgers_in_doubt_alone(bench: Bench) -> None:
    asked: list[LedgerId] = []

    async def is_absent(ledger_id: LedgerId) -> bool:
        asked.append(ledger_id)
        return True

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, OLD, [0])
        await bench.put_all(store, OTHER, [0])
        await doubting(store)
        done = await collect(store, is_absent)
        assert (asked, done.ledgers_deleted) == ([], 0)
        await store.settle([], [OLD])
        done = await collect(store, is_absent)
        assert (set(asked), done.ledgers_deleted) == ({OLD}, 1)
        assert store.facts(OTHER) is not None

    await bench.life(work)


@story(run)
async def test_a_ledger_that_left_memory_is_in_doubt_when_it_comes_back(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await doubting(store)
        await bench.settle(put(store, OLD, 0, is_recovery=True), put(store, OTHER, 0, is_recovery=True))
        await store.flush()
        assert OLD not in store.partitions[0].table.known
        await all_unknown(store, OLD, entry_id=1)

    bench.change(ledgers_cached_max=1)
    await bench.life(work)


@story(run)
async def test_doubt_is_no_fact_of_a_ledgers_row(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await doubting(store)
        await bench.settle(put(store, OLD, 0, is_recovery=True))
        await store.flush()
        row = store.partitions[0].index.row(OLD)
        assert row is not None
        assert unpack_row(OLD, row).flags == 0

    await bench.life(work)


@story(run)
async def test_a_program_that_knows_no_doubt_opens_no_index_that_is_in_doubt(bench: Bench) -> None:
    def version(store: EntryStore) -> int:
        return int.from_bytes(store.partitions[0].index.get_meta("format") or b"", "big")

    async def work(store: EntryStore) -> None:
        assert version(store) == partition.FORMAT_VERSION
        await doubting(store)
        assert version(store) == partition.FORMAT_IN_DOUBT
        await store.settle([], rest=0)
        assert version(store) == partition.FORMAT_VERSION

    await bench.life(work)


@story(run)
async def test_a_doubt_with_nothing_below_it_is_over_at_once(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await store.doubt_below(0, epoch=EPOCH)
        assert store.doubt.is_over
        with pytest.raises(errors.NoSuchLedger):
            store.read_nowait(OLD, EntryId(0))

    await bench.life(work)


@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * 25, Doubt(1, 2, 2).pack()[:-1], Doubt(1, 2, 2).pack() + b"x", b"\2" + Doubt(1, 2, 2).pack()[1:]],
)
def test_a_record_of_doubt_that_makes_no_sense_is_damage(data: bytes) -> None:
    with pytest.raises(errors.CorruptFile):
        rules.unpack(data)


def test_a_record_that_leaves_more_than_it_bounds_is_damage() -> None:
    data = bytearray(Doubt(1, 2, 2).pack())
    data[-1] = 3
    with pytest.raises(errors.CorruptFile):
        rules.unpack(bytes(data))


@pytest.mark.parametrize("found", [Doubt(), Doubt(1, 0, 0), Doubt(2**40, 2**63, 2**63), Doubt(3, 10, 4)])
def test_a_record_of_doubt_comes_back_as_it_was(found: Doubt) -> None:
    assert rules.unpack(found.pack()) == found


@story(run)
async def test_a_ledger_that_is_not_here_is_denied_as_soon_as_it_was_examined_before_its_turn(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await doubting(store)
        await store.settle([], [OTHER])
        with pytest.raises(errors.NoSuchLedger):
            store.read_nowait(OTHER, EntryId(0))
        await all_unknown(store, OLD)
        assert store.has_doubt_of(EPOCH - 1), "a later doubt is none that was lost"

    await bench.life(work)


def test_what_is_examined_is_never_left_to_examine_again() -> None:
    assert Doubt(EPOCH, BOUND, 40).examined_down_to(60) == Doubt(EPOCH, BOUND, 40)
    assert Doubt(EPOCH, BOUND, 40).examined_down_to(30) == Doubt(EPOCH, BOUND, 30)


def test_an_id_that_no_ledger_has_is_in_no_doubt() -> None:
    """It would be examined for ever."""
    doubt = Doubt(EPOCH, BOUND, BOUND)

    assert [doubt.is_left(LedgerId(ledger_id)) for ledger_id in (-1, 0, BOUND - 1, BOUND)] == [False, True, True, False]
