"""A bookie leaves alive (spec/metadata.md#M41, M42): under writers, with accidents, and then for good.

Random ones: `test_swarm`, with `retiring`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.client import LedgerWriter
from bookie.client.repair import naming, recovery
from bookie.client.shared import digest_of
from bookie.metadata import paths, repair
from bookie.metadata.ledger import LedgerMetadata, LedgerState
from bookie.ports.admin import DrainAction, DrainStatus, OpenLedgers, State
from bookie.ports.metadata_store import MetadataStore
from bookie.sim import retirement, workload
from bookie.sim.cluster import ROOT, URI, BookieNode, ClientNode, SimCluster
from bookie.sim.metadata_store import KEEPER_HOST
from bookie.sim.replicas import Replicas
from bookie.wire import messages, v3
from bookie.wire.digest import DigestType
from sim_support import on_cluster
from story_support import story

ENTRIES = 30


class Stage:
    """Four bookies; the first of the first ledger's ensemble is to leave."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.replicas = Replicas(
            cluster.simulation.violation, lambda name: retirement.entry_store(cluster.bookies[name])
        )
        cluster.ledger_observers.append(self.replicas.metadata_changed)
        self.ledgers: list[LedgerId] = []
        self.writer_node: ClientNode
        self.leaver: BookieNode
        self.store: MetadataStore
        self._outside = cluster.simulation.node("outside", ())

    async def set(self) -> LedgerWriter:
        """Make the first ledger, still open, with its writer."""
        self.writer_node = await self.cluster.client("writer")
        world = self._outside.begin()
        self.store = await self._outside.do(world.metadata_stores.connect(URI))
        writer = await self.written(closed=False)
        self.leaver = self.cluster.bookies[writer.metadata.last_segment.bookies[0]]
        return writer

    async def written(self, *, closed: bool = True, entries: int = ENTRIES) -> LedgerWriter:
        writer = await self.writer_node(self.writer_node.client.create(digest_type=DigestType.CRC32C))
        self.ledgers.append(writer.id)
        await self.append(writer, entries)
        if closed:
            await self.writer_node(writer.close())
        return writer

    async def append(self, writer: LedgerWriter, entries: int = ENTRIES) -> None:
        for number in range(entries):
            payload = b"entry %d" % number
            entry_id = await self.writer_node(writer.append(payload))
            self.cluster.oracle.acknowledged(writer.id, entry_id, payload)

    async def drain(
        self, action: DrainAction = DrainAction.LOOK, *, rate: int = 0, open_ledgers: OpenLedgers = OpenLedgers.WAIT
    ) -> DrainStatus:
        assert self.leaver.process is not None
        admin = self.leaver.process.admin
        order = admin.drain(action, bytes_per_second=rate, open_ledgers=open_ledgers)
        return await self.leaver.node.do(order)

    async def drain_of(self, node: BookieNode) -> DrainStatus:
        assert node.process is not None
        return await node.node.do(node.process.admin.drain(DrainAction.LOOK))

    async def drained(self, condition: Callable[[DrainStatus], bool], what: str) -> DrainStatus:
        seen = None
        for _ in range(3000):
            seen = await self.drain()
            if condition(seen):
                return seen
            await asyncio.sleep(0.1)
        raise AssertionError(f"not in five minutes: {what}; seen last: {seen}")

    async def empty(self) -> DrainStatus:
        return await self.drained(lambda status: status.is_empty, "the bookie is empty")

    def naming(self) -> list[LedgerId]:
        named = []
        for ledger_id in self.ledgers:
            metadata = self.cluster.metadata_of(ledger_id)
            if metadata is not None and metadata.names(BookieId(self.leaver.name)):
                named.append(ledger_id)
        return named

    def state_of(self, ledger_id: LedgerId) -> LedgerState:
        metadata = self.cluster.metadata_of(ledger_id)
        assert metadata is not None
        return metadata.state

    def peer(self) -> BookieNode:
        return next(node for name, node in self.cluster.bookies.items() if name != self.leaver.name)

    async def forget(self, version: int = 0) -> str:
        peer = self.peer()
        assert peer.process is not None
        order = peer.process.admin.forget_bookie(BookieId(self.leaver.name), cookie_version=version)
        return await peer.node.do(order)

    async def refused(self, version: int = 0) -> str:
        with pytest.raises(errors.GrantRefused) as refusal:
            await self.forget(version)
        return refusal.value.reason

    async def forgotten(self) -> str:
        """Ask until it is done: "too_soon" at first."""
        for _ in range(100):
            try:
                return await self.forget()
            except errors.GrantRefused as refusal:
                if refusal.reason not in ("too_soon", "locked", "registered"):
                    raise
                await asyncio.sleep(1)
        raise AssertionError("not forgotten in 100 s")

    async def has_cookie(self) -> bool:
        path = paths.cookie(ROOT, BookieId(self.leaver.name))
        try:
            await self._outside.do(self.store.get(path))
        except errors.NodeMissing:
            return False
        return True

    async def make(self, path: str, data: bytes = b"", *, ephemeral: bool = False) -> None:
        await self._outside.do(self.store.create(path, data, ephemeral=ephemeral, parents=True))

    async def remove(self, path: str) -> None:
        await self._outside.do(self.store.delete(path))

    async def stopped(self) -> None:
        self.leaver.stop()
        await self.cluster.until(lambda: not self.leaver.is_running, "the bookie ended")

    async def end(self) -> None:
        """Nothing acknowledged is lost although the leaver's disks are."""
        self.replicas.check_all()
        if self.leaver.is_running:
            self.leaver.crash()
        self.leaver.wipe()
        await workload.verify(self.cluster, self.ledgers)


