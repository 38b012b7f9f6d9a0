"""Reads from ledgers' records what persons gave up, of one ledger or of all of a cluster. Changes nothing.

Never: leaves out a ledger whose record it cannot read; an error of the metadata store goes to the caller.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.ids import LedgerId
from bookie.client import cluster
from bookie.client.ledgers import LedgerStore, in_batches
from bookie.metadata import recorded_losses, serde
from bookie.metadata.ledger import LedgerMetadata
from bookie.metadata.loss_signature import Place, TrustedKey
from bookie.metadata.recorded_losses import RecordedLoss

_BATCH = 256  # records that are asked for at once


@dataclass(frozen=True, slots=True)
class LedgerLosses:
    """What was given up of one ledger. `problem`: why its record cannot be read, "" for one that can."""

    ledger_id: LedgerId
    losses: tuple[RecordedLoss, ...] = ()
    problem: str = ""


async def place_of(ledgers: LedgerStore, ledger_id: LedgerId) -> Place:
    """Return what binds a signature to this ledger. Raises LedgerMissing, MetadataError; BadInput in a cluster without
    an id."""
    instance = await cluster.instance_id(ledgers.store, ledgers.root)
    if not instance:
        raise errors.BadInput(
            "this cluster has no instance id, so that a signature would be as good in any other one: do it unsigned"
            " (without --sign-with, and lossSigningKeyFile)"
        )
    return Place(instance, ledger_id, (await ledgers.stored(ledger_id)).created_ms)


async def of_ledger(
    ledgers: LedgerStore, ledger_id: LedgerId, trusted: Sequence[TrustedKey] | None
) -> tuple[LedgerMetadata, tuple[RecordedLoss, ...]]:
    """Return a ledger's metadata, read after a sync, and what it tells was given up. Raises LedgerMissing,
    MetadataError; BadInput where the record, or for what was given up the cluster's id, cannot be read."""
    await ledgers.store.sync(ledgers.path(ledger_id))
    metadata, made_ms = await _read(ledgers, ledger_id)
    if not recorded_losses.has_notes(metadata):
        return metadata, ()
    place = Place(await cluster.instance_id(ledgers.store, ledgers.root), ledger_id, made_ms)
    return metadata, tuple(recorded_losses.of(metadata, place, trusted))


async def of_cluster(
    ledgers: LedgerStore, trusted: Sequence[TrustedKey] | None
) -> AsyncGenerator[list[LedgerLosses], None]:
    """Yield, batch by batch and with ascending ids, what was given up of each ledger that existed before this call,
    nothing among it; one that is deleted meanwhile is left out. Raises MetadataError."""
    instance = await cluster.instance_id(ledgers.store, ledgers.root)

    async def look(ledger_id: LedgerId) -> LedgerLosses | None:
        try:
            return await _look(ledgers, instance, ledger_id, trusted)
        except errors.LedgerMissing:
            return None

    async for batch in in_batches(ledgers.iterate(), _BATCH):
        found = await asyncio.gather(*(look(each) for each in batch))
        yield [each for each in found if each is not None]


async def _look(
    ledgers: LedgerStore, instance: str, ledger_id: LedgerId, trusted: Sequence[TrustedKey] | None
) -> LedgerLosses:
    try:
        metadata, made_ms = await _read(ledgers, ledger_id)
    except errors.UNREADABLE as error:
        return LedgerLosses(ledger_id, problem=str(error))
    place = Place(instance, ledger_id, made_ms)
    return LedgerLosses(ledger_id, tuple(recorded_losses.of(metadata, place, trusted)))


async def _read(ledgers: LedgerStore, ledger_id: LedgerId) -> tuple[LedgerMetadata, int]:
    """Return a ledger's metadata, and when its record's node was made (`Place.made_ms`). Raises LedgerMissing,
    MetadataError, BadInput (unreadable)."""
    stored = await ledgers.stored(ledger_id)
    return serde.load_ledger(stored.data, stored.created_ms), stored.created_ms
