"""What a bookie says of its own disk in answers to deferred adds: LastAddSynced, one cursor per ledger (BP-14).

An add is answered here once it is on disk, deferred or not (`EntryStore.add` says why): whatever sync covered it moves
the cursor (D20). So does the LAC that an entry brings along (D21). A new life of the bookie, and a ledger that was not
written to for long, begin anew: a cursor may say less than is so, never more.
"""

from bookie.base.ids import EntryId, LedgerId
from bookie.quorum.synced import SyncCursor
from bookie.wire import entry
from bookie.wire.messages import AddRun

# Ledgers with deferred adds that are remembered; a cursor takes some hundred bytes.
LEDGERS_MAX = 10_000


class SyncCursors:
    """Of all ledgers with deferred adds."""

    def __init__(self) -> None:
        self._cursors: dict[LedgerId, SyncCursor] = {}

    def synced(self, run: AddRun) -> EntryId:
        """The adds of `run` are on disk; return up to where their ledger is, without a gap."""
        cursor = self._cursors.get(run.ledger_id)
        if cursor is None:
            if len(self._cursors) >= LEDGERS_MAX:
                del self._cursors[next(iter(self._cursors))]
            cursor = self._cursors[run.ledger_id] = SyncCursor()
        for entry_id, body in zip(run.entry_ids, run.bodies, strict=True):
            cursor.confirm(entry.unpack_header(body).lac)
            cursor.add(entry_id, entry_id)
        return cursor.last
