"""Every change that a procedure asks of the metadata store, one after the other: the session expires just before it or
just after it, or its answer alone is lost. The procedure goes on or is begun anew, and ends as if nothing had been.

Random ones: `lost_answer_per_million` and the injector's session expiry. Here none is left out.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from bookie.base.errors import BookieError, GrantRefused
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.client.repair import accepting_loss, declaring_lost, forgetting, naming
from bookie.client.repair.autorecovery import AutoRecovery
from bookie.client.repair.autorecovery_options import AutoRecoveryOptions
from bookie.client.repair.daemon import AutoRecoveryDaemon
from bookie.client.repair.evacuation import Evacuation
from bookie.client.write.writer import LedgerWriter
from bookie.integrity.options import GATED
from bookie.metadata import paths
from bookie.ports.admin import Aside, DrainAction, OpenLedgers, State, Verdict
from bookie.server.admin import NodeAdmin
from bookie.sim import retirement, workload
from bookie.sim.cluster import ROOT, BookieNode, ClientNode, SimCluster
from bookie.sim.metadata_store import Strike
from bookie.sim.node import NodeCrashed
from bookie.sim.replicas import Replicas, copies

ENTRIES = 12
QUICK = AutoRecoveryOptions(
    loss_delay_ms=5_000, check_interval_ms=20_000, return_grace_ms=5_000, open_ledger_grace_ms=10_000, poll_ms=1_000
)
TRIES = 5  # to begin anew after one strike
LOST_IN_A_ROW = 3  # more than who gives up a lock asks for
CHANGES_MAX = 80  # no procedure here asks for so many
# When all ledgers were read last, who audits, and the form of the queue, which the next process makes too.
HINTS = (paths.all_ledgers_checked(ROOT), paths.auditor_votes(ROOT), paths.replication_layout(ROOT))
SETTLED_S = 15  # by then every session that has ended is gone, with what it had


@dataclass
class Stage:
    """A cluster in which change `number` of one machine is struck, once it is armed. 0: none. Requests are lost
    `LOST_IN_A_ROW`, as in an outage that the session outlives."""

    cluster: SimCluster
    number: int
    kind: Strike
    machine: str = ""
    asked: list[str] = field(default_factory=list)

    def arm(self, machine: str) -> None:
        self.machine = machine
        self.cluster.simulation.keeper.strike = self._strike

    def _strike(self, host: str, what: str) -> Strike | None:
        if host != self.machine:
            return None
        self.asked.append(what)
        in_a_row = LOST_IN_A_ROW if self.kind is Strike.REQUEST_LOST else 1
        return self.kind if 0 < self.number <= len(self.asked) < self.number + in_a_row else None

    @property
    def struck(self) -> str:
        """What was asked for when it was struck; "" when the procedure ended before."""
        return self.asked[self.number - 1] if 0 < self.number <= len(self.asked) else ""

    async def written(self, client: ClientNode, *, close: bool = True, **shape: int) -> LedgerWriter:
        writer = await client(client.client.create(**shape))
        await self.append(client, writer)
        if close:
            await client(writer.close())
        return writer

    async def append(self, client: ClientNode, writer: LedgerWriter) -> None:
        for _ in range(ENTRIES):
            payload = b"entry after %d of ledger %d" % (writer.last_confirmed, writer.id)
            entry_id = await client(writer.append(payload))
            self.cluster.oracle.acknowledged(writer.id, entry_id, payload)

    async def gone(self, bookie: BookieNode) -> None:
        """Its process is gone, and so is its session."""
        if bookie.is_running:
            bookie.crash()
        sign = paths.process(ROOT, BookieId(bookie.name))
        tree = self.cluster.simulation.keeper.tree
        await self.cluster.until(lambda: sign not in tree.nodes, "its session ended")

    async def emptied(self, names: Sequence[BookieId]) -> None:
        """Their disks are lost, and what they had is in limbo."""
        bookies = [self.cluster.bookies[name] for name in names]
        for bookie in bookies:
            bookie.crash()
            bookie.wipe()
            bookie.start()
        await self.cluster.until(lambda: all(each.state is State.REPAIRING for each in bookies), "they are in limbo")

    async def serves(self, bookie: BookieNode) -> None:
        """As a kubelet does it: what gave up is started again, `TRIES` times. Nothing is left to repair in the end."""
        for _ in range(TRIES):
            if not bookie.is_running:
                bookie.start()
            await self.cluster.until(lambda: bookie.state is State.SERVING or not bookie.is_running, "its boot's end")
            if bookie.is_running:
                break
        assert bookie.is_running, bookie.ended

    def nodes(self) -> dict[str, bool]:
        """Every path in the metadata store with something in it, and whether it goes with a session; ids of ledgers and
        votes left out. Directories may stay empty, and hints may lack: nobody goes by them."""
        nodes = self.cluster.simulation.keeper.tree.nodes
        said = {path: node for path, node in nodes.items() if node.data or node.owner}
        return {re.sub(r"\d+$", "N", path): bool(node.owner) for path, node in said.items() if path not in HINTS}


async def asked_again(attempt: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """What a person or a program does who is told that it did not work: look, and ask again."""
    for _ in range(TRIES - 1):
        try:
            return await attempt()
        except (BookieError, NodeCrashed):
            await asyncio.sleep(5)
    return await attempt()


# ---- bookies ---------------------------------------------------------------------------------------------------------


async def an_emptied_bookie_boots(stage: Stage) -> None:
    """Claim, fences and limbo, cookie and record, phase two of a closed ledger and of one whose writer is gone."""
    cluster = stage.cluster
    app, dead = await cluster.client("app"), await cluster.client("dead")
    ledgers = [(await stage.written(app)).id, (await stage.written(dead, close=False)).id]
    dead.crash()
    metadata = cluster.metadata_of(ledgers[1])
    assert metadata is not None
    bookie = cluster.bookies[metadata.last_segment.bookies[0]]
    await stage.gone(bookie)
    bookie.wipe()
    stage.arm(bookie.machine)
    await stage.serves(bookie)

    report = await bookie.report()
    assert (report.verdict, report.incarnation) == (Verdict.HEALTHY, 2), report.reason
    for ledger_id in ledgers:
        assert await copies(cluster, ledger_id, EntryId(ENTRIES - 1)) == []
    await workload.verify(cluster, ledgers)


async def a_new_bookie_boots(stage: Stage) -> None:
    stage.arm(f"bookie-{len(stage.cluster.bookies)}")
    await stage.serves(stage.cluster.join())


async def a_bookie_stops_in_order_and_comes_back(stage: Stage) -> None:
    cluster = stage.cluster
    ledger_id = (await stage.written(await cluster.client("app"))).id
    bookie = cluster.bookies["bookie-1"]
    stage.arm(bookie.machine)
    bookie.stop()
    await cluster.until(lambda: not bookie.is_running, "it stops")
    await stage.gone(bookie)
    await stage.serves(bookie)
    await workload.verify(cluster, [ledger_id])


async def a_bookie_boots_by_grant(stage: Stage) -> None:
    """It waits for its grant, again where it was struck before the grant was used."""
    cluster = stage.cluster
    ledger_id = (await stage.written(await cluster.client("app"))).id
    bookie = cluster.bookies["bookie-1"]
    await stage.gone(bookie)
    bookie.wipe()
    stage.arm(bookie.machine)

    async def granted() -> None:
        if not bookie.is_running:
            bookie.start()
        looks = State.WAITING_GRANT, State.SERVING
        await cluster.until(lambda: bookie.state in looks or not bookie.is_running, "it waits")
        if bookie.state is State.WAITING_GRANT:
            await bookie.grant()
        await cluster.until(lambda: bookie.state is State.SERVING or not bookie.is_running, "it serves")
        if not bookie.is_running:
            raise NodeCrashed(bookie.machine)

    await asked_again(granted)
    report = await bookie.report()
    assert (report.verdict, report.incarnation) == (Verdict.HEALTHY, 2), report.reason
    assert await copies(cluster, ledger_id, EntryId(ENTRIES - 1)) == []
    await workload.verify(cluster, [ledger_id])


async def a_bookie_gets_a_directory_more(stage: Stage) -> None:
    cluster = stage.cluster
    app = await cluster.client("app")
    ledgers = [(await stage.written(app)).id]
    bookie = cluster.bookies["bookie-1"]
    bookie.stop()
    await cluster.until(lambda: not bookie.is_running, "it stops")
    await stage.gone(bookie)
    bookie.add_directory()
    stage.arm(bookie.machine)
    await stage.serves(bookie)
    ledgers += [(await stage.written(app)).id for _ in range(2)]
    assert (await bookie.report()).verdict is Verdict.HEALTHY
    await workload.verify(cluster, ledgers)


async def a_bookie_fills_its_holes_after_a_boot(stage: Stage) -> None:
    """What was written while it was away comes to it, and no record is changed for that."""
    cluster = stage.cluster
    app = await cluster.client("app")
    writer = await stage.written(app, close=False, ensemble_size=3, write_quorum=3, ack_quorum=2)
    bookie = cluster.bookies["bookie-1"]
    bookie.stop()
    await cluster.until(lambda: not bookie.is_running, "it stops")
    await stage.gone(bookie)
    await stage.append(app, writer)
    await app(writer.close())
    before = cluster.metadata_of(writer.id)
    assert await copies(cluster, writer.id, EntryId(2 * ENTRIES - 1)) != []
    stage.arm(bookie.machine)
    await stage.serves(bookie)

    async def is_whole() -> bool:
        await stage.serves(bookie)
        return (await bookie.report()).whole_since_boot

    await once_true(is_whole, "it is whole")
    assert await copies(cluster, writer.id, EntryId(2 * ENTRIES - 1)) == []
    assert cluster.metadata_of(writer.id) == before
    await workload.verify(cluster, [writer.id])


async def once_true(is_so: Callable[[], Awaitable[bool]], what: str) -> None:
    """Ask every second, for two minutes."""
    for _ in range(120):
        if await is_so():
            return
        await asyncio.sleep(1)
    raise AssertionError(f"not in two minutes: {what}")


async def a_bookie_gives_up_its_surplus(stage: Stage) -> None:
    """The ledger was moved away from it: its copies go under the ledger's lock, which is given back."""
    cluster = stage.cluster
    watching = Replicas(cluster.simulation.violation, lambda name: retirement.entry_store(cluster.bookies[name]))
    cluster.ledger_observers.append(watching.metadata_changed)
    app, mover = await cluster.client("app"), await cluster.client("mover")
    ledger_id = (await stage.written(app)).id
    metadata = cluster.metadata_of(ledger_id)
    assert metadata is not None
    leaver = cluster.bookies[metadata.last_segment.bookies[0]]
    await mover(Evacuation(mover.client.shared, [BookieId(leaver.name)]).move(ledger_id))
    assert not names(cluster, ledger_id, leaver)
    stage.arm(leaver.machine)

    async def is_given_up() -> bool:
        await stage.serves(leaver)
        store = retirement.entry_store(leaver)
        return store is not None and not any(store.has_entry(ledger_id, EntryId(it)) for it in range(ENTRIES))

    await once_true(is_given_up, "its surplus is gone")
    locks, tree = paths.replication_locks(ROOT), cluster.simulation.keeper.tree
    await cluster.until(lambda: not tree.nodes[locks].children, "no lock is left")
    watching.check_all()
    assert await copies(cluster, ledger_id, EntryId(ENTRIES - 1)) == []
    await workload.verify(cluster, [ledger_id])


