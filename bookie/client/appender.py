"""Sends entries to an ensemble and mends the ensemble: the engine under the writer and under recovery's write-back.

Drives `quorum.adds`. Every bookie of the ensemble sits in a slot; a failed slot gets no further adds and its acks for
unconfirmed entries are forgotten at once. One task then mends: it draws a replacement, has the change written (by the
writer into the metadata, by recovery into memory) and sends the new bookie what it lacks.

**When no replacement exists**, Java's writer dies with NotEnoughBookies, or with `delayEnsembleChange` waits only
while the failed bookie is not needed. Here the slot stays *absent*: entries go on being confirmed as long as every
write set keeps an ack quorum without it, and the change is tried again whenever the set of bookies changes and with
back-off; a bookie that came back takes its own slot again and is sent all that is unconfirmed. If the ack quorum
cannot be met for `ensemble_timeout_ms`, the handle dies with NotEnoughBookies.

**LedgerFenced from a bookie** is not believed blindly: a recovery always writes IN_RECOVERY before it fences, so the
committer reads the metadata first. If the ledger is OPEN, only that bookie lost its memory and fenced the ledger to
protect itself (BP-46 phase one): it is replaced like any failed bookie and the writer lives (T14; Java's dies).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.base.units import KIB, NS_PER_MS, NS_PER_S
from bookie.client.add_frames import AddFrames
from bookie.client.calls import AddBatch
from bookie.client.shared import Shared
from bookie.quorum.adds import PendingAdd, PendingAdds
from bookie.quorum.schedule import Schedule
from bookie.wire.digest import Digest
from bookie.wire.messages import Buffer

log = logging.getLogger(__name__)

RETRY_MIN_S = 0.1
RETRY_MAX_S = 5.0
# Entries gather for one write until the end of the turn, or until there are so many bytes.
BATCH_BYTES = 128 * KIB

# Given the LAC and the failed slots, make the change durable and return the ensemble that now holds LAC+1 and after:
# with failed bookies still in it where there was no replacement. Raises MetadataError to be asked again later, any
# other BookieError to end the handle.
Commit = Callable[[EntryId, dict[int, BookieId]], Awaitable[tuple[BookieId, ...]]]


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

    __slots__ = ("_appender", "bookie_id", "is_live", "link", "sent_bytes", "slot")

    def __init__(self, appender: "Appender", slot: int, bookie_id: BookieId) -> None:
        self._appender = appender
        self.slot = slot
        self.bookie_id = bookie_id
        self.link = appender.shared.pool.link(bookie_id, appender.shared.options.protocol_version)
        self.link.on_break(self.fail)
        self.is_live = True
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
        is_recovery: bool,
    ) -> None:
        self.shared = shared
        self.ledger_id = ledger_id
        self.adds: PendingAdds[Add] = PendingAdds(schedule, start=start, length=length)
        self.error: BookieError | None = None
        self.in_flight_bytes = 0
        self.on_confirmed: Callable[[], None] = lambda: None  # the LAC moved
        self.on_error: Callable[[BookieError], None] = lambda error: None  # called once, after the futures
        self._commit = commit
        self._timeout_ms = shared.options.request_timeout_ms
        self._lag_bytes_max = shared.options.lag_bytes_max
        self._pack = AddFrames(
            ledger_id,
            digest,
            shared.pool.next_txn,
            version=shared.options.protocol_version,
            is_recovery=is_recovery,
        ).pack
        self._unsent: dict[bytes, Add] = {}
        self._unsent_bytes = 0
        self._is_flush_due = False
        self._targets = [Target(self, slot, bookie_id) for slot, bookie_id in enumerate(ensemble)]
        self._target_at: dict[object, Target] = {target.link: target for target in self._targets}
        self._failed: dict[int, BookieError] = {}  # slots without a live bookie, and why
        self._news = asyncio.Event()
        self._mending: asyncio.Task[None] | None = None
        self._next_attempt_ns = 0
        self._blocked_since_ns: int | None = None  # until an entry is confirmed

    @property
    def lac(self) -> EntryId:
        return self.adds.lac

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
        add.frame, add.done = self._pack(entry_id, adds.lac, add.length, payload)
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
        confirmed = self.adds.ack(adds, target.slot)
        if confirmed:
            self._confirm(confirmed)

    def on_failed(self, origin: object, error: BookieError) -> None:
        """Of `calls.AddOwner`: so it is with the bookie at the end of `origin`."""
        target = self._target_at.get(origin)
        if target is not None:
            target.fail(error)

    def _flush(self) -> None:
        self._is_flush_due = False
        if self._unsent:
            self._send_unsent()

    def _send_unsent(self) -> None:
        """Hand what has gathered to the bookies that it belongs to."""
        adds, self._unsent = self._unsent, {}
        size, self._unsent_bytes = self._unsent_bytes, 0
        schedule = self.adds.schedule
        if schedule.write_quorum == schedule.ensemble_size:
            batch = AddBatch(self, adds, [add.frame for add in adds.values()], size, self._timeout_ms)
            for target in self._targets:
                if target.is_live:
                    self._send(target, batch)
            return
        for target in self._targets:
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

    def _confirm(self, confirmed: Sequence[Add]) -> None:
        for add in confirmed:
            self.in_flight_bytes -= add.size
            add.frame = b""
            future = add.confirmed
            if future is not None and not future.done():
                future.set_result(add.entry_id)
        self._blocked_since_ns = None
        self.on_confirmed()

    # ---- failure and mending -----------------------------------------------------------------------------------------

    def live_bookies(self, entry_id: EntryId) -> list[BookieId]:
        """The bookies of the write set of `entry_id` that are not failed."""
        targets = (self._targets[slot] for slot in self.adds.schedule.write_set(entry_id))
        return [target.bookie_id for target in targets if target.is_live]

    def on_failure(self, target: Target, error: BookieError) -> None:
        """A bookie failed: replace it, unless the error ends the handle."""
        if self.error is not None:
            return
        if isinstance(error, errors.Unauthorized):
            self.die(error)
            return
        if not isinstance(error, errors.LedgerFenced):  # that may be somebody's recovery: no fault of the bookie
            self.shared.pool.quarantine(target.bookie_id, error)
        self.adds.drop(target.slot)
        self._failed[target.slot] = error
        self._news.set()
        if self._mending is None:
            self._mending = self.shared.tasks.spawn(self._mend(), f"mend ledger {self.ledger_id}")
            if self._mending is None:
                self.die(errors.BookieUnavailable("the client is closed"))

    def die(self, error: BookieError) -> None:
        """End the handle: all unconfirmed entries fail with `error`. Their outcome is unknown (P29)."""
        if self.error is not None:
            return
        self.error = error
        self._news.set()
        for target in self._targets:
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
        mending = self._mending
        if mending is not None and not mending.done():
            mending.cancel()
            await asyncio.wait([mending])

    async def _mend(self) -> None:
        """Until the ensemble is whole again or the handle is dead."""
        end_watch = self.shared.watcher.on_change(self._news.set)
        delay_s = RETRY_MIN_S
        try:
            while self._failed and self.error is None:
                await self._breathe()
                if self._is_blocked_too_long():
                    self.die(self._not_enough_bookies())
                    break
                self._news.clear()
                await self._change_ensemble()
                if not self._failed or self.error is not None:
                    break
                try:
                    async with asyncio.timeout(delay_s):
                        await self._news.wait()
                except TimeoutError:
                    delay_s = min(delay_s * 2, RETRY_MAX_S)
        finally:
            self._mending = None
            end_watch()

    def _is_blocked_too_long(self) -> bool:
        """True when no entry was confirmed for `ensemble_timeout_ms`, because too many slots had no live bookie.

        Counts over mends: a bookie that takes its slot back and refuses again is no progress (found by the simulator).
        """
        now_ns = self.shared.world.clock.monotonic_ns()
        if self.adds.can_complete_without(list(self._failed)):
            if not self.adds:
                self._blocked_since_ns = None
            return False
        if self._blocked_since_ns is None:
            self._blocked_since_ns = now_ns
        return now_ns - self._blocked_since_ns > self.shared.options.ensemble_timeout_ms * NS_PER_MS

    async def _breathe(self) -> None:
        """Attempts begin RETRY_MIN_S apart, also those of different mends: a bookie that is tried again in its own slot
        may fail at once, again and again (found by the simulator)."""
        clock = self.shared.world.clock
        await clock.sleep_until(self._next_attempt_ns)
        self._next_attempt_ns = clock.monotonic_ns() + int(RETRY_MIN_S * NS_PER_S)

    async def _change_ensemble(self) -> None:
        """One attempt; slots for which nobody could be had stay in `_failed`."""
        failed = {slot: self._targets[slot].bookie_id for slot in sorted(self._failed)}
        self.adds.hold()
        ensemble: tuple[BookieId, ...] = ()
        try:
            ensemble = await self._commit(self.adds.lac, failed)
        except errors.MetadataError as error:
            log.warning("ensemble change delayed ledger_id=%d reason=%s", self.ledger_id, error)
        except BookieError as error:
            self.die(error)
        if self.error is not None:
            return
        # Seat first, then release: what was completed meanwhile is sent to the new bookie before it is forgotten.
        for slot, bookie_id in enumerate(ensemble):
            if bookie_id != self._targets[slot].bookie_id or (slot in failed and self._may_return(slot)):
                self._seat(slot, bookie_id)
        confirmed = self.adds.release()
        if confirmed:
            self._confirm(confirmed)

    def _may_return(self, slot: int) -> bool:
        """True when a failed bookie for which there is no replacement should be tried again in its own slot."""
        bookie_id = self._targets[slot].bookie_id
        # One that fenced the ledger for itself stays fenced; only another bookie can take that slot.
        return self.shared.watcher.is_writable(bookie_id) and not isinstance(
            self._failed.get(slot), errors.LedgerFenced
        )

    def _seat(self, slot: int, bookie_id: BookieId) -> None:
        self._send_unsent()  # to who sits there now: all that is pending is sent to the new one below
        old = self._targets[slot]
        old.replaced()
        self._failed.pop(slot, None)
        self._targets[slot] = target = Target(self, slot, bookie_id)
        self._target_at = {target.link: target for target in self._targets}
        missing = self.adds.missing(slot)
        log.info(
            "bookie takes a slot ledger_id=%d slot=%d old=%s new=%s from_entry=%d resent=%d",
            self.ledger_id,
            slot,
            old.bookie_id,
            bookie_id,
            self.adds.lac + 1,
            len(missing),
        )
        self._send_all(target, missing)

    def _not_enough_bookies(self) -> BookieError:
        reasons = "; ".join(f"slot {slot}: {error}" for slot, error in sorted(self._failed.items()))
        return errors.NotEnoughBookies(
            f"ledger {self.ledger_id}: the ack quorum cannot be met and no other bookies could be had ({reasons})"
        )
