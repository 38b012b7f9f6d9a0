"""LedgerReader reads the entries of a ledger, to its end or along with its writer.

Rules: spec/wire.md#W59, W63; spec/bp46.md#S3, S5; CONFORMANCE.md#P18. Reads stop at the last add confirmed (LAC): a
recovery may still drop entries beyond it. A reader verifies every entry's digest, and skips a bad replica.
"""

import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from types import TracebackType

from bookie.base import errors
from bookie.base.ids import INVALID_ENTRY_ID, EntryId, LedgerId
from bookie.client import arguments
from bookie.client.read import lac
from bookie.client.read.entry_read import Entry
from bookie.client.read.prefetch import Prefetch
from bookie.client.read.tailing import LongPoll
from bookie.client.shared import Shared, digest_of
from bookie.metadata.ledger import LedgerMetadata

log = logging.getLogger(__name__)


class LedgerReader:
    """Reads one ledger. Made by `Client.open` (closed by then) or `Client.open_no_recovery` (may still grow)."""

    def __init__(self, shared: Shared, ledger_id: LedgerId, metadata: LedgerMetadata, version: int) -> None:
        self.id = ledger_id
        self._shared = shared
        self._metadata = metadata
        self._version = version
        self._digest = digest_of(metadata)
        self._lac = metadata.last_entry if metadata.is_closed else INVALID_ENTRY_ID
        self._is_stale = False  # the stored metadata changed
        self._polls: list[LongPoll] = []
        self._end_watch: Callable[[], None] | None = None
        if not metadata.is_closed:
            self._end_watch = shared.ledgers.store.watch(shared.ledgers.path(ledger_id), self._on_change)

    async def __aenter__(self) -> "LedgerReader":
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop watching the ledger. Sends nothing to any bookie."""
        if self._end_watch is not None:
            self._end_watch()
            self._end_watch = None

    @property
    def metadata(self) -> LedgerMetadata:
        return self._metadata

    @property
    def is_closed(self) -> bool:
        """True when the ledger's end is decided."""
        return self._metadata.is_closed

    @property
    def last_confirmed(self) -> EntryId:
        """Return the highest entry known to be confirmed; of a closed ledger its last entry. -1 when there is none."""
        return self._lac

    last_entry = last_confirmed

    def learn(self, confirmed: EntryId) -> None:
        """Take the caller's word that the ledger is confirmed up to `confirmed`. Changes nothing of a closed ledger."""
        confirmed = arguments.confirmed(confirmed)
        if not self.is_closed:
            self._lac = max(self._lac, confirmed)

    # ---- reading -----------------------------------------------------------------------------------------------------

    async def read(self, first: int, last: int) -> list[Entry]:
        """Return the entries `first`..`last`, inclusive, in order; none when `last` is `first` - 1 (empty ledger).

        Raises BadInput beyond `last_confirmed`, NoSuchEntry only if every replica denies an entry, else the error of
        the replicas.
        """
        return [entry async for entry in self.read_stream(first, last)]

    async def read_stream(self, first: int, last: int) -> AsyncIterator[Entry]:
        """Yield the entries `first`..`last`, inclusive, in order; reads ahead within `prefetch_*_max`."""
        first, last = arguments.entry_id(first, "first"), arguments.entry_id(last, "last", low=INVALID_ENTRY_ID)
        if last == first - 1:
            return
        if not first <= last <= self._lac:
            end = (
                f"the ledger is closed and ends at entry {self._lac}: read to there"
                if self.is_closed
                else f"entries up to {self._lac} are confirmed: read to there, or ask again with read_last_confirmed()"
            )
            raise errors.BadInput(f"ledger {self.id}: entries {first}..{last} cannot be read, {end}")
        async for entry in self._stream(first, last):
            yield entry

    async def read_unconfirmed(self, first: int, last: int) -> list[Entry]:
        """Return entries as `read` does, but also beyond the LAC: an entry there may be missing now and present later,
        and a recovery may drop it."""
        first, last = arguments.entry_id(first, "first"), arguments.entry_id(last, "last", low=INVALID_ENTRY_ID)
        if last < first - 1:
            raise errors.BadInput(f"ledger {self.id}: entries {first}..{last} cannot be read: last is before first")
        return [entry async for entry in self._stream(first, last)]

    async def _stream(self, first: EntryId, last: EntryId) -> AsyncIterator[Entry]:
        ahead = Prefetch(self._shared, self._digest, self.id, lambda: self._metadata, first, last, self._look_again)
        async with contextlib.aclosing(ahead.entries()) as entries:
            async for entry in entries:
                if not self.is_closed:
                    self._lac = max(self._lac, ahead.max_lac)
                yield entry

    # ---- following the writer ----------------------------------------------------------------------------------------

    async def read_last_confirmed(self) -> EntryId:
        """Ask the bookies for the last confirmed entry and return it. It never goes back. Raises QuorumNotReached."""
        await self._refresh()
        if not self.is_closed:
            found = await lac.read_lac(self._shared, self.id, self._metadata, floor=self._lac)
            self._lac = max(self._lac, found)
        return self._lac

    async def tail(self, from_entry: int = 0) -> AsyncIterator[Entry]:
        """Yield all entries from `from_entry` on, and wait for new ones; ends after the last one of a closed ledger."""
        next_entry = arguments.entry_id(from_entry, "from_entry")
        poll = LongPoll(self._shared, self._digest, self.id)
        self._polls.append(poll)
        try:
            while True:
                await self._refresh()
                if next_entry <= self._lac:
                    async for entry in self._stream(next_entry, self._lac):
                        yield entry
                        next_entry = EntryId(entry.entry_id + 1)
                    continue
                if self.is_closed:
                    return
                news = await poll.wait(next_entry, self._metadata)
                if not self.is_closed:
                    self._lac = max(self._lac, news.lac)
                if news.entry is not None and news.entry.entry_id <= self._lac:
                    yield news.entry
                    next_entry = EntryId(news.entry.entry_id + 1)
        finally:
            self._polls.remove(poll)

    def _on_change(self) -> None:
        self._is_stale = True
        for poll in self._polls:
            poll.interrupt()

    async def _refresh(self) -> None:
        """Adopt the stored metadata if it changed since (spec/metadata.md#M22)."""
        if self._is_stale and not self.is_closed:
            await self._adopt()

    async def _look_again(self, entry_id: EntryId) -> None:
        """Adopt the newest metadata, of a closed ledger too, for a confirmed entry that none of its bookies gave: its
        copies may be on others now, and those that left forget theirs."""
        if entry_id <= self._lac:
            await self._shared.ledgers.store.sync(self._shared.ledgers.path(self.id))
            await self._adopt()

    async def _adopt(self) -> None:
        self._is_stale = False
        metadata, version = await self._shared.ledgers.get(self.id)
        if version > self._version:
            self._metadata, self._version = metadata, version
        if self._metadata.is_closed:
            self._lac = self._metadata.last_entry
            await self.close()
