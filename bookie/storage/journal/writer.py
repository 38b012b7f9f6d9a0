"""Writes the journal: one task writes groups and syncs each once. Completions run only after the sync has finished.

Must never: complete anything before the sync of its group returned (spec/bp46.md#S12); write a group before the one
before it was synced (the format's proof of rot rests on it); touch a file again after a failed sync.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import EntryId, LedgerId
from bookie.base.units import MIB, NS_PER_MS
from bookie.ports.clock import Clock
from bookie.ports.disk import Disk, File
from bookie.ports.entropy import Entropy
from bookie.storage.journal import files
from bookie.storage.journal import format as journal_format
from bookie.storage.journal.batch import NOTHING, Completion, Group, GroupPacker, JournalPosition
from bookie.storage.journal.format import Header
from bookie.storage.stats import StorageStats

log = logging.getLogger(__name__)

# One group in flight and one pending of at most this, whatever the disk does meanwhile.
PENDING_BYTES_MAX = 64 * MIB
_SHORT_RETRY_NS = 50 * NS_PER_MS


def _nobody_listens(error: BookieError) -> None:
    raise error


def _passing(error: BookieError) -> BookieError:
    """Return an error that may pass; raise one that stops the node."""
    if error.fatal:
        raise error
    return error


class JournalWriter:
    """Writes one journal directory. Calls `on_trouble`, set by the store, when the disk is full or has failed.

    After DiskFull the journal has suspended itself until `resume`; after anything else the node stops.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        entropy: Entropy,
        clock: Clock,
        *,
        file_bytes_max: int,
        stats: StorageStats,
        version: int = journal_format.VERSION,
    ) -> None:
        """`version`: of the files that it writes, `TOUCH_VERSION` where TOUCH is put."""
        self.directory = directory
        self.synced = NOTHING  # everything put before this mark is durable
        self.is_suspended = False
        self.is_backlogged = False  # more waits for the disk than should: adds are refused until the next group begins
        self.on_trouble: Callable[[BookieError], None] = _nobody_listens
        self._disk = disk
        self._entropy = entropy
        self._clock = clock
        self._file_bytes_max = file_bytes_max
        self._version = version
        self._stats = stats
        self._file: File | None = None
        self._file_id = 0
        self._next: Header | None = None  # the header of a file that the next group opens
        self._batcher = GroupPacker(0, 0)
        self._in_flight: Group | None = None
        self._wake = asyncio.Event()
        self._is_awake = False
        self._is_closing = False
        self._trimmed_to = 0
        self._touched_to = 0  # the last file of earlier lives that may hold a TOUCH
        self._stuck: dict[str, BookieError] = {}  # before the mark, and the disk did not remove them

    async def open(self, file_id: int, previous_end: int, *, touched_to: int = 0) -> None:
        """Open file `file_id`; `previous_end` is the size of the file before it (0: there was no file).

        `touched_to`: the last earlier file that may hold a TOUCH (0: none)."""
        self._touched_to = touched_to
        header = self._new_header(file_id, previous_end)
        await self._begin(header)
        self._batcher = GroupPacker(journal_format.seed_of(header), journal_format.FIRST_GROUP)

    @property
    def may_hold_touches(self) -> bool:
        """Return True while any file of this journal is of the format that older programs refuse."""
        return self._version == journal_format.TOUCH_VERSION or 0 < self._touched_to >= self._trimmed_to

    # ---- the hot path: no await, no file ----------------------------------------------------------------------------

    def put(self, kind: int, ledger_id: LedgerId, entry_id: EntryId, body: bytes, done: Completion | None) -> None:
        """Queue one record; call `done` after the sync that makes it durable, or with the error that prevented it."""
        self._batcher.put(kind, ledger_id, entry_id, body, done)
        self._was_put()

    def put_run(
        self, ledger_id: LedgerId, entry_ids: Sequence[EntryId], bodies: Sequence[bytes], done: Completion
    ) -> None:
        """Put one record for each of these entries of one ledger."""
        self._batcher.put_run(ledger_id, entry_ids, bodies, done)
        self._was_put()

    def put_mix(
        self, ledger_ids: Sequence[LedgerId], entry_ids: Sequence[EntryId], bodies: Sequence[bytes], done: Completion
    ) -> None:
        """Put one record for each of these entries, of any ledgers; `done` is for all."""
        self._batcher.put_mix(ledger_ids, entry_ids, bodies, done)
        self._was_put()

    def _was_put(self) -> None:
        assert not self.is_suspended, "a record for a journal that takes none: `resume` would throw it away"
        if self._batcher.pending.size_bytes > PENDING_BYTES_MAX:
            self.is_backlogged = True
        if not self._is_awake:
            self._is_awake = True
            self._wake.set()

    def after_pending(self, done: Completion) -> bool:
        """Call `done` once everything put so far is durable.
        Return False, and never call `done`, when it is already."""
        if self._batcher.pending.count:
            self._batcher.pending.completions.append(done)
        elif self._in_flight is not None:
            self._in_flight.completions.append(done)
        else:
            return False
        return True

    # ---- the task -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Write groups until `close`. The store's supervisor runs this task; it ends early after DiskFailed."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._batcher.pending.count:
                group, next_header = self._cut()
                try:
                    await self._write_patiently(group)
                except BookieError as error:
                    self._suspend(group, error)
                    if not isinstance(error, errors.DiskFull):
                        return
                    break
                self._next = next_header
                self._complete(group)
            self._is_awake = False
            if self._is_closing:
                return

    def _cut(self) -> tuple[Group, Header | None]:
        self.is_backlogged = False
        pending = self._batcher.pad()
        if pending.end < self._file_bytes_max:
            group, header = self._batcher.cut(), None
        else:
            file_id = (self._next.file_id if self._next else self._file_id) + 1
            header = self._new_header(file_id, pending.end)
            group = self._batcher.cut(journal_format.seed_of(header))
        self._in_flight = group
        return group, header

    async def _write_patiently(self, group: Group) -> None:
        """Write a group. While descriptors or memory are short, nothing of it is written:
        wait, callers too, and try again."""
        is_told = False
        while True:
            try:
                await self._write(group)
            except errors.OutOfResources as error:
                if not is_told:
                    log.warning("the journal waits reason=%s", error)
                is_told = True
                await self._clock.sleep_until(self._clock.monotonic_ns() + _SHORT_RETRY_NS)
            else:
                return

    async def _write(self, group: Group) -> None:
        if self._next is not None:
            await self._begin(self._next)
            self._next = None
        assert self._file is not None
        start = await self._file.append_and_sync(group.buffers)
        assert start == group.start, f"{self._file.path}: group written at {start}, packed for {group.start}"

    def _complete(self, group: Group) -> None:
        self.synced = JournalPosition(self._file_id, group.end)
        self._in_flight = None
        stats = self._stats
        stats.journal_groups += 1
        stats.journal_records += group.count
        stats.journal_bytes += group.size_bytes
        for done in group.completions:
            done(None)

    # ---- trouble --------------------------------------------------------------------------------------------------

    def _suspend(self, group: Group, error: BookieError) -> None:
        """Refuse the records that wait: none of this group or the pending one was acknowledged. After DiskFull until a
        checkpoint has made room (`resume`); after any other error for good, as the node stops."""
        self.is_suspended = True
        pending = self._batcher.cut()
        self._in_flight = None
        self.is_backlogged = False  # nothing waits any more
        self.on_trouble(error)
        for done in (*group.completions, *pending.completions):
            done(error)

    async def resume(self) -> None:
        """Accept records again, in a new file. Call after a checkpoint that covers everything put so far.

        CRASH: the cut of the old file removes only bytes that were never acknowledged; without it a torn record would
        stand in a file that is not the last one.
        """
        assert self.is_suspended
        assert self._file is not None
        await self._file.truncate(self.synced.offset)
        await self._file.sync()
        header = self._new_header(self._file_id + 1, self.synced.offset)
        await self._disk.remove(files.path_of(self.directory, header.file_id))
        await self._begin(header)
        self._next = None
        self._batcher = GroupPacker(journal_format.seed_of(header), journal_format.FIRST_GROUP)
        self.is_suspended = False

    # ---- files ----------------------------------------------------------------------------------------------------

    def _new_header(self, file_id: int, previous_end: int) -> Header:
        return Header(file_id, self._entropy.token(journal_format.SALT_SIZE), previous_end, self._version)

    async def _begin(self, header: Header) -> None:
        """Create the file. CRASH: the header is durable before the name, and the name before any record: a file found
        after a crash has a whole header, or holds no acknowledged record."""
        path = files.path_of(self.directory, header.file_id)
        file = await self._disk.open(path, create=True, exclusive=True, in_blocks=True)
        try:
            await file.append_and_sync([journal_format.pack_head_block(header)])
            await self._disk.sync_dir(self.directory)
        except errors.OutOfResources:
            await file.close()
            await self._disk.remove(path)  # as if it had never been begun: that is tried again
            raise
        except BookieError:  # a full disk is tried again and again
            await file.close()
            raise
        if self._file is not None:
            await self._file.close()
        self._file, self._file_id = file, header.file_id
        self.synced = JournalPosition(header.file_id, journal_format.FIRST_GROUP)

    async def trim(self, mark: JournalPosition) -> None:
        """Remove files that lie wholly before `mark`. CRASH: call only after `mark` is durable; any subset of the files
        may survive a crash, as the replay begins at the mark.

        One that the disk does not remove costs its space, and no promise: it is told once, and tried again by each
        later call. Raises DiskFailed.
        """
        if mark.file_id == self._trimmed_to:
            return
        stuck = await self._remove_before(mark.file_id)
        for path, error in stuck.items():
            if path not in self._stuck:
                log.warning("journal file not removed, tried again path=%s reason=%s", path, error)
        self._stats.journal_files_stuck += len(stuck) - len(self._stuck)
        self._stuck = stuck
        if not stuck:
            self._trimmed_to = mark.file_id

    async def _remove_before(self, file_id_end: int) -> dict[str, BookieError]:
        """Remove files with ids below `file_id_end`; return those that are still there, and why."""
        stuck: dict[str, BookieError] = {}
        try:
            found = await files.list_ids(self._disk, self.directory)
        except errors.StorageFailed as error:
            return {self.directory: _passing(error)}
        for path in (files.path_of(self.directory, file_id) for file_id in found if file_id < file_id_end):
            try:
                await self._disk.remove(path)
            except errors.StorageFailed as error:
                stuck[path] = _passing(error)
        return stuck

    def stop(self) -> None:
        """Let `run` end after it has written the pending records."""
        self._is_closing = True
        self._wake.set()

    async def close(self) -> None:
        """Close the file. Call after `run` has ended."""
        if self._file is not None:
            await self._file.close()
            self._file = None
