"""Runs garbage collection: deletes ledgers that are proven gone, then drops entry logs that held only such ledgers.

Must never delete on a doubt (spec/bp46.md#S20): a ledger in limbo or not examined yet, a store that is not proven yet,
a metadata store that does not answer, or one that suddenly lacks more than a day's worth of what is here (`brake`). A
ledger directory that takes no writes any more is left as it is, to the restart; the others are collected beside it.
"""

import asyncio
import contextlib
import dataclasses
import logging
from array import array
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import LedgerId
from bookie.storage.collect import brake, plan, survey
from bookie.storage.collect.brake import Amount
from bookie.storage.collect.daily import DailyCounts
from bookie.storage.collect.undecided import Undecided
from bookie.storage.partition import Partition
from bookie.storage.store import EntryStore

log = logging.getLogger(__name__)

# Answers True only when the metadata store has confirmed that the ledger does not exist, and nothing came for it while
# the answer was on its way: so nothing is awaited between it and the deletion. Raises when it cannot tell.
IsAbsent = Callable[[LedgerId], Awaitable[bool]]

# Of what the brake holds, for people who want to look one up.
_FIRST_COUNT = 10
# Ledgers asked about at once in the first look, so that they hide each other's round trips; what goes is asked about
# again, one by one.
_ASKED_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Collected:
    """What one run deleted, and what the brake kept although the metadata store no longer has it."""

    ledgers_seen: int
    ledgers_deleted: int
    logs_dropped: int
    held: Amount = Amount()
    held_first: tuple[LedgerId, ...] = ()
    held_reason: str = ""  # "": the brake holds nothing
    day: Amount = Amount()  # collected in the last day, this run included
    allowed: Amount = Amount()  # may go in this day, beside what went before this run


@dataclass(frozen=True, slots=True)
class _DeletedLedgers:
    """The ledgers of one directory that the metadata store no longer has:
    eight bytes each, as there may be millions."""

    partition: Partition
    ledger_ids: "array[int]"
    size_bytes: int

    @property
    def amount(self) -> Amount:
        return Amount(len(self.ledger_ids), self.size_bytes)


async def collect(
    store: EntryStore,
    is_absent: IsAbsent,
    counts: DailyCounts | None = None,
    undecided: Undecided | None = None,
    *,
    released: int = 0,
    looks_only: bool = False,
) -> Collected:
    """Run once over every ledger in directories that take writes. A ledger for which `is_absent` has no answer is kept,
    and listed in `undecided`; when `is_absent` answers for no ledger any more, raise its error and delete no ledger.

    First all that is gone is found; then the brake rules over all of it; then each is asked about again, and deleted.
    `counts` None: without the brake. `released`: so many may go whatever the brake says, for a person said so; they
    are not counted, or they would hold tomorrow's. `looks_only`: nothing goes.

    CRASH: logs are dropped only after the flush that made their ledgers' deletion durable; before it, the ledgers are
    back after a restart and the next run finds them again.
    """
    if counts is not None:
        counts.keep_time()
    undecided = Undecided() if undecided is None else undecided
    undecided.begin(all_due=looks_only or released > 0)
    ask = _Asking(store, is_absent, undecided)
    seen, found, here = 0, [], Amount()
    try:
        for partition in _that_take_writes(store):
            count, gone, size_bytes = await _look(ask, partition)
            seen += count
            here = here.plus(Amount(count, size_bytes))
            if gone.ledger_ids:
                found.append(gone)
        ask.check_answered()
    except BookieError:
        await _flush_and_drop(store)  # what is dead already needs nobody's answer
        raise
    done = Collected(seen, 0, 0) if counts is None else _ruled(store, found, here, counts)
    if looks_only:
        return done
    if not done.held_reason or done.held.ledgers <= released:
        deleted = await _delete(ask, found, None if done.held_reason else counts)
        day = done.day if counts is None else counts.total()
        done = Collected(seen, deleted, 0, day=day, allowed=done.allowed)
    return dataclasses.replace(done, logs_dropped=await _flush_and_drop(store))