@pytest.mark.parametrize("seed", range(3))
@story(on_cluster, bookies=4, given=("seed",))
async def test_a_bookie_empties_itself_under_a_writer_and_is_forgotten(cluster: SimCluster) -> None:
    stage = Stage(cluster)
    writer = await stage.set()
    for _ in range(5):
        await stage.written()

    status = await stage.drain(DrainAction.START)
    assert (status.is_draining, status.is_empty) == (True, False)
    assert stage.leaver.state is State.READ_ONLY
    await stage.append(writer)  # it replaces the bookie
    await stage.written()
    await stage.writer_node(writer.close())
    status = await stage.empty()

    assert stage.naming() == []
    assert (status.ledgers_left, status.blocked_count, status.error) == (0, 0, "")
    assert status.entries_copied > 0
    assert status.bytes_copied > 0
    await stage.stopped()
    assert "before and after" in await stage.forgotten()
    assert not await stage.has_cookie()
    assert "forgotten before" in await stage.forget()  # the answer may be lost: asked again
    await stage.end()


@story(on_cluster, bookies=4, seed=7)
async def test_an_open_ledger_of_a_dead_writer_waits_and_is_told_of(cluster: SimCluster) -> None:
    stage = Stage(cluster)
    writer = await stage.set()
    stage.writer_node.crash()

    await stage.drain(DrainAction.START)
    await stage.drained(lambda it: it.open_ledgers == 1, "one ledger is open")
    await asyncio.sleep(200)
    status = await stage.drain()

    assert (status.is_empty, status.open_ledgers) == (False, 1)
    assert [each.ledger_id for each in status.blocked] == [writer.id]
    assert status.blocked[0].reason.startswith("OPEN; 1 of its 1 ensembles name it, the last one among them")
    assert stage.state_of(writer.id) is LedgerState.OPEN  # nobody fenced it
    reader = await cluster.client("reader")
    await reader(reader.client.open(writer.id))
    await stage.empty()
    await stage.end()


@story(on_cluster, bookies=4, seed=7)
async def test_a_ledger_is_recovered_only_where_that_is_asked_for(cluster: SimCluster) -> None:
    stage = Stage(cluster)
    writer = await stage.set()
    stage.writer_node.crash()
    await stage.drain(DrainAction.START)
    waits = await stage.drained(lambda it: it.open_ledgers == 1, "one ledger is open")
    assert (waits.recovers_open_ledgers, waits.asked_bytes_per_second) == (False, 0)

    await stage.drain(DrainAction.START, open_ledgers=OpenLedgers.RECOVER, rate=1_000_000)
    recovers = await stage.drained(lambda it: it.is_empty, "empty")
    assert (recovers.recovers_open_ledgers, recovers.asked_bytes_per_second) == (True, 1_000_000)
    await stage.empty()

    assert stage.state_of(writer.id) is LedgerState.CLOSED
    await stage.end()


@story(on_cluster, bookies=3, seed=7)
async def test_without_another_bookie_nothing_is_moved_and_the_reason_is_told(cluster: SimCluster) -> None:
    stage = Stage(cluster)
    writer = await stage.set()
    await stage.writer_node(writer.close())

    await stage.drain(DrainAction.START)
    status = await stage.drained(lambda it: it.blocked_count == 1, "the ledger is blocked")

    assert "only 0 other writable ones are left: start more" in status.blocked[0].reason
    assert stage.naming() == [writer.id]


