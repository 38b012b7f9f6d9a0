"""Counters as a watcher sees them, and several coroutines as one call."""

import asyncio

import pytest

from bookie.base import errors
from bookie.base.ids import LedgerId
from bookie.base.units import NS_PER_MS, NS_PER_S
from bookie.integrity.progress import BLOCKED_SHOWN_MAX, BootProgress
from bookie.integrity.together import together
from bookie.ports.admin import RepairStatus, State


class HandClock:
    """A clock that stands until it is told."""

    def __init__(self) -> None:
        self.now_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns

    def wall_ms(self) -> int:
        return 0

    async def sleep_until(self, deadline_ns: int) -> None:
        self.now_ns = max(self.now_ns, deadline_ns)


def test_the_rate_is_that_of_the_last_seconds_and_ends_with_the_copies() -> None:
    clock = HandClock()
    progress = BootProgress(clock)

    def rate() -> float:
        return progress.snapshot(State.REPAIRING).bytes_per_second

    assert rate() == 0
    for _ in range(40):
        clock.now_ns += 100 * NS_PER_MS
        progress.copied(1000)
    assert rate() == pytest.approx(10_000, rel=0.1)
    clock.now_ns += 10 * NS_PER_S
    assert rate() == 0
    assert progress.snapshot(State.REPAIRING).bytes_copied == 40_000


def test_the_time_of_phase_one_runs_while_it_does_and_stays_afterwards() -> None:
    clock = HandClock()
    progress = BootProgress(clock)
    clock.now_ns = NS_PER_S
    progress.enter("one")
    progress.limbo = 3
    clock.now_ns += 20 * NS_PER_MS

    running = progress.snapshot(State.FENCING).phase_one_ms
    progress.end_phase_one()
    clock.now_ns += NS_PER_S

    assert (running, progress.snapshot(State.STAMPING).phase_one_ms) == (20, 20)
    assert progress.pending == 3


def test_blocked_ledgers_are_shown_in_order_and_not_without_end() -> None:
    progress = BootProgress(HandClock())
    progress.blocked = {LedgerId(number): "why" for number in reversed(range(BLOCKED_SHOWN_MAX + 5))}

    shown = progress.snapshot(State.REPAIRING).blocked

    assert [ledger.ledger_id for ledger in shown] == list(range(BLOCKED_SHOWN_MAX))


def test_a_watcher_sees_every_change_and_the_end() -> None:
    async def main() -> list[str]:
        progress = BootProgress(HandClock())
        seen: list[RepairStatus] = []

        async def watch() -> None:
            seen.extend([status async for status in progress.watch(lambda: State.REPAIRING, 60_000)])

        watching = asyncio.create_task(watch())
        for phase in ("one", "two", "done"):
            await asyncio.sleep(0)
            progress.enter(phase)
            await asyncio.sleep(0)
        await watching
        return [status.phase for status in seen]

    assert asyncio.run(main()) == ["", "one", "two", "done"]


def test_results_come_in_order_and_an_error_comes_as_it_is() -> None:
    async def give(number: int) -> int:
        await asyncio.sleep(0)
        if number < 0:
            raise errors.DiskFailed("disk")
        return number

    async def broken() -> int:
        raise ZeroDivisionError

    assert asyncio.run(together(give(number) for number in range(3))) == [0, 1, 2]
    with pytest.raises(errors.DiskFailed):
        asyncio.run(together([give(1), give(-1)]))
    with pytest.raises(ZeroDivisionError):
        asyncio.run(together([give(-1), broken()]))


def test_an_error_of_several_within_several_is_told_as_it_is_and_a_defect_before_any_other() -> None:
    """A group around it would be an error that nobody handles: the node would end where it must only wait."""

    async def fails(error: Exception) -> None:
        raise error

    async def pair(first: Exception, second: Exception) -> None:
        async with asyncio.TaskGroup() as group:
            for error in (first, second):
                group.create_task(fails(error))

    disk, late = errors.DiskFailed("disk"), errors.MetadataError("no answer")
    with pytest.raises(errors.DiskFailed):
        asyncio.run(together([pair(disk, late)]))
    with pytest.raises(ZeroDivisionError):
        asyncio.run(together([fails(late), pair(disk, ZeroDivisionError())]))
