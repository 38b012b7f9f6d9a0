"""All connections of one client to bookies, and which bookies it avoids for a while."""

import asyncio
import itertools
import logging
from collections.abc import Callable, Sequence
from typing import Any

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId
from bookie.base.units import NS_PER_MS
from bookie.client.net.calls import Call, OnAnswer, version_for
from bookie.client.net.dialer import Dialer
from bookie.client.net.link import Link
from bookie.client.net.watcher import BookieWatcher
from bookie.client.options import ClientOptions
from bookie.client.tasks import Tasks
from bookie.ports import World
from bookie.wire.messages import Request, Response

log = logging.getLogger(__name__)

# A bookie before 4.17 closes a connection at a batch read; it is tried again after so long.
NO_BATCHES_MS = 600_000


class ConnectionPool:
    """All links of one client."""

    def __init__(self, options: ClientOptions, world: World, watcher: BookieWatcher, tasks: Tasks) -> None:
        self.options = options
        self.dialer = Dialer(options, world, watcher, tasks)
        self.loop = asyncio.get_running_loop()
        self.now_ns = world.clock.monotonic_ns
        # Unique in the whole client: one packed add may be sent to several bookies as it is.
        self.next_txn: Callable[[], int] = itertools.count(1).__next__
        self._links: dict[tuple[BookieId, int], Link] = {}
        self._quarantined_until_ns: dict[BookieId, int] = {}
        self._quarantine_ends_ns = 0  # of all bookies: none is in quarantine after it
        self._no_batches_until_ns: dict[BookieId, int] = {}
        watcher.on_replaced = self._replaced

    def _replaced(self, bookie_id: BookieId) -> None:
        """When another process registered as `bookie_id`, drop all connections to the earlier process, whose answers no
        longer count."""
        log.info("another process registered, connections to the earlier one end bookie_id=%s", bookie_id)
        for link in list(self._links.values()):
            if link.bookie_id == bookie_id:
                link.drop(errors.BookieUnavailable(f"another process registered as bookie {bookie_id}"))

    def link(self, bookie_id: BookieId, version: int) -> Link:
        """Return the link to `bookie_id`: made at first use, kept for the life of the client (a few hundred bytes)."""
        link = self._links.get((bookie_id, version))
        if link is None:
            link = self._links[bookie_id, version] = Link(self.dialer, bookie_id, version)
        return link

    def send(self, bookie_id: BookieId, request: Request, on_answer: OnAnswer, context: Any) -> None:
        """Pack and send one request; this sets its `txn`. The link calls `on_answer` exactly once, later."""
        request.txn = self.next_txn()
        version = version_for(request, self.options.protocol_version)
        self.link(bookie_id, version).send(Call(request, version, on_answer, context, self.options.request_timeout_ms))

    def ask(self, bookie_id: BookieId, request: Request) -> "asyncio.Future[Response]":
        """Send one request. The future gets its answer, or the BookieError that the answer means; cancelling the future
        drops the answer."""
        future: asyncio.Future[Response] = self.loop.create_future()
        self.send(bookie_id, request, _settle, future)
        return future

    # ---- quarantine --------------------------------------------------------------------------------------------------

    def quarantine(self, bookie_id: BookieId, reason: BookieError) -> None:
        """Avoid a bookie that failed or is silent: for a while, new ensembles go without it and readers ask it last."""
        if not self.is_quarantined(bookie_id):
            log.warning("bookie quarantined bookie_id=%s reason=%s", bookie_id, reason)
        until_ns = self.now_ns() + self.options.quarantine_ms * NS_PER_MS
        self._quarantined_until_ns[bookie_id] = self._quarantine_ends_ns = until_ns

    def by_health(self, bookies: Sequence[BookieId]) -> Sequence[BookieId]:
        """Return the same bookies, those in quarantine last (spec/wire.md#W61)."""
        if self.now_ns() >= self._quarantine_ends_ns:
            return bookies
        return sorted(bookies, key=self.is_quarantined)

    def is_quarantined(self, bookie_id: BookieId) -> bool:
        return self.now_ns() < self._quarantined_until_ns.get(bookie_id, 0)

    def batches_failed(self, bookie_id: BookieId) -> None:
        """When a bookie closed the connection at a batch read, send it none for a while. An older bookie always closes
        it; with any other the connection may have broken by chance."""
        self._no_batches_until_ns[bookie_id] = self.now_ns() + NO_BATCHES_MS * NS_PER_MS

    def takes_batches(self, bookie_id: BookieId) -> bool:
        return self.now_ns() >= self._no_batches_until_ns.get(bookie_id, 0)


def _settle(future: "asyncio.Future[Response]", response: Response | None, error: BookieError | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        assert response is not None
        future.set_result(response)
