"""Stories on the real disk."""

import asyncio
from collections.abc import Awaitable, Callable

from bookie.runtime.disk import SystemDisk


def run(story: Callable[[SystemDisk], Awaitable[None]]) -> None:
    """Run `story` on a loop of its own; the disk's threads end with it."""

    async def whole() -> None:
        disk = SystemDisk()
        try:
            await story(disk)
        finally:
            disk.close()

    asyncio.run(whole())
