"""EntryStore: add, read, fence, force, last confirmed; all that the server ever sees of the storage engine.

Every refusal is raised before anything changed; every accepted change is visible to reads at once and its completion
runs on the loop after it is durable, never inside the call. No call here waits for a disk unless it is a coroutine.
"""

import asyncio
import struct
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import EntryId, IdRange, LedgerId
from bookie.ports import World
from bookie.ports.disk import Buffer, Lock, Usage
from bookie.storage import dirs, heads, ledgers, limits
from bookie.storage.checkpoint import INDEX_BATCH_COUNT, Checkpointer, put_in_batches
from bookie.storage.health import StorageHealth
from bookie.storage.journal import format as journal_format
from bookie.storage.journal.batch import Completion, JournalPosition
from bookie.storage.journal.writer import JournalWriter
from bookie.storage.ledgers import FENCED, LIMBO, STATE_LOST, UNKNOWN_LAST, LacWatcher, Ledger, LedgerFacts
from bookie.storage.options import StorageOptions
from bookie.storage.partition import Partition
from bookie.storage.pause import pause
from bookie.storage.reads import EntryReads, TakeRanges
from bookie.storage.stats import StorageStats

_IDS = struct.Struct(">qq")

__all__ = ["Completion", "EntryStore", "LedgerFacts"]


