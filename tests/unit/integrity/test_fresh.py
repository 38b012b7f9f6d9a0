"""Many ask for present metadata together: one sync serves all who asked before it began, and nobody else."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from bookie.base import errors
from bookie.base.ids import LedgerId
from bookie.integrity.fresh import FreshLedgers
from bookie.integrity.metadata_retry import MetadataRetry


class Store:
    """A metadata store with a server that lags: a read sees what was there when the last sync that ended well began."""

    root = "/ledgers"

    def __init__(self) -> None:
        self.store = self
        self.version = 0
        self.seen = 0
        self.syncs: list[asyncio.Event] = []  # set one to end it
        self.fails: list[errors.MetadataError] = []

    async def sync(self, path: str) -> None:
        assert path == self.root
        seen, ends = self.version, asyncio.Event()
        self.syncs.append(ends)
        await ends.wait()
        if self.fails:
            raise self.fails.pop(0)
        self.seen = max(self.seen, seen)

    async def get(self, ledger_id: LedgerId) -> tuple[Any, int]:
        if ledger_id == 404:
            raise errors.LedgerMissing("no such ledger")
        return "a record", self.seen


class StillClock:
    def monotonic_ns(self) -> int:
        return 0

    async def sleep_until(self, deadline_ns: int) -> None:
        await asyncio.sleep(0)


def fresh(store: Store) -> FreshLedgers:
    everything: Any = store
    clock: Any = StillClock()
    return FreshLedgers(everything, MetadataRetry(clock))


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def ended(store: Store, tasks: list[Awaitable[tuple[Any, int]]]) -> list[int]:
    """End every sync there is and comes; return the versions that were read."""
    found = asyncio.gather(*tasks)
    while not found.done():
        for ends in store.syncs:
            ends.set()
        await asyncio.sleep(0)
    return [version for _, version in await found]


def test_a_sync_that_was_under_way_does_not_serve_who_asks_now() -> None:
    async def story() -> None:
        store = Store()
        reader = fresh(store)
        first = asyncio.ensure_future(reader.get(LedgerId(1)))
        await turns()
        store.version = 1  # after the first sync had begun
        others = [asyncio.ensure_future(reader.get(LedgerId(number))) for number in range(2, 50)]
        await turns()
        assert len(store.syncs) == 1

        assert await ended(store, [first, *others]) == [0] + 48 * [1]
        assert len(store.syncs) == 2

    asyncio.run(story())


@pytest.mark.parametrize("how", ["cancelled", "refused"])
def test_a_sync_that_did_not_end_serves_nobody(how: str) -> None:
    async def story() -> None:
        store = Store()
        reader = fresh(store)
        first = asyncio.ensure_future(reader.get(LedgerId(1)))
        second = asyncio.ensure_future(reader.get(LedgerId(2)))
        await turns()
        store.version = 1
        if how == "cancelled":
            first.cancel()
        else:
            store.fails.append(errors.MetadataDenied("no"))
            store.syncs[0].set()
        await turns()

        assert len(store.syncs) == 2
        assert await ended(store, [second]) == [1]
        with pytest.raises(asyncio.CancelledError if how == "cancelled" else errors.MetadataDenied):
            await first

    asyncio.run(story())


@pytest.mark.parametrize("how", ["cancelled", "refused"])
def test_nor_whoever_waited_for_it_while_another_one_was_under_way(how: str) -> None:
    async def story() -> None:
        store = Store()
        reader = fresh(store)
        before = asyncio.ensure_future(reader.get(LedgerId(1)))
        await turns()
        first = asyncio.ensure_future(reader.get(LedgerId(2)))
        second = asyncio.ensure_future(reader.get(LedgerId(3)))
        await turns()
        store.version = 1
        store.syncs[0].set()
        await turns()
        assert len(store.syncs) == 2, "that of the first, for both"
        if how == "cancelled":
            first.cancel()
        else:
            store.fails.append(errors.MetadataDenied("no"))
            store.syncs[1].set()

        assert await ended(store, [before, second]) == [0, 1]
        assert len(store.syncs) == 3
        with pytest.raises(asyncio.CancelledError if how == "cancelled" else errors.MetadataDenied):
            await first

    asyncio.run(story())


def test_a_store_that_is_away_is_asked_again_for_all_who_wait() -> None:
    async def story() -> None:
        store = Store()
        reader = fresh(store)
        store.fails += [errors.MetadataError("away")] * 3
        tasks = [asyncio.ensure_future(reader.get(LedgerId(number))) for number in range(3)]
        await turns()

        assert await ended(store, tasks) == [0, 0, 0]
        assert len(store.syncs) == 3 + 2  # the one that was tried again; one for the two who asked meanwhile

    asyncio.run(story())


def test_a_deleted_ledger_is_none() -> None:
    async def story() -> None:
        store = Store()
        task = asyncio.ensure_future(fresh(store).get(LedgerId(404)))
        await turns()
        store.syncs[0].set()
        assert await task == (None, -1)

    asyncio.run(story())
