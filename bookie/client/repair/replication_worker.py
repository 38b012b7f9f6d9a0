"""The replication worker: takes marked ledgers from the queue, under Java's locks, and makes them whole.

For each ledger: lock, read its record after a sync, ask the bookies it names what they hold, and then, in this order,

    fill in place        copy what a named bookie lacks, or has damaged, to that bookie; the metadata does not change
    end                  recover a ledger whose last ensemble names a lost bookie, once its writer is silent
    replace              copy a lost bookie's share to others and name those (`evacuation`, with its transaction)

until another look finds nothing to do; only then the mark goes, if it is the one that was read. Copies are verified
before and forced after (`replica_copier`). A bookie that may have lost entries says so (limbo) and repairs itself: it
is waited for, so that the two never copy the same. Each round of a fill asks for the list again, for the same reason.

What cannot be done now stands with its reason, a defect of ours too, and is tried again after a pause that doubles; a
new mark, or any change among the bookies, ends the pause. Rules: spec/metadata.md#M44, M47, M48. CRASH: at any point
the mark stands, the lock ends with the session, and copies without a name in the metadata are surplus; the next worker
begins again.

Never: a copy of an entry behind the end of what is decided, a change of metadata but by `evacuation` and `recovery`.
"""

import asyncio
import contextlib
import itertools
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import INVALID_ENTRY_ID, BookieId, EntryId, LedgerId
from bookie.base.throttle import Throttles
from bookie.base.units import NS_PER_MS, NS_PER_S
from bookie.client.ledgers import told_as_defect
from bookie.client.net.bookies import BookieClient
from bookie.client.read import lac
from bookie.client.repair import recovery
from bookie.client.repair.autorecovery import AutoRecovery
from bookie.client.repair.autorecovery_options import AutoRecoveryOptions
from bookie.client.repair.evacuation import Evacuation, StoredLedger
from bookie.client.repair.holdings import Holdings
from bookie.client.repair.marks import Marks
from bookie.client.repair.membership import Membership
from bookie.client.repair.places import Places
from bookie.client.repair.queue_progress import Progress, QueueProgress
from bookie.client.repair.replica_copier import ReplicaCopier
from bookie.client.repair.replication_lock import Later, ReplicationLock, locked
from bookie.client.shared import Shared
from bookie.metadata import paths
from bookie.metadata.ledger import LedgerMetadata, LedgerState
from bookie.ports.time_limit import TimeLimit
from bookie.quorum import mending, silence
from bookie.quorum.mending import Mending, Standing
from bookie.quorum.silence import Silence

log = logging.getLogger(__name__)

# Copied between two lists, and so between two forces, of the bookie that is filled.
_FILL_ENTRIES = 2_048
# Entries of one ledger that nobody gives, before it is left for now.
_UNREADABLE_MAX = 64
# Entries read of a bookie that gave no good copy of some, between two forces of it. No more than may be unreadable: so
# a copy of them tries each.
_RENEW_ENTRIES = _UNREADABLE_MAX
# Looks at one ledger in one attempt: each but the last did something.
_LOOKS_MAX = 20
_TOKEN_BYTES = 8
_WRITER_POLL_MS = 1_000
_ASKED_AGAIN_NS = NS_PER_S


class LedgerBlocked(BookieError):
    """A ledger cannot be made whole now; the text says what stands against it."""

    retryable = True


class WriterWaitedFor(LedgerBlocked):
    """Its writer may be alive, and is given time: no failure."""


class _PlacesTaken(BookieError):
    """A bookie is filled by as many ledgers as may at once: this one is called when one of them is done."""


@dataclass(slots=True)
class _Attempts:
    """What is known of one marked ledger that is not whole yet."""

    reason: str = ""
    failures: int = 0
    due_ns: int = 0
    missing: tuple[BookieId, ...] = ()  # as the mark says
    silence: Silence | None = None
    # Where the fill of a bookie left off because nobody gave so many entries: the next attempt goes on behind them.
    left_at: dict[BookieId, EntryId] = field(default_factory=dict)


@dataclass(slots=True)
class WorkerCounts:
    """Since the start of the process. `waiting`: marked ledgers at the last look at the queue; None before the first.
    `given_up`: why the last turn was broken off, or did not see the whole queue; "" when neither. `defects`: errors of
    ours at one ledger. Copies: `progress`."""

    waiting: int | None = None
    mended: int = 0
    failures: int = 0
    given_up: str = ""
    defects: int = 0


