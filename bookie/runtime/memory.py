"""Gives back to the system the memory that a burst of work left behind.

What entries took stays with the C library when they are gone, in pieces between others that live: 68 of 111 MB, seen
after adds. To give it back while work goes on would be paid with every page that is then taken anew, so it is done when
a burst has passed. Linux with glibc; elsewhere nothing happens.
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
    """What this container may use; None: no limit, or nobody says."""
    for path in paths:
        try:
            text = Path(path).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        if text.isdecimal():
            return int(text) if int(text) < _NO_LIMIT else None
    return None


class Tide:
    """When to give back. Pure: it is told the CPU seconds that the process has used, at each look."""

    def __init__(self, cpu_s: float) -> None:
        self._cpu_s = cpu_s
        self._returned_at_s = cpu_s

    def has_ebbed(self, cpu_s: float) -> bool:
        """True when there was work since the last return, and is none now."""
        used_s, self._cpu_s = cpu_s - self._cpu_s, cpu_s
        if used_s >= LOOK_S * IDLE_SHARE or cpu_s - self._returned_at_s < BURST_S:
            return False
        self._returned_at_s = cpu_s
        return True


class _MemoryWatch:
    """Looks every `LOOK_S`, on a loop."""

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
    """Look after this process's memory on the running loop, until the context is left."""
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
    """malloc_trim(0): free pages anywhere in the heap go back, some milliseconds for a hundred MB."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    trim.argtypes = (ctypes.c_size_t,)
    trim.restype = ctypes.c_int

    def give_back() -> object:
        return trim(0)

    return give_back
