"""Our own auto-recovery on whole simulated clusters: lost bookies, holes, writers that live, and nothing that is lost
(spec/metadata.md#M44 to M48)."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.client.repair import explaining
from bookie.client.repair.autorecovery import AutoRecovery
from bookie.client.repair.autorecovery_options import AutoRecoveryOptions
from bookie.client.repair.daemon import AutoRecoveryDaemon
from bookie.client.repair.election import Election
from bookie.client.repair.maintenance import Maintenance
from bookie.client.repair.marks import Marks
from bookie.client.write.writer import LedgerWriter
from bookie.metadata.ledger import LedgerState
from bookie.metadata.maintenance import MaintenanceLease
from bookie.sim import retirement, workload
from bookie.sim.cluster import ROOT, BookieNode, ClientNode, SimCluster
from bookie.sim.fleet_recovery import FleetRecovery
from bookie.sim.node import Defect, NodeCrashed
from bookie.sim.replicas import Replicas, copies
from sim_support import on_cluster
from story_support import story

QUICK = AutoRecoveryOptions(
    loss_delay_ms=5_000, check_interval_ms=20_000, return_grace_ms=5_000, open_ledger_grace_ms=10_000, poll_ms=1_000
)


@asynccontextmanager
async def recovering(
    cluster: SimCluster, name: str = "recovery", options: AutoRecoveryOptions = QUICK
) -> AsyncIterator[AutoRecoveryDaemon]:
    """One process of auto-recovery while the block runs; it ends in order."""
    node = await cluster.client(name)
    daemon = AutoRecoveryDaemon(node.client.shared, BookieId(f"{name}:1"), options)
    running = asyncio.ensure_future(node(daemon.run()))
    try:
        yield daemon
    finally:
        daemon.request_stop()
        with suppress(NodeCrashed):
            await running


async def written(cluster: SimCluster, client: ClientNode, writer: LedgerWriter, count: int) -> None:
    for _ in range(count):
        payload = b"entry after %d of ledger %d" % (writer.last_confirmed, writer.id)
        entry_id = await client(writer.append(payload))
        cluster.oracle.acknowledged(writer.id, entry_id, payload)


async def marked(cluster: SimCluster, looker: ClientNode) -> dict[LedgerId, tuple[BookieId, ...]]:
    shared = looker.client.shared

    async def look() -> dict[LedgerId, tuple[BookieId, ...]]:
        recovery = AutoRecovery(shared.ledgers.store, shared.ledgers.root)
        return {each.ledger_id: each.record.missing async for each in recovery.marked()}

    return await looker(look())


def promises(cluster: SimCluster) -> Replicas:
    """Who is named in another's place holds what he should."""
    watching = Replicas(cluster.simulation.violation, lambda name: retirement.entry_store(cluster.bookies[name]))
    cluster.ledger_observers.append(watching.metadata_changed)
    return watching


def names(cluster: SimCluster, ledger_id: LedgerId, bookie: BookieNode) -> bool:
    metadata = cluster.metadata_of(ledger_id)
    assert metadata is not None
    return metadata.names(BookieId(bookie.name))


def holds_all(bookie: BookieNode, ledger_id: LedgerId, count: int) -> bool:
    store = retirement.entry_store(bookie)
    return store is not None and all(store.has_entry(ledger_id, EntryId(each)) for each in range(count))


@story(on_cluster, 11, bookies=4)
async def test_what_a_lost_bookie_held_comes_back_on_another_and_its_mark_goes(cluster: SimCluster) -> None:
    watching = promises(cluster)
    client = await cluster.client("writer")
    ledgers = []
    for shape in ((3, 3, 2), (3, 2, 2), (2, 2, 1)):
        size, write, ack = shape
        writer = await client(client.client.create(ensemble_size=size, write_quorum=write, ack_quorum=ack))
        await written(cluster, client, writer, 20)
        await client(writer.close())
        ledgers.append(writer.id)
    lost = cluster.bookies["bookie-1"]
    affected = [each for each in ledgers if names(cluster, each, lost)]
    assert affected

    lost.crash()
    async with recovering(cluster) as daemon:
        await cluster.until(
            lambda: not any(names(cluster, each, lost) for each in ledgers), "nothing names the lost bookie"
        )
        await cluster.until(lambda: daemon.worker.counts.mended >= len(affected), "the marks are gone")
        assert await marked(cluster, client) == {}
        assert daemon.worker.progress().entries_done >= 20, "what is moved counts as what is filled"

    lost.wipe()  # nothing that is acknowledged needs it
    watching.check_all()
    await workload.verify(cluster, ledgers)


