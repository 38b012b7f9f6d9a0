"""A ledger that is deleted and made anew, at any moment of a checkpoint, has nothing of its earlier life; and one that
was quarantined twice is in quarantine."""

import asyncio

import pytest

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.sim.node import ProcessEnd
from bookie.storage.index import block_key
from bookie.storage.partition import Partition
from bookie.storage.store import EntryStore
from storage_support import KEY, OTHER_KEY, Bench, Outcome, entry, explicit_lac, put, run
from story_support import story

LEDGER = LedgerId(7)


async def until_entries_are_gone(bench: Bench, directory: Partition) -> None:
    """Wait until the index has forgotten the entries of `LEDGER`; that is not durable yet."""
    while directory.index.locate(LEDGER, EntryId(0)) is not None:
        await bench.simulation.loop.sleep_ns(1_000)


@story(run)
async def test_a_ledger_deleted_again_while_a_full_disk_makes_its_deletion_durable_stays_deleted(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        (directory,) = store.partitions
        await bench.put_all(store, LEDGER, [0])
        await bench.fence(store, LEDGER)
        await store.flush()
        await bench.put_all(store, 8, [0])
        store.delete_ledger(LEDGER)
        await store.protect([(LEDGER, False, False, OTHER_KEY)])
        bench.fill("/ledgers")

        running = asyncio.ensure_future(store.flush())
        await until_entries_are_gone(bench, directory)
        store.delete_ledger(LEDGER)
        with pytest.raises(errors.DiskFull):
            await running

        assert store.facts(LEDGER) is None
        bench.make_room("/ledgers")
        await store.flush()
        assert store.facts(LEDGER) is None

    async def then(store: EntryStore) -> None:
        assert store.facts(LEDGER) is None

    await bench.life(work, end=ProcessEnd.POWER_CUT)
    await bench.life(then)


@pytest.mark.parametrize("is_disk_full", [False, True])
@story(run)
async def test_no_fence_and_no_key_of_a_deleted_ledger_is_in_the_one_made_anew_after_a_crash(
    bench: Bench, *, is_disk_full: bool
) -> None:
    """The deletion is durable, the new ledger has no row by a checkpoint of its own yet."""

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, LEDGER, [0])
        await bench.fence(store, LEDGER)
        await store.flush()
        await bench.put_all(store, 8, [0])
        store.delete_ledger(LEDGER)
        if is_disk_full:
            bench.fill("/ledgers")

        running = asyncio.ensure_future(store.flush())
        while store.partitions[0].flushing is None:
            await bench.simulation.loop.sleep_ns(1_000)
        await store.protect([(LEDGER, False, False, OTHER_KEY)])
        try:
            await running
        except errors.DiskFull:
            assert is_disk_full

    async def then(store: EntryStore) -> None:
        facts = store.facts(LEDGER)
        assert facts is not None
        assert (facts.master_key, facts.is_fenced, facts.is_limbo) == (OTHER_KEY, False, False)
        assert not is_disk_full or await store.entry_ranges(LEDGER) == []
        await bench.put_all(store, LEDGER, [2], key=OTHER_KEY)

    await bench.life(work, end=ProcessEnd.POWER_CUT)
    bench.make_room("/ledgers")
    await bench.life(then)


async def put_and_rot_its_row(bench: Bench, store: EntryStore) -> None:
    """Leave a row of entries that cannot be read: whoever reads there quarantines the ledger."""
    await bench.put_all(store, LEDGER, range(40), is_recovery=True)
    await store.flush()
    await store.flush()  # no delta says it besides
    await rot_the_row(store)


async def rot_the_row(store: EntryStore) -> None:
    (directory,) = store.partitions
    directory.index.put_many([(block_key(LEDGER, EntryId(0)), b"rot")])
    with pytest.raises(errors.UnknownLedgerState):
        await store.read(LEDGER, EntryId(0))
    assert LEDGER in store.quarantined


@pytest.mark.parametrize("end", [ProcessEnd.EXIT, ProcessEnd.POWER_CUT])
@story(run)
async def test_a_quarantine_ends_with_the_ledger_though_its_id_is_used_again_at_once(
    bench: Bench, *, end: ProcessEnd
) -> None:
    async def work(store: EntryStore) -> None:
        await put_and_rot_its_row(bench, store)
        await store.flush()
        store.delete_ledger(LEDGER)
        await store.protect([(LEDGER, False, False, OTHER_KEY)])
        assert store.quarantined == {}
        await store.flush()

    async def then(store: EntryStore) -> None:
        assert store.quarantined == {}
        await bench.put_all(store, LEDGER, [1], key=OTHER_KEY)
        await bench.fence(store, LEDGER, OTHER_KEY)

    await bench.life(work, end=end)
    await bench.life(then)


