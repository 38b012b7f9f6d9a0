"""What many small ledgers cost a bookie that lost its volumes: its repair, and every collection from then on, ask the
metadata store for each, and must not do so one after the other."""

from __future__ import annotations

import pytest

from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.integrity.options import BOUND, SCAN
from bookie.metadata import ledger, paths, serde
from bookie.metadata.ledger import LedgerMetadata
from bookie.ports.admin import Compaction, State
from bookie.sim.cluster import ROOT, BookieNode, SimCluster

ME = "bookie-0"
# An answer of the simulated metadata store takes some three milliseconds, of one that is asked for nothing else.
LEAST_A_SECOND = 1_000


def closed(*bookies: str) -> LedgerMetadata:
    """The record of a ledger that ended without an entry: what it costs is metadata alone."""
    names = tuple(BookieId(each) for each in bookies)
    opened = ledger.new_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2, bookies=names)
    return opened.closed(EntryId(-1), 0)


def lay(cluster: SimCluster, count: int, record: LedgerMetadata) -> None:
    data = serde.dump_ledger(record)
    for number in range(count):
        path = paths.ledger_path(ROOT, LedgerId(number))
        cluster.simulation.keeper.tree.create(path, data, now_ms=0, owner=0, sequential=False, parents=True)


async def lose_volumes(cluster: SimCluster) -> BookieNode:
    """Only this bookie goes on, so that what the store is asked, it asks."""
    bookie = cluster.bookies[ME]
    for each in cluster.bookies.values():
        each.crash()
    bookie.wipe()
    sign = paths.process(ROOT, BookieId(ME))
    await cluster.until(lambda: sign not in cluster.simulation.keeper.tree.nodes, "its session ended")
    await cluster.simulation.loop.sleep_ns(30_000_000_000)
    bookie.start()
    await cluster.until(lambda: bookie.is_ready, "it serves")
    return bookie


async def cost_of_the_repair(cluster: SimCluster, count: int) -> tuple[int, float]:
    """(what was asked of the metadata store, virtual seconds) from serving until nothing is in limbo."""
    lay(cluster, count, closed(ME, "bookie-1", "bookie-2"))
    bookie = await lose_volumes(cluster)
    keeper, loop = cluster.simulation.keeper, cluster.simulation.loop
    calls, began_ns = keeper.calls, loop.now_ns
    assert bookie.state is State.REPAIRING
    await cluster.until_repaired(ME)
    return keeper.calls - calls, (loop.now_ns - began_ns) / 1e9


async def cost_of_a_collection(cluster: SimCluster, count: int) -> tuple[int, float]:
    """The same of one collection, once the bookie has a fence of every ledger, of which none names it."""
    lay(cluster, count, closed("b7", "b8", "b9"))
    bookie = await lose_volumes(cluster)
    await cluster.until_repaired(ME)
    assert bookie.process is not None
    keeper, loop = cluster.simulation.keeper, cluster.simulation.loop
    calls, began_ns = keeper.calls, loop.now_ns
    found = await bookie.node.do(bookie.process.admin.collect_garbage(Compaction.NONE))
    assert found.ledgers_seen == count
    return keeper.calls - calls, (loop.now_ns - began_ns) / 1e9


@pytest.mark.parametrize(("phase_one", "reads"), [(SCAN, 1), (BOUND, 2)])
def test_a_repair_of_many_small_ledgers_reads_each_record_and_syncs_for_many(phase_one: str, reads: int) -> None:
    """With a bound each ledger in doubt is examined first, by a read of its own."""
    cluster = SimCluster(61, bookies=3, phase_one=phase_one)

    calls, seconds = cluster.run(lambda it: cost_of_the_repair(it, 300))

    assert calls <= 300 * (reads + 0.2)
    assert seconds <= 300 / LEAST_A_SECOND


def test_a_collection_asks_for_many_fenced_ledgers_at_once() -> None:
    cluster = SimCluster(62, bookies=3)

    calls, seconds = cluster.run(lambda it: cost_of_a_collection(it, 300))

    assert calls <= 300 + 20
    assert seconds <= 300 / LEAST_A_SECOND