@story(on_cluster, 12)
async def test_with_no_more_bookies_than_the_ensemble_has_a_hole_is_filled_in_place(cluster: SimCluster) -> None:
    """BookKeeper issue 3905: three bookies, 3:3:2; Java's worker finds no other bookie, for ever."""
    client = await cluster.client("writer")
    writer = await client(client.client.create())
    gone = cluster.bookies["bookie-1"]
    await written(cluster, client, writer, 10)
    gone.stop()
    await cluster.until(lambda: not gone.is_running, "it stops")
    await written(cluster, client, writer, 30)
    await client(writer.close())
    gone.start()
    await cluster.until_ready(gone.name)
    assert not holds_all(gone, writer.id, 40)
    before = cluster.metadata_of(writer.id)

    async with recovering(cluster) as daemon:
        await cluster.until(lambda: daemon.worker.counts.mended >= 1, "the hole is found and filled")

        assert daemon.worker.progress().entries_done == 30
        assert await copies(cluster, writer.id, EntryId(39)) == []
        assert cluster.metadata_of(writer.id) == before
        assert await marked(cluster, client) == {}
    gone.crash()  # a power cut: what was copied is durable
    gone.start()
    await cluster.until_repaired(gone.name)
    assert await copies(cluster, writer.id, EntryId(39)) == []


@story(on_cluster, 26, bookies=4)
async def test_a_marked_ledger_is_begun_at_once_whoever_marked_it(cluster: SimCluster) -> None:
    """Nobody looks again by the clock within this story. At first our own auditor marks, beside a mark that nobody can
    work off; then another process marks one ledger, and the others while that one is copied."""
    rarely = dataclasses.replace(QUICK, poll_ms=600_000, loss_delay_ms=0, check_interval_ms=0, retry_ms=600_000)
    slowly = dataclasses.replace(rarely, ledgers_at_once=1, bytes_per_s=100)
    client = await cluster.client("writer")
    ledgers = []
    for _ in range(6):
        writer = await client(client.client.create())
        await written(cluster, client, writer, 10)
        await client(writer.close())
        ledgers.append(writer.id)
    ill = await client(client.client.create(ensemble_size=4, write_quorum=2, ack_quorum=2))
    await client(ill.close())
    lost, next_lost = cluster.bookies["bookie-1"], cluster.bookies["bookie-2"]
    store = client.client.shared.ledgers.store
    marks, switch = Marks(store, ROOT), AutoRecovery(store, ROOT)
    await client(marks.prepare())
    await client(marks.mark(ill.id, [], 1))

    async with recovering(cluster, options=rarely) as daemon:
        await cluster.until(lambda: bool(daemon.worker.blocked), "what nobody can work off")
        await client(switch.set_enabled(enabled=False))
        lost.crash()
        await asyncio.sleep(30)
        await client(switch.set_enabled(enabled=True))  # only the auditor hears of that
        await cluster.until(
            lambda: not any(names(cluster, each, lost) for each in ledgers), "our own marks", timeout_s=60
        )
        await cluster.until(lambda: not daemon.worker.busy, "their end")
    lost.start()
    await cluster.until_repaired(lost.name)
    await client(client.client.delete(ill.id))
    found = await client(marks.find(ill.id))
    assert found is None or await client(marks.done(ill.id, found.version))

    foreign = Election(store, ROOT, BookieId("foreign:1"))
    assert await client(foreign.leads())
    async with recovering(cluster, "another", slowly) as daemon:
        next_lost.crash()
        await cluster.until(lambda: bool(daemon.worker.lost), "the worker to know of the loss", timeout_s=60)
        await asyncio.sleep(10)
        first, *rest = (each for each in ledgers if names(cluster, each, next_lost))
        assert rest
        await client(marks.mark(first, [BookieId(next_lost.name)], 1))
        await cluster.until(lambda: daemon.worker.progress().entries_done > 0, "the first one begun", timeout_s=60)
        for each in rest:
            await client(marks.mark(each, [BookieId(next_lost.name)], 1))
        assert names(cluster, first, next_lost)
        await cluster.until(
            lambda: not any(names(cluster, each, next_lost) for each in ledgers), "another's marks", timeout_s=60
        )
        assert not daemon.auditor.counts.is_leading
    await client(foreign.withdraw())


