"""The index's key-value store. Flushed batches survive a power cut, whole.

Promised besides: of unflushed batches only a *prefix* may survive, never a later batch without the earlier ones (the
index's checkpoint writes the mark last and relies on it). Deliberately not promised: that any unflushed batch survives.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class PutRow:
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class DeleteRow:
    key: bytes


class OrderedStore(Protocol):
    """Keys are bytes in lexicographic order. Reads see every completed write. Raises StorageFailed, CorruptFile.

    DiskFull, OutOfResources from a write: it was not applied. From `flush`: nothing written is lost yet. Both may be
    tried again.
    """

    def write(self, batch: Sequence[PutRow | DeleteRow]) -> None:
        """Apply all or nothing; later items win over earlier ones of the same key. Not durable before `flush`."""
        ...

    def put_many(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        """Write one `PutRow` per (key, value), without an object per pair: for the hot path of a checkpoint."""
        ...

    def get(self, key: bytes) -> bytes | None: ...

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values in the order of the keys."""
        ...

    def is_slow(self) -> bool:
        """Return True when the next look would make the whole node wait for the disk: `await warm` first."""
        ...

    async def warm(self, keys: Sequence[bytes]) -> None:
        """Bring into memory what `get` of these keys reads from the disk; other tasks run meanwhile. It says nothing of
        the keys, not even that they cannot be read: look again, for what was true when it began need not be now."""
        ...

    def range(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield pairs with start <= key < end, ascending; a snapshot of the moment of the call."""
        ...

    def last_in(self, start: bytes, end: bytes) -> tuple[bytes, bytes] | None:
        """Return the greatest pair with start <= key < end."""
        ...

    def delete_range(self, start: bytes, end: bytes) -> None:
        """Remove start <= key < end. Not durable before `flush`."""
        ...

    async def flush(self) -> None:
        """Make all earlier writes durable. Raises DiskFull, OutOfResources, or DiskFailed: then the state of the disk
        is unknown, and the node stops."""
        ...

    async def close(self) -> None:
        """Close; unflushed writes may be lost."""
        ...


class OrderedStores(Protocol):
    """Opens stores by directory."""

    async def open(self, directory: str) -> OrderedStore:
        """Open or create a store. Only one may have it open. Raises CorruptFile, StorageFailed."""
        ...

    async def open_read_only(self, directory: str) -> OrderedStore:
        """Open what a stopped process left, without changing a byte of it; a write to it is a programming error.

        Raises FileMissing, CorruptFile, StorageFailed.
        """
        ...
