"""Entries that were read, or read ahead, from entry logs; and when to read ahead. Pure.

Two generations, as the write cache has: when the younger one is half the bound, the older one goes whole. So a hit
costs two look-ups and nothing is kept in order; what is asked for again in the older one moves to the younger.

Must never hold what the index does not say any more: `forget` and `drop` come before anybody could ask again.
"""

from collections.abc import Iterable

from bookie.base.ids import EntryId, LedgerId
from bookie.base.units import KIB

# What a cached entry costs beside its bytes; measured roughly, as in `write_cache`.
ENTRY_OVERHEAD_BYTES = 160

# A reader that skips no more than this is still reading in order: of a striped ledger a bookie has every n-th entry.
GAP_MAX = 32
# The first read-ahead of a ledger, doubled with each that follows.
WINDOW_BYTES_MIN = 16 * KIB
# Ledgers whose readers are remembered; beyond it the longest known is forgotten, and its next read-ahead comes later.
READERS_MAX = 4_096


class ReadCache:
    """At most `size_bytes_max` of entries (0: none), by ledger and id. `epoch` moves with each `forget` and `drop`."""

    def __init__(self, size_bytes_max: int) -> None:
        self.epoch = 0
        self._half_bytes = size_bytes_max // 2
        self._young: dict[LedgerId, dict[EntryId, bytes]] = {}
        self._old: dict[LedgerId, dict[EntryId, bytes]] = {}
        self._young_bytes = 0
        self._old_bytes = 0

    @property
    def size_bytes(self) -> int:
        """What is held now, about: what was forgotten is counted until its generation goes."""
        return self._young_bytes + self._old_bytes

    def get(self, ledger_id: LedgerId, entry_id: EntryId) -> bytes | None:
        entries = self._young.get(ledger_id)
        if entries is not None and (body := entries.get(entry_id)) is not None:
            return body
        entries = self._old.get(ledger_id)
        body = entries.get(entry_id) if entries is not None else None
        if body is not None:
            self.put(ledger_id, entry_id, body)
        return body

    def put(self, ledger_id: LedgerId, entry_id: EntryId, body: bytes) -> None:
        """Keep one entry."""
        size = len(body) + ENTRY_OVERHEAD_BYTES
        if self._young_bytes + size > self._half_bytes:
            if size > self._half_bytes:
                return
            self._old, self._young = self._young, {}
            self._old_bytes, self._young_bytes = self._young_bytes, 0
        entries = self._young.get(ledger_id)
        if entries is None:
            entries = self._young[ledger_id] = {}
        entries[entry_id] = body
        self._young_bytes += size

    def forget(self, ledger_id: LedgerId, entry_ids: Iterable[EntryId]) -> None:
        """These are somewhere else now, perhaps with other bytes."""
        self.epoch += 1
        for generation in (self._young, self._old):
            entries = generation.get(ledger_id)
            if entries:
                for entry_id in entry_ids:
                    entries.pop(entry_id, None)

    def drop(self, ledger_id: LedgerId) -> None:
        """The ledger was deleted."""
        self.epoch += 1
        self._young.pop(ledger_id, None)
        self._old.pop(ledger_id, None)


class Readers:
    """Who reads in order: for each ledger where the next read is expected, and how much to read ahead then."""

    def __init__(self, window_bytes_max: int) -> None:
        self._window_bytes_max = window_bytes_max
        self._next: dict[LedgerId, tuple[EntryId, int]] = {}

    def window(self, ledger_id: LedgerId, entry_id: EntryId) -> int:
        """Bytes to read from `entry_id` on; 0: that entry alone."""
        expected, window_bytes = self._next.get(ledger_id, (-1, 0))
        if not expected <= entry_id <= expected + GAP_MAX or expected < 0:
            return 0
        return min(self._window_bytes_max, max(WINDOW_BYTES_MIN, 2 * window_bytes))

    def moved(self, ledger_id: LedgerId, last: EntryId, window_bytes: int) -> None:
        """Everything up to `last` was asked for, or is being read ahead."""
        self._next.pop(ledger_id, None)
        if len(self._next) >= READERS_MAX:
            del self._next[next(iter(self._next))]
        self._next[ledger_id] = (EntryId(last + 1), window_bytes)
