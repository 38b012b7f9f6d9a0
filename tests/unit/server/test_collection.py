"""The driver of garbage collection: what it gives up and tries again, and runs that are asked for."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import story_support
from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.base.rounds import Rounds
from bookie.ports.admin import Compaction
from bookie.runtime.clock import SystemClock
from bookie.server.collection import Collection
from bookie.storage.collect import collector
from bookie.storage.collect.brake import Amount
from bookie.storage.collect.collector import Collected
from bookie.storage.collect.compactor import Compacted
from bookie.storage.collect.plan import Kind
from story_support import in_a_loop

FOUND = Collected(ledgers_seen=5, ledgers_deleted=2, logs_dropped=1)


class Enough(Exception):
    """The test has seen what it wanted."""


class FakeCompactor:
    """Answers without doing anything; raises `trouble` when there is some."""

    def __init__(self) -> None:
        self.asked: list[tuple[Kind, bool]] = []
        self.turns = 0
        self.trouble: errors.BookieError | None = None

    async def run(self) -> Compacted | None:
        self.turns += 1
        return None

    async def compact(self, kind: Kind, *, is_forced: bool) -> Compacted:
        self.asked.append((kind, is_forced))
        if self.trouble is not None:
            raise self.trouble
        return Compacted(logs=3, entries=40, bytes_freed=1000)


def collection(compactor: FakeCompactor | None = None, *, interval_ms: int = 3_600_000) -> Collection:
    nothing: Any = None
    fake: Any = compactor or FakeCompactor()
    return Collection(
        nothing, nothing, fake, nothing, "", clock=SystemClock(), me=BookieId("b1:3181"), interval_ms=interval_ms
    )


async def finds(store: object, *_: object, **__: object) -> Collected:
    return FOUND


def run_beside(driver: Collection, story: Callable[[], Awaitable[None]]) -> None:
    async def both() -> None:
        running = asyncio.get_running_loop().create_task(driver.run())
        async with asyncio.timeout(30):
            await story()
        assert not running.done()
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(both())


@pytest.mark.parametrize("trouble", [errors.MetadataError, errors.DiskFull, errors.BookieReadOnly, errors.CorruptFile])
def test_a_run_that_cannot_be_finished_is_tried_again(
    trouble: type[errors.BookieError], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A full disk above all: it is why somebody deleted ledgers.
    runs: list[object] = []

    async def fails(store: object, *_: object, **__: object) -> None:
        runs.append(store)
        if len(runs) == 3:
            raise Enough
        raise trouble("not now")

    monkeypatch.setattr(collector, "collect", fails)

    compactor = FakeCompactor()
    with pytest.raises(Enough):
        asyncio.run(collection(compactor, interval_ms=1).run())

    assert len(runs) == 3
    assert compactor.turns == 2  # compaction asks the metadata store nothing, and makes room


class EmptyStore:
    """A store without ledgers."""

    partitions = ()

    async def flush(self) -> None:
        pass


class DueCompactor:
    """Runs that come to, or raise, what stands in `runs`; None: none is due. Notes what was told before each."""

    def __init__(self, rounds: Rounds, *runs: Compacted | errors.BookieError | None) -> None:
        self.told: list[str] = []
        self._rounds, self._runs = rounds, list(runs)

    async def run(self) -> Compacted | None:
        self.told.append(self._rounds.last().get("compaction", "nothing"))
        if not self._runs:
            raise Enough
        found = self._runs.pop(0)
        if isinstance(found, errors.BookieError):
            raise found
        return found


def test_a_compaction_that_was_given_up_is_told_until_another_one_was_due_and_came_to_its_end() -> None:
    nothing: Any = None
    empty: Any = EmptyStore()
    rounds = Rounds()
    compactor: Any = DueCompactor(rounds, None, errors.DiskFull("no room"), None, Compacted())
    at: dict[str, Any] = {"clock": SystemClock(), "me": BookieId("b1:3181"), "interval_ms": 1}

    with pytest.raises(Enough):
        asyncio.run(Collection(empty, nothing, compactor, nothing, "", rounds=rounds, **at).run())

    assert compactor.told == ["nothing", "nothing", "no room", "no room", ""]
    assert rounds.last()["garbage collection"] == ""


def test_a_disk_that_failed_ends_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(store: object, *_: object, **__: object) -> None:
        raise errors.DiskFailed("gone")

    monkeypatch.setattr(collector, "collect", fails)

    with pytest.raises(errors.DiskFailed):
        asyncio.run(collection(interval_ms=1).run())


def test_a_run_asked_for_begins_at_once_and_says_what_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "collect", finds)
    compactor = FakeCompactor()
    driver = collection(compactor)

    async def story() -> None:
        plain = await driver.collect_now(Compaction.NONE)
        assert (plain.ledgers_deleted, plain.logs_dropped, plain.logs_compacted) == (2, 1, 0)
        major = await driver.collect_now(Compaction.MAJOR)
        assert (major.logs_compacted, major.entries_copied, major.bytes_freed) == (3, 40, 1000)

    run_beside(driver, story)
    assert compactor.asked == [(Kind.MAJOR, True)]


def test_the_log_says_that_garbage_is_no_longer_held_once_and_only_if_some_was(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    held = dataclasses.replace(FOUND, held=Amount(3, 100), held_reason="too many")
    runs = iter([FOUND, FOUND, held, held, FOUND, FOUND])

    async def one_after_another(store: object, *_: object, **__: object) -> Collected:
        return next(runs)

    monkeypatch.setattr(collector, "collect", one_after_another)
    driver = collection()

    async def story() -> None:
        for _ in range(6):
            await driver.collect_now(Compaction.NONE)

    with caplog.at_level("INFO", logger="bookie.server.collection"):
        run_beside(driver, story)

    told = [record.message for record in caplog.records if "held" in record.message]
    assert told == ["garbage held ledgers=3 bytes=100 reason=too many", "garbage no longer held"]


def test_what_went_wrong_is_told_to_whoever_asked_and_the_driver_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "collect", finds)
    compactor = FakeCompactor()
    driver = collection(compactor)

    async def story() -> None:
        compactor.trouble = errors.DiskFull("no room")
        with pytest.raises(errors.DiskFull, match="no room"):
            await driver.collect_now(Compaction.MINOR)
        compactor.trouble = None
        assert (await driver.collect_now(Compaction.MINOR)).logs_compacted == 3

    run_beside(driver, story)


@story_support.in_a_loop
async def test_more_runs_than_anybody_waits_for_are_refused() -> None:
    driver = collection()  # nobody runs it
    loop = asyncio.get_running_loop()
    waiting = [loop.create_task(driver.collect_now(Compaction.NONE)) for _ in range(8)]
    await asyncio.sleep(0)
    with pytest.raises(errors.TooManyRequests):
        await driver.collect_now(Compaction.NONE)
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)


@in_a_loop
async def test_whoever_waits_for_a_run_is_told_when_the_bookie_stops(*, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = asyncio.Event()

    async def never_ends(*_: object, **__: object) -> Collected:
        begun.set()
        await asyncio.Event().wait()
        return FOUND

    monkeypatch.setattr(collector, "collect", never_ends)

    driver = collection()
    loop = asyncio.get_running_loop()
    running = loop.create_task(driver.run())
    waiting = [loop.create_task(driver.collect_now(Compaction.NONE)) for _ in range(2)]
    await asyncio.wait_for(begun.wait(), 30)
    running.cancel()
    for task in waiting:
        with pytest.raises(errors.StorageFailed, match="stopping"):
            await asyncio.wait_for(task, 30)
