"""Reads that must wait for the disk: a few tasks and a bounded queue, so that no request needs a task of its own."""

import asyncio
from collections.abc import Awaitable, Callable

Job = Callable[[], Awaitable[None]]

# Reads of one turn share a hop to a thread (`runtime.read_pool`), so this many cost few hops; and no more than so many
# entries of the largest size are in memory on their way from the disk.
READERS = 32
# maxPendingReadRequestsPerThread of Java; beyond it ETOOMANYREQUESTS.
QUEUE_MAX = 10_000


class Readers:
    """Runs jobs in the order they came, `READERS` at a time. A job must not raise operating errors."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Job] = asyncio.Queue(QUEUE_MAX)

    def submit(self, job: Job) -> bool:
        """Queue `job`; False when the queue is full (it was not taken)."""
        try:
            self._queue.put_nowait(job)
        except asyncio.QueueFull:
            return False
        return True

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(READERS):
                group.create_task(self._work(), name=f"reader {number}")

    async def _work(self) -> None:
        while True:
            job = await self._queue.get()
            await job()
