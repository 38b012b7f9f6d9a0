"""The ways to bookies: one connection each, opened when needed, with back-off and quarantine.

A `Link` outlives its connections. While it dials, requests wait in its queue (the dial has a deadline, so the queue
has an end); after a failed attempt they fail at once until the back-off is over, so that readers and writers turn to
other bookies without waiting. The link's place for the bookie's incarnation is `Link.incarnation`: bookies do not tell
it on the data port yet, so until then a broken connection counts as a possible loss of memory (bp46 7.3).
"""

import asyncio
import itertools
import logging
from collections.abc import Callable, Sequence
from typing import Any

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, Incarnation
from bookie.base.units import NS_PER_MS
from bookie.client.connection import RESPONSE_OF, Connection, OnAnswer
from bookie.client.options import ClientOptions
from bookie.client.tasks import Tasks
from bookie.client.watcher import BookieWatcher
from bookie.ports import World
from bookie.wire import v3
from bookie.wire.messages import Buffer, Request, Response

log = logging.getLogger(__name__)

BACK_OFF_MIN_MS = 50
BACK_OFF_MAX_MS = 5_000

_Queued = tuple[int, Sequence[Buffer], type[Response], OnAnswer, Any, int]


class Link:
    """The way to one bookie."""

    __slots__ = (
        "_attempts",
        "_connection",
        "_is_dialing",
        "_not_before_ns",
        "_on_break",
        "_pool",
        "_queue",
        "bookie_id",
        "incarnation",
        "last_error",
        "quarantined_until_ns",
    )

    def __init__(self, pool: "Pool", bookie_id: BookieId) -> None:
        self._pool = pool
        self._connection: Connection | None = None
        self._is_dialing = False
        self._queue: list[_Queued] = []
        self._attempts = 0
        self._not_before_ns = 0
        self._on_break: list[Callable[[BookieError], None]] = []
        self.bookie_id = bookie_id
        self.incarnation: Incarnation | None = None
        self.last_error: BookieError | None = None
        self.quarantined_until_ns = 0

    def send(
        self,
        txn: int,
        frame: Sequence[Buffer],
        expected: type[Response],
        on_answer: OnAnswer,
        context: Any,
        timeout_ms: int,
    ) -> None:
        """Send one request's frame; `on_answer` is called exactly once, later, on the loop."""
        if self._connection is not None:
            self._connection.send(txn, frame, expected, on_answer, context, timeout_ms)
        else:
            self._queue.append((txn, frame, expected, on_answer, context, timeout_ms))
            if not self._is_dialing:
                self._dial_soon()

    def on_break(self, listener: Callable[[BookieError], None]) -> None:
        """Call `listener` when an established connection ends, whether anything was outstanding or not."""
        self._on_break.append(listener)

    def off_break(self, listener: Callable[[BookieError], None]) -> None:
        if listener in self._on_break:
            self._on_break.remove(listener)

    def _dial_soon(self) -> None:
        self._is_dialing = True
        if self._pool.now_ns() < self._not_before_ns:
            reason = self.last_error or errors.BookieUnavailable(f"bookie {self.bookie_id} failed just now")
            self._pool.loop.call_soon(self._give_up, reason)
        elif self._pool.tasks.spawn(self._live(), f"bookie {self.bookie_id}") is None:
            self._pool.loop.call_soon(self._give_up, errors.BookieUnavailable("the client is closed"))

    def _give_up(self, reason: BookieError) -> None:
        self._is_dialing = False
        self.last_error = reason
        queue, self._queue = self._queue, []
        for _, _, _, on_answer, context, _ in queue:
            on_answer(context, None, reason)

    async def _live(self) -> None:
        """Dial, then carry the connection until it ends."""
        try:
            connection = await self._dial()
        except errors.BookieUnavailable as error:
            self._back_off()
            self._pool.watcher.refresh()  # it may have moved
            self._give_up(error)
            return
        except asyncio.CancelledError:
            self._give_up(errors.BookieUnavailable("the client is closed"))
            raise
        self._is_dialing = False
        self._connection = connection
        queue, self._queue = self._queue, []
        for queued in queue:
            connection.send(*queued)
        try:
            await connection.run()
        finally:
            self._connection = None
            if connection.answered:
                self._attempts = 0
            else:
                self._back_off()
            reason = errors.BookieUnavailable(f"the connection to bookie {self.bookie_id} broke")
            for listener in list(self._on_break):
                listener(reason)

    async def _dial(self) -> Connection:
        address = self._pool.watcher.address(self.bookie_id)
        if address is None:
            raise errors.BookieUnavailable(f"bookie {self.bookie_id} is not registered: nobody knows its address")
        deadline_ns = self._pool.now_ns() + self._pool.options.dial_timeout_ms * NS_PER_MS
        stream = await self._pool.world.network.dial(address, deadline_ns)
        return Connection(self.bookie_id, stream, self._pool.options.frame_limit_bytes)

    def _back_off(self) -> None:
        wait_ms = min(BACK_OFF_MIN_MS << min(self._attempts, 10), BACK_OFF_MAX_MS)
        self._attempts += 1
        self._not_before_ns = self._pool.now_ns() + wait_ms * NS_PER_MS


