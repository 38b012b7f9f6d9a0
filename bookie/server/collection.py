"""When garbage is collected: now and then, one run over all ledgers, if the metadata store proves what it denies.

There is no "delete ledger" request: a bookie learns that a ledger is gone from the metadata store alone (metadata.md
13). So it must be the store of our own cluster that says it, after a sync, and not an emptied or a restored one.
"""

import logging

from bookie.base import errors
from bookie.base.ids import LedgerId
from bookie.base.units import NS_PER_MS
from bookie.client import cluster
from bookie.client.ledgers import LedgerStore
from bookie.ports.clock import Clock
from bookie.storage.collect import collector
from bookie.storage.store import EntryStore

log = logging.getLogger(__name__)


class Collection:
    """The collector's driver for one bookie. `run` until cancelled."""

    def __init__(
        self, store: EntryStore, ledgers: LedgerStore, instance_id: str, clock: Clock, *, interval_ms: int
    ) -> None:
        self._store = store
        self._ledgers = ledgers
        self._instance_id = instance_id
        self._clock = clock
        self._interval_ns = interval_ms * NS_PER_MS

    async def run(self) -> None:
        """Wait an interval, collect, and again. A run that cannot be sure is given up, and the next one tries."""
        while True:
            await self._clock.sleep_until(self._clock.monotonic_ns() + self._interval_ns)
            try:
                done = await collector.collect(self._store, self._is_absent)
            except (errors.MetadataError, errors.DiskFull, errors.BookieReadOnly) as error:
                log.warning("garbage collection given up reason=%s", error)
            else:
                if done.ledgers_deleted or done.logs_dropped:
                    log.info("garbage collected ledgers=%d logs=%d", done.ledgers_deleted, done.logs_dropped)

    async def _is_absent(self, ledger_id: LedgerId) -> bool:
        """True only when our own cluster's store, brought up to date, has no such ledger. Raises MetadataError."""
        if await self._exists(ledger_id):
            return False
        # Rare from here on: one deleted ledger costs three more questions.
        found = await cluster.instance_id(self._ledgers.store, self._ledgers.root)
        if found != self._instance_id:
            raise errors.MetadataError(f"the metadata store is now cluster {found!r}, not {self._instance_id!r}")
        await self._ledgers.store.sync(self._ledgers.path(ledger_id))
        return not await self._exists(ledger_id)

    async def _exists(self, ledger_id: LedgerId) -> bool:
        try:
            await self._ledgers.stored(ledger_id)
        except errors.LedgerMissing:
            return False
        return True
