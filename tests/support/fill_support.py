"""Bookies of a simulated cluster that come, go, and have what they should have again."""

from __future__ import annotations

from bookie.client.write.writer import LedgerWriter
from bookie.ports.admin import FillStatus
from bookie.sim.cluster import BookieNode, ClientNode, SimCluster


async def written(cluster: SimCluster, client: ClientNode, writer: LedgerWriter, count: int) -> None:
    for _ in range(count):
        payload = b"entry after %d of ledger %d" % (writer.last_confirmed, writer.id)
        entry_id = await client(writer.append(payload))
        cluster.oracle.acknowledged(writer.id, entry_id, payload)


async def away(cluster: SimCluster, bookie: BookieNode) -> None:
    bookie.stop()
    await cluster.until(lambda: not bookie.is_running, f"{bookie.name} stops")


async def back(cluster: SimCluster, bookie: BookieNode) -> None:
    bookie.start()
    await cluster.until_ready(bookie.name)


def status(bookie: BookieNode) -> FillStatus:
    assert bookie.process is not None
    assert bookie.process.admin.filling is not None
    return bookie.process.admin.filling.status()


async def until_whole(cluster: SimCluster, *bookies: BookieNode) -> None:
    for bookie in bookies:
        await cluster.until(lambda bookie=bookie: status(bookie).is_whole, f"{bookie.name} is whole")
