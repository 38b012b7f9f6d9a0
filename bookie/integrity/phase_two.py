"""Phase two, beside serving: recover every ledger in limbo if needed, copy, flush, clear its mark, flush.

The limbo marks on disk are the work list, so it is resumable from any cut. Per ledger: metadata is read afresh; its
end is decided without any answer of ours (spec/bp46.md#S9); what is missing is fetched and verified; only when that is
durable the mark goes, and only when *that* is durable the ledger is done (CONFORMANCE.md#B39, spec/storage.md#E6). A
ledger that cannot be repaired now is told of with its reason and tried again later; it stops no other. A live writer is
not disturbed while it shows signs of life (spec/bp46.md#T14).

It takes no lock (`client.replication_lock`) and publishes nothing: this bookie is named already, so that nobody takes
what it copies for surplus.
"""

import contextlib
import logging
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import LedgerId
from bookie.base.units import NS_PER_MS
from bookie.integrity import ledgers as rules
from bookie.integrity.ledgers import Step
from bookie.integrity.means import LEDGERS_AT_ONCE, RepairMeans
from bookie.integrity.progress import BootProgress
from bookie.integrity.together import together
from bookie.quorum import silence
from bookie.quorum.silence import Silence

log = logging.getLogger(__name__)

# Ledgers cleared by one pair of flushes.
_CLEARED_TOGETHER = 256
# Attempts at one ledger before its pauses grow beyond `retry_delay_ms_max`, which is a quarter of an hour by default;
# doubled so often then: about as long again between two attempts.
_RETRY_BUDGET = 30
_PAUSE_GROWS_MAX = 5
# How often a writer's sign of life is looked for.
_WRITER_POLL_MS = 1_000


@dataclass(slots=True)
class _Work:
    """The state of one ledger in limbo."""

    due_ns: int = 0
    failures: int = 0
    silence: Silence | None = None
    is_closed: bool = False  # at the last attempt


