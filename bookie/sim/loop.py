"""A deterministic asyncio event loop: virtual time, many simulated processes, one seed.

Every process of the simulation is a `SimProcess`. A life has a ready queue of its own: callbacks run first-in-first-out
within a life, as asyncio promises, and in seeded random order between lives. A context variable carries the life of a
callback, so that a task that another task starts belongs to the same life.

Time stands still while anything can run, then jumps to the next timer. Killing a life drops its queue and timers and
keeps its tasks referenced (the graveyard): if they were collected, `finally` blocks of a machine without power would
run. Nothing here may read a real clock, draw from an unseeded source or iterate in an order that the seed does not fix.
"""

import asyncio
import contextlib
import contextvars
import gc
import heapq
import inspect
import logging
import random
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from bookie.base.units import NS_PER_S

if TYPE_CHECKING:
    # For the type checker the abstract loop has forty abstract methods; what we leave out raises NotImplementedError.
    _Base = asyncio.BaseEventLoop
else:
    _Base = asyncio.AbstractEventLoop

T = TypeVar("T")

# Without any timer between, this many callbacks mean that something spins: a run that never ends is a finding too.
STEPS_PER_INSTANT_MAX = 1_000_000
# A task that awaits in a `finally` block ignores being closed once; each nested block costs one more try.
BURIAL_TRIES = 16


class NodeIsDown(BaseException):
    """Every port of a life that has ended raises this. Not an Exception: product code must not handle it."""


class SimStuck(Exception):
    """The simulation cannot go on: nothing can ever run again, or one instant never ends, or the time is used up."""


class SimProcess:
    """One run of one process: from its start to its end or its crash. Ports belong to a life and die with it."""

    __slots__ = ("context", "is_dead", "is_paused", "name", "on_death", "ready", "sweep_at", "tasks")

    def __init__(self, name: str) -> None:
        self.name = name
        self.ready: deque[SimHandle | SimTimer] = deque()
        self.tasks: list[SimTask] = []
        self.sweep_at = 64
        self.is_dead = False
        self.is_paused = False
        self.on_death: list[Callable[[], None]] = []
        self.context = contextvars.copy_context()
        self.context.run(LIFE.set, self)

    def check(self) -> None:
        """Raise NodeIsDown when this life is over."""
        if self.is_dead:
            raise NodeIsDown(self.name)


LIFE: contextvars.ContextVar[SimProcess | None] = contextvars.ContextVar("bookie_sim_life", default=None)


class SimHandle:
    """A callback that waits for its turn in the queue of its life. A hot path: it does not derive from the stock class,
    which carries what only a debugger asks for."""

    __slots__ = ("_args", "_callback", "_cancelled", "_context", "life")

    def __init__(self, callback: Any, args: tuple[Any, ...], context: contextvars.Context, life: SimProcess) -> None:
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
        life: SimProcess,
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
    """Wakes the one task that awaits it once, at `when_ns`. To the task it looks like a future.

    Half of all that a simulation does is a task that sleeps: the timer runs its next step, with no future between.
    """

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


class SimFuture(asyncio.Future[Any]):
    """A future whose hash is its birth number: a set of futures has the same order in every run."""

    def __init__(self, number: int, loop: "SimLoop") -> None:
        self.number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.number


