"""Asks bookies for their free space every five minutes, so that fuller bookies get fewer new ledgers.

Rule: spec/metadata.md#M37. Off by default. A bookie that does not answer keeps its figure.
"""

import logging

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.base.units import NS_PER_MS
from bookie.client.net.bookies import BookieClient
from bookie.client.net.watcher import BookieWatcher
from bookie.ports.clock import Clock

log = logging.getLogger(__name__)

INTERVAL_NS = 300_000 * NS_PER_MS


class FreeSpace:
    """Free bytes by bookie. One task."""

    def __init__(self, bookies: BookieClient, watcher: BookieWatcher, clock: Clock) -> None:
        self._bookies = bookies
        self._watcher = watcher
        self._clock = clock
        self.free_bytes: dict[BookieId, int] = {}

    async def run(self) -> None:
        """Ask all bookies again and again, until cancelled."""
        while True:
            await self.ask()
            await self._clock.sleep_until(self._clock.monotonic_ns() + INTERVAL_NS)

    async def ask(self) -> None:
        """Ask every writable bookie once."""
        for candidate in self._watcher.candidates():
            try:
                _, self.free_bytes[candidate.bookie_id] = await self._bookies.info(candidate.bookie_id)
            except errors.BookieError as error:
                log.debug("free space unknown bookie_id=%s reason=%s", candidate.bookie_id, error)