@pytest.mark.parametrize("seed", range(3))
@story(on_cluster, bookies=4, given=("seed",))
async def test_cancelled_in_the_middle_it_takes_adds_again_and_nothing_is_lost(cluster: SimCluster) -> None:
    stage = Stage(cluster)
    writer = await stage.set()
    await stage.writer_node(writer.close())
    for _ in range(5):
        await stage.written()
    await stage.drain(DrainAction.START, rate=1_024)
    await stage.drained(lambda it: it.entries_copied > 3, "some entries are copied")

    status = await stage.drain(DrainAction.CANCEL)

    assert status == DrainStatus()
    assert stage.leaver.state is State.SERVING
    await cluster.until(lambda: registered(stage) == (True, False), "it is registered as writable")
    await stage.written()
    stage.replicas.check_all()
    await stage.drain(DrainAction.START)  # and once more, to the end
    await stage.empty()
    await stage.end()


def registered(stage: Stage) -> tuple[bool, bool]:
    """As writable, and as read-only."""
    nodes = stage.cluster.simulation.keeper.tree.nodes
    name = stage.leaver.name
    return f"{paths.available(ROOT)}/{name}" in nodes, f"{paths.readonly(ROOT)}/{name}" in nodes


@pytest.mark.parametrize("other_first", [True, False])
@story(on_cluster, bookies=4, seed=7)
async def test_a_cancelled_drain_leaves_the_mode_that_somebody_set(cluster: SimCluster, *, other_first: bool) -> None:
    stage = Stage(cluster)
    await stage.set()
    assert stage.leaver.process is not None
    admin = stage.leaver.process.admin
    for is_other in (other_first, not other_first):
        if is_other:
            await stage.leaver.node.do(admin.set_read_only(True))
        else:
            await stage.drain(DrainAction.START)

    await stage.drain(DrainAction.CANCEL)
    assert stage.leaver.state is State.READ_ONLY

    await stage.leaver.node.do(admin.set_read_only(False))
    assert stage.leaver.state is State.SERVING


@story(on_cluster, bookies=4, seed=7)
async def test_made_writable_by_hand_it_stays_read_only_while_it_drains(cluster: SimCluster) -> None:
    stage = Stage(cluster)
    await stage.set()
    await stage.drain(DrainAction.START)
    assert stage.leaver.process is not None

    state = await stage.leaver.node.do(stage.leaver.process.admin.set_read_only(False))

    assert state is State.READ_ONLY


@pytest.mark.parametrize("seed", range(3))
@story(on_cluster, bookies=4, given=("seed",))
async def test_killed_in_the_middle_it_forgets_the_drain_and_the_next_one_finds_all(cluster: SimCluster) -> None:
    stage = Stage(cluster)
    writer = await stage.set()
    await stage.writer_node(writer.close())
    for _ in range(4):
        await stage.written()
    await stage.drain(DrainAction.START, rate=1_024)
    await stage.drained(lambda it: it.entries_copied > 3, "some entries are copied")

    stage.leaver.crash()
    stage.leaver.start()
    await cluster.until_repaired()
    assert not (await stage.drain()).is_draining
    chosen = [await stage.written() for _ in range(4)]  # it is writable: some of these choose it
    assert any(each.metadata.names(BookieId(stage.leaver.name)) for each in chosen)
    await stage.drain(DrainAction.START)
    await stage.empty()

    assert stage.naming() == []
    await stage.end()


@story(on_cluster, bookies=4, seed=7)
async def test_a_ledger_named_late_ends_the_emptiness_and_is_moved_too(cluster: SimCluster) -> None:
    """A client with an old list of bookies makes a ledger that names the bookie, after it called itself empty."""
    stage = Stage(cluster)
    writer = await stage.set()
    await stage.writer_node(writer.close())
    await stage.drain(DrainAction.START)
    await stage.empty()
    cluster.partition("writer", stage.leaver.name)
    late = await stage.writer_node(stage.writer_node.client.create(ensemble_size=1, write_quorum=1, ack_quorum=1))
    stage.ledgers.append(late.id)
    metadata = cluster.metadata_of(late.id)
    assert metadata is not None
    (other,) = metadata.last_segment.bookies
    ledgers = stage.writer_node.client.shared.ledgers
    await stage.writer_node(
        ledgers.put(
            late.id, metadata.replaced(metadata.last_segment.first_entry, other, BookieId(stage.leaver.name)), 0
        )
    )
    cluster.heal()

    status = await stage.drained(lambda it: not it.is_empty, "the late ledger is seen")
    assert status.open_ledgers <= 1
    await stage.drain(DrainAction.START, open_ledgers=OpenLedgers.RECOVER)
    await stage.empty()
    assert stage.naming() == []


