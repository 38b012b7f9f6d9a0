"""ClusterAdmin: questions about the whole cluster, for operators and tools. Reads only."""

from collections.abc import AsyncIterator

from bookie.base import errors
from bookie.base.ids import BookieId, LedgerId
from bookie.client.shared import Shared
from bookie.client.watcher import BookieRecord
from bookie.metadata import paths
from bookie.metadata.ledger import LedgerMetadata


class ClusterAdmin:
    """Of one client; answers are live, not from the client's view."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def bookies(self) -> list[BookieRecord]:
        """The registered bookies, writable and read-only, by id."""
        await self._shared.watcher.load()
        return [record for _, record in sorted(self._shared.watcher.records.items())]

    async def known_bookies(self) -> list[BookieId]:
        """Every bookie that has a cookie, alive or not, by id (metadata 6.5)."""
        try:
            names = await self._shared.ledgers.store.children(paths.cookies(self._shared.ledgers.root))
        except errors.NodeMissing:
            return []
        return [BookieId(name) for name in names]

    async def ledgers(self) -> AsyncIterator[tuple[LedgerId, LedgerMetadata]]:
        """All ledgers with their metadata; one deleted meanwhile is left out."""
        async for ledger_id in self._shared.ledgers.iterate():
            try:
                metadata, _ = await self._shared.ledgers.get(ledger_id)
            except errors.LedgerMissing:
                continue
            yield ledger_id, metadata

    async def ledgers_naming(self, bookie_id: BookieId) -> AsyncIterator[tuple[LedgerId, LedgerMetadata]]:
        """The ledgers that have `bookie_id` in any ensemble."""
        async for ledger_id, metadata in self.ledgers():
            if metadata.names(bookie_id):
                yield ledger_id, metadata
