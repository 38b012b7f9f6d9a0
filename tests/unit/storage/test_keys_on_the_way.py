"""No entry of a client is acknowledged before the key of its ledger is durable (CONFORMANCE.md#B30)."""

import asyncio

import pytest

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import EntryId, LedgerId
from bookie.sim.node import ProcessEnd
from bookie.storage.store import EntryStore
from storage_support import KEY, OTHER_KEY, Bench, Outcome, entry, run
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
async def test_the_arrival_of_an_earlier_key_stands_for_no_later_one(bench: Bench) -> None:
    """The ledger is deleted and made again with another key while its first one is on the way."""
    order: list[str] = []

    async def first(store: EntryStore) -> None:
        last = Outcome()

        def one(error: BookieError | None) -> None:
            order.append("first key")
            store.add(L, [EntryId(1)], [entry(7, 1)], OTHER_KEY, is_recovery=False, done=after)

        def after(error: BookieError | None) -> None:
            order.append("acknowledged")
            last(error)

        store.add(L, [EntryId(0)], [entry(7, 0)], KEY, is_recovery=False, done=one)
        for _ in range(100):  # until its group is handed to the disk
            if not store._journal(L)._in_flight:
                await asyncio.sleep(0)
        store.delete_ledger(L)
        store.add(
            L, [EntryId(0)], [entry(7, 0)], OTHER_KEY, is_recovery=False, done=lambda error: order.append("second key")
        )
        await bench.settle(last)

    await bench.life(first)
    assert order == ["first key", "second key", "acknowledged"]