class _Asking:
    """Asks the metadata store about single ledgers during one run. No answer about a ledger keeps that ledger alone."""

    def __init__(self, store: EntryStore, is_absent: IsAbsent, undecided: Undecided) -> None:
        self.store = store
        self._is_absent = is_absent
        self._undecided = undecided
        self._last_error: BookieError | None = None

    async def is_gone(self, ledger_id: LedgerId) -> bool | None:
        """Return True when the ledger may be deleted; None when the store has no answer now, or the next question is
        not due. Raises errors that concern more than this one ledger."""
        return self._noted(ledger_id, await self._ask(ledger_id))

    async def which_are_gone(self, ledger_ids: Sequence[LedgerId]) -> list[LedgerId]:
        """Return those of which `is_gone` says so, in order, asked all at once. Raises what `is_gone` raises, once all
        have ended; what must stop the node before anything else."""
        answers = await asyncio.gather(*map(self._ask, ledger_ids), return_exceptions=True)
        for each in answers:
            if isinstance(each, BaseException) and (not isinstance(each, BookieError) or each.fatal):
                raise each
        # Noted in the order of the ledgers: those that time out end last, and would look like a store that is silent.
        said = zip(ledger_ids, answers, strict=True)
        return [ledger_id for ledger_id, answer in said if self._noted(ledger_id, answer)]

    async def _ask(self, ledger_id: LedgerId) -> bool | BookieError | None:
        """Return whether the ledger is absent, or why the store does not say; None: its question is not due."""
        if not self._undecided.is_due(ledger_id):
            return None
        try:
            return _may_go(self.store, ledger_id) and await self._is_absent(ledger_id)
        except BookieError as error:
            return error

    def _noted(self, ledger_id: LedgerId, answer: bool | BaseException | None) -> bool | None:
        """Keep what `_ask` returned; return what `is_gone` does."""
        if answer is None:
            return None
        if isinstance(answer, BaseException):
            assert isinstance(answer, BookieError)
            self._last_error = answer
            is_answer = isinstance(answer, errors.MetadataDenied)  # about one record: many of them are no silence
            if answer.fatal or self._undecided.failed(
                ledger_id, str(answer) or type(answer).__name__, is_answer=is_answer
            ):
                raise answer
            return None
        self._undecided.decided(ledger_id)
        return answer and _may_go(self.store, ledger_id)

    def check_answered(self) -> None:
        """Raise the last error when the store answered no question of this run."""
        if self._undecided.is_silent and self._last_error is not None:
            raise self._last_error


async def _look(ask: _Asking, partition: Partition) -> tuple[int, _DeletedLedgers, int]:
    """Return (ledgers seen, those of them that are gone, bytes of all)."""
    seen, gone, batch = 0, array("q"), list[LedgerId]()
    async with contextlib.aclosing(partition.table.walk()) as ledgers:
        async for ledger_id in ledgers:
            if _may_go(ask.store, ledger_id):
                seen += 1
                batch.append(ledger_id)
            if len(batch) == _ASKED_AT_ONCE:
                gone.extend(await ask.which_are_gone(batch))
                batch.clear()
    gone.extend(await ask.which_are_gone(batch))
    if not gone:
        return seen, _DeletedLedgers(partition, gone, 0), 0
    size_bytes, gone_bytes = await survey.sizes(partition, frozenset(map(LedgerId, gone)))
    return seen, _DeletedLedgers(partition, gone, gone_bytes), size_bytes


def _may_go(store: EntryStore, ledger_id: LedgerId) -> bool:
    return store.facts(ledger_id) is not None and not store.may_be_lost(ledger_id)


def _ruled(store: EntryStore, found: Sequence[_DeletedLedgers], here: Amount, counts: DailyCounts) -> Collected:
    """Ask the brake about all ledgers found, before any of them is deleted."""
    amount, day = brake.total(gone.amount for gone in found), counts.total()
    ruling = brake.rule(amount, here, day, store.options.brake)
    done = Collected(here.ledgers, 0, 0, day=day, allowed=ruling.allowed)
    if not ruling.reason:
        return done
    first = [LedgerId(ledger_id) for gone in found for ledger_id in gone.ledger_ids[:_FIRST_COUNT]]
    return dataclasses.replace(done, held=amount, held_first=tuple(first[:_FIRST_COUNT]), held_reason=ruling.reason)


async def _delete(ask: _Asking, found: Sequence[_DeletedLedgers], counts: DailyCounts | None) -> int:
    """Delete the ledgers found that are still gone: a person may have restored metadata records meanwhile."""
    deleted = 0
    for gone in found:
        if counts is not None:
            counts.count(gone.partition.number, gone.amount)
        for number in gone.ledger_ids:
            ledger_id = LedgerId(number)
            if await ask.is_gone(ledger_id):
                ask.store.delete_ledger(ledger_id)
                deleted += 1
    return deleted


async def _flush_and_drop(store: EntryStore) -> int:
    """Make the deletions durable, then drop logs that hold only deleted ledgers; return how many logs."""
    try:
        await store.flush()
    except errors.PartitionFailed:
        # The others' checkpoints went on (`Checkpointer.checkpoint_all`). If one of those had no space, its deletions
        # may not be durable: the survey takes such ledgers for alive.
        return await drop_dead_logs(store)
    except errors.DiskFull:
        # Deletions are durable all the same where the index had space (`checkpoint`): what they leave dead makes room.
        dropped = await drop_dead_logs(store)
        if not dropped:
            raise
        await store.flush()
        return dropped
    return await drop_dead_logs(store)


def _that_take_writes(store: EntryStore) -> list[Partition]:
    return [partition for partition in store.partitions if partition.failure is None]


async def drop_dead_logs(store: EntryStore) -> int:
    """Remove entry logs that hold entries of no present ledger; return how many."""
    dropped = 0
    for partition in _that_take_writes(store):
        for log_id in plan.dead(await survey.survey(partition)):
            try:
                await survey.drop(partition, log_id)
            except errors.StorageFailed as error:
                if error.fatal:
                    raise
                log.warning("entry log not removed log_id=%d reason=%s", log_id, error)
            else:
                dropped += 1
    return dropped
