"""Waits for the writer: long polls over the last ensemble.

Rules: spec/wire.md#W34, W64. A bookie answers a poll with the entry, with a new LAC, or with nothing when the poll's
time is up, which is no error. A round polls one bookie after the other, beginning with the one that gets the entry
first. It polls the next one when a bookie fails or has nothing; and also while a bookie stays silent, since the writer
may go on without that bookie. The first news ends the round. So do E-AQ+1 bookies that have nothing, since no ack
quorum is left that could have the entry; the next round begins with another bookie.
"""

import asyncio
from typing import NamedTuple

from bookie.base import quorums
from bookie.base.errors import BookieError
from bookie.base.ids import INVALID_ENTRY_ID, LAST_ENTRY, EntryId, LedgerId
from bookie.client.read.entry_read import Entry
from bookie.client.shared import Shared
from bookie.metadata.ledger import LedgerMetadata
from bookie.wire import v3
from bookie.wire.digest import Digest
from bookie.wire.messages import ReadRequest, ReadResponse, Response

# Between rounds in which no bookie could be polled at all.
ROUND_PAUSE_MS = 250
# Silence after which another bookie is polled too, and how it grows (firstSpeculativeReadLACTimeout, x2, 5000).
SILENCE_MIN_MS = 1_500
SILENCE_MAX_MS = 5_000


class News(NamedTuple):
    """The result of a round: the greatest LAC that a bookie named (-1: none), and the entry itself if one sent it."""

    lac: EntryId = INVALID_ENTRY_ID
    entry: Entry | None = None
    is_failed: bool = False  # no bookie answered at all


class LongPoll:
    """Polls for one reader, one round at a time. Remembers whose turn it is."""

    def __init__(self, shared: Shared, digest: Digest, ledger_id: LedgerId) -> None:
        self._shared = shared
        self._digest = digest
        self._ledger_id = ledger_id
        self._turn = 0
        self._round: _Round | None = None

    def interrupt(self) -> None:
        """End the running wait: the metadata changed, so that the reader may have to ask other bookies."""
        if self._round is not None:
            self._round.end(News())

    async def wait(self, entry_id: EntryId, metadata: LedgerMetadata) -> News:
        """Wait for news of `entry_id`, for one round at most."""
        round_ = self._round = _Round(self._shared, self._digest, self._ledger_id, metadata, entry_id, self._turn)
        try:
            news = await round_.news
        finally:
            self._round = None
            round_.end(News())
        if news.lac < entry_id:
            self._turn += 1  # those asked first may be behind the others
        if news.is_failed:
            await self._shared.pause(ROUND_PAUSE_MS)
        return news


class _Round:
    """One question to as many bookies as it takes. Callbacks only."""

    def __init__(
        self,
        shared: Shared,
        digest: Digest,
        ledger_id: LedgerId,
        metadata: LedgerMetadata,
        entry_id: EntryId,
        turn: int,
    ) -> None:
        self._shared = shared
        self._digest = digest
        self._ledger_id = ledger_id
        self._entry_id = entry_id
        self._bookies = metadata.last_segment.bookies
        self._first = entry_id + turn
        self._asked = 0
        self._outstanding = 0
        self._empty = 0
        self._enough_empty = quorums.proof_of_absence(metadata.ensemble_size, metadata.ack_quorum)
        self._lac = INVALID_ENTRY_ID
        self._silence_ms = SILENCE_MIN_MS
        self._timer: asyncio.TimerHandle | None = None
        self.news: asyncio.Future[News] = shared.pool.loop.create_future()
        self._ask()

    def end(self, news: News) -> None:
        """End this round with the result `news`, and drop later answers. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self.news.done():
            self.news.set_result(news)

    def _ask(self) -> None:
        """Poll the next bookie, and another one if it is silent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._asked == len(self._bookies):
            return
        slot = (self._first + self._asked) % len(self._bookies)
        self._asked += 1
        self._outstanding += 1
        request = ReadRequest(
            0,
            v3.VERSION,
            self._ledger_id,
            LAST_ENTRY,
            previous_lac=self._entry_id - 1,
            timeout_ms=self._shared.options.long_poll_wait_ms,
            is_piggyback=True,
        )
        self._shared.pool.send(self._bookies[slot], request, self._on_answer, None)
        self._timer = self._shared.pool.loop.call_later(self._silence_ms / 1000, self._on_silence)
        self._silence_ms = min(self._silence_ms * 2, SILENCE_MAX_MS)

    def _on_silence(self) -> None:
        self._timer = None
        self._ask()

    def _on_answer(self, context: None, response: Response | None, error: BookieError | None) -> None:
        if self.news.done():
            return
        self._outstanding -= 1
        if error is None:
            assert isinstance(response, ReadResponse)
            try:
                lac, entry = self._read(response)
            except BookieError:
                pass  # a bad replica: as if it had failed
            else:
                self._empty += 1
                self._lac = max(self._lac, lac)
                if lac >= self._entry_id or entry is not None:
                    self.end(News(self._lac, entry))
                    return
        if self._empty >= self._enough_empty or (not self._outstanding and self._asked == len(self._bookies)):
            self.end(News(self._lac, None, is_failed=not self._empty))
        elif not self._outstanding or error is None:
            self._ask()

    def _read(self, response: ReadResponse) -> tuple[EntryId, Entry | None]:
        known = INVALID_ENTRY_ID if response.max_lac is None else EntryId(response.max_lac)
        if response.entry_id == LAST_ENTRY or response.body is None:
            return known, None
        header, payload = self._digest.open(response.body, self._ledger_id, self._entry_id)
        return EntryId(max(known, header.lac)), Entry(self._entry_id, bytes(payload), header.length)
