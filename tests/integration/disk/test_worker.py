"""The thread that writes: one call after the other, each with its own answer."""

import asyncio
import threading
from typing import Any

import pytest

from bookie.runtime.threads import Worker
from story_support import in_a_loop


@in_a_loop
async def test_a_caller_that_went_away_disturbs_nobody_and_its_call_is_made_all_the_same() -> None:
    troubles: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, trouble: troubles.append(trouble))
    worker, gate, made = Worker("test"), threading.Event(), list[str]()

    def slow(name: str) -> str:
        assert gate.wait(30)
        made.append(name)
        return name

    def fails() -> None:
        assert gate.wait(30)
        raise ValueError("nobody hears it")

    gone = [asyncio.create_task(worker.call(slow, "gone")), asyncio.create_task(worker.call(fails))]
    kept = asyncio.create_task(worker.call(slow, "kept"))
    await asyncio.sleep(0)
    for each in gone:
        each.cancel()
    await asyncio.sleep(0)
    gate.set()

    assert await kept == "kept"
    assert made == ["gone", "kept"]
    assert all(each.cancelled() for each in gone)
    assert troubles == []
    with pytest.raises(ValueError, match="nobody hears it"):
        await worker.call(fails)
    worker.stop()
