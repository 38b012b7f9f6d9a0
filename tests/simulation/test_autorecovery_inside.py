"""Auto-recovery inside the bookies' processes (autoRecoveryDaemonEnabled): it mends, and it never ends a bookie."""

from __future__ import annotations

import asyncio
import dataclasses

from bookie.base.ids import LedgerId
from bookie.client.repair.autorecovery import AutoRecovery
from bookie.client.repair.autorecovery_options import AutoRecoveryOptions
from bookie.metadata import paths
from bookie.ports.admin import State
from bookie.ports.metadata_store import ANY_VERSION
from bookie.ports.metrics import Sample
from bookie.sim import workload
from bookie.sim.cluster import ROOT, BookieNode, ClientNode, SimCluster
from bookie.sim.metadata_store import KEEPER_HOST
from sim_support import on_cluster
from story_support import story

QUICK = AutoRecoveryOptions(
    loss_delay_ms=5_000, check_interval_ms=20_000, return_grace_ms=5_000, open_ledger_grace_ms=10_000, poll_ms=1_000
)
SLOW = dataclasses.replace(QUICK, bytes_per_s=5, ledgers_at_once=1, entries_at_once=1)
LAYOUT = paths.replication_layout(ROOT)


async def closed_ledgers(cluster: SimCluster, client: ClientNode, count: int) -> list[LedgerId]:
    made = []
    for _ in range(count):
        writer = await client(client.client.create())
        for number in range(10):
            payload = b"entry %d of ledger %d" % (number, writer.id)
            cluster.oracle.acknowledged(writer.id, await client(writer.append(payload)), payload)
        await client(writer.close())
        made.append(writer.id)
    return made


def are_named(cluster: SimCluster, ledgers: list[LedgerId], bookie: BookieNode) -> bool:
    records = [cluster.metadata_of(each) for each in ledgers]
    return any(record is not None and record.names(bookie.options().bookie_id) for record in records)


def figure(bookie: BookieNode, name: str) -> float:
    """What a bookie's metrics say of the auto-recovery in its process; 0 where it tells nothing."""
    if bookie.process is None:
        return 0
    samples = [each for each in bookie.process.telemetry() if isinstance(each, Sample)]
    return next((each.value for each in samples if each.name == f"bookie_autorecovery_{name}"), 0)


def leading(cluster: SimCluster) -> list[BookieNode]:
    return [each for each in cluster.bookies.values() if figure(each, "is_auditor")]


@story(on_cluster, 27, bookies=5, autorecovery=QUICK)
async def test_bookies_mend_the_fleet_among_themselves_and_another_leads_when_the_auditor_is_lost(
    cluster: SimCluster,
) -> None:
    """The next auditor takes no writes: that is no reason not to look after the others."""
    client = await cluster.client("writer")
    switch = AutoRecovery(client.client.shared.ledgers.store, ROOT)
    ledgers = await closed_ledgers(cluster, client, 6)
    await cluster.until(lambda: len(leading(cluster)) == 1, "one of them to lead")
    (lost,) = leading(cluster)
    assert await client(switch.auditor()) == lost.name
    assert are_named(cluster, ledgers, lost)
    await cluster.until(
        lambda: all(figure(each, "runs") for each in cluster.bookies.values()), "auto-recovery in every bookie"
    )
    others = [each for each in cluster.bookies.values() if each is not lost]
    for each in others[:1]:
        assert each.process is not None
        await each.node.do(each.process.admin.set_read_only(True))

    lost.crash()
    await cluster.until(lambda: not are_named(cluster, ledgers, lost), "nothing names the lost one")

    await cluster.until(lambda: len(leading(cluster)) == 1, "another one to lead")
    assert figure(others[0], "runs") == 1
    assert others[0].state is State.READ_ONLY
    await cluster.until(lambda: sum(figure(each, "ledgers_mended_total") for each in others) >= 1, "the work counted")
    assert all(each.state is State.SERVING for each in others[1:])
    lost.wipe()
    await workload.verify(cluster, ledgers)