class ReplicationWorker:
    """Runs until cancelled. `blocked`: why each ledger that was tried and is marked still is not whole."""

    def __init__(
        self, shared: Shared, recovery_: AutoRecovery, members: Membership, options: AutoRecoveryOptions
    ) -> None:
        self.counts = WorkerCounts()
        self._shared = shared
        self._bookies = BookieClient(shared.pool)
        self._recovery = recovery_
        self._members = members
        self._options = options
        self._marks = Marks(shared.ledgers.store, shared.ledgers.root)
        self._holdings = Holdings(shared)
        self._throttles: Throttles[BookieId] = Throttles(options.bytes_per_s or None)
        self._attempts: dict[LedgerId, _Attempts] = {}
        self._marked: dict[LedgerId, None] = {}  # at the last look, without those that are whole since
        self._busy: dict[LedgerId, None] = {}  # those that we work on
        self._due_now: deque[LedgerId] = deque()  # of the turn that runs
        self._places = Places(options.ledgers_at_once)
        self._queue = QueueProgress()
        self._lost: frozenset[BookieId] = frozenset()
        self._asked_of: frozenset[BookieId] = frozenset()
        self._asked_ns = 0
        self._enabled_ns = -_ASKED_AGAIN_NS  # when auto-recovery was last seen switched on
        self._changed = asyncio.Event()

    @property
    def blocked(self) -> dict[LedgerId, str]:
        return {ledger_id: each.reason for ledger_id, each in sorted(self._attempts.items()) if each.reason}

    @property
    def lost(self) -> frozenset[BookieId]:
        """The bookies that counted as lost at the last look at the queue."""
        return self._lost

    @property
    def busy(self) -> list[LedgerId]:
        """The ledgers that are worked on now."""
        return sorted(self._busy)

    def progress(self) -> Progress:
        """Return how far this worker is with the queue."""
        return self._queue.estimate(self._marked, self.blocked, self._shared.pool.now_ns())

    def _copied(self, ledger_id: LedgerId, size: int) -> None:
        self._queue.copied(ledger_id, size, self._shared.pool.now_ns())

    async def run(self) -> None:
        """Work on the queue. Raises BookieError only when it is fatal."""
        ledgers = self._shared.ledgers
        # Of the queue's root we hear when it is empty no more; of marks beside others by looking again after a success.
        queue = paths.underreplicated_ledgers(ledgers.root)
        ends = [self._shared.watcher.on_change(self._bookies_changed), ledgers.store.watch(queue, self.wake)]
        try:
            while True:
                self._changed.clear()
                mended = self.counts.mended
                try:
                    await self.turn()
                except BookieError as error:
                    if error.fatal:
                        raise
                    self.counts.given_up = str(error) or type(error).__name__
                    log.warning("the queue cannot be worked on, tried again reason=%s", error)
                if self.counts.mended != mended:
                    continue
                with contextlib.suppress(TimeoutError):
                    async with TimeLimit(self._pause_s()):
                        await self._changed.wait()
        finally:
            for end in ends:
                end()

    def set_copy_rate(self, bytes_per_s: int | None) -> None:
        """Copy at another rate to each bookie from now on; None: no limit."""
        self._throttles.set_rate(bytes_per_s)

    def wake(self) -> None:
        """Look at the queue now: somebody marked a ledger."""
        self._changed.set()

    def _bookies_changed(self) -> None:
        """Any bookie that came, went or became writable may be what a blocked ledger waited for."""
        for each in self._attempts.values():
            each.due_ns = 0
        self.wake()

    def _pause_s(self) -> float:
        now_ns = self._shared.pool.now_ns()
        due = min((each.due_ns for each in self._attempts.values()), default=now_ns)
        soonest_ms = (due - now_ns) // NS_PER_MS if due > now_ns else self._options.poll_ms
        return min(max(1, soonest_ms), self._options.poll_ms) / 1000

    async def turn(self) -> None:
        """Try each marked ledger that is due, many at once; and what is marked or due by the time that a place among
        those is free: one ledger may take hours, and the next loss must not wait for it. Raises MetadataError when the
        queue cannot be read at first."""
        due = self._due_now = deque(await self._due())
        places: list[asyncio.Task[None]] = []
        async with asyncio.TaskGroup() as group:
            while True:
                places = [each for each in places if not each.done()]
                for _ in range(min(len(due), self._options.ledgers_at_once - len(places))):
                    places.append(group.create_task(self._keep_trying(due)))
                if not places:
                    return
                poll_s = self._options.poll_ms / 1000
                await asyncio.wait(places, timeout=poll_s, return_when=asyncio.FIRST_COMPLETED)
                if not due and not all(each.done() for each in places):
                    due.extend(await self._due_by_now())

    async def _keep_trying(self, due: deque[LedgerId]) -> None:
        while due:
            if not await self._may_go_on():
                due.clear()
                self._places.forget_waiting()
                return
            if due:  # another may have taken the last one meanwhile
                await self._try(due.popleft())

    async def _due_by_now(self) -> list[LedgerId]:
        """Return what `_due` does, for a turn that has begun: nothing where nobody can tell. Never raises what is not
        fatal, as `_may_go_on`."""
        try:
            return await self._due()
        except BookieError as error:
            if error.fatal:
                raise
            log.warning("the queue cannot be read beside the ledgers worked on, tried again reason=%s", error)
            return []

    async def _due(self) -> list[LedgerId]:
        """Return the marked ledgers that are due and not worked on by us, in any order. Raises MetadataError."""
        if not await self._recovery.is_enabled():
            self.counts.given_up = ""
            return []
        await self._members.look()
        if self._members.lost != self._lost:  # what waited for a bookie to return need not wait any longer
            self._lost = self._members.lost
            self._bookies_changed()
        left_out: list[str] = []
        marked = [ledger_id async for ledger_id in self._recovery.ledgers(left_out)]
        if left_out and left_out[0] != self.counts.given_up:
            log.warning("a part of the queue may not be listed, the rest is worked on reason=%s", left_out[0])
        self.counts.given_up = left_out[0] if left_out else ""
        self.counts.waiting = len(marked)
        self._marked = dict.fromkeys(marked)
        self._attempts = {each: self._attempts[each] for each in marked if each in self._attempts}
        now_ns = self._shared.pool.now_ns()
        due = [each for each in marked if each not in self._attempts or self._attempts[each].due_ns <= now_ns]
        due = [each for each in due if each not in self._busy and not self._places.is_waiting(each)]
        self._shared.world.entropy.shuffle(due)  # so that workers meet less often
        return due

    async def _may_go_on(self) -> bool:
        """Return False when auto-recovery was switched off, or nobody can tell: then the next turn asks. Never raises
        what is not fatal: it would leave a task group as a group, which `run` does not wait out."""
        now_ns = self._shared.pool.now_ns()
        if now_ns - self._enabled_ns < _ASKED_AGAIN_NS:
            return True
        try:
            is_enabled = await self._recovery.is_enabled()
            self._enabled_ns = now_ns if is_enabled else -_ASKED_AGAIN_NS
            return is_enabled
        except BookieError as error:
            if error.fatal:
                raise
            log.warning("no further ledger is begun now, tried again reason=%s", error)
            return False

    async def _try(self, ledger_id: LedgerId) -> None:
        attempts = self._attempts.setdefault(ledger_id, _Attempts())
        self._busy[ledger_id] = None
        try:
            await self._mend(ledger_id, attempts)
        except _PlacesTaken:
            return
        except errors.TooManyRequests as error:
            self._later(ledger_id, attempts, str(error), is_failure=False)
        except WriterWaitedFor as error:
            self._later(ledger_id, attempts, str(error), is_failure=False)
        except BookieError as error:
            if error.fatal:
                raise
            self._later(ledger_id, attempts, str(error) or type(error).__name__, is_failure=True)
        except Exception as error:  # ours, at this ledger: the others must not wait for who mends it
            self.counts.defects += 1
            log.exception("error of ours at one ledger ledger_id=%d", ledger_id)
            self._later(ledger_id, attempts, told_as_defect(error), is_failure=True)
        else:
            self._attempts.pop(ledger_id, None)
            self._marked.pop(ledger_id, None)
        finally:
            del self._busy[ledger_id]

    def _later(self, ledger_id: LedgerId, attempts: _Attempts, reason: str, *, is_failure: bool) -> None:
        options = self._options
        pause_ms = min(options.retry_ms << min(attempts.failures, 16), options.retry_ms_max)
        if is_failure:
            attempts.failures += 1
            self.counts.failures += 1
        else:
            pause_ms = min(pause_ms, _WRITER_POLL_MS)
        attempts.due_ns = self._shared.pool.now_ns() + pause_ms * NS_PER_MS
        if attempts.reason != reason:
            log.info("ledger not whole yet ledger_id=%d next_try_in_ms=%d reason=%s", ledger_id, pause_ms, reason)
        attempts.reason = reason

    # ---- one ledger --------------------------------------------------------------------------------------------------

    async def _mend(self, ledger_id: LedgerId, attempts: _Attempts) -> None:
        """Make one ledger whole and remove its mark. Raises BookieError when it is not whole yet."""
        ledgers = self._shared.ledgers
        holder = f"bookie-autorecovery-{self._shared.world.entropy.token(_TOKEN_BYTES).hex()}"
        later = Later(self._shared.tasks, self._shared.world.clock)
        async with locked(ledgers.store, ledgers.root, ledger_id, holder, later) as lock:
            mark = await self._marks.find(ledger_id)
            if mark is None:
                return
            if mark.record.missing != attempts.missing:  # a new loss: it is a new job
                attempts.missing, attempts.failures = mark.record.missing, 0
                attempts.left_at.clear()
            if not mark.record.missing and mark.is_readable:
                raise LedgerBlocked("it is marked because of its placement alone, which only Java's worker mends")
            try:
                with self._place_for(ledger_id, mark.record.missing):
                    await self._make_whole(lock, attempts)
            except errors.LedgerMissing:
                log.info("marked ledger is deleted ledger_id=%d", ledger_id)
            # CRASH: before this the mark stands, and the next worker finds nothing to do and removes it.
            if not await self._marks.done(ledger_id, mark.version, provided=lock.held):
                raise WriterWaitedFor("it was marked again meanwhile")
            self.counts.mended += 1
            log.info("ledger is whole ledger_id=%d", ledger_id)

    @contextlib.contextmanager
    def _place_for(self, ledger_id: LedgerId, missing: Sequence[BookieId]) -> Iterator[None]:
        """Hold a place among the ledgers that fill the same bookie; what lost bookies had goes to many others. Raises
        _PlacesTaken."""
        filled = next((each for each in missing if each in self._shared.watcher.records), None)
        if filled is None:
            yield
            return
        if not self._places.enter(filled, ledger_id):
            raise _PlacesTaken
        try:
            yield
        finally:
            called = self._places.leave(filled)
            if called is not None:
                self._due_now.appendleft(called)

    async def _make_whole(self, lock: ReplicationLock, attempts: _Attempts) -> None:
        ledgers, ledger_id = self._shared.ledgers, lock.ledger_id
        moved: StoredLedger | None = None
        for _ in range(_LOOKS_MAX):
            if moved is None:
                await ledgers.store.sync(ledgers.path(ledger_id))
            metadata, version = moved or await ledgers.get(ledger_id)
            moved = None
            found = await self._judge(ledger_id, metadata)
            self._queue.judged(ledger_id, metadata, found)
            if found.is_whole:
                return
            troubles = await self._fill_all(ledger_id, metadata, found, attempts)
            if found.lost:
                try:
                    moved = await self._replace(lock, metadata, version, found, attempts)
                except WriterWaitedFor:
                    if not troubles:
                        raise
                except errors.LedgerMissing:
                    raise
                except BookieError as error:
                    if error.fatal:
                        raise
                    troubles.append(str(error))
            if troubles or not (found.fills or found.lost):
                raise LedgerBlocked("; ".join([*troubles, *found.waits]))
        raise LedgerBlocked(f"it was not whole after {_LOOKS_MAX} rounds: its record or its bookies keep changing")

    async def _judge(self, ledger_id: LedgerId, metadata: LedgerMetadata) -> Mending:
        named = mending.named(metadata)
        standings = self._members.standings(named)
        present = [each for each in named if standings[each] is Standing.PRESENT]
        holdings = await self._holdings.ask(ledger_id, metadata, present, reads=True, probes=True)
        return mending.judge(metadata, standings, holdings)

    # ---- filling in place --------------------------------------------------------------------------------------------

    async def _fill_all(
        self, ledger_id: LedgerId, metadata: LedgerMetadata, found: Mending, attempts: _Attempts
    ) -> list[str]:
        """Fill every hole that can be filled; return why the others cannot."""
        troubles = []
        for shortage in found.fills:
            steps = [partial(self._fill, attempts=attempts)] + ([partial(self._renew)] if shortage.damaged else [])
            for step in steps:
                try:
                    await step(ledger_id, metadata, shortage.bookie_id)
                except BookieError as error:
                    if error.fatal:
                        raise
                    troubles.append(str(error))
        return troubles

    async def _fill(
        self, ledger_id: LedgerId, metadata: LedgerMetadata, bookie_id: BookieId, attempts: _Attempts
    ) -> None:
        """Copy to `bookie_id` what it lacks, durably. Raises LedgerBlocked after all that can be had was copied, or
        after so many entries that nobody gives: then the next attempt begins behind them."""
        life = await self._bookies.life(bookie_id)
        failed: dict[EntryId, str] = {}
        began_at = tried_to = attempts.left_at.pop(bookie_id, INVALID_ENTRY_ID)
        while len(failed) < _UNREADABLE_MAX:
            said = await self._holdings.ask(ledger_id, metadata, [bookie_id], reads=True)
            groups, reason = said[bookie_id].groups, said[bookie_id].reason
            if groups is None:
                raise LedgerBlocked(f"bookie {bookie_id} does not say what it holds: {reason}")
            missing = (each for each in mending.missing_entries(metadata, bookie_id, groups) if each > began_at)
            left = (each for each in missing if each not in failed)
            batch = list(itertools.islice(left, _FILL_ENTRIES))
            if not batch:
                break
            if batch[0] <= tried_to:
                raise LedgerBlocked(f"bookie {bookie_id} acknowledged entry {batch[0]} and does not list it")
            tried_to, problems = await self._copy(ledger_id, metadata, bookie_id, batch)
            failed |= problems
            # Before its answer counts: a bookie that does not journal acknowledges from memory.
            await self._bookies.force(bookie_id, ledger_id)
            if await self._bookies.life(bookie_id) != life:
                raise LedgerBlocked(f"bookie {bookie_id} restarted while it was filled: it is asked again")
        else:
            attempts.left_at[bookie_id] = tried_to
            attempts.failures = max(0, attempts.failures - 1)  # the pauses grow once all was tried
        if failed:
            raise LedgerBlocked(_one_of(failed))
        if began_at != INVALID_ENTRY_ID:
            raise LedgerBlocked(f"no bookie gave a good copy of entries up to {began_at}: they are asked for again")

    async def _renew(self, ledger_id: LedgerId, metadata: LedgerMetadata, bookie_id: BookieId) -> None:
        """Copy to `bookie_id` again, durably, what it lists and gives no good copy of: its whole share is read, since
        only the ends were. Raises LedgerBlocked when that leaves something, after all that can be had was copied."""
        life = await self._bookies.life(bookie_id)
        failed: dict[EntryId, str] = {}
        share = mending.missing_entries(metadata, bookie_id, ())  # the whole of it
        while batch := list(itertools.islice(share, _RENEW_ENTRIES)):
            damaged = await self._holdings.damaged(ledger_id, metadata, bookie_id, batch)
            if not damaged:
                continue
            _, problems = await self._copy(ledger_id, metadata, bookie_id, damaged)
            await self._bookies.force(bookie_id, ledger_id)
            if await self._bookies.life(bookie_id) != life:
                raise LedgerBlocked(f"bookie {bookie_id} restarted while it was filled: it is asked again")
            copied = [each for each in damaged if each not in problems]
            for each in await self._holdings.damaged(ledger_id, metadata, bookie_id, copied):
                problems[each] = f"bookie {bookie_id} acknowledged entry {each} and gives no good copy of it"
            failed |= dict(itertools.islice(problems.items(), max(0, _UNREADABLE_MAX - len(failed))))
        if failed:
            raise LedgerBlocked(_one_of(failed))

    async def _copy(
        self, ledger_id: LedgerId, metadata: LedgerMetadata, bookie_id: BookieId, entries: Sequence[EntryId]
    ) -> tuple[EntryId, dict[EntryId, str]]:
        """Copy entries to one bookie; return the last one that was tried, and why some could not be copied. Raises
        LedgerBlocked for a bookie that takes nothing."""
        at_once = self._options.entries_at_once
        copier = ReplicaCopier(
            self._shared,
            self._bookies,
            (bookie_id,),
            self._throttles,
            entries_at_once=at_once,
            on_copied=self._copied,
        )
        failed: dict[EntryId, str] = {}
        tried_to = INVALID_ENTRY_ID
        turns = iter(entries)
        while len(failed) < _UNREADABLE_MAX and (chunk := list(itertools.islice(turns, at_once))):
            problems = await asyncio.gather(*(copier.copy(ledger_id, metadata, each, [bookie_id]) for each in chunk))
            tried_to = chunk[-1]
            failed |= {each: str(why) for each, why in zip(chunk, problems, strict=True) if why is not None}
            refusals = [why for why in problems if why and not isinstance(why, errors.QuorumNotReached)]
            if len(refusals) == len(chunk):
                raise LedgerBlocked(str(refusals[0]))
        return tried_to, failed

    # ---- replacing ---------------------------------------------------------------------------------------------------

    async def _replace(
        self,
        lock: ReplicationLock,
        metadata: LedgerMetadata,
        version: int,
        found: Mending,
        attempts: _Attempts,
    ) -> StoredLedger | None:
        """Bring the share of lost bookies to others; return the record after it, where it was changed here. Raises
        WriterWaitedFor, NotEnoughBookies, QuorumNotReached, ..."""
        if not await self._are_still_lost(found.lost):
            return None  # back at this very moment, or away on purpose: the next look says what follows
        known: StoredLedger | None = (metadata, version)
        if found.must_end:
            await self._end(lock.ledger_id, metadata, version, attempts)
            known = None
        options = self._options
        evacuation = Evacuation(
            self._shared,
            found.lost,
            bytes_per_s=self._throttles,
            may_end=False,
            entries_at_once=options.entries_at_once,
            on_copied=self._copied,
        )
        try:
            return await evacuation.move_under(lock, known)
        except errors.NotEnoughBookies as error:
            raise errors.NotEnoughBookies(
                f"{error}; or bring {', '.join(found.lost)} back, even with empty disks: its holes are filled in place"
            ) from None

    async def _are_still_lost(self, bookies: Sequence[BookieId]) -> bool:
        """Ask the store whether these bookies are away, and not on purpose; once a second at most, since it costs as
        much as the rest of a small ledger. To move what a bookie holds that came back meanwhile is only needless."""
        now_ns, watcher = self._shared.pool.now_ns(), self._shared.watcher
        asked = frozenset(bookies)
        if asked != self._asked_of or now_ns - self._asked_ns > _ASKED_AGAIN_NS:
            await watcher.look(bookies)
            await self._members.look_at_leases()  # one turn may last for hours
            self._asked_of, self._asked_ns = asked, now_ns
        return asked.isdisjoint(watcher.records) and asked.isdisjoint(self._members.leased)

    async def _end(self, ledger_id: LedgerId, metadata: LedgerMetadata, version: int, attempts: _Attempts) -> None:
        """Close the ledger at its true end, unless a writer may still write to it (spec/bp46.md#T14)."""
        if metadata.state is LedgerState.OPEN:
            # Raises when too few bookies answer: that is no silence of the writer, and no recovery would end.
            confirmed = await lac.read_lac(self._shared, ledger_id, metadata, floor=INVALID_ENTRY_ID)
            now_ns = self._shared.pool.now_ns()
            attempts.silence = silence.after_look(attempts.silence, now_ns, confirmed, version)
            if not attempts.silence.is_over(now_ns, grace_ns=self._options.open_ledger_grace_ms * NS_PER_MS):
                raise WriterWaitedFor(
                    "it is open, and its writer may be alive: it is given time to replace the lost bookie by itself"
                )
        await recovery.recover(self._shared, ledger_id)


def _one_of(failed: dict[EntryId, str]) -> str:
    """Return why the lowest of these entries could not be copied, and how many more."""
    return f"{failed[min(failed)]}{f' (and {len(failed) - 1} more entries)' if len(failed) > 1 else ''}"
