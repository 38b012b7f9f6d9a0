"""Whether the store may accept adds; if not, why: failed disks, full disks, a full write cache, read-only, stopping.

A full disk makes the bookie read-only until there is room again. A ledger directory that refuses a write while others
take them makes it read-only until a restart: a ledger lives in one directory (its id decides), so its writes cannot go
elsewhere, and a read-only bookie still serves what it has. Anything else that fails, a sync above all, stops the node,
once. Nothing is decided here about ledgers, and no failure is ever forgotten.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.ports.disk import Disk, Usage
from bookie.storage import dirs
from bookie.storage.journal.writer import JournalWriter
from bookie.storage.options import StorageOptions
from bookie.storage.partition import Partition

log = logging.getLogger(__name__)


class StorageHealth:
    """Tells whether the store accepts adds. The hot path asks `is_refusing` alone:
    False means that the add may go on."""

    def __init__(
        self,
        options: StorageOptions,
        disk: Disk,
        partitions: Sequence[Partition],
        journals: Sequence[JournalWriter],
        *,
        fail: Callable[[BookieError], None],
    ) -> None:
        self.is_refusing = False
        self.failure: BookieError | None = None
        self.usage = Usage(0, 0)  # the space of all ledger directories together, as last measured
        self.disks: dict[str, Usage] = {}  # of each directory, as last measured
        self.room = asyncio.Event()
        self.room.set()
        self.is_stuck = False  # the last checkpoint turn could not do all: no room comes soon
        self._options = options
        self._disk = disk
        self._partitions = partitions
        self._journals = journals
        self._fail = fail
        self._is_stopping = False
        self._is_set_read_only = False
        self._has_turn = False
        self._is_turn_sealed = False  # this bookie is about to be stopped, and was flushed for the last time
        self.is_draining = False  # read-only because it leaves the fleet, whatever else is the case
        self.is_drain_sealed = False  # it is about to prove that nothing needs it
        self.is_disk_full = False  # from the first write that found no space until a checkpoint turn finds room again
        self._full = ""  # which disk, or what waits for space, in words that stay the same while it lasts
        self._has_failed_partition = False
        self._is_short = False

    # ---- questions --------------------------------------------------------------------------------------------------

    @property
    def is_read_only(self) -> bool:
        """Return True when normal adds are refused: set by hand, a disk is full, or it is this bookie's turn to be
        stopped."""
        is_told = self._is_set_read_only or self._has_turn or self.is_draining
        return is_told or self.is_disk_full or self._has_failed_partition

    @property
    def why_read_only(self) -> str:
        """Return every reason for which adds are refused, in words for a person; "" while they are taken."""
        reasons = (
            (self.is_disk_full, self._full),
            (self._has_failed_partition, "a ledger directory failed; a restart looks at it anew"),
            (self.is_draining, "it leaves the fleet"),
            (self._has_turn, "it is about to be stopped"),
            (self._is_set_read_only, "it was made read-only by hand or by its settings"),
        )
        return "; ".join(why for is_so, why in reasons if is_so)

    def check_sealed(self) -> None:
        """Raise while adds of recoveries are refused too. The error is one that a recovery answers by choosing another
        bookie."""
        if self._is_turn_sealed:
            # No flush but the last one would make it durable; the answer is that of the next second, when nobody is
            # here (spec/operator.md#Q12).
            raise errors.StorageFailed("this bookie is about to be stopped")
        if self.is_drain_sealed:
            raise errors.StorageFailed("this bookie leaves the fleet")

    def check_alive(self) -> None:
        """Raise StorageFailed when the node is stopping or has failed."""
        if self.failure is not None:
            raise errors.StorageFailed(f"this bookie is stopping: {self.failure}")
        if self._is_stopping:
            raise errors.StorageFailed("this bookie is stopping")

    def check_accepting(self) -> None:
        """Raise when nothing new can be made durable."""
        self.check_alive()
        if any(journal.is_suspended for journal in self._journals):
            raise errors.BookieReadOnly("this bookie has no space left in its journal")

    def ledger_room(self) -> tuple[int, int]:
        """Return (bytes taken, bytes that may be taken before this bookie turns read-only) of all ledger directories,
        as last measured; (-1, -1) before, and while one of them does not say."""
        found = [self.disks.get(directory) for directory in self._options.ledger_dirs]
        usages = [usage for usage in found if usage is not None]
        if len(usages) < len(found):
            return -1, -1
        kept = 1 - self._options.disk_used_max
        room = sum(max(0, int(usage.free_bytes - kept * usage.total_bytes)) for usage in usages)
        return sum(usage.total_bytes - usage.free_bytes for usage in usages), room

    def disk_usage(self, number: int) -> Usage:
        """Return the space of one ledger directory's disk, as last measured."""
        return self.disks.get(self._options.ledger_dirs[number], Usage(0, 0))

    # ---- what changes the answers -----------------------------------------------------------------------------------

    def set_read_only(self, read_only: bool) -> None:
        """Set the mode by hand; it stays until unset. Recovery adds and fences are still accepted."""
        self._is_set_read_only = read_only
        self._settle()

    def set_turn(self, is_on: bool, *, is_sealed: bool) -> None:
        """Refuse normal adds, when `is_sealed` every add, while this bookie is to be stopped; whatever else makes it
        read-only stays as it is."""
        self._has_turn, self._is_turn_sealed = is_on, is_sealed
        self._settle()

    def set_draining(self, is_draining: bool) -> None:
        """Be read-only for the sake of a drain, or not any more, which ends its seal. Other reasons to be read-only
        stay as they are."""
        self.is_draining = is_draining
        self.is_drain_sealed = self.is_drain_sealed and is_draining
        self._settle()

    def seal_drain(self) -> None:
        """While it drains, refuse adds of recoveries too (spec/metadata.md#M41); fences go on. Does nothing else."""
        self.is_drain_sealed = self.is_draining  # a drain that was cancelled just now seals nothing

    def stop(self) -> None:
        self._is_stopping = True
        self._settle()

    def on_trouble(self, error: BookieError) -> None:
        """Decide what the failure of a journal or a checkpoint means for the node."""
        if isinstance(error, errors.DiskFull):
            # Until a checkpoint turn, at the latest one interval from now, finds room again.
            self._is_short = False  # what waits now waits for space
            self._set_disk_full(True, str(error), str(error))
        elif isinstance(error, errors.OutOfResources):
            # Nothing is wrong with a disk, and nothing is lost: what was not written is written later.
            if not self._is_short:
                log.warning("short of descriptors or memory, tried again reason=%s", error)
            self._is_short = True
        elif isinstance(error, errors.PartitionFailed):
            if not self._has_failed_partition:
                log.error("ledger directory failed, read-only until a restart reason=%s", error)
            self._has_failed_partition = True
            self._settle()
        elif self.failure is None:
            self.failure = error
            self._settle()
            self.room.set()  # callers that wait there meet the failure instead
            self._fail(error)

    async def measure(self) -> bool:
        """Measure disks and caches after a checkpoint turn; return True when another turn is needed at once."""
        total = free = 0
        fullest, where = 0.0, ""
        # Clients are not told of room in a directory that takes no writes any more.
        usable = {self._options.ledger_dirs[each.number] for each in self._partitions if each.failure is None}
        for directory in dirs.all_dirs(self._options):
            try:
                usage = await self._disk.usage(directory)
            except errors.StorageFailed as error:  # what that means is found out by who writes there
                log.warning("a disk does not say how full it is reason=%s", error)
                self.disks.pop(directory, None)
                continue
            self.disks[directory] = usage
            if usage.used_share > fullest:
                fullest, where = usage.used_share, directory
            if directory in usable:
                total, free = total + usage.total_bytes, free + usage.free_bytes
        self.usage = Usage(total, free)
        waiting = self._waiting()
        self.is_stuck = bool(waiting) or any(partition.failure is not None for partition in self._partitions)
        limit = self._options.disk_used_again if self.is_disk_full else self._options.disk_used_max
        waits = f"a write to {', '.join(waiting)} waits for space: free some, or give the volume more"
        self._is_short = self._is_short and bool(waiting)
        above = (
            f"the disk of {where} was more than {self._options.disk_used_max:.0%} full (diskUsageThreshold) and is not"
            f" below {self._options.disk_used_again:.0%} again (diskUsageLwmThreshold)"
        )
        is_full = (bool(waiting) and not self._is_short) or fullest > limit
        what, lasting = (waits, waits) if waiting else (f"{where} is {fullest:.0%} full", above)
        self._set_disk_full(is_full, what, lasting)
        bound = self._options.write_cache_bytes_max
        if self.is_stuck or all(partition.active.size_bytes <= bound for partition in self._partitions):
            self.room.set()  # when stuck, too: reads must not wait for space, and adds are refused
            return False
        return True

    def _waiting(self) -> list[str]:
        """Return the directories that what was given to the store waits for. One that takes no writes any more waits
        for no space: that is told as what it is."""
        of_index = self._options.index_dirs_used
        waiting = [journal.directory for journal in self._journals if journal.is_suspended]
        for each in self._partitions:
            if each.flushing is not None and each.failure is None:
                waiting += [self._options.ledger_dirs[each.number], of_index[each.number]]
        return list(dict.fromkeys(waiting))

    def _set_disk_full(self, is_full: bool, what: str, lasting: str) -> None:
        """`what`: as measured now, for the log. `lasting`: for reports, which are compared from one to the next."""
        if is_full and not self.is_disk_full and self.failure is None:  # a node that stops will not wait
            log.warning("read-only until there is space again reason=%s", what)
        elif self.is_disk_full and not is_full:
            log.info("writable again, there is space fullest=%s", what)
        self.is_disk_full, self._full = is_full, lasting if is_full else ""
        self._settle()

    def _settle(self) -> None:
        self.is_refusing = (
            self.failure is not None
            or self._is_stopping
            or self.is_read_only
            or any(journal.is_suspended for journal in self._journals)
        )