@story(on_cluster, 25)
async def test_a_worker_tells_what_is_left_and_until_when(cluster: SimCluster) -> None:
    """Two ledgers, 60 entries short together, 10 entries of 1,000 bytes a second."""
    client = await cluster.client("writer")
    gone = cluster.bookies["bookie-1"]
    writers = [await client(client.client.create()) for _ in range(2)]
    for writer in writers:  # who is away is named still
        await client(writer.append(b"0" * 1_000))
    gone.stop()
    await cluster.until(lambda: not gone.is_running, "it stops")
    for writer in writers:
        for _ in range(30):
            await client(writer.append(b"1" * 1_000))
        await client(writer.close())
    gone.start()
    await cluster.until_ready(gone.name)
    slow = dataclasses.replace(QUICK, bytes_per_s=10_000, ledgers_at_once=1, entries_at_once=1)
    recovery = AutoRecovery(client.client.shared.ledgers.store, ROOT)

    async with recovering(cluster, options=slow) as daemon:
        await cluster.until(lambda: daemon.worker.progress().entries_done == 10, "ten copies")
        begun = daemon.worker.progress()
        assert (begun.ledgers_left, begun.ledgers_blocked) == (2, 0)
        assert begun.entries_left == 50, "20 of this one, and of the other one as many as of this one at first"
        assert begun.bytes_left is not None
        assert 48_000 < begun.bytes_left <= 50_000, "by the mean of a whole ledger"
        assert begun.seconds_left is not None
        assert 3 <= begun.seconds_left <= 8
        await cluster.until(lambda: daemon.worker.progress().entries_done == 60, "all copies")
        await cluster.until(lambda: daemon.worker.counts.mended == 2 and not daemon.worker.busy, "both whole")
        ended = daemon.worker.progress()
        assert (ended.ledgers_left, ended.entries_left, ended.bytes_left, ended.seconds_left) == (0, 0, 0, 0)
        await asyncio.sleep(15)
        (told,) = (await client(recovery.reports.read())).values()
        assert (told.entries_done, told.seconds_left) == (60, 0)
    assert await client(recovery.reports.read()) == {}, "its report went with it"


@story(on_cluster, 13)
async def test_a_bookie_that_comes_back_in_time_costs_nothing(cluster: SimCluster) -> None:
    client = await cluster.client("writer")
    writer = await client(client.client.create())
    await written(cluster, client, writer, 10)
    await client(writer.close())
    away = cluster.bookies["bookie-2"]
    patient = dataclasses.replace(QUICK, loss_delay_ms=60_000)

    async with recovering(cluster, options=patient) as daemon:
        await cluster.until(lambda: daemon.auditor.counts.audits >= 1, "the first look")
        away.crash()
        await asyncio.sleep(40)
        away.start()
        await cluster.until_repaired(away.name)
        audits = daemon.auditor.counts.audits
        await cluster.until(lambda: daemon.auditor.counts.audits >= audits + 2, "two more looks")

        assert daemon.auditor.counts.marked == 0
        assert daemon.worker.progress().entries_done == 0


@story(on_cluster, 18, bookies=4)
async def test_a_bookie_under_maintenance_is_lost_only_once_its_lease_has_ended(cluster: SimCluster) -> None:
    """No other bookie is left alone for it, and nobody has to switch anything on again."""
    client = await cluster.client("writer")
    writer = await client(client.client.create())
    await written(cluster, client, writer, 20)
    await client(writer.close())
    away = cluster.bookies[writer.metadata.last_segment.bookies[0]]
    leases = Maintenance(client.client.shared.ledgers.store, ROOT)
    await client(leases.take(BookieId(away.name), MaintenanceLease(120, "ann", "a new disk controller")))

    async with recovering(cluster) as daemon:
        away.crash()
        await asyncio.sleep(90)
        assert daemon.auditor.counts.audits >= 3
        assert (daemon.auditor.counts.marked, await marked(cluster, client)) == (0, {})
        told = await client(explaining.explain(client.client.shared, writer.id))
        assert any("under maintenance" in each and "ann: a new disk" in each for each in told.helps)

        marks = Marks(client.client.shared.ledgers.store, ROOT)
        await client(marks.mark(writer.id, [BookieId(away.name)], 0))  # as Java's auditor, which knows no leases
        await cluster.until(lambda: bool(daemon.worker.blocked), "our worker does not act on it", timeout_s=10)
        assert "under maintenance" in daemon.worker.blocked[writer.id]
        assert names(cluster, writer.id, away)
        await cluster.until(lambda: not names(cluster, writer.id, away), "the lease has ended", timeout_s=120)


