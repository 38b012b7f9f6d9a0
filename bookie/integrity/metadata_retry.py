"""Repeats reads until the metadata store answers.
A boot cannot go on without an answer, and must not give up either."""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from bookie.base import errors
from bookie.base.units import NS_PER_MS
from bookie.ports.clock import Clock

log = logging.getLogger(__name__)

T = TypeVar("T")

_DELAY_MS = 200
_DELAY_MS_MAX = 5_000


class MetadataRetry:
    """Repeats reads until they are answered. `is_reachable` says whether the last one was."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.is_reachable = True

    async def read(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return `call()`; repeat it while the store does not answer. Raises a true refusal (no such node).

        Only for calls that change nothing: a write whose answer was lost must be looked at, not repeated.
        """
        delay_ms = _DELAY_MS
        while True:
            try:
                answer = await call()
            except errors.MetadataError as error:
                if not error.retryable:
                    self.is_reachable = True
                    raise
                if self.is_reachable:
                    log.warning("metadata store does not answer reason=%s", error)
                self.is_reachable = False
                await self.pause(delay_ms)
                delay_ms = min(2 * delay_ms, _DELAY_MS_MAX)
            else:
                self.is_reachable = True
                return answer

    async def pause(self, delay_ms: int) -> None:
        await self._clock.sleep_until(self._clock.monotonic_ns() + delay_ms * NS_PER_MS)
