"""Reads one entry: asks replica after replica until one sends a good copy. Callbacks only; no task per entry.

Drives `quorum.reads`. Rules: spec/wire.md#W59 (reader), spec/wire.md#W54 (recovery). A reply with a wrong digest or
wrong ids counts as unknown, and the read asks the next replica. `nudge` asks one more replica while others are silent.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.client.shared import Shared
from bookie.quorum.given_up import GivenUp
from bookie.quorum.reads import ReadOutcome, ReadPlan
from bookie.wire import messages, v3
from bookie.wire.digest import Digest
from bookie.wire.messages import Response


class Entry(NamedTuple):
    """One entry of a ledger. `length`: payload bytes of the ledger up to and including this entry."""

    entry_id: EntryId
    payload: bytes
    length: int


class EntryRead:
    """Reads one entry and calls `on_done(self)` once: then exactly one of `entry` and `error` is set.

    `is_recovery`: every read fences, is urgent, and WQ-AQ+1 explicit negatives prove absence. `max_lac` is the greatest
    LAC seen on the way; it comes from the writer, so every reader may rely on it (spec/wire.md#W30).
    """

    __slots__ = (
        "_bookies",
        "_digest",
        "_given_up",
        "_is_recovery",
        "_last_asked",
        "_on_done",
        "_plan",
        "_shared",
        "asked_ns",
        "entry",
        "entry_id",
        "error",
        "is_absent",
        "ledger_id",
        "max_lac",
    )

    def __init__(
        self,
        shared: Shared,
        digest: Digest,
        ledger_id: LedgerId,
        entry_id: EntryId,
        bookies: Sequence[BookieId],
        on_done: "Callable[[EntryRead], None]",
        *,
        negatives_needed: int,
        is_recovery: bool = False,
        given_up: GivenUp | None = None,
    ) -> None:
        """`bookies`: the write set of the entry; healthy ones are asked first, in this order. `given_up`: whose
        "unknown" counts as "no" (of a recovery alone)."""
        self._given_up = given_up
        self._shared = shared
        self._digest = digest
        self._bookies = shared.pool.by_health(bookies)
        self._last_asked = 0
        self._on_done = on_done
        self._is_recovery = is_recovery
        self._plan = ReadPlan(range(len(bookies)), negatives_needed=negatives_needed)
        self.ledger_id = ledger_id
        self.entry_id = entry_id
        self.asked_ns = 0
        self.entry: Entry | None = None
        self.error: BookieError | None = None
        self.is_absent = False
        self.max_lac = EntryId(-1)

    @property
    def bookies(self) -> Sequence[BookieId]:
        """Return whom it asks, in any order."""
        return self._bookies

    @property
    def is_done(self) -> bool:
        return self.entry is not None or self.error is not None

    @property
    def entries(self) -> "Sequence[Entry]":
        """Return the entry in a list, or an empty list; as `BatchRead.entries`."""
        return () if self.entry is None else (self.entry,)

    @property
    def first(self) -> EntryId:
        return self.entry_id

    last = first

    def start(self) -> None:
        self._ask()

    def nudge(self) -> None:
        """Ask the next replica although another has not answered; have readers ask the silent one last from now on."""
        if not self.is_done:
            silent = self._bookies[self._last_asked]
            self._shared.pool.quarantine(silent, errors.RequestTimedOut(f"bookie {silent} is slow to answer reads"))
            self._ask()

    def cancel(self) -> None:
        """Drop late answers: the reader stopped."""
        if not self.is_done:
            self.error = errors.BookieUnavailable("the read was given up")

    def _ask(self) -> None:
        replica = self._plan.next_replica()
        self.asked_ns = self._shared.pool.now_ns()
        if replica is None:
            return
        self._last_asked = replica
        request = messages.ReadRequest(
            0,
            v3.VERSION,
            self.ledger_id,
            self.entry_id,
            self._digest.master_key if self._is_recovery else None,
            is_fencing=self._is_recovery,
            is_high_priority=self._is_recovery,
        )
        self._shared.pool.send(self._bookies[replica], request, self._on_answer, replica)

    def _on_answer(self, replica: int, response: Response | None, error: BookieError | None) -> None:
        if self.is_done:
            return
        if error is None:
            try:
                self._open(response)
                return
            except errors.DigestMismatch as mismatch:
                error = errors.DigestMismatch(f"bookie {self._bookies[replica]}: {mismatch}")
        if self._given_up is not None:
            error = self._given_up.judged(self._bookies[replica], error)
        outcome = self._plan.failed(error)
        if outcome is ReadOutcome.OPEN:
            if not self._plan.outstanding:
                self._ask()
            return
        self.is_absent = outcome is ReadOutcome.ABSENT
        self.error = self._plan.error
        self._on_done(self)

    def _open(self, response: Response | None) -> None:
        assert isinstance(response, messages.ReadResponse)
        if response.body is None:
            raise errors.DigestMismatch(f"ledger {self.ledger_id} entry {self.entry_id}: an answer without a body")
        header, payload = self._digest.open(response.body, self.ledger_id, self.entry_id)
        self.max_lac = EntryId(max(self.max_lac, header.lac, -1 if response.max_lac is None else response.max_lac))
        self.entry = Entry(self.entry_id, bytes(payload), header.length)
        self._on_done(self)
