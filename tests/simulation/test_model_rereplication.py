"""Stories that the model tells of a re-replicator without a guard (`bookie.sim.model.guards`), played with the
product's own classes, which have it: the same schedule, and nothing is lost. docs/SIMULATION.md has the list of all.
"""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from accidents_support import lose, replace_volumes, verify
from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.client.repair.evacuation import Evacuation
from bookie.sim.cluster import SimCluster
from model_story_support import PATIENT, append, shown, stored
from sim_support import on_cluster
from story_support import story

SEEDS = range(3)


def taker_of(cluster: SimCluster, *others: BookieId) -> BookieId:
    (taker,) = set(cluster.bookies) - set(others)
    return BookieId(taker)


@pytest.mark.parametrize("seed", SEEDS)
@story(on_cluster, bookies=4, client=PATIENT, given=("seed",))
async def test_copy_before_naming_nobody_is_named_before_its_copies_are_there(cluster: SimCluster) -> None:
    """b0 and b1 have E0. b0 is lost; who gives its place to b3 cannot ask b1. Then b1 loses its volumes."""
    c1, mover, judge = await cluster.client("c1"), await cluster.client("mover"), await cluster.client("judge")
    writer = await c1(c1.client.create())
    b0, b1, b2 = writer.metadata.last_segment.bookies
    b3 = taker_of(cluster, b0, b1, b2)
    cluster.hold("c1", b2)
    await append(cluster, c1, writer)
    await c1(writer.close())
    c1.crash()
    lose(cluster.bookies[b0])
    cluster.partition("mover", b1)
    evacuation = Evacuation(mover.client.shared, [b0])
    with contextlib.suppress(errors.BookieError):
        await mover(evacuation.move(writer.id))

    for source, target in (("mover", b1), (b1, "mover")):
        cluster.release(source, target)
    await mover(evacuation.move(writer.id))
    assert stored(cluster, writer.id).last_segment.bookies == (b3, b1, b2)
    cluster.partition(b1, b3)
    await replace_volumes(cluster, b1)
    assert await shown(judge, writer.id) == [b"E0"]


@pytest.mark.parametrize("seed", SEEDS)
@story(on_cluster, bookies=4, client=PATIENT, given=("seed",))
async def test_replicator_by_cas_a_ledger_that_was_closed_meanwhile_stays_closed(cluster: SimCluster) -> None:
    """Entry 0 is on b0, b1 and b2, entry 1 on b0, b1 and b3. What b2 had is copied to b3 while the writer closes."""
    c1, mover = await cluster.client("c1"), await cluster.client("mover")
    writer = await c1(c1.client.create())
    b0, b1, b2 = writer.metadata.last_segment.bookies
    b3 = taker_of(cluster, b0, b1, b2)
    await append(cluster, c1, writer)
    lose(cluster.bookies[b2])
    await append(cluster, c1, writer, b"E1")
    await cluster.until(lambda: stored(cluster, writer.id).last_segment.bookies == (b0, b1, b3), "b3 is in for b2")
    cluster.hold("mover", b3)
    evacuation = Evacuation(mover.client.shared, [b2], may_end=False)
    moving = asyncio.ensure_future(mover(evacuation.move(writer.id)))
    await asyncio.sleep(1)
    assert not moving.done()
    await c1(writer.close())
    cluster.release("mover", b3)
    await moving

    ended = stored(cluster, writer.id)
    assert (ended.is_closed, ended.last_entry, ended.names(b2)) == (True, 1, False)
    assert await verify(cluster, writer.id) == [b"E0", b"E1"]
