"""Sends requests to one bookie in one encoding: connects when needed, and backs off after a failed dial.

A `Link` outlives its connections. While it dials, requests wait in its queue (the dial has a deadline, so the queue
has an end). After a failed dial requests fail at once until the back-off is over, so that readers and writers turn to
other bookies without waiting.

A connection stands for one process. When another process registers the same bookie, the link drops the connection, and
requests without an answer have an unknown outcome, as when it breaks (docs/INTEGRITY.md, two processes).
"""

import asyncio
from collections.abc import Callable

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId
from bookie.base.units import NS_PER_MS
from bookie.client.net.calls import AddBatch, AddOwner, Call
from bookie.client.net.connection import Connection
from bookie.client.net.dialer import Dialer

BACK_OFF_MIN_MS = 50
BACK_OFF_MAX_MS = 5_000


class Link:
    """Sends requests to one bookie. Made by `ConnectionPool.link`."""

    def __init__(self, dialer: Dialer, bookie_id: BookieId, version: int) -> None:
        self.bookie_id = bookie_id
        self.version = version
        self._dialer = dialer
        self._connection: Connection | None = None
        self._is_dialing = False
        self._queue: list[Call | AddBatch] = []
        self._attempts = 0
        self._not_before_ns = 0
        self._last_error: BookieError | None = None
        self._on_break: list[Callable[[BookieError], None]] = []

    def send(self, call: Call) -> None:
        """Send one question. Its `on_answer` is called exactly once, later, on the loop."""
        if self._connection is not None:
            self._connection.send(call)
        else:
            self._wait_for_connection(call)

    def send_adds(self, batch: AddBatch) -> None:
        """Send adds. Their owner hears of each until it calls `forget_adds`."""
        if self._connection is not None:
            self._connection.send_adds(batch)
        else:
            self._wait_for_connection(batch)

    def forget_adds(self, owner: AddOwner) -> None:
        """Tell `owner` nothing more."""
        if self._connection is not None:
            self._connection.forget_adds(owner)
        self._queue = [waiting for waiting in self._queue if isinstance(waiting, Call) or waiting.owner is not owner]

    def drop(self, reason: BookieError) -> None:
        """End the connection, if there is one: the process at its other end is no longer this bookie.

        Later requests go to the process that registered last.
        """
        connection = self._connection
        if connection is not None:
            self._connection = None
            connection.close(reason)
            self._tell_broken(reason)

    def on_break(self, listener: Callable[[BookieError], None]) -> None:
        """Call `listener` when an established connection ends, whether requests were waiting or not."""
        self._on_break.append(listener)

    def off_break(self, listener: Callable[[BookieError], None]) -> None:
        if listener in self._on_break:
            self._on_break.remove(listener)

    # ---- the connection ----------------------------------------------------------------------------------------------

    def _wait_for_connection(self, waiting: Call | AddBatch) -> None:
        self._queue.append(waiting)
        if self._is_dialing:
            return
        self._is_dialing = True
        if self._dialer.now_ns() < self._not_before_ns:
            reason = self._last_error or errors.BookieUnavailable(f"the last dial of bookie {self.bookie_id} failed")
            self._dialer.loop.call_soon(self._give_up, reason)
        elif self._dialer.tasks.spawn(self._live(), f"bookie {self.bookie_id}") is None:
            self._dialer.loop.call_soon(self._give_up, errors.ClientClosed("the client is closed"))

    def _give_up(self, reason: BookieError) -> None:
        self._is_dialing = False
        self._last_error = reason
        queue, self._queue = self._queue, []
        for waiting in queue:
            if isinstance(waiting, Call):
                waiting.on_answer(waiting.context, None, reason)
            else:
                waiting.owner.on_failed(self, reason)

    async def _live(self) -> None:
        """Dial, then carry the connection until it ends."""
        try:
            connection = await self._dialer.dial(self.bookie_id, version=self.version, origin=self)
        except errors.BookieUnavailable as error:
            self._back_off()
            self._dialer.watcher.refresh()  # the bookie may have another address now
            self._give_up(error)
            return
        except asyncio.CancelledError:
            self._give_up(errors.ClientClosed("the client is closed"))
            raise
        self._is_dialing = False
        self._connection = connection
        queue, self._queue = self._queue, []
        for waiting in queue:
            if isinstance(waiting, Call):
                connection.send(waiting)
            else:
                connection.send_adds(waiting)
        reason: BookieError = errors.ClientClosed("the client is closed")
        try:
            await connection.run()
            reason = errors.BookieUnavailable(f"the connection to bookie {self.bookie_id} broke")
        finally:
            if self._connection is connection:  # else it was dropped, and perhaps followed by another
                self._connection = None
                if connection.answered:
                    self._attempts = 0
                else:
                    self._back_off()
                    self._last_error = connection.ended_by  # what whoever asks during the back-off is told
                self._tell_broken(reason)

    def _tell_broken(self, reason: BookieError) -> None:
        for listener in list(self._on_break):
            listener(reason)

    def _back_off(self) -> None:
        wait_ms = min(BACK_OFF_MIN_MS << min(self._attempts, 10), BACK_OFF_MAX_MS)
        self._attempts += 1
        self._not_before_ns = self._dialer.now_ns() + wait_ms * NS_PER_MS
