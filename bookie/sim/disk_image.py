"""Holds the content of a machine's disks: files and names, and for each what is durable and what a power cut may lose.

An image outlives processes: `SimDisk` (one process's port) works on it, and `Image.power_cut` decides what becomes of
unsynced data. Nothing here suspends. It stands for the disks of the contract in bookie/ports/disk.py.
"""

import enum
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from bookie.base import errors
from bookie.base.units import GIB
from bookie.ports.ordered_store import DeleteRow, PutRow

SECTOR_BYTES = 512

Write = tuple[int, bytes]  # offset and bytes; offset -1 - n stands for "cut to n bytes"
NameChange = tuple[str, str, "FileImage | DirImage | None"]  # name lost (or ""), name set (or ""), what it names
DeleteRange = tuple[bytes, bytes]
Batch = list[PutRow | DeleteRow | DeleteRange]


class Fate(enum.Enum):
    """What a power cut does to the unsynced part of one file. Real disks do all of these."""

    KEPT = "kept"
    DROPPED = "dropped"
    PREFIX = "prefix"
    SECTORS = "sectors"


@dataclass(slots=True, eq=False)
class FileImage:
    """One file. `data` is what a reader sees; `durable` plus any part of `pending` is what a power cut leaves."""

    volume: "VolumeImage"
    data: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Write] = field(default_factory=list)
    settled: int = 0  # writes that are pending no longer; `settled + len(pending)` is a position in the history

    def write(self, offset: int, data: bytes) -> None:
        """Write so that readers see it now; a later sync makes it durable. Grows the file, with zeros when `offset` is
        beyond its end."""
        self.volume.take(max(0, offset + len(data) - len(self.data)))
        _apply(self.data, (offset, data))
        self.pending.append((offset, data))

    def truncate(self, size: int) -> None:
        self.volume.take(size - len(self.data))
        _apply(self.data, (-1 - size, b""))
        self.pending.append((-1 - size, b""))

    def make_durable(self, position: int) -> None:
        """Note that every write before `position` of the history has reached the disk."""
        count = max(0, position - self.settled)
        for write in self.pending[:count]:
            _apply(self.durable, write)
        del self.pending[:count]
        self.settled += count

    def settle(self, random_: random.Random) -> Fate:
        """Decide which unsynced writes the disk keeps; nothing is pending afterwards."""
        fate = random_.choice(list(Fate))
        count = len(self.pending)
        whole = {Fate.KEPT: count, Fate.PREFIX: random_.randint(0, count)}.get(fate, 0)
        for write in self.pending[:whole]:
            _apply(self.durable, write)
        if fate is Fate.PREFIX and whole < count and self.pending[whole][0] >= 0:
            offset, data = self.pending[whole]
            _apply(self.durable, (offset, data[: random_.randint(0, len(data))]))
        if fate is Fate.SECTORS:
            for write in self.pending:
                _apply_torn(self.durable, write, random_)
        self.settled += count
        self.pending.clear()
        return fate

    def power_cut(self, random_: random.Random) -> None:
        self.settle(random_)
        self.data = bytearray(self.durable)


def _apply(data: bytearray, write: Write) -> None:
    offset, new = write
    if offset < 0:
        size = -1 - offset
        del data[size:]
        data.extend(bytes(size - len(data)))
        return
    if offset > len(data):
        data.extend(bytes(offset - len(data)))
    data[offset : offset + len(new)] = new


def _apply_torn(data: bytearray, write: Write, random_: random.Random) -> None:
    """Apply a write sector by sector: each part is kept, dropped, zeroed, or torn at some byte. Never touches a byte
    that the write did not cover: what was synced and not overwritten stays."""
    offset, new = write
    if offset < 0:
        if random_.random() < 0.5:
            _apply(data, write)
        return
    position = 0
    while position < len(new):
        end = min(len(new), position + SECTOR_BYTES - (offset + position) % SECTOR_BYTES)
        match random_.randrange(4):
            case 0:
                _apply(data, (offset + position, new[position:end]))
            case 1:
                _apply(data, (offset + position, bytes(end - position)))
            case 2:
                _apply(data, (offset + position, new[position : random_.randint(position, end)]))
            case _:
                pass
        position = end


@dataclass(slots=True, eq=False)
class StoreImage:
    """One ordered store. Writes are in `batches` until a flush; a crash keeps a prefix of them at most."""

    values: dict[bytes, bytes] = field(default_factory=dict)
    durable: dict[bytes, bytes] = field(default_factory=dict)
    batches: list[Batch] = field(default_factory=list)
    settled: int = 0
    is_corrupt: bool = False

    def write(self, batch: Batch) -> None:
        apply_batch(self.values, batch)
        self.batches.append(batch)

    def make_durable(self, position: int) -> None:
        """Note that every batch before `position` of the history has reached the disk."""
        count = max(0, position - self.settled)
        for batch in self.batches[:count]:
            apply_batch(self.durable, batch)
        del self.batches[:count]
        self.settled += count

    def process_ended(self, random_: random.Random, *, keeps_prefix: bool) -> None:
        """Keep a random prefix of the unflushed batches: RocksDB without a log may have flushed a memtable by
        itself."""
        if keeps_prefix and random_.random() < 0.5:
            self.make_durable(self.settled + random_.randint(0, len(self.batches)))
        self.settled += len(self.batches)
        self.batches.clear()
        self.values = dict(self.durable)


def apply_batch(values: dict[bytes, bytes], batch: Batch) -> None:
    """Apply all of `batch`, in order."""
    for item in batch:
        if isinstance(item, PutRow):
            values[item.key] = item.value
        elif isinstance(item, DeleteRow):
            values.pop(item.key, None)
        else:
            start, end = item
            for key in [key for key in values if start <= key < end]:
                del values[key]


