"""What ends a block that takes too long: the same in each Python, whatever the task has been through."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from bookie.ports.time_limit import TimeLimit
from story_support import in_a_loop

SOON_S = 0.01


async def overdue() -> str:
    """Return what ends a block that would never end."""
    try:
        async with TimeLimit(SOON_S):
            await asyncio.Event().wait()
    except TimeoutError:
        return "TimeoutError"
    except asyncio.CancelledError:
        return "CancelledError"
    return "nothing"


async def in_a_task(work: Coroutine[Any, Any, object]) -> asyncio.Task[object]:
    task = asyncio.get_running_loop().create_task(work)
    await asyncio.wait([task])
    return task


@in_a_loop
async def test_what_takes_too_long_ends_by_a_timeout_and_what_does_not_goes_on() -> None:
    assert await overdue() == "TimeoutError"
    for enough in (60, None):
        async with TimeLimit(enough):
            await asyncio.sleep(0)


@in_a_loop
async def test_it_is_a_timeout_after_a_failed_task_group_too() -> None:
    async def fails() -> None:
        raise ValueError

    async def work() -> str:
        with pytest.raises(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                group.create_task(fails())
        return await overdue()

    assert (await in_a_task(work())).result() == "TimeoutError"


@in_a_loop
async def test_it_is_a_timeout_in_the_cleanup_of_a_cancelled_task_which_stays_cancelled() -> None:
    ends = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ends.append(await overdue())

    task = asyncio.get_running_loop().create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])

    assert (ends, task.cancelled()) == (["TimeoutError"], True)


@in_a_loop
async def test_who_is_cancelled_while_the_time_runs_out_is_cancelled() -> None:
    async def work() -> None:
        async with TimeLimit(0):
            task = asyncio.current_task()
            assert task is not None
            task.get_loop().call_soon(task.cancel)
            await asyncio.Event().wait()

    assert (await in_a_task(work())).cancelled()


@in_a_loop
async def test_of_two_limits_each_ends_its_own_block() -> None:
    async def work() -> list[str]:
        ends = []
        try:
            async with TimeLimit(SOON_S), TimeLimit(60):
                await asyncio.Event().wait()
        except TimeoutError:
            ends.append("the outer one")
        async with TimeLimit(60):
            ends.append(await overdue())
        return ends

    assert (await in_a_task(work())).result() == ["the outer one", "TimeoutError"]
