"""Real files: the `Disk` port on Linux. One thread per directory writes and syncs there; a few others read there.

So a journal's sync never waits for an entry log's, and a read waits for neither. Errors are translated here, once:
ENOSPC is DiskFull, a want of descriptors or memory OutOfResources, both with the file as it was; a failed write or sync
poisons the file (on Linux a write-back error is reported once, and the dirty pages may be gone).
"""

import contextlib
import errno
import fcntl
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from bookie.base import errors
from bookie.ports.disk import Buffer, Lock, Mount, Span, Usage
from bookie.runtime import mounts
from bookie.runtime.blocks import BlockWriter
from bookie.runtime.read_pool import ReadPool
from bookie.runtime.threads import Worker

T = TypeVar("T")
_FULL = frozenset((errno.ENOSPC, errno.EDQUOT))
# The process's shortage, or a signal's doing: never the disk's.
_SHORT = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.EAGAIN))
_WOULD_WAIT = frozenset((errno.EAGAIN, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.ENOMEM, errno.EINTR))
# A file system, or one without /proc, that cannot write past the cache.
_NO_DIRECT = frozenset((errno.EINVAL, errno.EOPNOTSUPP, errno.ENOENT))
_BUFFERS_MAX = 1024  # IOV_MAX on Linux: what one pwritev takes