@story(on_cluster, 28, bookies=4, autorecovery=QUICK)
async def test_a_bookie_that_stops_in_order_gives_the_vote_back_at_once(cluster: SimCluster) -> None:
    client = await cluster.client("writer")
    switch = AutoRecovery(client.client.shared.ledgers.store, ROOT)
    await cluster.until(lambda: len(leading(cluster)) == 1, "one of them to lead")
    (first,) = leading(cluster)

    first.stop()
    await cluster.until(lambda: not first.is_running, "its end", timeout_s=5)

    assert first.ended is None
    assert await client(switch.auditor()) not in (None, first.name)


@story(on_cluster, 29, autorecovery=QUICK)
async def test_a_metadata_store_that_does_not_answer_keeps_no_stop_waiting(cluster: SimCluster) -> None:
    await cluster.until(lambda: len(leading(cluster)) == 1, "one of them to lead")
    (first,) = leading(cluster)
    cluster.partition(first.machine, KEEPER_HOST)

    first.stop()
    await cluster.until(lambda: not first.is_running, "its end", timeout_s=6)

    assert first.ended is None


@story(on_cluster, 30, autorecovery=QUICK)
async def test_auto_recovery_that_cannot_begin_ends_no_bookie_and_begins_once_it_can(cluster: SimCluster) -> None:
    """A queue of a form that nobody here knows is fatal for auto-recovery, and for nothing else."""
    client = await cluster.client("writer")
    store = client.client.shared.ledgers.store
    await cluster.until(lambda: bool(figure(cluster.bookies["bookie-1"], "runs")), "auto-recovery to run")
    stored = await client(store.get(LAYOUT))
    await client(store.put(LAYOUT, b"of a later release", ANY_VERSION))
    bookie = cluster.bookies["bookie-1"]
    bookie.crash()
    bookie.start()
    await cluster.until_ready(bookie.name)

    await cluster.until(lambda: figure(bookie, "failures_total") >= 3, "three attempts")
    assert not figure(bookie, "runs")
    assert bookie.state is State.SERVING
    ledgers = await closed_ledgers(cluster, client, 2)
    assert are_named(cluster, ledgers, bookie), "it takes adds meanwhile"

    await client(store.put(LAYOUT, stored.data, ANY_VERSION))
    await cluster.until(lambda: bool(figure(bookie, "runs")), "auto-recovery to begin after all")
    await workload.verify(cluster, ledgers)


@story(on_cluster, 31, autorecovery=QUICK)
async def test_an_outage_of_the_metadata_store_ends_neither_bookie_nor_auto_recovery(cluster: SimCluster) -> None:
    client = await cluster.client("writer")
    await cluster.until(lambda: len(leading(cluster)) == 1, "one of them to lead")
    (first,) = leading(cluster)
    cluster.partition(first.machine, KEEPER_HOST)
    await cluster.until(lambda: set(leading(cluster)) - {first} != set(), "another one to lead")
    cluster.heal()

    await cluster.until(lambda: bool(figure(first, "runs")), "its auto-recovery to go on")
    await cluster.until(lambda: first.is_ready, "the bookie to be registered again")
    await cluster.until(lambda: len(leading(cluster)) == 1, "the first one to know that it leads no more")
    await workload.verify(cluster, await closed_ledgers(cluster, client, 2))


@story(on_cluster, 32, bookies=4, autorecovery=SLOW)
async def test_another_copy_rate_reaches_auto_recovery_as_it_runs(cluster: SimCluster) -> None:
    """At this rate it takes minutes; what has its turn already keeps it."""
    client = await cluster.client("writer")
    ledgers = await closed_ledgers(cluster, client, 6)
    lost, *others = cluster.bookies.values()
    await cluster.until(lambda: all(figure(each, "runs") for each in others), "auto-recovery in every bookie")

    lost.crash()
    await cluster.until(lambda: any(figure(each, "ledgers_waiting") for each in others), "the marks")
    await asyncio.sleep(5)
    assert are_named(cluster, ledgers, lost)
    for each in others:
        assert each.process is not None
        await each.node.do(each.process.admin.change_settings({"copyRateBytesPerSecond": "none"}, operator_epoch=1))

    await cluster.until(lambda: not are_named(cluster, ledgers, lost), "nothing names the lost one", timeout_s=60)
