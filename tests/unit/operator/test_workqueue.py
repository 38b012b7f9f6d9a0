"""The queue: each key once, never twice at a time, soon after an event, later after a failure."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

import story_support
from bookie.base.errors import BookieError
from bookie_operator import workqueue
from bookie_operator.execute.hand import LostLease
from bookie_operator.gateways import kube
from bookie_operator.gateways.kube import KubeError
from bookie_operator.health import Vitals
from bookie_operator.telemetry import Telemetry
from bookie_operator.workqueue import PARALLEL, PASSES_MAX, STUCK_AFTER, WorkQueue
from story_support import in_a_loop


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workqueue, "DEBOUNCE_MS", 1)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - the queue tells nobody; a turn of the loop is the step
            await asyncio.sleep(0)


async def run(queue: WorkQueue[str], then: Callable[[], Awaitable[None]]) -> None:
    task = asyncio.create_task(queue.run())
    try:
        await then()
    finally:
        task.cancel()
        await asyncio.wait([task])


def test_a_burst_of_events_is_one_pass() -> None:
    seen: list[str] = []

    async def handle(key: str) -> None:
        seen.append(key)

    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue(handle)
        for _ in range(100):
            queue.add("a")
        await run(queue, lambda: until(lambda: queue.passes == 1 and len(queue) == 0))

    asyncio.run(story())

    assert seen == ["a"]


def test_a_key_is_never_worked_on_twice_at_a_time_and_once_more_when_added_meanwhile() -> None:
    running = 0
    most = 0

    async def story() -> int:
        gate = asyncio.Event()

        async def handle(key: str) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await gate.wait()
            running -= 1

        queue: WorkQueue[str] = WorkQueue(handle)
        queue.add("a")

        async def then() -> None:
            await until(lambda: running == 1)
            queue.add("a")
            await asyncio.sleep(0)
            gate.set()
            await until(lambda: queue.passes == 2)

        await run(queue, then)
        return queue.passes

    assert asyncio.run(story()) == 2
    assert most == 1


def test_passes_that_never_end_keep_no_other_cluster_waiting_up_to_thirty_one_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workqueue, "LONG_MS", 1)
    seen: list[str] = []

    async def story() -> None:
        async def handle(key: str) -> None:
            seen.append(key)
            if key != "good":
                await asyncio.Event().wait()

        queue: WorkQueue[str] = WorkQueue(handle)
        slow = [f"slow {number}" for number in range(PASSES_MAX - 1)]
        for key in slow:
            queue.add(key)

        async def then() -> None:
            await until(lambda: sorted(seen) == sorted(slow))
            queue.add("good")
            await until(lambda: queue.passes == 1)
            queue.add("good")
            await until(lambda: queue.passes == 2)

        await run(queue, then)

    asyncio.run(story())

    assert seen.count("good") == 2


def test_so_many_passes_that_wait_and_no_more_are_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workqueue, "LONG_MS", 0)
    running: list[str] = []

    async def story() -> None:
        gate = asyncio.Event()

        async def handle(key: str) -> None:
            running.append(key)
            await gate.wait()

        queue: WorkQueue[str] = WorkQueue(handle)
        for number in range(PASSES_MAX + 3):
            queue.add(str(number))

        async def then() -> None:
            # All begin in one turn of the loop, so that one more would be among these.
            await until(lambda: len(running) == PASSES_MAX)
            gate.set()
            await until(lambda: queue.passes == PASSES_MAX + 3)

        await run(queue, then)

    asyncio.run(story())


def test_passes_that_have_just_begun_run_side_by_side_up_to_the_limit() -> None:
    running: list[str] = []

    async def story() -> None:
        async def handle(key: str) -> None:
            running.append(key)
            await asyncio.Event().wait()

        queue: WorkQueue[str] = WorkQueue(handle)
        for number in range(PARALLEL + 2):
            queue.add(str(number))
        await run(queue, lambda: until(lambda: len(running) == PARALLEL))

    asyncio.run(story())

    assert len(running) == PARALLEL


def test_what_a_pass_asks_for_comes_again() -> None:
    async def story() -> int:
        async def handle(key: str) -> int | None:
            return 0 if queue.passes < 3 else None

        queue: WorkQueue[str] = WorkQueue(handle)
        queue.add("a")
        await run(queue, lambda: until(lambda: queue.passes == 4 and len(queue) == 0))
        return queue.passes

    assert asyncio.run(story()) == 4


@pytest.mark.parametrize("error", [BookieError("expected"), RuntimeError("a defect")])
def test_a_failed_pass_is_tried_again_later_and_later(error: Exception) -> None:
    async def story() -> list[int]:
        async def handle(key: str) -> None:
            raise error

        queue: WorkQueue[str] = WorkQueue(handle)
        delays: list[int] = []
        queue.add = lambda key, delay_ms=None: delays.append(delay_ms)  # type: ignore[method-assign,assignment]
        for _ in range(12):
            await queue._work("a")
        return delays

    delays = asyncio.run(story())

    assert delays[:4] == [250, 500, 1_000, 2_000]
    assert delays[-1] == 60_000


def test_a_fatal_error_ends_the_queue() -> None:
    async def story() -> None:
        async def handle(key: str) -> None:
            raise LostLease("gone")

        queue: WorkQueue[str] = WorkQueue(handle)
        queue.add("a")
        await queue.run()

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(story())
    assert caught.value.subgroup(LostLease) is not None


@story_support.in_a_loop
async def test_an_earlier_promise_is_kept() -> None:
    async def handle(key: str) -> None:
        return None

    queue: WorkQueue[str] = WorkQueue(handle)
    queue.add("a", 0)
    queue.add("a", 3_600_000)
    await run(queue, lambda: until(lambda: queue.passes == 1))


@in_a_loop
async def test_a_key_that_keeps_failing_is_named_with_its_reason_until_it_succeeds() -> None:
    is_broken = True

    async def handle(key: str) -> int:
        if is_broken and key == "broken":
            raise BookieError("PATCH status: 403 forbidden")
        return 60_000

    queue: WorkQueue[str] = WorkQueue(handle)

    async def fail_and_mend() -> None:
        nonlocal is_broken
        queue.add("fine")
        for failures in range(1, STUCK_AFTER + 1):
            assert queue.hindrance == ""
            queue.add("broken", 0)
            await until(lambda: queue.errors == failures)  # noqa: B023 - awaited at once
        assert "broken" in queue.hindrance
        assert "403 forbidden" in queue.hindrance

        is_broken = False
        queue.add("broken", 0)
        await until(lambda: queue.hindrance == "")

    await run(queue, fail_and_mend)


def test_readiness_says_what_keeps_the_operator_from_its_work() -> None:
    hindrance = "the lease cannot be taken: 403 forbidden"

    async def ask() -> web.Response:
        return await Vitals({}, Telemetry(), lambda: hindrance)._readyz(make_mocked_request("GET", "/readyz"))

    answer = asyncio.run(ask())
    assert (answer.status, answer.text) == (503, "not ready: the lease cannot be taken: 403 forbidden\n")

    hindrance = ""
    assert asyncio.run(ask()).status == 200


def test_an_overloaded_api_server_is_left_alone_for_as_long_as_it_asks_whatever_events_come() -> None:
    async def story() -> tuple[float, list[str]]:
        loop, seen = asyncio.get_running_loop(), list[str]()

        async def handle(key: str) -> None:
            seen.append(key)
            raise KubeError("LIST pods", 429, "too many requests", 30_000)

        queue: WorkQueue[str] = WorkQueue(handle)
        queue.add("a")

        async def then() -> None:
            await until(lambda: queue.errors == 1 and len(queue) == 1)
            for _ in range(50):
                queue.add("a")  # its pods change all the time
                await asyncio.sleep(0)

        await run(queue, then)
        return min(queue._due.values()) - loop.time(), seen

    wait_s, seen = asyncio.run(story())

    assert seen == ["a"]
    assert wait_s > 25


def test_an_event_during_the_pass_that_was_asked_to_wait_brings_the_next_one_no_sooner() -> None:
    async def story() -> float:
        async def handle(key: str) -> None:
            queue.add(key)  # what the pass wrote came back as an event
            raise KubeError("LIST pods", 429, "too many requests", 30_000)

        queue: WorkQueue[str] = WorkQueue(handle)
        queue.add("a")
        await run(queue, lambda: until(lambda: queue.errors == 1 and len(queue) == 1))
        return min(queue._due.values()) - asyncio.get_running_loop().time()

    assert asyncio.run(story()) > 25


class HeldClock(asyncio.SelectorEventLoop):
    """A loop whose clock a test sets."""

    now_s = 1_000.0

    def time(self) -> float:
        return self.now_s


def test_what_is_due_is_begun_though_a_timer_fires_a_moment_early_and_nothing_sooner() -> None:
    """No turn of such a loop would bring the time nearer: the queue would wait for ever, or turn as long."""
    loop, seen = HeldClock(), list[str]()

    async def handle(key: str) -> None:
        seen.append(key)

    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue(handle)
        queue.add("due", 0)
        loop.now_s += 2e-6
        queue.add("soon", 0)
        loop.now_s -= 2.5e-6

        async def then() -> None:
            for _ in range(50):
                await asyncio.sleep(0)

        await run(queue, then)

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(story())

    assert seen == ["due"]


@pytest.mark.parametrize(
    ("header", "expected_ms"),
    [(None, 0), ("", 0), ("7", 7_000), ("999999", 120_000), ("Wed, 21 Oct 2026", 0), ("-1", 0)],
)
def test_how_long_to_wait_is_read_from_the_answer_and_bounded(header: str | None, expected_ms: int) -> None:
    assert kube._retry_after_ms(header) == expected_ms