@story(on_cluster, bookies=4, seed=7)
async def test_a_record_that_nobody_can_read_keeps_it_from_being_empty_and_forgotten(cluster: SimCluster) -> None:
    stage = Stage(cluster)
    writer = await stage.set()
    await stage.writer_node(writer.close())
    broken = paths.ledger_path(ROOT, LedgerId(4_711))
    await stage.make(broken, b"BookieMetadataFormatVersion\t3\nnot a record")

    await stage.drain(DrainAction.START)
    status = await stage.drained(lambda it: it.ledgers_left == 1 and it.blocked_count == 1, "one record is left")

    assert (status.is_empty, status.blocked[0].ledger_id) == (False, 4_711)
    assert "cannot be read" in status.blocked[0].reason
    await stage.stopped()
    assert await stage.refused() == "too_soon"
    await asyncio.sleep(60)
    assert await stage.refused() == "named"
    assert await stage.has_cookie()
    await stage.remove(broken)
    await stage.forgotten()


@story(on_cluster, bookies=4, seed=7)
async def test_a_repair_that_began_before_may_still_name_it_so_its_end_is_awaited(cluster: SimCluster) -> None:
    stage = Stage(cluster)
    writer = await stage.set()
    await stage.writer_node(writer.close())
    lock = paths.replication_lock(ROOT, LedgerId(4_711))
    await stage.make(lock, repair.dump_lock("a worker of Java's"), ephemeral=True)

    await stage.drain(DrainAction.START)
    status = await stage.drained(lambda it: "repairs began when" in it.error, "the repair is awaited")
    assert (status.ledgers_left, status.is_empty) == (0, False)
    await stage.remove(lock)
    await stage.empty()

    await stage.make(lock, repair.dump_lock("another"), ephemeral=True)
    await stage.stopped()
    await stage.refused()
    await asyncio.sleep(60)
    assert await stage.refused() == "locked"
    await stage.remove(lock)
    await stage.forgotten()


@story(on_cluster, bookies=4, seed=7)
async def test_a_bookie_is_not_forgotten_while_it_lives_or_is_named_or_its_cookie_is_another(
    cluster: SimCluster,
) -> None:
    stage = Stage(cluster)
    writer = await stage.set()
    await stage.writer_node(writer.close())
    peer = stage.peer()
    assert peer.process is not None
    with pytest.raises(errors.GrantRefused) as itself:
        await peer.node.do(peer.process.admin.forget_bookie(BookieId(peer.name), cookie_version=0))
    assert itself.value.reason == "itself"

    assert await stage.refused() == "registered"
    await stage.drain(DrainAction.START)
    assert await stage.refused() == "registered"  # as read-only
    stage.leaver.crash()
    assert await stage.refused() == "registered"  # its session has not ended: it may live
    await cluster.until(lambda: registered(stage) == (False, False), "its session ends")
    await asyncio.sleep(20)
    assert await stage.refused(version=7) == "cookie_changed"
    assert await stage.refused() == "too_soon"
    await asyncio.sleep(60)
    assert await stage.refused() == "named"
    assert await stage.has_cookie()

    stage.leaver.start()  # it comes back, and is gone again: that is another absence
    await cluster.until_repaired()
    await stage.drain(DrainAction.START)
    await stage.empty()
    await stage.stopped()
    assert await stage.refused() == "too_soon"
    await stage.forgotten()
    await stage.end()