@dataclass(slots=True, eq=False)
class DirImage:
    """One directory: names as seen, names that are durable, and the changes between in order."""

    names: "dict[str, FileImage | DirImage]" = field(default_factory=dict)
    durable: "dict[str, FileImage | DirImage]" = field(default_factory=dict)
    pending: list[NameChange] = field(default_factory=list)
    settled: int = 0
    store: StoreImage | None = None

    def change(self, lost: str, found: str, node: "FileImage | DirImage | None") -> None:
        """Make one atomic change of names: `lost` disappears, `found` names `node`. Either may be ""."""
        _rename(self.names, (lost, found, node))
        self.pending.append((lost, found, node))

    def make_durable(self, position: int) -> None:
        """Note that every change before `position` of the history has reached the disk."""
        count = max(0, position - self.settled)
        for change in self.pending[:count]:
            _rename(self.durable, change)
        del self.pending[:count]
        self.settled += count

    def power_cut(self, random_: random.Random) -> None:
        """Keep unsynced names up to some point in time, or one by one: file systems do either."""
        one_by_one = random_.random() < 0.5
        survivors = random_.randint(0, len(self.pending))
        for index, change in enumerate(self.pending):
            if random_.random() < 0.5 if one_by_one else index < survivors:
                _rename(self.durable, change)
        self.settled += len(self.pending)
        self.pending.clear()
        self.names = dict(self.durable)
        for node in self.names.values():
            node.power_cut(random_)

    def stores(self) -> Iterator[StoreImage]:
        """Return all ordered stores at or below this directory."""
        if self.store is not None:
            yield self.store
        for node in self.names.values():
            if isinstance(node, DirImage):
                yield from node.stores()

    def files(self, path: str) -> Iterator[tuple[str, FileImage]]:
        """Yield all files below with their full paths, in order of path."""
        for name in sorted(self.names):
            node = self.names[name]
            if isinstance(node, DirImage):
                yield from node.files(f"{path}/{name}")
            else:
                yield f"{path}/{name}", node


def _rename(names: dict[str, FileImage | DirImage], change: NameChange) -> None:
    lost, found, node = change
    if lost:
        names.pop(lost, None)
    if found and node is not None:
        names[found] = node


@dataclass(slots=True, eq=False)
class VolumeImage:
    """One file system and where it is mounted. `root` is its top directory."""

    path: str
    device: str
    fsid: str
    total_bytes: int = 64 * GIB
    used_bytes: int = 0
    is_mounted: bool = True
    source: str = "/"  # the directory of its file system that is mounted; of the node's own disk: "/kubelet/..."
    root: DirImage = field(default_factory=DirImage)

    def take(self, size: int) -> None:
        """Account for `size` more bytes (fewer when negative). Raises DiskFull."""
        if size > 0 and self.used_bytes + size > self.total_bytes:
            raise errors.DiskFull(f"volume {self.path} is full: {self.used_bytes} of {self.total_bytes} bytes used")
        self.used_bytes += size


class Image:
    """All disks of one machine: a system volume at / and any number of mounted ones."""

    def __init__(self, machine: str) -> None:
        self.machine = machine
        self.volumes: dict[str, VolumeImage] = {}
        self._made = 0
        self.system = self._new_volume("/")

    def add_volume(self, path: str, *, total_bytes: int = 64 * GIB) -> VolumeImage:
        """Mount an empty file system at `path`, in place of any that was there."""
        self.volumes[path] = volume = self._new_volume(path, total_bytes)
        return volume

    def _new_volume(self, path: str, total_bytes: int = 64 * GIB) -> VolumeImage:
        self._made += 1
        return VolumeImage(path, f"8:{self._made}", f"{self.machine}-{self._made:04x}", total_bytes)

    def volume_of(self, path: str) -> VolumeImage:
        """Return the mounted volume that holds `path`."""
        best = self.system
        for mount_point, volume in self.volumes.items():
            is_below = path == mount_point or path.startswith(mount_point + "/")
            if volume.is_mounted and is_below and (best is self.system or len(mount_point) > len(best.path)):
                best = volume
        return best

    def wipe(self, path: str) -> None:
        """Replace the volume by an empty one, mounted in the same place. Only while no process uses it."""
        self.add_volume(path, total_bytes=self.volumes[path].total_bytes)

    def process_ended(self, random_: random.Random, *, keeps_prefix: bool) -> None:
        """End a process by kill -9 or exit: files stay as they are, synced or not; ordered stores lose unflushed
        writes."""
        for volume in (self.system, *self.volumes.values()):
            for store in volume.root.stores():
                store.process_ended(random_, keeps_prefix=keeps_prefix)

    def power_cut(self, random_: random.Random, *, keeps_prefix: bool) -> None:
        """Decide for all unsynced data whether it survives the power cut."""
        self.process_ended(random_, keeps_prefix=keeps_prefix)
        for volume in (self.system, *self.volumes.values()):
            volume.root.power_cut(random_)
            volume.used_bytes = sum(len(file.data) for _, file in volume.root.files(volume.path))

    def rot(self, random_: random.Random, path_part: str) -> str | None:
        """Flip one bit of one durable byte in a file whose path contains `path_part`; return the path and offset, or
        None without such a file."""
        found = [
            (path, file)
            for volume in self.volumes.values()
            for path, file in volume.root.files(volume.path)
            if path_part in path and file.durable
        ]
        if not found:
            return None
        path, file = found[random_.randrange(len(found))]
        offset = random_.randrange(min(len(file.durable), len(file.data)))
        bit = 1 << random_.randrange(8)
        file.durable[offset] ^= bit
        file.data[offset] ^= bit
        return f"{path} at {offset}"
