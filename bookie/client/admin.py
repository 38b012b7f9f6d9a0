"""ClusterAdmin answers questions about the whole cluster, for operators and tools. It only reads."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.ids import INVALID_ENTRY_ID, BookieId, EntryId, LedgerId
from bookie.client import arguments
from bookie.client.ledgers import in_batches
from bookie.client.net.watcher import BookieRecord
from bookie.client.read import lac
from bookie.client.shared import Shared
from bookie.metadata import paths, serde
from bookie.metadata.ledger import LedgerMetadata
from bookie.ports.metadata_store import find_children

# Records asked for at once.
SNAPSHOT_BATCH = 256


@dataclass(frozen=True, slots=True)
class LedgerRecord:
    """A ledger's metadata as it is stored. `modified_ms`: when it was last written, by the store's clock."""

    metadata: LedgerMetadata
    version: int
    modified_ms: int


class ClusterAdmin:
    """Answers questions of one client about its cluster. Each call asks the metadata store again."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def bookies(self) -> list[BookieRecord]:
        """The registered bookies, writable and read-only, by id."""
        await self._shared.watcher.load()
        return [record for _, record in sorted(self._shared.watcher.records.items())]

    async def known_bookies(self) -> list[BookieId]:
        """Every bookie that has a cookie, alive or not, by id (spec/metadata.md#M27)."""
        ledgers = self._shared.ledgers
        return [BookieId(name) for name in await find_children(ledgers.store, paths.cookies(ledgers.root))]

    async def ledgers(self) -> AsyncIterator[tuple[LedgerId, LedgerMetadata]]:
        """All ledgers with their metadata, at least those made before this call; one deleted meanwhile is left out."""
        async for ledger_id in self._shared.ledgers.iterate():
            try:
                metadata, _ = await self._shared.ledgers.get(ledger_id)
            except errors.LedgerMissing:
                continue
            yield ledger_id, metadata

    async def ledgers_naming(self, bookie_id: BookieId) -> AsyncIterator[tuple[LedgerId, LedgerMetadata]]:
        """The ledgers that have `bookie_id` in any ensemble."""
        bookie_id = arguments.bookie_id(bookie_id)
        async for ledger_id, metadata in self.ledgers():
            if metadata.names(bookie_id):
                yield ledger_id, metadata

    async def record(self, ledger_id: LedgerId) -> LedgerRecord:
        """Return one ledger's metadata as it is stored. Raises LedgerMissing, BadInput (unreadable), MetadataError."""
        stored = await self._shared.ledgers.stored(ledger_id)
        metadata = serde.load_ledger(stored.data, stored.created_ms)
        return LedgerRecord(metadata, stored.version, stored.modified_ms)

    async def last_confirmed(self, ledger_id: LedgerId, metadata: LedgerMetadata) -> EntryId:
        """Return the last entry of a closed ledger, the LAC of an open one. Fences no bookie. Raises
        QuorumNotReached."""
        ledger_id = arguments.ledger_id(ledger_id)
        arguments.instance(metadata, LedgerMetadata, "metadata")
        if metadata.is_closed:
            return metadata.last_entry
        return await lac.read_lac(self._shared, ledger_id, metadata, floor=INVALID_ENTRY_ID)

    async def snapshot(
        self, ledger_ids: Iterable[LedgerId] | None = None, *, unreadable: dict[LedgerId, str] | None = None
    ) -> AsyncIterator[tuple[LedgerId, LedgerMetadata, int]]:
        """Yield (id, metadata, version) of the given ledgers, or of all, in their order, reading many at a time.

        A ledger that does not exist is left out. The records are not of one moment: each is as it was when it was read.
        `unreadable` gets the reason for each record that cannot be read; without it such a record raises BadInput
        naming its ledger.
        """
        wanted = self._shared.ledgers.iterate() if ledger_ids is None else _each(ledger_ids)
        async for batch in in_batches(wanted, SNAPSHOT_BATCH):
            for found in await self._records(batch, unreadable):
                yield found

    async def _records(
        self, ledger_ids: list[LedgerId], unreadable: dict[LedgerId, str] | None
    ) -> list[tuple[LedgerId, LedgerMetadata, int]]:
        async def record(ledger_id: LedgerId) -> tuple[LedgerId, LedgerMetadata, int] | None:
            try:
                metadata, version = await self._shared.ledgers.get(ledger_id)
            except errors.LedgerMissing:
                return None
            except errors.BadInput as error:
                if unreadable is None:
                    raise errors.BadInput(f"the metadata of ledger {ledger_id} cannot be read: {error}") from error
                unreadable[ledger_id] = str(error)
                return None
            return ledger_id, metadata, version

        records = await asyncio.gather(*map(record, ledger_ids))
        return [found for found in records if found is not None]


async def _each(ledger_ids: Iterable[LedgerId]) -> AsyncIterator[LedgerId]:
    for ledger_id in ledger_ids:
        yield arguments.ledger_id(ledger_id)
