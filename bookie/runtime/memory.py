"""Gives back to the system the memory that a burst of work left behind.

The C library keeps the memory of freed entries, in pieces between live ones: 68 of 111 MB, seen after adds. Giving it
back during work would cost a page fault for every page that is then taken anew, so it happens after a burst. Linux with
glibc; elsewhere nothing happens.
"""

import asyncio
import contextlib
import ctypes
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

LOOK_S = 0.5
# Of one core: less than this between two looks is no work. An idle bookie uses 1 %.
IDLE_SHARE = 0.1
# CPU seconds of work worth a return: some tens of thousands of requests.
BURST_S = 0.5


# Where a container sees its limit: version 2 of the kernel's control groups, and version 1.
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_NO_LIMIT = 1 << 60  # version 1 says so by a number near the end of all numbers


def limit_bytes(paths: Sequence[str] = _LIMITS) -> int | None:
    """Return how much memory this container may use; None when there is no limit, or none can be read."""
    for path in paths:
        try:
            text = Path(path).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        if text.isdecimal():
            return int(text) if int(text) < _NO_LIMIT else None
    return None


class Tide:
    """Decides when to give memory back. Pure: each look passes in the CPU seconds that the process has used."""

    def __init__(self, cpu_s: float) -> None:
        self._cpu_s = cpu_s
        self._returned_at_s = cpu_s

    def has_ebbed(self, cpu_s: float) -> bool:
        """Return True when the process has worked since the last return of memory, and is idle now."""
        used_s, self._cpu_s = cpu_s - self._cpu_s, cpu_s
        if used_s >= LOOK_S * IDLE_SHARE or cpu_s - self._returned_at_s < BURST_S:
            return False
        self._returned_at_s = cpu_s
        return True


class _MemoryWatch:
    """Looks at the process every `LOOK_S`, on a loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, give_back: Callable[[], object]) -> None:
        self._loop = loop
        self._give_back = give_back
        self._tide = Tide(time.process_time())
        self._timer = loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        if self._tide.has_ebbed(time.process_time()):
            self._give_back()
        self._timer = self._loop.call_later(LOOK_S, self._look)

    def stop(self) -> None:
        self._timer.cancel()


@contextlib.asynccontextmanager
async def returned_when_idle() -> AsyncIterator[None]:
    """Give this process's memory back when it is idle, on the running loop, until the context is left."""
    give_back = _giver()
    if give_back is None:
        yield
        return
    watch = _MemoryWatch(asyncio.get_running_loop(), give_back)
    try:
        yield
    finally:
        watch.stop()


def _giver() -> Callable[[], object] | None:
    """Return a function that calls malloc_trim(0), if there is one: free pages anywhere in the heap go back, some
    milliseconds for a hundred MB."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    trim.argtypes = (ctypes.c_size_t,)
    trim.restype = ctypes.c_int

    def give_back() -> object:
        return trim(0)

    return give_back
