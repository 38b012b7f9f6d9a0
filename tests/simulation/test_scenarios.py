"""The accidents of BP-46, told step by step on whole clusters: what must not happen does not, and without the guard
that prevents it, the simulator sees it happen. The names are spec/bp46.md#T1 to T14; those that end otherwise
with Java's bookies are told in `test_java_accidents.py` and `test_java_outcomes.py`, the rest in
`test_integrity_boot.py`.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import legacy_support
from accidents_support import QUIET, append, replace_volumes, verify
from bookie.base import errors
from bookie.base.units import NS_PER_MS
from bookie.integrity.options import BOUND, SCAN
from bookie.ports.admin import State
from bookie.sim.cluster import SimCluster
from bookie.sim.node import Defect, ProcessEnd
from sim_support import on_cluster
from story_support import story

SEEDS = range(3)
EITHER_FORM = pytest.mark.parametrize("phase_one", [SCAN, BOUND])


async def a_fenced_writer_comes_back_after_a_bookie_lost_the_fence(cluster: SimCluster, *, entries: int) -> str:
    """Scenario 1 of the proposal. bookie-2 never hears of the fence; bookie-1 heard of it and loses its volumes."""
    c1, c2 = await cluster.client("c1"), await cluster.client("c2")
    writer = await c1(c1.client.create())
    for number in range(entries):
        await append(cluster, c1, writer, b"entry %d" % number)
    for machine in (*cluster.bookies, "zk"):
        cluster.partition("c1", machine)
    cluster.partition("c2", "bookie-2")
    await c2(c2.client.open(writer.id))
    await replace_volumes(cluster, "bookie-1")
    cluster.heal()
    cluster.hold("bookie-0", "c1")  # the one bookie that remembers the fence answers late
    try:
        await append(cluster, c1, writer, b"one more")
    except (errors.LedgerFenced, errors.LedgerClosed) as error:
        return type(error).__name__
    return "acknowledged"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("entries", [0, 3])
@EITHER_FORM
def test_t2_a_writer_is_fenced_although_a_bookie_lost_the_fence_with_its_volumes(
    seed: int, entries: int, phase_one: str
) -> None:
    cluster = SimCluster(seed, client=QUIET, phase_one=phase_one)

    outcome = cluster.run(lambda it: a_fenced_writer_comes_back_after_a_bookie_lost_the_fence(it, entries=entries))
    assert outcome in ("LedgerFenced", "LedgerClosed")


@pytest.mark.parametrize("seed", SEEDS)
def test_t2_without_the_fence_of_phase_one_the_simulator_sees_an_entry_acknowledged_after_the_end(seed: int) -> None:
    """With no entry written before: a writer that had a connection to bookie-1 would see it break and look again."""
    cluster = SimCluster(seed, client=QUIET, guard_fence=False)

    with pytest.raises(Defect, match="S1: ledger 0 ends at -1 and acknowledged entry 0 after it"):
        cluster.run(lambda it: a_fenced_writer_comes_back_after_a_bookie_lost_the_fence(it, entries=0))


def test_t2_a_java_bookie_fences_no_closed_ledger_and_takes_the_entry() -> None:
    """What our writer does in an accident of Java's: it knew no bookie yet, so that no connection of its breaks."""
    cluster = legacy_support.all_java(SimCluster(1, client=QUIET))

    with pytest.raises(Defect, match="S7: bookie-1 answered a fence of ledger 0, then accepted entry 0"):
        cluster.run(lambda it: a_fenced_writer_comes_back_after_a_bookie_lost_the_fence(it, entries=0))


async def recovery_begins_after_a_bookie_lost_an_acknowledged_entry(cluster: SimCluster) -> str:
    """Scenario 2 of the proposal. E0 is on bookie-0 and bookie-2; bookie-0 loses it; bookie-2 is out of reach."""
    c1, c2 = await cluster.client("c1"), await cluster.client("c2")
    writer = await c1(c1.client.create())
    cluster.hold("c1", "bookie-1")
    await append(cluster, c1, writer, b"E0")
    c1.crash()
    cluster.bookies["bookie-0"].crash(ProcessEnd.KILL)
    cluster.partition("bookie-2", "bookie-0")
    cluster.partition("bookie-2", "c2")
    cluster.bookies["bookie-0"].start()
    await cluster.until_ready("bookie-0")
    try:
        reader = await c2(c2.client.open(writer.id))
        return f"closed at {reader.last_entry}"
    except (errors.QuorumNotReached, errors.LedgerRecoveryFailed, errors.UnknownLedgerState) as error:
        refusal = type(error).__name__
    cluster.heal()
    await cluster.until_repaired()
    assert await verify(cluster, writer.id) == [b"E0"]
    return refusal


T3: dict[str, Any] = {"client": QUIET, "flush_interval_ms": 3_600_000}


