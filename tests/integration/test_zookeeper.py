"""The metadata store adapter against a real ZooKeeper: answers, lost answers, sessions, watches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState

import port_support
import wait_support
import zookeeper_support
from bookie.base import errors
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.client import cluster
from bookie.client.ledgers import LedgerStore
from bookie.metadata import ledger, paths
from bookie.metadata.paths import LayoutKind
from bookie.ports.metadata_store import CheckOp, CreateOp, DeleteOp, MetadataStore, PutOp, Session
from bookie.runtime.zookeeper import ZooKeeperStore, ZooKeeperStores
from zookeeper_support import ZooKeeper

SESSION_MS = 4000
Body = Callable[[ZooKeeperStore], Coroutine[Any, Any, None]]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with zookeeper_support.running(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


def run_with(server: ZooKeeper, body: Body) -> None:
    async def main() -> None:
        store = await ZooKeeperStores().connect(server.uri, session_timeout_ms=SESSION_MS)
        try:
            async with asyncio.timeout(wait_support.patient(30)):
                await body(store)
        finally:
            await store.close()

    asyncio.run(main())


class CountingEntropy:
    """Tokens that differ from call to call."""

    def __init__(self, calls: int = 0) -> None:
        self.calls = calls

    def randrange(self, stop: int) -> int:
        return 0

    def shuffle(self, items: Any) -> None:
        pass

    def token(self, size: int) -> bytes:
        self.calls += 1
        return self.calls.to_bytes(size, "big")


def test_nodes_are_made_read_changed_listed_and_deleted(shared: ZooKeeper) -> None:
    async def body(store: ZooKeeperStore) -> None:
        assert await store.create("/tree/a", b"1", parents=True) == "/tree/a"
        await store.create("/tree/b", b"")
        stored = await store.get("/tree/a")
        assert (stored.data, stored.version, stored.owner) == (b"1", 0, 0)
        assert stored.created_ms > 1_600_000_000_000
        assert await store.put("/tree/a", b"2", 0) == 1
        assert await store.children("/tree") == ["a", "b"]
        await store.sync("/tree")
        await store.delete("/tree/a", 1)
        with pytest.raises(errors.NodeMissing):
            await store.get("/tree/a")

    run_with(shared, body)


def test_each_refusal_has_its_own_error(shared: ZooKeeper) -> None:
    async def body(store: ZooKeeperStore) -> None:
        await store.create("/refusals/x", b"1", parents=True)
        for refused, kind in (
            (store.create("/refusals/x", b""), errors.NodeExists),
            (store.create("/refusals/no/parent", b""), errors.NodeMissing),
            (store.put("/refusals/x", b"", 7), errors.VersionConflict),
            (store.put("/refusals/y", b"", 0), errors.NodeMissing),
            (store.delete("/refusals/x", 7), errors.VersionConflict),
            (store.children("/refusals/y"), errors.NodeMissing),
            (store.delete("/refusals"), errors.MetadataError),
        ):
            with pytest.raises(kind, match="/refusals"):
                await refused

    run_with(shared, body)


def test_a_transaction_happens_whole_or_not_at_all_and_names_the_culprit(shared: ZooKeeper) -> None:
    async def body(store: ZooKeeperStore) -> None:
        await store.create("/together", b"")
        await store.transact([CreateOp("/together/a", b"1"), CreateOp("/together/b", b"2"), CheckOp("/together/a", 0)])
        with pytest.raises(errors.VersionConflict):
            await store.transact([PutOp("/together/a", b"x", 0), PutOp("/together/b", b"x", 5)])
        with pytest.raises(errors.NodeExists):
            await store.transact([DeleteOp("/together/a", 0), CreateOp("/together/b", b"")])
        assert (await store.get("/together/a")).data == b"1"
        await store.transact([PutOp("/together/a", b"3", 0), DeleteOp("/together/b", 0)])
        assert await store.children("/together") == ["a"]

    run_with(shared, body)


def test_an_ephemeral_node_is_ours_and_goes_with_the_session(shared: ZooKeeper) -> None:
    async def body(store: ZooKeeperStore) -> None:
        other = await ZooKeeperStores().connect(shared.uri, session_timeout_ms=SESSION_MS)
        await other.create("/mine", b"", ephemeral=True)
        assert (await store.get("/mine")).owner == other.session_id != store.session_id
        await other.close()
        with pytest.raises(errors.NodeMissing):
            await store.get("/mine")

    run_with(shared, body)


async def eventually(is_true: Callable[[], bool] | Callable[[], Awaitable[bool]], what: str) -> None:
    async with asyncio.timeout(60):
        while True:
            result = is_true()
            if await result if isinstance(result, Awaitable) else result:
                return
            await asyncio.sleep(0.02)
    raise AssertionError(what)


def test_a_watch_reports_birth_data_children_and_death_until_it_is_cancelled(shared: ZooKeeper) -> None:
    async def body(store: ZooKeeperStore) -> None:
        calls: list[int] = []
        cancel = store.watch("/watched", lambda: calls.append(1))

        for change in (
            lambda: store.create("/watched", b""),
            lambda: store.put("/watched", b"1", 0),
            lambda: store.create("/watched/child", b""),
            lambda: store.delete("/watched/child"),
            lambda: store.delete("/watched"),
            lambda: store.create("/watched", b"again"),
        ):
            seen = len(calls)
            await change()
            await eventually(lambda seen=seen: len(calls) > seen, "a change was not reported")
        cancel()
        seen = len(calls)
        await store.put("/watched", b"2", 0)
        await store.sync("/watched")
        assert len(calls) == seen

    run_with(shared, body)


def test_an_expired_session_is_told_and_its_watches_fire_in_the_next(shared: ZooKeeper) -> None:
    async def body(store: ZooKeeperStore) -> None:
        states: list[Session] = []
        changes: list[int] = []
        store.on_session(states.append)
        store.watch("/expiry", lambda: changes.append(1))
        await store.create("/expiry", b"", ephemeral=True)
        await eventually(lambda: bool(changes), "the watch did not fire")
        first, seen = store.session_id, len(changes)

        await asyncio.to_thread(expire, shared, store)

        await eventually(lambda: states[-1:] == [Session.CONNECTED] and store.session_id != first, "no new session")
        assert Session.LOST in states
        await eventually(lambda: len(changes) > seen, "the watch did not fire after the loss")
        with pytest.raises(errors.NodeMissing):
            await store.get("/expiry")

    run_with(shared, body)


def test_the_next_session_begins_only_at_a_server_that_knows_what_this_one_saw(shared: ZooKeeper) -> None:
    # Else a read in it may be older than a sync in the one before: phase one would miss that a recovery has begun.
    async def body(store: ZooKeeperStore) -> None:
        offered: list[int] = []

        def on_state(state: str) -> None:
            if state == KazooState.LOST:
                offered.append(-1)

        store.kazoo.add_listener(on_state)
        connect = store.kazoo._connection._connect  # what it sends is `last_zxid` at this moment

        def recorded(*args: Any) -> Any:
            offered.append(store.kazoo.last_zxid)
            return connect(*args)

        store.kazoo._connection._connect = recorded
        await store.create("/seen", b"")
        await store.sync("/seen")
        seen_zxid = store.kazoo.last_zxid
        assert seen_zxid > 0

        await asyncio.to_thread(expire, shared, store)

        def is_next() -> bool:
            return -1 in offered and len(offered) > offered.index(-1) + 1

        await eventually(is_next, "no new session")
        assert offered[offered.index(-1) + 1] >= seen_zxid

    run_with(shared, body)


def expire(server: ZooKeeper, store: ZooKeeperStore) -> None:
    """Close the session from a second connection to it."""
    second = KazooClient(hosts=server.address, client_id=store.kazoo.client_id, timeout=SESSION_MS / 1000)
    second.start()
    second.stop()
    second.close()


@pytest.mark.slow
def test_silence_makes_a_write_unknown_and_a_read_an_error_and_later_calls_work(tmp_path: Path) -> None:
    async def body(store: ZooKeeperStore) -> None:
        await store.create("/silent", b"")
        with server.frozen():
            write, read = await asyncio.gather(
                store.put("/silent", b"1", 0), store.get("/silent"), return_exceptions=True
            )
        assert isinstance(write, errors.OutcomeUnknown)
        assert isinstance(read, errors.MetadataError)
        assert not isinstance(read, errors.OutcomeUnknown)

        async def answers() -> bool:
            try:
                return (await store.get("/silent")).version in (0, 1)
            except errors.MetadataError:
                return False

        await eventually(answers, "the store did not come back")

    with zookeeper_support.running(tmp_path) as server:
        run_with(server, body)


@pytest.mark.slow
def test_a_restarted_server_is_found_again_and_what_was_stored_is_there(tmp_path: Path) -> None:
    async def body(store: ZooKeeperStore) -> None:
        states: list[Session] = []
        store.on_session(states.append)
        await store.create("/kept", b"1")
        server.stop()
        await eventually(lambda: Session.SUSPENDED in states, "the loss of the connection was not told")
        await asyncio.to_thread(server.start)
        await eventually(lambda: states[-1] is Session.CONNECTED, "the server was not found again")
        assert (await store.get("/kept")).data == b"1"

    with zookeeper_support.running(tmp_path) as server:
        run_with(server, body)


def test_an_unreachable_store_is_named_with_its_address() -> None:
    async def main() -> None:
        address = f"127.0.0.1:{port_support.free_port()}"
        with pytest.raises(errors.MetadataError, match=address):
            await ZooKeeperStores().connect(f"zk://{address}/ledgers", session_timeout_ms=300)
        with pytest.raises(errors.BadInput, match="zk\\+hierarchical"):
            await ZooKeeperStores().connect("nonsense")

    asyncio.run(main())


# ---- clusters and ledgers on it --------------------------------------------------------------------------------------


async def new_cluster(store: MetadataStore, root: str) -> LedgerStore:
    uri = f"zk+hierarchical://unused{root}"
    made = await cluster.format_cluster(store, uri, CountingEntropy())
    assert await cluster.instance_id(store, root) == made
    return await cluster.open_ledgers(store, paths.parse_uri(uri))


def a_ledger(ctoken: int = 7) -> ledger.LedgerMetadata:
    bookies = (BookieId("b1"), BookieId("b2"), BookieId("b3"))
    return ledger.new_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2, bookies=bookies, ctoken=ctoken)


def test_a_cluster_is_made_once_and_never_over_an_old_one(shared: ZooKeeper) -> None:
    async def body(store: ZooKeeperStore) -> None:
        ledgers = await new_cluster(store, "/deep/once")
        assert ledgers.kind is LayoutKind.HIERARCHICAL
        assert await store.children("/deep/once") == ["INSTANCEID", "LAYOUT", "available"]
        with pytest.raises(errors.BadInput, match="nothing was changed"):
            await cluster.format_cluster(store, "zk://unused/deep/once", CountingEntropy(100))
        with pytest.raises(errors.RefusedToStart, match="LongHierarchical"):
            await cluster.open_ledgers(store, paths.parse_uri("zk+longhierarchical://unused/deep/once"))
        with pytest.raises(errors.RefusedToStart, match="bookie cluster init"):
            await cluster.instance_id(store, "/nowhere")
        again = await cluster.ensure_cluster(store, "zk://unused/deep/once", CountingEntropy())
        assert again == await cluster.instance_id(store, "/deep/once")

    run_with(shared, body)


def test_ledgers_get_consecutive_ids_and_are_listed_in_order(shared: ZooKeeper) -> None:
    async def body(store: ZooKeeperStore) -> None:
        ledgers = await new_cluster(store, "/listed")
        made = [await ledgers.create(a_ledger()) for _ in range(3)]
        assert made == [0, 1, 2]
        for far in (10_000, 2**31 + 5):
            await ledgers.create_at(LedgerId(far), (await store.get(ledgers.path(LedgerId(0)))).data, 7)

        assert [ledger_id async for ledger_id in ledgers.iterate()] == [0, 1, 2, 10_000, 2**31 + 5]

        await ledgers.delete(LedgerId(10_000))
        await ledgers.delete(LedgerId(10_000))
        assert await store.children("/listed/00") == ["0000"]

    run_with(shared, body)


def test_metadata_changes_by_compare_and_set(shared: ZooKeeper) -> None:
    async def body(store: ZooKeeperStore) -> None:
        ledgers = await new_cluster(store, "/cas")
        ledger_id = await ledgers.create(a_ledger())
        metadata, version = await ledgers.get(ledger_id)
        assert metadata.ctime_ms > 0

        closed = metadata.closed(EntryId(4), 40)
        assert await ledgers.put(ledger_id, closed, version) == version + 1
        with pytest.raises(errors.VersionConflict):
            await ledgers.put(ledger_id, metadata.in_recovery(), version)
        assert (await ledgers.get(ledger_id))[0].last_entry == 4
        with pytest.raises(errors.LedgerExists):
            await ledgers.create_at(ledger_id, b"x", 8)
        with pytest.raises(errors.LedgerMissing):
            await ledgers.get(LedgerId(77))
        with pytest.raises(errors.LedgerMissing):
            await ledgers.put(LedgerId(77), metadata, 0)

    run_with(shared, body)


def test_long_ids_follow_once_java_has_switched_to_them(shared: ZooKeeper) -> None:
    async def body(store: ZooKeeperStore) -> None:
        ledgers = await new_cluster(store, "/long")
        await store.create("/long/idgen-long", b"")
        assert await ledgers.next_id() == 1 << 32
        assert await ledgers.next_id() == (1 << 32) + 1
        for old in range(2, 6):
            await store.create(f"/long/idgen-long/HOB-{old:010d}", b"")
        assert await ledgers.next_id() == 5 << 32

    run_with(shared, body)


def test_a_session_knows_that_it_was_granted_less_than_it_asked_for(shared: ZooKeeper) -> None:
    """The lease of a bookie counts in what the servers granted: twenty ticks at most."""

    async def main() -> int:
        store = await ZooKeeperStores().connect(shared.uri, session_timeout_ms=3_600_000)
        try:
            return store.session_timeout_ms
        finally:
            await store.close()

    assert asyncio.run(main()) < 600_000
