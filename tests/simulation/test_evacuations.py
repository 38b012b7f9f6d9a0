"""Accidents of an evacuation, step by step: who is named in another's place holds what it should (`sim.replicas`).

Random ones: `test_swarm`, with `retiring`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, LedgerId
from bookie.client.repair.evacuation import Evacuation
from bookie.client.repair.replication_lock import LockLost
from bookie.ports.admin import State
from bookie.sim import retirement, workload
from bookie.sim.cluster import URI, BookieNode, ClientNode, SimCluster
from bookie.sim.replicas import Replicas
from sim_support import on_cluster
from story_support import story

ENTRIES = 40


class Stage:
    """One closed ledger on three of four bookies, the first of which is to leave; so all goes to the fourth."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.replicas = Replicas(
            cluster.simulation.violation, lambda name: retirement.entry_store(cluster.bookies[name])
        )
        cluster.ledger_observers.append(self.replicas.metadata_changed)
        self.mover: ClientNode
        self.ledger_id: LedgerId
        self.leaver: BookieId
        self.taker: BookieNode

    async def set(self) -> None:
        writer_node = await self.cluster.client("writer")
        writer = await writer_node(writer_node.client.create())
        for number in range(ENTRIES):
            payload = b"entry %d" % number
            entry_id = await writer_node(writer.append(payload))
            self.cluster.oracle.acknowledged(writer.id, entry_id, payload)
        await writer_node(writer.close())
        ensemble = writer.metadata.last_segment.bookies
        self.ledger_id, self.leaver = writer.id, ensemble[0]
        self.taker = next(node for name, node in self.cluster.bookies.items() if name not in ensemble)
        self.mover = await self.cluster.client("mover")

    def moving(self, bytes_per_s: int | None = None) -> asyncio.Future[None]:
        evacuation = Evacuation(self.mover.client.shared, [self.leaver], bytes_per_s=bytes_per_s)
        return asyncio.ensure_future(self.mover(evacuation.move(self.ledger_id)))

    def copies(self) -> int:
        """Entries that the taker has."""
        store = retirement.entry_store(self.taker)
        return 0 if store is None else sum(store.has_entry(self.ledger_id, number) for number in range(ENTRIES))  # type: ignore[arg-type]

    def names(self, bookie_id: BookieId) -> bool:
        metadata = self.cluster.metadata_of(self.ledger_id)
        assert metadata is not None
        return metadata.names(bookie_id)

    async def end(self) -> None:
        assert self.names(BookieId(self.taker.name))
        assert not self.names(self.leaver)
        await self.cluster.until_repaired(*[name for name in self.cluster.bookies if name != self.leaver])
        self.replicas.check_all()
        assert self.replicas.promised >= 1
        self.cluster.bookies[self.leaver].crash()
        self.cluster.bookies[self.leaver].wipe()
        await workload.verify(self.cluster, [self.ledger_id])


@pytest.mark.parametrize("seed", range(3))
@story(on_cluster, bookies=4, keep_trace=True, client={"session_timeout_ms": 60_000}, given=("seed",))
async def test_a_bookie_that_loses_its_disks_before_it_is_named_is_not_named_for_what_it_lost(
    cluster: SimCluster,
) -> None:
    """It took the copies, forced them, said which life it was; its next life's phase one looks at all ledgers, and this
    one does not name it yet. The change arrives after that look, before the next life begins."""
    stage = Stage(cluster)
    await stage.set()
    dials = cluster.simulation.dials.metadata
    moving = stage.moving(bytes_per_s=1_000)
    await cluster.until(lambda: stage.copies() == ENTRIES, "every copy")
    dials.lost_request_per_million = 1_000_000  # the change, and nothing else is on its way
    await cluster.until(lambda: is_told(cluster, "lost request"), "the change to be lost on its way")
    dials.lost_request_per_million = 0
    cluster.partition("mover", "zk")
    stage.taker.crash()
    stage.taker.wipe()
    stage.taker.start()
    await cluster.until(lambda: stage.taker.state is State.STAMPING, "its phase one to end")
    cluster.heal()  # and so the change is tried again
    with contextlib.suppress(BookieError):  # the taker does not answer yet
        await moving
    async with asyncio.timeout(60):
        while not stage.names(BookieId(stage.taker.name)):
            with contextlib.suppress(errors.NotEnoughBookies, errors.BookieUnavailable):
                await stage.moving()
            await asyncio.sleep(1)
    await stage.end()


def is_told(cluster: SimCluster, what: str) -> bool:
    return any(what in line for line in cluster.simulation.trace.table())


@pytest.mark.parametrize("seed", range(3))
@story(on_cluster, bookies=4, given=("seed",))
async def test_copies_that_were_thrown_away_as_surplus_while_the_lock_was_lost_are_made_again(
    cluster: SimCluster,
) -> None:
    stage = Stage(cluster)
    await stage.set()
    node = cluster.simulation.node("surplus", ())
    store = await node.do(node.begin().metadata_stores.connect(URI))
    moving = stage.moving(bytes_per_s=150)  # so slow that the next session has begun when it is done
    await cluster.until(lambda: stage.copies() >= ENTRIES // 2, "half of the copies")
    assert await node.do(retirement.collect_surplus(store, stage.taker)) == 0  # the lock is held
    session = stage.mover.client.shared.ledgers.store
    expired = session.session_id
    cluster.simulation.keeper.end_session(expired)
    assert await node.do(retirement.collect_surplus(store, stage.taker)) == 1

    with pytest.raises(LockLost):
        await moving
    assert stage.names(stage.leaver)
    await cluster.until(lambda: session.session_id != expired, "the next session")
    await stage.moving()
    await stage.end()


@story(on_cluster, 1, bookies=5)
async def test_a_bookie_is_emptied_under_a_writer_that_goes_on(cluster: SimCluster) -> None:
    """What was sealed moves, the last segment is ended first: the writer learns it and loses nothing."""
    plan = workload.draw(random.Random(1), bookies=5)
    load = workload.Workload(cluster, plan)
    stage = Stage(cluster)
    await stage.set()
    load.start()
    await asyncio.sleep(5)
    for _ in range(3):
        evacuation = Evacuation(stage.mover.client.shared, [stage.leaver])
        found = await stage.mover(_found(evacuation))
        await stage.mover(evacuation.move_many(found, lambda _: None))
    await load.stop(timeout_s=60)
    assert stage.replicas.promised > 1
    stage.replicas.check_all()
    await workload.verify(cluster, [*load.ledgers, stage.ledger_id])


async def _found(evacuation: Evacuation) -> list[LedgerId]:
    return [named.ledger_id async for named in evacuation.look() if named is not None]