# ---- what an operator asks of bookies --------------------------------------------------------------------------------


def serves(bookie: BookieNode) -> bool:
    return bookie.state is not None and bookie.state.serves


async def told(bookie: BookieNode, order: Callable[[NodeAdmin], Awaitable[Any]]) -> Any:
    """Give an order to a bookie, which a kubelet starts again where it ended, until it is taken."""

    async def once() -> Any:
        if not bookie.is_running:
            bookie.start()
        await bookie.simulation.until(lambda: not bookie.is_running or serves(bookie), "it serves")
        if bookie.process is None:
            raise NodeCrashed(bookie.machine)
        return await bookie.node.do(order(bookie.process.admin))

    return await asked_again(once)


async def a_bookie_refuses_writes_and_takes_them_again(stage: Stage) -> None:
    cluster = stage.cluster
    app = await cluster.client("app")
    bookie = cluster.bookies["bookie-1"]
    writer = await stage.written(app, close=False, ensemble_size=3, write_quorum=3, ack_quorum=2)
    nodes = cluster.simulation.keeper.tree.nodes
    stage.arm(bookie.machine)
    await told(bookie, lambda admin: admin.set_read_only(True))
    await cluster.until(lambda: f"{paths.readonly(ROOT)}/{bookie.name}" in nodes, "nobody chooses it")
    await stage.append(app, writer)
    await told(bookie, lambda admin: admin.set_read_only(False))
    await cluster.until(lambda: f"{paths.available(ROOT)}/{bookie.name}" in nodes, "it may be chosen")
    await app(writer.close())
    await stage.serves(bookie)
    await workload.verify(cluster, [writer.id])