class SimTask(asyncio.Task[Any]):
    """A task whose hash is its birth number: the stock TaskGroup cancels its children in the order of a set."""

    def __init__(
        self, number: int, coroutine: Any, loop: "SimLoop", name: str, context: contextvars.Context | None
    ) -> None:
        self.number = number  # before Task.__init__, which hashes the task to register it
        super().__init__(coroutine, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self.number


class SimLoop(_Base):
    """The loop. `run` is the only way in; `director` is the life of the test or story that steers the simulation."""

    def __init__(self, seed: int | str) -> None:
        self._random = random.Random(f"loop {seed}")
        self.now_ns = 0  # true simulated time; nodes with a wrong clock see another one through their Clock port
        self._births = 0
        self._runnable: list[SimProcess] = []
        self._timers: list[tuple[int, int, SimTimer]] = []
        self._timers_cancelled = 0
        self._lives: list[SimProcess] = []
        self._graveyard: list[SimTask] = []
        self._is_closed = False
        self._is_running = False
        self.steps = 0
        self.fingerprint = 0
        self.failures: list[str] = []
        self.director = self.begin_life("director")

    # ---- lives ----------------------------------------------------------------------------------------------------

    def begin_life(self, name: str) -> SimProcess:
        """Make a new process. Start its main task with `spawn`."""
        life = SimProcess(name)
        self._lives.append(life)
        return life

    def spawn(self, life: SimProcess, coroutine: Coroutine[Any, Any, T], name: str = "") -> "asyncio.Task[T]":
        """Run `coroutine` as a task of `life`, whatever life calls this."""
        if life.is_dead:
            coroutine.close()
            raise NodeIsDown(life.name)
        return life.context.run(self.create_task, coroutine, name=name or life.name)

    def end_life(self, life: SimProcess) -> None:
        """Stop `life` at once, between two of its callbacks: nothing of it ever runs again."""
        if life.is_dead:
            return
        life.is_dead = True
        if life.ready:
            if not life.is_paused:
                self._runnable.remove(life)
            life.ready.clear()
        self._graveyard.extend(task for task in life.tasks if not task.done())
        self._lives.remove(life)
        for callback in life.on_death:
            callback()

    def pause_life(self, life: SimProcess) -> None:
        """Stop `life` as SIGSTOP does: its callbacks wait; time, disks and the network go on."""
        if not life.is_dead and not life.is_paused:
            if life.ready:
                self._runnable.remove(life)
            life.is_paused = True

    def resume_life(self, life: SimProcess) -> None:
        """Let `life` go on, and run the callbacks that waited."""
        if not life.is_dead and life.is_paused:
            life.is_paused = False
            if life.ready:
                self._runnable.append(life)

    # ---- running --------------------------------------------------------------------------------------------------

    def run(self, main: Coroutine[Any, Any, T], *, time_limit_s: float = 3600.0) -> T:
        """Run `main` as a task of the director until it ends; virtual time starts at zero.

        Raises what `main` raises, and SimStuck when it cannot end. Cyclic garbage collection is off meanwhile: its
        moment depends on allocation counts, and finalizers would make it part of the story.
        """
        collects = gc.isenabled()
        gc.disable()
        previous_hooks = _install_async_generator_hooks(self)
        asyncio.events._set_running_loop(self)
        self._is_running = True
        try:
            task = self.spawn(self.director, main, "director")
            limit_ns = int(time_limit_s * NS_PER_S)
            while not task.done():
                self._run_instant(task)
                if not task.done():
                    self._advance(limit_ns)
            return task.result()
        finally:
            self._is_running = False
            asyncio.events._set_running_loop(None)
            previous_hooks()
            if collects:
                gc.enable()

    def _run_instant(self, until: "asyncio.Task[Any]") -> None:
        """Run everything that can run at this moment: choose between lives by the seed, one callback at a time."""
        runnable = self._runnable
        draw = self._random.random
        steps_max = self.steps + STEPS_PER_INSTANT_MAX
        while runnable:
            count = len(runnable)
            index = int(draw() * count) if count > 1 else 0
            life = runnable[index]
            ready = life.ready
            handle = ready.popleft()
            if not ready:
                runnable[index] = runnable[-1]
                runnable.pop()
            self.steps += 1
            if not handle._cancelled:
                self.fingerprint = (self.fingerprint * 1_000_003 + self.now_ns + count * 31 + index) & 0xFFFFFFFFFFFF
                try:
                    handle._context.run(handle._callback, *handle._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:  # noqa: BLE001 - as asyncio's Handle does
                    self.call_exception_handler({"message": f"callback {handle._callback!r}", "exception": error})
                if until.done():
                    return
            if self.steps > steps_max:
                raise SimStuck(f"time stands still at {self.time():.6f} s: {life.name} never stops calling itself")

    def _advance(self, limit_ns: int) -> None:
        """Jump to the next timer and make everything that is due at that time ready, in order of birth."""
        timers = self._timers
        while timers and (timers[0][2]._cancelled or timers[0][2].life.is_dead):
            heapq.heappop(timers)
        if not timers:
            raise SimStuck(f"nothing can run after {self.time():.6f} s: {self._describe_waiting()}")
        now_ns = max(timers[0][0], self.now_ns)
        if now_ns > limit_ns:
            raise SimStuck(f"the story did not end in {limit_ns / NS_PER_S:.0f} s: {self._describe_waiting()}")
        self.now_ns = now_ns
        while timers and timers[0][0] <= now_ns:
            timer = heapq.heappop(timers)[2]
            life = timer.life
            if not (timer._cancelled or life.is_dead):
                if not (life.ready or life.is_paused):
                    self._runnable.append(life)
                life.ready.append(timer)

    def _describe_waiting(self) -> str:
        waiting = [f"{life.name}/{task.get_name()}" for life in self._lives for task in life.tasks if not task.done()]
        return f"{len(waiting)} tasks wait: " + ", ".join(waiting[:12])

    # ---- what asyncio asks of a loop --------------------------------------------------------------------------------

    def time(self) -> float:
        """Return seconds of true simulated time."""
        return self.now_ns / NS_PER_S

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> SimHandle:
        if context is None:
            context = contextvars.copy_context()
        life = context.get(LIFE) or self.director
        handle = SimHandle(callback, args, context, life)
        if not (self._is_closed or life.is_dead):
            if not (life.ready or life.is_paused):
                self._runnable.append(life)
            life.ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> SimTimer:
        return self.call_at_ns(self.now_ns + max(0, round(delay * NS_PER_S)), callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> SimTimer:
        return self.call_at_ns(round(when * NS_PER_S), callback, *args, context=context)

    def call_at_ns(
        self, when_ns: int, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> SimTimer:
        """Do `call_at` in nanoseconds of true simulated time."""
        if context is None:
            context = contextvars.copy_context()
        life = context.get(LIFE) or self.director
        timer = SimTimer(callback, args, context, life, self)
        if not (self._is_closed or life.is_dead):
            self._births += 1
            heapq.heappush(self._timers, (when_ns, self._births, timer))
        return timer

    def timer_was_cancelled(self) -> None:
        """Count it, and throw cancelled timers away when they are most of all: many time-outs never come."""
        self._timers_cancelled += 1
        if self._timers_cancelled > 64 and self._timers_cancelled * 2 > len(self._timers):
            self._timers = [entry for entry in self._timers if not entry[2]._cancelled]
            heapq.heapify(self._timers)
            self._timers_cancelled = 0

    def create_future(self) -> SimFuture:
        self._births += 1
        return SimFuture(self._births, self)

    def create_task(
        self,
        coroutine: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: contextvars.Context | None = None,
    ) -> "asyncio.Task[T]":
        life = (LIFE.get() if context is None else context.get(LIFE)) or self.director
        if self._is_closed or life.is_dead:
            coroutine.close()
            raise NodeIsDown(life.name)
        self._births += 1
        task = SimTask(self._births, coroutine, self, str(name or f"task-{self._births}"), context)
        tasks = life.tasks
        tasks.append(task)
        if len(tasks) > life.sweep_at:
            tasks[:] = [one for one in tasks if not one.done()]
            life.sweep_at = 2 * len(tasks) + 64
        return task

    def sleep_ns(self, delay_ns: int) -> SimSleep:
        """Await it to suspend for `delay_ns` of true time; with zero, all else that is ready runs first."""
        return SimSleep(self, self.now_ns + delay_ns)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep an error that nobody handled, as a defect: the caller of `run` reports it."""
        error = context.get("exception")
        if self._is_closed or isinstance(error, NodeIsDown):
            return
        life = LIFE.get() or self.director
        self.failures.append(f"{life.name}: {context.get('message')}: {error!r}")

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._is_running

    def is_closed(self) -> bool:
        return self._is_closed

    # ---- the end ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End every life and let go of its tasks quietly. Call once, after `run`, or pending tasks warn later."""
        if self._is_closed:
            return
        for life in list(self._lives):
            life.on_death.clear()
            self.end_life(life)
        self._is_closed = True
        self._timers.clear()
        silenced, logging.root.manager.disable = logging.root.manager.disable, logging.CRITICAL
        asyncio.events._set_running_loop(self)
        try:
            for task in self._graveyard:
                _bury(self, task)
        finally:
            asyncio.events._set_running_loop(None)
            logging.root.manager.disable = silenced
        self._graveyard.clear()


def _bury(loop: SimLoop, task: SimTask) -> None:
    """Unwind a task that will never run again: every await of its `finally` blocks raises NodeIsDown at once.

    Throwing beats closing: `close` makes awaiting `finally` blocks a RuntimeError that product code would handle.
    """
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    coroutine = task.get_coro()
    assert inspect.iscoroutine(coroutine)
    asyncio.tasks._enter_task(loop, task)
    try:
        for _ in range(BURIAL_TRIES):
            with contextlib.suppress(BaseException):
                coroutine.throw(NodeIsDown("buried"))
            if inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED:
                return
    finally:
        asyncio.tasks._leave_task(loop, task)


def _install_async_generator_hooks(loop: SimLoop) -> Callable[[], None]:
    """Close an abandoned async generator in a task of its own life, as asyncio does; returns the undo."""
    before = sys.get_asyncgen_hooks()

    def finalize(generator: Any) -> None:
        if not loop.is_closed() and not (LIFE.get() or loop.director).is_dead:
            loop.create_task(close(generator), name="close async generator")

    async def close(generator: Any) -> None:  # `aclose` gives no coroutine, and only those can be buried
        await generator.aclose()

    sys.set_asyncgen_hooks(finalizer=finalize)
    return lambda: sys.set_asyncgen_hooks(*before)
