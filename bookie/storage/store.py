"""EntryStore: add, read, fence, force, last confirmed: the whole interface of the storage engine to the server.

Every refusal is raised before anything changed; every accepted change is visible to reads at once and its completion
runs on the loop after it is durable, never inside the call. No call here waits for a disk unless it is a coroutine.
"""

import asyncio
import struct
from collections.abc import AsyncGenerator, Callable, Container, Coroutine, Iterable, Mapping, Sequence

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import EntryId, IdRange, LedgerId
from bookie.ports import World
from bookie.ports.disk import Buffer, Lock
from bookie.storage import dirs, heads, ledgers, limits, mixes, protection
from bookie.storage.acceptance import Acceptance
from bookie.storage.bad_entries import BadEntries
from bookie.storage.checkpoint import Checkpointer
from bookie.storage.doubt import Doubt
from bookie.storage.health import StorageHealth
from bookie.storage.journal import format as journal_format
from bookie.storage.journal.batch import Completion, JournalPosition
from bookie.storage.journal.writer import JournalWriter
from bookie.storage.ledgers import FENCED, UNKNOWN_LAST, LacWatcher, Ledger, LedgerFacts
from bookie.storage.options import StorageOptions
from bookie.storage.partition import Partition
from bookie.storage.protection import Mark
from bookie.storage.reads import EntryReads, TakeRanges
from bookie.storage.shapes import Routing
from bookie.storage.stats import StorageStats

_IDS = struct.Struct(">qq")


class _Every:
    """Holds every ledger."""

    def __contains__(self, ledger_id: object) -> bool:
        return True


_EVERY = _Every()

__all__ = ["Completion", "EntryStore", "LedgerFacts"]


