"""Sends entries to an ensemble and counts their answers: the engine under the writer and under recovery's write-back.

Drives `quorum.adds`. Every bookie of the ensemble sits in a slot; a failed slot gets no further adds, its acks for
unconfirmed entries are forgotten at once, and `mending` finds who takes it. All here is synchronous: entries are packed
as they come, gather until the end of the turn, and leave in one write per bookie; answers come a turn's worth at once.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import INVALID_ENTRY_ID, BookieId, EntryId, LedgerId
from bookie.base.units import KIB
from bookie.client.add_frames import AddFrames
from bookie.client.calls import AddBatch, Call
from bookie.client.mending import Commit, Mending
from bookie.client.shared import Shared
from bookie.quorum.adds import PendingAdd, PendingAdds
from bookie.quorum.schedule import Schedule
from bookie.quorum.synced import SyncCursor, Syncing
from bookie.wire import v3
from bookie.wire.digest import Digest
from bookie.wire.messages import Buffer, ForceRequest, Response

log = logging.getLogger(__name__)

# Entries gather for one write until the end of the turn, or until there are so many bytes.
BATCH_BYTES = 128 * KIB


class Add(PendingAdd):
    """One unconfirmed entry: its request, sent as it is to each bookie, and the answer "done" that each gives."""

    __slots__ = ("confirmed", "done", "frame", "owner", "size")

    frame: bytes  # empty once confirmed
    done: bytes
    size: int

    def __init__(self, owner: "Appender", confirmed: "asyncio.Future[EntryId] | None") -> None:
        super().__init__()
        self.owner = owner
        self.confirmed = confirmed


class Target:
    """One bookie in one slot. Answers that come after it was replaced go nowhere."""

    __slots__ = ("_appender", "bookie_id", "is_forcing", "is_live", "link", "sent_bytes", "slot")

    def __init__(self, appender: "Appender", slot: int, bookie_id: BookieId) -> None:
        self._appender = appender
        self.slot = slot
        self.bookie_id = bookie_id
        self.link = appender.shared.pool.link(bookie_id, appender.shared.options.protocol_version)
        self.link.on_break(self.fail)
        self.is_live = True
        self.is_forcing = False
        self.sent_bytes = 0  # and not answered

    def fail(self, error: BookieError) -> None:
        if self.is_live:
            self.replaced()
            self._appender.on_failure(self, error)

    def replaced(self) -> None:
        """Its answers to what it was sent must not be taken for answers to what it may be sent in another seat."""
        if self.is_live:
            self.retire()
            self.link.forget_adds(self._appender)

    def retire(self) -> None:
        """Listen no more; what waits for a connection is still sent: every entry belongs on its whole write set."""
        if self.is_live:
            self.is_live = False
            self.link.off_break(self.fail)


class Appender:
    """One ledger's unconfirmed entries on their way to one ensemble. Everything but mending is synchronous."""

    def __init__(
        self,
        shared: Shared,
        ledger_id: LedgerId,
        digest: Digest,
        schedule: Schedule,
        ensemble: tuple[BookieId, ...],
        commit: Commit,
        *,
        start: EntryId,
        length: int,
        is_recovery: bool = False,
        deferred: Syncing | None = None,
        delay_ensemble_change: bool = False,
    ) -> None:
        """`deferred`: acks are for memory only, and confirm nothing until bookies have synced."""
        self.shared = shared
        self.ledger_id = ledger_id
        self.adds: PendingAdds[Add] = PendingAdds(schedule, start=start, length=length)
        self.error: BookieError | None = None
        self.in_flight_bytes = 0
        self.on_confirmed: Callable[[], None] = lambda: None  # the LAC moved
        self.on_error: Callable[[BookieError], None] = lambda error: None  # called once, after the futures
        self._timeout_ms = shared.options.request_timeout_ms
        self._lag_bytes_max = shared.options.lag_bytes_max
        self._pack = AddFrames(
            ledger_id,
            digest,
            shared.pool.next_txn,
            version=shared.options.protocol_version,
            is_recovery=is_recovery,
            is_deferred=deferred is not None,
        ).pack
        self._deferred = deferred
        self._force_wanted = INVALID_ENTRY_ID
        self._unsent: dict[bytes, Add] = {}
        self._unsent_bytes = 0
        self._is_flush_due = False
        self.targets = [Target(self, slot, bookie_id) for slot, bookie_id in enumerate(ensemble)]
        self._target_at: dict[object, Target] = {target.link: target for target in self.targets}
        self._mending = Mending(self, commit, delay=delay_ensemble_change)

    @property
    def lac(self) -> EntryId:
        """The highest entry that will be readable for ever."""
        return self.adds.lac if self._deferred is None else self._deferred.lac

    # ---- the hot path ------------------------------------------------------------------------------------------------

    def push(self, payload: Buffer, confirmed: "asyncio.Future[EntryId] | None") -> EntryId:
        """Send `payload` as the next entry; `confirmed` gets its id, or the error that ends the handle.

        The payload is copied. Not called once `error` is set.
        """
        assert self.error is None
        add = Add(self, confirmed)
        adds = self.adds
        adds.push(add, len(payload))
        entry_id = add.entry_id
        add.frame, add.done = self._pack(entry_id, self.lac, add.length, payload)
        size = add.size = len(add.frame)
        self.in_flight_bytes += size
        self._unsent[add.done] = add
        self._unsent_bytes += size
        if self._unsent_bytes >= BATCH_BYTES:
            self._send_unsent()
        elif not self._is_flush_due:
            self._is_flush_due = True
            self.shared.pool.loop.call_soon(self._flush)
        return entry_id

    def on_acks(self, origin: object, adds: list[Add]) -> None:
        """Of `calls.AddOwner`: the bookie at the end of `origin` has `adds`."""
        target = self._target_at.get(origin)
        if target is None or not target.is_live:
            return
        target.sent_bytes -= sum([add.size for add in adds])
        if self._deferred is not None:
            for add in adds:
                self._deferred.acked(target.slot, add.entry_id, add.entry_id)
            self._force(target)
        confirmed = self.adds.ack(adds, target.slot)
        if confirmed:
            self.confirm(confirmed)

    def on_synced(self, origin: object, last_synced: EntryId) -> None:
        """Of `calls.AddOwner`: the bookie says how far it has the ledger on disk."""
        target = self._target_at.get(origin)
        if self._deferred is None or target is None or not target.is_live:
            return
        if self._deferred.told(target.slot, last_synced):
            self.on_confirmed()

    def on_failed(self, origin: object, error: BookieError) -> None:
        """Of `calls.AddOwner`: so it is with the bookie at the end of `origin`."""
        target = self._target_at.get(origin)
        if target is not None:
            target.fail(error)

    def _flush(self) -> None:
        self._is_flush_due = False
        self._send_unsent()

    def _send_unsent(self) -> None:
        """Hand what has gathered to the bookies that it belongs to."""
        adds, self._unsent = self._unsent, {}
        size, self._unsent_bytes = self._unsent_bytes, 0
        if not adds:
            return
        schedule = self.adds.schedule
        if schedule.write_quorum == schedule.ensemble_size:
            batch = AddBatch(self, adds, [add.frame for add in adds.values()], size, self._timeout_ms)
            for target in self.targets:
                if target.is_live:
                    self._send(target, batch)
            return
        for target in self.targets:
            if target.is_live:
                self._send_all(target, [add for add in adds.values() if target.slot in self.adds.write_set(add)])

    def _send_all(self, target: Target, adds: list[Add]) -> None:
        if adds:
            frames = [add.frame for add in adds]
            batch = AddBatch(self, {add.done: add for add in adds}, frames, sum(map(len, frames)), self._timeout_ms)
            self._send(target, batch)

    def _send(self, target: Target, batch: AddBatch) -> None:
        target.sent_bytes += batch.size
        # What it has not answered, less what nobody has confirmed: its distance to the others.
        lag_bytes = target.sent_bytes - self.in_flight_bytes
        if lag_bytes > self._lag_bytes_max:
            target.fail(errors.TooManyRequests(f"bookie {target.bookie_id} lags behind by {lag_bytes} bytes"))
        else:
            target.link.send_adds(batch)

    def confirm(self, confirmed: Sequence[Add]) -> None:
        """Tell whom it concerns that these were confirmed, in order."""
        for add in confirmed:
            self.in_flight_bytes -= add.size
            add.frame = b""
            future = add.confirmed
            if future is not None and not future.done():
                future.set_result(add.entry_id)
        self._mending.confirmed()
        self.on_confirmed()

    def force(self, wanted: EntryId) -> None:
        """Have bookies put on disk what they acknowledge, until the LAC is `wanted`."""
        assert self._deferred is not None
        self._force_wanted = max(self._force_wanted, wanted)
        for target in self.targets:
            self._force(target)

    def _force(self, target: Target) -> None:
        """A force proves what was acknowledged before it was sent, so that a slow bookie may need several; it has one
        at a time."""
        deferred = self._deferred
        if deferred is None or not target.is_live or target.is_forcing:
            return
        if deferred.lac < self._force_wanted and deferred.is_force_due(target.slot, self._force_wanted):
            target.is_forcing = True
            proven = target, deferred.force_sent(target.slot)
            request = ForceRequest(self.shared.pool.next_txn(), v3.VERSION, self.ledger_id)
            target.link.send(Call(request, v3.VERSION, self._on_forced, proven, self._timeout_ms))

    def _on_forced(
        self, proven: tuple[Target, SyncCursor], response: Response | None, error: BookieError | None
    ) -> None:
        target, cursor = proven
        target.is_forcing = False
        if not target.is_live or self._deferred is None:
            return  # its connection broke, and with it the proof that it is still the life that acknowledged
        if error is not None:
            target.fail(error)
            return
        if self._deferred.forced(target.slot, cursor):
            self.on_confirmed()
        self._force(target)

    # ---- failure -----------------------------------------------------------------------------------------------------

    def live_bookies(self, entry_id: EntryId) -> list[BookieId]:
        """The bookies of the write set of `entry_id` that are not failed."""
        targets = (self.targets[slot] for slot in self.adds.schedule.write_set(entry_id))
        return [target.bookie_id for target in targets if target.is_live]

    def on_failure(self, target: Target, error: BookieError) -> None:
        """A bookie failed: replace it, unless the error ends the handle."""
        if self.error is not None:
            return
        is_fenced = isinstance(error, errors.LedgerFenced)
        if isinstance(error, errors.Unauthorized) or (is_fenced and self._deferred is not None):
            self.die(error)
            return
        if not is_fenced:  # that may be somebody's recovery: no fault of the bookie
            self.shared.pool.quarantine(target.bookie_id, error)
        if self._deferred is not None:
            # Another bookie could not be given what this one had in memory only (D12).
            self.die(
                errors.StorageFailed(
                    f"ledger {self.ledger_id}: bookie {target.bookie_id} failed ({error}), and a ledger with deferred "
                    f"sync keeps its ensemble: nothing after entry {self.lac} is known to be durable"
                )
            )
            return
        self.adds.drop(target.slot)
        self._mending.begin(target.slot, error)

    def seat(self, slot: int, bookie_id: BookieId) -> None:
        """`bookie_id` takes `slot`, and is sent what is unconfirmed there."""
        self._send_unsent()  # to who sits there now: all that is pending is sent to the new one below
        old = self.targets[slot]
        old.replaced()
        self.targets[slot] = target = Target(self, slot, bookie_id)
        self._target_at = {target.link: target for target in self.targets}
        missing = self.adds.missing(slot)
        log.info(
            "bookie takes a slot ledger_id=%d slot=%d old=%s new=%s from_entry=%d resent=%d",
            self.ledger_id,
            slot,
            old.bookie_id,
            bookie_id,
            self.lac + 1,
            len(missing),
        )
        self._send_all(target, missing)

    def die(self, error: BookieError) -> None:
        """End the handle: all unconfirmed entries fail with `error`. Their outcome is unknown (P29)."""
        if self.error is not None:
            return
        self.error = error
        self._mending.wake()
        for target in self.targets:
            target.retire()
        for add in self.adds.fail_all():
            if add.confirmed is not None and not add.confirmed.done():
                add.confirmed.set_exception(error)
        self.in_flight_bytes = 0
        self._unsent.clear()
        self._unsent_bytes = 0
        self.on_error(error)

    async def stop(self, reason: BookieError) -> None:
        """`die`, and wait until mending ended."""
        self.die(reason)
        await self._mending.stop()
