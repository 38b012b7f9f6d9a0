"""Which cluster to look at next: each key once, never twice at a time, soon after an event, later after a failure.

Bounded by the number of clusters. A key that is added while it is worked on is done once more afterwards. A pass that
takes long waits for somebody (a look through all ledgers, a bookie that does not answer), so it keeps nobody else
waiting: it counts no more among the few that run side by side.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from bookie.base.errors import BookieError
from bookie.ports.time_limit import TimeLimit

logger = logging.getLogger(__name__)
K = TypeVar("K", bound=Hashable)

_EARLY_S = 1e-6  # asyncio's timers may fire the resolution of their clock too early: what is due so soon is due
DEBOUNCE_MS = 200  # events come in bursts
BACKOFF_MIN_MS = 250
BACKOFF_MAX_MS = 60_000
# Passes side by side: each has a whole cluster in memory, and one loop to run on.
PARALLEL = 4
# A pass of so long is one that waits. Bookies that do not answer are waited for so long too (CALL_DEADLINE_S).
LONG_MS = 5_000
# And so many altogether, so that a metadata store that all fleets share, and that hangs, does not fill the memory.
PASSES_MAX = 32
# So many failures of one key in a row, about eight seconds, are no passing conflict or restart of the API server.
STUCK_AFTER = 6


class WorkQueue(Generic[K]):
    """Calls `handle(key)`, which returns the milliseconds until the next look, or None to forget the key."""

    def __init__(self, handle: Callable[[K], Awaitable[int | None]]) -> None:
        self._handle = handle
        self._due: dict[K, float] = {}  # loop time
        self._busy: dict[K, float] = {}  # loop time at which its pass began
        self._failures: dict[K, tuple[int, str]] = {}  # in a row, and why the last one
        self._closed_s: dict[K, float] = {}  # loop time before which the API server wants to hear nothing
        self._changed = asyncio.Event()
        self.passes = 0
        self.errors = 0

    def __len__(self) -> int:
        return len(self._due) + len(self._busy)

    @property
    def hindrance(self) -> str:
        """Return which key's passes keep failing, and why; "" when none does."""
        for key, (count, why) in self._failures.items():
            if count >= STUCK_AFTER:
                return f"passes over {key} keep failing ({count} in a row): {why}"
        return ""

    def add(self, key: K, delay_ms: int | None = None) -> None:
        """Look at `key` after `delay_ms` (DEBOUNCE_MS when absent), or earlier if an earlier call asked for that."""
        delay_s = (DEBOUNCE_MS if delay_ms is None else delay_ms) / 1000
        due = asyncio.get_running_loop().time() + delay_s
        # Also what was asked for during the pass that heard how long to wait.
        self._due[key] = max(min(due, self._due.get(key, due)), self._closed_s.get(key, 0.0))
        self._changed.set()

    def knows(self, key: K) -> bool:
        """Return True when a look at `key` is due some time, or going on."""
        return key in self._due or key in self._busy

    async def run(self) -> None:
        """Run until cancelled, or until `handle` raises something fatal."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._changed.clear()
                wait_s = self._start_due(group)
                try:
                    async with TimeLimit(wait_s):
                        await self._changed.wait()
                except TimeoutError:
                    continue

    def _start_due(self, group: asyncio.TaskGroup) -> float | None:
        """Start what is due and free; return the seconds until the next key is due."""
        now = asyncio.get_running_loop().time()
        for key, due in sorted(self._due.items(), key=lambda item: item[1]):
            if due <= now + _EARLY_S and key not in self._busy and self._room_s(now) <= now:
                del self._due[key]
                self._busy[key] = now
                group.create_task(self._work(key))
        waiting = [due for key, due in self._due.items() if key not in self._busy]
        next_s = max(min(waiting, default=math.inf), self._room_s(now))
        return max(0.0, next_s - now) if next_s < math.inf else None

    def _room_s(self, now: float) -> float:
        """Return when another pass may begin, if none ends before: loop time, not after `now` when it may at once; inf:
        then alone."""
        if len(self._busy) >= PASSES_MAX:
            return math.inf
        began_s = sorted(self._busy.values())[-PARALLEL:]
        return now if len(began_s) < PARALLEL else began_s[0] + LONG_MS / 1_000

    async def _work(self, key: K) -> None:
        try:
            again_ms = await self._handle(key)
            self.passes += 1
            self._failures.pop(key, None)
            self._closed_s.pop(key, None)
        except BookieError as error:
            if error.fatal:
                raise
            again_ms = self._back_off(key, error)
            logger.warning("pass failed key=%s again_ms=%s error=%s", key, again_ms, error)
        except Exception as error:
            # Supervisor: a defect in one cluster's pass must not stop the others.
            again_ms = self._back_off(key, error)
            logger.exception("pass broke key=%s again_ms=%s", key, again_ms)
        finally:
            self._busy.pop(key, None)
            self._changed.set()
        if again_ms is not None:
            self.add(key, again_ms)

    def _back_off(self, key: K, error: Exception) -> int:
        self.errors += 1
        count = self._failures.get(key, (0, ""))[0] + 1
        self._failures[key] = (count, str(error) or type(error).__name__)
        asked_ms = int(getattr(error, "retry_after_ms", 0))  # of an API server that is overloaded: never sooner
        self._closed_s[key] = asyncio.get_running_loop().time() + asked_ms / 1_000
        return max(asked_ms, min(BACKOFF_MAX_MS, BACKOFF_MIN_MS << min(count - 1, 16)))