async def a_bookie_drains_and_is_forgotten(stage: Stage) -> None:
    """Its own changes are struck, then those of the one that forgets it."""
    cluster = stage.cluster
    app, dead = await cluster.client("app"), await cluster.client("dead")
    ledgers = [(await stage.written(app)).id, (await stage.written(dead, close=False)).id]
    dead.crash()
    leaver, peer = cluster.bookies["bookie-1"], cluster.bookies["bookie-2"]
    stage.arm(leaver.machine)

    async def is_empty() -> bool:
        await told(leaver, lambda admin: admin.drain(DrainAction.START, open_ledgers=OpenLedgers.RECOVER))
        status = await told(leaver, lambda admin: admin.drain(DrainAction.LOOK))
        return bool(status.is_empty)

    await once_true(is_empty, "it is empty")
    assert not any(names(cluster, each, leaver) for each in ledgers)
    await stage.gone(leaver)
    stage.arm(peer.machine)
    cookie = paths.cookie(ROOT, BookieId(leaver.name))
    for _ in range(60):
        try:
            await told(peer, lambda admin: admin.forget_bookie(BookieId(leaver.name), cookie_version=0))
            break
        except GrantRefused as refusal:
            if cookie not in cluster.simulation.keeper.tree.nodes:
                break  # it was forgotten, and the answer was lost
            if refusal.reason not in ("too_soon", "locked", "registered"):
                raise
            await asyncio.sleep(1)
    assert cookie not in cluster.simulation.keeper.tree.nodes
    await workload.verify(cluster, ledgers)


