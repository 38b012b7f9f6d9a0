"""Marks that are written beside everything else: what comes for their ledgers meanwhile is not undone."""

import asyncio

import pytest

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.sim.node import ProcessEnd
from bookie.storage import protection
from bookie.storage.partition import Partition
from bookie.storage.pause import pause
from bookie.storage.store import EntryStore
from storage_support import KEY, Bench, Outcome, explicit_lac, put, run
from story_support import story

FIRST, OTHER = LedgerId(6), LedgerId(7)
TWO_OF_EACH = {
    "journal_dirs": ("/journal", "/journal/2"),
    "ledger_dirs": ("/ledgers", "/ledgers/2"),
    "index_dirs": ("/index", "/index/2"),
}


@story(run)
async def test_a_fence_that_comes_while_marks_are_written_outlives_the_checkpoint_that_saved_it(
    bench: Bench, *, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of all marks were packed first: the last ones undid what a checkpoint had written meanwhile."""
    monkeypatch.setattr(protection, "INDEX_BATCH_COUNT", 8)

    async def work(store: EntryStore) -> None:
        # Everything happens in the turns of the loop that the marks leave to others: all are in memory, and the row of
        # the last one is the last to be put.
        bench.node.disk_faults.write_latency_ns = bench.node.disk_faults.sync_latency_ns = 0
        wanted = [(LedgerId(number), False, True, KEY) for number in range(OTHER + 400, OTHER - 1, -1)]
        marking = asyncio.ensure_future(store.protect(wanted))
        while store.facts(OTHER) is None:
            await pause()
        fenced = Outcome()
        store.fence(OTHER, KEY, fenced)
        while not fenced.is_done:
            await pause()
        flushing = asyncio.ensure_future(store.flush())
        while not flushing.done():
            await pause()
        assert not marking.done()
        await asyncio.gather(flushing, marking)

    async def then(store: EntryStore) -> None:
        facts = store.facts(OTHER)
        assert facts is not None
        assert (facts.is_fenced, facts.is_state_lost, facts.is_limbo) == (True, False, True)

    await bench.life(work, end=ProcessEnd.POWER_CUT)
    assert not bench.failures
    await bench.life(then)


@pytest.mark.parametrize("is_deleted", [False, True])
@story(run, **TWO_OF_EACH)
async def test_what_comes_for_the_second_directory_while_the_first_is_flushed_is_in_its_row(
    bench: Bench, *, is_deleted: bool
) -> None:
    async def work(store: EntryStore) -> None:
        async def flush(partition: Partition) -> None:
            if partition.number == FIRST % 2:
                await bench.write_lac(store, OTHER, 5)
                if is_deleted:
                    store.delete_ledger(OTHER)
                await store.flush()
            await partition.index.flush()

        for ledger_id in (FIRST, OTHER):
            await bench.put_all(store, ledger_id, [0])
        both = [FIRST, OTHER]
        await protection.mark_given_up(store.partitions, lambda ledger_id: ledger_id % 2, both, flush=flush)

    async def then(store: EntryStore) -> None:
        facts = store.facts(OTHER)
        if is_deleted:
            assert facts is None
        else:
            assert facts is not None
            assert (facts.explicit_lac, facts.is_given_up) == (explicit_lac(OTHER, 5), True)

    await bench.life(work, end=ProcessEnd.POWER_CUT)
    await bench.life(then)


@story(run, ledgers_cached_max=1)
async def test_marks_of_ledgers_that_a_checkpoint_drops_from_memory_meanwhile_are_all_there(
    bench: Bench, *, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protection, "INDEX_BATCH_COUNT", 8)
    ledger_ids = [LedgerId(number) for number in range(200)]

    async def before(store: EntryStore) -> None:
        for ledger_id in ledger_ids:
            await bench.put_all(store, ledger_id, [0])

    async def work(store: EntryStore) -> None:
        bench.node.disk_faults.write_latency_ns = bench.node.disk_faults.sync_latency_ns = 0
        marking = asyncio.ensure_future(store.protect([(ledger_id, True, True, None) for ledger_id in ledger_ids]))
        await pause()
        flushing = asyncio.ensure_future(store.flush())
        while not flushing.done():
            await pause()
        assert not marking.done()
        await asyncio.gather(flushing, marking)

    async def then(store: EntryStore) -> None:
        for ledger_id in ledger_ids:
            facts = store.facts(ledger_id)
            assert facts is not None
            assert (facts.is_fenced, facts.is_limbo) == (True, True), ledger_id

    await bench.life(before)
    await bench.life(work, end=ProcessEnd.POWER_CUT)
    await bench.life(then)


@story(run, ledgers_cached_max=1, **TWO_OF_EACH)
async def test_a_ledger_of_the_second_directory_does_not_leave_memory_before_its_mark_is_written(bench: Bench) -> None:
    """Its mark is in memory alone while the first directory is flushed, and a checkpoint drops what is clean."""

    async def work(store: EntryStore) -> None:
        async def flush(partition: Partition) -> None:
            if partition.number == FIRST % 2:
                for ledger_id in (11, 13):  # the first loaded go first, one of these may stay
                    await bench.put_all(store, ledger_id, [0])
                await store.flush()
            await partition.index.flush()

        for ledger_id in (FIRST, OTHER):
            await bench.put_all(store, ledger_id, [0])
        await store.flush()
        both = [FIRST, OTHER]
        await protection.mark_given_up(store.partitions, lambda ledger_id: ledger_id % 2, both, flush=flush)

    async def then(store: EntryStore) -> None:
        assert [store.is_given_up(ledger_id) for ledger_id in (FIRST, OTHER)] == [True, True]

    await bench.life(work, end=ProcessEnd.POWER_CUT)
    await bench.life(then)


@story(run)
async def test_a_doubt_stands_in_memory_before_it_is_durable(bench: Bench) -> None:
    """Whatever is cut or fails in between, the bookie says "unknown" once too often."""

    async def work(store: EntryStore) -> None:
        async def flush(partition: Partition) -> None:
            assert partition.table.is_doubted(FIRST)
            with pytest.raises(errors.UnknownLedgerState):
                store.read_nowait(OTHER, EntryId(1))
            await partition.index.flush()

        await bench.put_all(store, OTHER, [0])
        await protection.begin_doubt(store.partitions, 100, epoch=3, flush=flush)

    await bench.life(work)


@story(run)
async def test_a_mark_without_a_key_leaves_the_key_of_a_ledger_in_doubt(bench: Bench) -> None:
    """Without a key a ledger is the first comer's."""

    async def work(store: EntryStore) -> None:
        await store.doubt_below(100, epoch=3)
        added = put(store, OTHER, 0, is_recovery=True)
        await bench.settle(added)
        await store.settle([(OTHER, False, True, None)], [OTHER])
        facts = store.facts(OTHER)
        assert facts is not None
        assert facts.master_key == KEY

    await bench.life(work)
