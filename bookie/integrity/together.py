"""Runs several coroutines side by side as one call: returns their results in order, or raises one plain error."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from bookie.base.errors import BookieError

T = TypeVar("T")


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all; when one fails, cancel the others and raise its error as it is, not in a group."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
    except BaseExceptionGroup as failed:
        raise _to_tell(failed) from None
    return [task.result() for task in tasks]


def _to_tell(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Choose the error to raise: a programming error before an operating one, else the first."""
    leaves: list[BaseException] = []
    for error in group.exceptions:
        leaves.append(_to_tell(error) if isinstance(error, BaseExceptionGroup) else error)
    return next((error for error in leaves if not isinstance(error, BookieError)), leaves[0])
