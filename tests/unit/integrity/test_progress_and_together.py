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
    progress.enter("cookie")
    clock.now_ns += NS_PER_S

    assert (running, progress.snapshot(State.STAMPING).phase_one_ms) == (20, 20)
    assert progress.pending == 3


COUNTED = {"scanned": 1, "total": 2, "member": 3, "fenced": 4, "limbo": 5}


def counted(progress: BootProgress) -> None:
    """As after a phase that looked at ledgers, with some of them still to be repaired."""
    for name, count in COUNTED.items():
        setattr(progress, name, count)
    progress.pending, progress.done_count, progress.entries_pending = 6, 7, 8


@pytest.mark.parametrize("phase", ["one", "examining", "cookie", "two"])
def test_who_looks_at_all_ledgers_again_counts_from_zero_and_nobody_else_does(phase: str) -> None:
    progress = BootProgress(HandClock())
    counted(progress)

    progress.enter(phase)

    shown = progress.snapshot(State.REPAIRING)
    begins = phase in ("one", "examining")
    assert {name: getattr(shown, f"ledgers_{name}") for name in COUNTED} == {
        name: 0 if begins else count for name, count in COUNTED.items()
    }
    assert (shown.ledgers_pending, shown.ledgers_done, shown.entries_pending) == (6, 7, 8)
    assert (shown.phase, shown.done, progress.is_done) == (phase, False, False)


@pytest.mark.parametrize(
    ("phase", "is_counted"),
    [("", False), ("one", False), ("examining", False), ("cookie", True), ("two", True), ("done", True)],
)
def test_what_is_pending_is_a_number_only_after_all_ledgers_were_looked_at(phase: str, *, is_counted: bool) -> None:
    """A metric that says 0 before that would say that nothing is left to repair."""
    progress = BootProgress(HandClock())
    if phase:
        progress.enter(phase)

    assert progress.is_counted is is_counted


def test_at_the_end_nothing_is_pending_and_the_time_stands() -> None:
    clock = HandClock()
    clock.now_ns = NS_PER_S
    progress = BootProgress(clock)
    counted(progress)
    progress.copied(1000)
    clock.now_ns += 5 * NS_PER_S
    progress.copied(1000)
    running = progress.snapshot(State.REPAIRING)
    assert (running.elapsed_ms, running.bytes_per_second > 0) == (5_000, True)

    progress.enter("done")
    assert progress.snapshot(State.REPAIRING).bytes_per_second == 0
    clock.now_ns += 60 * NS_PER_S

    shown = progress.snapshot(State.REPAIRING)
    assert (shown.ledgers_limbo, shown.ledgers_pending, shown.entries_pending) == (0, 0, 0)
    assert (shown.done, shown.bytes_per_second, shown.elapsed_ms) == (True, 0, 5_000)
    assert (shown.entries_copied, shown.bytes_copied, shown.ledgers_done) == (2, 2000, 7)


def test_before_anything_was_looked_at_nobody_knows_how_many_entries_are_pending() -> None:
    progress = BootProgress(HandClock())
    shown = progress.snapshot(State.FENCING)
    assert shown.entries_pending == -1
    assert (shown.ledgers_done, shown.ledgers_pending, shown.entries_copied, shown.bytes_copied) == (0, 0, 0, 0)
    assert (shown.phase, shown.phase_one_ms, shown.done, shown.incarnation) == ("", 0, False, 0)

    progress.entries_pending = 2**63

    assert progress.snapshot(State.FENCING).entries_pending == 2**63 - 1, "an int64 on the wire"


def test_who_waits_for_the_end_waits_again_when_there_is_more_to_do() -> None:
    async def main() -> list[bool]:
        progress = BootProgress(HandClock())
        found = []
        for phase in ("two", "done", "examining", "done"):
            progress.enter(phase)
            waiting = asyncio.ensure_future(progress.until_done())
            await asyncio.sleep(0)
            found.append(waiting.done())
            waiting.cancel()
        return found

    assert asyncio.run(main()) == [False, True, False, True]


def test_a_watcher_is_told_of_the_end_of_phase_one_and_of_every_interval() -> None:
    async def main() -> list[int]:
        progress = BootProgress(HandClock())
        progress.enter("one")
        watching = progress.watch(lambda: State.FENCING, 60_000)
        await anext(watching)
        progress.limbo = 3
        progress.end_phase_one()
        shown = [(await asyncio.wait_for(anext(watching), 5)).ledgers_pending]
        quick = progress.watch(lambda: State.FENCING, 1)
        shown += [(await asyncio.wait_for(anext(quick), 5)).ledgers_pending for _ in range(3)]
        return shown

    assert asyncio.run(main()) == [3, 3, 3, 3]


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


def test_who_is_cancelled_in_the_moment_in_which_one_fails_is_cancelled() -> None:
    """A part of a bookie that outlives errors went on when the bookie stopped, and the last flush waited for it."""

    async def main() -> bool:
        moment: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def fails() -> None:
            await moment
            raise errors.MetadataError("no answer")

        async def waits() -> None:
            await asyncio.Event().wait()

        async def part() -> None:
            try:
                await together([fails(), waits()])
            except errors.BookieError:
                await waits()

        task = asyncio.create_task(part())
        await asyncio.sleep(0.01)
        moment.set_result(None)
        await asyncio.sleep(0)  # it has failed, and nobody has heard of it
        task.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        has_ended = task.cancelled()
        task.cancel()
        return has_ended

    assert asyncio.run(main())


def test_one_that_fails_ends_those_that_have_not_begun_and_leaves_no_request_to_cancel() -> None:
    async def main() -> int:
        async def fails() -> None:
            raise errors.MetadataError("no answer")

        with pytest.raises(errors.MetadataError):
            await together([fails(), fails(), fails()])
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert asyncio.run(main()) == 0