@story(on_cluster, 19)
async def test_holes_of_a_bookie_under_maintenance_are_left_to_it_and_looked_for_afterwards(
    cluster: SimCluster,
) -> None:
    client = await cluster.client("writer")
    writer = await client(client.client.create())
    gone = cluster.bookies["bookie-1"]
    await written(cluster, client, writer, 10)
    gone.stop()
    await cluster.until(lambda: not gone.is_running, "it stops")
    await written(cluster, client, writer, 30)
    await client(writer.close())
    gone.start()
    await cluster.until_ready(gone.name)
    leases = Maintenance(client.client.shared.ledgers.store, ROOT)
    await client(leases.take(BookieId(gone.name), MaintenanceLease(3_600, "ann", "its repair is watched")))
    rare = dataclasses.replace(QUICK, check_interval_ms=7_200_000)

    async with recovering(cluster, options=rare) as daemon:
        await cluster.until(lambda: daemon.auditor.counts.audits >= 1, "the first look, with all lists")
        await asyncio.sleep(30)
        assert (daemon.auditor.counts.compared, daemon.auditor.counts.marked) == (1, 0)
        assert await client(leases.end(BookieId(gone.name)))
        await cluster.until(lambda: daemon.worker.counts.mended == 1, "the holes are found at once and filled")


@story(on_cluster, 20, fill_after_boot=True)
async def test_a_stop_that_was_prepared_causes_no_marks_however_long_the_bookie_is_away(cluster: SimCluster) -> None:
    client = await cluster.client("writer")
    writer = await client(client.client.create())
    await written(cluster, client, writer, 10)
    stopped = cluster.bookies["bookie-1"]
    assert stopped.process is not None
    leases = Maintenance(client.client.shared.ledgers.store, ROOT)

    async with recovering(cluster) as daemon:
        await stopped.node.do(stopped.process.admin.prepare_shutdown())
        stopped.stop()
        await cluster.until(lambda: not stopped.is_running, "it stops")
        await written(cluster, client, writer, 10)
        await client(writer.close())
        await asyncio.sleep(60)
        found = await client(leases.find(BookieId(stopped.name)))
        assert found is not None
        assert found.lease.by == "bookie"
        stopped.start()
        await cluster.until_repaired(stopped.name)
        audits = daemon.auditor.counts.audits
        await cluster.until(lambda: daemon.auditor.counts.audits >= audits + 3, "three more looks")

        assert await client(leases.find(BookieId(stopped.name))) is None, "it is whole, and has said so"
        assert (daemon.auditor.counts.marked, daemon.worker.progress().entries_done) == (0, 0)


@story(on_cluster, 14)
async def test_an_emptied_bookie_repairs_itself_and_no_worker_copies_the_same(cluster: SimCluster) -> None:
    client = await cluster.client("writer")
    writer = await client(client.client.create())
    await written(cluster, client, writer, 30)
    await client(writer.close())
    emptied = cluster.bookies["bookie-0"]

    async with recovering(cluster) as daemon:
        emptied.crash()
        emptied.wipe()
        await cluster.until(lambda: bool(daemon.worker.blocked), "the ledger is marked and blocked")
        (reason,) = daemon.worker.blocked.values()
        assert "start more; or bring bookie-0 back, even with empty disks" in reason
        emptied.start()
        await cluster.until_repaired(emptied.name)
        await cluster.until(lambda: daemon.worker.counts.mended >= 1, "the mark goes")

        assert daemon.worker.progress().entries_done == 0
        assert await copies(cluster, writer.id, EntryId(29)) == []


