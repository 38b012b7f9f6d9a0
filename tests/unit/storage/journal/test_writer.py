"""The journal's writer: one group after the other, each synced once, and nobody is told anything before that."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import EntryId, LedgerId
from bookie.base.units import KIB
from bookie.ports.disk import Buffer
from bookie.storage.journal import files
from bookie.storage.journal import format as journal_format
from bookie.storage.journal import writer as journal_writer
from bookie.storage.journal.batch import JournalPosition
from bookie.storage.journal.writer import JournalWriter
from bookie.storage.stats import StorageStats

TURNS_MAX = 2_000  # of the loop: no thread and no clock is waited for
FIRST = journal_format.FIRST_GROUP


def name_of(file_id: int) -> str:
    return files.path_of("/journal", file_id)


@dataclass
class Call:
    """A group on its way to the disk, which answers when the test says so."""

    path: str
    data: bytes
    answer: asyncio.Future[None]


@dataclass
class SlowDisk:
    """One directory; it notes what is done, answers at once for all but groups, and fails what it is told to."""

    calls: list[Call] = field(default_factory=list)
    done: list[tuple[str, str]] = field(default_factory=list)  # what, and of which file
    heads: list[bytes] = field(default_factory=list)
    fails: dict[str, BookieError] = field(default_factory=dict)  # the next of its kind
    cuts: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def note(self, what: str, path: str) -> None:
        self.done.append((what, path))
        error = self.fails.pop(what, None)
        if error is not None:
            raise error

    async def open(self, path: str, *, create: bool, exclusive: bool, in_blocks: bool) -> "SlowFile":
        self.note("open", path)
        assert path not in self.names, "exclusive"
        self.names.append(path)
        return SlowFile(self, path)

    async def sync_dir(self, directory: str) -> None:
        self.note("names", directory)

    async def remove(self, path: str) -> None:
        self.note("remove", path)
        self.names = [name for name in self.names if name != path]

    async def list(self, directory: str) -> list[str]:
        self.note("list", directory)
        return [name.removeprefix(directory + "/") for name in self.names]


@dataclass
class SlowFile:
    disk: SlowDisk
    path: str
    size: int = 0

    async def append_and_sync(self, buffers: Sequence[Buffer]) -> int:
        start, data = self.size, b"".join(buffers)
        if start == 0:
            self.disk.note("head", self.path)
            self.disk.heads.append(data)
        else:
            self.disk.note("group", self.path)
            answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.disk.calls.append(Call(self.path, data, answer))
            await answer
        self.size += len(data)
        return start

    async def truncate(self, size: int) -> None:
        self.disk.note("cut", self.path)
        self.disk.cuts.append(size)

    async def sync(self) -> None:
        self.disk.note("sync", self.path)

    async def close(self) -> None:
        self.disk.note("close", self.path)


class Clock:
    """Nobody waits long."""

    def monotonic_ns(self) -> int:
        return 0

    async def sleep_until(self, _: int) -> None:
        await asyncio.sleep(0)


class Entropy:
    def token(self, size: int) -> bytes:
        return bytes(size)


@dataclass
class Story:
    """A journal over such a disk, and what became of each record."""

    disk: SlowDisk
    journal: JournalWriter
    task: "asyncio.Task[None] | None" = None
    outcomes: list[tuple[str, str]] = field(default_factory=list)
    troubles: list[BookieError] = field(default_factory=list)
    _puts: int = 0

    def told(self, name: str) -> Callable[[BookieError | None], None]:
        return lambda error: self.outcomes.append((name, type(error).__name__ if error else "durable"))

    def put(self, name: str, size_bytes: int = 10) -> None:
        self._puts += 1
        entry = journal_format.ENTRY
        self.journal.put(entry, LedgerId(1), EntryId(self._puts), bytes(size_bytes), self.told(name))

    async def group(self, number: int) -> Call:
        """Wait until so many groups were handed over in all, and no more; return the last."""
        for _ in range(TURNS_MAX):
            if len(self.disk.calls) >= number:
                break
            await asyncio.sleep(0)
        await settle()
        assert len(self.disk.calls) == number
        return self.disk.calls[-1]

    async def write(self, name: str, number: int) -> None:
        """Put one record and let the disk write it, as group `number`."""
        self.put(name)
        (await self.group(number)).answer.set_result(None)
        await settle()
        assert self.outcomes[-1] == (name, "durable")


async def settle() -> None:
    """Let the tasks do all that they can do by now."""
    for _ in range(20):
        await asyncio.sleep(0)


def story(body: Callable[[Story], Coroutine[Any, Any, None]], *, file_bytes_max: int = 1 << 30) -> None:
    async def on() -> None:
        disk = SlowDisk()
        journal = JournalWriter(
            disk,  # type: ignore[arg-type]
            "/journal",
            Entropy(),  # type: ignore[arg-type]
            Clock(),  # type: ignore[arg-type]
            file_bytes_max=file_bytes_max,
            stats=StorageStats(),
        )
        it = Story(disk, journal)
        journal.on_trouble = it.troubles.append
        await journal.open(1, 0)
        it.task = asyncio.create_task(journal.run())
        try:
            await body(it)
        finally:
            it.task.cancel()
            await asyncio.wait([it.task])
        if not it.task.cancelled() and (error := it.task.exception()) is not None:
            raise error

    asyncio.run(on())


def test_a_group_goes_after_the_sync_of_the_one_before_and_nobody_is_told_earlier() -> None:
    async def body(it: Story) -> None:
        it.put("first")
        first = await it.group(1)
        it.put("second")
        it.put("third", 100 * KIB)
        await it.group(1)
        assert (it.outcomes, it.journal.synced) == ([], JournalPosition(1, FIRST))

        first.answer.set_result(None)
        second = await it.group(2)
        assert it.outcomes == [("first", "durable")]
        assert it.journal.synced == JournalPosition(1, FIRST + len(first.data))
        second.answer.set_result(None)
        await settle()
        assert it.outcomes == [("first", "durable"), ("second", "durable"), ("third", "durable")]
        assert it.journal.synced == JournalPosition(1, FIRST + len(first.data) + len(second.data))
        await it.write("after a rest", 3)

    story(body)


def test_who_is_told_finds_the_mark_behind_his_record() -> None:
    """A completion may ask for a checkpoint, which takes the mark that it finds."""

    async def body(it: Story) -> None:
        marks: list[JournalPosition] = []
        it.journal.put(journal_format.FENCE, LedgerId(1), EntryId(-1), b"", lambda _: marks.append(it.journal.synced))
        group = await it.group(1)
        group.answer.set_result(None)
        await settle()
        assert marks == [JournalPosition(1, FIRST + len(group.data))]

    story(body)


def test_what_is_asked_for_after_all_of_them_waits_for_the_last_group() -> None:
    async def body(it: Story) -> None:
        assert not it.journal.after_pending(it.told("at once"))
        it.put("first")
        first = await it.group(1)
        assert it.journal.after_pending(it.told("behind the first"))
        it.put("second")
        assert it.journal.after_pending(it.told("behind the second"))

        first.answer.set_result(None)
        second = await it.group(2)
        assert it.outcomes == [("first", "durable"), ("behind the first", "durable")]
        second.answer.set_result(None)
        await settle()
        assert it.outcomes[2:] == [("second", "durable"), ("behind the second", "durable")]
        assert not it.journal.after_pending(it.told("at once"))

    story(body)


@pytest.mark.parametrize("failure", [errors.DiskFull("no space"), errors.DiskFailed("broken")])
def test_a_group_that_fails_is_refused_with_all_that_waits_behind_it(failure: BookieError) -> None:
    async def body(it: Story) -> None:
        await it.write("durable", 1)
        synced = it.journal.synced

        def on_trouble(error: BookieError) -> None:
            it.troubles.append(error)
            it.outcomes.append(("trouble", ""))

        it.journal.on_trouble = on_trouble
        it.put("in flight")
        group = await it.group(2)
        it.put("pending")
        assert it.journal.after_pending(it.told("behind"))
        group.answer.set_exception(failure)
        await settle()

        word = type(failure).__name__
        told = [("trouble", ""), ("in flight", word), ("pending", word), ("behind", word)]
        assert it.outcomes[1:] == told, "the store refuses before anybody asks again"
        assert (it.troubles, it.journal.synced, it.journal.is_suspended) == ([failure], synced, True)
        assert not it.journal.after_pending(it.told("nothing is put any more"))
        with pytest.raises(AssertionError, match="takes none"):
            it.put("refused")

    story(body)


def test_after_a_failed_sync_the_file_is_not_touched_again() -> None:
    async def body(it: Story) -> None:
        assert it.task is not None
        it.put("first")
        group = await it.group(1)
        before = list(it.disk.done)
        it.put("second")
        group.answer.set_exception(errors.DiskFailed("broken"))
        await settle()

        assert it.task.done()
        assert it.disk.done == before

    story(body)


def test_after_a_full_disk_the_next_file_begins_behind_what_was_durable() -> None:
    async def body(it: Story) -> None:
        await it.write("durable", 1)
        synced = it.journal.synced
        it.put("refused")
        (await it.group(2)).answer.set_exception(errors.DiskFull("no space"))
        await settle()
        before = len(it.disk.done)

        await it.journal.resume()

        assert it.disk.cuts == [synced.offset]
        one, two = name_of(1), name_of(2)
        assert it.disk.done[before:] == [
            ("cut", one),
            ("sync", one),  # before the next file has a name: a torn record would stand in one that is not the last
            ("remove", two),  # an attempt to begin it may have left it
            ("open", two),
            ("head", two),
            ("names", "/journal"),
            ("close", one),
        ]
        header = journal_format.unpack_header(it.disk.heads[-1])
        assert header is not None
        assert (header.file_id, header.previous_end) == (2, synced.offset)
        assert (it.journal.is_suspended, it.journal.synced) == (False, JournalPosition(2, FIRST))
        await it.write("again", 3)
        assert it.disk.calls[-1].path == two
        assert ("refused", "durable") not in it.outcomes

    story(body)


def test_a_file_that_found_no_space_for_its_beginning_is_begun_again_by_the_checkpoint() -> None:
    async def body(it: Story) -> None:
        await it.write("fills the file", 1)
        it.disk.fails["head"] = errors.DiskFull("no space")
        it.put("refused")
        await settle()
        assert it.outcomes[1:] == [("refused", "DiskFull")]
        assert it.disk.done[-1] == ("close", name_of(2))

        await it.journal.resume()
        await it.write("again", 2)

        assert it.disk.calls[-1].path == name_of(2)
        assert it.disk.names == [name_of(1), name_of(2)]

    story(body, file_bytes_max=FIRST + 1)


@pytest.mark.parametrize("what", ["open", "head", "names"])
def test_without_descriptors_or_memory_the_next_file_is_tried_again_and_callers_wait(what: str) -> None:
    async def body(it: Story) -> None:
        await it.write("fills the file", 1)
        it.disk.fails[what] = errors.OutOfResources("no descriptor")
        await it.write("waits", 2)

        assert it.disk.calls[-1].path == name_of(2)
        assert (it.troubles, it.disk.names) == ([], [name_of(1), name_of(2)])
        assert it.disk.done.count(("close", name_of(2))) == (what != "open"), "none stays open"

    story(body, file_bytes_max=FIRST + 1)


def test_a_group_that_found_no_memory_is_written_again_before_any_other(caplog: pytest.LogCaptureFixture) -> None:
    async def body(it: Story) -> None:
        it.put("first")
        for number in (1, 2, 3):
            group = await it.group(number)
            it.put(f"later {number}")
            group.answer.set_exception(errors.OutOfResources("no memory"))
        last = await it.group(4)
        assert {call.data for call in it.disk.calls} == {last.data}
        assert (it.outcomes, it.troubles, it.journal.is_suspended) == ([], [], False)
        last.answer.set_result(None)
        (await it.group(5)).answer.set_result(None)
        await settle()
        assert it.outcomes == [(name, "durable") for name in ("first", "later 1", "later 2", "later 3")]

    story(body)

    assert len(re.findall("the journal waits", caplog.text)) == 1


def test_a_file_that_is_full_is_followed_by_another_once_there_is_a_group_for_it() -> None:
    async def body(it: Story) -> None:
        await it.write("first", 1)
        end = it.journal.synced.offset
        await it.write("reaches the bound", 2)
        assert it.disk.names == [name_of(1)]
        before = len(it.disk.done)

        await it.write("of the next file", 3)

        one, two = name_of(1), name_of(2)
        assert it.disk.done[before:] == [
            ("open", two),
            ("head", two),
            ("names", "/journal"),
            ("close", one),
            ("group", two),
        ]
        header = journal_format.unpack_header(it.disk.heads[-1])
        assert header is not None
        assert (header.file_id, header.previous_end) == (2, end + len(it.disk.calls[1].data))
        assert it.journal.synced == JournalPosition(2, FIRST + len(it.disk.calls[2].data))

    # One group is a block here, so the second one ends exactly at the bound.
    story(body, file_bytes_max=FIRST + 2 * len(one_group()))


def one_group() -> bytes:
    """What one small record is on the disk."""
    found: list[bytes] = []

    async def body(it: Story) -> None:
        await it.write("one", 1)
        found.append(it.disk.calls[0].data)

    story(body)
    return found[0]


def test_files_before_a_mark_go_and_that_of_the_mark_stays() -> None:
    async def body(it: Story) -> None:
        for number in (1, 2, 3):
            await it.write(f"fills file {number}", number)
        assert it.disk.names == [name_of(1), name_of(2), name_of(3)]

        await it.journal.trim(JournalPosition(2, FIRST))
        assert it.disk.names == [name_of(2), name_of(3)]
        await it.journal.trim(JournalPosition(3, FIRST))
        assert it.disk.names == [name_of(3)]

    story(body, file_bytes_max=FIRST + 1)


@pytest.mark.parametrize(
    "error", [errors.StorageFailed("not permitted"), errors.DiskFull("a name costs space"), errors.OutOfResources("fd")]
)
def test_a_file_that_cannot_be_removed_keeps_no_other_and_goes_with_a_later_checkpoint(
    error: BookieError, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(it: Story) -> None:
        for number in (1, 2, 3, 4):
            await it.write(f"fills file {number}", number)

        it.disk.fails["remove"] = error
        await it.journal.trim(JournalPosition(3, FIRST))
        assert it.disk.names == [name_of(1), name_of(3), name_of(4)]
        assert it.journal._stats.journal_files_stuck == 1
        assert name_of(1) in caplog.text
        caplog.clear()

        it.disk.fails["remove"] = error
        await it.journal.trim(JournalPosition(3, FIRST))
        assert it.disk.names == [name_of(1), name_of(3), name_of(4)]
        assert not caplog.text, "told once"

        await it.journal.trim(JournalPosition(3, FIRST))
        assert it.disk.names == [name_of(3), name_of(4)]
        assert it.journal._stats.journal_files_stuck == 0

    story(body, file_bytes_max=FIRST + 1)


def test_a_journal_that_cannot_be_listed_goes_on_and_is_trimmed_later() -> None:
    async def body(it: Story) -> None:
        for number in (1, 2):
            await it.write(f"fills file {number}", number)
        it.disk.fails["list"] = errors.StorageFailed("not permitted")
        await it.journal.trim(JournalPosition(2, FIRST))
        assert it.disk.names == [name_of(1), name_of(2)]
        await it.journal.trim(JournalPosition(2, FIRST))
        assert it.disk.names == [name_of(2)]

    story(body, file_bytes_max=FIRST + 1)


def test_a_failed_disk_that_a_removal_meets_is_told() -> None:
    async def body(it: Story) -> None:
        for number in (1, 2):
            await it.write(f"fills file {number}", number)
        it.disk.fails["remove"] = errors.DiskFailed("gone")
        with pytest.raises(errors.DiskFailed):
            await it.journal.trim(JournalPosition(2, FIRST))

    story(body, file_bytes_max=FIRST + 1)


def test_a_stop_writes_what_waits_and_ends() -> None:
    async def body(it: Story) -> None:
        assert it.task is not None
        it.put("first")
        first = await it.group(1)
        it.put("second")
        it.journal.stop()
        first.answer.set_result(None)
        (await it.group(2)).answer.set_result(None)
        await settle()

        assert it.outcomes == [("first", "durable"), ("second", "durable")]
        assert it.task.done()
        await it.journal.close()
        assert it.disk.done[-1] == ("close", name_of(1))

    story(body)


@pytest.mark.parametrize("fails", [False, True])
def test_a_journal_with_too_much_waiting_says_so_until_that_is_on_its_way_or_refused(
    monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    monkeypatch.setattr(journal_writer, "PENDING_BYTES_MAX", 10 * KIB)

    async def body(it: Story) -> None:
        it.put("first")
        first = await it.group(1)
        it.put("much", 9 * KIB)
        assert not it.journal.is_backlogged
        it.journal.put_run(LedgerId(1), [EntryId(9)], [bytes(KIB)], it.told("run"))
        assert it.journal.is_backlogged
        if fails:
            first.answer.set_exception(errors.DiskFull("no space"))
            await settle()
        else:
            first.answer.set_result(None)
            await it.group(2)
        assert not it.journal.is_backlogged

    story(body)
