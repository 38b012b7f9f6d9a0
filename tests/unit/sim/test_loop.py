"""The simulated loop keeps asyncio's promises, repeats itself, and lets dead machines lie."""

import asyncio
import gc
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from bookie.sim.loop import LIFE, NodeIsDown, SimLoop, SimStuck
from story_support import story

ROOT = Path(__file__).resolve().parents[3]


def run(story: Callable[[SimLoop], Coroutine[Any, Any, Any]], seed: int = 1) -> Any:
    loop = SimLoop(seed)
    try:
        return loop.run(story(loop))
    finally:
        loop.close()


def test_time_stands_still_while_anything_can_run_and_then_jumps() -> None:
    async def story(loop: SimLoop) -> list[float]:
        seen = [loop.time()]
        for _ in range(100):
            await asyncio.sleep(0)
        seen.append(loop.time())
        await asyncio.sleep(3600 - 1)
        seen.append(loop.time())
        return seen

    assert run(story) == [0.0, 0.0, 3599.0]


def test_callbacks_of_one_life_run_first_in_first_out() -> None:
    async def story(loop: SimLoop) -> list[int]:
        seen: list[int] = []
        for number in range(50):
            loop.call_soon(seen.append, number)
        await asyncio.sleep(1)
        return seen

    assert run(story) == list(range(50))


def test_lives_take_turns_by_the_seed() -> None:
    async def story(loop: SimLoop) -> str:
        seen: list[str] = []

        async def speak(name: str) -> None:
            for _ in range(20):
                seen.append(name)
                await asyncio.sleep(0)

        await asyncio.gather(*(loop.spawn(loop.begin_life(name), speak(name)) for name in "abc"))
        return "".join(seen)

    orders = {run(story, seed) for seed in range(5)}
    assert len(orders) == 5
    assert run(story, 3) == run(story, 3)


def test_child_tasks_belong_to_the_life_of_their_parent() -> None:
    async def story(loop: SimLoop) -> str:
        async def child() -> str:
            life = LIFE.get()
            assert life is not None
            return life.name

        async def parent() -> str:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(child())
            return task.result()

        return await loop.spawn(loop.begin_life("bookie-1"), parent())

    assert run(story) == "bookie-1"


def test_timeouts_events_and_queues_work_in_virtual_time() -> None:
    async def story(loop: SimLoop) -> float:
        event = asyncio.Event()
        queue: asyncio.Queue[int] = asyncio.Queue(1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await event.wait()

        async def fill() -> None:
            for number in range(3):
                await asyncio.sleep(1)
                await queue.put(number)
            event.set()

        async with asyncio.TaskGroup() as group:
            group.create_task(fill())
            assert [await queue.get() for _ in range(3)] == [0, 1, 2]
            await event.wait()
        return loop.time()

    assert run(story) == 33.0


def test_a_sleep_ends_at_its_time_or_with_a_cancellation_and_leaves_no_garbage() -> None:
    """During a run nobody collects cycles, so that a sleep that leaves one makes each run slower as it goes on."""

    async def story(loop: SimLoop) -> list[object]:
        seen: list[object] = []

        async def sleep(delay_ns: int) -> None:
            try:
                await loop.sleep_ns(delay_ns)
                seen.append(loop.now_ns)
            except asyncio.CancelledError:
                seen.append(("cancelled", loop.now_ns))
                raise

        whole, cut, beyond = (loop.create_task(sleep(delay)) for delay in (0, 7_000, 9_000))
        loop.call_at_ns(9_000, beyond.cancel)  # its time has come then, and its turn has not
        await loop.sleep_ns(5_000)
        cut.cancel()
        assert not (await asyncio.gather(whole, cut, beyond, return_exceptions=True))[0]
        gc.collect()
        for _ in range(100):
            await loop.sleep_ns(1)
        assert gc.collect() == 0
        return seen

    assert run(story) == [0, ("cancelled", 5_000), ("cancelled", 9_000)]


def test_a_dead_life_runs_nothing_more_not_even_finally_blocks() -> None:
    async def story(loop: SimLoop) -> list[str]:
        seen: list[str] = []

        async def work() -> None:
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(asyncio.sleep(10))
                    await asyncio.sleep(5)
            finally:
                seen.append("finally")

        life = loop.begin_life("bookie-1")
        loop.spawn(life, work())
        life.context.run(loop.call_later, 2.0, seen.append, "timer")
        await asyncio.sleep(1)
        loop.end_life(life)
        await asyncio.sleep(60)
        return list(seen)

    assert run(story) == []


@story(run)
async def test_a_task_that_awaits_in_its_finally_block_is_buried_quietly(loop: SimLoop) -> None:
    async def work() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(100)

    loop.spawn(loop.begin_life("bookie-1"), work())
    await asyncio.sleep(1)


@story(run)
async def test_an_abandoned_async_generator_whose_closing_waits_is_buried_quietly(loop: SimLoop) -> None:
    """What `aclose` gives is no coroutine, and the run was red for that whatever it had found."""

    async def endless() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
        finally:
            await asyncio.sleep(100)

    async for _ in endless():
        break
    await asyncio.sleep(1)


@story(run)
async def test_work_for_a_dead_life_is_refused(loop: SimLoop) -> None:
    life = loop.begin_life("bookie-1")
    loop.end_life(life)
    with pytest.raises(NodeIsDown):
        loop.spawn(life, asyncio.sleep(1))


def test_a_story_that_can_never_go_on_is_stuck_and_says_who_waits() -> None:
    async def story(loop: SimLoop) -> None:
        await loop.create_future()

    with pytest.raises(SimStuck, match="director/director"):
        run(story)


def test_an_error_that_nobody_handles_is_kept_as_a_failure() -> None:
    async def story(loop: SimLoop) -> list[str]:
        def explode() -> None:
            raise ZeroDivisionError

        loop.spawn(loop.begin_life("bookie-1"), asyncio.sleep(0))
        loop.call_soon(explode)
        await asyncio.sleep(1)
        return loop.failures

    assert "ZeroDivisionError" in run(story)[0]


CANCELLATION_ORDER = """
import asyncio
from bookie.sim.loop import SimLoop

async def story():
    seen = []
    async def wait(number):
        try:
            await asyncio.sleep(100)
        finally:
            seen.append(number)
    try:
        async with asyncio.TaskGroup() as group:
            for number in range(40):
                group.create_task(wait(number))
            await asyncio.sleep(1)
            raise ValueError
    except* ValueError:
        pass
    done, _ = await asyncio.wait([asyncio.create_task(asyncio.sleep(n % 3, n)) for n in range(20)])
    return seen, [task.result() for task in done]

loop = SimLoop(7)
print(loop.run(story()), loop.fingerprint)
loop.close()
"""


@pytest.mark.slow
def test_cancellation_order_is_the_same_in_every_process() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", CANCELLATION_ORDER],
            env={"PYTHONHASHSEED": str(seed), "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in (1, 2, 3)
    }

    assert len(outputs) == 1