async def a_bookie_is_set_aside_and_taken_back(stage: Stage) -> None:
    cluster = stage.cluster
    ledger_id = (await stage.written(await cluster.client("app"))).id
    bookie, peer = cluster.bookies["bookie-1"], cluster.bookies["bookie-2"]
    stage.arm(peer.machine)
    for number, is_aside in ((1, True), (2, False)):
        order = Aside(is_aside, "its disk clicks", f"order-{number}", number)
        await told(peer, lambda admin, order=order: admin.set_aside(BookieId(bookie.name), order))  # type: ignore[misc]
        await stage.gone(bookie)
        bookie.start()
        wanted = State.HELD if is_aside else State.SERVING
        await cluster.until(lambda wanted=wanted: bookie.state is wanted, f"what order {number} says")
    await stage.serves(bookie)
    await workload.verify(cluster, [ledger_id])


# ---- auto-recovery ---------------------------------------------------------------------------------------------------


@asynccontextmanager
async def recovering(cluster: SimCluster, name: str) -> AsyncIterator[AutoRecoveryDaemon]:
    """One process of auto-recovery, begun anew while it cannot begin; it ends in order."""
    node = await cluster.client(name)
    daemon = AutoRecoveryDaemon(node.client.shared, BookieId(f"{name}:1"), QUICK)
    running = asyncio.ensure_future(asked_again(lambda: node(daemon.run())))
    try:
        yield daemon
    finally:
        daemon.request_stop()
        await running
        node.crash()


