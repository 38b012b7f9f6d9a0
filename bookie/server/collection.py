"""Decides when to collect garbage and compact logs: at intervals, and when a person asks.

There is no "delete ledger" request: a bookie learns that a ledger is gone from the metadata store alone
(spec/metadata.md#M10, M38). So it must be the store of our own cluster that says it, after a sync, and not an emptied
or a restored one; and no more than a day's worth of it without a person (`storage.collect.brake`).
"""

import asyncio
import itertools
import logging
from collections.abc import Iterator
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, LedgerId
from bookie.base.rounds import Rounds
from bookie.client import cluster
from bookie.client.ledgers import LedgerStore
from bookie.metadata import paths
from bookie.ports.admin import BlockedLedger, Compaction, GarbageReport
from bookie.ports.clock import Clock
from bookie.ports.metadata_store import find
from bookie.ports.metrics import Sample
from bookie.ports.time_limit import TimeLimit
from bookie.server import surplus
from bookie.server.giving_up import GivingUp
from bookie.server.surplus import Surplus
from bookie.storage.collect import collector
from bookie.storage.collect.brake import Amount
from bookie.storage.collect.compactor import Compacted, Compactor
from bookie.storage.collect.daily import DailyCounts
from bookie.storage.collect.plan import Kind
from bookie.storage.collect.undecided import Undecided
from bookie.storage.store import EntryStore

log = logging.getLogger(__name__)

UNDECIDED_SHOWN_MAX = 100  # admin.proto, GarbageReport.undecided


@dataclass(frozen=True, slots=True)
class _Asked:
    """A run that a person asked for and waits for (`Collection.collect_now`)."""

    compaction: Compaction
    released: int
    looks_only: bool
    answer: "asyncio.Future[GarbageReport]"


