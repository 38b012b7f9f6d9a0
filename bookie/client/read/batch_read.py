"""Reads many entries with one question, from a bookie of a ledger where every bookie has every entry.

Rules: spec/wire.md#W9, W62. A batch read asks one bookie once; the answer may be shorter than the range. It never asks
a second replica: where a bookie errs, is silent or sends rot, the caller reads the rest of the range entry by entry,
with all the rules of `entry_read`. A bookie that does not know batch reads closes the connection.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import INVALID_ENTRY_ID, BookieId, EntryId, LedgerId
from bookie.base.units import MIB
from bookie.client.read.entry_read import Entry
from bookie.client.shared import Shared
from bookie.wire import messages, v2
from bookie.wire.digest import Digest
from bookie.wire.messages import Buffer, Response

# The size limit of one answer. A bookie sends the first entry whatever its size.
BATCH_BYTES = 1 * MIB


@dataclass(slots=True, eq=False)
class BatchRead:
    """Reads the entries `first`..`last`, inclusive, from one bookie; calls `on_done(self)` once.

    Then `entries` has the entries of the answer, from `first` on without a gap. `error` says why the bookie gave no
    more, None when its answer was full.
    """

    shared: Shared
    digest: Digest
    ledger_id: LedgerId
    first: EntryId
    last: EntryId
    bookie_id: BookieId
    on_done: "Callable[[BatchRead], None]"
    entries: list[Entry] = field(default_factory=list)
    error: BookieError | None = None
    is_done: bool = False
    asked_ns: int = 0
    max_lac: EntryId = INVALID_ENTRY_ID

    def start(self) -> None:
        self.asked_ns = self.shared.pool.now_ns()
        count = self.last - self.first + 1
        request = messages.BatchReadRequest(0, v2.VERSION, self.ledger_id, self.first, count, BATCH_BYTES)
        self.shared.pool.send(self.bookie_id, request, self._on_answer, None)

    def nudge(self) -> None:
        """Give up on a silent bookie, and have readers ask it last from now on."""
        if not self.is_done:
            error = errors.RequestTimedOut(f"bookie {self.bookie_id} is slow to answer reads")
            self.shared.pool.quarantine(self.bookie_id, error)
            self._end(error)

    def cancel(self) -> None:
        """Drop a late answer: the reader stopped."""
        self.is_done = True

    def _on_answer(self, context: None, response: Response | None, error: BookieError | None) -> None:
        if self.is_done:
            return
        if error is None:
            assert isinstance(response, messages.BatchReadResponse)
            error = self._take(response.bodies)
        elif isinstance(error, errors.BookieUnavailable):
            self.shared.pool.batches_failed(self.bookie_id)
        self._end(error)

    def _take(self, bodies: Sequence[Buffer]) -> BookieError | None:
        """Verify and keep the entries of the answer; return the error of the first bad one, if any."""
        if not bodies:
            return errors.DigestMismatch(f"bookie {self.bookie_id}: ledger {self.ledger_id}: an answer without entries")
        for entry_id, body in zip(range(self.first, self.last + 1), bodies, strict=False):
            try:
                header, payload = self.digest.open(body, self.ledger_id, EntryId(entry_id))
            except errors.DigestMismatch as mismatch:
                return errors.DigestMismatch(f"bookie {self.bookie_id}: {mismatch}")
            self.max_lac = EntryId(max(self.max_lac, header.lac))
            self.entries.append(Entry(EntryId(entry_id), bytes(payload), header.length))
        return None

    def _end(self, error: BookieError | None) -> None:
        self.error = error
        self.is_done = True
        self.on_done(self)
