"""Threads that read from one directory's disk, or its index. The reads of one turn of the loop go to them in shares.

A hop to a thread and back costs the loop about 25 µs, a read of a cached page 1 µs and of a flash disk 100 µs: so a hop
carries many reads, and there are as many threads as keep the disk busy while one of them waits.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from bookie.base import errors
from bookie.base.units import div_ceil
from bookie.runtime import threads

# Measured on a virtual disk, 64 random reads of 1 KiB at a time: 36, 38 and 30 thousand a second with 2, 4 and 8.
THREADS = 4
SHARE_MAX = 32  # reads of one hop: nobody waits for more than these

What = TypeVar("What")  # a span of a file, or a key of an index
Read = Callable[[Sequence[What]], list[bytes]]


class _Batch(Generic[What]):
    """The reads of one caller: a column for the answers, and how many of them are still missing."""

    __slots__ = ("found", "future", "left", "read", "spans")

    def __init__(self, future: "asyncio.Future[list[bytes]]", read: Read[What], spans: Sequence[What]) -> None:
        self.future = future
        self.read = read
        self.spans = spans
        self.found = [b""] * len(spans)
        self.left = len(spans)


class _Part(NamedTuple, Generic[What]):
    """The spans of a batch from `start` to `end`."""

    batch: _Batch[What]
    start: int
    end: int


class _Done(NamedTuple, Generic[What]):
    part: _Part[What]
    found: list[bytes]
    error: BaseException | None


class ReadPool(Generic[What]):
    """Reads in threads, which start with the first read and end with `stop`."""

    def __init__(self, name: str, *, thread: type[threading.Thread] = threading.Thread) -> None:
        self._name = name
        self._thread = thread
        self._threads: list[threading.Thread] = []
        self._shares: queue.SimpleQueue[tuple[asyncio.AbstractEventLoop, list[_Part[What]]] | None] = (
            queue.SimpleQueue()
        )
        self._waiting: list[_Batch[What]] = []

    async def read(self, read: Read[What], spans: Sequence[What]) -> list[bytes]:
        """Run `read(spans)`, with at least one span, in the threads, each with a part of the spans; raises the error of
        any part, and OutOfResources where there is no room for a thread. Cancelling the caller does not stop a read
        that was begun.
        """
        assert spans
        loop = asyncio.get_running_loop()
        batch = _Batch(loop.create_future(), read, spans)
        self._waiting.append(batch)
        if len(self._waiting) == 1:
            loop.call_soon(self._hand_out, loop)
        return await batch.future

    def stop(self) -> None:
        """Let the threads end after the reads handed out so far, and wait for them."""
        for _ in self._threads:
            self._shares.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _hand_out(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting, self._waiting = self._waiting, []
        count = sum(len(batch.spans) for batch in waiting)
        shares = max(min(THREADS, count), div_ceil(count, SHARE_MAX))
        try:
            while len(self._threads) < min(shares, THREADS):
                thread = self._thread(target=self._run, name=f"{self._name} {len(self._threads)}", daemon=True)
                threads.start(thread)
                self._threads.append(thread)
        except errors.OutOfResources as error:
            if not self._threads:  # else those there are do all of it
                _fail(waiting, error)
                return
        for share in _cut(waiting, div_ceil(count, shares)):
            self._shares.put((loop, share))

    def _run(self) -> None:
        while (share := self._shares.get()) is not None:
            loop, parts = share
            done = [_outcome(part) for part in parts]
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_settle, done)
            del share, loop, parts, done


def _fail(batches: Sequence[_Batch[What]], error: errors.OutOfResources) -> None:
    for batch in batches:
        if not batch.future.done():
            batch.future.set_exception(error)


def _cut(batches: Sequence[_Batch[What]], count: int) -> list[list[_Part[What]]]:
    """Yield the spans of all batches, in order, in shares of `count`."""
    shares: list[list[_Part[What]]] = []
    room = 0
    for batch in batches:
        start = 0
        while start < len(batch.spans):
            if not room:
                shares.append([])
                room = count
            end = min(start + room, len(batch.spans))
            shares[-1].append(_Part(batch, start, end))
            room -= end - start
            start = end
    return shares


def _outcome(part: _Part[What]) -> _Done[What]:
    batch, start, end = part
    try:
        return _Done(part, batch.read(batch.spans[start:end]), None)
    except BaseException as error:  # noqa: BLE001  # raised again in the caller
        return _Done(part, [], error)


def _settle(done: list[_Done[What]]) -> None:
    for (batch, start, end), found, error in done:
        if batch.future.done():
            continue
        if error is not None:
            batch.future.set_exception(error)
            continue
        batch.found[start:end] = found
        batch.left -= end - start
        if not batch.left:
            batch.future.set_result(batch.found)
