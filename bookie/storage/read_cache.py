"""Caches entries that were read, or read ahead, from entry logs; and decides when to read ahead. Pure.

First in, first out, in segments: a hit costs two look-ups and changes nothing, and what fits stays whole (with an order
by use each hit would pay for it). What is dropped is in the page cache, or a read ahead away.

Must never hold what the index does not say any more: `forget` and `drop` come before anybody could ask again.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bookie.base.ids import EntryId, LedgerId
from bookie.base.units import KIB

# What a cached entry costs beside its bytes: bytes object, dict slot, int, place in its segment; measured roughly.
ENTRY_OVERHEAD_BYTES = 180
SEGMENTS = 16  # dropped one at a time

# A reader that skips no more than this is still reading in order: of a striped ledger a bookie has every n-th entry.
GAP_MAX = 32
# The first read-ahead of a ledger, doubled with each that follows.
WINDOW_BYTES_MIN = 16 * KIB
# Ledgers whose readers are remembered; beyond it the longest known is forgotten, and its next read-ahead comes later.
READERS_MAX = 4_096
_NOBODY = EntryId(-GAP_MAX - 1), 0


@dataclass(slots=True, eq=False)
class _Segment:
    """Entries that were put together and are dropped together: columns of one length."""

    ledger_ids: list[LedgerId] = field(default_factory=list)
    entry_ids: list[EntryId] = field(default_factory=list)
    size_bytes: int = 0


class ReadCache:
    """Holds at most `size_bytes_max` of entries (0: none), by ledger and id.
    Each `forget` and `drop` changes `epoch`."""

    def __init__(self, size_bytes_max: int) -> None:
        self.epoch = 0
        self.size_bytes = 0  # about: what was forgotten is counted until its segment goes
        self._size_bytes_max = size_bytes_max
        self._segment_bytes = size_bytes_max // SEGMENTS
        self._ledgers: dict[LedgerId, dict[EntryId, bytes]] = {}
        self._segments = deque((_Segment(),))

    def get(self, ledger_id: LedgerId, entry_id: EntryId) -> bytes | None:
        entries = self._ledgers.get(ledger_id)
        return entries.get(entry_id) if entries is not None else None

    def entries_of(self, ledger_id: LedgerId) -> Mapping[EntryId, bytes] | None:
        """Return the cached entries of a ledger: a live view, which changes with the cache."""
        return self._ledgers.get(ledger_id)

    def put(self, ledger_id: LedgerId, entry_id: EntryId, body: bytes) -> None:
        """Cache one entry, unless it is larger than a segment."""
        size = len(body) + ENTRY_OVERHEAD_BYTES
        if size > self._segment_bytes:
            return
        entries = self._ledgers.get(ledger_id)
        if entries is None:
            entries = self._ledgers[ledger_id] = {}
        elif entry_id in entries:
            return  # the same bytes: what may change was forgotten first
        entries[entry_id] = body
        segment = self._segments[-1]
        if segment.size_bytes + size > self._segment_bytes:
            segment = self._begin_segment()
        segment.ledger_ids.append(ledger_id)
        segment.entry_ids.append(entry_id)
        segment.size_bytes += size
        self.size_bytes += size

    def _begin_segment(self) -> _Segment:
        while self.size_bytes > self._size_bytes_max - self._segment_bytes:
            self._drop_oldest()
        self._segments.append(_Segment())
        return self._segments[-1]

    def _drop_oldest(self) -> None:
        segment = self._segments.popleft()
        self.size_bytes -= segment.size_bytes
        for ledger_id, entry_id in zip(segment.ledger_ids, segment.entry_ids, strict=True):
            entries = self._ledgers.get(ledger_id)
            if entries is not None:
                entries.pop(entry_id, None)
                if not entries:
                    del self._ledgers[ledger_id]

    def forget(self, moved: Mapping[LedgerId, Iterable[EntryId]]) -> None:
        """Forget entries that have a new location now, perhaps with other bytes."""
        self.epoch += 1
        if not self._ledgers:
            return
        for ledger_id, entry_ids in moved.items():
            entries = self._ledgers.get(ledger_id)
            if entries:
                for entry_id in entry_ids:
                    entries.pop(entry_id, None)

    def drop(self, ledger_id: LedgerId) -> None:
        """Drop the entries of a deleted ledger."""
        self.epoch += 1
        self._ledgers.pop(ledger_id, None)


class SequentialReaders:
    """Recognizes clients that read in order: for each ledger the entry expected next, and the bytes read ahead last."""

    def __init__(self, window_bytes_max: int) -> None:
        self._window_bytes_max = window_bytes_max
        self._next: dict[LedgerId, tuple[EntryId, int]] = {}

    def window(self, ledger_id: LedgerId, entry_id: EntryId) -> int:
        """Return how many bytes to read from `entry_id` on; 0: that entry alone."""
        expected, window_bytes = self._next.get(ledger_id, _NOBODY)
        if not expected <= entry_id <= expected + GAP_MAX:
            return 0
        return min(self._window_bytes_max, max(WINDOW_BYTES_MIN, 2 * window_bytes))

    def expected(self, ledger_id: LedgerId) -> EntryId:
        """Return the entry that a client reading in order asks for next;
        far below every entry when nobody read here."""
        return self._next.get(ledger_id, _NOBODY)[0]

    def moved(self, ledger_id: LedgerId, last: EntryId, window_bytes: int) -> None:
        """Note that all entries up to `last` were asked for, or are being read ahead."""
        self._next.pop(ledger_id, None)
        if len(self._next) >= READERS_MAX:
            del self._next[next(iter(self._next))]
        self._next[ledger_id] = (EntryId(last + 1), window_bytes)