@story(run)
async def test_a_ledger_made_anew_that_is_quarantined_itself_stays_so(bench: Bench) -> None:
    """The checkpoint that removes the earlier one comes after."""

    async def work(store: EntryStore) -> None:
        (directory,) = store.partitions
        await bench.put_all(store, LEDGER, [0])
        await store.flush()
        await bench.put_all(store, 8, [0])
        store.delete_ledger(LEDGER)
        running = asyncio.ensure_future(store.flush())
        while directory.flushing is None:
            await bench.simulation.loop.sleep_ns(1_000)
        marking = asyncio.ensure_future(store.protect([(LEDGER, False, False, OTHER_KEY)]))
        await asyncio.sleep(0)
        directory.index.on_malformed(LEDGER, "rot")
        assert directory.index.locate(LEDGER, EntryId(0)) is not None, "the deletion is on its way"
        await asyncio.gather(running, marking)

    async def then(store: EntryStore) -> None:
        assert store.quarantined == {LEDGER: "rot"}

    await bench.life(work, end=ProcessEnd.POWER_CUT)
    await bench.life(then)


@story(run)
async def test_a_ledger_quarantined_again_right_after_its_repair_is_in_quarantine_after_a_crash(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await put_and_rot_its_row(bench, store)
        await store.flush()
        await rot_the_row(store)
        store.clear_limbo(LEDGER)
        await rot_the_row(store)
        await store.flush()
        await store.flush()

    async def then(store: EntryStore) -> None:
        assert LEDGER in store.quarantined
        with pytest.raises(errors.UnknownLedgerState):
            store.fence(LEDGER, KEY, lambda _: None)

    await bench.life(work, end=ProcessEnd.POWER_CUT)
    await bench.life(then)


@pytest.mark.parametrize("is_flushed", [True, False])
@story(run, flush_interval_ms=3_600_000)
async def test_nothing_is_begun_under_an_id_while_a_crash_would_bring_back_what_was_deleted(
    bench: Bench, *, is_flushed: bool
) -> None:
    """With the same key nothing else tells the entries of the two lives apart: those of the first come from the index,
    or from the journal."""

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, LEDGER, range(6))
        if is_flushed:
            await store.flush()
        store.delete_ledger(LEDGER)
        for begin in (
            lambda: put(store, LEDGER, 0),
            lambda: put(store, LEDGER, 0, is_recovery=True),
            lambda: store.add_copied(LEDGER, EntryId(0), entry(LEDGER, 0), KEY),
            lambda: store.fence(LEDGER, KEY, Outcome()),
            lambda: store.write_lac(LEDGER, explicit_lac(LEDGER, 3), KEY, Outcome()),
        ):
            with pytest.raises(errors.TooManyRequests):
                begin()
        assert store.facts(LEDGER) is None
        assert store.may_hold(LEDGER)
        await bench.simulation.until(lambda: not store.may_hold(LEDGER), "a checkpoint, which the refusals asked for")
        await bench.put_all(store, LEDGER, [0])

    async def then(store: EntryStore) -> None:
        assert await store.entry_ranges(LEDGER) == [(0, 0)]

    await bench.life(work, end=ProcessEnd.POWER_CUT)
    await bench.life(then)


@story(run)
async def test_a_deletion_that_is_durable_alone_frees_no_id_while_the_journal_has_the_entries(bench: Bench) -> None:
    """On a full disk deletions become durable without a mark: a restart replays what was deleted."""

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, LEDGER, range(6))
        await bench.put_all(store, 8, [0])
        store.delete_ledger(LEDGER)
        bench.fill("/ledgers")
        with pytest.raises(errors.DiskFull):
            await store.flush()
        with pytest.raises(errors.TooManyRequests):
            store.fence(LEDGER, KEY, Outcome())
        bench.make_room("/ledgers")
        await store.flush()
        await bench.put_all(store, LEDGER, [0])

    async def then(store: EntryStore) -> None:
        assert await store.entry_ranges(LEDGER) == [(0, 0)]

    await bench.life(work, end=ProcessEnd.POWER_CUT)
    await bench.life(then)


@story(run)
async def test_a_ledger_that_integrity_marked_under_such_an_id_takes_nothing_before_either(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, LEDGER, range(6))
        store.delete_ledger(LEDGER)
        await store.protect([(LEDGER, False, True, KEY)])
        store.clear_limbo(LEDGER)
        assert list(store.not_plain([LEDGER], [KEY], [EntryId(0)], [entry(LEDGER, 0)])) == [0]
        with pytest.raises(errors.TooManyRequests):
            put(store, LEDGER, 0)
        await store.flush()
        await bench.put_all(store, LEDGER, [0])
        assert not store.not_plain([LEDGER], [KEY], [EntryId(1)], [entry(LEDGER, 1)])

    async def then(store: EntryStore) -> None:
        assert await store.entry_ranges(LEDGER) == [(0, 0)]

    await bench.life(work, end=ProcessEnd.POWER_CUT)
    await bench.life(then)
