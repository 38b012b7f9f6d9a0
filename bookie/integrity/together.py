"""Runs several coroutines side by side as one call: returns their results in order, or raises one plain error."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from bookie.base.errors import BookieError
from bookie.base.groups import ungrouped

T = TypeVar("T")


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all; when one fails, cancel the others and raise its error as it is, not in a group.

    Who is cancelled meanwhile is cancelled, whatever fails. A task group before Python 3.13 that a task of its own
    fails forgets that its owner was cancelled, and a part of a bookie that outlives the error would outlive the stop:
    so no error reaches the group.
    """
    calls, tasks, failed = list(work), list[asyncio.Task[T]](), list[Exception]()

    def stop_all() -> None:
        for task in tasks:
            task.cancel()

    async def run(call: Coroutine[Any, Any, T]) -> T:
        try:
            return await call
        except Exception as error:  # noqa: BLE001  # raised again in the caller
            failed.append(error)
            asyncio.get_running_loop().call_soon(stop_all)  # later: what fails in the same turn is told as well
            raise asyncio.CancelledError from None  # to the group, which has heard nothing

    async with ungrouped(BookieError):
        try:
            async with asyncio.TaskGroup() as group:
                tasks += [group.create_task(run(call)) for call in calls]
        finally:
            for call in calls:
                call.close()  # of a task that was cancelled before its first step: nobody awaited it
        if failed:
            raise ExceptionGroup("of several", failed)
    return [task.result() for task in tasks]
