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
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.base.units import KIB
from bookie.client.add_frames import AddFrames
from bookie.client.calls import AddBatch
from bookie.client.deferred import Deferred
from bookie.client.mending import Commit, Mending
from bookie.client.shared import Shared
from bookie.quorum.adds import PendingAdd, PendingAdds
from bookie.quorum.schedule import Schedule
from bookie.wire.digest import Digest
from bookie.wire.messages import Buffer

log = logging.getLogger(__name__)

# Entries gather for one write until the end of the turn, or until there are so many bytes.
BATCH_BYTES = 128 * KIB


class Add(PendingAdd):
    """One unconfirmed entry: its request, sent as it is to each bookie, and the answer "done" that each gives."""

    __slots__ = ("confirmed", "done", "frame", "owner", "size")

    frame: bytes  # empty once it will not be sent again
    done: bytes
    size: int

    def __init__(self, owner: "Appender", confirmed: "asyncio.Future[EntryId] | None") -> None:
        super().__init__()
        self.owner = owner
        self.confirmed = confirmed


class Target:
    """One bookie in one slot. Answers that come after it was replaced go nowhere."""

    __slots__ = (
        "_appender",
        "bookie_id",
        "is_asked",
        "is_back",
        "is_forcing",
        "is_live",
        "link",
        "sent_bytes",
        "slot",
        "takes_adds",
    )

    def __init__(self, appender: "Appender", slot: int, bookie_id: BookieId) -> None:
        self._appender = appender
        self.slot = slot
        self.bookie_id = bookie_id
        self.link = appender.shared.pool.link(bookie_id, appender.shared.options.protocol_version)
        self.link.on_break(self.fail)
        self.is_live = True
        self.sent_bytes = 0  # and not answered
        # With deferred sync only:
        self.is_asked = False  # which life it is
        self.takes_adds = True  # it is known what it lacks
        self.is_back = True  # it did what it was asked for since it took its seat again
        self.is_forcing = False

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
        is_deferred: bool = False,
        delay_ensemble_change: bool = False,
    ) -> None:
        """`is_deferred`: acks are for memory only, and confirm nothing until bookies have synced."""
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
            is_deferred=is_deferred,
        ).pack
        self._deferred = Deferred(self, schedule) if is_deferred else None
        self._unsent: dict[bytes, Add] = {}
        self._unsent_bytes = 0
        self._is_flush_due = False
        self.targets = [Target(self, slot, bookie_id) for slot, bookie_id in enumerate(ensemble)]
        self._target_at: dict[object, Target] = {target.link: target for target in self.targets}
        self._mending = Mending(self, commit, delay=delay_ensemble_change, keeps_ensemble=is_deferred)

    @property
    def lac(self) -> EntryId:
        """The highest entry that will be readable for ever."""
        return self.adds.lac if self._deferred is None else self._deferred.lac

    @property
    def held_bytes(self) -> int:
        """What it keeps to be sent, for the first time or again."""
        return self.in_flight_bytes if self._deferred is None else self.in_flight_bytes + self._deferred.unforced_bytes

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
            self.send_unsent()
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
            self._deferred.acked(target, adds)
        confirmed = self.adds.ack(adds, target.slot)
        if confirmed:
            self.confirm(confirmed)

    def on_synced(self, origin: object, last_synced: EntryId) -> None:
        """Of `calls.AddOwner`: the bookie says how far it has the ledger on disk."""
        target = self._target_at.get(origin)
        if self._deferred is not None and target is not None and target.is_live:
            self._deferred.told(target, last_synced)

    def on_failed(self, origin: object, error: BookieError) -> None:
        """Of `calls.AddOwner`: so it is with the bookie at the end of `origin`."""
        target = self._target_at.get(origin)
        if target is not None:
            target.fail(error)

    def _flush(self) -> None:
        self._is_flush_due = False
        self.send_unsent()

    def send_unsent(self) -> None:
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
                self.send_all(target, [add for add in adds.values() if target.slot in self.adds.write_set(add)])

    def send_all(self, target: Target, adds: list[Add]) -> None:
        """Hand `adds`, in order, to one bookie."""
        if adds:
            frames = [add.frame for add in adds]
            batch = AddBatch(self, {add.done: add for add in adds}, frames, sum(map(len, frames)), self._timeout_ms)
            self._send(target, batch)

    def _send(self, target: Target, batch: AddBatch) -> None:
        if self._deferred is not None and not self._deferred.may_send(target):
            return
        target.sent_bytes += batch.size
        # What it has not answered, less what nobody has confirmed: its distance to the others.
        lag_bytes = target.sent_bytes - self.in_flight_bytes
        if lag_bytes > self._lag_bytes_max:
            target.fail(errors.TooManyRequests(f"bookie {target.bookie_id} lags behind by {lag_bytes} bytes"))
        else:
            target.link.send_adds(batch)

    def confirm(self, confirmed: Sequence[Add]) -> None:
        """Tell whom it concerns that these were confirmed, in order."""
        deferred = self._deferred
        for add in confirmed:
            self.in_flight_bytes -= add.size
            if deferred is None:
                add.frame = b""
            future = add.confirmed
            if future is not None and not future.done():
                future.set_result(add.entry_id)
        self._mending.confirmed()
        if deferred is not None:
            deferred.keep(confirmed)
        self.on_confirmed()

    def force(self, wanted: EntryId) -> None:
        """Have bookies put on disk what they acknowledge, until the LAC is `wanted`."""
        assert self._deferred is not None
        self._deferred.force(wanted)

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
        if self._deferred is not None and not self._deferred.may_return(error):
            self.die(self.ensemble_broke(target.bookie_id, error))
            return
        if self._deferred is not None:
            self._deferred.left(target)
        self.adds.drop(target.slot)
        self._mending.begin(target.slot, error)

    def ensemble_broke(self, bookie_id: BookieId, error: BookieError) -> BookieError:
        """What ends a writer whose ledger keeps its ensemble (D12)."""
        return errors.StorageFailed(
            f"ledger {self.ledger_id}: bookie {bookie_id} failed ({error}), and a ledger with deferred "
            f"sync keeps its ensemble: nothing after entry {self.lac} is known to be durable"
        )

    def seat(self, slot: int, bookie_id: BookieId) -> None:
        """`bookie_id` takes `slot`, and is sent what is unconfirmed there."""
        self.send_unsent()  # to who sits there now: all that is pending is sent to the new one below
        old = self.targets[slot]
        old.replaced()
        self.targets[slot] = target = Target(self, slot, bookie_id)
        self._target_at = {target.link: target for target in self.targets}
        if self._deferred is not None:
            self._deferred.join(target)
            return
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
        self.send_all(target, missing)

    def returned(self, slot: int) -> None:
        """The bookie in `slot`, which was away, does its work again."""
        self._mending.returned(slot)

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
        if self._deferred is not None:
            self._deferred.give_up()
        self._unsent.clear()
        self._unsent_bytes = 0
        self.on_error(error)

    async def stop(self, reason: BookieError) -> None:
        """`die`, and wait until mending ended."""
        self.die(reason)
        await self._mending.stop()
