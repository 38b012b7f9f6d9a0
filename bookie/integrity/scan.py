"""Reads the metadata of every ledger of the cluster, with bounds in flight and in memory; a result is never incomplete.

The listing begins with a `sync`, so that everything committed before this bookie came back is seen; a ledger made later
cannot have lost anything here, since nothing is served yet (spec/bp46.md#R7). A deleted ledger is skipped; one whose
record cannot be read, or may not be, is reported as such and stops nobody else's scan.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.ids import BookieId, LedgerId
from bookie.client.ledgers import LedgerStore, in_batches
from bookie.integrity.metadata_retry import MetadataRetry
from bookie.integrity.together import together
from bookie.metadata import serde
from bookie.metadata.ledger import LedgerMetadata
from bookie.ports.metadata_store import Stored

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Scanned:
    """The metadata of one ledger. `metadata` None: it cannot be parsed; then `data` is the stored bytes, or what they
    may be."""

    ledger_id: LedgerId
    metadata: LedgerMetadata | None
    data: bytes = b""


async def scan(
    ledgers: LedgerStore, retry: MetadataRetry, *, concurrency: int, may_name: BookieId | None
) -> AsyncIterator[list[Scanned]]:
    """Yield all ledgers, ascending, in batches of at most `concurrency`. `may_name`: see `read_one`."""
    after = -1
    while True:
        try:
            behind = after
            rest = (ledger_id async for ledger_id in ledgers.iterate() if ledger_id > behind)
            async for batch in in_batches(rest, concurrency):
                yield await _read(ledgers, retry, batch, may_name)
                after = batch[-1]
        except errors.MetadataError as error:
            if not error.retryable:
                raise
            # The listing broke off. Ids ascend, so it goes on behind the last one that was read.
            await retry.read(lambda: ledgers.store.sync(ledgers.root))
            continue
        return


async def _read(
    ledgers: LedgerStore, retry: MetadataRetry, batch: list[LedgerId], may_name: BookieId | None
) -> list[Scanned]:
    answers = await together(read_one(ledgers, retry.read, ledger_id, may_name=may_name) for ledger_id in batch)
    return [found for found in answers if found is not None]


async def read_one(
    ledgers: LedgerStore,
    read: Callable[[Callable[[], Awaitable[Stored]]], Awaitable[Stored]],
    ledger_id: LedgerId,
    *,
    may_name: BookieId | None,
) -> Scanned | None:
    """Return the record of one ledger, None when it is deleted. `read` repeats a read until it is answered.

    `may_name`: a record that nobody lets us read may name this bookie, so its bytes are taken to hold that id; None:
    raise MetadataDenied for it.
    """
    try:
        stored = await read(lambda: ledgers.stored(ledger_id))
    except errors.LedgerMissing:
        return None
    except errors.MetadataDenied as error:
        if may_name is None:
            raise
        log.warning("ledger metadata is withheld ledger_id=%d reason=%s", ledger_id, error)
        return Scanned(ledger_id, None, may_name.encode())
    try:
        return Scanned(ledger_id, serde.load_ledger(stored.data, stored.created_ms))
    except errors.BadInput:
        return Scanned(ledger_id, None, stored.data)
