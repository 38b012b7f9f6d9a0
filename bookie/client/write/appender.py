"""Sends entries to an ensemble and counts their answers, for the writer and for the write-back of a recovery.

Drives `quorum.adds`. Every bookie of the ensemble sits in a slot. A failed slot gets no further adds, its acks for
unconfirmed entries are forgotten at once, and `EnsembleChange` finds another bookie for it. All code here is
synchronous: entries are packed as they come, gather until the end of the loop's turn, and leave in one write per
bookie; the answers of one turn come together. A `Durability` decides what an acknowledgement is worth. The *handle* is
the owner of the appender: a writer, or a recovery.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.base.units import KIB
from bookie.client.net.add_frames import AddFrames
from bookie.client.net.calls import AddBatch
from bookie.client.shared import Shared
from bookie.client.write.seat import Add, Seat
from bookie.quorum.adds import PendingAdds
from bookie.quorum.schedule import Schedule
from bookie.wire.digest import Digest
from bookie.wire.messages import Buffer

# Entries gather for one write until the end of the loop's turn, or until they have so many bytes.
BATCH_BYTES = 128 * KIB


class Durability(Protocol):
    """Decides what acknowledgements prove, and what follows when a bookie fails: `AcksConfirm`, `SyncsConfirm` or
    `WriteBack`."""

    @property
    def is_deferred(self) -> bool:
        """True when bookies acknowledge from memory; then the ensemble never changes (CONFORMANCE.md#D12)."""

    @property
    def lac(self) -> EntryId:
        """Return the highest entry that stays readable for ever."""

    @property
    def told_lac(self) -> EntryId:
        """Return the LAC that the next entry's header tells everybody: `lac`, or less."""

    @property
    def has_unforced(self) -> bool:
        """Return True when an entry was appended that only a force will confirm."""

    def may_send(self, seat: Seat) -> bool:
        """Return False while it is unknown which entries the bookie lacks. The appender asks before it sends adds."""

    def acked(self, seat: Seat, adds: Sequence[Add]) -> None:
        """Hear that the bookie acknowledged these adds."""

    def synced(self, seat: Seat, last_synced: EntryId) -> None:
        """Hear how far the bookie has the ledger on disk."""

    def confirmed(self, adds: Sequence[Add]) -> None:
        """Hear that an ack quorum acknowledged these, in order: free their frames, or keep them to be sent again."""

    def force(self, wanted: EntryId) -> None:
        """Have bookies put on disk what they acknowledge, until the LAC is `wanted`."""

    def end_by(self, seat: Seat, error: BookieError) -> BookieError | None:
        """Return the error that ends the handle because a bookie failed with `error`; None when the same bookie or
        another may take the slot."""

    def left(self, seat: Seat) -> None:
        """Hear that the bookie failed, and the handle goes on."""

    def joined(self, seat: Seat, before: BookieId) -> None:
        """Send a bookie that takes the slot of `before` the entries that it lacks."""

    def overdue(self, failed: Mapping[int, BookieError], now_ns: int) -> BookieError | None:
        """Return the error that ends the handle because it has waited too long for bookies in the `failed` slots."""

    def give_up(self) -> None:
        """Hear that the handle ended: nothing will be sent again."""


class Appender:
    """One ledger's unconfirmed entries on their way to one ensemble. All its methods are synchronous."""

    def __init__(
        self,
        shared: Shared,
        ledger_id: LedgerId,
        digest: Digest,
        schedule: Schedule,
        ensemble: tuple[BookieId, ...],
        durability: "Callable[[Appender], Durability]",
        *,
        start: EntryId,
        length: int,
        is_recovery: bool = False,
    ) -> None:
        """Begin after the LAC `start`; `length`: the ledger's length there."""
        self.shared = shared
        self.ledger_id = ledger_id
        self.adds: PendingAdds[Add] = PendingAdds(schedule, start=start, length=length)
        self.error: BookieError | None = None
        self.in_flight_bytes = 0  # of entries that no ack quorum acknowledged
        self.kept_bytes = 0  # of others that may have to be sent again
        self.on_confirmed: Callable[[], None] = lambda: None  # the LAC moved
        self.on_error: Callable[[BookieError], None] = lambda error: None  # called once, after the futures
        self.on_seat_failed: Callable[[Seat, BookieError], None]  # set by `EnsembleChange`
        self._timeout_ms = shared.options.request_timeout_ms
        self._lag_bytes_max = shared.options.lag_bytes_max
        self.durability = durability(self)
        self._pack = AddFrames(
            ledger_id,
            digest,
            shared.pool.next_txn,
            version=shared.options.protocol_version,
            is_recovery=is_recovery,
            is_deferred=self.durability.is_deferred,
        ).pack
        self._unsent: dict[bytes, Add] = {}
        self._unsent_bytes = 0
        self._is_flush_due = False
        self.seats = [self._seat(slot, bookie_id) for slot, bookie_id in enumerate(ensemble)]
        self._seat_at: dict[object, Seat] = {seat.link: seat for seat in self.seats}

    @property
    def lac(self) -> EntryId:
        """Return the highest entry that will be readable for ever."""
        return self.durability.lac

    @property
    def held_bytes(self) -> int:
        """Return the bytes of the entries that the appender keeps, since it may have to send them again."""
        return self.in_flight_bytes + self.kept_bytes

    # ---- the hot path ------------------------------------------------------------------------------------------------

    def push(self, payload: Buffer, confirmed: "asyncio.Future[EntryId] | None") -> EntryId:
        """Send `payload` as the next entry; `confirmed` gets its id, or the error that ends the handle.

        The payload is copied; `len` counts its bytes. Not called once `error` is set.
        """
        assert self.error is None
        adds = self.adds
        payload_size = len(payload)
        entry_id: EntryId = adds.last_pushed + 1  # type: ignore[assignment]  # a call of EntryId costs 60 ns
        # Pack, then push: an entry that has its id and no frame would never be confirmed, nor any after it.
        frame, done = self._pack(entry_id, self.durability.told_lac, adds.length + payload_size, payload)
        add = Add(self, confirmed)
        adds.push(add, payload_size)
        assert add.entry_id == entry_id
        add.frame, add.done = frame, done
        size = add.size = len(frame)
        self.in_flight_bytes += size
        self._unsent[add.done] = add
        self._unsent_bytes += size
        if self._unsent_bytes >= BATCH_BYTES:
            self.send_unsent()
        elif not self._is_flush_due:
            self._is_flush_due = True
            self.shared.pool.loop.call_soon(self._flush)
        return entry_id

    def on_acks(self, origin: object, adds: list[Add]) -> None:
        """Count the adds that the bookie at the end of `origin` has (`calls.AddOwner`)."""
        seat = self._seat_at.get(origin)
        if seat is None or not seat.is_live:
            return
        seat.sent_bytes -= sum([add.size for add in adds])
        self.durability.acked(seat, adds)
        confirmed = self.adds.ack(adds, seat.slot)
        if confirmed:
            self.confirm(confirmed)

    def on_synced(self, origin: object, last_synced: EntryId) -> None:
        """Note that the bookie has the ledger on disk up to `last_synced` (`calls.AddOwner`)."""
        seat = self._seat_at.get(origin)
        if seat is not None and seat.is_live:
            self.durability.synced(seat, last_synced)

    def on_failed(self, origin: object, error: BookieError) -> None:
        """Fail the seat of the bookie at the end of `origin` (`calls.AddOwner`)."""
        seat = self._seat_at.get(origin)
        if seat is not None:
            seat.fail(error)

    def _flush(self) -> None:
        self._is_flush_due = False
        self.send_unsent()

    def send_unsent(self) -> None:
        """Hand the gathered entries to the bookies of their write sets."""
        adds, self._unsent = self._unsent, {}
        size, self._unsent_bytes = self._unsent_bytes, 0
        if not adds:
            return
        schedule = self.adds.schedule
        if schedule.write_quorum == schedule.ensemble_size:
            batch = AddBatch(self, adds, [add.frame for add in adds.values()], size, self._timeout_ms)
            for seat in self.seats:
                if seat.is_live:
                    self._send(seat, batch)
            return
        for seat in self.seats:
            if seat.is_live:
                self.send_all(seat, [add for add in adds.values() if seat.slot in self.adds.write_set(add)])

    def send_all(self, seat: Seat, adds: list[Add]) -> None:
        """Hand `adds`, in order, to one bookie."""
        if adds:
            frames = [add.frame for add in adds]
            batch = AddBatch(self, {add.done: add for add in adds}, frames, sum(map(len, frames)), self._timeout_ms)
            self._send(seat, batch)

    def _send(self, seat: Seat, batch: AddBatch) -> None:
        if not self.durability.may_send(seat):
            return
        seat.sent_bytes += batch.size
        # The bytes that this bookie has not answered, less those that no ack quorum has: how far it lags behind.
        lag_bytes = seat.sent_bytes - self.in_flight_bytes
        if lag_bytes > self._lag_bytes_max:
            seat.fail(errors.TooManyRequests(f"bookie {seat.bookie_id} lags behind by {lag_bytes} bytes"))
        else:
            seat.link.send_adds(batch)

    def confirm(self, confirmed: Sequence[Add]) -> None:
        """Resolve the futures of entries that were confirmed, in order."""
        for add in confirmed:
            self.in_flight_bytes -= add.size
            future = add.confirmed
            if future is not None and not future.done():
                future.set_result(add.entry_id)
        self.durability.confirmed(confirmed)
        self.on_confirmed()

    # ---- failure -----------------------------------------------------------------------------------------------------

    def live_bookies(self, entry_id: EntryId) -> list[BookieId]:
        """Return the bookies of the write set of `entry_id` that have not failed."""
        seats = (self.seats[slot] for slot in self.adds.schedule.write_set(entry_id))
        return [seat.bookie_id for seat in seats if seat.is_live]

    def _seat(self, slot: int, bookie_id: BookieId) -> Seat:
        link = self.shared.pool.link(bookie_id, self.shared.options.protocol_version)
        return Seat(self, slot, bookie_id, link, lambda seat, error: self.on_seat_failed(seat, error))

    def take_seat(self, slot: int, bookie_id: BookieId) -> None:
        """Let `bookie_id` take `slot`, and send it the entries that it lacks there."""
        self.send_unsent()  # to the bookies that sit there now: the new one gets all unconfirmed entries below
        before = self.seats[slot]
        before.replaced()
        self.seats[slot] = seat = self._seat(slot, bookie_id)
        self._seat_at = {seat.link: seat for seat in self.seats}
        self.durability.joined(seat, before.bookie_id)

    def die(self, error: BookieError) -> None:
        """End the handle: all unconfirmed entries fail with `error`. Their outcome is unknown (CONFORMANCE.md#P29)."""
        if self.error is not None:
            return
        self.error = error = errors.final(error)
        for seat in self.seats:
            seat.retire()
        for add in self.adds.fail_all():
            if add.confirmed is not None and not add.confirmed.done():
                add.confirmed.set_exception(error)
                # Looked at: `on_error` tells of it once, and who appends without waiting may await the last one alone.
                # The loop would tell of each other one, and end a process of ours for it.
                add.confirmed.exception()
        self.in_flight_bytes = 0
        self.durability.give_up()
        self._unsent.clear()
        self._unsent_bytes = 0
        self.on_error(error)
