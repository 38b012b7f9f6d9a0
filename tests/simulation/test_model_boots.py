"""Stories that the model tells of a boot without a guard (`bookie.sim.model.guards`), played with the product's own
classes, which have it: the same schedule, and nothing is lost or denied. docs/SIMULATION.md has the list of all.
"""

from __future__ import annotations

import asyncio

import pytest

from accidents_support import lose, replace_volumes, verify
from bookie.base import errors
from bookie.base.ids import BookieId, LedgerId
from bookie.base.units import NS_PER_MS
from bookie.client.repair.evacuation import Evacuation
from bookie.integrity.options import BOUND, SCAN
from bookie.metadata.ledger import LedgerMetadata
from bookie.sim.cluster import SimCluster
from model_story_support import BEHIND, PATIENT, append, has, is_fenced, power_cut, said, stored
from sim_support import on_cluster
from story_support import story

SEEDS = range(3)
EITHER_FORM = pytest.mark.parametrize("phase_one", [SCAN, BOUND])
UNKNOWN = "UnknownLedgerState"


@pytest.mark.parametrize("seed", SEEDS)
@story(on_cluster, client=PATIENT, journal_write_data=True, given=("seed",))
async def test_fence_durable_a_bookie_that_a_recovery_counted_is_fenced_after_any_crash(cluster: SimCluster) -> None:
    """b1, whose disk is slow, and b2 are fenced; in the moment in which the ledger is closed b1 loses its power."""
    c1, c2 = await cluster.client("c1"), await cluster.client("c2")
    writer = await c1(c1.client.create())
    b0, b1, b2 = writer.metadata.last_segment.bookies
    for machine in (*cluster.bookies, "zk"):
        cluster.partition("c1", machine)
    cluster.partition("c2", b0)
    crashing = cluster.bookies[b1]
    crashing.node.disk_faults.write_latency_ns = 6_000 * NS_PER_MS

    def cut(ledger_id: LedgerId, metadata: LedgerMetadata | None) -> None:
        if metadata is not None and metadata.is_closed and crashing.is_running:
            power_cut(crashing)

    cluster.ledger_observers.append(cut)
    assert (await c2(c2.client.open(writer.id))).last_entry == -1
    assert not crashing.is_running
    cluster.ledger_observers.remove(cut)
    crashing.node.disk_faults.write_latency_ns = NS_PER_MS
    crashing.start()
    await cluster.until_ready(b1)
    cluster.heal()
    cluster.hold(b2, "c1")  # the other one that is fenced answers late

    with pytest.raises(BEHIND):
        await append(cluster, c1, writer)


@pytest.mark.parametrize("seed", SEEDS)
@EITHER_FORM
@story(on_cluster, client=PATIENT, given=("seed", "phase_one"))
async def test_limbo_closed_copy_before_clear_what_a_closed_ledger_lost_is_unknown_until_it_is_fetched(
    cluster: SimCluster,
) -> None:
    """b0 has E0 of a closed ledger, loses it, and cannot ask b1 and b2 for a minute."""
    c1, judge = await cluster.client("c1"), await cluster.client("judge")
    writer = await c1(c1.client.create())
    await append(cluster, c1, writer)
    await c1(writer.close())
    b0, *others = writer.metadata.last_segment.bookies
    for other in others:
        cluster.partition(b0, other)
    await replace_volumes(cluster, b0)
    assert await said(judge, b0, writer.id) == UNKNOWN
    await asyncio.sleep(60)
    assert await said(judge, b0, writer.id) == UNKNOWN

    cluster.heal()
    await cluster.until_repaired(b0)
    assert await said(judge, b0, writer.id) == "E0"


@pytest.mark.parametrize("seed", SEEDS)
@EITHER_FORM
@story(on_cluster, client=PATIENT, open_ledger_grace_ms=60_000, given=("seed", "phase_one"))
async def test_clear_sealed_what_an_open_ledger_lost_is_unknown_until_somebody_else_decided_its_end(
    cluster: SimCluster,
) -> None:
    """b0 and b1 have E0; b0 loses it. Before the end is decided, a recovery asks b0 and b2 alone."""
    c1, c2, judge = await cluster.client("c1"), await cluster.client("c2"), await cluster.client("judge")
    writer = await c1(c1.client.create())
    b0, b1, b2 = writer.metadata.last_segment.bookies
    cluster.hold("c1", b2)
    await append(cluster, c1, writer)
    await replace_volumes(cluster, b0)
    await asyncio.sleep(30)
    assert not stored(cluster, writer.id).is_closed
    assert not has(cluster, b0, writer.id)
    assert await said(judge, b0, writer.id) == UNKNOWN

    c1.crash()
    cluster.partition(b1, b0)
    cluster.partition(b1, "c2")
    with pytest.raises((errors.QuorumNotReached, errors.LedgerRecoveryFailed, errors.UnknownLedgerState)):
        await c2(c2.client.open(writer.id))
    cluster.heal()
    await cluster.until_repaired(b0)
    assert await verify(cluster, writer.id) == [b"E0"]


@pytest.mark.parametrize("seed", SEEDS)
@EITHER_FORM
@story(on_cluster, bookies=4, client=PATIENT, given=("seed", "phase_one"))
async def test_collector_keeps_fences_of_ledgers_that_name_the_bookie_no_more(cluster: SimCluster) -> None:
    """b1 and b2 were fenced, and the ledger was closed without an entry. b1 loses its volumes, and b3 takes its place
    before it is back. Then it collects its garbage; the writer knows nothing of all this."""
    c1, c2 = await cluster.client("c1"), await cluster.client("c2")
    writer = await c1(c1.client.create())
    b0, b1, b2 = writer.metadata.last_segment.bookies
    for machine in (*cluster.bookies, "zk"):
        cluster.partition("c1", machine)
    cluster.partition("c2", b0)
    assert (await c2(c2.client.open(writer.id))).last_entry == -1
    lose(cluster.bookies[b1])
    await c2(Evacuation(c2.client.shared, [BookieId(b1)]).move(writer.id))
    assert not stored(cluster, writer.id).names(BookieId(b1))
    cluster.bookies[b1].start()
    await cluster.until_ready(b1)
    await asyncio.sleep(20)  # it collects every seven seconds
    assert is_fenced(cluster, b1, writer.id)

    cluster.heal()
    cluster.hold(b2, "c1")  # the other one that is fenced answers late
    with pytest.raises(BEHIND):
        await append(cluster, c1, writer)
