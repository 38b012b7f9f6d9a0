"""Decides when this bookie fills holes in place: once after each start, and when somebody asks. One run at a time."""

import asyncio
import logging

from bookie.base.errors import BookieError
from bookie.integrity.boot import Boot
from bookie.integrity.fill_progress import FillProgress
from bookie.ports.admin import FillStatus
from bookie.ports.clock import Clock
from bookie.ports.metadata_store import MetadataStore
from bookie.server.own_lease import OwnLease
from bookie.storage.store import EntryStore

log = logging.getLogger(__name__)


class Filling:
    """The fills of one life. `start` and `status` at any time; `run` is the task that does the work.

    What ends a run ends the node only when it is fatal: `status` says why, and who asked may ask again.
    """

    def __init__(self, boot: Boot, store: EntryStore, clock: Clock, lease: OwnLease, *, after_boot: bool) -> None:
        self._lease = lease
        self._boot = boot
        self._store = store
        self._progress = FillProgress(clock)
        self._asked = asyncio.Event()
        if after_boot:
            self.start()

    def start(self) -> None:
        """Ask for a run. A run that is under way, or about to begin, is that run: it will do."""
        if not self._progress.is_running and not self._asked.is_set():
            self._progress.waits("a run was asked for; it begins once this bookie is registered and repaired")
            self._asked.set()

    def status(self) -> FillStatus:
        return self._progress.snapshot()

    @property
    def is_whole(self) -> bool:
        """Return True when a fill of this life ended with nothing missing and nothing blocked, and nothing was lost
        since."""
        return self._progress.is_whole and self._boot.progress.is_done and not self._store.quarantined

    async def run(self, metadata: MetadataStore, registered: asyncio.Event) -> None:
        """Fill when asked, until the process ends."""
        while True:
            await self._asked.wait()
            await registered.wait()  # before that writers leave us out, so that a run would have no end to reach
            await self._boot.progress.until_done()  # what is in limbo is the repair's
            self._asked.clear()
            try:
                await self._boot.fill(self._store, metadata, self._progress)
            except BookieError as error:
                if error.fatal:
                    raise
                log.warning("filling of holes given up reason=%s", error)
            if self.is_whole:
                await self._lease.end_of_before()
