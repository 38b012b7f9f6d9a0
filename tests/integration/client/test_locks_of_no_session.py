"""A node that a stranger left in the place of a ledger's lock, in a real ZooKeeper: nobody's, or held by who may be."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl

import zookeeper_support
from bookie.base import errors
from bookie.base.ids import LedgerId
from bookie.client.repair import forgetting
from bookie.client.repair.autorecovery import AutoRecovery
from bookie.client.repair.replication_lock import locked
from bookie.metadata import paths, repair
from bookie.ports.metadata_store import find
from bookie.runtime.zookeeper import ZooKeeperStore, ZooKeeperStores
from zookeeper_support import ZooKeeper

pytestmark = pytest.mark.slow

ROOT = "/ledgers"
LEDGER = LedgerId(7)
LOCK = paths.replication_lock(ROOT, LEDGER)
THEIRS = repair.dump_lock("a stranger")
TURNS = 20


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with zookeeper_support.running(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture
def stranger(zookeeper: ZooKeeper) -> Iterator[KazooClient]:
    """A client of ZooKeeper's own; what it left is gone afterwards."""
    client = KazooClient(zookeeper.address)
    client.start(timeout=60)
    yield client
    client.delete(ROOT, recursive=True)
    client.stop()
    client.close()


def run(server: ZooKeeper, story: Callable[[ZooKeeperStore, ZooKeeperStore], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        ours, other = [await ZooKeeperStores().connect(server.uri, session_timeout_ms=10_000) for _ in range(2)]
        try:
            await story(ours, other)
        finally:
            await ours.close()
            await other.close()

    asyncio.run(whole())


async def refused(taking: Any) -> str:
    with pytest.raises(errors.TooManyRequests) as told:
        async with taking:
            raise AssertionError("it was taken")
    return str(told.value)


def test_a_lock_of_no_session_is_removed_and_the_next_one_is_nobody_elses(
    zookeeper: ZooKeeper, stranger: KazooClient
) -> None:
    stranger.create(LOCK, THEIRS, makepath=True)

    async def story(ours: ZooKeeperStore, other: ZooKeeperStore) -> None:
        found = (await AutoRecovery(ours, ROOT).locks())[LEDGER]
        assert (found.holder, found.session, found.path) == ("a stranger", 0, LOCK)
        assert await forgetting.repairs(ours, ROOT) == frozenset()  # no drain waits for it

        async with locked(ours, ROOT, LEDGER, "ours", None) as lock:
            await lock.confirm()
            assert (await ours.get(LOCK)).owner == ours.session_id
            assert len(await forgetting.repairs(ours, ROOT)) == 1
            assert "repaired by ours" in await refused(locked(other, ROOT, LEDGER, "other", None))
        assert await find(ours, LOCK) is None

    run(zookeeper, story)


def test_of_many_that_find_a_lock_of_no_session_one_at_a_time_has_it(
    zookeeper: ZooKeeper, stranger: KazooClient
) -> None:
    stranger.ensure_path(LOCK.rpartition("/")[0])
    inside: list[str] = []
    taken = 0

    async def taking(store: ZooKeeperStore, name: str) -> None:
        nonlocal taken
        try:
            async with locked(store, ROOT, LEDGER, name, None):
                inside.append(name)
                assert inside == [name]
                await asyncio.gather(*(store.sync(ROOT) for _ in range(5)))
                inside.remove(name)
                taken += 1
        except (errors.TooManyRequests, errors.OutcomeUnknown):
            pass

    async def story(ours: ZooKeeperStore, other: ZooKeeperStore) -> None:
        for turn in range(TURNS):
            await ours.create(LOCK, THEIRS)
            takers: list[Awaitable[None]] = [
                taking(store, f"{turn}-{number}") for number, store in enumerate((ours, other) * 2)
            ]
            await asyncio.gather(*takers)
            assert await find(ours, LOCK) is None

    run(zookeeper, story)

    assert taken >= TURNS


def test_a_lock_that_nobody_may_remove_is_named_with_what_to_do(zookeeper: ZooKeeper, stranger: KazooClient) -> None:
    stranger.ensure_path(LOCK.rpartition("/")[0])
    stranger.create(LOCK, THEIRS, acl=[make_acl("world", "anyone", read=True)])

    async def story(ours: ZooKeeperStore, other: ZooKeeperStore) -> None:
        told = await refused(locked(ours, ROOT, LEDGER, "ours", None))
        assert f"its lock {LOCK} (holder a stranger) belongs to no session" in told
        assert "delete it by hand" in told

    run(zookeeper, story)