@story(on_cluster, bookies=4, seed=7)
async def test_an_operator_of_an_earlier_term_is_refused(cluster: SimCluster) -> None:
    stage = Stage(cluster)
    await stage.set()
    assert stage.leaver.process is not None
    admin, do = stage.leaver.process.admin, stage.leaver.node.do
    await do(admin.drain(DrainAction.START, operator_epoch=5))

    for order in (
        admin.drain(DrainAction.CANCEL, operator_epoch=4),
        admin.drain(DrainAction.START, operator_epoch=4, bytes_per_second=5_000),
        admin.forget_bookie(BookieId("other"), cookie_version=0, operator_epoch=4),
    ):
        with pytest.raises(errors.GrantRefused) as refusal:
            await do(order)
        assert refusal.value.reason == "old_epoch"
    assert (await stage.drain()).is_draining
    assert (await stage.drain()).operator_epoch == 5
    again = await do(admin.drain(DrainAction.START, operator_epoch=6, bytes_per_second=5_000))
    assert again.operator_epoch == 5, "who began it, whoever goes on with it"

    with pytest.raises(errors.BadInput):
        await do(admin.drain(DrainAction.START, operator_epoch=6, bytes_per_second=3))
    assert not (await do(admin.drain(DrainAction.CANCEL, operator_epoch=6))).is_draining
    by_hand = await do(admin.drain(DrainAction.START))
    assert by_hand.operator_epoch == 0
    assert (await do(admin.drain(DrainAction.START, operator_epoch=6))).operator_epoch == 0


@story(on_cluster, bookies=4, seed=7)
async def test_references_are_counted_with_how_the_ledger_names_the_bookie(cluster: SimCluster) -> None:
    stage = Stage(cluster)
    writer = await stage.set()
    await stage.make(paths.ledger_path(ROOT, LedgerId(4_711)), b"no record")
    peer = stage.peer()
    assert peer.process is not None

    found = await peer.node.do(peer.process.admin.find_references(BookieId(stage.leaver.name)))

    assert (found.bookie_id, found.count, found.unreadable) == (stage.leaver.name, 2, 1)
    assert [each.ledger_id for each in found.first] == [writer.id, 4_711]
    assert found.first[0].reason == "OPEN; 1 of its 1 ensembles name it, the last one among them"


@pytest.mark.parametrize("seed", range(3))
@story(on_cluster, bookies=4, given=("seed",))
async def test_a_dead_bookie_is_emptied_by_another_and_forgotten(cluster: SimCluster) -> None:
    stage = Stage(cluster)
    writer = await stage.set()
    await stage.writer_node(writer.close())
    for _ in range(4):
        await stage.written()
    dead = BookieId(stage.leaver.name)
    peer = stage.peer()

    async def ask(action: DrainAction) -> DrainStatus:
        assert peer.process is not None
        return await peer.node.do(peer.process.admin.drain(action, bookie_id=dead))

    assert (await ask(DrainAction.START)).is_draining
    await asyncio.sleep(5)
    status = await ask(DrainAction.LOOK)
    assert "is alive" in status.error  # nothing is moved while it lives
    assert not status.is_unknown
    assert (status.entries_copied, status.is_empty, peer.state) == (0, False, State.SERVING)
    assert writer.id in stage.naming()

    stage.leaver.crash()
    stage.leaver.wipe()
    for _ in range(200):
        status = await ask(DrainAction.LOOK)
        if status.is_empty:
            break
        await asyncio.sleep(1)

    assert status.is_empty, status
    assert stage.naming() == []
    assert status.entries_copied > 0
    assert (await stage.drain_of(peer)).is_draining is False  # itself it does not drain
    assert not (await ask(DrainAction.CANCEL)).is_draining
    await stage.forgotten()
    await workload.verify(cluster, stage.ledgers)


@story(on_cluster, bookies=4, seed=7)
async def test_a_dead_bookie_that_comes_back_is_not_called_empty_any_more(cluster: SimCluster) -> None:
    """Writers may choose it from its first moment on: what nobody looked for since does not prove anything."""
    stage = Stage(cluster)
    writer = await stage.set()
    await stage.writer_node(writer.close())
    peer = stage.peer()
    stage.leaver.crash()

    async def status(action: DrainAction = DrainAction.LOOK) -> DrainStatus:
        assert peer.process is not None
        return await peer.node.do(peer.process.admin.drain(action, bookie_id=BookieId(stage.leaver.name)))

    async def until(is_so: Callable[[DrainStatus], bool]) -> DrainStatus:
        for _ in range(200):
            if is_so(found := await status()):
                return found
            await asyncio.sleep(1)
        raise AssertionError(f"not in 200 s: {found}")

    await status(DrainAction.START)
    await until(lambda found: found.is_empty)
    stage.leaver.start()
    await cluster.until_ready(stage.leaver.name)

    found = await until(lambda found: not found.is_empty)

    assert "is alive" in found.error