@pytest.mark.parametrize("seed", SEEDS)
def test_t3_recovery_waits_rather_than_close_before_an_entry_that_a_bookie_may_have_lost(seed: int) -> None:
    outcome = SimCluster(seed, **T3).run(recovery_begins_after_a_bookie_lost_an_acknowledged_entry)

    assert outcome in ("QuorumNotReached", "LedgerRecoveryFailed", "UnknownLedgerState")


@pytest.mark.parametrize("seed", SEEDS)
def test_t3_without_limbo_the_simulator_sees_the_ledger_closed_before_an_acknowledged_entry(seed: int) -> None:
    with pytest.raises(Defect, match="S1: ledger 0 was closed at -1 and entry 0 was acknowledged"):
        SimCluster(seed, guard_limbo=False, **T3).run(recovery_begins_after_a_bookie_lost_an_acknowledged_entry)


def test_t3_a_java_bookie_denies_the_entry_beside_its_marks() -> None:
    cluster = legacy_support.all_java(SimCluster(1, **T3))

    with pytest.raises(Defect, match="S8: bookie-0 acknowledged entry 0 of ledger 0 and now denies it"):
        cluster.run(recovery_begins_after_a_bookie_lost_an_acknowledged_entry)


async def a_fence_outlives(cluster: SimCluster, *, how: ProcessEnd | None, idle_s: float) -> str:
    """A ledger is fenced and closed by recovery; every bookie that heard of it restarts; the old writer comes back."""
    c1, c2 = await cluster.client("c1"), await cluster.client("c2")
    writer = await c1(c1.client.create())
    await append(cluster, c1, writer, b"E0")
    cluster.partition("c1", "zk")
    await c2(c2.client.open(writer.id))
    await asyncio.sleep(idle_s)
    for bookie in cluster.bookies.values():
        if how is None:
            bookie.stop()
            await cluster.until(lambda bookie=bookie: not bookie.is_running, "stopped")  # type: ignore[misc]
        else:
            bookie.crash(how)
        bookie.start()
        await cluster.until_ready(bookie.name)
    cluster.heal()
    try:
        await append(cluster, c1, writer, b"E1")
    except (errors.LedgerFenced, errors.LedgerClosed):
        return "refused"
    return "acknowledged"


@pytest.mark.parametrize("seed", [7])
@pytest.mark.parametrize("journaled", [True, False])
@pytest.mark.parametrize("how", [ProcessEnd.KILL, ProcessEnd.POWER_CUT, None], ids=["kill", "power cut", "clean stop"])
@pytest.mark.parametrize("idle_s", [0.0, 60.0], ids=["at once", "after idle checkpoints"])
def test_t1_t4_t5_a_fence_outlives_every_restart(
    seed: int, journaled: bool, how: ProcessEnd | None, idle_s: float
) -> None:
    """spec/bp46.md#T1 (unflushed operations lost), spec/bp46.md#T4 (idle checkpoint, then kill), spec/bp46.md#T5 (clean
    stop)."""
    cluster = SimCluster(seed, journal_write_data=journaled, client=QUIET)

    assert cluster.run(lambda cluster: a_fence_outlives(cluster, how=how, idle_s=idle_s)) == "refused"


@pytest.mark.parametrize("seed", SEEDS)
def test_t14_a_live_writer_goes_on_with_another_bookie_when_one_restarts_unclean(seed: int) -> None:
    async def story(cluster: SimCluster) -> int:
        c1 = await cluster.client("c1")
        writer = await c1(c1.client.create())
        for number in range(5):
            await append(cluster, c1, writer, b"before %d" % number)
        victim = cluster.bookies[writer.metadata.last_segment.bookies[0]]
        victim.crash()
        victim.start()
        await cluster.until_ready(victim.name)
        for number in range(5):
            await append(cluster, c1, writer, b"after %d" % number)
        await c1(writer.close())
        return len(await verify(cluster, writer.id))

    assert SimCluster(seed, bookies=4).run(story) == 10


@pytest.mark.parametrize("seed", SEEDS)
@EITHER_FORM
@story(on_cluster, regeneration="gated", given=("seed", "phase_one"))
async def test_a_wiped_bookie_waits_for_its_grant_then_copies_everything_back(cluster: SimCluster) -> None:
    c1 = await cluster.client("c1")
    writer = await c1(c1.client.create())
    for number in range(20):
        await append(cluster, c1, writer, b"entry %d" % number)
    await c1(writer.close())
    victim = cluster.bookies["bookie-0"]
    victim.crash()
    victim.wipe()
    victim.start()
    await cluster.until(lambda: victim.state is State.WAITING_GRANT, "bookie-0 waits for a grant")
    await asyncio.sleep(60)
    assert not victim.is_ready
    await victim.grant()
    await cluster.until_repaired("bookie-0")
    for other in ("bookie-1", "bookie-2"):
        cluster.bookies[other].crash()
    reader = await c1(c1.client.open(writer.id))
    assert len(await c1(reader.read(0, 19))) == 20


