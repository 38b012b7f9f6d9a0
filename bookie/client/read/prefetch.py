"""Reads a range of entries ahead of its consumer, in order, within bounds on entries and bytes.

It asks for batches where every bookie has every entry, else for single entries, each from its own replicas. It asks
again, entry by entry, for the entries that a batch did not bring, so that errors are always those of `entry_read`.

The bound on bytes rests on the entries that have come: it begins with few entries and doubles while they come, and the
largest entry so far says how many more it may ask for.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import NamedTuple

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.base.text import one_line
from bookie.base.units import NS_PER_MS
from bookie.client.read.batch_read import BATCH_BYTES, BatchRead
from bookie.client.read.entry_read import Entry, EntryRead
from bookie.client.shared import Shared
from bookie.metadata.ledger import LedgerMetadata
from bookie.wire.digest import Digest

# So many entries are asked for before the first answer says how large entries are.
AHEAD_AT_FIRST = 16

Read = EntryRead | BatchRead


class Gap(NamedTuple):
    """Entries that an answer did not bring; inclusive."""

    first: EntryId
    last: EntryId


class Prefetch:
    """One pass over `first`..`last`, inclusive. `metadata` is asked anew for every read: a ledger may grow.
    `look_again` renews it for an entry that none of its bookies gave."""

    def __init__(
        self,
        shared: Shared,
        digest: Digest,
        ledger_id: LedgerId,
        metadata: Callable[[], LedgerMetadata],
        first: EntryId,
        last: EntryId,
        look_again: Callable[[EntryId], Awaitable[None]],
    ) -> None:
        self._look_again = look_again
        self._shared = shared
        self._digest = digest
        self._ledger_id = ledger_id
        self._metadata = metadata
        self._next = first
        self._last = last
        self._window: deque[Read | Gap] = deque()  # in order, without a hole
        self._arrived = asyncio.Event()
        self._ahead = AHEAD_AT_FIRST  # entries
        self._largest_bytes = 1
        self.max_lac = EntryId(-1)  # the greatest LAC seen on the way

    async def entries(self) -> AsyncGenerator[Entry, None]:
        """Yield all entries in order. Raises the `EntryRead.error` of the first entry that no replica could give."""
        window = self._window
        timer = self._speculate()
        try:
            while window or self._next <= self._last:
                self._ask()
                read = self._front()
                while not read.is_done:
                    self._arrived.clear()
                    await self._arrived.wait()
                window.popleft()
                self._learn(read)
                for entry in read.entries:
                    yield entry
                await self._ask_rest(read)
        finally:
            timer.cancel()
            for asked in window:
                if not isinstance(asked, Gap):
                    asked.cancel()

    def _front(self) -> Read:
        """Return the read whose entries come next; begin it now if it has not begun."""
        front = self._window[0]
        if isinstance(front, Gap):
            self._window.popleft()
            read = self._begin(front.first, front.last)
            self._leave(EntryId(read.last + 1), front.last)
            self._window.appendleft(read)
            return read
        return front

    def _leave(self, first: EntryId, last: EntryId) -> None:
        if first <= last:
            self._window.appendleft(Gap(first, last))

    def _learn(self, read: Read) -> None:
        self.max_lac = max(self.max_lac, read.max_lac)
        for entry in read.entries:
            self._largest_bytes = max(self._largest_bytes, len(entry.payload))
        options = self._shared.options
        within_bytes = max(1, options.prefetch_bytes_max // self._largest_bytes)
        self._ahead = min(self._ahead * 2, options.prefetch_entries_max, within_bytes)

    # ---- asking ------------------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        """Begin as many reads as the bounds allow, at least one."""
        ahead = sum(read.last - read.first + 1 for read in self._window)
        while self._next <= self._last and (not self._window or ahead < self._ahead):
            last = min(self._last, self._next + self._ahead - ahead - 1) if self._window else self._last
            read = self._begin(self._next, EntryId(max(last, self._next)))
            self._window.append(read)
            ahead += read.last - read.first + 1
            self._next = EntryId(read.last + 1)

    async def _ask_rest(self, read: Read) -> None:
        """Ask next for the entries that a batch did not bring; after an error, for the first of them as a single entry.
        Raises the error of a single entry, unless it has other bookies now."""
        first = EntryId(read.first + len(read.entries))
        if read.error is None:
            self._leave(first, read.last)
        elif isinstance(read, EntryRead):
            if not await self._has_moved(read):
                raise self._why(read, read.error)
            self._window.appendleft(self._single(first))
        else:
            self._leave(EntryId(first + 1), read.last)
            self._window.appendleft(self._single(first))

    async def _has_moved(self, read: EntryRead) -> bool:
        """Return True when the ledger names other bookies for the entry by now. Raises MetadataError where nobody can
        tell and the answer would be "there is none"."""
        if self._is_elsewhere(read):  # looked at for an entry before it
            return True
        try:
            await self._look_again(read.entry_id)
        except errors.LedgerMissing:
            return False
        except BookieError:
            if read.is_absent:
                raise
        return self._is_elsewhere(read)

    def _is_elsewhere(self, read: EntryRead) -> bool:
        return sorted(self._metadata().write_set(read.entry_id)) != sorted(read.bookies)

    def _why(self, read: EntryRead, error: BookieError) -> BookieError:
        """Return the error of an entry, with the words of whoever declared it lost."""
        act = self._metadata().loss_of(read.entry_id) if read.is_absent else None
        if act is None:
            return error
        return errors.NoSuchEntry(
            f"ledger {self._ledger_id} entry {read.entry_id} was declared lost by {one_line(act.by)}:"
            f" {one_line(act.reason)}"
        )

    def _begin(self, first: EntryId, last: EntryId) -> Read:
        """Ask for `first`, and for more entries up to `last` where one batch can bring them."""
        metadata, pool = self._metadata(), self._shared.pool
        if last > first and self._shared.options.batch_reads and metadata.ensemble_size == metadata.write_quorum:
            takers = [bookie_id for bookie_id in metadata.write_set(first) if pool.takes_batches(bookie_id)]
            later = [segment.first_entry for segment in metadata.segments if segment.first_entry > first]
            entries = min(self._ahead, BATCH_BYTES // self._largest_bytes + 1)
            last = min([last, EntryId(first + entries - 1), *(EntryId(entry_id - 1) for entry_id in later)])
            if takers and last > first:
                return self._batch(first, last, pool.by_health(takers)[0])
        return self._single(first)

    def _batch(self, first: EntryId, last: EntryId, bookie_id: BookieId) -> Read:
        ids = self._ledger_id, first, last
        read = BatchRead(self._shared, self._digest, *ids, bookie_id, lambda _: self._arrived.set())
        read.start()
        return read

    def _single(self, entry_id: EntryId) -> Read:
        bookies = self._metadata().write_set(entry_id)
        read = EntryRead(
            self._shared,
            self._digest,
            self._ledger_id,
            entry_id,
            bookies,
            lambda _: self._arrived.set(),
            negatives_needed=len(bookies),
        )
        read.start()
        return read

    def _speculate(self) -> "RepeatingTimer":
        """Ask one more replica for each entry whose bookie is silent for too long (spec/wire.md#W60)."""
        wait_ms = self._shared.options.speculative_read_ms

        def look() -> None:
            asked_before_ns = self._shared.pool.now_ns() - wait_ms * NS_PER_MS
            for read in list(self._window):
                if not isinstance(read, Gap) and read.asked_ns <= asked_before_ns:
                    read.nudge()

        return RepeatingTimer(self._shared.pool.loop, wait_ms / 2000, look)


class RepeatingTimer:
    """A timer that calls `work` every `interval_s` until it is cancelled."""

    def __init__(self, loop: asyncio.AbstractEventLoop, interval_s: float, work: Callable[[], None]) -> None:
        self._loop = loop
        self._interval_s = interval_s
        self._work = work
        self._timer = loop.call_later(interval_s, self._fire)

    def _fire(self) -> None:
        self._timer = self._loop.call_later(self._interval_s, self._fire)
        self._work()

    def cancel(self) -> None:
        self._timer.cancel()
