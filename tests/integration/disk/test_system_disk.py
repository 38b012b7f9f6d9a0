"""Beyond the port suite: full file systems, failed writes and syncs, on the real disk."""

import errno
import os
import resource
import threading
import types
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bookie.base import errors
from bookie.ports.disk import Usage
from bookie.runtime.disk import SystemDisk
from story_support import story
from system_disk_support import run


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@story(run)
async def test_a_device_without_space_says_disk_full(disk: SystemDisk) -> None:
    file = await disk.open("/dev/full")
    with pytest.raises((errors.DiskFull, errors.DiskFailed)):
        await file.append([b"x"])


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), errors.DiskFull),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), errors.DiskFull),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), errors.OutOfResources),
        (OSError(errno.EINTR, "Interrupted system call"), errors.OutOfResources),
        (MemoryError(), errors.OutOfResources),
    ],
    ids=lambda found: getattr(found, "strerror", None) or str(found),
)
@story(run)
async def test_after_no_space_or_no_memory_the_file_is_as_it_was_and_may_grow_later(
    disk: SystemDisk,
    *,
    error: Exception,
    told: type[errors.BookieError],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """None of these says anything against the disk: a node ends for a disk that failed, and for nothing else."""
    real, left = os.pwritev, [6]

    def scarce(fd: int, buffers: list[bytes], offset: int) -> int:
        if left[0] == 0:
            raise error
        count = real(fd, [b"".join(buffers)[: left[0]]], offset)
        left[0] -= count
        return count

    file = await disk.open(str(tmp_path / "f"), create=True)
    monkeypatch.setattr(os, "pwritev", scarce)
    assert await file.append([b"a", b"bc"]) == 0
    with pytest.raises(told, match="f: no space left" if told is errors.DiskFull else "f: write"):
        await file.append([b"defgh"])
    assert file.size == os.stat(file.path).st_size == 3
    left[0] = 1000
    assert await file.append_and_sync([b"xyz"]) == 3
    assert await disk.read(file.path) == b"abcxyz"


@story(run)
async def test_a_name_is_not_missing_because_the_disk_does_not_answer(
    disk: SystemDisk, *, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is the marker that says that a crash may have lost entries (spec/operator.md#V14)."""
    (tmp_path / "f").write_text("")

    def silent(path: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    assert await disk.exists(str(tmp_path / "f"))
    assert not await disk.exists(str(tmp_path / "g"))
    assert not await disk.exists(str(tmp_path / "f" / "below a file"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "lstat", silent)
        with pytest.raises(errors.StorageFailed, match="f: look: Input/output error"):
            await disk.exists(str(tmp_path / "f"))


@story(run)
async def test_many_buffers_are_written_in_order_though_the_kernel_takes_a_few_bytes_at_a_time(
    disk: SystemDisk, *, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffers = [bytes((number % 251,)) * (number % 3) for number in range(2_500)]
    real = os.pwritev

    def stingy(fd: int, wanted: list[bytes], offset: int) -> int:
        return real(fd, [b"".join(wanted)[:700]], offset)

    file = await disk.open(str(tmp_path / "f"), create=True)
    assert await file.append(buffers) == 0
    monkeypatch.setattr(os, "pwritev", stingy)
    assert await file.append(buffers) == file.size // 2
    assert await disk.read(file.path) == b"".join(buffers) * 2


@pytest.mark.parametrize(
    ("call", "kernel"), [("append", "pwritev"), ("append", "fdatasync"), ("sync", "fdatasync"), ("cut", "ftruncate")]
)
@story(run)
async def test_a_failed_sync_or_write_or_cut_poisons_the_file(
    disk: SystemDisk, *, call: str, kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    file = await disk.open(str(tmp_path / "f"), create=True)
    await file.append([b"before"])
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "append": lambda: file.append_and_sync([b"abc"]),
        "write": lambda: file.append([b"d"]),
        "sync": file.sync,
        "cut": lambda: file.truncate(0),
    }
    with monkeypatch.context() as patched:
        patched.setattr(os, kernel, fails)
        with pytest.raises(errors.DiskFailed, match="Input/output error"):
            await calls[call]()
    # The kernel would say yes now, over pages that it dropped; we do not ask it.
    for again in calls.values():
        with pytest.raises(errors.DiskFailed):
            await again()


@story(run)
async def test_reads_without_waiting_give_the_bytes_or_say_that_they_would_wait(
    disk: SystemDisk, *, tmp_path: Path
) -> None:
    file = await disk.open(str(tmp_path / "f"), create=True)
    await file.append([bytes(range(200))])
    found = [file.pread_nowait(offset, 50) for offset in (0, 100, 180, 200)]
    wanted = [bytes(range(50)), bytes(range(100, 150)), bytes(range(180, 200)), b""]
    assert all(data in (None, want) for data, want in zip(found, wanted, strict=True))


@story(run)
async def test_a_read_without_waiting_that_got_a_part_of_the_bytes_is_no_answer(
    disk: SystemDisk, *, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of a span may be in memory and the rest on the disk."""
    real = os.preadv

    def half(fd: int, buffers: list[bytearray], offset: int, flags: int) -> int:
        return real(fd, [memoryview(buffers[0])[:30]], offset)

    file = await disk.open(str(tmp_path / "f"), create=True)
    await file.append([bytes(range(200))])
    monkeypatch.setattr(os, "preadv", half)

    assert file.pread_nowait(100, 50) is None
    assert file.pread_nowait(170, 50) == bytes(range(170, 200))


@story(run)
async def test_a_disk_that_cannot_read_says_so_at_once(
    disk: SystemDisk, *, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    file = await disk.open(str(tmp_path / "f"), create=True)
    monkeypatch.setattr(os, "preadv", fails)
    monkeypatch.setattr(os, "pread", fails)

    with pytest.raises(errors.StorageFailed, match="read: Input/output error"):
        file.pread_nowait(0, 1)
    with pytest.raises(errors.StorageFailed, match="read: Input/output error"):
        await file.pread(0, 1)


@story(run)
async def test_a_read_is_whole_though_the_kernel_gives_a_few_bytes_at_a_time(
    disk: SystemDisk, *, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pread
    file = await disk.open(str(tmp_path / "f"), create=True)
    await file.append([bytes(range(200))])
    monkeypatch.setattr(os, "pread", lambda fd, size, offset: real(fd, min(size, 7), offset))

    assert await file.pread_many([(10, 50), (190, 50)]) == [bytes(range(10, 60)), bytes(range(190, 200))]


@story(run)
async def test_names_are_synced_by_the_kernel_and_a_failure_of_it_ends_the_node(
    disk: SystemDisk, *, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    await disk.sync_dir(str(tmp_path))
    monkeypatch.setattr(os, "fsync", fails)

    with pytest.raises(errors.DiskFailed, match="sync of names: Input/output error") as failed:
        await disk.sync_dir(str(tmp_path))
    assert failed.value.fatal


@pytest.mark.parametrize("reason", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.EAGAIN])
@story(run)
async def test_what_the_process_lacks_is_never_the_fault_of_a_disk(
    disk: SystemDisk, *, reason: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(*args: object) -> None:
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr(os, "open", short)

    with pytest.raises(errors.OutOfResources, match=os.strerror(reason)):
        await disk.open(str(tmp_path / "f"), create=True)


@story(run)
async def test_a_lock_that_another_holds_costs_no_descriptor(disk: SystemDisk, *, tmp_path: Path) -> None:
    path = str(tmp_path / "LOCK")
    lock = await disk.lock(path)
    before = len(os.listdir("/proc/self/fd"))

    for _ in range(3):
        with pytest.raises(errors.RefusedToStart, match="one bookie per directory"):
            await disk.lock(path)

    assert len(os.listdir("/proc/self/fd")) <= before  # others of this process may close theirs meanwhile
    lock.release()


@pytest.mark.parametrize("reason", [errno.EIO, errno.ENOTDIR, errno.EACCES])
@story(run)
async def test_a_directory_that_cannot_be_listed_is_none_without_names(
    disk: SystemDisk, *, reason: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty disk is a lost one, and what was on it is given up."""

    def fails(path: str) -> list[str]:
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr(os, "listdir", fails)

    with pytest.raises(errors.StorageFailed, match=os.strerror(reason)):
        await disk.list(str(tmp_path))


@story(run)
async def test_a_file_that_the_disk_does_not_remove_is_told(
    disk: SystemDisk, *, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(path: str) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "unlink", fails)

    with pytest.raises(errors.StorageFailed, match="remove: Operation not permitted"):
        await disk.remove(str(tmp_path / "f"))


@story(run)
async def test_a_link_that_leads_nowhere_is_there(disk: SystemDisk, *, tmp_path: Path) -> None:
    """A name that is taken: whoever made it for nothing would write over what a volume that is away has there."""
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")

    assert await disk.exists(str(tmp_path / "link"))
    assert not await disk.exists(str(tmp_path / "nowhere"))


@story(run)
async def test_what_is_kept_for_root_is_no_free_space(
    disk: SystemDisk, *, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = types.SimpleNamespace(f_blocks=100, f_frsize=4096, f_bfree=10, f_bavail=5)
    monkeypatch.setattr(os, "statvfs", lambda path: facts)

    assert await disk.usage(str(tmp_path)) == Usage(total_bytes=100 * 4096, free_bytes=5 * 4096)


def test_files_are_closed_and_threads_end(tmp_path: Path) -> None:
    async def story(disk: SystemDisk) -> None:
        for number in range(50):
            file = await disk.open(str(tmp_path / f"{number}"), create=True)
            await file.append_and_sync([b"x"])
            await file.close()
            with pytest.raises(errors.StorageFailed, match="after it was closed"):
                await file.append([b"y"])

    # Not /proc/self/task: the kernel lists a thread for a moment longer than its join takes.
    before = len(os.listdir("/proc/self/fd")), threading.active_count()
    run(story)
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) == before
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else for a moment")
@story(run)
async def test_names_of_a_directory_that_somebody_may_neither_read_nor_write_are_not_theirs_to_sync(
    disk: SystemDisk, *, tmp_path: Path
) -> None:
    """A hardened /home is such a one: 0711. Who may write there, and not read, has made a name that may be lost."""
    closed, open_to_write = tmp_path / "closed", tmp_path / "open-to-write"
    closed.mkdir(mode=0o711)
    open_to_write.mkdir()
    open_to_write.chmod(0o733)
    above = [each for each in tmp_path.parents if each.stat().st_mode & 0o001 == 0]
    modes = {each: each.stat().st_mode for each in (*above, tmp_path)}
    for each in modes:
        each.chmod(0o755)
    os.seteuid(65534)
    try:
        await disk.sync_dir(str(closed))
        with pytest.raises(errors.StorageFailed, match="open-to-write"):
            await disk.sync_dir(str(open_to_write))
    finally:
        os.seteuid(0)
        for each, mode in modes.items():
            each.chmod(mode)
