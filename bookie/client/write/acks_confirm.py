"""Durability of ordinary ledgers, and of the write-back of a recovery: acknowledgements confirm.

A bookie answers an add once the entry is on its disk. So an ack quorum confirms an entry, and the writer frees it then.
Any other bookie may take the slot of one that fails: it gets all unconfirmed entries.
"""

import logging
from collections.abc import Mapping, Sequence

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, EntryId
from bookie.base.units import NS_PER_MS
from bookie.client.write.appender import Appender
from bookie.client.write.seat import Add, Seat

log = logging.getLogger(__name__)


class AcksConfirm:
    """`Durability` for bookies that answer an add once it is on their disk."""

    is_deferred = False
    has_unforced = False

    def __init__(self, appender: Appender) -> None:
        self._appender = appender
        self._adds = appender.adds
        # Since when no ack quorum was possible, and the LAC then.
        self._blocked_since_ns: int | None = None
        self._blocked_lac = appender.adds.lac

    @property
    def lac(self) -> EntryId:
        return self._adds.lac

    @property
    def told_lac(self) -> EntryId:
        return self._adds.lac

    def may_send(self, seat: Seat) -> bool:
        return True

    def acked(self, seat: Seat, adds: Sequence[Add]) -> None:
        """Do nothing: `PendingAdds` counts the acknowledgements."""

    def synced(self, seat: Seat, last_synced: EntryId) -> None:
        """Do nothing: an entry that the bookie acknowledged is on its disk."""

    def confirmed(self, adds: Sequence[Add]) -> None:
        for add in adds:
            add.frame = b""

    def force(self, wanted: EntryId) -> None:
        """Do nothing: every acknowledged entry is on disk."""

    def end_by(self, seat: Seat, error: BookieError) -> BookieError | None:
        return None

    def left(self, seat: Seat) -> None:
        """Do nothing: `PendingAdds` forgets the bookie's acknowledgements."""

    def joined(self, seat: Seat, before: BookieId) -> None:
        missing = self._adds.missing(seat.slot)
        log.info(
            "bookie takes a slot ledger_id=%d slot=%d old=%s new=%s from_entry=%d resent=%d",
            self._appender.ledger_id,
            seat.slot,
            before,
            seat.bookie_id,
            self.lac + 1,
            len(missing),
        )
        self._appender.send_all(seat, missing)

    def overdue(self, failed: Mapping[int, BookieError], now_ns: int) -> BookieError | None:
        """Return an error after `ensemble_timeout_ms` without a confirmed entry, when too many slots have no live
        bookie. The time goes on over changes: a bookie that takes its slot back and refuses again is no progress (the
        simulator found such a loop)."""
        if self._adds.lac != self._blocked_lac:
            self._blocked_lac, self._blocked_since_ns = self._adds.lac, None
        if self._adds.can_complete_without(list(failed)):
            if not self._adds:
                self._blocked_since_ns = None
            return None
        if self._blocked_since_ns is None:
            self._blocked_since_ns = now_ns
        if now_ns - self._blocked_since_ns <= self._appender.shared.options.ensemble_timeout_ms * NS_PER_MS:
            return None
        reasons = "; ".join(f"slot {slot}: {error}" for slot, error in sorted(failed.items()))
        return errors.NotEnoughBookies(
            f"ledger {self._appender.ledger_id}: too few bookies are left for an ack quorum, and no others could take "
            f"their slots ({reasons}): start bookies, then open the ledger to recover it"
        )

    def give_up(self) -> None:
        """Do nothing: no entry is kept."""


class WriteBack(AcksConfirm):
    """The same for what a recovery writes back, of which nobody is told before the ledger is closed.

    Another recovery may have found an entry absent before this one wrote it back, and close the ledger before it. A
    reader that had been told of it by the header of the next one would have read what then never was (spec/bp46.md#S5;
    the simulator found it). So each header tells the LAC that the recovery began with (spec/wire.md#W55).
    """

    def __init__(self, appender: Appender) -> None:
        super().__init__(appender)
        self._start = appender.adds.lac

    @property
    def told_lac(self) -> EntryId:
        return self._start