@story(on_cluster, bookies=4, seed=7)
async def test_a_bookie_empties_one_dead_bookie_at_a_time(cluster: SimCluster) -> None:
    stage = Stage(cluster)
    await stage.set()
    peer = stage.peer()
    assert peer.process is not None
    admin = peer.process.admin
    await peer.node.do(admin.drain(DrainAction.START, bookie_id=BookieId("gone:1")))

    with pytest.raises(errors.TooManyRequests, match="empties bookie gone:1 now"):
        await peer.node.do(admin.drain(DrainAction.START, bookie_id=BookieId("gone:2")))
    assert (await peer.node.do(admin.drain(DrainAction.CANCEL, bookie_id=BookieId("gone:2")))) == DrainStatus()
    assert (await peer.node.do(admin.drain(DrainAction.LOOK, bookie_id=BookieId("gone:1")))).is_draining


@story(on_cluster, bookies=4, seed=7)
async def test_a_dead_bookie_that_nobody_knows_is_not_empty(cluster: SimCluster) -> None:
    """A mistyped id: whoever trusts "empty" throws the disks of another bookie away."""
    stage = Stage(cluster)
    await stage.set()
    peer = stage.peer()
    assert peer.process is not None
    admin = peer.process.admin
    await peer.node.do(admin.drain(DrainAction.START, bookie_id=BookieId("mistyped:1")))

    for _ in range(30):
        status = await peer.node.do(admin.drain(DrainAction.LOOK, bookie_id=BookieId("mistyped:1")))
        if status.is_empty or status.error:
            break
        await asyncio.sleep(1)

    assert not status.is_empty
    assert "this cluster knows no bookie mistyped:1" in status.error
    assert status.is_unknown


@story(on_cluster, bookies=4, seed=7)
async def test_a_bookie_that_is_stopped_while_it_drains_does_not_wait_for_a_silent_metadata_store(
    cluster: SimCluster,
) -> None:
    """Its last flush comes after the drain has ended, and whoever stops it does not wait for long."""
    stage = Stage(cluster)
    writer = await stage.set()
    await stage.writer_node(writer.close())
    for _ in range(4):
        await stage.written()
    await stage.drain(DrainAction.START, rate=1_024)
    await stage.drained(lambda it: it.entries_copied > 3, "some entries are copied")
    cluster.partition(stage.leaver.name, KEEPER_HOST)
    began = cluster.simulation.loop.time()

    await stage.stopped()

    assert cluster.simulation.loop.time() - began < 10
    cluster.heal()
    stage.leaver.start()
    await cluster.until_repaired()
    stage.replicas.check_all()


@story(on_cluster, bookies=4, seed=7)
async def test_it_is_not_empty_while_clients_may_still_choose_it(cluster: SimCluster) -> None:
    """Its record as read-only cannot be made, since a node of somebody else is in the way; so it is still writable for
    everybody who looks."""
    stage = Stage(cluster)
    writer = await stage.set()
    await stage.writer_node(writer.close())
    in_the_way = f"{paths.readonly(ROOT)}/{stage.leaver.name}"
    await stage.make(in_the_way)

    await stage.drain(DrainAction.START)
    await asyncio.sleep(5)
    status = await stage.drain()

    assert (status.is_empty, status.error) == (False, "not registered as read-only yet")
    await stage.remove(in_the_way)
    await stage.empty()
    await stage.end()


# ---- recoveries, which name a bookie only when they close the ledger -------------------------------------------------


