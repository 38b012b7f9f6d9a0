"""What the accidents of BP-46 are told with: applications whose acknowledged entries the oracle hears of."""

from __future__ import annotations

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.client import LedgerReader, LedgerWriter
from bookie.sim.cluster import BookieNode, ClientNode, SimCluster

# A writer that tells its LAC would save the entry of spec/bp46.md#T3 by another road; the accidents are about writers
# that cannot.
QUIET = {"explicit_lac_ms": 0, "request_timeout_ms": 4_000, "recovery_timeout_ms": 20_000}
# Entries one by one: in a batch, which has no LAC, Java's bookies serve in limbo what they have; and the wiretap, which
# looks for denials, decodes no batches.
READS = {**QUIET, "batch_reads": False}


async def append(cluster: SimCluster, client: ClientNode, writer: LedgerWriter, payload: bytes) -> EntryId:
    """Append one entry; the oracle is told when it is acknowledged."""
    entry_id = await client(writer.append(payload))
    cluster.oracle.acknowledged(writer.id, entry_id, payload)
    return entry_id


async def verify(cluster: SimCluster, ledger_id: LedgerId) -> list[bytes]:
    """A fresh client opens the ledger, recovering it if need be, and reads all of it; the oracle compares."""
    client = await cluster.client(f"verifier of {ledger_id}")
    reader = await client(client.client.open(ledger_id))
    entries = await client(reader.read(0, reader.last_entry)) if reader.last_entry >= 0 else []
    cluster.oracle.verified(ledger_id, {entry.entry_id: bytes(entry.payload) for entry in entries})
    return [bytes(entry.payload) for entry in entries]


async def read_up_to(cluster: SimCluster, client: ClientNode, reader: LedgerReader, last: int) -> list[bytes]:
    """Read the entries 0 to `last` of a ledger whose reader was opened before; the oracle is told of each, or that it
    cannot be read."""
    try:
        entries = await client(reader.read(0, last))
    except errors.BookieError as error:
        cluster.oracle.unreadable(reader.id, f"{type(error).__name__}: {error}")
        return []
    for entry in entries:
        cluster.oracle.read(reader.id, entry.entry_id, bytes(entry.payload))
    return [bytes(entry.payload) for entry in entries]


def lose(bookie: BookieNode) -> None:
    """End it, and empty its volumes."""
    bookie.crash()
    bookie.wipe()


async def replace_volumes(cluster: SimCluster, name: str) -> None:
    """The bookie loses all its volumes and comes back by itself on empty ones."""
    bookie = cluster.bookies[name]
    lose(bookie)
    bookie.start()
    await cluster.until_ready(name)
