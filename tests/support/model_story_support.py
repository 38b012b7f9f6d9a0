"""What the stories of the model are played with: who has an entry, who is fenced, what one bookie says of an entry."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from bookie.base import errors
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.base.units import NS_PER_US
from bookie.client import LedgerWriter
from bookie.metadata.ledger import LedgerMetadata
from bookie.sim.cluster import BookieNode, ClientNode, SimCluster
from bookie.sim.node import ProcessEnd
from bookie.sim.retirement import entry_store

# Long enough for an add or a read to wait while the others act; and no explicit LAC tells a recovery of an entry.
PATIENT: dict[str, Any] = {"explicit_lac_ms": 0, "request_timeout_ms": 20_000, "recovery_timeout_ms": 20_000}
# What a writer hears whose ledger others have fenced, or ended.
BEHIND = (errors.LedgerFenced, errors.LedgerClosed)
# Less than a sync of the journal takes, which every fence and its answer wait for.
_LOOK_NS = 300 * NS_PER_US


async def until(cluster: SimCluster, condition: Callable[[], bool]) -> None:
    """Wait for `condition`, and return before anybody hears of a fence that came meanwhile."""
    async with asyncio.timeout(60):
        while not condition():
            await cluster.simulation.loop.sleep_ns(_LOOK_NS)


def has(cluster: SimCluster, bookie: str, ledger_id: LedgerId, entry_id: int = 0) -> bool:
    store = entry_store(cluster.bookies[bookie])
    return store is not None and store.has_entry(ledger_id, EntryId(entry_id))


def is_fenced(cluster: SimCluster, bookie: str, ledger_id: LedgerId) -> bool:
    store = entry_store(cluster.bookies[bookie])
    facts = None if store is None else store.facts(ledger_id)
    return facts is not None and facts.is_fenced


async def taken_by_one_alone(
    cluster: SimCluster, client: ClientNode, writer: LedgerWriter
) -> tuple[asyncio.Future[EntryId], tuple[BookieId, ...]]:
    """The writer sends entry 0, which the first of its bookies takes; it is on its way to the others. Return what the
    application waits for, and the bookies."""
    b0, *others = writer.metadata.last_segment.bookies
    for late in others:
        cluster.hold(client.name, late)
    appending = asyncio.ensure_future(append(cluster, client, writer))
    await until(cluster, lambda: has(cluster, b0, writer.id))
    return appending, (b0, *others)


async def append(cluster: SimCluster, client: ClientNode, writer: LedgerWriter, payload: bytes = b"E0") -> EntryId:
    entry_id = await client(writer.append(payload))
    cluster.oracle.acknowledged(writer.id, entry_id, payload)
    return entry_id


async def said(client: ClientNode, bookie: str, ledger_id: LedgerId) -> str:
    """What one bookie answers to a plain read of entry 0: its payload, or the name of the error."""
    try:
        return bytes(await client(client.client.bookies.read(BookieId(bookie), ledger_id, EntryId(0))))[-2:].decode()
    except errors.BookieError as error:
        return type(error).__name__


async def shown(client: ClientNode, ledger_id: LedgerId) -> list[bytes]:
    """What a reader gets of a ledger that it opens by recovery."""
    reader = await client(client.client.open(ledger_id))
    return [bytes(entry.payload) for entry in await client(reader.read(0, reader.last_entry))]


def stored(cluster: SimCluster, ledger_id: LedgerId) -> LedgerMetadata:
    metadata = cluster.metadata_of(ledger_id)
    assert metadata is not None
    return metadata


def power_cut(bookie: BookieNode) -> None:
    """Cut its power; of what is not synced nothing reaches its disks."""
    for path, volume in bookie.node.image.volumes.items():
        for _, file in volume.root.files(path):
            file.pending.clear()
    bookie.crash(ProcessEnd.POWER_CUT)
