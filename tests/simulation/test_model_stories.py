"""Stories that the model tells without a guard (`python -m bookie.sim.model --without NAME`), played with the product's
own classes, which have the guard: the same schedule, and nothing is lost.

docs/SIMULATION.md says where each is played.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from accidents_support import replace_volumes
from bookie.base import errors
from bookie.base.ids import BookieId, EntryId
from bookie.base.units import NS_PER_MS
from bookie.metadata.ledger import LedgerState
from bookie.sim.cluster import SimCluster
from bookie.sim.node import ProcessEnd
from model_story_support import shown
from sim_support import on_cluster
from story_support import story

QUIET: dict[str, Any] = {"explicit_lac_ms": 0, "request_timeout_ms": 8_000, "recovery_timeout_ms": 20_000}
SEEDS = range(3)


@pytest.mark.parametrize("seed", SEEDS)
@story(on_cluster, bookies=4, client=QUIET, given=("seed",))
async def test_void_acks_the_word_of_a_replaced_bookie_does_not_count(cluster: SimCluster) -> None:
    """b0 takes E0 and is replaced by b3; b1 takes E0: that is one acknowledgement. Then b1 loses its volumes."""
    c1 = await cluster.client("c1")
    writer = await c1(c1.client.create())
    b0, b1, b2 = writer.metadata.last_segment.bookies
    (b3,) = set(cluster.bookies) - {b0, b1, b2}
    for late in (b1, b2, b3):
        cluster.hold("c1", late)
    appending = asyncio.ensure_future(c1(writer.append(b"E0")))
    judge = await cluster.client("judge")

    async def has_it(bookie: str) -> bool:
        try:
            await judge(judge.client.bookies.read(BookieId(bookie), writer.id, EntryId(0)))
        except errors.BookieError:
            return False
        return True

    while not await has_it(b0):
        assert not appending.done()
    cluster.bookies[b0].crash(ProcessEnd.KILL)

    def is_replaced() -> bool:
        metadata = cluster.metadata_of(writer.id)
        return metadata is not None and b3 in metadata.last_segment.bookies

    await cluster.until(is_replaced, "b3 is in the place of b0")
    cluster.release("c1", b1)
    while not await has_it(b1):
        assert not appending.done()
    await asyncio.sleep(0.5)  # virtual: the answer of b1 arrives
    assert not appending.done()

    cluster.release("c1", b3)
    assert await appending == 0
    cluster.oracle.acknowledged(writer.id, EntryId(0), b"E0")
    c1.crash()
    await replace_volumes(cluster, b1)
    cluster.heal()
    cluster.bookies[b0].start()
    await cluster.until_ready(b0)
    assert await shown(judge, writer.id) == [b"E0"]


@pytest.mark.parametrize("seed", SEEDS)
@story(on_cluster, bookies=4, client=QUIET, given=("seed",))
async def test_limbo_in_recovery_a_bookie_that_a_recovery_brought_in_never_denies(cluster: SimCluster) -> None:
    """b3 takes E0 back from a recovery and loses it before the close names it: it must not say that it never had it.
    With an ack quorum of three the recovery cannot end without it."""
    c1, c2, judge = await cluster.client("c1"), await cluster.client("c2"), await cluster.client("judge")
    writer = await c1(c1.client.create(ensemble_size=3, write_quorum=3, ack_quorum=3))
    b0, _, b2 = writer.metadata.last_segment.bookies
    (b3,) = set(cluster.bookies) - set(writer.metadata.last_segment.bookies)
    assert await c1(writer.append(b"E0")) == 0
    cluster.oracle.acknowledged(writer.id, EntryId(0), b"E0")
    c1.crash()
    cluster.bookies[b2].crash(ProcessEnd.KILL)
    cluster.simulation.keeper.faults.latency_ns = 100 * NS_PER_MS  # the close is on its way for a while
    opening = asyncio.ensure_future(c2(c2.client.open(writer.id)))

    async def said_by_b3() -> str:
        try:
            return bytes(await judge(judge.client.bookies.read(BookieId(b3), writer.id, EntryId(0))))[-2:].decode()
        except errors.BookieError as error:
            return type(error).__name__

    while await said_by_b3() != "E0":
        assert not opening.done(), "the recovery ended without b3"
    cluster.partition("c2", "zk")  # it has written E0 back, and cannot close
    metadata = cluster.metadata_of(writer.id)
    assert metadata is not None
    assert metadata.state is LedgerState.IN_RECOVERY
    assert not metadata.names(BookieId(b3))
    await replace_volumes(cluster, b3)

    assert await said_by_b3() in ("UnknownLedgerState", "E0")
    cluster.heal()
    cluster.bookies[b2].start()
    await cluster.until_ready(b2)
    await asyncio.wait([opening])
    await cluster.until_repaired()
    reader = await judge(judge.client.open(writer.id))
    assert [bytes(entry.payload) for entry in await judge(reader.read(0, reader.last_entry))] == [b"E0"]
    opening.exception()
    assert b0 in reader.metadata.last_segment.bookies
