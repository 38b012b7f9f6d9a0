"""Files, and what their calls promise about durability.

Promised: what returned before a successful `File.sync` survives a power cut. Deliberately not promised: that
anything else survives; the order of unsynced writes; a new, renamed or removed name before `Disk.sync_dir` of its
directory; anything about what was written to a file after its last sync when a write or sync of it failed (it is
poisoned: every later write raises; what was synced before may still be read).

All paths are absolute strings with forward slashes. Errors: FileMissing, DiskFull, OutOfResources,
DiskFailed (`bookie.base.errors`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

Buffer = bytes | bytearray | memoryview
BLOCK_BYTES = 4096  # a multiple of every usual disk's sector
Span = tuple[int, int]  # offset and size of what is to be read


@dataclass(frozen=True, slots=True)
class Usage:
    """Space of the file system that holds a directory; both in bytes."""

    total_bytes: int
    free_bytes: int

    @property
    def used_share(self) -> float:
        """Return the used share, from 0 (empty) to 1; 0 also for a file system without a size."""
        return 1 - self.free_bytes / self.total_bytes if self.total_bytes else 0.0


@dataclass(frozen=True, slots=True)
class Mount:
    """The kernel's facts about one directory (statfs and /proc/self/mountinfo), without a conclusion.

    `root` is mountinfo's root field: "/" for a file system of its own, a path for a bind mount of a directory.
    `shares_node_disk`: the device equals that of the files which kubelet itself mounts (/etc/hosts).
    `is_silent`: the disk did not answer statfs, so that there is no `fsid`; the rest is what the mount table says.
    """

    path: str
    exists: bool
    is_mount_point: bool
    device: str  # "major:minor"
    fsid: str  # hex of statfs f_fsid
    fstype: str
    root: str
    source: str
    total_bytes: int
    shares_node_disk: bool
    is_silent: bool = False


def bytes_to_block(size: int) -> int:
    """Return how many bytes `size` lacks to a whole number of blocks."""
    return -size % BLOCK_BYTES


class File(Protocol):
    """One open file. Calls on one file do not overlap, except `pread*`, which may run beside anything."""

    path: str

    @property
    def size(self) -> int:
        """Return the bytes, including those appended through this handle that are not yet durable."""
        ...

    async def append(self, buffers: Sequence[Buffer]) -> int:
        """Write all buffers at the end; return the offset of the first byte. Not durable before `sync`."""
        ...

    async def pread(self, offset: int, size: int) -> bytes:
        """Read up to `size` bytes; fewer only at the end of the file."""
        ...

    async def pread_many(self, spans: Sequence[Span]) -> list[bytes]:
        """Do `pread` for each, in the order asked; raise the error of any.
        (In the real world one hop to the disk's threads for all.)"""
        ...

    def pread_nowait(self, offset: int, size: int) -> bytes | None:
        """Read without waiting for the disk; return None when the read would have to wait."""
        ...

    async def append_and_sync(self, buffers: Sequence[Buffer]) -> int:
        """Do `append` and `sync` in one step. (In the real world one hop to the disk's thread.)"""
        ...

    async def sync(self) -> None:
        """Make everything written so far durable (fdatasync, and the size). Raises DiskFailed and poisons."""
        ...

    async def truncate(self, size: int) -> None:
        """Cut to `size` bytes. Not durable before `sync`."""
        ...

    async def close(self) -> None:
        """Close without syncing."""
        ...


class Lock(Protocol):
    """A held lock file."""

    def release(self) -> None:
        """Release the lock; the file stays."""
        ...


class Disk(Protocol):
    """Names and files of one node."""

    async def open(
        self,
        path: str,
        *,
        create: bool = False,
        exclusive: bool = False,
        read_only: bool = False,
        in_blocks: bool = False,
    ) -> File:
        """Open for reading and appending. `create`: make a missing file; `exclusive`: refuse an existing one;
        `read_only`: for reading alone, also where nothing may be written.

        `in_blocks`: whoever appends gives whole blocks (`BLOCK_BYTES`) each time, so no block that was synced is ever
        written again. (In the real world they go past the system's cache: for what is not read again soon.)
        """
        ...

    async def read(self, path: str) -> bytes:
        """Return the whole file. Raises FileMissing."""
        ...

    async def exists(self, path: str) -> bool:
        """Return whether there is something of this name. Raises StorageFailed when the disk does not say."""
        ...

    async def list(self, directory: str) -> list[str]:
        """Return the names in `directory`, sorted; [] when there is no such directory."""
        ...

    async def make_dir(self, path: str) -> None:
        """Make `path` and its parents; existing ones are no error. Durable after `sync_dir` of each parent."""
        ...

    async def rename(self, source: str, target: str) -> None:
        """Replace `target` atomically; durable after `sync_dir`."""
        ...

    async def remove(self, path: str) -> None:
        """Remove one file; a missing one is no error."""
        ...

    async def sync_dir(self, directory: str) -> None:
        """Make the names in `directory` durable."""
        ...

    async def lock(self, path: str) -> Lock:
        """Lock the file `path` (made if missing) for this process; the lock ends with the process, however it ends.

        Raises RefusedToStart, naming the path, when another process (or opener) holds it.
        """
        ...

    async def usage(self, directory: str) -> Usage: ...

    async def mount(self, directory: str) -> Mount:
        """Return facts about the file system under `directory`; writes nothing."""
        ...


async def replace_durably(disk: Disk, path: str, data: Buffer) -> None:
    """Write a small file so that after a power cut it holds the old bytes or the new, and after return the new.

    CRASH: before the rename is durable the old name is untouched; a left-over `.tmp` is overwritten next time.
    """
    temporary = path + ".tmp"
    await disk.remove(temporary)
    file = await disk.open(temporary, create=True)
    try:
        await file.append([data])
        await file.sync()
    finally:
        await file.close()
    await disk.rename(temporary, path)
    await disk.sync_dir(path.rsplit("/", 1)[0] or "/")
