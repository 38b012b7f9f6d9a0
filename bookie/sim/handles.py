"""What waits in the simulated loop: callbacks for their turn, timers for their time, tasks that sleep. A hot path.

None derives from the stock classes, which carry what only a debugger asks for. `SimSleep` exists because half of
all that a simulation does is a task that sleeps: its timer runs the task's next step, without a future between them.
"""

import asyncio
import contextvars
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bookie.sim.loop import SimLoop, SimProcess


class SimHandle:
    """A callback that waits for its turn in the queue of its life."""

    __slots__ = ("_args", "_callback", "_cancelled", "_context", "life")

    def __init__(self, callback: Any, args: tuple[Any, ...], context: contextvars.Context, life: "SimProcess") -> None:
        self._callback = callback
        self._args = args
        self._context = context
        self._cancelled = False
        self.life = life

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = None
        self._args = ()

    def cancelled(self) -> bool:
        return self._cancelled


class SimTimer:
    """A callback that waits for its time."""

    __slots__ = ("_args", "_callback", "_cancelled", "_context", "_loop", "life")

    def __init__(
        self,
        callback: Any,
        args: tuple[Any, ...],
        context: contextvars.Context,
        life: "SimProcess",
        loop: "SimLoop",
    ) -> None:
        self._callback = callback
        self._args = args
        self._context = context
        self._cancelled = False
        self._loop = loop
        self.life = life

    def cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            self._callback = None
            self._args = ()
            self._loop.timer_was_cancelled()

    def cancelled(self) -> bool:
        return self._cancelled


class SimSleep:
    """Wakes the one task that awaits it once, at `when_ns`. To the task it looks like a future."""

    __slots__ = ("_asyncio_future_blocking", "_context", "_is_cancelled", "_loop", "_timer", "_wake", "_when_ns")

    def __init__(self, loop: "SimLoop", when_ns: int) -> None:
        self._asyncio_future_blocking = False
        self._loop = loop
        self._when_ns = when_ns
        self._is_cancelled = False
        self._timer: SimTimer | None = None
        self._wake: Callable[..., object] | None = None

    def __await__(self) -> "Generator[SimSleep, None, None]":
        self._asyncio_future_blocking = True
        yield self

    # ---- what a task asks of a future -------------------------------------------------------------------------------

    def get_loop(self) -> "SimLoop":
        return self._loop

    def add_done_callback(self, wake: Callable[..., object], *, context: contextvars.Context) -> None:
        self._wake, self._context = wake, context
        if self._when_ns > self._loop.now_ns:
            self._timer = self._loop.call_at_ns(self._when_ns, wake, self, context=context)
        else:
            self._loop.call_soon(wake, self, context=context)

    def cancel(self, msg: object = None) -> bool:
        """Wake the task with a cancellation instead; False when its turn has come already."""
        if self._is_cancelled or self._timer is None or self._wake is None or self._loop.now_ns >= self._when_ns:
            return False
        self._is_cancelled = True
        self._timer.cancel()
        self._loop.call_soon(self._wake, self, context=self._context)
        return True

    def result(self) -> None:
        self._timer = self._wake = None  # no cycle is left behind: during a run nobody collects them
        if self._is_cancelled:
            raise asyncio.CancelledError