class EntryStore:
    """Built by `restart.open_store`. One task per journal and one for checkpoints belong to it until `close`."""

    def __init__(
        self,
        options: StorageOptions,
        world: World,
        partitions: Sequence[Partition],
        journals: Sequence[JournalWriter],
        stats: StorageStats,
        locks: Sequence[Lock],
        *,
        fail: Callable[[BookieError], None],
    ) -> None:
        self.options = options
        self.stats = stats
        self.partitions = self._partitions = tuple(partitions)  # for collection and scrubbing
        self._journals = tuple(journals)
        self._locks = locks
        self._reads = EntryReads(self._partitions, stats)
        self._health = health = StorageHealth(options, world.disk, self._partitions, self._journals, fail=fail)
        self._journal_data = options.journal_write_data
        self._cache_bytes_max = options.write_cache_bytes_max
        self._flush_bytes = options.write_cache_bytes_max // 2  # the other half takes adds meanwhile
        self._pressure_bytes_max = options.pressure_bytes_max
        self._soon: list[Completion] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._has_let_go = False
        self._loop = asyncio.get_running_loop()
        self._checkpointer = Checkpointer(
            self._partitions,
            self._journals,
            world.clock,
            stats,
            interval_ms=options.checkpoint_interval_ms,
            on_trouble=health.on_trouble,
            on_turn=self._after_checkpoint,
        )
        for journal in self._journals:
            journal.on_trouble = self._on_journal_trouble

    # ---- adds -----------------------------------------------------------------------------------------------------

    def add(
        self,
        ledger_id: LedgerId,
        entry_ids: Sequence[EntryId],
        bodies: Sequence[bytes],
        master_key: bytes,
        *,
        is_recovery: bool,
        is_journaled: bool = False,
        done: Completion,
    ) -> None:
        """Accept entries of one ledger, at least one, all of them or, raising, none: Unauthorized, LedgerFenced,
        UnknownLedgerState, BadRequest, BookieReadOnly, TooManyRequests, StorageFailed.

        `done` runs after the journal's sync; without data in the journal, on the next turn of the loop (BP-46), unless
        `is_journaled` asks for the journal all the same: a start replays what is in it, whatever the option says. Adds
        with deferred sync (BP-14) are stored like any other: the server may answer one before `done` only to a
        client that counts that for this life alone (`server/adds.py`; spec/bp46.md#T17).
        """
        partition = self._partitions[ledger_id % len(self._partitions)]
        lac = heads.check(ledger_id, entry_ids, bodies)
        size = sum(map(len, bodies))
        limits.check_add(ledger_id, size)
        ledger = partition.table.known.get(ledger_id)
        is_known = True
        if partition.active.size_bytes > self._flush_bytes:
            self._relieve(partition)
        journal = self._journals[ledger_id % len(self._journals)]
        if journal.is_backlogged:
            raise errors.TooManyRequests("the journal disk does not keep up with the adds; try again")
        if ledger is None or ledger.flags or ledger.master_key != master_key or self._health.is_refusing:
            ledger = self._admit(partition, ledger_id, master_key, is_recovery=is_recovery)
            is_known = False
        partition.active.put_run(ledger_id, entry_ids, bodies, size)
        if ledger.lac < lac:
            ledger.lac = lac
            if ledger.watchers:
                self._notify(ledger)
        if ledger.last != UNKNOWN_LAST:
            ledger.last = max(ledger.last, *entry_ids)
        stats = self.stats
        stats.adds += len(bodies)
        stats.added_bytes += size
        if self._journal_data or is_journaled:
            journal.put_run(ledger_id, entry_ids, bodies, done)
        elif is_known:
            self._complete_soon(done)
        else:
            self._after_journal(ledger_id, done)  # the ledger's key may be on its way: it is durable first

    def add_copied(self, ledger_id: LedgerId, entry_id: EntryId, body: Buffer, master_key: bytes) -> None:
        """Keep an entry copied from another bookie: readable at once, not journaled, durable after `flush`.

        Raises Unauthorized, BadRequest, StorageFailed, TooManyRequests (await `room` before).
        """
        data = body if type(body) is bytes else bytes(body)
        lac = heads.check(ledger_id, [entry_id], [data])
        limits.check_add(ledger_id, len(data))
        partition = self._partition(ledger_id)
        ledger = self._find_for_copy(partition, ledger_id, master_key)
        if partition.active.size_bytes > self._flush_bytes:
            self._relieve(partition)
        partition.active.put(ledger_id, entry_id, data)
        ledger.lac = max(ledger.lac, lac)
        if ledger.last < entry_id and ledger.last != UNKNOWN_LAST:
            ledger.last = entry_id

    def _admit(self, partition: Partition, ledger_id: LedgerId, master_key: bytes, *, is_recovery: bool) -> Ledger:
        """The slow path of `add`: every reason to refuse, then a ledger that may be written."""
        self._health.check_accepting()
        if self.is_read_only and not is_recovery:
            raise errors.BookieReadOnly("this bookie is read-only")
        ledger = partition.table.find(ledger_id)
        partition.table.check_judgeable(ledger_id)
        if ledger is not None and not ledger.allows(master_key):
            raise errors.Unauthorized(f"wrong master key for ledger {ledger_id}")
        if ledger is not None and not is_recovery:
            refusal = ledger.refusal()
            if refusal is not None:
                raise refusal
        return self._find_or_create(partition, ledger_id, master_key, is_journaled=True)

    def _relieve(self, partition: Partition) -> None:
        """The write cache fills: checkpoint; stop reading sockets, then refuse, when even that does not keep up."""
        if partition.active.size_bytes > self._pressure_bytes_max:
            raise errors.TooManyRequests("the write cache is full: the ledger disk does not keep up")
        if partition.flushing is None:
            self._checkpointer.request()
        elif partition.active.size_bytes > self._cache_bytes_max and not self._health.is_stuck:
            self._health.room.clear()
            self._checkpointer.request()

    # ---- fences and LACs -------------------------------------------------------------------------------------------

    def fence(self, ledger_id: LedgerId, master_key: bytes, done: Completion) -> None:
        """Refuse normal adds to the ledger from now on; `done` once that is durable, also when it was fenced before.

        A ledger never seen is made, with the key that the fence record carries, so that replay fences it too
        (spec/storage.md#E2). Raises Unauthorized, BadRequest, UnknownLedgerState, StorageFailed; BookieReadOnly only
        while the journal has no space: a fence would not last.
        """
        self._health.check_accepting()
        partition = self._partition(ledger_id)
        before = partition.table.find(ledger_id)
        partition.table.check_judgeable(ledger_id)
        has_key = before is not None and bool(before.master_key)
        ledger = self._find_or_create(partition, ledger_id, master_key, is_journaled=False)
        if ledger.flags & FENCED and has_key:
            self._after_journal(ledger_id, done)
            return
        ledger.flags |= FENCED
        partition.table.changed(ledger)
        self.stats.fences += 1
        self._journal(ledger_id).put(journal_format.FENCE, ledger_id, journal_format.NO_ENTRY, ledger.master_key, done)

    def write_lac(self, ledger_id: LedgerId, lac_body: Buffer, master_key: bytes, done: Completion) -> None:
        """Keep an explicit LAC. Raises Unauthorized, BadRequest, UnknownLedgerState, BookieReadOnly, StorageFailed."""
        body = bytes(lac_body)
        if len(body) < ledgers.EXPLICIT_LAC_MIN_SIZE or _IDS.unpack_from(body)[0] != ledger_id:
            raise errors.BadRequest(f"an explicit LAC of {len(body)} bytes that is not one of ledger {ledger_id}")
        limits.check_explicit_lac(ledger_id, len(body))
        self._health.check_accepting()
        partition = self._partition(ledger_id)
        partition.table.find(ledger_id)
        partition.table.check_judgeable(ledger_id)
        ledger = self._find_or_create(partition, ledger_id, master_key, is_journaled=True)
        before = ledger.lac
        ledger.take_lac(body)
        partition.table.changed(ledger)
        self._journal(ledger_id).put(journal_format.LAC, ledger_id, journal_format.NO_ENTRY, body, done)
        if ledger.lac > before and ledger.watchers:
            self._notify(ledger)

    def last_confirmed(self, ledger_id: LedgerId) -> EntryId:
        """The highest LAC any writer supplied, -1 when none. In limbo it is a lower bound, as true as ever.

        Raises NoSuchLedger.
        """
        return self._reads.known(self._partition(ledger_id), ledger_id).lac

    def watch_lac(self, ledger_id: LedgerId, callback: LacWatcher) -> Callable[[], None]:
        """Call `callback(lac)` on the loop after each advance; returns what ends it. Raises NoSuchLedger."""
        ledger = self._reads.known(self._partition(ledger_id), ledger_id)
        ledger.watchers.append(callback)

        def cancel() -> None:
            if callback in ledger.watchers:
                ledger.watchers.remove(callback)

        return cancel

    def _notify(self, ledger: Ledger) -> None:
        for watcher in ledger.watchers:
            self._loop.call_soon(watcher, ledger.lac)

    def force(self, ledger_id: LedgerId, done: Completion) -> None:
        """`done` once every entry accepted so far is durable, wherever its data goes.

        Raises NoSuchLedger, and UnknownLedgerState when entries accepted in an earlier life may be gone
        (spec/bp46.md#R17). Without a doubt none is missed: those that are ours are here again, or nobody named us.
        """
        self._health.check_accepting()
        self._reads.known(self._partition(ledger_id), ledger_id)
        self._reads.check_complete(ledger_id)
        if self._journal_data:
            self._after_journal(ledger_id, done)
        else:
            self._checkpointer.request(done)

    # ---- reads ----------------------------------------------------------------------------------------------------

    def read_nowait(self, ledger_id: LedgerId, entry_id: EntryId) -> Buffer | None:
        """The entry's bytes, or None when the disk must be waited for (`read`). Entry -1 is the highest one here.

        Raises NoSuchLedger, NoSuchEntry, UnknownLedgerState, CorruptFile, StorageFailed.
        """
        return self._reads.read_nowait(ledger_id, entry_id)

    async def read(self, ledger_id: LedgerId, entry_id: EntryId) -> Buffer:
        """The entry's bytes, from the disk if need be. Raises as `read_nowait`."""
        return await self._reads.read(ledger_id, entry_id)

    def read_run_nowait(self, ledger_id: LedgerId, entry_ids: Sequence[EntryId]) -> list[Buffer | None]:
        """The entries' bytes as far as they are in memory, ours or the system's. None: `read_many` has it, or says why
        not."""
        return self._reads.read_run_nowait(ledger_id, entry_ids)

    async def read_many(self, ledger_id: LedgerId, entry_ids: Sequence[EntryId]) -> list[Buffer | BookieError]:
        """Return what `read` returns or raises for each of the first of these, as many as one answer should hold (at
        least one); one hop to the disk for all."""
        return await self._reads.read_many(ledger_id, entry_ids)

    async def read_lac(self, ledger_id: LedgerId) -> tuple[bytes | None, Buffer | None]:
        """The explicit LAC and the highest entry, as far as there are any.

        Raises NoSuchLedger, CorruptFile, and UnknownLedgerState in limbo: never a "none" that may be untrue
        (spec/bp46.md#T12).
        """
        return await self._reads.read_lac(ledger_id)

    def has_entry(self, ledger_id: LedgerId, entry_id: EntryId) -> bool:
        """True when caches or index have it and the log it is in exists; its bytes are not looked at."""
        return self._reads.has_entry(ledger_id, entry_id)

    async def check_entry(self, ledger_id: LedgerId, entry_id: EntryId) -> bool:
        """True when the entry is here and its bytes check. Raises StorageFailed when the disk cannot say."""
        return await self._reads.check_entry(ledger_id, entry_id)

    async def entry_ranges(self, ledger_id: LedgerId) -> list[IdRange]:
        """Return which entries are here, ascending. Keeps the loop for a slice at a time, however large the ledger is.

        Raises NoSuchLedger.
        """
        return await self._reads.entry_ranges(ledger_id)

    async def whole_list(self, ledger_id: LedgerId, take: TakeRanges) -> None:
        """Give `take` which entries are here, in pieces. Callers take entries that are not among them for absent, so no
        piece counts before this returns. Raises NoSuchLedger, UnknownLedgerState in doubt, and what `take` does."""
        await self._reads.whole_list(ledger_id, take)

    def is_in_doubt(self, ledger_id: LedgerId) -> bool:
        """True while a "no", a "nothing new" or a list of the ledger's entries may be untrue. All paths ask this."""
        return self._reads.is_in_doubt(ledger_id)

    def ledgers(self) -> AsyncGenerator[LedgerId, None]:
        """Every ledger known here from the call to its end, in slices (`LedgerTable.walk`). Close it when you leave
        early (`contextlib.aclosing`)."""
        return self._reads.ledgers()

    @property
    def is_doubtful(self) -> bool:
        """True: nothing is proven yet, so every "no" is "unknown" (integrity sets it until its marks are durable)."""
        return self._reads.is_doubtful

    @is_doubtful.setter
    def is_doubtful(self, doubtful: bool) -> None:
        self._reads.is_doubtful = doubtful

    # ---- what integrity decides -------------------------------------------------------------------------------------

    def facts(self, ledger_id: LedgerId) -> LedgerFacts | None:
        """Return what is known of a ledger; None: this bookie has never heard of it."""
        ledger = self._partition(ledger_id).table.find(ledger_id)
        return None if ledger is None else ledger.facts()

    async def protect(self, wanted: Iterable[tuple[LedgerId, bool, bool, bytes | None]], *, epoch: int = 0) -> None:
        """Fence and put in limbo, in bulk: (ledger, fence, limbo, master key or None). Durable on return
        (spec/storage.md#E5).

        The fence is of the kind "lost its state" (`LedgerFacts.is_state_lost`). `epoch` is kept beside each limbo mark
        that is set. Bits are only ever added here. Ledgers never seen are made; a key that is known already is kept.
        Raises BadRequest, before anything is marked, for what no row can hold.
        """
        self._health.check_accepting()
        wanted = list(wanted)
        for ledger_id, _, _, master_key in wanted:
            limits.check_mark(ledger_id, master_key, epoch)
        rows: dict[int, list[tuple[bytes, bytes]]] = {}
        for count, (ledger_id, fence, limbo, master_key) in enumerate(wanted, 1):
            partition = self._partition(ledger_id)
            ledger = partition.table.find(ledger_id)
            if ledger is None:
                ledger = partition.table.create(ledger_id, master_key or b"")
            elif not ledger.master_key:
                ledger.master_key = master_key or b""
            if fence:
                ledger.flags |= STATE_LOST
            if limbo:
                ledger.flags |= LIMBO
                ledger.limbo_epoch = epoch
            partition.table.changed(ledger)
            rows.setdefault(partition.number, []).extend(partition.table.rows_of([ledger]))
            if count % INDEX_BATCH_COUNT == 0:
                await pause()
        for number in sorted(rows):
            partition = self._partitions[number]
            await put_in_batches(partition.index, rows[number])
            try:
                await partition.index.flush()
            except BookieError as error:  # outside the checkpoint's task, and fatal like any other
                self._health.on_trouble(error)
                raise

    def clear_limbo(self, ledger_id: LedgerId) -> None:
        """Let the bookie say no again: the ledger's end is proven and our entries are here. Durable after `flush`
        (spec/storage.md#E6).

        The fence stays. Raises NoSuchLedger.
        """
        partition = self._partition(ledger_id)
        partition.table.release(self._reads.known(partition, ledger_id))

    def delete_ledger(self, ledger_id: LedgerId) -> None:
        """Forget a ledger and its entries, durably at the next checkpoint; after a crash before, it is here again.

        The caller has proof that the metadata store has it no more, or has it without this bookie.
        """
        self._health.check_accepting()
        partition = self._partition(ledger_id)
        if partition.table.find(ledger_id) is None:
            return
        partition.delete(ledger_id)
        self.stats.ledgers_deleted += 1

    async def flush(self) -> None:
        """A full checkpoint that begins after this call: entries, facts, marks durable on return.

        Raises DiskFull (nothing is lost; may be tried again) or what stopped the node.
        """
        self._health.check_alive()
        future: asyncio.Future[None] = self._loop.create_future()

        def done(error: BookieError | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        self._checkpointer.request(done)
        await future

    def _on_journal_trouble(self, error: BookieError) -> None:
        """A journal without space has some as soon as a checkpoint trims it, which begins at once. Only the first time:
        while disks stay full every refused write would ask for a checkpoint, so those come once an interval."""
        is_news = isinstance(error, errors.DiskFull) and not self._health.is_disk_full
        self._health.on_trouble(error)
        if is_news:
            self._checkpointer.request()

    # ---- state of the node ------------------------------------------------------------------------------------------

    @property
    def is_read_only(self) -> bool:
        """True when normal adds are refused: set by hand, or a disk is full."""
        return self._health.is_read_only

    def set_read_only(self, read_only: bool) -> None:
        """Set the mode by hand; it stays until unset. Recovery adds and fences are still accepted."""
        self._health.set_read_only(read_only)

    def usage(self) -> Usage:
        """Space of all ledger directories together, as last measured (each checkpoint turn)."""
        return self._health.usage

    def disk_usage(self, number: int) -> Usage:
        """Space of one ledger directory's disk, as last measured."""
        return self._health.disks.get(self.options.ledger_dirs[number], Usage(0, 0))

    @property
    def disks(self) -> Mapping[str, Usage]:
        """Space of each directory's disk, as last measured."""
        return self._health.disks

    @property
    def journaled(self) -> tuple[JournalPosition, ...]:
        """How far each journal is durable, in order."""
        return tuple(journal.synced for journal in self._journals)

    @property
    def quarantined(self) -> dict[LedgerId, str]:
        """Ledgers whose state here nobody can judge, and why; as far as this life or an earlier one has met them."""
        return {ledger_id: why for each in self._partitions for ledger_id, why in each.table.quarantined.items()}

    @property
    def failed_dirs(self) -> tuple[str, ...]:
        """Ledger directories, as configured, that take no writes any more."""
        return tuple(self.options.ledger_dirs[each.number] for each in self._partitions if each.failure is not None)

    @property
    def is_congested(self) -> bool:
        """True while adds arrive faster than the disk takes them: stop reading sockets and await `room`."""
        return not self._health.room.is_set()

    async def room(self) -> None:
        """Wait until `is_congested` is False."""
        await self._health.room.wait()

    async def _after_checkpoint(self) -> None:
        self.stats.cache_bytes = sum(partition.active.size_bytes for partition in self._partitions)
        if await self._health.measure():
            self._checkpointer.request()

    # ---- life -----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the tasks. Called once, by `restart.open_store`."""
        await self._after_checkpoint()
        self._own("checkpoints", self._checkpointer.run())
        for journal in self._journals:
            self._own("journal", journal.run())

    def _own(self, name: str, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work, name=f"storage-{name}")
        task.add_done_callback(self._on_task_end)
        self._tasks.append(task)

    def _on_task_end(self, task: asyncio.Task[None]) -> None:
        """Our tasks end by `close` or by trouble they told of; anything else is a defect, and stops the node."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._health.on_trouble(
                error
                if isinstance(error, BookieError) and not isinstance(error, errors.DiskFull)
                else errors.DiskFailed(f"{task.get_name()} died: {error!r}")
            )

    async def close(self) -> bool:
        """Flush and let go. True: everything that was ever accepted is durable, the DIRTY marker may go."""
        self._health.stop()
        checkpoints, *journals = self._tasks
        for journal in self._journals:
            journal.stop()
        if self._health.failure is None:
            await asyncio.wait(journals)
        self._checkpointer.stop()
        if self._health.failure is None:
            await asyncio.wait([checkpoints])
        is_clean = self._health.failure is None and all(partition.is_clean for partition in self._partitions)
        await self._let_go()
        return is_clean

    async def abandon(self) -> None:
        """Let go without flushing: what a crash would leave. For a node that failed, and for tests."""
        self._health.stop()
        await self._let_go()

    async def _let_go(self) -> None:
        if self._has_let_go:
            return
        self._has_let_go = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for journal in self._journals:
            await journal.close()
        for partition in self._partitions:
            await partition.logs.close()
            await partition.index.close()
        self._checkpointer.give_up(errors.StorageFailed("this bookie is stopping"))
        dirs.release(self._locks)

    # ---- helpers --------------------------------------------------------------------------------------------------

    def _partition(self, ledger_id: LedgerId) -> Partition:
        return self._partitions[ledger_id % len(self._partitions)]

    def _journal(self, ledger_id: LedgerId) -> JournalWriter:
        return self._journals[ledger_id % len(self._journals)]

    def _find_or_create(
        self, partition: Partition, ledger_id: LedgerId, master_key: bytes, *, is_journaled: bool
    ) -> Ledger:
        """The ledger with its key checked; made, or its key filled in, when need be. Raises Unauthorized.

        `is_journaled`: a new key goes into the journal first; the record that follows makes both durable together.
        """
        if ledger_id < 0:
            raise errors.BadRequest(f"ledger id {ledger_id} is negative")
        ledger = partition.table.find(ledger_id)
        if ledger is not None and not ledger.allows(master_key):
            raise errors.Unauthorized(f"wrong master key for ledger {ledger_id}")
        if ledger is not None and (ledger.master_key or not master_key):
            return ledger
        limits.check_master_key(ledger_id, master_key)  # a new one; what is known already has its place in a row
        if ledger is None:
            self._make_room_for_facts(partition)
            ledger = partition.table.create(ledger_id, master_key)
        else:
            ledger.master_key = master_key
            partition.table.changed(ledger)
        if is_journaled:
            self._journal(ledger_id).put(journal_format.KEY, ledger_id, journal_format.NO_ENTRY, master_key, None)
        return ledger

    def _find_for_copy(self, partition: Partition, ledger_id: LedgerId, master_key: bytes) -> Ledger:
        """Do as `_find_or_create`. Of a quarantined ledger the key that comes with a verified copy is the right one."""
        ledger = partition.table.find(ledger_id)
        if ledger is not None and ledger_id in partition.table.quarantined and not ledger.allows(master_key):
            limits.check_master_key(ledger_id, master_key)
            ledger.master_key = master_key
            partition.table.changed(ledger)
        return self._find_or_create(partition, ledger_id, master_key, is_journaled=False)

    def _make_room_for_facts(self, partition: Partition) -> None:
        """Ledgers without a row cannot leave memory before a checkpoint, and a client that may add can make as many as
        it likes. Raises TooManyRequests when checkpoints do not keep up with new ones."""
        count = len(partition.table.dirty)
        if count > self.options.ledgers_dirty_max:
            raise errors.TooManyRequests(f"{count} new ledgers wait for a checkpoint; try again")
        if count == self.options.ledgers_dirty_max // 2:
            self._checkpointer.request()

    def _after_journal(self, ledger_id: LedgerId, done: Completion) -> None:
        if not self._journal(ledger_id).after_pending(done):
            self._complete_soon(done)

    def _complete_soon(self, done: Completion) -> None:
        """Run `done` on the loop's next turn; one callback for all of a turn."""
        if not self._soon:
            self._loop.call_soon(self._run_soon)
        self._soon.append(done)

    def _run_soon(self) -> None:
        ready, self._soon = self._soon, []
        for done in ready:
            done(None)
