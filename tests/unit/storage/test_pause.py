"""Giving the loop back: whoever is ready runs, and a task that ends while it pauses ends without a word."""

import asyncio
from typing import Any

from bookie.storage.pause import pause


def test_a_task_that_is_cancelled_while_it_pauses_leaves_no_error_behind() -> None:
    """A stop cancels scrub and compaction at any moment: the loop then told of an error of ours."""
    told: list[dict[str, Any]] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: told.append(context))
        task = loop.create_task(pause())
        loop.call_soon(task.cancel)  # in the turn in which the pause begins
        await asyncio.wait([task])
        await asyncio.sleep(0)

        assert task.cancelled()

    asyncio.run(story())

    assert told == []
