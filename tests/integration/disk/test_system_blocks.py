"""Files that are appended to in whole blocks, on the real disk: past the cache where that goes, and right where not."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from bookie.base import errors
from bookie.ports.disk import BLOCK_BYTES
from bookie.runtime.disk import SystemDisk, SystemFile
from story_support import story
from system_disk_support import run

# 2.8 MiB, more than goes to the disk at once, in buffers of which none ends where a block does.
PIECES = [bytes([number % 251]) * 1001 for number in range(2_900)]
PIECES.append(bytes(-sum(map(len, PIECES)) % BLOCK_BYTES))
WHOLE = b"".join(PIECES)


async def begin(disk: SystemDisk, folder: Path) -> SystemFile:
    return await disk.open(str(folder / "f"), create=True, exclusive=True, in_blocks=True)


@pytest.fixture
def direct_path(tmp_path: Path) -> Path:
    """A folder where blocks can go past the cache. Such is the file system of every usual machine; what happens on
    others is asked of all, by the tests that refuse it."""
    try:
        os.close(os.open(tmp_path / "probe", os.O_WRONLY | os.O_CREAT | os.O_DIRECT))
    except OSError:
        pytest.skip("this file system writes through the cache only")
    return tmp_path


def refuse_direct(patched: pytest.MonkeyPatch, reason: int) -> list[str]:
    """Let no file be opened for going past the cache, for `reason`; return what is asked for all the same."""
    real, attempts = os.open, list[str]()

    def refusing(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_DIRECT:
            attempts.append(path)
            raise OSError(reason, os.strerror(reason))
        return real(path, flags, mode)

    patched.setattr(os, "open", refusing)
    return attempts


def test_blocks_go_past_the_cache_and_start_where_blocks_do(direct_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, seen = os.pwrite, list[tuple[bool, int, int]]()

    def recorded(fd: int, data: memoryview, offset: int) -> int:
        is_direct = bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT)
        seen.append((is_direct, len(data) % BLOCK_BYTES, offset % BLOCK_BYTES))
        return real(fd, data, offset)

    async def story(disk: SystemDisk) -> None:
        file = await begin(disk, direct_path)
        monkeypatch.setattr(os, "pwrite", recorded)
        await file.append_and_sync(PIECES)
        await file.append(PIECES)
        assert await disk.read(file.path) == WHOLE * 2

    run(story)

    assert len(seen) == 4
    assert set(seen) == {(True, 0, 0)}


@pytest.mark.parametrize("refused", ["open", "pwrite"])
def test_a_file_system_that_has_no_such_thing_takes_them_through_the_cache(
    refused: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[str] = []

    def no_pwrite(fd: int, data: memoryview, offset: int) -> int:
        attempts.append("")
        raise OSError(errno.EINVAL, "Invalid argument")

    async def story(disk: SystemDisk) -> None:
        nonlocal attempts
        file = await begin(disk, tmp_path)
        if refused == "open":
            attempts = refuse_direct(monkeypatch, errno.EINVAL)
        else:
            monkeypatch.setattr(os, "pwrite", no_pwrite)
        assert await file.append_and_sync(PIECES) == 0
        assert await file.append_and_sync(PIECES) == file.size - len(WHOLE)
        assert await disk.read(file.path) == WHOLE * 2

    run(story)

    assert len(attempts) == 1  # it is not asked again


@story(run)
async def test_without_a_descriptor_left_they_go_through_the_cache_until_there_is_one(
    disk: SystemDisk, *, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = await begin(disk, tmp_path)
    with monkeypatch.context() as patched:
        attempts = refuse_direct(patched, errno.EMFILE)
        for _ in range(2):
            await file.append_and_sync(PIECES)
        assert len(attempts) == 2  # it is asked each time
    await file.append_and_sync(PIECES)
    assert await disk.read(file.path) == WHOLE * 3


@story(run)
async def test_after_no_space_the_blocks_are_as_they_were_and_more_may_follow_later(
    disk: SystemDisk, *, direct_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, left = os.pwrite, [100 * BLOCK_BYTES]

    def scarce(fd: int, data: memoryview, offset: int) -> int:
        if left[0] == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        count = real(fd, data[: left[0]], offset)
        left[0] -= count
        return count

    file = await begin(disk, direct_path)
    await file.append_and_sync([b"a" * BLOCK_BYTES])
    monkeypatch.setattr(os, "pwrite", scarce)
    monkeypatch.setattr(os, "pwritev", None)  # never used where blocks go past the cache
    for call in (file.append, file.append_and_sync):
        with pytest.raises(errors.DiskFull, match="f: no space left"):
            await call(PIECES)
        assert file.size == os.stat(file.path).st_size == BLOCK_BYTES
    left[0] = 10_000 * BLOCK_BYTES
    assert await file.append_and_sync(PIECES) == BLOCK_BYTES
    assert await disk.read(file.path) == b"a" * BLOCK_BYTES + WHOLE


@story(run)
async def test_a_kernel_that_takes_a_block_at_a_time_gets_them_all(
    disk: SystemDisk, *, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pwrite

    def stingy(fd: int, data: memoryview, offset: int) -> int:
        return real(fd, data[: 16 * BLOCK_BYTES], offset)

    file = await begin(disk, tmp_path)
    monkeypatch.setattr(os, "pwrite", stingy)
    assert await file.append(PIECES) == 0
    assert await disk.read(file.path) == WHOLE


@story(run)
async def test_a_failed_write_of_blocks_poisons_the_file(
    disk: SystemDisk, *, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    file = await begin(disk, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", fails)
        patched.setattr(os, "pwritev", fails)
        with pytest.raises(errors.DiskFailed, match="Input/output error"):
            await file.append_and_sync(PIECES)
    for attempt in (file.sync(), file.append(PIECES), file.append_and_sync(PIECES)):
        with pytest.raises(errors.DiskFailed):
            await attempt


@story(run)
async def test_what_is_no_whole_block_is_a_mistake_of_ours(disk: SystemDisk, *, tmp_path: Path) -> None:
    file = await begin(disk, tmp_path)
    with pytest.raises(AssertionError, match="no whole blocks"):
        await file.append([b"x" * (BLOCK_BYTES + 1)])


def test_a_file_that_was_synced_for_longer_needs_one_descriptor(tmp_path: Path) -> None:
    def descriptors(path: str) -> int:
        links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
        return sum(1 for link in links if os.path.lexists(link) and os.readlink(link) == path)

    folder = tmp_path.resolve()

    async def story(disk: SystemDisk) -> None:
        file = await begin(disk, tmp_path)
        path = f"{folder}/f"
        for _ in range(2):
            await file.append(PIECES)
            await file.sync()
            assert descriptors(path) == 1
        await file.append_and_sync(PIECES)
        await file.close()
        assert descriptors(path) == 0

    run(story)