async def all_mended(stage: Stage, looker: ClientNode, *daemons: AutoRecoveryDaemon) -> None:
    """No ledger is marked, none locked, and one process leads."""
    recovery = AutoRecovery(looker.client.shared.ledgers.store, ROOT)

    async def marked() -> list[LedgerId]:
        return [each.ledger_id async for each in recovery.marked()]

    for _ in range(300):
        if not await looker(marked()):
            break
        await asyncio.sleep(1)
    else:
        raise AssertionError("a ledger stays marked")
    locks, tree = paths.replication_locks(ROOT), stage.cluster.simulation.keeper.tree
    await stage.cluster.until(lambda: not tree.nodes[locks].children, "no lock is left")
    await stage.cluster.until(lambda: sum(each.auditor.counts.is_leading for each in daemons) == 1, "one leads")


async def workers_move_what_a_lost_bookie_held(stage: Stage) -> None:
    cluster = stage.cluster
    watching = Replicas(cluster.simulation.violation, lambda name: retirement.entry_store(cluster.bookies[name]))
    cluster.ledger_observers.append(watching.metadata_changed)
    app = await cluster.client("app")
    ledgers = [(await stage.written(app)).id, (await stage.written(app, write_quorum=2, ack_quorum=2)).id]
    lost = cluster.bookies["bookie-1"]
    await stage.gone(lost)
    stage.arm("first")
    async with recovering(cluster, "first") as first, recovering(cluster, "second") as second:
        await cluster.until(lambda: not any(names(cluster, each, lost) for each in ledgers), "nothing names it")
        await all_mended(stage, app, first, second)
    lost.wipe()  # nothing that is acknowledged needs it
    watching.check_all()
    await workload.verify(cluster, ledgers)


def names(cluster: SimCluster, ledger_id: LedgerId, bookie: BookieNode) -> bool:
    metadata = cluster.metadata_of(ledger_id)
    return metadata is not None and metadata.names(BookieId(bookie.name))


async def a_worker_fills_a_hole_in_place(stage: Stage) -> None:
    cluster = stage.cluster
    app = await cluster.client("app")
    writer = await stage.written(app, close=False)
    away = cluster.bookies[writer.metadata.last_segment.bookies[0]]
    held = [cluster.bookies[name] for name in cluster.bookies if not names(cluster, writer.id, cluster.bookies[name])]
    for bookie in (*held, away):
        bookie.stop()
    await cluster.until(lambda: not any(each.is_running for each in (*held, away)), "they stop")
    await stage.append(app, writer)
    await app(writer.close())
    away.start()
    await cluster.until_ready(away.name)
    assert await copies(cluster, writer.id, EntryId(2 * ENTRIES - 1)) != []
    stage.arm("first")
    async with recovering(cluster, "first") as daemon:
        store = retirement.entry_store(away)
        assert store is not None
        await cluster.until(lambda: store.has_entry(writer.id, EntryId(2 * ENTRIES - 1)), "the hole is filled")
        await all_mended(stage, app, daemon)
    assert await copies(cluster, writer.id, EntryId(2 * ENTRIES - 1)) == []
    await workload.verify(cluster, [writer.id])


# ---- people ----------------------------------------------------------------------------------------------------------


