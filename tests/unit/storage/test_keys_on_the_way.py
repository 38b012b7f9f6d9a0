"""No entry of a client is acknowledged before the key of its ledger is durable (CONFORMANCE.md#B30)."""

import pytest

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.sim.node import ProcessEnd
from bookie.storage.store import EntryStore
from storage_support import KEY, OTHER_KEY, Bench, Outcome, entry, put, run
from story_support import story

L = LedgerId(7)


async def _copy_and_add(bench: Bench, store: EntryStore) -> None:
    """A hole is filled; then the ledger's writer adds."""
    store.add_copied(L, EntryId(0), entry(7, 0), KEY)
    done = Outcome()
    store.add(L, [EntryId(1)], [entry(7, 1)], KEY, is_recovery=False, done=done)
    await bench.settle(done)


@story(run, journal_write_data=False, unjournaled_flush_interval_ms=3_600_000)
async def test_a_ledger_known_by_a_copy_has_its_key_after_a_power_cut(bench: Bench) -> None:
    async def first(store: EntryStore) -> None:
        await _copy_and_add(bench, store)

    async def second(store: EntryStore) -> None:
        facts = store.facts(L)
        assert facts is not None, "acknowledged, and the ledger is unknown"
        assert facts.master_key == KEY

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(second)


@story(run)
async def test_with_data_in_the_journal_a_stranger_cannot_take_the_ledger_either(bench: Bench) -> None:
    async def first(store: EntryStore) -> None:
        await _copy_and_add(bench, store)

    async def second(store: EntryStore) -> None:
        with pytest.raises(errors.Unauthorized):
            store.fence(L, OTHER_KEY, Outcome())
        done = Outcome()
        store.add(L, [EntryId(2)], [entry(7, 2)], KEY, is_recovery=False, done=done)
        await bench.settle(done)

    await bench.life(first, end=ProcessEnd.POWER_CUT)
    await bench.life(second)


@story(run, journal_write_data=False, unjournaled_flush_interval_ms=3_600_000)
async def test_no_second_key_follows_one_that_is_on_the_way(bench: Bench) -> None:
    """The ledger is deleted while its key is on the way: no checkpoint makes its id free before the key has arrived."""

    async def first(store: EntryStore) -> None:
        bench.node.disk_faults.write_latency_ns = 10**10
        done = put(store, 7, 0)
        await bench.simulation.loop.sleep_ns(10)
        bench.node.disk_faults.write_latency_ns = 10_000
        store.delete_ledger(L)
        await store.flush()
        with pytest.raises(errors.TooManyRequests):
            put(store, 7, 0, key=OTHER_KEY)
        assert store.may_hold(L)
        assert not done.is_done
        await bench.settle(done)
        await store.flush()
        assert not store.may_hold(L)
        await bench.put_all(store, 7, [0], key=OTHER_KEY)

    await bench.life(first, end=ProcessEnd.POWER_CUT)


@pytest.mark.parametrize("journal_write_data", [True, False])
def test_a_key_that_follows_an_empty_one_ends_no_bookie_and_counts(*, journal_write_data: bool) -> None:
    """Two adds in one packet, from anybody: the second gives the ledger of the first its key."""

    async def tell(bench: Bench) -> None:
        async def first(store: EntryStore) -> None:
            done = [put(store, 7, 0, key=b""), put(store, 7, 1)]
            assert store._keys_on_the_way == {L: KEY}
            for one in done:
                await bench.settle(one)
            assert store._keys_on_the_way == {}
            await bench.put_all(store, 7, [2])

        async def second(store: EntryStore) -> None:
            facts = store.facts(L)
            assert facts is not None
            assert facts.master_key == KEY
            with pytest.raises(errors.Unauthorized):
                put(store, 7, 3, key=OTHER_KEY)

        await bench.life(first, end=ProcessEnd.POWER_CUT)
        await bench.life(second)

    run(tell, journal_write_data=journal_write_data, unjournaled_flush_interval_ms=3_600_000)
