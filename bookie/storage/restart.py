"""Opens the store after a stop, a kill or a power cut: load marks, replay, cut the torn tail, then return the store.

Afterwards everything that was ever acknowledged through the journal is in the entry logs and the index, durably; the
journal begins a new file. Idempotent: cut anywhere, the next start does the same work again from the same marks.
Must never skip a record: what does not check and may have been acknowledged is CorruptFile, and the node stays down;
what checks and makes no sense quarantines its ledger (`replay`), and the node comes up.
"""

import contextlib
import logging
from collections.abc import Awaitable, Callable

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.units import NS_PER_MS
from bookie.ports import World
from bookie.storage import dirs, growth, replay
from bookie.storage import partition as partition_module
from bookie.storage.checkpoint import checkpoint
from bookie.storage.entrylog.logs import EntryLogs
from bookie.storage.entrylog.writer import LogWriter
from bookie.storage.index import Index
from bookie.storage.journal import files, reader
from bookie.storage.journal import format as journal_format
from bookie.storage.journal.batch import JournalPosition
from bookie.storage.journal.format import WholeRecord
from bookie.storage.journal.writer import JournalWriter
from bookie.storage.ledger_table import LedgerTable
from bookie.storage.options import StorageOptions
from bookie.storage.partition import Partition
from bookie.storage.read_ahead import DiskReadAhead
from bookie.storage.read_cache import ReadCache
from bookie.storage.shapes import Routing
from bookie.storage.stats import StorageStats
from bookie.storage.store import EntryStore

log = logging.getLogger(__name__)


