"""Mends an ensemble: one task per handle, while a slot of it has no live bookie.

It draws a replacement, has the change written (by the writer into the metadata, by recovery into memory) and has the
new bookie sent what it lacks.

**When no replacement exists**, Java's writer dies with NotEnoughBookies. Here the slot stays *absent*: entries go on
being confirmed as long as every write set keeps an ack quorum without it, and the change is tried again whenever the
set of bookies changes and with back-off; a bookie that came back takes its own slot again and is sent all that is
unconfirmed. If the ack quorum cannot be met for `ensemble_timeout_ms`, the handle dies with NotEnoughBookies.

**With `delay_ensemble_change`** (Java's `delayEnsembleChange`) a slot is left absent in the same way although there is
somebody to take it, until the ack quorum needs it or its bookie became read-only: fewer segments for bookies that
restart one after the other, bought with entries that have fewer copies until they are re-replicated.

**With deferred sync** the ensemble never changes (D12): a bookie whose connection broke is waited for as long, whether
the ack quorum can do without it or not, takes its own slot again, and is asked what it still has (`deferred`).

**LedgerFenced from a bookie** is not believed blindly: a recovery always writes IN_RECOVERY before it fences, so the
committer reads the metadata first. If the ledger is OPEN, only that bookie lost its memory and fenced the ledger to
protect itself (BP-46 phase one): it is replaced like any failed bookie and the writer lives (T14; Java's dies).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, EntryId
from bookie.base.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from bookie.client.appender import Appender

log = logging.getLogger(__name__)

RETRY_MIN_S = 0.1
RETRY_MAX_S = 5.0

# Given the LAC and the failed slots, make the change durable and return the ensemble that now holds LAC+1 and after:
# with failed bookies still in it where there was no replacement. Raises MetadataError to be asked again later, any
# other BookieError to end the handle.
Commit = Callable[[EntryId, dict[int, BookieId]], Awaitable[tuple[BookieId, ...]]]


class Mending:
    """Of one appender."""

    def __init__(self, appender: "Appender", commit: Commit, *, delay: bool, keeps_ensemble: bool) -> None:
        self._appender = appender
        self._shared = appender.shared
        self._commit = commit
        self._delay = delay
        self._keeps_ensemble = keeps_ensemble
        self._away_since_ns: dict[int, int] = {}  # of an ensemble that is kept: slots, until they do their work again
        self._failed: dict[int, BookieError] = {}  # slots without a live bookie, and why
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._next_attempt_ns = 0
        self._blocked_since_ns: int | None = None  # until an entry is confirmed

    def begin(self, slot: int, error: BookieError) -> None:
        """The bookie in `slot` failed."""
        self._failed[slot] = error
        if self._keeps_ensemble:
            self._away_since_ns.setdefault(slot, self._shared.world.clock.monotonic_ns())
        self._news.set()
        if self._task is None:
            self._task = self._shared.tasks.spawn(self._mend(), f"mend ledger {self._appender.ledger_id}")
            if self._task is None:
                self._appender.die(errors.BookieUnavailable("the client is closed"))

    def confirmed(self) -> None:
        """An entry was confirmed: the handle gets on."""
        self._blocked_since_ns = None

    def returned(self, slot: int) -> None:
        """The bookie in `slot` does its work again: its patience begins anew."""
        self._away_since_ns.pop(slot, None)

    def wake(self) -> None:
        """Something changed: look at once."""
        self._news.set()

    async def stop(self) -> None:
        """End the task, if there is one, and wait for it."""
        task = self._task
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait([task])

    async def _mend(self) -> None:
        """Until the ensemble is whole again or the handle is dead."""
        appender = self._appender
        end_watch = self._shared.watcher.on_change(self._news.set)
        delay_s = RETRY_MIN_S
        try:
            while self._failed and appender.error is None:
                await self._breathe()
                if self._is_blocked_too_long():
                    appender.die(self._why_it_ends())
                    break
                self._news.clear()
                await self._change_ensemble()
                if not self._failed or appender.error is not None:
                    break
                try:
                    async with asyncio.timeout(delay_s):
                        await self._news.wait()
                except TimeoutError:
                    delay_s = min(delay_s * 2, RETRY_MAX_S)
        finally:
            self._task = None
            end_watch()

    def _is_blocked_too_long(self) -> bool:
        """True when no entry was confirmed for `ensemble_timeout_ms`, because too many slots had no live bookie; in an
        ensemble that is kept, when a bookie was away for so long.

        Counts over mends: a bookie that takes its slot back and refuses again is no progress (found by the simulator).
        """
        now_ns = self._shared.world.clock.monotonic_ns()
        patience_ns = self._shared.options.ensemble_timeout_ms * NS_PER_MS
        if self._keeps_ensemble:
            return any(now_ns - since_ns > patience_ns for since_ns in self._away_since_ns.values())
        if self._appender.adds.can_complete_without(list(self._failed)):
            if not self._appender.adds:
                self._blocked_since_ns = None
            return False
        if self._blocked_since_ns is None:
            self._blocked_since_ns = now_ns
        return now_ns - self._blocked_since_ns > patience_ns

    async def _breathe(self) -> None:
        """Attempts begin RETRY_MIN_S apart, also those of different mends: a bookie that is tried again in its own slot
        may fail at once, again and again (found by the simulator)."""
        clock = self._shared.world.clock
        await clock.sleep_until(self._next_attempt_ns)
        self._next_attempt_ns = clock.monotonic_ns() + int(RETRY_MIN_S * NS_PER_S)

    async def _change_ensemble(self) -> None:
        """One attempt; slots for which nobody could be had stay in `_failed`."""
        appender = self._appender
        failed = {slot: appender.targets[slot].bookie_id for slot in sorted(self._failed)}
        ensemble = tuple(target.bookie_id for target in appender.targets)
        appender.adds.hold()
        if self._must_change():
            try:
                ensemble = await self._commit(appender.lac, failed)
            except errors.MetadataError as error:
                log.warning("ensemble change delayed ledger_id=%d reason=%s", appender.ledger_id, error)
                ensemble = ()
            except BookieError as error:
                appender.die(error)
        if appender.error is not None:
            return
        # Seat first, then release: what was completed meanwhile is sent to the new bookie before it is forgotten.
        for slot, bookie_id in enumerate(ensemble):
            if bookie_id != appender.targets[slot].bookie_id or (slot in failed and self._may_return(slot)):
                self._failed.pop(slot, None)
                appender.seat(slot, bookie_id)
        confirmed = appender.adds.release()
        if confirmed:
            appender.confirm(confirmed)

    def _must_change(self) -> bool:
        """False while a change may be put off, and where there is none."""
        if self._keeps_ensemble:
            return False
        if not self._delay or not self._appender.adds.can_complete_without(list(self._failed)):
            return True
        return any(isinstance(error, errors.BookieReadOnly | errors.LedgerFenced) for error in self._failed.values())

    def _may_return(self, slot: int) -> bool:
        """True when a failed bookie for which there is no replacement should be tried again in its own slot."""
        bookie_id = self._appender.targets[slot].bookie_id
        # One that fenced the ledger for itself stays fenced; only another bookie can take that slot.
        return self._shared.watcher.is_writable(bookie_id) and not isinstance(
            self._failed.get(slot), errors.LedgerFenced
        )

    def _why_it_ends(self) -> BookieError:
        if self._keeps_ensemble:
            slot, error = min(self._failed.items())
            return self._appender.ensemble_broke(self._appender.targets[slot].bookie_id, error)
        reasons = "; ".join(f"slot {slot}: {error}" for slot, error in sorted(self._failed.items()))
        return errors.NotEnoughBookies(
            f"ledger {self._appender.ledger_id}: the ack quorum cannot be met and no other bookies could be had "
            f"({reasons})"
        )
