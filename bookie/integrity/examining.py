"""Examines, beside serving, every ledger that a boot left in doubt: phase one's marks, made later (decisions/0021).

From the newest ledger down, and before its turn whatever somebody asked for. Of each: one read of its record, of after
the claim; then one durable step that sets its marks and ends its doubt. The rule is phase one's own (`ledgers.marks`
after the loss of volumes). Resumable from any cut: the doubt in the indexes says how far it went. Must never end the
doubt about a ledger whose record was not read, nor by a listing that is not whole.
"""

import contextlib
import logging
from collections.abc import Sequence

from bookie.base.errors import BookieError
from bookie.base.ids import LedgerId
from bookie.base.rounds import Rounds
from bookie.base.throttle import Throttle
from bookie.base.units import NS_PER_MS
from bookie.client.ledgers import in_batches
from bookie.integrity import phase_one
from bookie.integrity.ledgers import Loss
from bookie.integrity.means import RepairMeans
from bookie.integrity.progress import BootProgress
from bookie.integrity.scan import Scanned, read_one
from bookie.integrity.session_reads import SessionReads
from bookie.integrity.together import together
from bookie.storage.protection import Mark

log = logging.getLogger(__name__)

# Each step is a flush of every index; so many ledgers share one.
_SETTLED_TOGETHER = 1_024
_JOB = "examining"


class Examiner:
    """Examines all ledgers in doubt. `run` returns when none is left."""

    def __init__(self, means: RepairMeans, progress: BootProgress, rounds: Rounds | None = None) -> None:
        self._store = means.store
        self._ledgers = means.ledgers
        self._me = means.me
        self._options = means.options
        self._clock = means.world.clock
        self._progress = progress
        self._rounds = rounds or Rounds()
        self._pace = Throttle(means.options.examine_ledgers_per_s)
        self._reads = SessionReads(means.ledgers, means.retry)

    async def run(self) -> None:
        """Examine until no ledger is in doubt, durably. Raises what must stop the node."""
        if self._store.doubt.is_over:
            return
        began = self._store.doubt
        self._progress.enter("examining")
        while not self._store.doubt.is_over:
            try:
                await self._go_down()
                self._rounds.came_to_end(_JOB)
            except BookieError as error:
                if error.fatal:
                    raise
                # Nothing is lost, and what is left stays in doubt: when there is room, or an answer, again. A full
                # journal disk refuses marks as a bookie that is read-only.
                self._rounds.given_up(_JOB, error)
                log.warning("examining is interrupted reason=%s", error)
                await self._pause(self._options.retry_delay_ms_max)
        progress = self._progress
        log.info(
            "examining done epoch=%d bound=%d ledgers=%d fenced=%d limbo=%d",
            began.epoch,
            began.bound,
            progress.scanned,
            progress.fenced,
            progress.limbo,
        )

    async def _go_down(self) -> None:
        """Examine from where the doubt begins down to the first ledger, unless the session ends meanwhile: then what
        was listed may be old, and only what was settled before counts."""
        session = await self._reads.session()
        start = self._store.doubt.rest
        marks: list[Mark] = []
        count = 0
        async with contextlib.aclosing(self._ledgers.iterate_down()) as listed:
            rest = (ledger_id async for ledger_id in listed if ledger_id < start)
            async with contextlib.aclosing(in_batches(rest, self._options.scan_concurrency)) as batches:
                async for batch in batches:
                    await self._examine_touched()
                    marks += await self._examine(batch)
                    count += len(batch)
                    if not self._reads.is_still(session):
                        return
                    if count >= _SETTLED_TOGETHER:
                        await self._store.settle(marks, rest=batch[-1])
                        marks, count = [], 0
        if self._reads.is_still(session):
            await self._store.settle(marks, rest=0)

    async def _examine_touched(self) -> None:
        touched = self._store.touched()[: self._options.scan_concurrency]
        if touched:
            await self._store.settle(await self._examine(touched), touched)

    async def _examine(self, ledger_ids: Sequence[LedgerId]) -> list[Mark]:
        """Read these ledgers' records; return the marks that they need."""
        await self._clock.sleep_until(self._pace.take(len(ledger_ids), self._clock.monotonic_ns()))
        reads = (read_one(self._ledgers, self._reads.read, each, may_name=self._me) for each in ledger_ids)
        found = await together(reads)
        marks = [self._mark(one) for one in found if one is not None]
        self._progress.scanned += len(ledger_ids)
        self._progress.notify()
        return [mark for mark in marks if mark is not None]

    def _mark(self, found: Scanned) -> Mark | None:
        return phase_one.mark(found, self._me, Loss.VOLUMES, self._options, self._progress)

    async def _pause(self, delay_ms: int) -> None:
        await self._clock.sleep_until(self._clock.monotonic_ns() + delay_ms * NS_PER_MS)