@story(on_cluster, 15, bookies=4)
async def test_an_abandoned_ledger_is_closed_and_moved_and_a_living_one_is_let_alone(cluster: SimCluster) -> None:
    watching = promises(cluster)
    client, dead = await cluster.client("writer"), await cluster.client("dead")
    lost = cluster.bookies["bookie-1"]
    living, abandoned = None, None
    while living is None or not names(cluster, living.id, lost):
        living = await client(client.client.create())
    while abandoned is None or not names(cluster, abandoned.id, lost):
        abandoned = await dead(dead.client.create())
    await written(cluster, client, living, 5)
    await written(cluster, dead, abandoned, 5)
    dead.crash()

    async with recovering(cluster) as daemon:
        lost.crash()
        await cluster.until(  # it is idle for now, and so still names the lost bookie
            lambda: "its writer may be alive" in daemon.worker.blocked.get(living.id, ""), "the writer is given time"
        )
        for _ in range(40):
            await written(cluster, client, living, 1)
            await asyncio.sleep(1)
        await cluster.until(lambda: not names(cluster, abandoned.id, lost), "the abandoned ledger is moved")
        await cluster.until(lambda: not names(cluster, living.id, lost), "what the writer left behind is moved")
        await cluster.until(lambda: not daemon.worker.blocked, "nothing is left")

    await written(cluster, client, living, 5)  # its writer was never fenced
    await client(living.close())
    watching.check_all()
    await workload.verify(cluster, [living.id, abandoned.id])


@story(on_cluster, 16)
async def test_the_next_one_leads_when_the_auditor_dies_and_none_leads_while_it_is_switched_off(
    cluster: SimCluster,
) -> None:
    looker = await cluster.client("looker")
    shared = looker.client.shared
    switch = AutoRecovery(shared.ledgers.store, shared.ledgers.root)
    async with recovering(cluster, "one") as one:
        await cluster.until(lambda: one.auditor.counts.is_leading, "the first leads")
        assert await looker(switch.auditor()) == "one:1"
        async with recovering(cluster, "two") as two:
            await cluster.until(lambda: one.auditor.counts.audits > 0, "the first looks")
            assert not two.auditor.counts.is_leading

            cluster.clients["one"].crash()
            await cluster.until(lambda: two.auditor.counts.audits > 0, "the second leads and looks")
            await looker(switch.set_enabled(enabled=False))
            before = two.auditor.counts.audits
            await asyncio.sleep(60)
            assert two.auditor.counts.audits == before
            await looker(switch.set_enabled(enabled=True))
            await looker(switch.trigger_audit())
            await cluster.until(lambda: two.auditor.counts.audits > before, "it looks again")
    assert await looker(switch.auditor()) is None


@story(on_cluster, 17)
async def test_a_writer_is_not_taken_for_dead_by_a_process_that_cannot_ask_its_bookies(cluster: SimCluster) -> None:
    """No bookie is left to replace the lost one, so the writer goes on with two. The process sees the metadata store
    and no bookie: what it cannot read is no silence."""
    client = await cluster.client("writer")
    writer = await client(client.client.create())
    lost = cluster.bookies["bookie-1"]
    await written(cluster, client, writer, 5)

    async with recovering(cluster) as daemon:
        for name in cluster.bookies:
            cluster.partition("recovery", name)
        lost.crash()
        for _ in range(60):
            await written(cluster, client, writer, 1)
            await asyncio.sleep(1)
        assert daemon.worker.blocked

        found = cluster.metadata_of(writer.id)
        assert found is not None
        assert found.state is LedgerState.OPEN
        cluster.heal()
        await written(cluster, client, writer, 1)
        await client(writer.close())


def test_a_run_reports_a_replica_that_nobody_brings_back_and_a_mark_that_nobody_works_off() -> None:
    """The checker of runs with auto-recovery, where none runs."""

    async def hole(cluster: SimCluster) -> None:
        client = await cluster.client("writer")
        writer = await client(client.client.create())
        gone = cluster.bookies["bookie-1"]
        gone.stop()
        await cluster.until(lambda: not gone.is_running, "it stops")
        await written(cluster, client, writer, 10)
        await client(writer.close())
        gone.start()
        await cluster.until_repaired()
        marks = Marks(client.client.shared.ledgers.store, ROOT)
        await client(marks.prepare())
        await client(marks.mark(writer.id, [BookieId("bookie-1")], 1))
        judge = FleetRecovery(cluster, cluster.simulation.random("nobody"), 0)

        await judge.settle([writer.id], timeout_s=30)

    with pytest.raises(Defect, match=r"UNMENDED: .*bookie-1 lacks entry 0 of ledger 0.* \(11\)"):
        SimCluster(21).run(hole)
