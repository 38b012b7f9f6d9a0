"""Waiting for the writer: long polls over the last ensemble.

Rules: wire 7.6, 10.6 (ReadLastConfirmedAndEntryOp.java). A poll ends at the bookie with the entry, with news of the
LAC, or with nothing when its time is up; nothing is no error. Bookies are polled one at a time, beginning with the one
that gets the entry first; a failed or silent one hands over to the next.
"""

import asyncio

from bookie.base.errors import BookieError
from bookie.base.ids import INVALID_ENTRY_ID, LAST_ENTRY, BookieId, EntryId, LedgerId
from bookie.client.entry_read import Entry
from bookie.client.shared import Shared
from bookie.metadata.ledger import LedgerMetadata
from bookie.wire import v3
from bookie.wire.digest import Digest
from bookie.wire.messages import ReadRequest, ReadResponse, Response

# Between rounds in which no bookie could be polled at all.
ROUND_PAUSE_MS = 250


class LongPoll:
    """Polls for one reader, one at a time. Remembers whose turn it is."""

    def __init__(self, shared: Shared, digest: Digest, ledger_id: LedgerId) -> None:
        self._shared = shared
        self._digest = digest
        self._ledger_id = ledger_id
        self._turn = 0
        self._pending: asyncio.Future[Response] | None = None

    def interrupt(self) -> None:
        """End the running wait: the metadata changed, so that there may be a better question."""
        if self._pending is not None:
            self._pending.cancel()

    async def wait(self, entry_id: EntryId, metadata: LedgerMetadata) -> tuple[EntryId, Entry | None]:
        """Wait for news of `entry_id`, for one long poll at most; return the greatest LAC heard of (-1: none), and the
        entry itself if it came along."""
        bookies = metadata.last_segment.bookies
        for _ in bookies:
            slot = (entry_id + self._turn) % len(bookies)
            pending = self._pending = self._poll(bookies[slot], entry_id)
            try:
                # A future of ours, cancelled by `interrupt` alone; cancelling the caller cancels it and the wait.
                await asyncio.wait([pending])
            finally:
                self._pending = None
                pending.cancel()
            if pending.cancelled():
                return INVALID_ENTRY_ID, None
            try:
                known, delivered = self._news(pending.result(), entry_id)
            except BookieError:
                self._turn += 1  # unavailable, too early, or a bad replica: the next one
                continue
            if known < entry_id:
                self._turn += 1  # this one may be behind the others
            return known, delivered
        await self._shared.pause(ROUND_PAUSE_MS)
        return INVALID_ENTRY_ID, None

    def _poll(self, bookie_id: BookieId, entry_id: EntryId) -> "asyncio.Future[Response]":
        request = ReadRequest(
            0,
            v3.VERSION,
            self._ledger_id,
            LAST_ENTRY,
            previous_lac=entry_id - 1,
            timeout_ms=self._shared.options.long_poll_ms,
            is_piggyback=True,
        )
        return self._shared.pool.ask(bookie_id, request)

    def _news(self, response: Response, entry_id: EntryId) -> tuple[EntryId, Entry | None]:
        assert isinstance(response, ReadResponse)
        known = INVALID_ENTRY_ID if response.max_lac is None else EntryId(response.max_lac)
        if response.entry_id == LAST_ENTRY or response.body is None:
            return known, None
        header, payload = self._digest.open(response.body, self._ledger_id, entry_id)
        return EntryId(max(known, header.lac)), Entry(entry_id, bytes(payload), header.length)
