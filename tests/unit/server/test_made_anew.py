"""A deleted ledger whose id is used again while the metadata store's answer about it is on its way to the collector;
and one that is so new that the server which is asked does not have it yet."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.client import cluster
from bookie.client.ledgers import LedgerStore
from bookie.metadata import paths
from bookie.ports.admin import Compaction
from bookie.ports.metadata_store import MetadataStore
from bookie.server.collection import Collection
from bookie.storage.store import EntryStore
from storage_support import KEY, Bench, entry, run
from story_support import story

URI, ROOT = "zk+hierarchical://zk:2181/ledgers", "/ledgers"
LEDGER = LedgerId(7)
# The records that one question reads: where the layout has it, and, for the proof, where each layout would.
LOOKS = 1 + len(paths.ledger_paths(ROOT, LEDGER))


class Late:
    """A metadata store of which one answer about the ledger, the `at`-th, is on its way while somebody acts."""

    def __init__(self, store: MetadataStore, at: int, meanwhile: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._left = at
        self._meanwhile = meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get(self, path: str) -> Any:
        try:
            return await self._store.get(path)
        finally:
            if path in paths.ledger_paths(ROOT, LEDGER):
                self._left -= 1
                if not self._left:
                    await self._meanwhile()


class Behind:
    """A server of the metadata store that does not have the ledger yet, until it is told to catch up."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._is_behind = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def sync(self, path: str) -> None:
        await self._store.sync(path)
        self._is_behind = False

    async def get(self, path: str) -> Any:
        if self._is_behind and path in paths.ledger_paths(ROOT, LEDGER):
            raise errors.NodeMissing(path)
        return await self._store.get(path)


async def deleted(bench: Bench, store: EntryStore, *, at: int, meanwhile: Callable[[], Awaitable[None]]) -> int:
    """Collect once; return how many ledgers went."""
    return await collected(bench, store, lambda mine: Late(mine, at, meanwhile))


async def collected(bench: Bench, store: EntryStore, seen_through: Callable[[MetadataStore], Any]) -> int:
    mine = await bench.node.world.metadata_stores.connect(URI)
    instance_id = await cluster.ensure_cluster(mine, URI, bench.node.world.entropy)
    nobody: Any = None
    driver = Collection(
        store,
        LedgerStore(seen_through(mine), ROOT),
        nobody,
        nobody,
        instance_id,
        clock=bench.node.world.clock,
        me=BookieId("b1:3181"),
        interval_ms=3_600_000,
    )
    running = asyncio.ensure_future(driver.run())
    report = await driver.collect_now(Compaction.NONE)
    running.cancel()
    return report.ledgers_deleted


@pytest.mark.parametrize("what", ["add", "copy", "fence", "LAC"])
@pytest.mark.parametrize("look", range(LOOKS + 2, 2 * LOOKS + 1))
@story(run)
async def test_what_comes_for_a_ledger_made_anew_while_the_answer_is_on_its_way_is_kept(
    bench: Bench, *, look: int, what: str
) -> None:
    """The first question found it gone; this is the second one, right before the deletion."""

    async def work(store: EntryStore) -> None:
        async def lives_again() -> None:
            theirs = await bench.node.world.metadata_stores.connect(URI)
            await theirs.create(paths.ledger_path(ROOT, LEDGER), b"a record", parents=True)
            match what:
                case "add":
                    await bench.put_all(store, LEDGER, [1])
                case "copy":
                    store.add_copied(LEDGER, EntryId(1), entry(LEDGER, 1), KEY)
                case "fence":
                    await bench.fence(store, LEDGER)
                case "LAC":
                    await bench.write_lac(store, LEDGER, 1)

        await bench.put_all(store, LEDGER, [0])

        assert await deleted(bench, store, at=look, meanwhile=lives_again) == 0

        facts = store.facts(LEDGER)
        assert facts is not None
        assert facts.is_fenced is (what == "fence")
        assert (facts.explicit_lac is not None) is (what == "LAC")
        if what in ("add", "copy"):
            assert await bench.read(store, LEDGER, 1) == entry(LEDGER, 1)

    await bench.life(work)


@story(run)
async def test_what_came_before_the_question_does_not_keep_a_ledger(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        async def comes() -> None:
            await bench.put_all(store, LEDGER, [1])

        await bench.put_all(store, LEDGER, [0])

        assert await deleted(bench, store, at=1, meanwhile=comes) == 1
        assert store.facts(LEDGER) is None

    await bench.life(work)


@story(run)
async def test_a_ledger_that_the_server_which_is_asked_does_not_have_yet_is_kept(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        theirs = await bench.node.world.metadata_stores.connect(URI)
        await cluster.ensure_cluster(theirs, URI, bench.node.world.entropy)
        await theirs.create(paths.ledger_path(ROOT, LEDGER), b"a record", parents=True)
        await bench.put_all(store, LEDGER, [0])

        assert await collected(bench, store, Behind) == 0

        assert await bench.read(store, LEDGER, 0) == entry(LEDGER, 0)

    await bench.life(work)
