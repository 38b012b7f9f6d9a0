"""Threads that read: every caller gets its own bytes or its own error, however many ask in one turn."""

import asyncio
import threading
from collections.abc import Iterable, Sequence

import pytest

from bookie.base import errors
from bookie.ports.disk import Span
from bookie.runtime import read_pool
from bookie.runtime.read_pool import ReadPool
from story_support import in_a_loop


def read(spans: Sequence[Span]) -> list[bytes]:
    found = []
    for offset, size in spans:
        if offset % 7 == 3:
            raise errors.StorageFailed(f"bad sector at {offset}")
        found.append(offset.to_bytes(8, "big") * size)
    return found


def spans_at(offsets: Iterable[int]) -> list[Span]:
    return [(offset, 2) for offset in offsets]


@in_a_loop
async def test_each_caller_gets_what_it_asked_for_or_what_went_wrong_with_it() -> None:
    pool = ReadPool("test")
    asked = [(offset,) for offset in range(300)] + [tuple(range(first, 7 * 90, 7)) for first in range(7)]
    answers = await asyncio.gather(*(pool.read(read, spans_at(offsets)) for offsets in asked), return_exceptions=True)
    for offsets, answer in zip(asked, answers, strict=True):
        if any(offset % 7 == 3 for offset in offsets):
            assert isinstance(answer, errors.StorageFailed)
            assert str(offsets[0]) in str(answer) or len(offsets) > 1
        else:
            assert answer == [offset.to_bytes(8, "big") * 2 for offset in offsets]
    pool.stop()


@in_a_loop
async def test_one_caller_with_many_reads_has_all_threads_and_one_with_one_has_one() -> None:
    pool, threads = ReadPool("test"), set()
    together = threading.Barrier(read_pool.THREADS, timeout=30)

    def meet(spans: Sequence[Span]) -> list[bytes]:
        threads.add(threading.get_ident())
        if len(spans) > 1:
            together.wait()
        return read(spans)

    offsets = [7 * number for number in range(read_pool.THREADS * 8)]
    assert len(await pool.read(meet, spans_at(offsets))) == len(offsets)
    assert len(threads) == read_pool.THREADS
    threads.clear()
    await pool.read(meet, spans_at([0]))
    assert len(threads) == 1
    pool.stop()


@in_a_loop
async def test_a_caller_that_went_away_disturbs_nobody() -> None:
    pool, gate = ReadPool("test"), threading.Event()

    def slow(spans: Sequence[Span]) -> list[bytes]:
        assert gate.wait(30)
        return [b"late"] * len(spans)

    gone = asyncio.create_task(pool.read(slow, [(0, 1)]))
    kept = asyncio.create_task(pool.read(slow, [(1, 1), (2, 1)]))
    await asyncio.sleep(0)
    gone.cancel()
    gate.set()
    assert await kept == [b"late", b"late"]
    with pytest.raises(asyncio.CancelledError):
        await gone
    pool.stop()


@in_a_loop
async def test_no_more_threads_than_reads_and_never_more_than_the_bound() -> None:
    before = threading.active_count()
    pool = ReadPool("test")
    await pool.read(read, [(0, 1)])
    assert threading.active_count() == before + 1
    await asyncio.gather(*(pool.read(read, [(7 * number, 1)]) for number in range(1000)))
    assert threading.active_count() == before + read_pool.THREADS
    pool.stop()
    assert threading.active_count() == before


@in_a_loop
async def test_no_hop_carries_more_reads_than_anybody_should_wait_for() -> None:
    pool, hops = ReadPool("test"), list[int]()

    def noted(spans: Sequence[Span]) -> list[bytes]:
        hops.append(len(spans))
        return read(spans)

    await pool.read(noted, spans_at(7 * number for number in range(10 * read_pool.THREADS * read_pool.SHARE_MAX)))

    assert max(hops) == read_pool.SHARE_MAX
    pool.stop()


class Refused(threading.Thread):
    """A thread for which the system has no room once `left` have begun."""

    left = 0

    def start(self) -> None:
        if not Refused.left:
            raise RuntimeError("can't start new thread")
        Refused.left -= 1
        super().start()


@in_a_loop
async def test_without_room_for_a_thread_a_read_fails_and_a_later_one_has_it() -> None:
    """A limit on the processes of a container counts threads, and those of its other programs."""
    pool = ReadPool("test", thread=Refused)
    Refused.left = 0
    with pytest.raises(errors.OutOfResources):
        await asyncio.wait_for(pool.read(read, [(0, 1), (7, 1)]), 30)
    Refused.left = 1
    offsets = [7 * number for number in range(read_pool.THREADS * 8)]
    assert len(await asyncio.wait_for(pool.read(read, spans_at(offsets)), 30)) == len(offsets)
    pool.stop()