class EntryStore:
    """The storage engine, built by `restart.open_store`.
    Owns one task per journal and one for checkpoints until `close`."""

    def __init__(
        self,
        options: StorageOptions,
        world: World,
        partitions: Sequence[Partition],
        routing: Routing,
        journals: Sequence[JournalWriter],
        stats: StorageStats,
        locks: Sequence[Lock],
        *,
        fail: Callable[[BookieError], None],
    ) -> None:
        assert len(partitions) == routing.count
        self.options = options
        self.stats = stats
        self.partitions = self._partitions = tuple(partitions)  # for collection and scrubbing
        self.has_history = len(routing.history) > 1  # a directory was added since it began
        self._number_of, self._first, self._count = routing.number_of, routing.first, routing.count
        self._journals = tuple(journals)
        self._locks = locks
        self.bad_entries = BadEntries(self._partitions, stats)
        self._reads = EntryReads(self._partitions, routing, self.bad_entries, stats)
        self.health = StorageHealth(options, world.disk, self._partitions, self._journals, fail=fail)
        self._journal_data = options.journal_write_data
        self._cache_bytes_max = options.write_cache_bytes_max
        self._flush_bytes = options.write_cache_bytes_max // 2  # the other half takes adds meanwhile
        self._alone_bytes_max = options.write_cache_bytes_max * 3 // 2  # no other generation has its half
        self._scattered_flush_bytes = options.write_cache_bytes_max * 3 // 4
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
            on_trouble=self.health.on_trouble,
            on_turn=self._after_checkpoint,
        )
        self._acceptance = Acceptance(
            self._journals, self.health, options.ledgers_dirty_max, self._checkpointer.request
        )
        self._keys_on_the_way = self._acceptance.keys_on_the_way
        self._makes_touches = options.makes_touches
        # Of which ledgers `add` asks more before it answers from memory. A plain add without touches costs what it did.
        self._not_at_once: Container[LedgerId] = _EVERY if options.makes_touches else self._keys_on_the_way
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
        """Accept entries of one ledger, at least one: all of them, or none when it raises Unauthorized, LedgerFenced,
        UnknownLedgerState, BadRequest, BookieReadOnly, TooManyRequests, StorageFailed.

        `done` runs after the journal's sync; without data in the journal, on the next turn of the loop (BP-46), unless
        `is_journaled` asks for the journal all the same: a start replays what is in it, whatever the option says. Adds
        with deferred sync (BP-14) are stored like any other: the server may answer one before `done` only to a
        client that counts that for this life alone (`server/adds.py`; spec/bp46.md#T17).
        """
        is_new = ledger_id >= self._first  # no call for those: one costs more than the look
        partition = self._partitions[ledger_id % self._count if is_new else self._number_of(ledger_id)]
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
        if ledger is None or ledger.flags or ledger.master_key != master_key or self.health.is_refusing:
            ledger = self._acceptance.for_add(partition, ledger_id, master_key, is_recovery=is_recovery)
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
        elif is_known and ledger_id not in self._not_at_once:
            self._complete_soon(done)
        else:
            self._complete_named(partition, ledger_id, is_known, done)

    def not_plain(
        self,
        ledger_ids: Sequence[LedgerId],
        master_keys: Sequence[bytes],
        entry_ids: Sequence[EntryId],
        bodies: Sequence[bytes],
    ) -> Sequence[int]:
        """Return the places of those adds, each of any ledger, that only `add` may judge. Changes nothing.

        The others are plain: `add` finds nothing to refuse or to write besides the entry. Their ledger is known and has
        neither mark nor another key, their head is right, and there is room.
        """
        if self._is_crowded(sum(map(len, bodies))):
            return range(len(bodies))
        on_the_way: Mapping[LedgerId, bytes] = {} if self._journal_data else self._keys_on_the_way
        directories = self._directories()
        found = mixes.not_plain(directories, ledger_ids, master_keys, entry_ids, bodies, on_the_way)
        if not self._makes_touches:
            return found
        return sorted({*found, *mixes.not_touched(directories, ledger_ids)})

    def _directories(self) -> mixes.Directories:
        known = [partition.table.known for partition in self._partitions]
        active = [partition.active for partition in self._partitions]
        return mixes.Directories(known, active, self._first, self._number_of)

    def _is_crowded(self, size: int) -> bool:
        """Return True when no add of `size` bytes is plain, or the mix would need more than one journal's sync."""
        return (
            len(self._journals) > 1
            or self.health.is_refusing
            or self._journals[0].is_backlogged
            or size > limits.ADD_BYTES_MAX
            or any(partition.active.size_bytes > self._pressure_bytes_max for partition in self._partitions)
        )

    def add_plain(
        self, ledger_ids: Sequence[LedgerId], entry_ids: Sequence[EntryId], bodies: Sequence[bytes], done: Completion
    ) -> None:
        """Accept entries of any ledgers, at least one, of which `not_plain` has just said that each is plain.

        `done` runs when it would have run for the last of them: after the sync of the group that has them all.
        """
        for partition in self._partitions:
            if partition.active.size_bytes > self._flush_bytes:
                self._relieve(partition)
        for ledger in mixes.keep(self._directories(), ledger_ids, entry_ids, bodies):
            self._notify(ledger)
        stats = self.stats
        stats.adds += len(bodies)
        stats.added_bytes += sum(map(len, bodies))
        if self._journal_data:
            self._journals[0].put_mix(ledger_ids, entry_ids, bodies, done)
        else:
            self._complete_soon(done)

    def add_copied(self, ledger_id: LedgerId, entry_id: EntryId, body: Buffer, master_key: bytes) -> None:
        """Keep an entry copied from another bookie: readable at once, not journaled, durable after `flush`.

        Raises Unauthorized, BadRequest, StorageFailed, TooManyRequests (await `room` before); BookieReadOnly while the
        journal has no space for the key of a ledger that is new here.
        """
        data = body if type(body) is bytes else bytes(body)
        lac = heads.check(ledger_id, [entry_id], [data])
        limits.check_add(ledger_id, len(data))
        partition = self._partition(ledger_id)
        ledger = self._acceptance.for_copy(partition, ledger_id, master_key)
        partition.table.disturb(ledger)
        if partition.active.size_bytes > self._flush_bytes:
            self._relieve(partition)
        partition.active.put(ledger_id, entry_id, data)
        ledger.lac = max(ledger.lac, lac)
        if ledger.last < entry_id and ledger.last != UNKNOWN_LAST:
            ledger.last = entry_id

    def _relieve(self, partition: Partition) -> None:
        """Relieve a filling write cache: ask for a checkpoint;
        if that is too slow, stop reading sockets, then refuse adds."""
        if partition.active.size_bytes > self._pressure_bytes_max:
            raise errors.TooManyRequests("the write cache is full: the ledger disk does not keep up")
        if partition.flushing is None:
            # Of many ledgers each has an entry or two by then, and what is done once for a ledger is what an add costs.
            if partition.active.size_bytes > self._scattered_flush_bytes or not partition.active.is_scattered:
                self._checkpointer.request()
            bound = self._alone_bytes_max  # the checkpoint that was asked for waits for other work: rows, another disk
        else:
            bound = self._cache_bytes_max
        if partition.active.size_bytes > bound and not self.health.is_stuck:
            self.health.room.clear()
            self._checkpointer.request()

    # ---- fences and LACs -------------------------------------------------------------------------------------------

    def fence(self, ledger_id: LedgerId, master_key: bytes, done: Completion) -> None:
        """Refuse normal adds to the ledger from now on;
        call `done` once that is durable, also for a ledger already fenced.

        A ledger never seen is made, with the key that the fence record carries, so that replay fences it too
        (spec/storage.md#E2). Raises Unauthorized, BadRequest, UnknownLedgerState, StorageFailed; BookieReadOnly only
        while the journal has no space: a fence would not last.
        """
        self.health.check_accepting()
        partition = self._partition(ledger_id)
        before = partition.table.find(ledger_id)
        partition.table.check_judgeable(ledger_id)
        partition.table.touch(ledger_id)
        has_key = before is not None and bool(before.master_key)
        ledger = self._acceptance.with_key(partition, ledger_id, before, master_key, is_journaled=False)
        partition.table.disturb(ledger)
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
        self.health.check_accepting()
        partition = self._partition(ledger_id)
        found = partition.table.find(ledger_id)
        partition.table.check_judgeable(ledger_id)
        self._acceptance.check_examined(partition, ledger_id, found)
        ledger = self._acceptance.with_key(partition, ledger_id, found, master_key, is_journaled=True)
        partition.table.disturb(ledger)
        before = ledger.lac
        ledger.take_lac(body)
        partition.table.changed(ledger)
        self._journal(ledger_id).put(journal_format.LAC, ledger_id, journal_format.NO_ENTRY, body, done)
        if ledger.lac > before and ledger.watchers:
            self._notify(ledger)

    def last_confirmed(self, ledger_id: LedgerId) -> EntryId:
        """Return the highest LAC that any writer supplied, -1 when none. In limbo it is still a true lower bound.

        Raises NoSuchLedger.
        """
        return self._reads.known(self._partition(ledger_id), ledger_id).lac

    def watch_lac(self, ledger_id: LedgerId, callback: LacWatcher) -> Callable[[], None]:
        """Call `callback(lac)` on the loop after each advance; return a function that ends it. Raises NoSuchLedger."""
        ledger = self._reads.known(self._partition(ledger_id), ledger_id)
        ledger.watchers = (*ledger.watchers, callback)

        def cancel() -> None:
            if callback in ledger.watchers:
                place = ledger.watchers.index(callback)
                ledger.watchers = ledger.watchers[:place] + ledger.watchers[place + 1 :]

        return cancel

    def _notify(self, ledger: Ledger) -> None:
        for watcher in ledger.watchers:
            self._loop.call_soon(watcher, ledger.lac)

    def force(self, ledger_id: LedgerId, done: Completion) -> None:
        """Call `done` once every entry accepted so far is durable, with or without journal.

        Raises NoSuchLedger, and UnknownLedgerState when entries accepted in an earlier life may be gone
        (spec/bp46.md#R17). Without a doubt none is missed: those that are ours are here again, or nobody named us. What
        was given up is on others' disks, and who copies here now must learn when the copies are durable.
        """
        self.health.check_accepting()
        self._reads.known(self._partition(ledger_id), ledger_id)
        if self._reads.may_be_lost(ledger_id):
            self._reads.check_complete(ledger_id)
        if self._journal_data:
            self._after_journal(ledger_id, done)
        else:
            self._checkpointer.request(done)

    # ---- reads ----------------------------------------------------------------------------------------------------

    def read_nowait(self, ledger_id: LedgerId, entry_id: EntryId) -> Buffer | None:
        """Return the entry's bytes, or None when `read` would wait for the disk. Entry -1 is the highest one here.

        Raises NoSuchLedger, NoSuchEntry, UnknownLedgerState, CorruptFile, StorageFailed.
        """
        return self._reads.read_nowait(ledger_id, entry_id)

    async def read(self, ledger_id: LedgerId, entry_id: EntryId) -> Buffer:
        """Return the entry's bytes, from the disk if need be. Raises as `read_nowait`."""
        return await self._reads.read(ledger_id, entry_id)

    def read_run_nowait(self, ledger_id: LedgerId, entry_ids: Sequence[EntryId]) -> list[Buffer | None]:
        """Return the entries' bytes where our memory or the page cache has them. None:
        `read_many` has them, or says why not."""
        return self._reads.read_run_nowait(ledger_id, entry_ids)

    async def read_many(self, ledger_id: LedgerId, entry_ids: Sequence[EntryId]) -> list[Buffer | BookieError]:
        """Return what `read` returns or raises for each of the first entries, as many as one answer should hold (at
        least one); one hop to the disk for all."""
        return await self._reads.read_many(ledger_id, entry_ids)

    async def read_lac(self, ledger_id: LedgerId) -> tuple[bytes | None, Buffer | None]:
        """Return the explicit LAC and the highest entry; None for either that does not exist.

        Raises NoSuchLedger, CorruptFile, and UnknownLedgerState in limbo: never a "none" that may be untrue
        (spec/bp46.md#T12).
        """
        return await self._reads.read_lac(ledger_id)

    def has_entry(self, ledger_id: LedgerId, entry_id: EntryId) -> bool:
        """Return True when caches or index have the entry and its log exists. Does not look at the entry's bytes."""
        return self._reads.has_entry(ledger_id, entry_id)

    def has_entries(self, ledger_id: LedgerId) -> bool:
        """Return True when any entry of the ledger is here, False when none was found: that is no proof of absence."""
        return self._reads.has_entries(ledger_id)

    async def check_entry(self, ledger_id: LedgerId, entry_id: EntryId) -> bool:
        """Return True when the entry is here, and the disk gives its bytes and they pass their check.
        Raises OutOfResources, DiskFailed."""
        return await self._reads.check_entry(ledger_id, entry_id)

    async def entry_ranges(self, ledger_id: LedgerId) -> list[IdRange]:
        """Return which entries are here, ascending. Lets other tasks run between slices of a large ledger.

        Raises NoSuchLedger.
        """
        return await self._reads.entry_ranges(ledger_id)

    async def whole_list(self, ledger_id: LedgerId, take: TakeRanges) -> None:
        """Give `take` which entries are here, in pieces. Callers take all other entries for absent, so no piece counts
        before this returns. Raises NoSuchLedger, UnknownLedgerState in doubt, and what `take` raises."""
        await self._reads.whole_list(ledger_id, take)

    def is_in_doubt(self, ledger_id: LedgerId) -> bool:
        """Return True while a "no", a "nothing new" or a list of the ledger's entries may be untrue.
        Every path asks this."""
        return self._reads.is_in_doubt(ledger_id)

    def may_be_lost(self, ledger_id: LedgerId) -> bool:
        """Return True while something of the ledger that this bookie should have may be lost. Unlike `is_in_doubt`,
        False for what was only given up as surplus."""
        return self._reads.may_be_lost(ledger_id)

    def ledgers(self) -> AsyncGenerator[LedgerId, None]:
        """Yield every ledger known here from the call to its end, in slices (`LedgerTable.walk`). A caller that leaves
        early must close it (`contextlib.aclosing`)."""
        return self._reads.ledgers()

    @property
    def is_doubtful(self) -> bool:
        """True: nothing is proven yet, so every "no" must be "unknown" (set by integrity until
        its marks are durable)."""
        return self._reads.is_doubtful

    @is_doubtful.setter
    def is_doubtful(self, doubtful: bool) -> None:
        self._reads.is_doubtful = doubtful

    # ---- what integrity decides -------------------------------------------------------------------------------------

    def facts(self, ledger_id: LedgerId) -> LedgerFacts | None:
        """Return what is known of a ledger; None when this bookie does not know it."""
        ledger = self._partition(ledger_id).table.find(ledger_id)
        return None if ledger is None else ledger.facts()

    async def protect(self, wanted: Iterable[Mark], *, epoch: int = 0) -> None:
        """Fence and put in limbo, in bulk: (ledger, fence, limbo, master key or None).
        Durable on return (spec/storage.md#E5).

        The fence is of the kind "lost its state" (`LedgerFacts.is_state_lost`). `epoch` is kept beside each limbo mark
        that is set. Bits are only ever added here. Ledgers never seen are made; a key that is known already is kept.
        Raises BadRequest, before anything is marked, for what no row can hold.
        """
        self.health.check_accepting()
        await protection.protect(self._partitions, self._number_of, wanted, epoch=epoch, flush=self._flush_index)

    async def doubt_below(self, bound: int, *, epoch: int) -> None:
        """Doubt every ledger with an id below `bound`: until it is examined (`settle`) what is here of it is served,
        everything else is unknown, and only recoveries may add to it. Durable on return, in every index.

        Replaces an earlier doubt with all that was examined in it.
        """
        self.health.check_accepting()
        await protection.begin_doubt(self._partitions, bound, epoch=epoch, flush=self._flush_index)

    async def settle(
        self, wanted: Iterable[Mark], examined: Sequence[LedgerId] = (), *, rest: int | None = None
    ) -> None:
        """End the doubt about ledgers that were examined, with the marks that they need (`protect`): about those named,
        and about all from `rest` on. Durable on return. Raises as `protect`; then the doubt stands.

        A key that came while a ledger was in doubt gives way to the one in `wanted`.
        """
        self.health.check_accepting()
        await protection.settle(self._partitions, self._number_of, wanted, examined, rest, flush=self._flush_index)

    @property
    def doubt(self) -> Doubt:
        """Return the doubt of the index that has most left to examine; of one that is over, the epoch still tells."""
        return max(
            (partition.table.doubt for partition in self._partitions), key=lambda doubt: (doubt.rest, doubt.epoch)
        )

    def has_doubt_of(self, epoch: int) -> bool:
        """Return True when every index has the doubt of `epoch`, or a later one, over or not: none was lost."""
        return all(partition.table.doubt.epoch >= epoch for partition in self._partitions)

    def touched(self) -> list[LedgerId]:
        """Return the ledgers in doubt that somebody asked for: they are to be examined before their turn."""
        return [ledger_id for partition in self._partitions for ledger_id in partition.table.touched]

    async def _flush_index(self, partition: Partition) -> None:
        try:
            await partition.index.flush()
        except BookieError as error:  # outside the checkpoint's task, and fatal like any other
            self.health.on_trouble(error)
            raise

    def clear_limbo(self, ledger_id: LedgerId) -> None:
        """End limbo: the ledger's end is proven and our entries are here, so the bookie may deny an entry again.
        Durable after `flush` (spec/storage.md#E6).

        The fence stays. Raises NoSuchLedger.
        """
        partition = self._partition(ledger_id)
        partition.table.release(self._reads.known(partition, ledger_id))

    def delete_ledger(self, ledger_id: LedgerId) -> None:
        """Delete a ledger and its entries, durably at the next checkpoint; a crash before that brings it back, so until
        then nothing durable is begun under its id (`Acceptance.with_key`).

        The caller has proof that the metadata store has it no more, or has it without this bookie.
        """
        self.health.check_alive()  # a full journal refuses no deletion: it is no record, and makes room
        partition = self._partition(ledger_id)
        if partition.table.find(ledger_id) is None:
            return
        waits = self._journal(ledger_id).after_pending(lambda _: partition.table.going.journal_has_all(ledger_id))
        partition.delete(ledger_id, is_journaled=not waits)
        self.stats.ledgers_deleted += 1

    def watch(self, ledger_id: LedgerId) -> None:
        """Watch from now on whether anything comes for the ledger: an add, a copy, a fence, a LAC. Nothing is watched
        that is not here."""
        table = self._partition(ledger_id).table
        ledger = table.find(ledger_id)
        if ledger is not None:
            table.watch(ledger)

    def end_watch(self, ledger_id: LedgerId) -> bool:
        """Watch no longer; return True when nothing came for the ledger since the last call of `watch`."""
        table = self._partition(ledger_id).table
        ledger = table.find(ledger_id)
        if ledger is None or not table.is_quiet(ledger_id):
            return False
        table.disturb(ledger)
        return True

    # ---- surplus ----------------------------------------------------------------------------------------------------

    def watch_surplus(self, ledger_id: LedgerId) -> bool:
        """Return True when nothing came for the ledger (an add, a copy, a fence, a LAC) since a call before this one,
        in this life; else begin to watch it. False for what may be lost here, or is not here."""
        table = self._partition(ledger_id).table
        ledger = table.find(ledger_id)
        if ledger is None or self._reads.may_be_lost(ledger_id):
            return False
        if table.is_quiet(ledger_id):
            return True
        table.watch(ledger)
        return False

    async def mark_given_up(self, ledger_ids: Iterable[LedgerId]) -> None:
        """Mark ledgers, each closed, for `give_up`: fenced for good, and what is not here of them is unknown from now
        on. Durable on return; key, fence and LAC stay. Ledgers that are not here are passed over."""
        self.health.check_accepting()
        await protection.mark_given_up(self._partitions, self._number_of, ledger_ids, flush=self._flush_index)

    def give_up(self, ledger_id: LedgerId) -> bool:
        """Delete the entries of a ledger that `mark_given_up` has marked, durably at the next checkpoint; return False,
        and do nothing, when anything came for it since it is watched, or some of it may be lost.

        CRASH: before that checkpoint the entries are back, and the mark stands. Between them is no state without mark.
        """
        self.health.check_alive()
        partition = self._partition(ledger_id)
        ledger = partition.table.find(ledger_id)
        if ledger is None or not partition.table.is_quiet(ledger_id) or self._reads.may_be_lost(ledger_id):
            return False
        partition.give_up(ledger)
        self.stats.ledgers_given_up += 1
        return True

    def is_given_up(self, ledger_id: LedgerId) -> bool:
        """Return True when entries of the ledger were given up as surplus."""
        return self._partition(ledger_id).table.is_given_up(ledger_id)

    def named_again(self, ledger_id: LedgerId) -> None:
        """Note that the record of a ledger whose entries were given up names this bookie again: lists of its entries
        are told again, so that repairs find what is missing. Whatever is not here stays unknown."""
        table = self._partition(ledger_id).table
        ledger = table.find(ledger_id)
        if ledger is not None:
            table.named_again(ledger)

    async def flush(self) -> None:
        """Run a full checkpoint that begins after this call: entries, facts and marks are durable on return.

        Raises DiskFull (nothing is lost; may be tried again) or what stopped the node.
        """
        self.health.check_alive()
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
        """Ask for a checkpoint when a journal's disk is full, as its trim makes space. Only the first time: while disks
        stay full every refused write would ask again, so later checkpoints come once an interval."""
        is_news = isinstance(error, errors.DiskFull) and not self.health.is_disk_full
        self.health.on_trouble(error)
        if is_news:
            self._checkpointer.request()

    # ---- state of the node ------------------------------------------------------------------------------------------

    @property
    def is_read_only(self) -> bool:
        """Return True when normal adds are refused: set by hand, a disk is full, or it is this bookie's turn to be
        stopped."""
        return self.health.is_read_only

    @property
    def writes_refused(self) -> int:
        """Return how many adds were refused, as we are read-only or the journal is full: their writers went on without
        us."""
        return self._acceptance.writes_refused

    def may_hold(self, ledger_id: LedgerId) -> bool:
        """Return True when this bookie knows anything of the ledger, or cannot tell, or would know it again after a
        crash."""
        is_going = ledger_id in self._partition(ledger_id).table.going
        return is_going or self.facts(ledger_id) is not None or self.is_in_doubt(ledger_id)

    @property
    def may_hold_touches(self) -> bool:
        """Return True while the journals have the format that holds touches, which older programs refuse."""
        return any(journal.may_hold_touches for journal in self._journals)

    @property
    def journaled(self) -> tuple[JournalPosition, ...]:
        """Return up to where each journal is durable, in order."""
        return tuple(journal.synced for journal in self._journals)

    @property
    def logged(self) -> tuple[tuple[int, int], ...]:
        """How far each ledger directory's newest entry log is durable, in order (`LogWriter.synced`)."""
        return tuple(partition.writer.synced for partition in self._partitions)

    @property
    def quarantined(self) -> dict[LedgerId, str]:
        """Return the ledgers whose state here is lost, and why, as far as this process or an earlier one noticed."""
        return {ledger_id: why for each in self._partitions for ledger_id, why in each.table.quarantined.items()}

    @property
    def failed_dirs(self) -> tuple[str, ...]:
        """Return the ledger directories, as configured, that take no more writes."""
        return tuple(self.options.ledger_dirs[each.number] for each in self._partitions if each.failure is not None)

    @property
    def is_congested(self) -> bool:
        """Return True while adds arrive faster than the disk takes them: stop reading sockets and await `room`."""
        return not self.health.room.is_set()

    async def room(self) -> None:
        """Wait until `is_congested` is False."""
        await self.health.room.wait()

    async def _after_checkpoint(self) -> None:
        self.stats.cache_bytes = sum(partition.active.size_bytes for partition in self._partitions)
        if await self.health.measure():
            self._checkpointer.request()

    # ---- life -----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the tasks. `restart.open_store` calls this once."""
        await self._after_checkpoint()
        self._own("checkpoints", self._checkpointer.run())
        for journal in self._journals:
            self._own("journal", journal.run())

    def _own(self, name: str, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work, name=f"storage-{name}")
        task.add_done_callback(self._on_task_end)
        self._tasks.append(task)

    def _on_task_end(self, task: asyncio.Task[None]) -> None:
        """Stop the node when one of our tasks ends by a defect: neither by `close` nor by trouble that it reported."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.health.on_trouble(
                error
                if isinstance(error, BookieError) and not isinstance(error, errors.DiskFull)
                else errors.DiskFailed(f"{task.get_name()} died: {error!r}")
            )

    async def close(self) -> bool:
        """Flush and close. Return True when everything ever accepted is durable:
        the DIRTY marker may be removed then."""
        self.health.stop()
        checkpoints, *journals = self._tasks
        for journal in self._journals:
            journal.stop()
        if self.health.failure is None:
            await asyncio.wait(journals)
        self._checkpointer.stop()
        if self.health.failure is None:
            await asyncio.wait([checkpoints])
        is_clean = self.health.failure is None and all(partition.is_clean for partition in self._partitions)
        await self._let_go()
        return is_clean

    async def abandon(self) -> None:
        """Close without flushing, which leaves what a crash would leave. For a node that failed, and for tests."""
        self.health.stop()
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
        return self._partitions[self._number_of(ledger_id)]

    def _journal(self, ledger_id: LedgerId) -> JournalWriter:
        return self._journals[ledger_id % len(self._journals)]

    def _after_journal(self, ledger_id: LedgerId, done: Completion) -> None:
        if not self._journal(ledger_id).after_pending(done):
            self._complete_soon(done)

    def _complete_named(self, partition: Partition, ledger_id: LedgerId, is_known: bool, done: Completion) -> None:
        """Call `done` for an add that skipped the journal, once what a crash must find of its ledger is durable: its
        key (CONFORMANCE.md#B30), and, with touches, that entries of it were in memory (decisions/0025).

        The entry is in the active generation since this step began, and nothing can rotate that before its touch is
        put: so the touch lies behind the mark until a checkpoint has the entry.
        """
        if self._makes_touches:
            is_durable = partition.active.touches.get(ledger_id)
            if is_durable is None:
                self._touch(partition.active.touches, ledger_id, done)
                return
            is_known = is_known and is_durable
        if is_known and ledger_id not in self._keys_on_the_way:
            self._complete_soon(done)
        else:
            self._after_journal(ledger_id, done)

    def _touch(self, touches: dict[LedgerId, bool], ledger_id: LedgerId, done: Completion) -> None:
        """Put a touch into the journal for the generation that has `touches`; call `done` after its sync. After an
        error the ledger has none."""

        def arrived(error: BookieError | None) -> None:
            if error is None:
                touches[ledger_id] = True
            else:
                del touches[ledger_id]
            done(error)

        touches[ledger_id] = False
        self.stats.touches += 1
        self._journal(ledger_id).put(journal_format.TOUCH, ledger_id, journal_format.NO_ENTRY, b"", arrived)

    def _complete_soon(self, done: Completion) -> None:
        """Call `done` on the loop's next turn; one loop callback serves all calls of a turn."""
        if not self._soon:
            self._loop.call_soon(self._run_soon)
        self._soon.append(done)

    def _run_soon(self) -> None:
        ready, self._soon = self._soon, []
        for done in ready:
            done(None)
