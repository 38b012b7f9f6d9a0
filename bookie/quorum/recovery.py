"""Recovery: finds the end of a ledger whose writer is gone, and makes every entry before that end safe.

Rules: spec/wire.md#W52 to W58; CONFORMANCE.md#B12 to B17, P25 to P33.

    FENCING  -- covered -->  READING  -- first proven absence, all before it written back -->  CLOSING
       |                        |
       +----- hopeless ---------+---- an entry that nobody can decide, a failed write ------->  FAILED

FENCING asks every bookie of the last ensemble for its highest entry and forbids it further adds. READING goes forward
from the greatest LAC among the answers; each entry found is written back to its whole write set before it counts
(CONFORMANCE.md#B15, second form). Reads may run ahead, but answers are *judged* strictly in id order: an entry beyond a
proven absence was never acknowledged and is left behind. FAILED changes nothing: the ledger stays IN_RECOVERY for the
next client that recovers it.
"""

import enum
from collections.abc import Sequence

from bookie.base.errors import Answer, BookieError
from bookie.base.ids import EntryId
from bookie.quorum.lac import LacQuery
from bookie.quorum.schedule import Schedule

READ_AHEAD_MAX = 32
# Entries found and not yet written back: what the driver must keep in memory.
WRITE_BEHIND_MAX = 128


class RecoveryPhase(enum.Enum):
    FENCING = "fencing"
    READING = "reading"
    CLOSING = "closing"
    FAILED = "failed"


# Found, proven absent (WQ-AQ+1 explicit negatives), or why nobody can decide.
_Judgement = Answer | BookieError


class Recovery:
    """One recovery of one ledger, from the facts that its driver reports. `first_of_last` starts the last segment."""

    def __init__(self, schedule: Schedule, first_of_last: EntryId) -> None:
        self.phase = RecoveryPhase.FENCING
        self.error: BookieError | None = None
        self._fencing = LacQuery(schedule, floor=EntryId(first_of_last - 1))
        self.start = EntryId(first_of_last - 1)  # confirmed for certain: reading begins after it
        self.end: EntryId | None = None  # the last entry, once its successor is proven absent
        self._judged: dict[EntryId, _Judgement] = {}  # answers that came before those of lower entries
        self._next_read = EntryId(-1)
        self._next_judged = EntryId(-1)
        self._written = EntryId(-1)
        self._read_ahead = 1

    # ---- fencing -----------------------------------------------------------------------------------------------------

    def fenced(self, slot: int, lac: EntryId) -> None:
        """Note that `slot` is fenced, and that its highest entry says that `lac` was confirmed."""
        if self.phase is RecoveryPhase.FENCING:
            self._fencing.found(slot, lac)
            self._judge_fencing()

    def fence_failed(self, slot: int, error: BookieError) -> None:
        """Count an answer without an entry: an explicit negative (the bookie is fenced all the same), or no answer."""
        if self.phase is RecoveryPhase.FENCING:
            self._fencing.failed(slot, error)
            self._judge_fencing()

    def _judge_fencing(self) -> None:
        if self._fencing.is_covered:
            self.phase = RecoveryPhase.READING
            self.start = self._fencing.lac
            self._next_read = self._next_judged = EntryId(self.start + 1)
            self._written = self.start
        elif (error := self._fencing.error) is not None:
            self.failed(error)

    # ---- reading forward ---------------------------------------------------------------------------------------------

    def next_reads(self) -> Sequence[EntryId]:
        """Return entries to read now, each once. The window doubles from one while entries are found."""
        if self.phase is not RecoveryPhase.READING or self.end is not None:
            return ()
        stop = min(self._next_judged + self._read_ahead, self._written + 1 + WRITE_BEHIND_MAX)
        reads = [EntryId(entry_id) for entry_id in range(self._next_read, stop)]
        self._next_read = EntryId(max(self._next_read, stop))
        return reads

    def found(self, entry_id: EntryId) -> Sequence[EntryId]:
        """Note that `entry_id` was read and verified. Return the entries that may be written back now, in order."""
        return self._judge(entry_id, Answer.POSITIVE)

    def absent(self, entry_id: EntryId) -> Sequence[EntryId]:
        """WQ-AQ+1 replicas denied `entry_id`: no ack quorum ever held it, and after fencing none ever will
        (CONFORMANCE.md#B16)."""
        return self._judge(entry_id, Answer.NEGATIVE)

    def undecided(self, entry_id: EntryId, error: BookieError) -> Sequence[EntryId]:
        """Every replica answered, with neither a copy nor enough explicit negatives (CONFORMANCE.md#B17)."""
        return self._judge(entry_id, error)

    def _judge(self, entry_id: EntryId, judgement: _Judgement) -> Sequence[EntryId]:
        if self.phase is not RecoveryPhase.READING or self.end is not None:
            return ()
        self._judged[entry_id] = judgement
        writable: list[EntryId] = []
        while self._next_judged in self._judged:
            found = self._judged.pop(self._next_judged)
            if found is Answer.NEGATIVE:
                self.end = EntryId(self._next_judged - 1)
                self._judged.clear()
                self._close_when_written()
                break
            if isinstance(found, BookieError):
                self.failed(found)
                break
            writable.append(self._next_judged)
            self._next_judged = EntryId(self._next_judged + 1)
            self._read_ahead = min(self._read_ahead * 2, READ_AHEAD_MAX)
        return writable

    # ---- writing back ------------------------------------------------------------------------------------------------

    def written(self, entry_id: EntryId) -> None:
        """Note that an ack quorum of its write set acknowledged every entry up to `entry_id`."""
        assert self._written <= entry_id < self._next_judged, "written before it was found"
        self._written = entry_id
        self._close_when_written()

    @property
    def is_empty_handed(self) -> bool:
        """True when nothing was found after `start`: the ledger's length must be taken from entry `start` itself.

        The answer that carried the LAC has the length of a *later* entry, perhaps one beyond the end. (Java closes
        with that length: spec/wire.md#W57.)
        """
        return self.phase is RecoveryPhase.CLOSING and self.end == self.start

    def _close_when_written(self) -> None:
        if self.phase is RecoveryPhase.READING and self.end is not None and self._written == self.end:
            self.phase = RecoveryPhase.CLOSING

    def failed(self, error: BookieError) -> None:
        """End the recovery with `error`: the fence, a read or the write-back did not succeed."""
        if self.phase is not RecoveryPhase.FAILED:
            self.phase = RecoveryPhase.FAILED
            self.error = error
