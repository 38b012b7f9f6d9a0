"""The disk port of one simulated process, over its machine's `Image`.

Every call that may wait in the real world suspends here, at least for one turn; faults come from `DiskFaults`. Data
reaches the image when a write begins; only a finished sync makes it durable, and only what was written before it began.
"""

import enum
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.units import NS_PER_MS, NS_PER_US
from bookie.ports.disk import BLOCK_BYTES, Buffer, Mount, Span, Usage
from bookie.sim.disk_image import DirImage, FileImage, Image
from bookie.sim.loop import SimLoop, SimProcess


class WriteFault(enum.Enum):
    """How a write fails. FULL: refused whole (ENOSPC). BROKEN: EIO, a part of the bytes may be there, a sync too."""

    FULL = "full"
    BROKEN = "broken"


@dataclass(slots=True)
class DiskFaults:
    """Dials of one machine's disks; all zero is a fast, faithful disk that still loses unsynced bytes at a crash."""

    write_latency_ns: int = 20 * NS_PER_US
    sync_latency_ns: int = NS_PER_MS
    stall_per_million: int = 0  # chance that one operation takes stall_ns
    stall_ns: int = 2_000 * NS_PER_MS
    sync_fails_per_million: int = 0
    sync_fails_path: str = ""  # only files whose path contains this
    must_wait_percent: int = 20  # how often pread_nowait would have to wait
    are_looks_slow: bool = False  # an ordered store says that a look would wait, and `warm` waits
    keeps_unflushed_batches: bool = True  # a crash may keep a prefix of an ordered store's unflushed batches
    fails_at_write: int = 0  # the n-th write from the start of the process fails (1 is the first); 0: none does
    fails_as: "WriteFault" = WriteFault.FULL
    fails_path: str = ""  # only writes to paths that contain this are counted
    fails_for: int = 1  # and so many writes from there on
    fails_reads_path: str = ""  # nothing under a path that begins with this can be read or listed: its disk is dead
    is_silent_path: str = (
        ""  # the disk mounted there says nothing of itself (statfs), and what is read is out of memory
    )
    lies_about_sync: bool = False  # a broken disk: sync returns and nothing is durable (tests of the simulator itself)