async def a_bookie_is_decommissioned(stage: Stage) -> None:
    """What `bookie cluster decommission` does (`bookie.cli.evacuate`): of a closed ledger and of an abandoned one."""
    cluster = stage.cluster
    app, dead = await cluster.client("app"), await cluster.client("dead")
    ledgers = [(await stage.written(app)).id, (await stage.written(dead, close=False)).id]
    dead.crash()
    leaver = cluster.bookies["bookie-1"]
    await stage.gone(leaver)
    person = await cluster.client("person")
    shared, leaving = person.client.shared, BookieId(leaver.name)

    async def decommission() -> None:
        evacuation = Evacuation(shared, [leaving], may_end=True, may_hold=lambda _: True)
        for ledger_id in ledgers:
            await evacuation.move(ledger_id)
        assert [each async for each in naming.look(shared.ledgers, [leaving]) if each is not None] == []
        await forgetting.forget(shared.ledgers.store, ROOT, leaving)

    stage.arm("person")
    await asked_again(lambda: person(decommission()))
    assert paths.cookie(ROOT, leaving) not in cluster.simulation.keeper.tree.nodes
    await workload.verify(cluster, ledgers)


async def a_loss_is_accepted(stage: Stage) -> None:
    cluster = stage.cluster
    dead = await cluster.client("dead")
    ledger_id = (await stage.written(dead, close=False, ensemble_size=3)).id
    dead.crash()
    metadata = cluster.metadata_of(ledger_id)
    assert metadata is not None
    lost = metadata.last_segment.bookies[1:]
    await stage.emptied(lost)
    person = await cluster.client("person")

    async def accept() -> None:
        shared = person.client.shared
        if not (await shared.ledgers.get(ledger_id))[0].is_closed:
            wanted = await accepting_loss.plan(shared, ledger_id, lost, by="ann", reason="it burnt")
            await accepting_loss.accept(shared, wanted)

    stage.arm("person")
    await asked_again(lambda: person(accept()))
    closed = cluster.metadata_of(ledger_id)
    assert closed is not None
    assert (closed.is_closed, closed.last_entry) == (True, ENTRIES - 1)
    record = accepting_loss.record_of(closed)
    assert record is not None
    assert record["by"] == "ann"
    await cluster.until_repaired()
    await workload.verify(cluster, [ledger_id])


async def entries_are_declared_lost(stage: Stage) -> None:
    cluster = stage.cluster
    app = await cluster.client("app")
    writer = await app(app.client.create(ensemble_size=3, write_quorum=2, ack_quorum=2))
    for number in range(ENTRIES):
        await app(writer.append(b"entry %d" % number))
    await app(writer.close())
    gone = writer.metadata.last_segment.bookies[:2]
    await stage.emptied(gone)
    person = await cluster.client("person")

    async def declare() -> None:
        shared = person.client.shared
        wanted = await declaring_lost.plan(shared, writer.id, gone, by="ann", reason="it burnt")
        await declaring_lost.declare(shared, wanted)

    stage.arm("person")
    await asked_again(lambda: person(declare()))
    metadata = cluster.metadata_of(writer.id)
    assert metadata is not None
    lost = [entry for entry in range(ENTRIES) if set(metadata.write_set(EntryId(entry))) == set(gone)]
    assert [first for first, _ in metadata.lost_runs()] == lost
    assert len(metadata.losses()) == 1, "it is said once"
    await cluster.until_repaired()


# ---- clients ---------------------------------------------------------------------------------------------------------


async def a_writer_makes_changes_and_closes_a_ledger(stage: Stage) -> None:
    """Another bookie takes a lost one's place; who is told that it failed opens the ledger again, or makes another."""
    cluster = stage.cluster
    app = await cluster.client("app")
    stage.arm("app")
    writer = await asked_again(lambda: app(app.client.create()))
    await stage.append(app, writer)
    lost = cluster.bookies[writer.metadata.last_segment.bookies[0]]
    await stage.gone(lost)
    await stage.append(app, writer)
    assert not names_now(cluster, writer.id, lost), "another has its place"
    with suppress(BookieError):
        await app(writer.close())
    reader = await asked_again(lambda: app(app.client.open(writer.id)))
    assert reader.last_entry == 2 * ENTRIES - 1
    await stage.serves(lost)
    await workload.verify(cluster, [writer.id])
    app.crash()  # the session of a lost answer has what draws an id


def names_now(cluster: SimCluster, ledger_id: LedgerId, bookie: BookieNode) -> bool:
    metadata = cluster.metadata_of(ledger_id)
    assert metadata is not None
    return bookie.name in metadata.last_segment.bookies


