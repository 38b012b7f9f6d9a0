"""The ordered store of one simulated process: all writes after the last flush are lost when the process ends."""

import bisect
from collections.abc import Iterator, Sequence

from bookie.base import errors
from bookie.ports.ordered_store import DeleteRow, PutRow
from bookie.sim.disk import SimDisk, WriteFault
from bookie.sim.disk_image import StoreImage


class SimOrderedStores:
    """bookie.ports.ordered_store.OrderedStores over the machine's disk image."""

    def __init__(self, disk: SimDisk) -> None:
        self._disk = disk
        self._open: list[StoreImage] = []

    async def open(self, directory: str) -> "SimOrderedStore":
        await self._disk.wait(self._disk.faults.write_latency_ns)
        node = self._disk.make_dir_now(directory)
        if node.store is None:
            node.store = StoreImage()
        if node.store in self._open:
            raise errors.StorageFailed(f"{directory} is open already")
        return self._opened(directory, node.store)

    async def open_read_only(self, directory: str) -> "SimOrderedStore":
        await self._disk.wait(self._disk.faults.write_latency_ns)
        node = self._disk.find_dir(directory)
        if node is None or node.store is None:
            raise errors.FileMissing(f"{directory}: there is no index")
        return self._opened(directory, node.store)

    def _opened(self, directory: str, store: StoreImage) -> "SimOrderedStore":
        if store.is_corrupt:
            raise errors.CorruptFile(f"{directory}: the store does not check")
        self._open.append(store)
        return SimOrderedStore(self._disk, directory, store, self._open)


class SimOrderedStore:
    """bookie.ports.ordered_store.OrderedStore. Keys are kept sorted beside the dictionary that holds the values."""

    def __init__(self, disk: SimDisk, directory: str, image: StoreImage, open_images: list[StoreImage]) -> None:
        self._disk = disk
        self._directory = directory
        self._image = image
        self._open_images = open_images
        self._keys = sorted(image.values)

    def _check(self) -> StoreImage:
        self._disk.life.check()
        assert self._image in self._open_images, f"{self._directory} is closed"
        return self._image

    def _next_write(self) -> None:
        """Count one write. Raises what the real store would (`runtime.rocksdb`): it survives a full disk, and no other
        error."""
        fault = self._disk.next_write(self._directory)
        if fault is WriteFault.FULL:
            raise errors.DiskFull(f"{self._directory}: no space left for the index (simulated)")
        if fault is WriteFault.BROKEN:
            raise errors.DiskFailed(f"{self._directory}: the index cannot be written (simulated)")

    def write(self, batch: Sequence[PutRow | DeleteRow]) -> None:
        image = self._check()
        self._next_write()
        for item in batch:
            if isinstance(item, PutRow):
                if item.key not in image.values:
                    bisect.insort(self._keys, item.key)
                    image.values[item.key] = item.value
            elif item.key in image.values:
                del self._keys[bisect.bisect_left(self._keys, item.key)]
                del image.values[item.key]
        image.write(list(batch))

    def put_many(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        self.write([PutRow(key, value) for key, value in pairs])

    def get(self, key: bytes) -> bytes | None:
        return self._check().values.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        values = self._check().values
        return [values.get(key) for key in keys]

    def is_slow(self) -> bool:
        return self._disk.faults.are_looks_slow

    async def warm(self, keys: Sequence[bytes]) -> None:
        self._check()
        if keys:
            await self._disk.wait(self._disk.faults.write_latency_ns)

    def range(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        values = self._check().values
        keys = self._keys[bisect.bisect_left(self._keys, start) : bisect.bisect_left(self._keys, end)]
        return iter([(key, values[key]) for key in keys])

    def last_in(self, start: bytes, end: bytes) -> tuple[bytes, bytes] | None:
        values = self._check().values
        index = bisect.bisect_left(self._keys, end) - 1
        if index < 0 or self._keys[index] < start:
            return None
        return self._keys[index], values[self._keys[index]]

    def delete_range(self, start: bytes, end: bytes) -> None:
        image = self._check()
        self._next_write()
        del self._keys[bisect.bisect_left(self._keys, start) : bisect.bisect_left(self._keys, end)]
        image.write([(start, end)])

    async def flush(self) -> None:
        image = self._check()
        position = image.settled + len(image.batches)
        await self._disk.wait(self._disk.faults.sync_latency_ns)
        self._next_write()
        if not self._disk.faults.lies_about_sync:
            image.make_durable(position)

    async def close(self) -> None:
        self._check()
        self._open_images.remove(self._image)
