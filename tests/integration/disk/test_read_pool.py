"""Threads that read: every caller gets its own bytes or its own error, however many ask in one turn."""

import asyncio
import threading

import pytest

from bookie.base import errors
from bookie.runtime import read_pool
from bookie.runtime.read_pool import ReadPool


def read(offset: int, size: int) -> bytes:
    if offset % 7 == 3:
        raise errors.StorageFailed(f"bad sector at {offset}")
    return offset.to_bytes(8, "big") * size


def test_each_caller_gets_what_it_asked_for_or_what_went_wrong_with_it() -> None:
    async def story() -> None:
        pool = ReadPool("test")
        answers = await asyncio.gather(*(pool.read(read, offset, 2) for offset in range(500)), return_exceptions=True)
        for offset, answer in enumerate(answers):
            if offset % 7 == 3:
                assert isinstance(answer, errors.StorageFailed)
                assert str(offset) in str(answer)
            else:
                assert answer == offset.to_bytes(8, "big") * 2
        pool.stop()

    asyncio.run(story())


def test_a_caller_that_went_away_disturbs_nobody() -> None:
    async def story() -> None:
        pool, gate = ReadPool("test"), threading.Event()

        def slow(offset: int, size: int) -> bytes:
            assert gate.wait(30)
            return b"late"

        gone = asyncio.create_task(pool.read(slow, 0, 1))
        kept = asyncio.create_task(pool.read(slow, 1, 1))
        await asyncio.sleep(0)
        gone.cancel()
        gate.set()
        assert await kept == b"late"
        with pytest.raises(asyncio.CancelledError):
            await gone
        pool.stop()

    asyncio.run(story())


def test_no_more_threads_than_reads_and_never_more_than_the_bound() -> None:
    async def story() -> None:
        before = threading.active_count()
        pool = ReadPool("test")
        await pool.read(read, 0, 1)
        assert threading.active_count() == before + 1
        await asyncio.gather(*(pool.read(read, 7 * number, 1) for number in range(1000)))
        assert threading.active_count() == before + read_pool.THREADS
        pool.stop()
        assert threading.active_count() == before

    asyncio.run(story())
