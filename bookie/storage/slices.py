"""Walks of an index's rows: in slices between which other tasks run, and with what deltas changed of them."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar, cast

from bookie.storage.pause import pause

Pairs = Sequence[tuple[bytes, bytes]]
Rows = Iterator[tuple[bytes, bytes]]
T = TypeVar("T")


def with_changes(stored: Rows, changed: Iterator[tuple[bytes, T]], combine: Callable[[T, bytes | None], bytes]) -> Rows:
    """Yield rows ascending by key, each as `combine` makes it of what deltas changed of it and what is stored."""
    key, change = next(changed, (None, None))
    for stored_key, row in stored:
        while key is not None and key < stored_key:
            yield key, combine(cast(T, change), None)
            key, change = next(changed, (None, None))
        if key == stored_key:
            yield stored_key, combine(cast(T, change), row)
            key, change = next(changed, (None, None))
        else:
            yield stored_key, row
    while key is not None:
        yield key, combine(cast(T, change), None)
        key, change = next(changed, (None, None))


class Slices(Generic[T]):
    """Iterates over the rows of a range a slice at a time, and lets other tasks run between two. No cursor of the store
    outlives a slice, so there is nothing to close (a generator would need it, when a caller leaves early).

    `rows_from` returns the rows of the range from a key on."""

    def __init__(
        self, rows_from: Callable[[bytes], Rows], start: bytes, count_max: int, unpack: Callable[[Pairs], T]
    ) -> None:
        self._rows_from = rows_from
        self._start = start
        self._count_max = count_max
        self._unpack = unpack
        self._is_first = True

    def __aiter__(self) -> "Slices[T]":
        return self

    async def __anext__(self) -> T:
        if not self._is_first:
            await pause()
        self._is_first = False
        pairs = list(itertools.islice(self._rows_from(self._start), self._count_max))
        if not pairs:
            raise StopAsyncIteration
        self._start = pairs[-1][0] + b"\0"
        return self._unpack(pairs)
