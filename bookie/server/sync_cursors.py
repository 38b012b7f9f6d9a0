"""Tells in answers to deferred adds how far a ledger is on this bookie's disk:
LastAddSynced, one cursor per ledger (BP-14).

Whatever sync covered an entry moves the cursor (CONFORMANCE.md#D20), and so does the LAC that an entry brings along
(CONFORMANCE.md#D21). A new life of the bookie, and a ledger that was not written to for long, begin anew: a cursor may
say less than is so, never more.
"""

from bookie.base.ids import INVALID_ENTRY_ID, EntryId, LedgerId
from bookie.quorum.synced import SyncCursor
from bookie.wire import entry
from bookie.wire.messages import AddRun

# Ledgers with deferred adds that are remembered; a cursor takes some hundred bytes.
LEDGERS_MAX = 10_000
# Ranges of one cursor beyond its last: a writer that leaves more gaps than this is told less.
RUNS_MAX = 256


class SyncCursors:
    """The sync cursors of all ledgers with deferred adds."""

    def __init__(self, *, is_journaled: bool) -> None:
        """`is_journaled` False: entries bypass the journal, so a completed add is in memory only, and only the entries
        up to the LAC are known to be on disk."""
        self._is_journaled = is_journaled
        self._cursors: dict[LedgerId, SyncCursor] = {}

    def begun(self, run: AddRun) -> None:
        """Note that the adds of `run` arrived. When the cursor has some of their ids already, begin a new one: they may
        have other bytes now (an id used again after a deletion, or a writer that sends again)."""
        cursor = self._cursors.get(run.ledger_id)
        if cursor is not None and (first := min(run.entry_ids)) <= cursor.last:
            self._cursors[run.ledger_id] = cursor = SyncCursor()
            cursor.confirm(first - 1)

    def last(self, ledger_id: LedgerId) -> EntryId:
        """Return up to where the ledger is known to be on disk without a gap."""
        cursor = self._cursors.get(ledger_id)
        return INVALID_ENTRY_ID if cursor is None else cursor.last

    def synced(self, run: AddRun) -> EntryId:
        """Note that the store has completed the adds of `run`;
        return up to where their ledger is on disk without a gap."""
        cursor = self._cursors.get(run.ledger_id)
        if cursor is None:
            if len(self._cursors) >= LEDGERS_MAX:
                del self._cursors[next(iter(self._cursors))]
            cursor = self._cursors[run.ledger_id] = SyncCursor()
        for entry_id, body in zip(run.entry_ids, run.bodies, strict=True):
            cursor.confirm(entry.unpack_lac(body))
            if self._is_journaled:
                cursor.add(entry_id, entry_id)
        if cursor.run_count > RUNS_MAX:
            self._cursors[run.ledger_id] = shorter = SyncCursor()
            shorter.confirm(cursor.last)
        return cursor.last
