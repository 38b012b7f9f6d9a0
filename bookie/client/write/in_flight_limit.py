"""Limits the appends in flight: callers beyond the limit wait, and go on in order of arrival."""

import asyncio
import itertools
from collections import deque
from dataclasses import dataclass

from bookie.client.write.appender import Appender


@dataclass(slots=True, eq=False)
class _Waiter:
    """One caller's place in the queue."""

    turn: "asyncio.Future[None]"


class InFlightLimit:
    """Limits the entries and bytes in flight of one writer. A caller that was let in pushes in the same turn."""

    def __init__(self, appender: Appender, *, entries_max: int, bytes_max: int) -> None:
        self._appender = appender
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self._loop = appender.shared.pool.loop
        self._waiters: deque[_Waiter] = deque()

    @property
    def is_full(self) -> bool:
        appender = self._appender
        return len(appender.adds) >= self._entries_max or appender.held_bytes >= self._bytes_max

    @property
    def must_wait(self) -> bool:
        """True when the limit is reached or when other callers wait already."""
        return bool(self._waiters) or self.is_full

    async def wait(self) -> None:
        """Wait for room, or for the writer's end. A waiter keeps its place until it may push: nobody overtakes it."""
        waiter = _Waiter(self._loop.create_future())
        self._waiters.append(waiter)
        may_push = False
        try:
            while True:
                await waiter.turn
                if self._appender.error is not None or (self._waiters[0] is waiter and not self.is_full):
                    may_push = True
                    return
                waiter.turn = self._loop.create_future()
        finally:
            self._waiters.remove(waiter)
            if not may_push:
                self.wake()  # this caller was cancelled, perhaps in its turn: the next one may go on

    def wake(self) -> None:
        """After entries were confirmed, wake as many waiters as there is room for. They push one after the other, in
        one turn of the loop."""
        if not self._waiters or self.is_full:
            return
        for waiter in itertools.islice(self._waiters, self._entries_max - len(self._appender.adds)):
            if not waiter.turn.done():
                waiter.turn.set_result(None)

    def end(self) -> None:
        """Wake all waiters when the writer ended, so that they raise its error."""
        for waiter in self._waiters:
            if not waiter.turn.done():
                waiter.turn.set_result(None)
