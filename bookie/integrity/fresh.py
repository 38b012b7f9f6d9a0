"""Reads the present metadata of ledgers: after a sync, of which many readers together need one."""

import asyncio

from bookie.base import errors
from bookie.base.ids import LedgerId
from bookie.client.ledgers import LedgerStore
from bookie.integrity.metadata_retry import MetadataRetry
from bookie.metadata.ledger import LedgerMetadata


class FreshLedgers:
    """One repair's reader. Waits for a metadata store that does not answer."""

    def __init__(self, ledgers: LedgerStore, retry: MetadataRetry) -> None:
        self._ledgers = ledgers
        self._retry = retry
        self._syncing = asyncio.Lock()
        self._began = 0  # syncs that began
        self._covered = 0  # the number of the last one that ended well

    async def get(self, ledger_id: LedgerId) -> tuple[LedgerMetadata | None, int]:
        """Return metadata that was current after this call began, and its version; (None, -1) when the ledger is
        deleted. Raises BadInput, MetadataError when the store refuses."""
        await self._sync()
        try:
            return await self._retry.read(lambda: self._ledgers.get(ledger_id))
        except errors.LedgerMissing:
            return None, -1

    async def _sync(self) -> None:
        """Return when a sync has ended that began after this call. ZooKeeper syncs the session with its leader as a
        whole, whatever the path; a sync that was under way already may have passed before what the caller must see."""
        began = self._began
        async with self._syncing:
            if self._covered > began:
                return
            self._began = number = self._began + 1
            await self._retry.read(lambda: self._ledgers.store.sync(self._ledgers.root))
            self._covered = number