class SimDisk:
    """bookie.ports.disk.Disk."""

    def __init__(
        self, loop: SimLoop, life: SimProcess, image: Image, faults: DiskFaults, random_: random.Random
    ) -> None:
        self.loop = loop
        self.life = life
        self.image = image
        self.faults = faults
        self.random = random_
        self.poisoned: list[FileImage] = []
        self.locked: list[str] = []
        self.open_files: dict[SimFile, None] = {}  # in the order they were opened; the real ones are few
        self.syncs = 0
        self.operations = 0
        self.writes = 0
        self.crash_at_operation = 0  # `on_crash` is called in the middle of that operation (1 is the first)
        self.on_crash: Callable[[], None] = life.check

    async def wait(self, latency_ns: int) -> None:
        """Suspend for the time of one operation."""
        self.life.check()
        self.operations += 1
        if self.operations == self.crash_at_operation:
            self.on_crash()
            await self.loop.create_future()  # this life is over; nobody comes back here
        faults = self.faults
        if faults.stall_per_million and self.random.random() * 1_000_000 < faults.stall_per_million:
            latency_ns = faults.stall_ns
        await self.loop.sleep_ns(int(latency_ns * 2 * self.random.random()))
        self.life.check()

    def next_write(self, path: str) -> WriteFault | None:
        """Count one write, sync or change of names; return how it should fail, None when it should succeed."""
        faults = self.faults
        if faults.fails_path not in path:
            return None
        self.writes += 1
        if faults.fails_at_write and faults.fails_at_write <= self.writes < faults.fails_at_write + faults.fails_for:
            return faults.fails_as
        return None

    def check_read(self, path: str) -> None:
        """Raise StorageFailed when the disk under `path` does not answer."""
        if self.faults.fails_reads_path and path.startswith(self.faults.fails_reads_path):
            raise errors.StorageFailed(f"{path}: input/output error (simulated)")

    def write_names(self, path: str) -> None:
        """Count one change of names. Raises what the real disk would (`runtime.disk`)."""
        fault = self.next_write(path)
        if fault is WriteFault.FULL:
            raise errors.DiskFull(f"{path}: no space left (simulated)")
        if fault is WriteFault.BROKEN:
            raise errors.StorageFailed(f"{path}: input/output error (simulated)")

    # ---- files ----------------------------------------------------------------------------------------------------

    async def open(
        self,
        path: str,
        *,
        create: bool = False,
        exclusive: bool = False,
        read_only: bool = False,
        in_blocks: bool = False,
    ) -> "SimFile":
        assert not (read_only and create)
        await self.wait(self.faults.write_latency_ns)
        self.check_read(path)
        directory, name = self._parent(path)
        node = directory.names.get(name)
        if isinstance(node, DirImage):
            raise errors.StorageFailed(f"{path}: open: is a directory")
        if node is None:
            if not create:
                raise errors.FileMissing(f"{path} does not exist")
            self.write_names(path)
            node = FileImage(self.image.volume_of(path))
            directory.change("", name, node)
        elif create and exclusive:
            raise errors.StorageFailed(f"{path} exists already")
        return SimFile(self, path, node, in_blocks=in_blocks)

    async def read(self, path: str) -> bytes:
        await self.wait(self.faults.write_latency_ns)
        self.check_read(path)
        node = self._find(path)
        if not isinstance(node, FileImage):
            raise errors.FileMissing(f"{path} does not exist")
        return bytes(node.data)

    async def exists(self, path: str) -> bool:
        await self.wait(self.faults.write_latency_ns)
        self.check_read(path)
        return self._find(path) is not None

    # ---- names ----------------------------------------------------------------------------------------------------

    async def list(self, directory: str) -> list[str]:
        await self.wait(self.faults.write_latency_ns)
        self.check_read(directory)
        node = self._find(directory)
        return sorted(node.names) if isinstance(node, DirImage) else []

    async def make_dir(self, path: str) -> None:
        await self.wait(self.faults.write_latency_ns)
        if self._find(path) is None:
            self.write_names(path)
        self.make_dir_now(path)

    def make_dir_now(self, path: str) -> DirImage:
        """Make `path` and its parents; for ports that make their own directories."""
        volume = self.image.volume_of(path)
        node = volume.root
        for part in _parts(path, volume.path):
            child = node.names.get(part)
            if child is None:
                child = DirImage()
                node.change("", part, child)
            if not isinstance(child, DirImage):
                raise errors.DiskFailed(f"{path}: {part} is a file")
            node = child
        return node

    async def rename(self, source: str, target: str) -> None:
        await self.wait(self.faults.write_latency_ns)
        self.write_names(target)
        source_dir, source_name = self._parent(source)
        target_dir, target_name = self._parent(target)
        node = source_dir.names.get(source_name)
        if node is None:
            raise errors.FileMissing(f"{source} does not exist")
        if source_dir is target_dir:
            source_dir.change(source_name, target_name, node)
        else:
            target_dir.change("", target_name, node)
            source_dir.change(source_name, "", None)

    async def remove(self, path: str) -> None:
        await self.wait(self.faults.write_latency_ns)
        directory, name = self._parent(path, must_exist=False)
        node = directory.names.get(name)
        if isinstance(node, DirImage):
            raise errors.StorageFailed(f"{path}: remove: is a directory")
        if node is not None:
            if self.next_write(path) is WriteFault.BROKEN:  # removing needs no space
                raise errors.StorageFailed(f"{path}: remove failed (simulated)")
            node.volume.take(-len(node.data))
            directory.change(name, "", None)

    async def sync_dir(self, directory: str) -> None:
        node = self._find(directory)
        if not isinstance(node, DirImage):
            raise errors.FileMissing(f"{directory} does not exist")
        position = node.settled + len(node.pending)
        await self.wait(self.faults.sync_latency_ns)
        if self.next_write(directory) is not None:
            raise errors.DiskFailed(f"{directory}: sync of names failed (simulated)")
        if not self.faults.lies_about_sync:
            node.make_durable(position)

    async def lock(self, path: str) -> "SimLock":
        file = await self.open(path, create=True)
        await file.close()
        if path in self.locked:
            raise errors.RefusedToStart(f"{path} is locked: another process uses this directory")
        self.locked.append(path)
        return SimLock(self, path)

    # ---- facts ----------------------------------------------------------------------------------------------------

    async def usage(self, directory: str) -> Usage:
        await self.wait(self.faults.write_latency_ns)
        volume = self.image.volume_of(directory)
        return Usage(volume.total_bytes, volume.total_bytes - volume.used_bytes)

    async def mount(self, directory: str) -> Mount:
        await self.wait(self.faults.write_latency_ns)
        volume = self.image.volume_of(directory)
        is_silent = directory == self.faults.is_silent_path
        return Mount(
            path=directory,
            exists=self._find(directory) is not None,
            is_mount_point=volume.path == directory,
            device=volume.device,
            fsid=volume.fsid if not is_silent else "",
            fstype="ext4",
            root=volume.source,
            source=f"/dev/sim{volume.device}",
            total_bytes=volume.total_bytes if not is_silent else 0,
            shares_node_disk=volume is self.image.system or volume.source != "/",
            is_silent=is_silent,
        )

    # ---- paths ----------------------------------------------------------------------------------------------------

    def find_dir(self, path: str) -> DirImage | None:
        """Return the directory of that name; for ports that keep files of their own in directories."""
        node = self._find(path)
        return node if isinstance(node, DirImage) else None

    def _find(self, path: str) -> FileImage | DirImage | None:
        volume = self.image.volume_of(path)
        node: FileImage | DirImage | None = volume.root
        for part in _parts(path, volume.path):
            if not isinstance(node, DirImage):
                return None
            node = node.names.get(part)
        return node

    def _parent(self, path: str, *, must_exist: bool = True) -> tuple[DirImage, str]:
        head, _, name = path.rpartition("/")
        node = self._find(head or "/")
        if isinstance(node, DirImage):
            return node, name
        if must_exist:
            raise errors.FileMissing(f"{head} does not exist")
        return DirImage(), name


