"""Decides how far a ledger with deferred sync is durable: sync cursors, and the LAC that follows from them (BP-14).

A bookie acknowledges an entry of such a ledger before the entry is on disk, so an ack confirms nothing
(CONFORMANCE.md#D24). It counts only during the *life* that gave it, and a `force` puts on disk only what the same life
acknowledged (spec/bp46.md#T17).

A *sync cursor* says which entries one bookie has on disk: `last`, up to which it has all, and ranges beyond
(CONFORMANCE.md#D19). The LAC is the greatest entry that an ack quorum has, hence the greatest of the lowest WQ-AQ+1
cursors (CONFORMANCE.md#D22; BP-14, "LAC Advance Protocol"; Java waits for all of the ensemble instead). Only where E ==
WQ (CONFORMANCE.md#D23): else a cursor, which counts every entry of the ledger, would wait for entries that its bookie
never gets.
"""

from bisect import bisect_left
from collections.abc import Sequence

from bookie.base import errors
from bookie.base.ids import INVALID_ENTRY_ID, EntryId, Life
from bookie.quorum.schedule import Schedule


class SyncCursor:
    """The entries of one ledger that one bookie has: all from 0 up to `last`, and ranges beyond it."""

    __slots__ = ("_firsts", "_lasts", "last")

    def __init__(self) -> None:
        self.last = INVALID_ENTRY_ID
        # Ranges beyond `last`, inclusive, ascending, with room between them.
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def add(self, first: int, last: int) -> None:
        """Add the entries `first`..`last`, inclusive. Calls may come in any order."""
        if last <= self.last:
            return
        at = bisect_left(self._lasts, first - 1)  # the first range that the new one could touch
        end = at
        while end < len(self._firsts) and self._firsts[end] <= last + 1:
            first, last = min(first, self._firsts[end]), max(last, self._lasts[end])
            end += 1
        self._firsts[at:end] = [first]
        self._lasts[at:end] = [last]
        if self._firsts[0] <= self.last + 1:
            self.last = EntryId(self._lasts.pop(0))
            del self._firsts[0]

    @property
    def run_count(self) -> int:
        """Return how many ranges lie beyond `last`: the memory of this cursor grows with them."""
        return len(self._firsts)

    def __contains__(self, entry_id: EntryId) -> bool:
        at = bisect_left(self._lasts, entry_id)
        return entry_id <= self.last or (at < len(self._firsts) and self._firsts[at] <= entry_id)

    def add_all(self, other: "SyncCursor") -> None:
        """Add every entry of `other`."""
        self.confirm(other.last)
        for first, last in zip(other._firsts, other._lasts, strict=True):
            self.add(first, last)

    def confirm(self, lac: int) -> None:
        """Count every entry up to `lac` as present: the cluster confirmed them, whatever this bookie has
        (CONFORMANCE.md#D21)."""
        self.add(0, lac)

    def copy(self) -> "SyncCursor":
        twin = SyncCursor()
        twin.last = self.last
        twin._firsts, twin._lasts = self._firsts.copy(), self._lasts.copy()
        return twin


def lac_of(schedule: Schedule, synced: Sequence[EntryId]) -> EntryId:
    """Return the LAC, given the `last` of every slot's cursor."""
    assert len(synced) == schedule.ensemble_size == schedule.write_quorum
    return max(sorted(synced)[: schedule.negative_quorum])


def why_not_deferred(schedule: Schedule, *, protocol_version: int) -> errors.BookieError | None:
    """Return the error of a client that asks for deferred sync where it is impossible; None where it is possible."""
    if schedule.ensemble_size != schedule.write_quorum:
        return errors.BadInput(
            f"deferred sync wants every entry on every bookie: ensemble size {schedule.ensemble_size} must equal write "
            f"quorum {schedule.write_quorum}"
        )
    if protocol_version != 3:
        return errors.BadInput("deferred sync needs protocol version 3: set protocol_version=3")
    return None


class Syncing:
    """The sync cursors of all slots of one writer: acks, forces and lives in, LAC out.

    The driver reports only what came over the latest connection to a slot's bookie: an answer over an older one may be
    of another life.
    """

    __slots__ = ("_acked", "_away", "_lives", "_schedule", "_synced", "lac")

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._acked = [SyncCursor() for _ in range(schedule.ensemble_size)]
        self._synced = [SyncCursor() for _ in range(schedule.ensemble_size)]
        self._lives: list[Life | None] = [None] * schedule.ensemble_size
        self._away = [False] * schedule.ensemble_size
        self.lac = INVALID_ENTRY_ID

    def met(self, slot: int, life: Life | None) -> None:
        """Note which life `slot` names on its first connection; None: it names none."""
        self._lives[slot] = life

    def left(self, slot: int) -> None:
        """The connection broke. Nobody knows what `slot` still has until it is met again: the LAC moves without it."""
        self._away[slot] = True

    def met_again(self, slot: int, life: Life | None) -> bool:
        """`slot` says on another connection which life it is. Return True when it is the same life: its acks stand.
        Else all its acks are void, except those that it had forced to the same disk. Then read `lac`: it may have
        moved."""
        before, self._lives[slot] = self._lives[slot], life
        is_same_life = life is not None and life == before
        if life is None or before is None or life.incarnation != before.incarnation:
            self._synced[slot] = SyncCursor()  # its disk may be another one, too
        if not is_same_life:
            self._acked[slot] = self._synced[slot].copy()
        self._synced[slot].confirm(self.lac)
        self._acked[slot].confirm(self.lac)
        self._away[slot] = False
        self._advance()
        return is_same_life

    def lacks(self, slot: int, entry_id: EntryId) -> bool:
        """Return True when no valid ack of `slot` says that it has the entry."""
        return entry_id not in self._acked[slot]

    def acked(self, slot: int, first: EntryId, last: EntryId) -> None:
        """`slot` acknowledged `first`..`last`, inclusive; perhaps they are not on its disk yet."""
        self._acked[slot].add(first, last)

    def is_force_due(self, slot: int, wanted: EntryId) -> bool:
        """Return True when a force sent to `slot` now would prove more entries up to `wanted`."""
        synced = self._synced[slot].last
        return synced < wanted and synced < self._acked[slot].last

    def force_sent(self, slot: int) -> SyncCursor:
        """Return the entries that the answer to a force sent to `slot` now will prove: all that it acknowledged before
        (spec/wire.md#W69)."""
        return self._acked[slot].copy()

    def forced(self, slot: int, proven: SyncCursor) -> bool:
        """`slot` answered that force. Return True when the LAC moved."""
        self._synced[slot].add_all(proven)
        return self._advance()

    def told(self, slot: int, last_synced: EntryId) -> bool:
        """`slot` says by itself that it has all entries up to `last_synced` on disk (CONFORMANCE.md#D16). Return True
        when the LAC moved."""
        self._synced[slot].confirm(last_synced)
        return self._advance()

    def _advance(self) -> bool:
        cursors = zip(self._synced, self._away, strict=True)
        lac = lac_of(self._schedule, [INVALID_ENTRY_ID if is_away else cursor.last for cursor, is_away in cursors])
        moved = lac > self.lac
        self.lac = max(self.lac, lac)
        return moved
