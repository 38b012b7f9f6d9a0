"""Replaces failed bookies of an ensemble: one task for each handle, while a slot has no live bookie.

The task draws a replacement, has the handle write the change (a writer into the metadata, a recovery into memory), and
then lets the new bookie take the slot, where it gets the entries that it lacks.

**When no replacement exists**, Java's writer dies with NotEnoughBookies. Here the slot stays *absent*: entries go on
being confirmed as long as every write set keeps an ack quorum without it, and the change is tried again whenever the
set of bookies changes and with back-off; a bookie that came back takes its own slot again and is sent all that is
unconfirmed. If the ack quorum cannot be met for `ensemble_timeout_ms`, the handle dies with NotEnoughBookies.

**With `delay_ensemble_change`** (Java's `delayEnsembleChange`) a slot stays absent in the same way although another
bookie could take it, until the ack quorum needs the slot or its bookie becomes read-only. Bookies that restart one
after the other then cause fewer segments, at the price of entries with fewer copies until they are re-replicated.

**With deferred sync** the ensemble never changes (CONFORMANCE.md#D12). The writer waits up to `ensemble_timeout_ms` for
a bookie whose connection broke, whether the ack quorum needs it or not. The bookie takes its own slot again, and is
asked what it still has (`SyncsConfirm`).

**LedgerFenced from a bookie** is not believed blindly: a recovery always writes IN_RECOVERY before it fences, so the
committer reads the metadata first. If the ledger is OPEN, nobody recovers it: that bookie lost its data and fenced the
ledger to protect itself (BP-46 phase one). It is replaced like any failed bookie and the writer goes on
(spec/bp46.md#T14; Java's dies). It takes no other slot of this ledger, nor does one that says Unauthorized.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, EntryId
from bookie.base.units import NS_PER_S
from bookie.client.write.appender import Appender
from bookie.client.write.seat import Seat
from bookie.ports.time_limit import TimeLimit

log = logging.getLogger(__name__)

RETRY_MIN_S = 0.1
RETRY_MAX_S = 5.0

# Given the LAC, the failed slots and who must not take one, make the change durable and return the ensemble that now
# holds LAC+1 and after: with failed bookies still in it where there was no replacement. Raises MetadataError to be
# asked again later, any other BookieError to end the handle.
Commit = Callable[[EntryId, dict[int, BookieId], Collection[BookieId]], Awaitable[tuple[BookieId, ...]]]


def not_registered(bookie_id: BookieId) -> BookieError:
    """Return why the client does not use a bookie that the metadata names: the process that answers for it may have
    been replaced."""
    return errors.BookieUnavailable(f"bookie {bookie_id} was not registered any more when a ledger began to name it")


class EnsembleChange:
    """Replaces the failed bookies of one appender. `delay`: `delay_ensemble_change`, see above."""

    def __init__(self, appender: Appender, commit: Commit, *, delay: bool = False) -> None:
        self._appender = appender
        self._shared = appender.shared
        self._commit = commit
        self._delay = delay
        self._failed: dict[int, BookieError] = {}  # slots without a live bookie, and why
        self._refused: dict[int, None] = {}  # slots whose bookies say Unauthorized
        # They refused this ledger, and always will. No fault of theirs, so no quarantine keeps them from being drawn.
        self._refusing: dict[BookieId, None] = {}
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._next_attempt_ns = 0
        appender.on_seat_failed = self.failed

    def failed(self, seat: Seat, error: BookieError) -> None:
        """Replace a bookie that failed, unless the error ends the handle."""
        appender = self._appender
        if appender.error is not None:
            return
        is_refused = isinstance(error, errors.Unauthorized)
        if isinstance(error, errors.ClientClosed) or (is_refused and self._is_refused_by_too_many(seat.slot)):
            self.die(error)
            return
        # A recovery fenced the ledger, or a stranger set the key: no fault of the bookie.
        if is_refused or isinstance(error, errors.LedgerFenced):
            self._refusing[seat.bookie_id] = None
        else:
            self._shared.pool.quarantine(seat.bookie_id, error)
        end = appender.durability.end_by(seat, error)
        if end is not None:
            self.die(end)
            return
        appender.durability.left(seat)
        appender.adds.drop(seat.slot)
        self._failed[seat.slot] = error
        self._news.set()
        if self._task is None:
            self._task = self._shared.tasks.spawn(self._run(), f"ensemble of ledger {appender.ledger_id}")
            if self._task is None:
                self.die(errors.ClientClosed("the client is closed"))

    def _is_refused_by_too_many(self, slot: int) -> bool:
        """Return True when so many bookies say Unauthorized that no ack quorum is left: then the password is wrong.

        Fewer such bookies got another key for this ledger from a stranger (a bookie takes the key of the first request
        for a ledger), and others take their slots. Java's writer ends at the first one, so a stranger can stop it.
        """
        self._refused[slot] = None
        return len(self._appender.seats) - len(self._refused) < self._appender.adds.schedule.ack_quorum

    def die(self, error: BookieError) -> None:
        """End the handle with `error`, and the task soon."""
        self._news.set()
        self._appender.die(error)

    async def stop(self, reason: BookieError) -> None:
        """End the handle as `die` does, and wait until the task ended."""
        self.die(reason)
        task = self._task
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait([task])

    async def _run(self) -> None:
        """Make attempts until the ensemble is whole again or the handle is dead."""
        appender = self._appender
        end_watch = self._shared.watcher.on_change(self._news.set)
        delay_s = RETRY_MIN_S
        try:
            while self._failed and appender.error is None:
                await self._breathe()
                overdue = appender.durability.overdue(self._failed, self._shared.world.clock.monotonic_ns())
                if overdue is not None:
                    self.die(overdue)
                    break
                self._news.clear()
                await self._attempt()
                if not self._failed or appender.error is not None:
                    break
                try:
                    async with TimeLimit(delay_s):
                        await self._news.wait()
                except TimeoutError:
                    delay_s = min(delay_s * 2, RETRY_MAX_S)
        finally:
            self._task = None
            end_watch()

    async def _breathe(self) -> None:
        """Wait until RETRY_MIN_S after the last attempt began, also of another change: a bookie that is tried again in
        its own slot may fail at once, again and again (found by the simulator)."""
        clock = self._shared.world.clock
        await clock.sleep_until(self._next_attempt_ns)
        self._next_attempt_ns = clock.monotonic_ns() + int(RETRY_MIN_S * NS_PER_S)

    async def _attempt(self) -> None:
        """Make one attempt; slots that no bookie took stay in `_failed`."""
        appender = self._appender
        failed = {slot: appender.seats[slot].bookie_id for slot in sorted(self._failed)}
        ensemble = before = tuple(seat.bookie_id for seat in appender.seats)
        gone: list[BookieId] = []
        appender.adds.hold()
        if self._must_change():
            try:
                ensemble = await self._commit(appender.lac, failed, self._refusing)
                # Asked after the metadata names them: see `BookieWatcher.look` and docs/INTEGRITY.md, two processes.
                gone = await self._shared.watcher.look(dict.fromkeys(one for one in ensemble if one not in before))
            except errors.MetadataError as error:
                log.warning("ensemble change delayed ledger_id=%d reason=%s", appender.ledger_id, error)
                ensemble = ()
            except BookieError as error:
                self.die(error)
        if appender.error is not None:
            return
        # Seat first, then release: the new bookie gets the entries that became complete meanwhile, before `confirm`
        # drops their frames.
        for slot, bookie_id in enumerate(ensemble):
            if bookie_id != appender.seats[slot].bookie_id or (slot in failed and self._may_return(slot)):
                self._failed.pop(slot, None)
                self._refused.pop(slot, None)
                appender.take_seat(slot, bookie_id)
                if bookie_id in gone:
                    appender.seats[slot].fail(not_registered(bookie_id))
        confirmed = appender.adds.release()
        if confirmed:
            appender.confirm(confirmed)

    def _must_change(self) -> bool:
        """Return False while the change may wait, and with deferred sync, where there is none."""
        if self._appender.durability.is_deferred:
            return False
        if not self._delay or not self._appender.adds.can_complete_without(list(self._failed)):
            return True
        lasting = errors.BookieReadOnly | errors.LedgerFenced | errors.Unauthorized
        return any(isinstance(error, lasting) for error in self._failed.values())

    def _may_return(self, slot: int) -> bool:
        """Return True when a failed bookie without a replacement should be tried again in its own slot."""
        bookie_id = self._appender.seats[slot].bookie_id
        # One that fenced the ledger for itself stays fenced, and one that holds another key keeps it; only another
        # bookie can take that slot.
        return self._shared.watcher.is_writable(bookie_id) and not isinstance(
            self._failed.get(slot), errors.LedgerFenced | errors.Unauthorized
        )