def _parts(path: str, mount_point: str) -> list[str]:
    assert path.startswith("/"), f"{path} is not absolute"
    return [part for part in path[len(mount_point) :].split("/") if part]


class SimLock:
    """bookie.ports.disk.Lock. It ends with the process: a `SimDisk` serves one process, and so does its list of
    locks."""

    def __init__(self, disk: SimDisk, path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        self._disk.life.check()
        if self._path in self._disk.locked:
            self._disk.locked.remove(self._path)


class SimFile:
    """bookie.ports.disk.File: one handle. Other handles of the same file share its image."""

    def __init__(self, disk: SimDisk, path: str, image: FileImage, *, in_blocks: bool) -> None:
        self.path = path
        self._in_blocks = in_blocks
        self._disk = disk
        self._image = image
        self._is_closed = False
        disk.open_files[self] = None

    @property
    def size(self) -> int:
        return len(self._image.data)

    def _check(self) -> None:
        self._check_open()
        if self._image in self._disk.poisoned:
            raise errors.DiskFailed(f"{self.path}: an earlier write failed; nothing is known about what is on disk")

    def _check_open(self) -> None:
        self._disk.life.check()
        assert not self._is_closed, f"{self.path} is closed"

    def _write(self, offset: int, data: bytes) -> None:
        fault = self._disk.next_write(self.path)
        if fault is WriteFault.FULL:
            raise errors.DiskFull(f"{self.path}: no space left (simulated)")
        if fault is WriteFault.BROKEN:
            self._image.write(offset, data[: self._disk.random.randint(0, len(data))])
            self._poison("write failed")
        self._image.write(offset, data)

    def _poison(self, what: str) -> None:
        self._disk.poisoned.append(self._image)
        raise errors.DiskFailed(f"{self.path}: {what} (simulated)")

    async def append(self, buffers: Sequence[Buffer]) -> int:
        self._check()
        offset = len(self._image.data)
        data = b"".join(buffers)
        assert not self._in_blocks or offset % BLOCK_BYTES == len(data) % BLOCK_BYTES == 0, f"{self.path}: no block"
        self._write(offset, data)
        await self._disk.wait(self._disk.faults.write_latency_ns)
        return offset

    async def pread(self, offset: int, size: int) -> bytes:
        (data,) = await self.pread_many([(offset, size)])
        return data

    async def pread_many(self, spans: Sequence[Span]) -> list[bytes]:
        """Read all spans at the same time, as the threads of a real disk do; each read takes its own time."""
        self._check_open()
        await self._disk.wait(self._disk.faults.write_latency_ns)
        self._check_open()
        self._disk.check_read(self.path)
        return [bytes(self._image.data[offset : offset + size]) for offset, size in spans]

    def pread_nowait(self, offset: int, size: int) -> bytes | None:
        self._check_open()
        if self._disk.random.randrange(100) < self._disk.faults.must_wait_percent:
            return None
        return bytes(self._image.data[offset : offset + size])

    async def append_and_sync(self, buffers: Sequence[Buffer]) -> int:
        offset = await self.append(buffers)
        await self.sync()
        return offset

    async def sync(self) -> None:
        self._check()
        disk, faults = self._disk, self._disk.faults
        position = self._image.settled + len(self._image.pending)
        await disk.wait(faults.sync_latency_ns)
        self._check()
        disk.syncs += 1
        if disk.next_write(self.path) is not None or (  # space may be missed only now, and then nothing is known either
            faults.sync_fails_per_million
            and faults.sync_fails_path in self.path
            and disk.random.randrange(1_000_000) < faults.sync_fails_per_million
        ):
            # As Linux does it: the dirty pages are marked clean, so a later sync would say yes over lost bytes.
            self._image.settle(disk.random)
            self._poison("sync failed")
        if not faults.lies_about_sync:
            self._image.make_durable(position)

    async def truncate(self, size: int) -> None:
        self._check()
        if self._disk.next_write(self.path) is WriteFault.BROKEN:
            self._poison("truncate failed")
        self._image.truncate(size)
        await self._disk.wait(self._disk.faults.write_latency_ns)

    async def close(self) -> None:
        self._disk.life.check()
        self._is_closed = True
        self._disk.open_files.pop(self, None)