class LimboRepair:
    """Repairs all ledgers in limbo. `run` returns when none is left."""

    def __init__(self, means: RepairMeans, progress: BootProgress, *, verify: bool) -> None:
        self._store = means.store
        self._me = means.me
        self._opener = means.opener
        self._options = means.options
        self._clock = means.world.clock
        self._fresh = means.fresh()
        self._progress = progress
        self._copier = means.copier(progress, verify=verify)
        self._work: dict[LedgerId, _Work] = {}

    async def run(self) -> None:
        """Repair until no ledger is in limbo, durably."""
        async with contextlib.aclosing(self._store.ledgers()) as ledgers:
            self._work = {ledger_id: _Work() async for ledger_id in ledgers if self._is_limbo(ledger_id)}
        progress = self._progress
        progress.enter("two")
        progress.pending = progress.limbo = len(self._work)
        while self._work:
            for ledger_id in self._store.quarantined:  # met since
                self._work.setdefault(ledger_id, _Work())
            now_ns = self._clock.monotonic_ns()
            due = [ledger_id for ledger_id, work in self._work.items() if work.due_ns <= now_ns]
            for start in range(0, len(due), _CLEARED_TOGETHER):
                whole = await self._whole(due[start : start + _CLEARED_TOGETHER])
                try:
                    await self._clear(whole)
                except BookieError as error:
                    if error.fatal:
                        raise
                    for ledger_id in whole:  # the marks stand, and nothing is lost: when there is room again
                        self._work[ledger_id].failures += 1
                        self._later(ledger_id, self._work[ledger_id], str(error))
            if self._work:
                await self._clock.sleep_until(min(work.due_ns for work in self._work.values()))
        log.info("phase two done ledgers=%d entries=%d", progress.done_count, progress.entries_copied)

    async def _whole(self, batch: list[LedgerId]) -> list[LedgerId]:
        """Repair the ledgers of `batch`; return those of which nothing is missing any more (not yet durably)."""
        todo = iter(batch)
        whole: list[LedgerId] = []

        async def worker() -> None:
            for ledger_id in todo:
                if await self._repair(ledger_id):
                    whole.append(ledger_id)

        await together(worker() for _ in range(LEDGERS_AT_ONCE))
        return whole

    async def _clear(self, whole: list[LedgerId]) -> None:
        """Clear the marks. CRASH: entries are durable before their mark is cleared, and the cleared mark before the
        ledger counts as done. After a power cut in between, the mark stands, and the next run finds nothing missing."""
        if not whole:
            return
        await self._store.flush()
        # The recovery that closed it may have counted on a fence of an earlier process of our id (docs/INTEGRITY.md).
        closed = [ledger_id for ledger_id in whole if self._work[ledger_id].is_closed]
        if closed:
            await self._store.protect([(ledger_id, True, False, None) for ledger_id in closed])
        for ledger_id in whole:
            # Deleted, and collected meanwhile; or on a disk that has failed meanwhile.
            with contextlib.suppress(errors.NoSuchLedger, errors.UnknownLedgerState):
                self._store.clear_limbo(ledger_id)
        await self._store.flush()
        for ledger_id in whole:
            del self._work[ledger_id]
            self._progress.blocked.pop(ledger_id, None)
        self._progress.done_count += len(whole)
        self._progress.pending = self._progress.limbo = len(self._work)
        self._progress.notify()

    async def _repair(self, ledger_id: LedgerId) -> bool:
        """Try once to repair one ledger. Return True when nothing of it is missing;
        else the caller tries again later."""
        work = self._work[ledger_id]
        try:
            metadata, version = await self._fresh.get(ledger_id)
            step = rules.next_step(metadata, self._me, may_have_writer=True)
            if step is Step.WAIT:
                assert metadata is not None
                if not await self._is_silent(ledger_id, work, version):
                    self._later(ledger_id, work, "its writer may be alive; it is given time to change its ensemble")
                    return False
                step = Step.RECOVER
            if step is Step.RECOVER:
                await self._opener.recover(ledger_id)
                metadata, version = await self._fresh.get(ledger_id)
                step = rules.next_step(metadata, self._me, may_have_writer=False)
            if step is Step.RECOVER:
                raise errors.LedgerRecoveryFailed(f"ledger {ledger_id} is not closed after its recovery")
            if step is Step.COPY:
                assert metadata is not None
                await self._copier.copy(ledger_id, metadata)
            work.is_closed = metadata is not None and metadata.is_closed
        except BookieError as error:
            if error.fatal:
                raise
            work.failures += 1
            self._later(ledger_id, work, str(error) or type(error).__name__)
            return False
        return True

    async def _is_silent(self, ledger_id: LedgerId, work: _Work, version: int) -> bool:
        """Return True when the writer has shown no sign of life for as long as the settings grant. Raises when too few
        bookies answer: what nobody can tell is no silence, and no recovery would end."""
        confirmed = await self._opener.last_confirmed(ledger_id)
        now_ns = self._clock.monotonic_ns()
        work.silence = silence.after_look(work.silence, now_ns, confirmed, version)
        return work.silence.is_over(now_ns, grace_ns=self._options.open_ledger_grace_ms * NS_PER_MS)

    def _later(self, ledger_id: LedgerId, work: _Work, reason: str) -> None:
        options = self._options
        delay_ms = min(options.retry_delay_ms << min(work.failures, 16), options.retry_delay_ms_max)
        delay_ms <<= min(max(0, work.failures - _RETRY_BUDGET), _PAUSE_GROWS_MAX)
        if work.failures == 0:
            delay_ms = min(_WRITER_POLL_MS, max(1, options.open_ledger_grace_ms))
        work.due_ns = self._clock.monotonic_ns() + delay_ms * NS_PER_MS
        if self._progress.blocked.get(ledger_id) != reason:
            log.info("ledger not repaired yet ledger_id=%d reason=%s", ledger_id, reason)
            self._progress.blocked[ledger_id] = reason
            self._progress.notify()

    def _is_limbo(self, ledger_id: LedgerId) -> bool:
        facts = self._store.facts(ledger_id)
        return facts is not None and facts.is_limbo
