"""The order in which a checkpoint makes things durable: entry logs, index, mark, journal trim. One task runs it.

    rotate ─► append to entry logs ─► sync logs ─► index: log id, deletions, use, places, facts, mark ─► flush ─► trim
              (1)                     (2)          (3)                                                    (4)      (5)

CRASH, at any point: before (4) returns, the durable index is the old one (or a prefix of (3), whose locations point at
bytes synced in (2), and which lacks the mark); the journal from the old mark on is untouched and replays. After (4) the
mark and all it covers are durable together. (5) removes only files before every partition's durable mark.

What a log holds of whom ("use") goes before the locations in it: copied and unjournaled entries are found again by a
durable prefix alone, and the collector drops a log of which no use is known.

Use, LACs and the locations of ledgers with few entries go into deltas (`deltas`), one row for some thousand ledgers;
every few checkpoints, and before the log that they name is one that the collector looks at, rows are made of them.
Under load that comes after (4), when the write cache has room again. CRASH: rows first, then the deltas go; what both
say is the same.

A failure keeps the generation, the dirty rows and the earned marks (spec/storage.md#E3, E4): the next checkpoint
finishes this one before it begins another, and no mark moves meanwhile. Facts are written however empty the cache is
(spec/storage.md#E1, E5, E6; spec/bp46.md#S11).
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import INVALID_ENTRY_ID
from bookie.base.units import MIB, NS_PER_MS
from bookie.ports.clock import Clock
from bookie.ports.time_limit import TimeLimit
from bookie.storage import run
from bookie.storage.entrylog import format as log_format
from bookie.storage.index import HINTS_MAX
from bookie.storage.journal.batch import Completion, JournalPosition
from bookie.storage.journal.writer import JournalWriter
from bookie.storage.log_use import LogUse
from bookie.storage.partition import Partition
from bookie.storage.pause import pause
from bookie.storage.run import Placed
from bookie.storage.stats import StorageStats
from bookie.storage.write_cache import CacheGeneration

# The loop is given back between batches, so these bound how long a request may wait for a checkpoint: 1 ms, of entries
# of 100 B 3 ms. Each batch is a hop to the disk's thread: with a quarter of it an unjournaled add cost 6.0 us, not 5.3.
LOG_BATCH_BYTES = 2 * MIB
INDEX_BATCH_COUNT = 2048
_ENTRIES_COUNT = 4096  # of ledgers with few entries each takes half a microsecond, of others the row of its block
_DELETIONS_COUNT = 256  # each takes 6 us, 9 where deltas name the ledger
assert LOG_BATCH_BYTES < 64 * MIB
_SHORT_RETRY_MS = 200  # after a shortage of descriptors or memory, which passes sooner than a full disk
# In the order in which `health` is to hear of them: where one disk is full and another is short, all wait for space.
_TRIED_AGAIN = (errors.PartitionFailed, errors.OutOfResources, errors.DiskFull)


async def checkpoint(
    partition: Partition,
    marks: Callable[[], tuple[JournalPosition, ...]],
    stats: StorageStats,
    *,
    is_last: bool = False,
) -> bool:
    """Make everything durable that `partition` held at the call; return False when there was nothing to do.

    `is_last`: leave no deltas. A checkpoint that has nothing else to do leaves none either.

    Raises DiskFull and OutOfResources (may be tried again), PartitionFailed (never again in this life; nothing is lost,
    write cache and journal have it all), or what else the disk raised (then the node stops).
    """
    if partition.failure is not None:
        raise partition.failure
    if partition.flushing is None:
        earned = marks()
        is_idle = partition.is_clean and earned == partition.marks
        if is_idle and partition.index.deltas.is_empty:
            if partition.index.hints > (0 if is_last else HINTS_MAX):
                await partition.index.flush()  # on a bookie that writes nothing no other flush comes
            return False
        is_last = is_last or is_idle
        partition.rotate(earned)
    generation = partition.flushing
    assert generation is not None
    if partition.written is None:
        try:
            partition.written = await _write_logs(partition, generation)
        except errors.DiskFull:
            await _forget_deleted(partition)
            raise
    written = partition.written  # a second attempt writes no second copy
    await partition.writer.sync()
    partition.save_next_log()
    # Deletions first: a ledger that was deleted and made anew keeps what this generation holds of the new one.
    await _change_deleted(partition)
    if partition.fresh_use:
        partition.begin_deltas()
        await _change_use(partition)
        await _change_entries(partition, written)
        partition.index.deltas.checkpoints += 1
    await _write_rows(partition)
    if is_last and not partition.index.deltas.is_empty:
        await _end_deltas(partition)  # nobody waits for room, and it needs no flush of its own
    partition.save_marks()
    await partition.index.flush()
    stats.entries_flushed += sum(len(placed.entry_ids) for placed in written)
    partition.is_making_rows = _is_due(partition)
    partition.rotated_out()
    if partition.is_making_rows:
        await _end_deltas_beside_adds(partition)
    return True


async def _end_deltas(partition: Partition) -> None:
    """Make rows of the deltas, and remove these. CRASH: rows first; what both say is the same."""
    await partition.index.write_changed_rows(partition.table.lac_rows_of)
    partition.end_deltas()


async def _end_deltas_beside_adds(partition: Partition) -> None:
    """End the deltas, which takes long where many ledgers are written: adds go on meanwhile, as the generation that was
    written has left its half of the memory. After a failure the next checkpoint begins anew with it, and the collector
    may look at all logs meanwhile: it may have to make the room."""
    try:
        await _end_deltas(partition)
        await partition.index.flush()
    finally:
        partition.is_making_rows = False


async def _write_logs(partition: Partition, generation: CacheGeneration) -> list[Placed]:
    """Step (1): write every entry into a log. Return each entry's location; no index row names it yet.

    Raises DiskFull, OutOfResources; then the logs are as long as before. Raises PartitionFailed.
    """
    written: list[Placed] = []
    fresh: LogUse = {}
    partition.writer.begin()
    try:
        for batch in generation.batches(LOG_BATCH_BYTES):
            log_id, locations = await partition.writer.append(batch.bodies)
            written.append(Placed(batch.ledger_ids, batch.entry_ids, locations))
            known = partition.log_use.get(log_id, {})
            run.count_use(batch, log_format.RECORD_HEAD_SIZE, known, fresh.setdefault(log_id, {}))
    except (errors.DiskFull, errors.OutOfResources):
        await partition.writer.roll_back()
        raise
    except errors.StorageFailed as error:
        # A write that was refused, not a sync: what is on the disk is what was there before, and nothing points beyond.
        partition.failure = errors.PartitionFailed(f"ledger directory {partition.number + 1} takes no writes: {error}")
        raise partition.failure from error
    for log_id, ledgers in fresh.items():
        partition.log_use.setdefault(log_id, {}).update(ledgers)
    partition.fresh_use = fresh
    return written


async def _forget_deleted(partition: Partition) -> None:
    """Make deletions durable alone, when the logs had no space: they let the collector drop logs, which makes space.
    CRASH: the mark stays as it is, and the index has no other part of this checkpoint yet."""
    table = partition.table
    table.join_deleted()
    if not table.deleting:
        return
    with contextlib.suppress(
        errors.DiskFull, errors.OutOfResources
    ):  # the index has no space either: nothing is lost, nothing is won
        await _change_deleted(partition)
        await partition.index.flush()
        table.deleting = {}


async def _change_deleted(partition: Partition) -> None:
    """Step (3), deletions: remove ledgers from the index. The row of one that was made anew is replaced by its present
    one, packed in the same step: of the earlier life a crash brings back no fence, key or mark."""
    table = partition.table
    for number, ledger_id in enumerate(table.deleting, 1):
        partition.index.forget(ledger_id, anew=table.rows_of_known(ledger_id))
        if number % _DELETIONS_COUNT == 0:
            await pause()


async def _change_use(partition: Partition) -> None:
    """Step (3), use: put what the logs hold of whom now into the index, and the LACs of these ledgers."""
    known = partition.table.known
    for log_id, use in partition.fresh_use.items():
        items = list(use.items())
        for start in range(0, len(items), INDEX_BATCH_COUNT):
            batch = items[start : start + INDEX_BATCH_COUNT]
            found = [known.get(ledger_id) for ledger_id, _ in batch]
            lacs = [INVALID_ENTRY_ID if ledger is None else ledger.lac for ledger in found]
            partition.index.change_use(log_id, batch, lacs)
            await pause()


async def _change_entries(partition: Partition, written: Sequence[Placed]) -> None:
    """Step (3), entries: put their locations into the index; let other tasks run between steps of at most
    `_ENTRIES_COUNT`."""
    for placed in written:
        start, count = 0, len(placed.entry_ids)
        while start < count:
            start += partition.index.change_entries(run.part(placed, start, min(start + _ENTRIES_COUNT, count)))
            await pause()


def _is_due(partition: Partition) -> bool:
    """Return True when the deltas should become rows: there are many, or they name a log that is full."""
    deltas = partition.index.deltas
    return deltas.are_many or any(log_id != partition.writer.current_id for log_id in deltas.use)


async def _write_rows(partition: Partition) -> None:
    """Step (3), facts: write the rows of ledgers whose facts changed. Each row is packed just before its
    write: one packed earlier would undo what `protect` wrote meanwhile."""
    table = partition.table
    waiting = list(table.flushing.values())
    for start in range(0, len(waiting), INDEX_BATCH_COUNT):
        batch = waiting[start : start + INDEX_BATCH_COUNT]
        partition.index.put_many(table.rows_of(batch))
        partition.index.delete(table.released_of(batch))
        await pause()
    current = partition.writer.current_id
    partition.log_use = {log_id: ledgers for log_id, ledgers in partition.log_use.items() if log_id == current}


class Checkpointer:
    """Runs checkpoints: at least every interval, when a cache is full, and on request. Nothing else runs one.

    `on_trouble` is told of every failure; `on_turn` runs after every turn, done or failed.
    """

    def __init__(
        self,
        partitions: Sequence[Partition],
        journals: Sequence[JournalWriter],
        clock: Clock,
        stats: StorageStats,
        *,
        interval_ms: int,
        on_trouble: Callable[[BookieError], None],
        on_turn: Callable[[], Awaitable[None]],
    ) -> None:
        self._partitions = partitions
        self._journals = journals
        self._clock = clock
        self._stats = stats
        self._interval_ms = interval_ms
        self._on_trouble = on_trouble
        self._on_turn = on_turn
        self._waiting: list[Completion] = []
        self._wake = asyncio.Event()
        self._is_closing = False

    def request(self, done: Completion | None = None) -> None:
        """Ask for a checkpoint that begins after this call; call `done` on the loop when that checkpoint is durable."""
        if done is not None:
            self._waiting.append(done)
        self._wake.set()

    def stop(self) -> None:
        """Let `run` end after one last checkpoint."""
        self._is_closing = True
        self._wake.set()

    def give_up(self, error: BookieError) -> None:
        """Answer all requests that still wait with `error`; call after `run` has ended."""
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done(error)

    async def run(self) -> None:
        """Run checkpoints until one after `stop` is done, or until one fails in a way that must not be repeated."""
        is_last = is_short = False
        while not is_last:
            wait_ms = min(self._interval_ms, _SHORT_RETRY_MS) if is_short else self._interval_ms
            with contextlib.suppress(TimeoutError):
                async with TimeLimit(wait_ms / 1000):
                    await self._wake.wait()
            self._wake.clear()
            is_last = self._is_closing
            waiting, self._waiting = self._waiting, []
            error: BookieError | None = None
            try:
                await self.checkpoint_all(is_last=is_last)
            except BookieError as caught:
                error = caught
                self._stats.checkpoint_failures += 1
                self._on_trouble(error)
            await self._on_turn()
            for done in waiting:
                done(error)
            is_short = isinstance(error, errors.OutOfResources)
            if is_short and waiting:
                # A caller that asks again and again must not make this loop spin.
                await self._clock.sleep_until(self._clock.monotonic_ns() + _SHORT_RETRY_MS * NS_PER_MS)
            if error is not None and not isinstance(error, _TRIED_AGAIN):
                return

    async def checkpoint_all(self, *, is_last: bool = False) -> None:
        """Checkpoint every partition, trim every journal to the least of their marks, resume suspended journals.

        A partition that is full or takes no writes holds up nothing of the others but the trim. At the end one such
        error is raised, and `on_trouble` is told of the others. When no partition takes writes the node has no use:
        raises DiskFailed.
        """
        began_ns = self._clock.monotonic_ns()
        suspended = [journal for journal in self._journals if journal.is_suspended]
        worked = False
        troubles: list[BookieError] = []
        for partition in self._partitions:
            try:
                worked |= await self._checkpoint(partition, is_last=is_last)
            except _TRIED_AGAIN as error:
                troubles.append(error)
        for number, journal in enumerate(self._journals):
            await journal.trim(min(partition.marks[number] for partition in self._partitions))
        if all(partition.failure is not None for partition in self._partitions):
            raise errors.DiskFailed(str(troubles[0]))
        if troubles:
            *others, last = sorted(troubles, key=lambda each: _TRIED_AGAIN.index(type(each)))
            for other in others:
                self._on_trouble(other)
            raise last
        for journal in suspended:
            await journal.resume()
        if worked:
            self._stats.checkpoints += 1
            self._stats.checkpoint_ns += self._clock.monotonic_ns() - began_ns

    async def _checkpoint(self, partition: Partition, *, is_last: bool) -> bool:
        if partition.flushing is not None:  # a failed one comes first, then what has gathered since
            await checkpoint(partition, self._marks, self._stats)
        worked = await checkpoint(partition, self._marks, self._stats, is_last=is_last)
        partition.table.trim(partition.is_busy)
        return worked

    def _marks(self) -> tuple[JournalPosition, ...]:
        return tuple(journal.synced for journal in self._journals)