def test_a_recovery_does_not_spin_on_a_bookie_that_is_gone_and_still_registered() -> None:
    """Found by seed 0x10: the write-back tried the dead bookie again in its own slot, at once, for ever."""

    async def story(cluster: SimCluster) -> int:
        c1, c2 = await cluster.client("c1"), await cluster.client("c2")
        writer = await c1(c1.client.create())
        await append(cluster, c1, writer, b"E0")
        c1.crash()
        cluster.bookies["bookie-1"].crash(ProcessEnd.KILL)
        before = cluster.simulation.loop.steps
        assert (await c2(c2.client.open(writer.id))).last_entry == 0
        return cluster.simulation.loop.steps - before

    assert SimCluster(1, client=QUIET).run(story) < 20_000


def test_a_writer_gives_up_when_two_of_three_bookies_lost_its_ledger_and_refuse_for_good() -> None:
    """Found by seed 0x1c: both took their slots back, refused again, and the writer tried for ever."""

    async def story(cluster: SimCluster) -> float:
        c1 = await cluster.client("c1")
        writer = await c1(c1.client.create())
        await append(cluster, c1, writer, b"E0")
        for name in ("bookie-0", "bookie-1"):
            cluster.bookies[name].crash(ProcessEnd.KILL)
            cluster.bookies[name].start()
            await cluster.until_ready(name)
        before = cluster.simulation.loop.time()
        with pytest.raises(errors.NotEnoughBookies):
            await append(cluster, c1, writer, b"E1")
        return cluster.simulation.loop.time() - before

    assert SimCluster(1, open_ledger_grace_ms=600_000).run(story) < 60


@pytest.mark.parametrize("after_s", [number / 20 for number in range(24)])
@story(on_cluster, 1)
async def test_a_bookie_outlives_a_metadata_store_that_falls_silent_at_any_time_after_it_began(
    cluster: SimCluster, *, after_s: float
) -> None:
    """Found by seeds 0x26 (as it begins to repair) and 0x993a51c (as it opens the list of ledgers, to forget those that
    were deleted): the bookie stopped, and lost what it had not flushed."""
    bookie = cluster.bookies["bookie-1"]
    bookie.crash(ProcessEnd.KILL)
    cluster.simulation.dials.metadata.latency_ns = 100 * NS_PER_MS
    bookie.start()
    await cluster.until(lambda: bookie.process is not None and bookie.process.port > 0, "the data port is open")
    await asyncio.sleep(after_s)
    cluster.partition("bookie-1", "zk")
    await asyncio.sleep(25)
    assert bookie.is_running
    cluster.heal()
    await cluster.until_repaired("bookie-1")


@story(on_cluster, 1)
async def test_a_bookie_that_its_metadata_store_ends_takes_nothing_of_what_it_acknowledged_with_it(
    cluster: SimCluster,
) -> None:
    """An outage there may end every bookie of a fleet at once; none of their disks is to blame."""
    client = await cluster.client("client")
    writer = await client(client.client.create())
    for number in range(5):
        await append(cluster, client, writer, b"entry %d" % number)
    for bookie in cluster.bookies.values():
        assert bookie.process is not None
        bookie.process.fail(errors.MetadataError("the metadata store is gone for good"))
    await cluster.until(lambda: not any(bookie.is_running for bookie in cluster.bookies.values()), "all ended")
    for bookie in cluster.bookies.values():
        bookie.start()
    await cluster.until_ready()
    assert len(await verify(cluster, writer.id)) == 5


@EITHER_FORM
@story(on_cluster, 25, given=("phase_one",))
async def test_t14_a_living_writer_is_not_taken_for_dead_by_a_bookie_that_cannot_ask_the_others(
    cluster: SimCluster,
) -> None:
    """It comes back empty, sees the metadata store alone, and no other bookie: what it cannot read is no silence."""
    client = await cluster.client("writer")
    writer = await client(client.client.create())
    await append(cluster, client, writer, b"before")
    emptied = cluster.bookies["bookie-1"]
    emptied.crash()
    emptied.wipe()
    emptied.start()
    for other in ("bookie-0", "bookie-2", "writer"):
        cluster.partition("bookie-1", other)
    for number in range(60):
        await append(cluster, client, writer, b"entry %d" % number)
        await asyncio.sleep(1)
    assert emptied.state is State.REPAIRING
    cluster.heal()

    await append(cluster, client, writer, b"after")
    await client(writer.close())
    await cluster.until_repaired("bookie-1")
    await verify(cluster, writer.id)