@contextlib.contextmanager
def _translated(path: str, what: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise errors.FileMissing(f"{path}: no such file or directory") from error
    except MemoryError as error:
        raise errors.OutOfResources(f"{path}: {what}: no memory left") from error
    except OSError as error:
        if error.errno in _FULL:
            raise errors.DiskFull(f"{path}: {what}: no space left") from error
        if error.errno in _SHORT:
            raise errors.OutOfResources(f"{path}: {what}: {error.strerror}") from error
        raise errors.StorageFailed(f"{path}: {what}: {error.strerror or error}") from error


class SystemFile:
    """One open file. `_size` belongs to the writer thread; the loop reads it between calls."""

    def __init__(
        self, path: str, fd: int, size: int, writer: Worker, reader: ReadPool[Span], blocks: BlockWriter | None
    ) -> None:
        """`blocks`: the writer thread's, for a file whose appends are whole blocks; None when appends have any size."""
        self.path = path
        self._fd = fd
        self._size = size
        self._writer = writer
        self._reader = reader
        self._poison: errors.DiskFailed | None = None
        self._blocks = blocks
        self._has_direct = True  # until the file system says otherwise
        self._direct_fd = -1

    @property
    def size(self) -> int:
        return self._size

    async def append(self, buffers: Sequence[Buffer]) -> int:
        return await self._writer.call(self._append, buffers)

    async def append_and_sync(self, buffers: Sequence[Buffer]) -> int:
        return await self._writer.call(self._append_and_sync, buffers)

    async def sync(self) -> None:
        await self._writer.call(self._sync_and_rest)

    async def truncate(self, size: int) -> None:
        await self._writer.call(self._truncate, size)

    async def pread(self, offset: int, size: int) -> bytes:
        (data,) = await self._reader.read(self._pread, [(offset, size)])
        return data

    async def pread_many(self, spans: Sequence[Span]) -> list[bytes]:
        return await self._reader.read(self._pread, spans)

    def pread_nowait(self, offset: int, size: int) -> bytes | None:
        buffer = bytearray(size)
        try:
            count = os.preadv(self._fd, [buffer], offset, os.RWF_NOWAIT)
        except OSError as error:
            if error.errno in _WOULD_WAIT:
                return None
            raise errors.StorageFailed(f"{self.path}: read: {error.strerror}") from error
        if count == size:
            return bytes(buffer)
        # Fewer bytes: the end of the file, or the rest is not in memory. Only the former is an answer.
        return bytes(buffer[:count]) if offset + count >= self._size else None

    async def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            await self._writer.call(self._close, fd)

    # ---- in the threads -------------------------------------------------------------------------------------------

    def _close(self, fd: int) -> None:
        os.close(fd)
        self._close_direct()

    def _close_direct(self) -> None:
        if self._direct_fd >= 0:
            fd, self._direct_fd = self._direct_fd, -1
            os.close(fd)

    def _append(self, buffers: Sequence[Buffer]) -> int:
        start = self._size
        self._write_at(start, buffers)
        return start

    def _append_and_sync(self, buffers: Sequence[Buffer]) -> int:
        start = self._append(buffers)
        self._sync()
        return start

    def _write_at(self, offset: int, buffers: Sequence[Buffer]) -> None:
        self._check()
        try:
            end = _write_all(self._fd, offset, buffers) if self._blocks is None else self._write_blocks(offset, buffers)
        except (OSError, MemoryError) as error:
            is_short = isinstance(error, MemoryError) or error.errno in _SHORT
            if isinstance(error, OSError) and not is_short and error.errno not in _FULL:
                raise self._poisoned("write", error) from error
            try:
                os.ftruncate(self._fd, self._size)
            except OSError as second:
                raise self._poisoned("cut back after a write that was not whole", second) from second
            if is_short:
                raise errors.OutOfResources(f"{self.path}: write: {error}") from error
            raise errors.DiskFull(f"{self.path}: no space left; free some, or give the volume more") from error
        self._size = end

    def _write_blocks(self, offset: int, buffers: Sequence[Buffer]) -> int:
        assert self._blocks is not None
        if self._has_direct and (self._direct_fd >= 0 or self._open_direct()):
            try:
                return self._blocks.write(self._direct_fd, offset, buffers)
            except OSError as error:
                if error.errno not in _NO_DIRECT:
                    raise
                self._has_direct = False
        return _write_all(self._fd, offset, buffers)

    def _open_direct(self) -> bool:
        """Open the file again for direct writes. Return False when the file system has none, or no descriptor is left
        now. It opens it through our descriptor, so that it is this very file, also if its name was changed."""
        try:
            self._direct_fd = os.open(f"/proc/self/fd/{self._fd}", os.O_WRONLY | os.O_DIRECT | os.O_CLOEXEC)
        except OSError as error:
            self._has_direct = error.errno not in _NO_DIRECT
            return False
        return True

    def _sync_and_rest(self) -> None:
        """Sync, then close the direct descriptor: a file that is not synced with each append is perhaps not written
        again, and descriptors are few."""
        self._sync()
        self._close_direct()

    def _sync(self) -> None:
        self._check()
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            raise self._poisoned("sync", error) from error

    def _truncate(self, size: int) -> None:
        self._check()
        try:
            os.ftruncate(self._fd, size)
        except OSError as error:
            raise self._poisoned("truncate", error) from error
        self._size = min(self._size, size)

    def _pread(self, spans: Sequence[Span]) -> list[bytes]:
        found: list[bytes] = []
        with _translated(self.path, "read"):
            for offset, size in spans:
                data = os.pread(self._fd, size, offset)
                while 0 < len(data) < size and (more := os.pread(self._fd, size - len(data), offset + len(data))):
                    data += more
                found.append(data)
        return found

    def _check(self) -> None:
        if self._poison is not None:
            raise self._poison
        if self._fd < 0:
            raise errors.StorageFailed(f"{self.path}: used after it was closed")

    def _poisoned(self, what: str, error: OSError) -> errors.DiskFailed:
        self._poison = errors.DiskFailed(f"{self.path}: {what}: {error.strerror or error}; look at the disk")
        return self._poison


def _write_all(fd: int, offset: int, buffers: Sequence[Buffer]) -> int:
    """Write `buffers` from `offset`; return the offset after. The kernel gathers them: joined here they would cost a
    copy more, under the interpreter's lock."""
    position = offset
    for first in range(0, len(buffers), _BUFFERS_MAX):
        part: Sequence[Buffer] = buffers[first : first + _BUFFERS_MAX]
        left = sum(map(len, part))
        while (count := os.pwritev(fd, part, position)) < left:  # a disk that is full, or a signal
            part = [memoryview(b"".join(part))[count:]]
            left -= count
            position += count
        position += count
    return position


class SystemLock:
    """A flock on a file: the kernel lets go of it when the process ends, however it ends."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


class _Threads:
    """The threads that work in one directory: one writes, others read."""

    def __init__(self, directory: str) -> None:
        self.writer = Worker(f"disk {directory}")
        self.readers: ReadPool[Span] = ReadPool(f"reads {directory}")

    @functools.cached_property
    def blocks(self) -> BlockWriter:
        """Return the writer thread's memory for blocks. Only the writer thread may call this."""
        return BlockWriter()


class SystemDisk:
    """The file systems of this machine. `close` ends its threads."""

    def __init__(self) -> None:
        self._threads: dict[str, _Threads] = {}

    def close(self) -> None:
        """End the threads, after the calls made so far. Blocks for as long as those take."""
        for threads in self._threads.values():
            threads.writer.stop()
            threads.readers.stop()
        self._threads.clear()

    def _of(self, directory: str) -> _Threads:
        threads = self._threads.get(directory)
        if threads is None:
            threads = self._threads[directory] = _Threads(directory)
        return threads

    async def _at(self, path: str, what: str, function: Callable[..., T], *args: object) -> T:
        """Run a call about `path` in the thread of its directory."""

        def call() -> T:
            with _translated(path, what):
                return function(*args)

        return await self._of(os.path.dirname(path)).writer.call(call)

    # ---- the port -------------------------------------------------------------------------------------------------

    async def open(
        self,
        path: str,
        *,
        create: bool = False,
        exclusive: bool = False,
        read_only: bool = False,
        in_blocks: bool = False,
    ) -> SystemFile:
        flags = os.O_CLOEXEC | (os.O_RDONLY if read_only else os.O_RDWR)
        flags |= (os.O_CREAT if create else 0) | (os.O_EXCL if exclusive else 0)

        def call() -> tuple[int, int]:
            fd = os.open(path, flags, 0o644)
            return fd, os.fstat(fd).st_size

        fd, size = await self._at(path, "open", call)
        threads = self._of(os.path.dirname(path))
        return SystemFile(path, fd, size, threads.writer, threads.readers, threads.blocks if in_blocks else None)

    async def read(self, path: str) -> bytes:
        def call() -> bytes:
            with open(path, "rb") as file:
                return file.read()

        return await self._at(path, "read", call)

    async def exists(self, path: str) -> bool:
        def call() -> bool:
            # Not os.path.lexists: to that every error is a "no", and a disk that does not answer would say that no
            # marker is on it.
            try:
                os.lstat(path)
            except (FileNotFoundError, NotADirectoryError):
                return False
            return True

        return await self._at(path, "look", call)

    async def list(self, directory: str) -> list[str]:
        def call() -> list[str]:
            try:
                return sorted(os.listdir(directory))
            except FileNotFoundError:
                return []

        return await self._at(directory + "/.", "list", call)

    async def make_dir(self, path: str) -> None:
        await self._at(path, "make", lambda: os.makedirs(path, exist_ok=True))

    async def rename(self, source: str, target: str) -> None:
        await self._at(target, "rename", os.replace, source, target)

    async def remove(self, path: str) -> None:
        def call() -> None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

        await self._at(path, "remove", call)

    async def sync_dir(self, directory: str) -> None:
        def call() -> None:
            try:
                fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except PermissionError:
                if os.access(directory, os.W_OK, effective_ids=True):
                    raise
                return  # who may not write there has made no name there
            try:
                os.fsync(fd)
            except OSError as error:
                raise errors.DiskFailed(f"{directory}: sync of names: {error.strerror}") from error
            finally:
                os.close(fd)

        await self._at(directory + "/.", "sync names", call)

    async def lock(self, path: str) -> Lock:
        def call() -> int:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                os.close(fd)
                raise errors.RefusedToStart(
                    f"{path} is held by another process: one bookie per directory; stop the other one"
                ) from error
            return fd

        return SystemLock(await self._at(path, "lock", call))

    async def usage(self, directory: str) -> Usage:
        def call() -> Usage:
            facts = os.statvfs(directory)
            return Usage(facts.f_blocks * facts.f_frsize, facts.f_bavail * facts.f_frsize)

        return await self._at(directory + "/.", "statfs", call)

    async def mount(self, directory: str) -> Mount:
        return await self._at(directory + "/.", "mount facts", mounts.facts_of, directory)