class Pool:
    """All links of one client."""

    def __init__(self, options: ClientOptions, world: World, watcher: BookieWatcher, tasks: Tasks) -> None:
        self.options = options
        self.world = world
        self.watcher = watcher
        self.tasks = tasks
        self.loop = asyncio.get_running_loop()
        self.now_ns = world.clock.monotonic_ns
        # Unique in the whole client: one packed add may be sent to several bookies as it is.
        self.next_txn: Callable[[], int] = itertools.count(1).__next__
        self._links: dict[BookieId, Link] = {}
        self._quarantine_ends_ns = 0  # of all bookies: none is in quarantine after it

    def link(self, bookie_id: BookieId) -> Link:
        """The link to `bookie_id`; made at first use, kept for the life of the client (a few hundred bytes)."""
        link = self._links.get(bookie_id)
        if link is None:
            link = self._links[bookie_id] = Link(self, bookie_id)
        return link

    def send(
        self, bookie_id: BookieId, request: Request, on_answer: OnAnswer, context: Any, *, timeout_ms: int | None = None
    ) -> None:
        """Pack and send one request; its `txn` is set here. `on_answer` is called exactly once, later."""
        request.txn = self.next_txn()
        self.link(bookie_id).send(
            request.txn,
            v3.pack_request(request),
            RESPONSE_OF[type(request)],
            on_answer,
            context,
            self.options.request_timeout_ms if timeout_ms is None else timeout_ms,
        )

    async def call(self, bookie_id: BookieId, request: Request, *, timeout_ms: int | None = None) -> Response:
        """Send one request and wait for its answer. Raises what the answer means; cancelling forgets the answer."""
        return await self.ask(bookie_id, request, timeout_ms=timeout_ms)

    def ask(
        self, bookie_id: BookieId, request: Request, *, timeout_ms: int | None = None
    ) -> "asyncio.Future[Response]":
        """Send one request; the future gets its answer, or what the answer means as a BookieError."""
        future: asyncio.Future[Response] = self.loop.create_future()
        self.send(bookie_id, request, _settle, future, timeout_ms=timeout_ms)
        return future

    def quarantine(self, bookie_id: BookieId, reason: BookieError) -> None:
        """For a while: not chosen for new ensembles, asked last by readers. For bookies that failed or are silent."""
        if not self.is_quarantined(bookie_id):
            log.warning("bookie quarantined bookie_id=%s reason=%s", bookie_id, reason)
        until_ns = self.now_ns() + self.options.quarantine_ms * NS_PER_MS
        self.link(bookie_id).quarantined_until_ns = self._quarantine_ends_ns = until_ns

    def by_health(self, bookies: Sequence[BookieId]) -> Sequence[BookieId]:
        """The same bookies, those in quarantine last (wire 10.5 step 2, `reorderReadSequenceEnabled`)."""
        if self.now_ns() >= self._quarantine_ends_ns:
            return bookies
        return sorted(bookies, key=self.is_quarantined)

    def is_quarantined(self, bookie_id: BookieId) -> bool:
        link = self._links.get(bookie_id)
        return link is not None and self.now_ns() < link.quarantined_until_ns


def _settle(future: "asyncio.Future[Response]", response: Response | None, error: BookieError | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        assert response is not None
        future.set_result(response)
