"""Counts a writer's acks: acks in, confirmations in order and the last add confirmed (LAC) out.

Rules: spec/wire.md#W48 to W50; CONFORMANCE.md#B8, P15, P17.

    push -> [ LAC+1 | LAC+2 | ... | last pushed ] -> confirmed, from the head only, in id order
               acks    acks            acks

An entry is *complete* with acks from AQ slots of its write set, and *confirmed* when it and all below are complete.
When a slot fails, its acks for unconfirmed entries are dropped at once and never count again (spec/wire.md#W50;
spec/bp46.md#R4). Hence a confirmed entry always has AQ acks from slots that did not fail in between, and entries may be
confirmed during an ensemble change. `hold` stops that for a moment, so that the new bookie gets every entry of its
segment.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from bookie.base.ids import INVALID_ENTRY_ID, EntryId
from bookie.quorum.schedule import Schedule


class PendingAdd:
    """One unconfirmed entry. Drivers derive from it to add fields of their own; `PendingAdds.push` fills it in."""

    __slots__ = ("acked", "entry_id", "is_complete", "length")

    entry_id: EntryId
    length: int  # payload bytes of the ledger up to and including this entry

    def __init__(self) -> None:
        self.acked = 0  # bit mask of slots
        self.is_complete = False


A = TypeVar("A", bound=PendingAdd)


class PendingAdds(Generic[A]):
    """All unconfirmed entries of one writer. `start` is the LAC to begin after, `length` the ledger's length there."""

    __slots__ = ("_ack_quorum", "_adds", "_held", "lac", "lac_length", "last_pushed", "length", "schedule")

    def __init__(self, schedule: Schedule, *, start: EntryId = INVALID_ENTRY_ID, length: int = 0) -> None:
        self.schedule = schedule
        self._ack_quorum = schedule.ack_quorum
        self._adds: deque[A] = deque()  # ids LAC+1 .. last pushed, without a gap
        self._held = False
        self.lac = start
        self.lac_length = length  # payload bytes up to and including `lac`
        self.last_pushed = start
        self.length = length  # payload bytes up to and including `last_pushed`

    def __len__(self) -> int:
        return len(self._adds)

    def push(self, add: A, size: int) -> None:
        """Give the next entry, of `size` payload bytes, its id and its length. The LAC in its header is `self.lac`
        (CONFORMANCE.md#P17)."""
        add.entry_id = self.last_pushed = EntryId(self.last_pushed + 1)
        add.length = self.length = self.length + size
        self._adds.append(add)

    def write_set(self, add: A) -> tuple[int, ...]:
        return self.schedule.write_set(add.entry_id)

    def ack(self, adds: Iterable[A], slot: int) -> Sequence[A]:
        """Count one positive answer of `slot` for each of `adds`;
        return the entries that this confirms, in order (most of the time none).

        A second ack of one slot and an ack after confirmation change nothing. The caller drops the answers of bookies
        that were replaced: they must not count for the bookie that has the slot now.
        """
        bit = 1 << slot
        quorum = self._ack_quorum
        for add in adds:
            add.acked = acked = add.acked | bit
            if acked.bit_count() >= quorum:
                add.is_complete = True
        pending = self._adds
        return self._confirm() if pending and pending[0].is_complete else ()

    def drop(self, slot: int) -> None:
        """Forget every ack of `slot`: its bookie failed and may have lost what it acknowledged."""
        bit = 1 << slot
        for add in self._adds:
            if add.acked & bit:
                add.acked &= ~bit
                add.is_complete = add.acked.bit_count() >= self._ack_quorum

    def missing(self, slot: int) -> list[A]:
        """Return the unconfirmed entries, in order, that `slot` should hold and has not acknowledged:
        to be sent again."""
        bit = 1 << slot
        return [add for add in self._adds if not add.acked & bit and slot in self.schedule.write_set(add.entry_id)]

    def hold(self) -> None:
        """Confirm nothing until `release`: an ensemble change from LAC+1 is being written."""
        self._held = True

    def release(self) -> Sequence[A]:
        """End `hold`; return what became confirmed meanwhile."""
        self._held = False
        return self._confirm()

    def can_complete_without(self, absent: Sequence[int]) -> bool:
        """True when every write set still has an ack quorum outside the slots in `absent`."""
        return all(
            sum(slot not in absent for slot in write_set) >= self._ack_quorum for write_set in self.schedule.write_sets
        )

    def fail_all(self) -> list[A]:
        """Remove and return all unconfirmed entries, in order, and undo their length (spec/wire.md#W49).
        No id is used again."""
        failed = list(self._adds)
        self._adds.clear()
        self.length = self.lac_length
        return failed

    def _confirm(self) -> Sequence[A]:
        if self._held:
            return ()
        pending = self._adds
        confirmed: list[A] = []
        while pending and pending[0].is_complete:
            confirmed.append(pending.popleft())
        if confirmed:
            self.lac = confirmed[-1].entry_id
            self.lac_length = confirmed[-1].length
        return confirmed
