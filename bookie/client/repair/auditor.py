"""The auditor: finds ledgers that lack replicas, and marks them in Java's queue for workers, ours and Java's.

One process leads (`election`); the others wait. It looks at every ledger's record after a sync, never at one that was
kept. What looks like a hole is looked at once more, with a record read after another sync, before it is marked: the
ledger may be deleted or moved, or the bookie may have filled the hole by itself. Who is under maintenance is left
alone. Rules: spec/metadata.md#M45 to M48, M50.

Never: a change of a ledger, a copy, a fence. A mark is all that it writes, beside its vote and the cluster's delay. Nor
does what is wrong with one ledger, or its record, keep the others from being looked at: it is counted and told, for
nobody knows then what that ledger lacks. A metadata store that gives no answer ends the look.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from bookie.base import errors
from bookie.base.ids import BookieId, LedgerId
from bookie.base.throttle import Throttle
from bookie.base.units import NS_PER_MS
from bookie.client.ledgers import in_batches, told_as_defect
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
# Of one look: so many ledgers that could not be looked at are named in the log.
_TOLD_MAX = 100


@dataclass(slots=True)
class AuditorCounts:
    """Since the start of the process. `unreadable` (ledgers that could not be looked at), `misplaced`: at the last look
    of this process as the auditor; None before it, and once another process looks. `left_out`: what that look could not
    look at, for a person; "" for nothing. `given_up`: why the last turn was broken off; "" when it came to its end.
    `defects`: errors of ours at one ledger."""

    is_leading: bool = False
    audits: int = 0
    compared: int = 0
    marked: int = 0
    unreadable: int | None = None
    misplaced: int | None = None
    left_out: str = ""
    given_up: str = ""
    defects: int = 0

    @property
    def incomplete(self) -> str:
        """Return why nobody may rely on the last look to have seen all, for a person; "" when it did."""
        return self.given_up or self.left_out


@dataclass(frozen=True, slots=True)
class _Looked:
    """What a look at one ledger came to. `problem`: why nobody can tell what it lacks."""

    is_marked: bool = False
    is_misplaced: bool = False
    problem: str = ""


@dataclass(slots=True)
class _LeftOut:
    """What one look could not look at."""

    ledgers: int = 0
    first: str = ""
    branches: list[str] = field(default_factory=list)  # of the tree of ledgers, which nobody may list

    def add(self, ledger_id: LedgerId, problem: str) -> None:
        self.first = self.first or f"ledger {ledger_id}: {problem}"
        self.ledgers += 1

    def told(self) -> str:
        """Return it in one sentence; "" for nothing."""
        said = [f"{self.ledgers} ledgers could not be looked at, the first is {self.first}"] if self.ledgers else []
        if self.branches:
            said.append(f"{len(self.branches)} branches of ledgers could not be listed: {self.branches[0]}")
        return "; ".join(said)


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
            self.counts.left_out = ""
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
        """Look at every ledger; return False when it was switched off meanwhile, or our session ended. What could not
        be looked at is in the counts. Raises MetadataError."""
        ledgers = self._shared.ledgers
        session, marked = ledgers.store.session_id, 0
        # Our view of the registrations may be late: those who count as lost are asked for once more.
        gone = frozenset(await self._shared.watcher.look(sorted(lost)))
        misplaced, left_out = 0, _LeftOut()
        placing = PlacementCheck(self._shared.watcher.candidates(), self._shared.watcher.placed())
        log.info("audit begins reason=%s", audit.reason)
        async for batch in in_batches(ledgers.iterate(left_out.branches), _BATCH):
            if ledgers.store.session_id != session or not await self._recovery.is_enabled():
                return False
            await self._members.look_at_leases()  # a look may last for hours
            is_told = left_out.ledgers < _TOLD_MAX
            found = await asyncio.gather(*(self._look(each, audit, gone, placing, is_told=is_told) for each in batch))
            marked += sum(each.is_marked for each in found)
            misplaced += sum(each.is_misplaced for each in found)
            for ledger_id, each in zip(batch, found, strict=True):
                if each.problem:
                    left_out.add(ledger_id, each.problem)
            if audit.asks_bookies:
                clock = self._shared.world.clock
                await clock.sleep_until(self._pace.take(len(batch), clock.monotonic_ns()))
        self.counts.audits += 1
        self.counts.unreadable, self.counts.misplaced = left_out.ledgers, misplaced
        self.counts.left_out = left_out.told()
        told = "audit done reason=%s marked=%d unreadable=%d misplaced=%d"
        log.info(told, audit.reason, marked, left_out.ledgers, misplaced)
        return True

    async def _look(
        self,
        ledger_id: LedgerId,
        audit: Audit,
        gone: frozenset[BookieId],
        placing: PlacementCheck,
        *,
        is_told: bool,
    ) -> _Looked:
        """Look at one ledger. What is wrong with this one alone is its `problem`: those behind it must be looked at
        too. Raises MetadataError when the metadata store does not answer. `is_told`: name it in the log."""
        problem = ""
        try:
            return await self._look_at(ledger_id, audit, gone, placing)
        except errors.LedgerMissing:
            return _Looked()  # deleted meanwhile
        except errors.BookieError as error:
            if error.fatal or (isinstance(error, errors.MetadataError) and not isinstance(error, errors.UNREADABLE)):
                raise
            problem = str(error) or type(error).__name__
        except Exception as error:  # ours, at this ledger
            self.counts.defects += 1
            if is_told:
                log.exception("error of ours at one ledger ledger_id=%d", ledger_id)
            problem = told_as_defect(error)
        if is_told:
            log.warning("nobody can tell what a ledger lacks ledger_id=%d reason=%s", ledger_id, problem)
        return _Looked(problem=problem)

    async def _look_at(
        self, ledger_id: LedgerId, audit: Audit, gone: frozenset[BookieId], placing: PlacementCheck
    ) -> _Looked:
        metadata, _ = await self._shared.ledgers.get(ledger_id)
        found = await self._judge(ledger_id, metadata, audit, gone)
        # What only the record says is as new as the audit's beginning, and the worker looks again.
        if found.missing and audit.asks_bookies:
            await self._shared.ledgers.store.sync(self._shared.ledgers.path(ledger_id))
            metadata, _ = await self._shared.ledgers.get(ledger_id)
            found = await self._judge(ledger_id, metadata, audit, gone)
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
