"""The add side of a ledger: acks in, ordered confirmations and the last add confirmed (LAC) out.

Rules: replication protocol, "Writing to the ledger" (B8, P15, P17); LedgerHandle.java, PendingAddOp.java; wire 10.2.

    push -> [ LAC+1 | LAC+2 | ... | last pushed ] -> confirmed, from the head only, in id order
               acks    acks            acks

An entry is *complete* with acks from AQ slots of its write set, *confirmed* when it and all below are complete. When
a slot fails, its acks for unconfirmed entries are dropped at once and count no more, whatever comes later (10.2, step
4; bp46 7.3, "acks received before the crash but not yet confirmed"). Hence a confirmed entry always has AQ acks from
slots that did not fail in between, and confirming beside an ensemble change is safe; `hold` exists so that the new
bookie is sent every entry of its segment.
"""

from collections.abc import Sequence
from typing import Generic, TypeVar

from bookie.base.ids import INVALID_ENTRY_ID, EntryId
from bookie.quorum.schedule import Schedule

T = TypeVar("T")


class PendingAdd(Generic[T]):
    """One entry on its way. `lac` and `length` are what its header says; `context` belongs to the driver."""

    __slots__ = ("acked", "context", "entry_id", "is_complete", "lac", "length", "size")

    def __init__(self, entry_id: EntryId, lac: EntryId, length: int, size: int, context: T) -> None:
        self.entry_id = entry_id
        self.lac = lac
        self.length = length  # payload bytes of the ledger up to and including this entry
        self.size = size  # payload bytes of this entry
        self.context = context
        self.acked = 0  # bit mask of slots
        self.is_complete = False


class PendingAdds(Generic[T]):
    """All unconfirmed entries of one writer. `start` is the LAC to begin after, `length` the ledger's length there."""

    __slots__ = ("_ack_quorum", "_adds", "_held", "lac", "lac_length", "last_pushed", "length", "schedule")

    def __init__(self, schedule: Schedule, *, start: EntryId = INVALID_ENTRY_ID, length: int = 0) -> None:
        self.schedule = schedule
        self._ack_quorum = schedule.ack_quorum
        self._adds: dict[int, PendingAdd[T]] = {}
        self._held = False
        self.lac = start
        self.lac_length = length  # payload bytes up to and including `lac`
        self.last_pushed = start
        self.length = length  # payload bytes up to and including `last_pushed`

    def __len__(self) -> int:
        return len(self._adds)

    def push(self, size: int, context: T) -> PendingAdd[T]:
        """Give the next entry its id, its LAC (the highest confirmed now, P17) and its length."""
        entry_id = EntryId(self.last_pushed + 1)
        self.last_pushed = entry_id
        self.length += size
        add = PendingAdd(entry_id, self.lac, self.length, size, context)
        self._adds[entry_id] = add
        return add

    def write_set(self, add: PendingAdd[T]) -> tuple[int, ...]:
        return self.schedule.write_set(add.entry_id)

    def ack(self, add: PendingAdd[T], slot: int) -> Sequence[PendingAdd[T]]:
        """Count one positive answer; return the entries it confirms, in order (empty most of the time).

        A second ack of one slot and an ack after confirmation change nothing. The caller has already left out
        answers of bookies that were replaced.
        """
        if add.is_complete:
            add.acked |= 1 << slot
            return ()
        add.acked |= 1 << slot
        if add.acked.bit_count() < self._ack_quorum:
            return ()
        add.is_complete = True
        if add.entry_id != self.lac + 1:
            return ()
        return self._confirm()

    def drop(self, slot: int) -> None:
        """Forget every ack of `slot`: its bookie failed and may have lost what it acknowledged."""
        bit = 1 << slot
        for add in self._adds.values():
            if add.acked & bit:
                add.acked &= ~bit
                add.is_complete = add.acked.bit_count() >= self._ack_quorum

    def missing(self, slot: int) -> list[PendingAdd[T]]:
        """The unconfirmed entries that `slot` should hold and has not acknowledged, in order: to be re-sent."""
        bit = 1 << slot
        return [
            add for add in self._adds.values() if not add.acked & bit and slot in self.schedule.write_set(add.entry_id)
        ]

    def hold(self) -> None:
        """Confirm nothing until `release`: an ensemble change from LAC+1 is being written."""
        self._held = True

    def release(self) -> Sequence[PendingAdd[T]]:
        """End `hold`; return what became confirmed meanwhile."""
        self._held = False
        return self._confirm()

    def can_complete_without(self, absent: Sequence[int]) -> bool:
        """True when every write set still has an ack quorum outside the slots in `absent`."""
        return all(
            sum(slot not in absent for slot in write_set) >= self._ack_quorum for write_set in self.schedule.write_sets
        )

    def fail_all(self) -> list[PendingAdd[T]]:
        """Take all unconfirmed entries off, in order, and undo their length (wire 10.2, step 6). The ids stay used."""
        failed = list(self._adds.values())
        self._adds.clear()
        self.length = self.lac_length
        return failed

    def _confirm(self) -> Sequence[PendingAdd[T]]:
        if self._held:
            return ()
        adds = self._adds
        lac: int = self.lac
        confirmed: list[PendingAdd[T]] = []
        while (add := adds.get(lac + 1)) is not None and add.is_complete:
            del adds[add.entry_id]
            lac = add.entry_id
            confirmed.append(add)
        if confirmed:
            self.lac = EntryId(lac)
            self.lac_length = confirmed[-1].length
        return confirmed
