"""Runs the client's background tasks: one for each connection, watcher and ensemble change; never one per entry."""

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any


class Tasks:
    """A task group that ends by cancelling its tasks: nothing of the client outlives its `async with` block.

    A task that raises cancels the owner of the block, as task groups do: the error is a defect of ours, and must not
    pass unseen.
    """

    def __init__(self) -> None:
        self._group = asyncio.TaskGroup()
        self._running: dict[asyncio.Task[None], None] = {}
        self._is_open = False

    async def __aenter__(self) -> "Tasks":
        await self._group.__aenter__()
        self._is_open = True
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_open = False
        for task in list(self._running):
            task.cancel()
        if isinstance(exc, asyncio.CancelledError):
            await self._group.__aexit__(exc_type, exc, traceback)  # perhaps the group itself cancelled the block
        else:
            # The block's own error is the caller's: not to be wrapped into a group with ours.
            await self._group.__aexit__(None, None, None)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None] | None":
        """Run `work` in the background; None once the client is closing (then `work` never starts)."""
        if not self._is_open:
            work.close()
            return None
        task = self._group.create_task(work, name=name)
        self._running[task] = None
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: "asyncio.Task[None]") -> None:
        self._running.pop(task, None)
