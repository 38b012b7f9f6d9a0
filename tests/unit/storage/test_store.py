"""What the store answers: adds, fences, LACs, reads, limbo, over a faithful simulated disk."""

import asyncio
import contextlib

import pytest

from bookie.base import errors
from bookie.base.ids import LAST_ENTRY, EntryId, LedgerId
from bookie.sim.node import ProcessEnd
from bookie.storage.journal import writer
from bookie.storage.store import EntryStore
from storage_support import KEY, OTHER_KEY, Bench, Outcome, entry, explicit_lac, put, run
from story_support import story

LEDGER = LedgerId(7)


@story(run)
async def test_an_accepted_entry_is_readable_at_once_and_acknowledged_later(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        outcome = put(store, 7, 0)

        assert store.read_nowait(LEDGER, EntryId(0)) == entry(7, 0)
        assert not outcome.is_done
        await bench.settle(outcome)
        assert outcome.is_ok

    await bench.life(work)


class AtOnce(Outcome):
    """A completion that notes at once how far the journal was durable, and whether `first` was done."""

    def __init__(self, store: EntryStore, first: Outcome | None = None) -> None:
        super().__init__()
        self._store, self._first = store, first
        self.journaled = store.journaled
        self.first_was_done = False

    def __call__(self, error: errors.BookieError | None) -> None:
        super().__call__(error)
        self.journaled = self._store.journaled
        self.first_was_done = self._first is not None and self._first.is_done


@story(run)
async def test_an_accepted_entry_is_acknowledged_by_the_sync_and_not_before(bench: Bench) -> None:
    """CONFORMANCE.md#P14."""

    async def work(store: EntryStore) -> None:
        before, added = store.journaled, AtOnce(store)
        store.add(LEDGER, [EntryId(0)], [entry(7, 0)], KEY, is_recovery=False, done=added)
        await bench.settle(added)
        assert added.journaled > before

    await bench.life(work)


MIXED = [LedgerId(7), LedgerId(8), LedgerId(9)]


def is_plain(store: EntryStore, ledger_id: int, entry_id: int) -> bool:
    places = store.not_plain([LedgerId(ledger_id)], [KEY], [EntryId(entry_id)], [entry(ledger_id, entry_id)])
    return list(places) == []


def put_mix(store: EntryStore, entry_id: int, done: Outcome) -> None:
    """Add one entry to each of the MIXED ledgers, all of them plain."""
    bodies, entry_ids = [entry(ledger_id, entry_id) for ledger_id in MIXED], [EntryId(entry_id)] * len(MIXED)
    assert list(store.not_plain(MIXED, [KEY] * len(MIXED), entry_ids, bodies)) == []
    store.add_plain(MIXED, entry_ids, bodies, done)


@story(run)
async def test_a_mix_is_acknowledged_by_the_sync_and_not_before_and_is_there_after_a_loss_of_power(
    bench: Bench,
) -> None:
    """CONFORMANCE.md#P14."""

    async def work(store: EntryStore) -> None:
        for ledger_id in MIXED:
            await bench.put_all(store, ledger_id, [0])
        before, added = store.journaled, AtOnce(store)
        put_mix(store, 1, added)
        assert not added.is_done
        await bench.settle(added)
        assert added.journaled > before

    async def check(store: EntryStore) -> None:
        for ledger_id in MIXED:
            assert await store.entry_ranges(ledger_id) == [(0, 1)]
            assert await bench.read(store, ledger_id, 1) == entry(ledger_id, 1)

    await bench.life(work, end=ProcessEnd.POWER_CUT)
    await bench.life(check)


@story(run)
async def test_who_watches_a_ledger_hears_of_a_lac_that_comes_in_a_mix(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        for ledger_id in MIXED:
            await bench.put_all(store, ledger_id, [0])
        heard: list[int] = []
        store.watch_lac(MIXED[1], heard.append)
        done = Outcome()
        put_mix(store, 3, done)
        await bench.settle(done)
        assert heard == [2]

    await bench.life(work)


def test_an_add_is_not_plain_while_the_key_of_its_ledger_is_on_its_way_to_the_disk() -> None:
    """Without data in the journal the key is, and is durable before the first acknowledgement."""

    async def story(bench: Bench) -> None:
        async def work(store: EntryStore) -> None:
            first = put(store, 7, 0)
            assert not is_plain(store, 7, 1)
            await bench.settle(first)
            assert is_plain(store, 7, 1)

        await bench.life(work)

    run(story, Bench(journal_write_data=False))


@story(run)
async def test_no_add_is_plain_while_the_store_refuses_or_its_ledger_is_fenced(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, [0])
        assert is_plain(store, 7, 1)
        store.health.set_read_only(True)
        assert not is_plain(store, 7, 1)
        store.health.set_read_only(False)
        assert is_plain(store, 7, 1)
        await bench.fence(store, 7)
        assert not is_plain(store, 7, 1)

    await bench.life(work)


def test_no_add_is_plain_where_a_mix_would_need_the_syncs_of_two_journals() -> None:
    async def story(bench: Bench) -> None:
        async def work(store: EntryStore) -> None:
            await bench.put_all(store, 7, [0])
            assert not is_plain(store, 7, 1)

        await bench.life(work)

    run(story, Bench(journal_dirs=("/data/journal-0", "/data/journal-1")))


@pytest.mark.parametrize("turns", range(6))
@story(run)
async def test_a_second_fence_is_answered_no_earlier_than_the_first_is_durable(bench: Bench, *, turns: int) -> None:
    """CONFORMANCE.md#P26: whoever is answered goes on as if the bookie were fenced for ever, however the first fence
    stands: waiting for its group, or on its way to the disk."""

    async def work(store: EntryStore) -> None:
        before = store.journaled
        first = AtOnce(store)
        second = AtOnce(store, first)
        store.fence(LEDGER, KEY, first)
        for _ in range(turns):
            await asyncio.sleep(0)
        assert not first.is_done
        store.fence(LEDGER, KEY, second)
        await bench.settle(first, second)
        assert first.journaled > before
        assert second.journaled > before
        assert second.first_was_done

    await bench.life(work)


@pytest.mark.parametrize("journaled", [True, False])
def test_a_completion_never_runs_inside_the_call(journaled: bool) -> None:
    async def story(bench: Bench) -> None:
        async def work(store: EntryStore) -> None:
            for entry_id in range(3):
                outcome = put(store, 7, entry_id)
                assert not outcome.is_done
                await bench.settle(outcome)
            fenced = [Outcome(), Outcome()]
            for outcome in fenced:
                store.fence(LEDGER, KEY, outcome)
                assert not outcome.is_done
            await bench.settle(*fenced)

        await bench.life(work)

    run(story, Bench(journal_write_data=journaled))


@story(run)
async def test_an_entry_reads_the_same_from_cache_disk_and_after_a_restart(bench: Bench) -> None:
    async def first(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(20))
        assert await bench.read(store, 7, 11) == entry(7, 11)
        await store.flush()
        assert store.stats.entries_flushed == 20
        assert await bench.read(store, 7, 11) == entry(7, 11)

    async def second(store: EntryStore) -> None:
        assert await bench.read(store, 7, 11) == entry(7, 11)
        assert await bench.read(store, 7, -1) == entry(7, 19)
        assert await store.entry_ranges(LEDGER) == [(0, 19)]

    await bench.life(first)
    assert bench.was_clean
    await bench.life(second)


@story(run)
async def test_the_wrong_master_key_is_refused_everywhere(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, [0])

        with pytest.raises(errors.Unauthorized):
            put(store, 7, 1, key=OTHER_KEY)
        with pytest.raises(errors.Unauthorized):
            put(store, 7, 1, key=b"")
        with pytest.raises(errors.Unauthorized):
            store.fence(LEDGER, OTHER_KEY, Outcome())
        with pytest.raises(errors.Unauthorized):
            store.write_lac(LEDGER, explicit_lac(7, 0), OTHER_KEY, Outcome())
        with pytest.raises(errors.Unauthorized):
            store.add_copied(LEDGER, EntryId(1), entry(7, 1), OTHER_KEY)
        facts = store.facts(LEDGER)
        assert facts is not None
        assert (facts.master_key, facts.is_fenced) == (KEY, False)

    await bench.life(work)


@pytest.mark.parametrize(
    "body", [b"", b"short", entry(8, 0), entry(7, 1), bytes(23)], ids=["empty", "short", "ledger", "entry", "head"]
)
@story(run)
async def test_an_entry_that_says_it_is_another_is_refused(bench: Bench, *, body: bytes) -> None:
    async def work(store: EntryStore) -> None:
        with pytest.raises(errors.BadRequest):
            store.add(LEDGER, [EntryId(0)], [body], KEY, is_recovery=False, done=Outcome())
        assert store.facts(LEDGER) is None

    await bench.life(work)


@story(run)
async def test_a_fenced_ledger_takes_recovery_adds_only(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, [0])
        outcome = Outcome()
        store.fence(LEDGER, KEY, outcome)

        with pytest.raises(errors.LedgerFenced):  # in force at once, before it is durable
            put(store, 7, 1)
        await bench.settle(outcome)
        await bench.put_all(store, 7, [1], is_recovery=True)
        with pytest.raises(errors.LedgerFenced):
            put(store, 7, 2)

    await bench.life(work)


@story(run)
async def test_absence_is_said_plainly_when_nothing_can_have_been_lost(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        with pytest.raises(errors.NoSuchLedger):
            store.read_nowait(LEDGER, EntryId(0))
        with pytest.raises(errors.NoSuchLedger):
            store.last_confirmed(LEDGER)
        await bench.fence(store, 7)
        with pytest.raises(errors.NoSuchEntry):
            store.read_nowait(LEDGER, EntryId(0))
        with pytest.raises(errors.NoSuchEntry):
            store.read_nowait(LEDGER, EntryId(-1))
        assert await store.read_lac(LEDGER) == (None, None)

    await bench.life(work)


@story(run)
async def test_a_doubtful_store_never_says_no(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, [0])
        store.is_doubtful = True

        assert await bench.read(store, 7, 0) == entry(7, 0)
        for ledger_id, entry_id in ((7, 1), (7, -1), (8, 0)):
            with pytest.raises(errors.UnknownLedgerState):
                store.read_nowait(LedgerId(ledger_id), EntryId(entry_id))
        with pytest.raises(errors.UnknownLedgerState):
            await store.read_lac(LEDGER)

    await bench.life(work)


@story(run)
async def test_limbo_answers_what_is_here_and_unknown_for_the_rest(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(3))
        await store.protect([(LEDGER, True, True, None)], epoch=4)

        assert await bench.read(store, 7, 2) == entry(7, 2)
        for entry_id in (3, -1):
            with pytest.raises(errors.UnknownLedgerState):
                store.read_nowait(LEDGER, EntryId(entry_id))
        with pytest.raises(errors.UnknownLedgerState):
            await store.read_lac(LEDGER)
        with pytest.raises(errors.UnknownLedgerState):
            store.force(LEDGER, Outcome())
        assert store.last_confirmed(LEDGER) == 1
        facts = store.facts(LEDGER)
        assert facts is not None
        assert (facts.is_limbo, facts.limbo_epoch, facts.is_state_lost, facts.master_key) == (True, 4, True, KEY)

    await bench.life(work)


@story(run)
async def test_limbo_answers_what_is_on_the_disk_alone(bench: Bench) -> None:
    """CONFORMANCE.md#B35: what a bookie still has after a loss is on its disks, and in no cache."""

    async def before(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(3))

    async def after(store: EntryStore) -> None:
        await store.protect([(LEDGER, True, True, None)])
        assert await store.read(LEDGER, EntryId(1)) == entry(7, 1)
        assert await store.read_many(LEDGER, [EntryId(0), EntryId(2)]) == [entry(7, 0), entry(7, 2)]
        assert await store.check_entry(LEDGER, EntryId(2))
        with pytest.raises(errors.UnknownLedgerState):
            await store.read(LEDGER, EntryId(3))

    await bench.life(before)
    await bench.life(after)


@story(run)
async def test_the_end_of_limbo_lets_no_writer_in_where_a_fence_may_have_been_lost(bench: Bench) -> None:
    """CONFORMANCE.md#B19, B44: limbo goes with the repair; what stands for the fence stays, also over a restart."""

    async def repaired(store: EntryStore) -> None:
        await store.protect([(LEDGER, True, True, KEY)])
        store.clear_limbo(LEDGER)
        with pytest.raises(errors.UnknownLedgerState):
            put(store, 7, 0)
        await store.flush()

    async def later(store: EntryStore) -> None:
        with pytest.raises(errors.UnknownLedgerState):
            put(store, 7, 0)
        await bench.settle(put(store, 7, 0, is_recovery=True))

    await bench.life(repaired)
    await bench.life(later)


@story(run)
async def test_a_writer_meets_unknown_after_a_lost_state_and_fenced_after_a_recovery(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await store.protect([(LEDGER, True, False, KEY)])

        with pytest.raises(errors.UnknownLedgerState):
            put(store, 7, 0)
        await bench.fence(store, 7)
        with pytest.raises(errors.LedgerFenced):
            put(store, 7, 0)

    await bench.life(work)


@story(run)
async def test_a_ledger_that_was_closed_before_the_loss_takes_copies_and_says_when_they_are_on_disk(
    bench: Bench,
) -> None:
    """A bookie that ever lost its disks has this mark on every ledger that was closed by then, for good."""

    async def work(store: EntryStore) -> None:
        await store.protect([(LEDGER, True, False, KEY)])
        put(store, 7, 0, is_recovery=True)
        done = Outcome()

        store.force(LEDGER, done)
        await done.wait()

        assert done.is_ok

    await bench.life(work)


@story(run)
async def test_the_first_key_said_for_a_ledger_known_without_one_becomes_its_key(bench: Bench) -> None:
    async def first(store: EntryStore) -> None:
        await store.protect([(LEDGER, True, True, None)])
        await bench.fence(store, 7)

    async def second(store: EntryStore) -> None:
        with pytest.raises(errors.Unauthorized):
            put(store, 7, 0, key=OTHER_KEY, is_recovery=True)

    from bookie.sim.node import ProcessEnd

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(second)


@story(run)
async def test_the_first_key_said_by_a_second_fence_outlives_a_power_cut(bench: Bench) -> None:
    """The first one said none, so the second makes a record of its own."""

    async def first(store: EntryStore) -> None:
        await bench.fence(store, 7, b"")
        await bench.fence(store, 7)

    async def second(store: EntryStore) -> None:
        facts = store.facts(LEDGER)
        assert facts is not None
        assert (facts.is_fenced, facts.master_key) == (True, KEY)

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(second)


@story(run)
async def test_the_lac_is_the_highest_that_any_writer_supplied_and_watchers_are_told(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(5))
        told: list[int] = []
        cancel = store.watch_lac(LEDGER, told.append)

        await bench.put_all(store, 7, [5], lac=2)  # older: no news
        await bench.put_all(store, 7, [6])
        outcome = Outcome()
        store.write_lac(LEDGER, explicit_lac(7, 6), KEY, outcome)
        await bench.settle(outcome)
        cancel()
        await bench.put_all(store, 7, [8])

        assert told == [5, 6]
        assert store.last_confirmed(LEDGER) == 7
        assert await store.read_lac(LEDGER) == (explicit_lac(7, 6), entry(7, 8))

    await bench.life(work)


@story(run, ledgers_cached_max=1)
async def test_whoever_watches_a_ledger_is_told_though_many_others_came_since(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        told: list[EntryId] = []
        await bench.put_all(store, 7, [0])
        store.watch_lac(LEDGER, told.append)
        for ledger_id in range(20, 24):
            await bench.put_all(store, ledger_id, [0])
        await store.flush()

        await bench.put_all(store, 7, [1])
        await bench.simulation.until(lambda: bool(told), "the LAC")
        assert told == [0]

    await bench.life(work)


@story(run)
async def test_an_explicit_lac_of_another_ledger_is_refused(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        for body in (explicit_lac(8, 1), b"short"):
            with pytest.raises(errors.BadRequest):
                store.write_lac(LEDGER, body, KEY, Outcome())

    await bench.life(work)


@story(run)
async def test_runs_join_what_is_on_disk_and_in_the_caches(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, [0, 1, 5])
        await store.flush()
        await bench.put_all(store, 7, [2, 6, 9])

        assert await store.entry_ranges(LEDGER) == [(0, 2), (5, 6), (9, 9)]
        assert [store.has_entry(LEDGER, EntryId(entry_id)) for entry_id in (1, 2, 3)] == [True, True, False]
        assert not store.has_entry(LedgerId(8), EntryId(0))
        assert [ledger async for ledger in store.ledgers()] == [7]

    await bench.life(work)


@story(run)
async def test_a_read_only_store_takes_recovery_adds_and_fences(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        store.health.set_read_only(True)

        with pytest.raises(errors.BookieReadOnly):
            put(store, 7, 0)
        assert store.facts(LEDGER) is None
        await bench.put_all(store, 7, [0], is_recovery=True)
        await bench.fence(store, 7)
        store.health.set_read_only(False)
        await bench.put_all(store, 8, [0])

    await bench.life(work)


@story(run)
async def test_a_store_before_its_end_takes_no_recovery_adds_and_still_fences(bench: Bench) -> None:
    """spec/operator.md#Q12: what came after the last flush would rest on the one at SIGTERM alone."""

    async def work(store: EntryStore) -> None:
        store.health.set_turn(True, is_sealed=False)
        await bench.put_all(store, 7, [0], is_recovery=True)
        store.health.set_turn(True, is_sealed=True)

        with pytest.raises(errors.StorageFailed) as refused:
            put(store, 7, 1, is_recovery=True)
        assert refused.value.retryable, "the client asks others, and this one later"
        await bench.fence(store, 7)
        store.health.set_turn(False, is_sealed=False)
        await bench.put_all(store, 7, [1], is_recovery=True)

    await bench.life(work)


@story(run)
async def test_a_drain_seals_the_store_against_recoveries_too_until_it_is_cancelled(bench: Bench) -> None:
    """spec/metadata.md#M41: what a recovery sends after the last look nobody would move."""

    async def work(store: EntryStore) -> None:
        store.health.seal_drain()
        await bench.put_all(store, 7, [0], is_recovery=True)  # nothing drains: nothing is sealed
        store.health.set_draining(True)
        await bench.put_all(store, 7, [1], is_recovery=True)
        store.health.seal_drain()
        store.health.set_draining(True)  # another order of the same drain
        store.health.set_turn(True, is_sealed=True)
        store.health.set_turn(False, is_sealed=False)

        with pytest.raises(errors.StorageFailed, match="leaves the fleet") as refused:
            put(store, 7, 2, is_recovery=True)
        assert refused.value.retryable, "a recovery chooses another bookie"
        await bench.fence(store, 7)
        assert (store.may_hold(LedgerId(7)), store.may_hold(LedgerId(8))) == (True, False)
        store.health.set_draining(False)
        await bench.put_all(store, 7, [2], is_recovery=True)

    await bench.life(work)


@story(run)
async def test_a_deleted_ledger_is_gone_now_and_after_restarts(bench: Bench) -> None:
    from bookie.sim.node import ProcessEnd

    async def first(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(5))
        await store.flush()
        await bench.put_all(store, 7, range(5, 9))
        await bench.put_all(store, 8, [0])
        store.delete_ledger(LEDGER)
        await gone(store)
        await store.flush()
        await gone(store)

    async def gone(store: EntryStore) -> None:
        with pytest.raises(errors.NoSuchLedger):
            store.read_nowait(LEDGER, EntryId(0))
        assert [ledger async for ledger in store.ledgers()] == [8]
        assert store.facts(LEDGER) is None

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(gone)
    await bench.life(gone)


@story(run)
async def test_an_id_that_is_used_again_at_once_shows_nothing_of_what_was_deleted(bench: Bench) -> None:
    """A copier skips what is here: what the next checkpoint removes must not be here."""

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 2, range(4))
        await store.flush()
        store.delete_ledger(LedgerId(2))
        await store.protect([(LedgerId(2), False, False, KEY)])

        assert await store.entry_ranges(LedgerId(2)) == []
        assert [store.has_entry(LedgerId(2), EntryId(number)) for number in range(6)] == [False] * 6
        with pytest.raises(errors.NoSuchEntry):
            await store.read(LedgerId(2), EntryId(0))
        await store.flush()
        store.add_copied(LedgerId(2), EntryId(5), entry(2, 5), KEY)
        assert await store.entry_ranges(LedgerId(2)) == [(5, 5)]
        assert bytes(await store.read(LedgerId(2), LAST_ENTRY)) == entry(2, 5)

    await bench.life(work)


@story(run)
async def test_a_ledger_deleted_and_made_anew_keeps_its_new_life_only(bench: Bench) -> None:
    # Over-replicated today, assigned here again tomorrow: the ids come back with the ledger.
    from bookie.sim.node import ProcessEnd

    async def first(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(5), is_recovery=True)
        await store.flush()
        store.delete_ledger(LEDGER)
        await store.flush()
        await store.protect([(LEDGER, True, True, KEY)])
        await bench.put_all(store, 7, [3, 9], is_recovery=True)

    async def again(store: EntryStore) -> None:
        assert await store.entry_ranges(LEDGER) == [(3, 3), (9, 9)]
        facts = store.facts(LEDGER)
        assert facts is not None
        assert (facts.is_limbo, facts.master_key) == (True, KEY)

    async def flushed(store: EntryStore) -> None:
        await first(store)
        await store.flush()
        assert await store.entry_ranges(LEDGER) == [(3, 3), (9, 9)]
        await again(store)

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(again)
    await bench.life(flushed, end=ProcessEnd.POWER_CUT)
    await bench.life(again)


@story(run)
async def test_a_stopping_store_refuses_and_a_second_opener_is_refused(bench: Bench) -> None:
    from bookie.storage import restart

    async def work(store: EntryStore) -> EntryStore:
        with pytest.raises(errors.RefusedToStart):
            await restart.open_store(bench.options, bench.node.world, fail=bench.failures.append)
        return store

    store = await bench.life(work)
    with pytest.raises(errors.StorageFailed):
        put(store, 7, 0)
    with pytest.raises(errors.StorageFailed):
        store.fence(LEDGER, KEY, Outcome())


@story(run)
async def test_closing_twice_or_after_abandoning_is_fine(bench: Bench) -> None:
    async def closes(store: EntryStore) -> None:
        await bench.put_all(store, 7, [0])
        assert await store.close()

    async def abandons(store: EntryStore) -> None:
        await store.abandon()

    await bench.life(closes)
    assert bench.was_clean
    await bench.life(abandons)


@story(run, write_cache_bytes_max=16_384)
async def test_adds_beyond_the_write_cache_are_refused_until_the_disk_caught_up(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        payload = bytes(4000)
        refused = 0
        for entry_id in range(40):
            try:
                put(store, 7, entry_id, payload=payload)
            except errors.TooManyRequests:
                refused += 1
        assert refused
        assert not is_plain(store, 7, 40)
        await store.flush()
        await store.room()
        assert not store.is_congested
        assert is_plain(store, 7, 40)
        await bench.put_all(store, 7, [99], payload=payload)

    await bench.life(work)


@story(run, write_cache_bytes_max=16_384)
async def test_sockets_wait_before_adds_are_refused_also_while_no_checkpoint_has_begun(bench: Bench) -> None:
    """The one that was asked for waits for other work: rows that are made of deltas, another directory."""

    async def work(store: EntryStore) -> None:
        taken, before_it_waits = 0, 0
        with contextlib.suppress(errors.TooManyRequests):
            for entry_id in range(100):
                put(store, 7, entry_id, payload=bytes(500))
                taken += 1
                before_it_waits += not store.is_congested
        assert 16_384 < before_it_waits * 670 < 2 * 16_384, "no other generation has its half of the memory"
        assert before_it_waits + 4 < taken < 100
        await store.flush()
        await store.room()
        assert not store.is_congested

    await bench.life(work)


@story(run, write_cache_bytes_max=16_384)
async def test_sockets_wait_where_adds_of_several_ledgers_fill_the_write_cache_together(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        for ledger_id in MIXED:
            await bench.put_all(store, ledger_id, [0])
        done = [Outcome()]
        while not store.is_congested:
            put_mix(store, len(done), done[-1])
            done.append(Outcome())
        await store.room()
        assert store.stats.checkpoints, "they ask for one"

    await bench.life(work)


@story(run)
async def test_adds_are_refused_while_too_much_waits_for_the_journal(
    bench: Bench, *, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "PENDING_BYTES_MAX", 10_000)

    async def work(store: EntryStore) -> None:
        accepted = [put(store, 7, entry_id, payload=bytes(3000)) for entry_id in range(4)]
        with pytest.raises(errors.TooManyRequests, match="journal"):
            put(store, 7, 4)
        assert not is_plain(store, 7, 4)
        await bench.settle(*accepted)
        assert is_plain(store, 7, 4)
        await bench.put_all(store, 7, [4])

    await bench.life(work)


@story(run, ledgers_cached_max=10)
async def test_ledgers_beyond_the_bound_leave_memory_and_come_back_from_the_index(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        for ledger_id in range(30):
            await bench.put_all(store, ledger_id, [0, 1])
        await store.flush()

        assert len(store._partitions[0].table.known) <= 10
        assert [store.last_confirmed(LedgerId(ledger_id)) for ledger_id in range(30)] == [0] * 30
        with pytest.raises(errors.Unauthorized):
            put(store, 3, 2, key=OTHER_KEY)

    await bench.life(work)


def test_ledgers_spread_over_several_directories_and_journals() -> None:
    from bookie.sim.node import ProcessEnd

    async def story(bench: Bench) -> None:
        async def first(store: EntryStore) -> None:
            for ledger_id in range(7):
                await bench.put_all(store, ledger_id, range(4))
                await bench.fence(store, ledger_id)

        async def second(store: EntryStore) -> None:
            for ledger_id in range(7):
                assert await bench.read(store, ledger_id, 3) == entry(ledger_id, 3)
                facts = store.facts(LedgerId(ledger_id))
                assert facts is not None
                assert facts.is_fenced
            assert sorted([ledger async for ledger in store.ledgers()]) == list(range(7))

        await bench.life(first, end=ProcessEnd.POWER_CUT)
        await bench.life(second)
        assert bench.paths("/ledgers/a/current/00000000.log")
        assert bench.paths("/ledgers/b/current/00000000.log")

    journals, ledgers = ("/journal/a", "/journal/b"), ("/ledgers/a", "/ledgers/b")
    run(story, Bench(journal_dirs=journals, ledger_dirs=ledgers, index_dirs=()))


@story(run)
async def test_a_walk_over_all_ledgers_misses_none_that_gets_its_row_meanwhile(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        for ledger_id in range(1000, 1800):  # more than one slice
            put(store, ledger_id, 0)
        await store.flush()
        await bench.put_all(store, 5, [0])  # without a row when the walk begins, with one behind it soon
        found = []
        async for ledger_id in store.ledgers():
            if not found:
                await store.flush()
                store.delete_ledger(LedgerId(1799))
                await bench.put_all(store, 1798, [1])
            found.append(ledger_id)
        assert sorted(found) == [5, *range(1000, 1799)]
        assert len(found) == len(set(found))

    await bench.life(work)


@story(run, ledgers_dirty_max=40)
async def test_new_ledgers_beyond_what_may_wait_for_a_checkpoint_are_refused(bench: Bench) -> None:
    """A stranger who fences ledgers that never were filled the memory with their facts."""

    async def work(store: EntryStore) -> None:
        for number in range(41):  # no checkpoint comes between
            store.fence(LedgerId(number), KEY, Outcome())

        with pytest.raises(errors.TooManyRequests, match="new ledgers wait"):
            store.fence(LedgerId(1000), KEY, Outcome())
        store.fence(LedgerId(7), KEY, Outcome())  # one that is known

    await bench.life(work)


@pytest.mark.parametrize("what", ["fence", "LAC"])
@story(run, ledgers_cached_max=1)
async def test_what_came_for_a_ledger_while_a_checkpoint_ran_stays_in_memory_after_it(
    bench: Bench, *, what: str
) -> None:
    """The checkpoint ends by dropping ledgers from memory, and the row of this one is that of before."""

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, [0])
        await store.flush()
        for ledger_id in range(10, 14):
            await bench.put_all(store, ledger_id, [0])
        assert store.last_confirmed(LedgerId(7)) == -1  # it is in memory
        running = asyncio.ensure_future(store.flush())
        while store.partitions[0].flushing is None:
            await bench.simulation.loop.sleep_ns(1_000)
        if what == "fence":
            store.fence(LedgerId(7), KEY, Outcome())
        else:
            put(store, 7, 5, lac=4)
        await running

        if what == "fence":
            with pytest.raises(errors.LedgerFenced):
                put(store, 7, 1)
        else:
            assert store.last_confirmed(LedgerId(7)) == 4

    await bench.life(work)


@story(run)
async def test_a_ledger_deleted_before_its_first_checkpoint_has_no_row_after_it(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, [0])
        store.delete_ledger(LedgerId(7))
        await store.flush()

    async def then(store: EntryStore) -> None:
        assert store.facts(LedgerId(7)) is None

    await bench.life(work, end=ProcessEnd.POWER_CUT)
    await bench.life(then)


@pytest.mark.parametrize("is_deleted_before", [False, True])
@story(run)
async def test_what_was_deleted_shows_nothing_while_a_checkpoint_runs(bench: Bench, *, is_deleted_before: bool) -> None:
    """Neither what the index has until the checkpoint ends, nor what the checkpoint is writing."""

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(2))
        if is_deleted_before:
            await store.flush()
            store.delete_ledger(LedgerId(7))
        await bench.put_all(store, 8, [0])
        running = asyncio.ensure_future(store.flush())
        while store.partitions[0].flushing is None:
            await bench.simulation.loop.sleep_ns(1_000)
        if not is_deleted_before:
            store.delete_ledger(LedgerId(7))
        assert store.facts(LedgerId(7)) is None
        marking = asyncio.ensure_future(store.protect([(LedgerId(7), False, False, KEY)]))
        await asyncio.sleep(0)
        assert [store.has_entry(LedgerId(7), EntryId(number)) for number in (0, 1)] == [False, False]
        assert await store.entry_ranges(LedgerId(7)) == []
        assert store.partitions[0].flushing is not None, "it runs still"
        await asyncio.gather(running, marking)

    await bench.life(work)