async def a_reader_recovers_a_ledger(stage: Stage) -> None:
    cluster = stage.cluster
    dead = await cluster.client("dead")
    ledger_id = (await stage.written(dead, close=False)).id
    dead.crash()
    metadata = cluster.metadata_of(ledger_id)
    assert metadata is not None
    lost = cluster.bookies[metadata.last_segment.bookies[0]]
    await stage.gone(lost)
    app = await cluster.client("app")
    stage.arm("app")
    reader = await asked_again(lambda: app(app.client.open(ledger_id)))
    assert reader.last_entry == ENTRIES - 1
    await stage.serves(lost)
    await workload.verify(cluster, [ledger_id])


async def a_ledger_is_deleted(stage: Stage) -> None:
    cluster = stage.cluster
    app = await cluster.client("app")
    ledger_id = (await stage.written(app)).id
    stage.arm("app")
    await asked_again(lambda: app(app.client.delete(ledger_id)))
    assert cluster.metadata_of(ledger_id) is None


PROCEDURES: list[tuple[Callable[[Stage], Coroutine[Any, Any, None]], int, int]] = [
    # What happens, bookies, changes that are struck at least
    (a_bookie_boots_by_grant, 4, 4),
    (a_bookie_gets_a_directory_more, 4, 3),
    (a_bookie_fills_its_holes_after_a_boot, 3, 2),
    (a_bookie_gives_up_its_surplus, 4, 2),
    (a_bookie_refuses_writes_and_takes_them_again, 4, 2),
    (a_bookie_drains_and_is_forgotten, 5, 6),
    (a_bookie_is_set_aside_and_taken_back, 4, 2),
    (an_emptied_bookie_boots, 4, 5),
    (a_new_bookie_boots, 3, 4),
    (a_bookie_stops_in_order_and_comes_back, 3, 4),
    (workers_move_what_a_lost_bookie_held, 4, 8),
    (a_worker_fills_a_hole_in_place, 3, 6),
    (a_bookie_is_decommissioned, 5, 5),
    (a_loss_is_accepted, 3, 2),
    (entries_are_declared_lost, 4, 1),
    (a_writer_makes_changes_and_closes_a_ledger, 4, 4),
    (a_reader_recovers_a_ledger, 4, 2),
    (a_ledger_is_deleted, 3, 1),
]


SETTINGS: dict[str, dict[str, Any]] = {
    a_bookie_boots_by_grant.__name__: {"regeneration": GATED},
    a_bookie_fills_its_holes_after_a_boot.__name__: {"fill_after_boot": True},
    a_bookie_gives_up_its_surplus.__name__: {"surplus_wait_ms": 10_000, "upkeep_interval_ms": 3_000},
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", Strike, ids=lambda kind: kind.name.lower())
@pytest.mark.parametrize(("procedure", "bookies", "least"), PROCEDURES, ids=[each[0].__name__ for each in PROCEDURES])
def test_a_procedure_struck_at_any_of_its_changes_ends_as_if_it_had_not_been(
    procedure: Callable[[Stage], Coroutine[Any, Any, None]], bookies: int, least: int, kind: Strike
) -> None:
    usual: dict[str, bool] = {}
    for number in itertools.count():
        cluster = SimCluster(7, bookies=bookies, **SETTINGS.get(procedure.__name__, {}))
        stage = Stage(cluster, number, kind)

        async def whole(_: SimCluster, stage: Stage = stage) -> None:
            await procedure(stage)
            await asyncio.sleep(SETTLED_S)

        try:
            cluster.run(whole)
        except Exception as error:
            error.add_note(f"struck at change {number}: {stage.struck}")
            raise
        if number and not stage.struck:
            break
        usual = usual or stage.nodes()
        assert stage.nodes() == usual, f"struck at change {number}: {stage.struck}"
        assert number < CHANGES_MAX, "it never ends"
    assert number > least, f"only {number - 1} changes were struck"
