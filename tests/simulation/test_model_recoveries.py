"""Stories that the model tells of a recovery and a writer without a guard (`bookie.sim.model.guards`), played with the
product's own classes, which have it: the same schedule, and nothing is lost. docs/SIMULATION.md has the list of all.
"""

from __future__ import annotations

import asyncio

import pytest

from accidents_support import replace_volumes, verify
from bookie.base import errors
from bookie.base.ids import EntryId
from bookie.base.units import NS_PER_MS
from bookie.metadata import paths, serde
from bookie.metadata.ledger import LedgerState
from bookie.sim.cluster import ROOT, SimCluster
from bookie.sim.node import ProcessEnd
from model_story_support import BEHIND, PATIENT, append, has, is_fenced, shown, stored, taken_by_one_alone, until
from sim_support import on_cluster
from story_support import story

SEEDS = range(3)


@pytest.mark.parametrize("seed", SEEDS)
@story(on_cluster, client=PATIENT, given=("seed",))
async def test_negative_quorum_one_denial_does_not_end_a_ledger(cluster: SimCluster) -> None:
    """b0 and b1 have E0. The recovery fences b2 and b0; b2 denies E0; then it hears of b0 and b1 no more."""
    c1, c2 = await cluster.client("c1"), await cluster.client("c2")
    writer = await c1(c1.client.create())
    b0, b1, b2 = writer.metadata.last_segment.bookies
    cluster.hold("c1", b2)
    await append(cluster, c1, writer)
    c1.crash()
    cluster.partition("c2", b1)

    opening = asyncio.ensure_future(c2(c2.client.open(writer.id)))
    await until(cluster, lambda: is_fenced(cluster, b0, writer.id) and is_fenced(cluster, b2, writer.id))
    cluster.hold("c2", b0)
    with pytest.raises((errors.LedgerRecoveryFailed, errors.QuorumNotReached)):
        await opening

    cluster.heal()
    assert await verify(cluster, writer.id) == [b"E0"]


@pytest.mark.parametrize("seed", SEEDS)
@story(on_cluster, client=PATIENT, given=("seed",))
async def test_reads_fence_who_denies_an_entry_to_a_recovery_does_not_take_it_afterwards(cluster: SimCluster) -> None:
    """b0 has E0. The recovery fences b0 and b1, and cannot reach b2 for that. b1 and b2 deny E0, and then it comes to
    b2: with b0 that would be an ack quorum behind the end."""
    c1, c2 = await cluster.client("c1"), await cluster.client("c2")
    first, writer = await c1(c1.client.create()), await c1(c1.client.create())
    await c1(first.append(b"so that it is connected with all"))
    await c1(first.close())
    appending, (b0, b1, b2) = await taken_by_one_alone(cluster, c1, writer)
    cluster.partition("c2", b2)

    opening = asyncio.ensure_future(c2(c2.client.open(writer.id)))
    await until(cluster, lambda: is_fenced(cluster, b0, writer.id) and is_fenced(cluster, b1, writer.id))
    cluster.hold("c2", b0)
    await asyncio.sleep(3.5)  # the fence of b2 is given up
    for source, target in (("c2", b2), (b2, "c2")):
        cluster.release(source, target)
    assert not is_fenced(cluster, b2, writer.id)
    assert (await opening).last_entry == -1

    cluster.release("c1", b2)
    with pytest.raises(BEHIND):
        await appending


@pytest.mark.parametrize("seed", SEEDS)
@story(on_cluster, client=PATIENT, journal_write_data=True, given=("seed",))
async def test_write_back_what_a_recovery_found_is_on_an_ack_quorum_before_it_counts(cluster: SimCluster) -> None:
    """b0 alone has E0, and shows it. b1 and b2, whose disks are slow, have it in memory when the power goes; then b0
    loses its volumes."""
    c1, c2 = await cluster.client("c1"), await cluster.client("c2")
    writer = await c1(c1.client.create())
    appending, (b0, *others) = await taken_by_one_alone(cluster, c1, writer)
    c1.crash()
    await asyncio.wait([appending])
    cluster.partition("c2", b0)

    opening = asyncio.ensure_future(c2(c2.client.open(writer.id)))
    await until(cluster, lambda: all(is_fenced(cluster, each, writer.id) for each in others))
    await asyncio.sleep(0.1)  # durably
    for other in others:
        cluster.bookies[other].node.disk_faults.sync_latency_ns = 5_000 * NS_PER_MS
    for source, target in (("c2", b0), (b0, "c2")):
        cluster.release(source, target)
    await until(cluster, lambda: all(has(cluster, each, writer.id) for each in others))
    await asyncio.sleep(1)
    for other in others:
        cluster.bookies[other].crash(ProcessEnd.POWER_CUT)
        cluster.bookies[other].node.disk_faults.sync_latency_ns = NS_PER_MS
        cluster.bookies[other].start()
    await cluster.until_ready(*others)
    assert (await opening).last_entry == 0
    await replace_volumes(cluster, b0)
    for other in others:
        cluster.partition(b0, other)

    assert await shown(c2, writer.id) == [b"E0"]


@pytest.mark.parametrize("seed", SEEDS)
@story(on_cluster, bookies=4, client=PATIENT, given=("seed",))
async def test_change_by_cas_a_change_that_a_recovery_overtook_does_not_open_the_ledger_again(
    cluster: SimCluster,
) -> None:
    """b0 is gone. While the writer's record with b3 in its place is on its way, the ledger is closed."""
    c1 = await cluster.client("c1")
    writer = await c1(c1.client.create())
    b0, b1, b2 = writer.metadata.last_segment.bookies
    cluster.bookies[b0].crash(ProcessEnd.KILL)
    for late in (b1, b2):
        cluster.hold("c1", late)
    path, keeper = paths.ledger_path(ROOT, writer.id), cluster.simulation.keeper

    def close_it_first(host: str, what: str) -> None:
        if (host, what) == ("c1", f"put {path}") and not stored(cluster, writer.id).is_closed:
            closed = stored(cluster, writer.id).in_recovery().closed(EntryId(-1), 0)
            keeper.tree.put(path, serde.dump_ledger(closed), -1, now_ms=keeper.now_ms())

    keeper.strike = close_it_first
    with pytest.raises(BEHIND):
        await append(cluster, c1, writer)

    ended = stored(cluster, writer.id)
    assert (ended.is_closed, ended.last_segment.bookies) == (True, (b0, b1, b2))


@pytest.mark.parametrize("seed", SEEDS)
@story(on_cluster, client=PATIENT, given=("seed",))
async def test_close_by_cas_a_writer_does_not_overrule_the_end_that_a_recovery_found(cluster: SimCluster) -> None:
    """b0 has E0, of which the application heard nothing. A recovery finds it; the writer would close before it."""
    c1, c2 = await cluster.client("c1"), await cluster.client("c2")
    writer = await c1(c1.client.create())
    appending, (_, b1, b2) = await taken_by_one_alone(cluster, c1, writer)
    cluster.partition("c1", "zk")
    assert (await c2(c2.client.open(writer.id))).last_entry == 0
    for late in (b1, b2):
        cluster.release("c1", late)
    closing = asyncio.ensure_future(c1(writer.close()))
    await asyncio.sleep(1)
    cluster.heal()

    for ended in (appending, closing):
        with pytest.raises(BEHIND):
            await ended
    assert (stored(cluster, writer.id).state, stored(cluster, writer.id).last_entry) == (LedgerState.CLOSED, 0)
    assert await verify(cluster, writer.id) == [b"E0"]
