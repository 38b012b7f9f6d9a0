"""Runs several coroutines side by side as one call: returns their results in order, or raises one plain error."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from bookie.base.errors import BookieError
from bookie.base.groups import ungrouped

T = TypeVar("T")


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all; when one fails, cancel the others and raise its error as it is, not in a group."""
    async with ungrouped(BookieError), asyncio.TaskGroup() as group:
        tasks = [group.create_task(one) for one in work]
    return [task.result() for task in tasks]