async def open_store(
    options: StorageOptions,
    world: World,
    *,
    fail: Callable[[BookieError], None],
    accept_loss: bool = False,
    must_exist: bool = False,
    grow_from: int | None = None,
    epoch: int = 0,
) -> EntryStore:
    """Open or create the store. The store calls `fail` once, when the node must stop.

    `accept_loss`: integrity has a grant to go on without a volume that is gone; journal files the marks ask for may be
    missing then (what is there is still checked). `must_exist`: integrity knows that there is a store; an index that is
    empty is damage then, not a beginning. `grow_from`: integrity has proven that only so many of the ledger
    directories were ever this bookie's; the others are added now, where that is not done (`growth`). `epoch`: of this
    boot, kept beside the limbo marks of ledgers that an earlier life touched; they are durable on return, or still in
    the journal behind the mark. Raises RefusedToStart, CorruptFile, StorageFailed.
    """
    disk, clock = world.disk, world.clock
    stats = StorageStats()
    began_ns = clock.monotonic_ns()
    async with contextlib.AsyncExitStack() as undo:
        await dirs.prepare(disk, options)
        locks = await dirs.lock(disk, options)
        undo.callback(dirs.release, locks)
        every: list[Partition] = []
        for number in range(len(options.ledger_dirs)):
            partition = await _open_partition(options, world, number, stats)
            undo.push_async_callback(partition.index.close)
            undo.push_async_callback(partition.logs.close)
            every.append(partition)
        journal_count = len(options.journal_dirs)
        rules = growth.StartRules(accept_loss=accept_loss, must_exist=must_exist, grow_from=grow_from)
        history = growth.begin(every, journal_count, rules)
        routing = Routing(history)
        partitions = every[: routing.count]  # those to be added have no part in what was before them
        journals = []
        beyond = 0
        for number, directory in enumerate(options.journal_dirs):
            journal = _journal_in(directory, options, world, stats)
            undo.push_async_callback(journal.close)
            journal_replay = _Replay(
                options, world, partitions, routing, number, stats, accept_loss=accept_loss, epoch=epoch
            )
            last_id, last_end = await journal_replay.run(journal.directory)
            beyond = max(beyond, journal_replay.beyond)
            await journal.open(last_id + 1, last_end, touched_to=journal_replay.touched_to)
            journals.append(journal)
        marks = tuple(journal.synced for journal in journals)
        for partition in partitions:
            # CRASH: without space all stays as it was: in memory, and in the journal from the old mark on.
            await _as_far_as_space_goes(
                checkpoint(partition, lambda: marks, stats, is_last=True), accept_loss=accept_loss
            )
        routing = Routing(await growth.finish(every, history, journal_count, beyond=beyond))
        for number, journal in enumerate(journals):
            await journal.trim(min(partition.marks[number] for partition in every))
        stats.replay_ns = clock.monotonic_ns() - began_ns
        if stats.entries_replayed:
            log.info("journal replayed entries=%d ms=%d", stats.entries_replayed, stats.replay_ns // NS_PER_MS)
        if stats.touches_replayed:
            log.info("ledgers in limbo, entries of them were in memory alone touches=%d", stats.touches_replayed)
        store = EntryStore(options, world, every, routing, journals, stats, locks, fail=fail)
        await store.start()
        undo.pop_all()
    return store


def _journal_in(directory: str, options: StorageOptions, world: World, stats: StorageStats) -> JournalWriter:
    """Return the journal of one directory, not open yet. Its files have the format that may hold touches only in a life
    that makes some."""
    return JournalWriter(
        world.disk,
        dirs.current(directory),
        world.entropy,
        world.clock,
        file_bytes_max=options.journal_file_bytes_max,
        stats=stats,
        version=journal_format.TOUCH_VERSION if options.makes_touches else journal_format.VERSION,
    )


async def _as_far_as_space_goes(work: Awaitable[bool], *, accept_loss: bool) -> bool:
    """Do `work`; return False when there was no space. With a full disk a bookie starts read-only and serves what it
    has.

    Raises DiskFull after a loss: what is taken for the beginning of a new incarnation must be durable."""
    try:
        await work
    except errors.DiskFull as error:
        if accept_loss:
            raise
        log.warning("no space at start, read-only until there is reason=%s", error)
        return False
    return True


async def _open_partition(options: StorageOptions, world: World, number: int, stats: StorageStats) -> Partition:
    index_directory = f"{dirs.current(options.index_dirs_used[number])}/{dirs.INDEX}"
    index = Index(await world.ordered_stores.open(index_directory))
    async with contextlib.AsyncExitStack() as undo:
        undo.push_async_callback(index.close)
        # CRASH: the store makes its own directory; without its name all that is flushed into it would be lost, while
        # the journal is trimmed by what it said (found by the simulator).
        await world.disk.sync_dir(dirs.current(options.index_dirs_used[number]))
        partition_module.begin_reading(index, f"the index of ledger directory {number + 1}")
        partition_module.check_place(
            index, number=number, journals=len(options.journal_dirs), configured=len(options.ledger_dirs)
        )
        logs = EntryLogs(world.disk, dirs.current(options.ledger_dirs[number]))
        await logs.load()
        await logs.check_versions()
        next_id = partition_module.next_log_id(index, logs)
        writer = LogWriter(logs, next_id=next_id, log_bytes_max=options.entry_log_bytes_max)
        table = LedgerTable(index, cached_max=options.ledgers_cached_max)
        table.load_quarantined()
        table.doubt = index.doubt
        table.has_given_up = partition_module.has_given_up(index)
        cache = ReadCache(options.read_cache_bytes_max)
        window_bytes_max = min(options.read_ahead_bytes_max, options.read_cache_bytes_max // 4)
        ahead = DiskReadAhead(index, logs, cache, stats, window_bytes_max=window_bytes_max)
        partition = Partition(number, index, logs, writer, table, cache, ahead)
        partition.marks = partition_module.load_marks(index, len(options.journal_dirs))
        undo.pop_all()
    return partition


class _Replay:
    """Replays one journal's records into their partitions."""

    def __init__(
        self,
        options: StorageOptions,
        world: World,
        partitions: list[Partition],
        routing: Routing,
        number: int,
        stats: StorageStats,
        *,
        accept_loss: bool,
        epoch: int,
    ) -> None:
        self._options = options
        self._disk = world.disk
        self._partitions = partitions
        self._routing = routing
        self._number = number
        self._stats = stats
        self._accept_loss = accept_loss
        self._epoch = epoch
        self._has_space = True
        self.touched_to = 0  # the last file that may hold a TOUCH
        self.beyond = 0  # an id above every ledger that a record names, whether it was applied or not

    async def run(self, directory: str) -> tuple[int, int]:
        """Replay and cut a torn tail. Return the id and the end of the last file (0, 0 when there is none)."""
        mark = min(partition.marks[self._number] for partition in self._partitions)
        newest = max(partition.marks[self._number] for partition in self._partitions)
        ids = await reader.find_files(self._disk, directory, mark, newest, accept_loss=self._accept_loss)
        last_id, last_end = newest.file_id if self._accept_loss else 0, 0
        previous_end: int | None = None
        for file_id in ids:
            file = await reader.load_file(
                self._disk,
                directory,
                file_id,
                is_last=file_id == ids[-1],
                previous_end=previous_end,
                accept_loss=self._accept_loss,
                newest=newest,
            )
            path = files.path_of(directory, file_id)
            if file is None:
                # CRASH: never begun, so nothing was ever put in it; its id is used again at once.
                await self._disk.remove(path)
                await self._disk.sync_dir(directory)
                break
            if file.header.version == journal_format.TOUCH_VERSION:
                self.touched_to = file_id
            start = mark.offset if file_id == mark.file_id else 0
            if self._accept_loss:
                start = min(start, len(file.data))  # what the checkpoint reached may be among what is missing
            for record in file.records(start):
                await self._take(record, JournalPosition(file_id, record.end), path)
            if not self._accept_loss:
                file.check_reaches(newest)
            if file_id == ids[-1]:
                # CRASH: the torn tail was never acknowledged. It goes durably before the next file is begun, because
                # in a file that is not the last one the same bytes would be rot. A whole tail is synced for the same
                # reason: after a kill it may be in the page cache only, and the power may fail next.
                await self._settle(path, file.end)
            previous_end = file.end
            last_id, last_end = max(last_id, file_id), file.end
        return last_id, last_end

    async def _settle(self, path: str, end: int) -> None:
        """Cut `path` at `end`; sync the file and its name, as a kill may have come before either sync."""
        file = await self._disk.open(path)
        try:
            if file.size > end:
                await file.truncate(end)
            await file.sync()
        finally:
            await file.close()
        await self._disk.sync_dir(path.rsplit("/", 1)[0])

    async def _take(self, record: WholeRecord, end: JournalPosition, path: str) -> None:
        reason = replay.complaint(record)
        if reason:
            for ledger_id in replay.whose(record, reason, path):
                self.beyond = max(self.beyond, ledger_id + 1)
                partition = self._partitions[self._routing.number_of(ledger_id)]
                if end > partition.marks[self._number]:
                    partition.table.quarantine(ledger_id, f"its journal holds {reason}")
            return
        self.beyond = max(self.beyond, record.ledger_id + 1)
        partition = self._partitions[self._routing.number_of(record.ledger_id)]
        if end <= partition.marks[self._number]:
            return  # this partition's checkpoint went further than the one that made us begin here
        replay.apply(partition, record, epoch=self._epoch)
        self._stats.entries_replayed += record.kind == journal_format.ENTRY
        self._stats.touches_replayed += record.kind == journal_format.TOUCH
        if partition.active.size_bytes > self._options.write_cache_bytes_max and self._has_space:
            # Bounds memory. The marks stay where they are: only a finished replay earns new ones. Without space
            # memory takes all of it: the life before held it in memory too.
            work = checkpoint(partition, lambda: partition.marks, self._stats)
            self._has_space = await _as_far_as_space_goes(work, accept_loss=self._accept_loss)
