"""Durability with deferred sync, on the client's side (BP-14): syncs confirm; acknowledgements are for memory only.

A bookie acknowledges such adds from memory. So every bookie is asked which life of it answers, before it is sent
anything; an ack counts for that life only. When a connection breaks, the bookie keeps its seat (there is no ensemble
change on such a ledger, CONFORMANCE.md#D12), is asked again, and is sent what it lacks: in the same life the entries
that it had not acknowledged; in another life, or if it does not say its life (Java's do not), all entries that it does
not have on disk. For that, entries are kept until they are confirmed; when they fill half the writer's bounds, bookies
are told to sync without having been asked to.

A bookie that does not come back, and one that fails in any other way, ends the writer.
"""

import logging
from collections import deque
from collections.abc import Mapping, Sequence

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import INVALID_ENTRY_ID, BookieId, EntryId
from bookie.base.units import NS_PER_MS
from bookie.client.net.calls import Call, OnAnswer
from bookie.client.write.appender import Appender
from bookie.client.write.seat import Add, Seat
from bookie.quorum.synced import SyncCursor, Syncing
from bookie.wire import codes, v3
from bookie.wire.messages import BookieInfoRequest, BookieInfoResponse, ForceRequest, Response

log = logging.getLogger(__name__)


class SyncsConfirm:
    """`Durability` for bookies that answer an add from memory."""

    is_deferred = True

    def __init__(self, appender: Appender) -> None:
        self._appender = appender
        self._shared = appender.shared
        self._timeout_ms = appender.shared.options.request_timeout_ms
        self._syncing = Syncing(appender.adds.schedule)
        self._force_wanted = INVALID_ENTRY_ID
        self._unforced: deque[Add] = deque()  # acknowledged by an ack quorum, beyond the LAC: the oldest first
        self._away_since_ns: dict[int, int] = {}  # slots whose bookies left, until they do their work again

    @property
    def lac(self) -> EntryId:
        """Return the highest entry that an ack quorum has on disk."""
        return self._syncing.lac

    @property
    def told_lac(self) -> EntryId:
        return self._syncing.lac

    @property
    def has_unforced(self) -> bool:
        return self.lac < self._appender.adds.last_pushed

    # ---- acks and forces ---------------------------------------------------------------------------------------------

    def acked(self, seat: Seat, adds: Sequence[Add]) -> None:
        """Note that `seat` has these, perhaps not on disk."""
        for add in adds:
            self._syncing.acked(seat.slot, add.entry_id, add.entry_id)
        self._is_back(seat)
        self._force(seat)

    def synced(self, seat: Seat, last_synced: EntryId) -> None:
        if self._syncing.told(seat.slot, last_synced):
            self._moved()

    def confirmed(self, adds: Sequence[Add]) -> None:
        """Keep adds that an ack quorum has in memory: a bookie that loses them gets them again."""
        for add in adds:
            if add.entry_id > self.lac:
                self._unforced.append(add)
                self._appender.kept_bytes += add.size
            else:
                add.frame = b""
        if self._unforced and self._appender.kept_bytes > self._shared.options.in_flight_bytes_max // 2:
            self.force(self._unforced[-1].entry_id)

    def force(self, wanted: EntryId) -> None:
        self._force_wanted = max(self._force_wanted, wanted)
        for seat in self._appender.seats:
            self._force(seat)

    def _force(self, seat: Seat) -> None:
        """Send a force to the bookie, one at a time. It makes durable only what was acknowledged before it was sent, so
        that a slow bookie may need several."""
        syncing = self._syncing
        if not seat.is_live or not seat.takes_adds or seat.is_forcing:
            return
        if syncing.lac < self._force_wanted and syncing.is_force_due(seat.slot, self._force_wanted):
            seat.is_forcing = True
            proven = seat, syncing.force_sent(seat.slot)
            request = ForceRequest(self._shared.pool.next_txn(), v3.VERSION, self._appender.ledger_id)
            seat.link.send(Call(request, v3.VERSION, self._on_forced, proven, self._timeout_ms))

    def _on_forced(self, proven: tuple[Seat, SyncCursor], response: Response | None, error: BookieError | None) -> None:
        seat, cursor = proven
        seat.is_forcing = False
        if not seat.is_live:
            return  # its connection broke, and with it the proof that it is still the life that acknowledged
        if error is not None:
            seat.fail(error)
            return
        self._is_back(seat)
        if self._syncing.forced(seat.slot, cursor):
            self._moved()
        self._force(seat)

    def _moved(self) -> None:
        """Free the entries that no bookie will need again, after the LAC moved."""
        unforced, lac = self._unforced, self.lac
        while unforced and unforced[0].entry_id <= lac:
            add = unforced.popleft()
            self._appender.kept_bytes -= add.size
            add.frame = b""
        self._appender.on_confirmed()

    def give_up(self) -> None:
        self._unforced.clear()
        self._appender.kept_bytes = 0

    # ---- lives -------------------------------------------------------------------------------------------------------

    def may_send(self, seat: Seat) -> bool:
        """Return False until the bookie has said which life answers; ask it before the first add."""
        if not seat.is_asked:
            self._ask(seat, self._on_met)
        return seat.takes_adds

    def _is_back(self, seat: Seat) -> None:
        """Note that the bookie did what it was asked: it is no longer away."""
        if not seat.is_back:
            seat.is_back = True
            self._away_since_ns.pop(seat.slot, None)

    def end_by(self, seat: Seat, error: BookieError) -> BookieError | None:
        """Return the error that ends the writer, unless only the connection broke: then the bookie gets time to come
        back."""
        if isinstance(error, errors.LedgerFenced):
            return error
        if isinstance(error, errors.BookieUnavailable):
            return None
        return self._ensemble_broke(seat.bookie_id, error)

    def left(self, seat: Seat) -> None:
        self._syncing.left(seat.slot)
        self._away_since_ns.setdefault(seat.slot, self._shared.world.clock.monotonic_ns())

    def overdue(self, failed: Mapping[int, BookieError], now_ns: int) -> BookieError | None:
        """Return an error when a bookie was away for `ensemble_timeout_ms`, whether the ack quorum can do without it or
        not."""
        patience_ns = self._shared.options.ensemble_timeout_ms * NS_PER_MS
        if not any(now_ns - since_ns > patience_ns for since_ns in self._away_since_ns.values()):
            return None
        slot, error = min(failed.items())
        return self._ensemble_broke(self._appender.seats[slot].bookie_id, error)

    def _ensemble_broke(self, bookie_id: BookieId, error: BookieError) -> BookieError:
        return errors.StorageFailed(
            f"ledger {self._appender.ledger_id}: bookie {bookie_id} failed ({error}), and a ledger with deferred "
            f"sync keeps its ensemble: nothing after entry {self.lac} is known to be durable"
        )

    def joined(self, seat: Seat, before: BookieId) -> None:
        """Let a bookie take its own seat again; it gets nothing before it has said which life answers."""
        seat.takes_adds = False
        seat.is_back = False
        self._ask(seat, self._on_met_again)

    def _ask(self, seat: Seat, on_answer: OnAnswer) -> None:
        seat.is_asked = True
        request = BookieInfoRequest(self._shared.pool.next_txn(), v3.VERSION, codes.INFO_LIFE)
        seat.link.send(Call(request, v3.VERSION, on_answer, seat, self._timeout_ms))

    def _on_met(self, seat: Seat, response: Response | None, error: BookieError | None) -> None:
        if seat.is_live and isinstance(response, BookieInfoResponse):
            self._syncing.met(seat.slot, response.life)  # else it is a bookie that does not say, or an add will fail

    def _on_met_again(self, seat: Seat, response: Response | None, error: BookieError | None) -> None:
        appender = self._appender
        if not seat.is_live:
            return
        if isinstance(error, errors.BookieUnavailable | errors.RequestTimedOut):
            seat.fail(error)
            return
        life, lac = (response.life if isinstance(response, BookieInfoResponse) else None), self.lac
        is_same_life = self._syncing.met_again(seat.slot, life)
        if self.lac > lac:
            self._moved()
        appender.send_unsent()  # to the others: the one that is back is sent it below
        seat.takes_adds = True
        lost = [add for add in self._unforced if self._syncing.lacks(seat.slot, add.entry_id)]
        missing = [*lost, *appender.adds.missing(seat.slot)]
        log.info(
            "bookie is back ledger_id=%d slot=%d bookie=%s same_life=%s resent=%d",
            appender.ledger_id,
            seat.slot,
            seat.bookie_id,
            is_same_life,
            len(missing),
        )
        if missing:
            appender.send_all(seat, missing)
        else:
            self._is_back(seat)
        self._force(seat)