class StalledRecovery:
    """A client that recovers the first ledger brings in a bookie, which takes entries and is the one to leave, and
    stalls before it closes the ledger. `go`: lets it close."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.go = asyncio.Event()
        self.reader: ClientNode
        self._chosen: list[LedgerMetadata] = []
        self._task: asyncio.Task[object]

    @contextlib.asynccontextmanager
    async def under_way(self, writer: LedgerWriter) -> AsyncIterator[LedgerId]:
        """`writer`: of the ledger, with entries in flight or not. Its process and its first bookie die."""
        stage, cluster = self.stage, self.stage.cluster
        before = writer.metadata.last_segment.bookies
        gone = cluster.bookies[before[0]]
        gone.stop()
        stage.writer_node.crash()
        await cluster.until(lambda: not gone.is_running, "one of its bookies ended")
        self.reader = await cluster.client("reader")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(recovery, "_end", self._slow(recovery._end))
            self._task = asyncio.create_task(self.reader(self.reader.client.open(writer.id)))
            await cluster.until(lambda: bool(self._chosen), "the recovery is about to close the ledger")
            gone.start()
            await cluster.until_ready(gone.name)
            (new,) = set(self._chosen[0].last_segment.bookies) - set(before)
            stage.leaver = cluster.bookies[new]
            assert writer.id not in stage.naming()
            try:
                yield writer.id
            finally:
                self.go.set()
                self._task.cancel()
                await asyncio.gather(self._task, return_exceptions=True)

    async def ended(self) -> None:
        self.go.set()
        await self._task

    def _slow(self, real: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        async def slow(
            shared: object, ledger_id: object, was: object, version: object, recovered: LedgerMetadata, **rest: object
        ) -> object:
            self._chosen.append(recovered)
            if len(self._chosen) == 1:  # of others that recover the ledger, none stalls
                await self.go.wait()
            return await real(shared, ledger_id, was, version, recovered, **rest)

        return slow


async def with_a_tail(stage: Stage) -> LedgerWriter:
    """Return the writer of the only open ledger: two copies of each entry, and the last ones end in no LAC."""
    whole = await stage.set()
    await stage.writer_node(whole.close())
    create = stage.writer_node.client.create
    writer = await stage.writer_node(
        create(ensemble_size=2, write_quorum=2, ack_quorum=2, digest_type=DigestType.CRC32C)
    )
    stage.ledgers.append(writer.id)
    tail = [asyncio.create_task(stage.writer_node(writer.append(b"tail %d" % n))) for n in range(60)]
    for number, one in enumerate(tail):
        stage.cluster.oracle.acknowledged(writer.id, await one, b"tail %d" % number)
    return writer


@story(on_cluster, bookies=4, seed=7)
async def test_entries_that_a_recovery_wrote_back_to_it_outlive_it_and_one_more_disk(cluster: SimCluster) -> None:
    """Found by an adversary: the bookie was empty, stopped and forgotten, and then the recovery named it."""
    stage = Stage(cluster)
    writer = await with_a_tail(stage)
    other = cluster.bookies[writer.metadata.last_segment.bookies[1]]
    stalled = StalledRecovery(stage)
    async with stalled.under_way(writer) as ledger_id:
        await stage.drain(DrainAction.START)
        status = await stage.drained(lambda it: it.is_empty or it.blocked_count == 1, "it is blocked")
        assert (status.is_empty, [each.ledger_id for each in status.blocked]) == (False, [ledger_id])
        assert status.blocked[0].reason.endswith("it ends when the ledger is closed (open it with recovery)")
        await asyncio.sleep(100)
        assert not (await stage.drain()).is_empty

        await stalled.ended()
        assert ledger_id in stage.naming()
        await stage.empty()
        await stage.stopped()
        assert "before and after" in await stage.forgotten()

    assert stage.naming() == []
    stage.leaver.wipe()
    other.crash()
    other.wipe()
    metadata = cluster.metadata_of(writer.id)
    assert metadata is not None
    assert metadata.is_closed
    lost = [number for number in range(metadata.last_entry + 1) if not copies(stage, metadata, EntryId(number))]
    assert lost == []


def copies(stage: Stage, metadata: LedgerMetadata, entry_id: EntryId) -> list[str]:
    """Return the running bookies that hold an entry and that the metadata names for it."""
    found = []
    for name, node in stage.cluster.bookies.items():
        store = retirement.entry_store(node) if node.is_running else None
        if store is not None and BookieId(name) in metadata.write_set(entry_id):
            found += [name] * store.has_entry(stage.ledgers[-1], entry_id)
    return found


@story(on_cluster, bookies=5, seed=7)
async def test_a_recovery_that_brought_it_in_and_never_ends_is_ended_where_that_is_asked_for(
    cluster: SimCluster,
) -> None:
    stage = Stage(cluster)
    writer = await with_a_tail(stage)
    stalled = StalledRecovery(stage)
    async with stalled.under_way(writer) as ledger_id:
        stalled.reader.crash()
        await stage.drain(DrainAction.START)
        waits = await stage.drained(lambda it: it.is_empty or it.open_ledgers == 1, "it waits")
        assert not waits.is_empty
        assert stage.state_of(ledger_id) is LedgerState.IN_RECOVERY

        await stage.drain(DrainAction.START, open_ledgers=OpenLedgers.RECOVER)
        await stage.empty()

        assert stage.state_of(ledger_id) is LedgerState.CLOSED
        assert stage.naming() == []
    await stage.end()


async def recovery_add(stage: Stage, ledger_id: LedgerId) -> None:
    """Send the leaver an entry as a recovery does that chose it before."""
    metadata = stage.cluster.metadata_of(ledger_id)
    assert metadata is not None
    key = digest_of(metadata)
    body = b"".join(key.seal(ledger_id, EntryId(3), EntryId(-1), 5, b"entry"))
    to = BookieId(stage.leaver.name)
    request = messages.AddRequest(
        0, v3.VERSION, ledger_id, EntryId(3), key.master_key, body, is_recovery=True, is_high_priority=True
    )

    async def ask() -> None:
        await stage.writer_node.client.shared.pool.ask(to, request)

    await stage.writer_node(ask())


@story(on_cluster, bookies=4, seed=7)
async def test_an_empty_bookie_takes_nothing_from_recoveries_until_its_drain_is_cancelled(cluster: SimCluster) -> None:
    stage = Stage(cluster)
    writer = await stage.set()
    await stage.writer_node(writer.close())
    await stage.drain(DrainAction.START)
    await recovery_add(stage, writer.id)  # while it is full
    await stage.empty()

    with pytest.raises(errors.StorageFailed, match="EIO") as refused:
        await recovery_add(stage, writer.id)
    assert refused.value.retryable
    await stage.drain(DrainAction.START, rate=1_000_000)  # another order of the same drain
    with pytest.raises(errors.StorageFailed):
        await recovery_add(stage, writer.id)
    await stage.drain(DrainAction.CANCEL)
    await recovery_add(stage, writer.id)
    assert stage.leaver.state is State.SERVING


@story(on_cluster, bookies=4, seed=7)
async def test_what_a_recovery_sent_while_the_first_look_went_by_keeps_it_from_being_empty(cluster: SimCluster) -> None:
    stage = Stage(cluster)
    writer = await stage.set()
    await stage.writer_node(writer.close())
    open_one = await stage.writer_node(stage.writer_node.client.create(digest_type=DigestType.CRC32C))
    stage.ledgers.append(open_one.id)
    (unnamed,) = set(cluster.bookies) - set(open_one.metadata.last_segment.bookies)
    stage.leaver = cluster.bookies[unnamed]
    seen, go, real = [], asyncio.Event(), naming.look

    async def slow(*args: Any, **rest: Any) -> AsyncIterator[naming.AffectedLedger | None]:
        found = [each async for each in real(*args, **rest)]
        seen.append(found)
        if not any(found):
            await go.wait()
        for each in found:
            yield each

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(naming, "look", slow)
        await stage.drain(DrainAction.START)
        await cluster.until(lambda: bool(seen) and not any(seen[-1]), "a look found nothing")
        ledgers = stage.writer_node.client.shared.ledgers
        await stage.writer_node(ledgers.put(open_one.id, open_one.metadata.in_recovery(), 0))
        await recovery_add(stage, open_one.id)
        go.set()
        status = await stage.drained(lambda it: it.is_empty or it.blocked_count == 1, "it is blocked")

    assert (status.is_empty, [each.ledger_id for each in status.blocked]) == (False, [open_one.id])
    reader = await cluster.client("reader")
    await reader(reader.client.open(open_one.id))
    await stage.empty()
    await stage.end()


@story(on_cluster, bookies=5, seed=7)
async def test_a_dead_bookie_may_be_named_by_every_recovery_under_way(cluster: SimCluster) -> None:
    """Nobody can ask it what it holds."""
    stage = Stage(cluster)
    writer = await with_a_tail(stage)
    stalled = StalledRecovery(stage)
    async with stalled.under_way(writer) as ledger_id:
        stage.leaver.crash()
        stage.leaver.wipe()
        admin_of = stage.peer()
        dead = BookieId(stage.leaver.name)

        async def seen(open_ledgers: OpenLedgers, condition: Callable[[DrainStatus], bool]) -> DrainStatus:
            status = None
            for _ in range(600):
                assert admin_of.process is not None
                order = admin_of.process.admin.drain(DrainAction.START, bookie_id=dead, open_ledgers=open_ledgers)
                status = await admin_of.node.do(order)
                if condition(status):
                    return status
                await asyncio.sleep(0.5)
            raise AssertionError(f"seen last: {status}")

        waits = await seen(OpenLedgers.WAIT, lambda it: it.is_empty or it.open_ledgers > 0)
        assert not waits.is_empty
        assert ledger_id in [each.ledger_id for each in waits.blocked]
        await seen(OpenLedgers.RECOVER, lambda it: it.is_empty)
        assert stage.state_of(ledger_id) is LedgerState.CLOSED
        await stalled.ended()  # it adopts that end
        assert stage.naming() == []
    await workload.verify(cluster, stage.ledgers)
