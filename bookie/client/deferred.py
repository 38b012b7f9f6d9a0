"""Deferred sync on the client's side (BP-14): whose memory acks are of, forces, and what a new life lacks.

A bookie acknowledges such adds from memory. So every bookie is asked which life of it answers, before it is sent
anything; an ack counts for that life only. When a connection breaks, the bookie keeps its seat (there is no ensemble
change on such a ledger, D12), is asked again, and is sent what it lacks: in the same life what it had not acknowledged,
in another one, or if it does not say (Java's do not), everything beyond its disk. For that, entries are kept until they
are confirmed; when they fill half the writer's bounds, bookies are told to sync without having been asked to.

A bookie that does not come back, and one that fails in any other way, ends the writer.
"""

import logging
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import INVALID_ENTRY_ID, EntryId
from bookie.client.calls import Call, OnAnswer
from bookie.quorum.schedule import Schedule
from bookie.quorum.synced import SyncCursor, Syncing
from bookie.wire import codes, v3
from bookie.wire.messages import BookieInfoRequest, BookieInfoResponse, ForceRequest, Response

if TYPE_CHECKING:
    from bookie.client.appender import Add, Appender, Target

log = logging.getLogger(__name__)


class Deferred:
    """Of one appender."""

    def __init__(self, appender: "Appender", schedule: Schedule) -> None:
        self._appender = appender
        self._shared = appender.shared
        self._timeout_ms = appender.shared.options.request_timeout_ms
        self._syncing = Syncing(schedule)
        self._force_wanted = INVALID_ENTRY_ID
        self._unforced: deque[Add] = deque()  # acknowledged by an ack quorum, beyond the LAC: the oldest first
        self.unforced_bytes = 0

    @property
    def lac(self) -> EntryId:
        """The highest entry that an ack quorum has on disk."""
        return self._syncing.lac

    # ---- acks and forces ---------------------------------------------------------------------------------------------

    def acked(self, target: "Target", adds: Sequence["Add"]) -> None:
        """`target` has these, perhaps not on disk."""
        for add in adds:
            self._syncing.acked(target.slot, add.entry_id, add.entry_id)
        self._is_back(target)
        self._force(target)

    def told(self, target: "Target", last_synced: EntryId) -> None:
        """`target` says how far it has the ledger on disk."""
        if self._syncing.told(target.slot, last_synced):
            self._moved()

    def keep(self, confirmed: Sequence["Add"]) -> None:
        """An ack quorum has these in memory: a bookie that loses them is sent them again."""
        for add in confirmed:
            if add.entry_id > self.lac:
                self._unforced.append(add)
                self.unforced_bytes += add.size
            else:
                add.frame = b""
        if self._unforced and self.unforced_bytes > self._shared.options.in_flight_bytes_max // 2:
            self.force(self._unforced[-1].entry_id)

    def force(self, wanted: EntryId) -> None:
        """Have bookies put on disk what they acknowledge, until the LAC is `wanted`."""
        self._force_wanted = max(self._force_wanted, wanted)
        for target in self._appender.targets:
            self._force(target)

    def _force(self, target: "Target") -> None:
        """A force proves what was acknowledged before it was sent, so that a slow bookie may need several; it has one
        at a time."""
        syncing = self._syncing
        if not target.is_live or not target.takes_adds or target.is_forcing:
            return
        if syncing.lac < self._force_wanted and syncing.is_force_due(target.slot, self._force_wanted):
            target.is_forcing = True
            proven = target, syncing.force_sent(target.slot)
            request = ForceRequest(self._shared.pool.next_txn(), v3.VERSION, self._appender.ledger_id)
            target.link.send(Call(request, v3.VERSION, self._on_forced, proven, self._timeout_ms))

    def _on_forced(
        self, proven: "tuple[Target, SyncCursor]", response: Response | None, error: BookieError | None
    ) -> None:
        target, cursor = proven
        target.is_forcing = False
        if not target.is_live:
            return  # its connection broke, and with it the proof that it is still the life that acknowledged
        if error is not None:
            target.fail(error)
            return
        self._is_back(target)
        if self._syncing.forced(target.slot, cursor):
            self._moved()
        self._force(target)

    def _moved(self) -> None:
        """The LAC did: nobody will need these again."""
        unforced, lac = self._unforced, self.lac
        while unforced and unforced[0].entry_id <= lac:
            add = unforced.popleft()
            self.unforced_bytes -= add.size
            add.frame = b""
        self._appender.on_confirmed()

    def give_up(self) -> None:
        """The writer ended: nothing will be sent again."""
        self._unforced.clear()
        self.unforced_bytes = 0

    # ---- lives -------------------------------------------------------------------------------------------------------

    def may_send(self, target: "Target") -> bool:
        """Called before adds are sent: the first to go over a connection is the question whose memory they go to."""
        if not target.is_asked:
            self._ask(target, self._on_met)
        return target.takes_adds

    def _is_back(self, target: "Target") -> None:
        """It did something that it was asked for: its patience is counted anew."""
        if not target.is_back:
            target.is_back = True
            self._appender.returned(target.slot)

    def left(self, target: "Target") -> None:
        """The connection of `target` broke."""
        self._syncing.left(target.slot)

    def may_return(self, error: BookieError) -> bool:
        """True when a bookie that failed so is given time to come back: only its connection broke."""
        return isinstance(error, errors.BookieUnavailable)

    def join(self, target: "Target") -> None:
        """A bookie takes its own seat again: it is sent nothing before it has said which life it is."""
        target.takes_adds = False
        target.is_back = False
        self._ask(target, self._on_met_again)

    def _ask(self, target: "Target", on_answer: OnAnswer) -> None:
        target.is_asked = True
        request = BookieInfoRequest(self._shared.pool.next_txn(), v3.VERSION, codes.INFO_LIFE)
        target.link.send(Call(request, v3.VERSION, on_answer, target, self._timeout_ms))

    def _on_met(self, target: "Target", response: Response | None, error: BookieError | None) -> None:
        if target.is_live and isinstance(response, BookieInfoResponse):
            self._syncing.met(target.slot, response.life)  # else it is a bookie that does not say, or an add will fail

    def _on_met_again(self, target: "Target", response: Response | None, error: BookieError | None) -> None:
        appender = self._appender
        if not target.is_live:
            return
        if isinstance(error, errors.BookieUnavailable | errors.RequestTimedOut):
            target.fail(error)
            return
        life, lac = (response.life if isinstance(response, BookieInfoResponse) else None), self.lac
        is_same_life = self._syncing.met_again(target.slot, life)
        if self.lac > lac:
            self._moved()
        appender.send_unsent()  # to the others: the one that is back is sent it below
        target.takes_adds = True
        lost = [add for add in self._unforced if self._syncing.lacks(target.slot, add.entry_id)]
        missing = [*lost, *appender.adds.missing(target.slot)]
        log.info(
            "bookie is back ledger_id=%d slot=%d bookie=%s same_life=%s resent=%d",
            appender.ledger_id,
            target.slot,
            target.bookie_id,
            is_same_life,
            len(missing),
        )
        if missing:
            appender.send_all(target, missing)
        else:
            self._is_back(target)
        self._force(target)