class Collection:
    """Runs collector and compactor of one bookie: one run at a time, in the task of `run`.

    What ends a run ends the node only when it is fatal: the next run tries again.
    """

    def __init__(
        self,
        store: EntryStore,
        ledgers: LedgerStore,
        compactor: Compactor,
        counts: DailyCounts,
        instance_id: str,
        *,
        clock: Clock,
        me: BookieId,
        interval_ms: int,
        surplus_wait_ms: int | None = None,
        giving_up: GivingUp | None = None,
        rounds: Rounds | None = None,
    ) -> None:
        self._store = store
        self._ledgers = ledgers
        self._compactor = compactor
        self._counts = counts
        self._undecided = Undecided()
        self._clock = clock
        self._surplus = Surplus(surplus_wait_ms)
        self._giving_up = giving_up
        self._rounds = rounds or Rounds()
        self._me = me
        self._last: collector.Collected | None = None
        self._instance_id = instance_id
        self._interval_s = interval_ms / 1000
        self._asked: asyncio.Queue[_Asked] = asyncio.Queue(8)

    @property
    def held(self) -> Amount | None:
        """Return the ledgers and bytes that the brake kept in the last run; None before the first run."""
        return None if self._last is None else self._last.held

    def samples(self) -> Iterator[Sample]:
        """Yield what was collected in the last day and what the brake kept, for metrics."""
        day = self._counts.total()
        texts = [("gc_day_ledgers", "Ledgers", day.ledgers), ("gc_day_bytes", "Bytes of ledgers", day.size_bytes)]
        for name, what, value in texts:
            yield Sample(f"bookie_{name}", "gauge", f"{what} collected within a day (24 hours of running).", value)
        yield from self._surplus.samples()
        held = self.held
        if held is not None or len(self._undecided):
            text = "Ledgers of which the metadata store cannot say whether they may go; kept, asked about again."
            yield Sample("bookie_gc_undecided_ledgers", "gauge", text, len(self._undecided))
        if held is not None:  # nobody has looked yet: no number is better than a zero
            text = "that the metadata store no longer has and the brake keeps: a person must look."
            yield Sample("bookie_gc_held_ledgers", "gauge", f"Ledgers {text}", held.ledgers)
            yield Sample("bookie_gc_held_bytes", "gauge", f"Bytes of ledgers {text}", held.size_bytes)

    async def collect_now(
        self, compaction: Compaction, *, released: int = 0, looks_only: bool = False
    ) -> GarbageReport:
        """Wait for one run that begins after this call, whatever the intervals say.
        Raises the error that ended it, or TooManyRequests.

        `released`: so many ledgers may go beyond the brake, in this run alone. `looks_only`: nothing goes.
        """
        answer: asyncio.Future[GarbageReport] = asyncio.get_running_loop().create_future()
        try:
            self._asked.put_nowait(_Asked(compaction, released, looks_only, answer))
        except asyncio.QueueFull:
            raise errors.TooManyRequests("too many runs of garbage collection wait already; try later") from None
        return await answer

    async def run(self) -> None:
        """Wait an interval, collect, and again. When the store gives no sure answer, give the run up;
        the next one tries again."""
        try:
            while True:
                try:
                    async with TimeLimit(self._interval_s):
                        asked = await self._asked.get()
                except TimeoutError:
                    await self._turn()
                else:
                    await self._answer(asked)
        finally:
            while not self._asked.empty():
                _tell_of_the_end(self._asked.get_nowait().answer)

    async def _turn(self) -> None:
        """Collect, then compact, even after a failed collection: compaction asks the metadata store nothing."""
        for what, work in (("garbage collection", self._collect), ("compaction", self._compactor.run)):
            try:
                done = await work()
            except BookieError as error:
                if error.fatal:
                    raise
                self._rounds.given_up(what, error)
                log.warning("%s given up, the next run tries again reason=%s", what, error)
            else:
                _tell(done)
                if isinstance(done, Compacted) or (done is not None and not self._undecided.is_unasked):
                    self._rounds.came_to_end(what)  # else none was due, or its questions were not

    async def _answer(self, asked: _Asked) -> None:
        answer = asked.answer
        try:
            found = await self._collect(released=asked.released, looks_only=asked.looks_only)
            done = None
            if asked.compaction is not Compaction.NONE and not asked.looks_only:
                done = await self._compactor.compact(Kind(asked.compaction.value), is_forced=True)
        except BookieError as error:
            if not answer.done():  # the caller may be gone
                answer.set_exception(error)
            if error.fatal:
                raise
        else:
            _tell(found)
            _tell(done)
            if not answer.done():
                answer.set_result(_report(found, done, self._undecided))
        finally:
            _tell_of_the_end(answer)

    async def _collect(self, *, released: int = 0, looks_only: bool = False) -> collector.Collected:
        self._surplus.begin(self._clock.monotonic_ns())
        if self._giving_up is not None:
            await self._ledgers.store.sync(self._ledgers.root)  # once for the first of two looks at each record
        found = await collector.collect(
            self._store, self._is_absent, self._counts, self._undecided, released=released, looks_only=looks_only
        )
        if found.held != self.held and found.held_reason:
            log.warning("garbage held ledgers=%d bytes=%d reason=%s", *found.held, found.held_reason)
        elif self._last is not None and self._last.held_reason and not found.held_reason:
            log.info("garbage no longer held")
        if self._surplus.end():
            log.info("surplus found ledgers=%d", self._surplus.ledgers)
        self._last = found
        if self._giving_up is not None and not looks_only:
            self._surplus.given_up += await self._giving_up.run(self._surplus.due(), found)
        return found

    async def _is_absent(self, ledger_id: LedgerId) -> bool:
        """Return True only when our own cluster's store, after a sync, has no such ledger, and nothing came for it
        since that was asked. Raises MetadataError."""
        path = self._ledgers.path(ledger_id)
        stored = await find(self._ledgers.store, path)
        if stored is not None:
            self._look_for_surplus(ledger_id, stored.data)
            return False
        # Rare from here on: one deleted ledger costs a few more questions.
        found = await cluster.instance_id(self._ledgers.store, self._ledgers.root)
        if found != self._instance_id:
            raise errors.MetadataError(
                f"the metadata store is now cluster {found!r}, not {self._instance_id!r}; correct metadataServiceUri"
            )
        self._store.watch(ledger_id)
        try:
            await self._ledgers.store.sync(path)
            # A record that is not where this layout has it, but where another would, is a layout that was changed.
            for path in paths.ledger_paths(self._ledgers.root, ledger_id):
                if await find(self._ledgers.store, path) is not None:
                    return False
        finally:
            is_quiet = self._store.end_watch(ledger_id)
        # An answer is as old as its question. Whatever came since may be of a ledger made anew under this id; what came
        # before belongs to a record that the looks after the sync would have found. The caller awaits nothing more.
        return is_quiet

    def _look_for_surplus(self, ledger_id: LedgerId, record: bytes) -> None:
        if surplus.is_surplus(record, self._me):
            if self._store.has_entries(ledger_id):
                is_quiet = self._giving_up is not None and self._store.watch_surplus(ledger_id)
                self._surplus.found(ledger_id, self._clock.monotonic_ns(), is_quiet=is_quiet)
        elif self._store.is_given_up(ledger_id) and surplus.names(record, self._me):
            self._store.named_again(ledger_id)


def _tell_of_the_end(answer: "asyncio.Future[GarbageReport]") -> None:
    if not answer.done():
        answer.set_exception(errors.StorageFailed("this bookie is stopping"))


def _tell(done: collector.Collected | Compacted | None) -> None:
    if isinstance(done, collector.Collected) and (done.ledgers_deleted or done.logs_dropped):
        log.info("garbage collected ledgers=%d logs=%d", done.ledgers_deleted, done.logs_dropped)
    elif isinstance(done, Compacted) and (done.logs or done.refused):
        log.info("logs compacted logs=%d entries=%d refused=%r", done.logs, done.entries, done.refused)


def _report(found: collector.Collected, done: Compacted | None, undecided: Undecided) -> GarbageReport:
    done = done or Compacted()
    first = itertools.islice(undecided, UNDECIDED_SHOWN_MAX)
    return GarbageReport(
        ledgers_seen=found.ledgers_seen,
        ledgers_deleted=found.ledgers_deleted,
        logs_dropped=found.logs_dropped,
        logs_compacted=done.logs,
        logs_damaged=done.logs_damaged,
        entries_copied=done.entries,
        bytes_copied=done.bytes,
        bytes_freed=done.bytes_freed,
        refused=done.refused,
        ledgers_held=found.held.ledgers,
        bytes_held=found.held.size_bytes,
        held_first=found.held_first,
        held_reason=found.held_reason,
        ledgers_day=found.day.ledgers,
        bytes_day=found.day.size_bytes,
        ledgers_allowed=found.allowed.ledgers,
        bytes_allowed=found.allowed.size_bytes,
        undecided=tuple(BlockedLedger(ledger_id, reason) for ledger_id, reason in first),
        undecided_count=len(undecided),
    )
