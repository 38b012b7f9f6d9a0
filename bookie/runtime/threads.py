"""Threads that do blocking calls for the loop, one call after the other.

A hop costs about 25 µs, so callers hop once per group of work, never per entry.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from bookie.base import errors

T = TypeVar("T")


def start(thread: threading.Thread) -> None:
    """Start `thread`. Raises OutOfResources where the system has no room for one more: a limit on the processes of a
    container counts threads, those of its other programs too."""
    try:
        thread.start()
    except RuntimeError as error:
        raise errors.OutOfResources(f"{thread.name}: {error}") from error


class Worker:
    """One thread. Calls run in the order they were made; results come back on the caller's loop. Raises as `start`."""

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[tuple[Any, ...] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        start(self._thread)

    async def call(self, function: Callable[..., T], *args: object) -> T:
        """Run `function(*args)` in the thread. Cancelling the caller does not stop a call that was made."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._calls.put((loop, future, function, args))
        return await future

    def stop(self) -> None:
        """Let the thread end after the calls made so far, and wait for it."""
        self._calls.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            loop, future, function, args = call
            result: object = None
            error: BaseException | None = None
            try:
                result = function(*args)
            except BaseException as caught:  # noqa: BLE001  # raised again in the caller
                error = caught
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_settle, future, result, error)
            del call, future, result, error


def _settle(future: "asyncio.Future[object]", result: object, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
