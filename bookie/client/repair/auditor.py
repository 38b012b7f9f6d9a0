"""The auditor: finds ledgers that lack replicas, and marks them in Java's queue for workers, ours and Java's.

One process leads (`election`); the others wait. It looks at every ledger's record after a sync, never at one that was
kept. What looks like a hole is looked at once more, with a record read after another sync, before it is marked: the
ledger may be deleted or moved, or the bookie may have filled the hole by itself. Who is under maintenance is left
alone. Rules: spec/metadata.md#M45 to M48, M50.

Never: a change of a ledger, a copy, a fence. A mark is all that it writes, beside its vote and the cluster's delay.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.ids import BookieId, LedgerId
from bookie.base.throttle import Throttle
from bookie.base.units import NS_PER_MS
from bookie.client.ledgers import in_batches
from bookie.client.repair.autorecovery import AutoRecovery
from bookie.client.repair.autorecovery_options import AutoRecoveryOptions
from bookie.client.repair.election import Election
from bookie.client.repair.holdings import Holdings
from bookie.client.repair.marks import Marks
from bookie.client.repair.membership import Membership
from bookie.client.shared import Shared
from bookie.metadata import paths
from bookie.metadata.ledger import LedgerMetadata
from bookie.ports.metadata_store import Stored, find
from bookie.ports.time_limit import TimeLimit
from bookie.quorum import mending
from bookie.quorum.audits import Audit, AuditTimes
from bookie.quorum.mending import Holding, Mending, Standing
from bookie.quorum.placement_check import PlacementCheck

log = logging.getLogger(__name__)

# Ledgers read, and compared, at once.
_BATCH = 64


@dataclass(slots=True)
class AuditorCounts:
    """Since the start of the process. `unreadable`, `misplaced`: ledgers at the last look of this process as the
    auditor; None before it, and once another process looks. `given_up`: why the last turn was broken off; "" when it
    came to its end."""

    is_leading: bool = False
    audits: int = 0
    compared: int = 0
    marked: int = 0
    unreadable: int | None = None
    misplaced: int | None = None
    given_up: str = ""


@dataclass(frozen=True, slots=True)
class _Looked:
    """What a look at one ledger came to."""

    is_marked: bool = False
    is_misplaced: bool = False


class Auditor:
    """Runs until cancelled. `me` stands in the vote. `on_marked` hears of each new mark."""

    def __init__(
        self,
        shared: Shared,
        recovery: AutoRecovery,
        members: Membership,
        me: BookieId,
        options: AutoRecoveryOptions,
        on_marked: Callable[[], None] | None = None,
    ) -> None:
        self.counts = AuditorCounts()
        self._shared = shared
        self._recovery = recovery
        self._members = members
        self._options = options
        self._on_marked = on_marked
        self._marks = Marks(shared.ledgers.store, shared.ledgers.root)
        self._election = Election(shared.ledgers.store, shared.ledgers.root, me)
        self._holdings = Holdings(shared)
        self._pace = Throttle(options.check_ledgers_per_s)
        self._plan = self._new_plan()
        self._delay: Stored | None = None
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Audit while we lead. Raises BookieError only when it is fatal."""
        root = self._shared.ledgers.root
        watched = (paths.recovery_disabled(root), paths.recovery_delay(root), paths.auditor_votes(root))
        ends = [self._shared.ledgers.store.watch(path, self._changed.set) for path in watched]
        ends.append(self._shared.watcher.on_change(self._changed.set))
        try:
            while True:
                self._changed.clear()
                try:
                    await self.turn()
                    self.counts.given_up = ""
                except errors.BookieError as error:
                    if error.fatal:
                        raise
                    self.counts.given_up = str(error) or type(error).__name__
                    log.warning("audit broken off, it is tried again reason=%s", error)
                with contextlib.suppress(TimeoutError):
                    async with TimeLimit(self._pause_ms() / 1000):
                        await self._changed.wait()
        finally:
            for end in ends:
                end()
            self.counts.is_leading = False

    def _pause_ms(self) -> float:
        """Return how long to wait for a change: nothing tells that the time of a bookie, or of a look, has come."""
        due_ns = self._plan.until_due_ns(self._shared.pool.now_ns())
        at_most_ms = self._members.until_loss_ms(self._options.poll_ms)
        return at_most_ms if due_ns is None else min(at_most_ms, due_ns / NS_PER_MS)

    async def withdraw(self) -> None:
        """Give up the vote."""
        await self._election.withdraw()

    async def turn(self) -> None:
        """Vote; if we lead and auto-recovery is on, make the look that is due. Raises BookieError."""
        leads = await self._election.leads()
        if leads != self.counts.is_leading:
            if leads:
                await self._election.announce()
            log.info("this process %s", "is the auditor now" if leads else "is not the auditor any more")
            self.counts.is_leading = leads
            self.counts.unreadable = self.counts.misplaced = None
            self._plan, self._delay = self._new_plan(), None
        if not leads or not await self._recovery.is_enabled():
            return
        await self._hear_requests()
        was_believable = self._members.is_believable
        await self._members.look()
        if not self._members.is_believable:
            if was_believable:
                log.warning(
                    "more than half of the bookies are away at once: that looks like a trouble of the metadata store or"
                    " of the network, so none counts as lost"
                )
            return
        began_ms, now_ns = self._shared.world.clock.wall_ms(), self._shared.pool.now_ns()
        self._plan.returned(self._members.take_returned(), now_ns)
        self._plan.probed(await self._probed_ns(began_ms, now_ns))
        lost = self._members.lost
        audit = self._plan.due(lost, now_ns)
        if audit is not None and await self._audit(audit, lost):
            self._plan.done(audit, lost, now_ns)
            if audit.probes:
                await self._recovery.note_full_check(began_ms)
            if self._members.lost - lost:  # named by a ledger and by no cookie: this look was the first to hear of them
                self._changed.set()

    async def _probed_ns(self, wall_ms: int, now_ns: int) -> int | None:
        """Return when the last full reading began, on our own clock. It stands where every auditor finds it, so that a
        new one does not begin with another. A time that has not come yet was of a clock ahead of ours: it says
        nothing."""
        if not self._options.probe_interval_ms:
            return None
        recorded_ms = await self._recovery.full_check_ms()
        return None if recorded_ms is None or recorded_ms > wall_ms else now_ns - (wall_ms - recorded_ms) * NS_PER_MS

    def _new_plan(self) -> AuditTimes:
        options = self._options
        return AuditTimes(
            audit_ns=options.audit_interval_ms * NS_PER_MS,
            check_ns=options.check_interval_ms * NS_PER_MS,
            probe_ns=options.probe_interval_ms * NS_PER_MS,
            grace_ns=options.return_grace_ms * NS_PER_MS,
        )

    async def _hear_requests(self) -> None:
        """Make the delay if nobody has; take a write that leaves it as it was, or 0, for a request
        (spec/metadata.md#M33)."""
        path = paths.recovery_delay(self._shared.ledgers.root)
        found = await find(self._shared.ledgers.store, path)
        if found is None:
            await self._recovery.set_delay_s(self._options.loss_delay_ms // 1000)
        elif (
            self._delay is not None and found.version != self._delay.version and found.data in (self._delay.data, b"0")
        ):
            self._plan.ask()
        self._delay = found

    async def _audit(self, audit: Audit, lost: frozenset[BookieId]) -> bool:
        """Look at every ledger; return False when it was switched off meanwhile, or our session ended."""
        ledgers = self._shared.ledgers
        session, marked = ledgers.store.session_id, 0
        # Our view of the registrations may be late: those who count as lost are asked for once more.
        gone = frozenset(await self._shared.watcher.look(sorted(lost)))
        unreadable = misplaced = 0
        placing = PlacementCheck(self._shared.watcher.candidates(), self._shared.watcher.placed())
        log.info("audit begins reason=%s", audit.reason)
        async for batch in in_batches(ledgers.iterate(), _BATCH):
            if ledgers.store.session_id != session or not await self._recovery.is_enabled():
                return False
            await self._members.look_at_leases()  # a look may last for hours
            found = await asyncio.gather(*(self._look(ledger_id, audit, gone, placing) for ledger_id in batch))
            marked += sum(each is not None and each.is_marked for each in found)
            misplaced += sum(each is not None and each.is_misplaced for each in found)
            unreadable += sum(each is None for each in found)
            if audit.asks_bookies:
                clock = self._shared.world.clock
                await clock.sleep_until(self._pace.take(len(batch), clock.monotonic_ns()))
        self.counts.audits += 1
        self.counts.unreadable, self.counts.misplaced = unreadable, misplaced
        told = "audit done reason=%s marked=%d unreadable=%d misplaced=%d"
        log.info(told, audit.reason, marked, unreadable, misplaced)
        return True

    async def _look(
        self, ledger_id: LedgerId, audit: Audit, gone: frozenset[BookieId], placing: PlacementCheck
    ) -> _Looked | None:
        """Look at one ledger. Return None when its record cannot be read."""
        try:
            metadata, _ = await self._shared.ledgers.get(ledger_id)
            found = await self._judge(ledger_id, metadata, audit, gone)
            # What only the record says is as new as the audit's beginning, and the worker looks again.
            if found.missing and audit.asks_bookies:
                await self._shared.ledgers.store.sync(self._shared.ledgers.path(ledger_id))
                metadata, _ = await self._shared.ledgers.get(ledger_id)
                found = await self._judge(ledger_id, metadata, audit, gone)
        except errors.LedgerMissing:
            return _Looked()  # deleted meanwhile
        except errors.BadInput as error:
            log.warning("a ledger's record cannot be read, so nobody can tell what it lacks id=%d %s", ledger_id, error)
            return None
        is_misplaced = bool(placing.misplaced(metadata))
        return _Looked(await self._mark(ledger_id, found), is_misplaced)

    async def _mark(self, ledger_id: LedgerId, found: Mending) -> bool:
        """Mark what lacks replicas; return True when the mark is new."""
        now_ms = self._shared.world.clock.wall_ms()
        if not found.missing or not await self._marks.mark(ledger_id, found.missing, now_ms):
            return False
        self.counts.marked += 1
        log.info("ledger marked, it lacks replicas ledger_id=%d bookies=%s", ledger_id, ",".join(found.missing))
        if self._on_marked is not None:
            self._on_marked()
        return True

    async def _judge(
        self, ledger_id: LedgerId, metadata: LedgerMetadata, audit: Audit, gone: frozenset[BookieId]
    ) -> Mending:
        named = mending.named(metadata)
        standings = self._members.standings(named)
        for each in named:  # lost as this look began, and asked for: else it is the next one's
            if standings[each] is Standing.LOST and each not in gone:
                standings[each] = Standing.AWAY
        spared = self._members.leased
        asked = [
            each
            for each in named
            if standings[each] is Standing.PRESENT and audit.compares(each) and each not in spared
        ]
        holdings: dict[BookieId, Holding] = {}
        if asked:
            self.counts.compared += 1
            holdings = await self._holdings.ask(ledger_id, metadata, asked, reads=False, probes=audit.probes)
        return mending.judge(metadata, standings, holdings)
