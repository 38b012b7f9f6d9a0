"""Reads entries: from the caches first, then by the index from the entry log; and decides what a missing entry means.

Must never turn damage into absence, nor say "no" while something may have been lost (limbo, or nothing proven yet).
"""

import contextlib
import heapq
import itertools
from bisect import bisect_right
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import LAST_ENTRY, EntryId, IdRange, LedgerId
from bookie.base.units import MIB
from bookie.ports.disk import Buffer
from bookie.storage.bad_entries import BadEntries
from bookie.storage.entrylog.logs import EntryPlace
from bookie.storage.ledgers import DOUBT, GIVEN_UP, LIMBO, NAMED_AGAIN, Ledger
from bookie.storage.location import Location
from bookie.storage.partition import Partition
from bookie.storage.pause import pause
from bookie.storage.shapes import Routing
from bookie.storage.stats import StorageStats

# Is given the next runs of a ledger, ascending, not touching those before.
TakeRanges = Callable[[list[IdRange]], None]
# Bodies of one batch of reads; a larger one is a batch of its own.
BATCH_BYTES_MAX = 1 * MIB
# Entries of a batch whose places must come from the disk: blocks of so many rows are in RocksDB's cache together.
_WARM_COUNT = 256
_PIECE_COUNT = 1024  # entries of a list, between two looks at the loop
_SORT_COUNT = 16_384
# What a read meets whose log goes meanwhile.
_MAY_HAVE_MOVED = errors.CorruptFile, errors.FileMissing


class EntryReads:
    """All reads of the store. `is_doubtful`: nothing is proven yet, so every "no" must be "unknown"."""

    def __init__(self, partitions: Sequence[Partition], routing: Routing, bad: BadEntries, stats: StorageStats) -> None:
        self.is_doubtful = False
        self._bad = bad
        self._partitions = partitions
        self._number_of, self._first, self._count = routing.number_of, routing.first, routing.count
        self._stats = stats

    # ---- entries --------------------------------------------------------------------------------------------------

    def read_nowait(self, ledger_id: LedgerId, entry_id: EntryId) -> Buffer | None:
        self._stats.reads += 1
        is_new = ledger_id >= self._first  # no call for those: one costs more than the look
        partition = self._partitions[ledger_id % self._count if is_new else self._number_of(ledger_id)]
        if entry_id == LAST_ENTRY:
            entry_id = self._last_entry(partition, ledger_id)
        body = partition.cached(ledger_id, entry_id)
        if body is not None:
            self._stats.cache_hits += 1
            return body
        body = partition.read_cache.get(ledger_id, entry_id)
        if body is not None:
            self._stats.read_cache_hits += 1
            return body
        if partition.ahead.flight_with(ledger_id, entry_id) is not None or partition.index.is_slow():
            return None  # on its way, or its place must come from the disk as well: no look at the index here
        place = self._locate(partition, ledger_id, entry_id)
        try:
            return partition.ahead.read_nowait(place)
        except errors.StorageFailed as error:
            self._bad.add(partition, place, error)
            raise

    def read_run_nowait(self, ledger_id: LedgerId, entry_ids: Sequence[EntryId]) -> list[Buffer | None]:
        """Return for each entry its body if memory or the page cache has it. None proves nothing: ask `read_many`."""
        stats, count = self._stats, len(entry_ids)
        partition = self._partition_of(ledger_id)
        written, kept = partition.held(ledger_id), partition.read_cache.entries_of(ledger_id)
        bodies: list[Buffer | None] = [_first_of(written, entry_id) for entry_id in entry_ids]
        missing = bodies.count(None)
        stats.reads += count
        stats.cache_hits += count - missing
        if kept is not None and missing:
            columns = zip(bodies, entry_ids, strict=True)
            bodies = [kept.get(entry_id) if body is None else body for body, entry_id in columns]
            stats.read_cache_hits += missing - bodies.count(None)
        absent = [entry_id for body, entry_id in zip(bodies, entry_ids, strict=True) if body is None]
        if not absent or partition.index.is_slow() or partition.table.find(ledger_id) is None:
            return bodies
        try:
            found = partition.ahead.read_run_nowait(ledger_id, self._first_placed(partition, ledger_id, absent))
        except errors.StorageFailed:
            return bodies
        columns = zip(bodies, entry_ids, strict=True)
        return [found.get(entry_id) if body is None else body for body, entry_id in columns]

    def _first_placed(
        self, partition: Partition, ledger_id: LedgerId, entry_ids: Sequence[EntryId]
    ) -> list[tuple[EntryId, Location]]:
        """Return the locations of the first entries that the index knows, as many as may be in memory together."""
        placed: list[tuple[EntryId, Location]] = []
        wanted = [entry_id for entry_id in entry_ids if entry_id != LAST_ENTRY]
        size_bytes = 0
        for entry_id, location in zip(wanted, partition.locate_many(ledger_id, wanted), strict=True):
            if location is not None:
                size_bytes += location.size
                if size_bytes > BATCH_BYTES_MAX and placed:
                    break
                placed.append((entry_id, location))
        return placed

    async def read(self, ledger_id: LedgerId, entry_id: EntryId, *, is_warm: bool = False) -> Buffer:
        """`is_warm`: what the index has of the entry was brought into memory already."""
        partition = self._partition_of(ledger_id)
        if entry_id == LAST_ENTRY:
            entry_id = self._last_entry(partition, ledger_id)
        while True:
            body = partition.cached(ledger_id, entry_id) or partition.read_cache.get(ledger_id, entry_id)
            if body is not None:
                return body
            landed = partition.ahead.flight_with(ledger_id, entry_id)
            if landed is not None:
                await landed.wait()
                continue
            if not is_warm and partition.index.is_slow():
                await partition.index.warm(ledger_id, [entry_id])
                is_warm = True  # and look again: the entry may have come, gone or moved
                continue
            place = self._locate(partition, ledger_id, entry_id)
            self._stats.disk_reads += 1
            try:
                return await partition.ahead.read(place)
            except errors.StorageFailed as error:
                if isinstance(error, _MAY_HAVE_MOVED) and self._has_moved(partition, place):
                    continue
                self._bad.add(partition, place, error)
                raise

    async def read_many(self, ledger_id: LedgerId, entry_ids: Sequence[EntryId]) -> list[Buffer | BookieError]:
        """Return for each entry what `read` returns or raises, in the order asked; of the first of them only, as many
        as may be in memory together. One hop to the disk for what is not here, nor on its way.

        A batch only ever brings bytes that check: what it does not bring is asked for alone, and `read` says why.
        """
        partition = self._partition_of(ledger_id)
        is_warm = partition.index.is_slow()
        if is_warm:
            entry_ids = entry_ids[:_WARM_COUNT]
            await partition.index.warm(ledger_id, self._uncached(partition, ledger_id, entry_ids))
        places, count = self._places(partition, ledger_id, entry_ids)
        found: dict[EntryId, bytes | None] = {}
        if places:
            self._stats.disk_reads += len(places)
            with contextlib.suppress(errors.StorageFailed):
                bodies = await partition.ahead.read_many(places)
                found = {place.entry_id: body for place, body in zip(places, bodies, strict=True)}
        answers: list[Buffer | BookieError] = []
        for entry_id in entry_ids[:count]:
            body = found.get(entry_id)
            try:
                answers.append(body or await self.read(ledger_id, entry_id, is_warm=is_warm))
            except BookieError as error:
                answers.append(error)
        return answers

    def _uncached(self, partition: Partition, ledger_id: LedgerId, entry_ids: Sequence[EntryId]) -> list[EntryId]:
        """Return the entries that no cache has and no read under way brings."""
        return [
            entry_id
            for entry_id in entry_ids
            if entry_id >= 0
            and partition.cached(ledger_id, entry_id) is None
            and partition.read_cache.get(ledger_id, entry_id) is None
            and partition.ahead.flight_with(ledger_id, entry_id) is None
        ]

    def _places(
        self, partition: Partition, ledger_id: LedgerId, entry_ids: Sequence[EntryId]
    ) -> tuple[list[EntryPlace], int]:
        """Return the places on disk of the entries that no cache has, and how many of `entry_ids`, from the first, fit
        into one answer."""
        places: list[EntryPlace] = []
        size_bytes = 0
        for count, entry_id in enumerate(entry_ids):
            if entry_id == LAST_ENTRY or partition.ahead.flight_with(ledger_id, entry_id) is not None:
                # Its size is not known here, so it is answered alone: counted as nothing, one answer to a client that
                # asks for what others ask for brought hundreds of entries of the largest size.
                return places, max(count, 1)
            body = partition.cached(ledger_id, entry_id) or partition.read_cache.get(ledger_id, entry_id)
            try:
                place = None if body else self._locate(partition, ledger_id, entry_id)
            except BookieError:
                continue
            size_bytes += place.location.size if place else len(body or b"")
            if size_bytes > BATCH_BYTES_MAX and count:
                return places, count
            if place is not None:
                places.append(place)
        return places, len(entry_ids)

    def _has_moved(self, partition: Partition, place: EntryPlace) -> bool:
        """Return True when an entry's log may be gone since we began to wait for it (compaction):
        ask the index again."""
        return partition.locate(place.ledger_id, place.entry_id) != place.location

    async def _read_disk(self, partition: Partition, ledger_id: LedgerId, entry_id: EntryId) -> None:
        """Check the entry's bytes on the disk, even when a cache holds the entry. Raises as `read`."""
        while partition.cached(ledger_id, entry_id) is None:
            place = self._locate(partition, ledger_id, entry_id)
            try:
                await partition.logs.read(place.location, ledger_id, entry_id)
                self._bad.read_well(ledger_id, entry_id)
                return
            except _MAY_HAVE_MOVED:
                if not self._has_moved(partition, place):
                    raise

    async def read_lac(self, ledger_id: LedgerId) -> tuple[bytes | None, Buffer | None]:
        partition = self._partition_of(ledger_id)
        ledger = self.known(partition, ledger_id)
        explicit = ledger.explicit_lac
        last = partition.last_entry(ledger)
        self.check_complete(ledger_id)  # after the look, which may have met what cannot be read
        if last < 0:
            return explicit, None
        body = self.read_nowait(ledger_id, last)
        return explicit, body if body is not None else await self.read(ledger_id, last)

    def _locate(self, partition: Partition, ledger_id: LedgerId, entry_id: EntryId) -> EntryPlace:
        self.known(partition, ledger_id)
        location = partition.locate(ledger_id, entry_id)
        if location is None:
            raise self._missing(ledger_id, entry_id)
        return EntryPlace(ledger_id, entry_id, location)

    def _last_entry(self, partition: Partition, ledger_id: LedgerId) -> EntryId:
        """Return the highest entry here. Raises UnknownLedgerState in limbo: a higher one may be lost."""
        last = partition.last_entry(self.known(partition, ledger_id))
        self.check_complete(ledger_id)  # after the look, which may have met what cannot be read
        if last < 0:
            raise errors.NoSuchEntry(f"ledger {ledger_id} has no entry here")
        return last

    def _partition_of(self, ledger_id: LedgerId) -> Partition:
        return self._partitions[self._number_of(ledger_id)]

    # ---- what a miss means ------------------------------------------------------------------------------------------

    def known(self, partition: Partition, ledger_id: LedgerId) -> Ledger:
        """Return the ledger. Raises NoSuchLedger, or UnknownLedgerState while its absence is not proven."""
        ledger = partition.table.find(ledger_id) if ledger_id >= 0 else None
        if ledger is not None:
            return ledger
        if self.is_in_doubt(ledger_id):
            partition.table.touch(ledger_id)
            raise errors.UnknownLedgerState(f"this bookie cannot say yet whether it had ledger {ledger_id}")
        raise errors.NoSuchLedger(f"ledger {ledger_id} is not here")

    def is_in_doubt(self, ledger_id: LedgerId) -> bool:
        """Return True while a "no" may be untrue: something of the ledger may be lost, or was given up as surplus. Each
        path that answers "no", "nothing new" or "that is all" must ask this after its look."""
        return self.may_be_lost(ledger_id) or self._has_flags(ledger_id, GIVEN_UP) == GIVEN_UP

    def may_be_lost(self, ledger_id: LedgerId) -> bool:
        """Return True while something that this bookie should have may be missing: nothing is proven yet, the disk that
        holds the answer has failed, or part of the ledger may be lost, or was not examined since a loss."""
        partition = self._partition_of(ledger_id)
        if self.is_doubtful or partition.failure is not None:
            return True
        ledger = partition.table.find(ledger_id) if ledger_id >= 0 else None
        if ledger is None:
            return partition.table.is_doubted(ledger_id)
        return bool(ledger.flags & (LIMBO | DOUBT))

    def _has_flags(self, ledger_id: LedgerId, flags: int) -> int:
        """Return which of `flags` the ledger has; none when it is not known here."""
        ledger = self._partition_of(ledger_id).table.find(ledger_id) if ledger_id >= 0 else None
        return 0 if ledger is None else ledger.flags & flags

    def check_list(self, ledger_id: LedgerId) -> None:
        """Raise UnknownLedgerState when a list of the ledger's entries must not be taken for all that is owed here."""
        is_given_up = self._has_flags(ledger_id, GIVEN_UP | NAMED_AGAIN) == GIVEN_UP
        if is_given_up or self.may_be_lost(ledger_id):
            raise self._incomplete(ledger_id)

    def check_complete(self, ledger_id: LedgerId) -> None:
        """Raise UnknownLedgerState while part of the ledger is in doubt."""
        if self.is_in_doubt(ledger_id):
            raise self._incomplete(ledger_id)

    def _incomplete(self, ledger_id: LedgerId) -> BookieError:
        self._partition_of(ledger_id).table.touch(ledger_id)
        return errors.UnknownLedgerState(f"this bookie may have lost, or has given up, entries of ledger {ledger_id}")

    def _missing(self, ledger_id: LedgerId, entry_id: EntryId) -> BookieError:
        """Return the error for an entry that is not here:
        a proof of absence only when nothing can be lost (BP-46, "responses")."""
        if self.is_in_doubt(ledger_id):
            self._partition_of(ledger_id).table.touch(ledger_id)
            return errors.UnknownLedgerState(f"entry {entry_id} of ledger {ledger_id} is not here, or was lost")
        return errors.NoSuchEntry(f"entry {entry_id} of ledger {ledger_id} is not here")

    # ---- questions of integrity and auditors ------------------------------------------------------------------------

    def has_entries(self, ledger_id: LedgerId) -> bool:
        partition = self._partition_of(ledger_id)
        ledger = partition.table.find(ledger_id)
        return ledger is not None and partition.last_entry(ledger) >= 0

    def has_entry(self, ledger_id: LedgerId, entry_id: EntryId) -> bool:
        partition = self._partition_of(ledger_id)
        if partition.cached(ledger_id, entry_id) is not None:
            return True
        if partition.table.find(ledger_id) is None:
            return False
        location = partition.locate(ledger_id, entry_id)
        return location is not None and partition.has_log_of(location)

    async def check_entry(self, ledger_id: LedgerId, entry_id: EntryId) -> bool:
        if not self.has_entry(ledger_id, entry_id):
            return False
        try:
            await self._read_disk(self._partition_of(ledger_id), ledger_id, entry_id)
        except (errors.NoSuchEntry, errors.UnknownLedgerState):
            return False
        except errors.StorageFailed as error:
            if error.fatal or isinstance(error, errors.OutOfResources):
                raise  # says nothing about this entry
            return False
        return True

    async def entry_ranges(self, ledger_id: LedgerId) -> list[IdRange]:
        runs: list[IdRange] = []
        await self._walk_ranges(ledger_id, runs.extend)
        return runs

    async def whole_list(self, ledger_id: LedgerId, take: TakeRanges) -> None:
        await self._walk_ranges(ledger_id, take)
        self.check_list(ledger_id)

    async def _walk_ranges(self, ledger_id: LedgerId, take: TakeRanges) -> None:
        """Give `take` the ranges of `entry_ranges`, a few at a time; other tasks run in between.

        Ends with what `take` raises. Raises NoSuchLedger also when the ledger goes meanwhile.
        """
        partition = self._partition_of(ledger_id)
        self.known(partition, ledger_id)
        # First the caches: what leaves them during the walk is in the index by then, at worst behind where we are.
        cached, start = await _ascending(list(itertools.chain(*partition.held(ledger_id)))), 0
        runs: list[IdRange] = []
        if partition.table.is_in_index(ledger_id):
            async for found in partition.index.walk_locations(ledger_id):
                indexed = [entry for entry, place in found if partition.has_log_of(place)]
                end = bisect_right(cached, found[-1][0], start) if found else start
                await _take_all(runs, indexed, cached[start:end], take)
                start = end
        await _take_all(runs, [], cached[start:], take)
        self.known(partition, ledger_id)
        take(runs)

    async def ledgers(self) -> AsyncGenerator[LedgerId, None]:
        for partition in self._partitions:
            async with contextlib.aclosing(partition.table.walk()) as found:
                async for ledger_id in found:
                    yield ledger_id


def _first_of(held: Sequence[Mapping[EntryId, bytes]], entry_id: EntryId) -> bytes | None:
    for entries in held:
        body = entries.get(entry_id)
        if body is not None:
            return body
    return None


async def _ascending(ids: list[EntryId]) -> list[EntryId]:
    """Return `ids` sorted, duplicates kept. Sorts in pieces:
    some hundred thousand at once would block the loop too long."""
    chunks = []
    for start in range(0, len(ids), _SORT_COUNT):
        chunks.append(sorted(ids[start : start + _SORT_COUNT]))
        await pause()
    merged, found = heapq.merge(*chunks), list[EntryId]()
    while piece := list(itertools.islice(merged, _SORT_COUNT)):
        found += piece
        await pause()
    return found


async def _take_all(runs: list[IdRange], indexed: list[EntryId], cached: list[EntryId], take: TakeRanges) -> None:
    """Append the entries of both ascending lists to `runs`; give `take` all runs but the last, which may still grow."""
    merged = heapq.merge(indexed, cached)
    while piece := list(itertools.islice(merged, _PIECE_COUNT)):
        _extend(runs, piece)
        take(runs[:-1])
        del runs[:-1]
        if len(piece) == _PIECE_COUNT:
            await pause()


def _extend(runs: list[IdRange], entries: Iterable[EntryId]) -> None:
    """Append ascending entries, perhaps with duplicates, to `runs`."""
    for entry_id in entries:
        if runs and runs[-1][1] + 1 >= entry_id:
            runs[-1] = (runs[-1][0], entry_id)
        else:
            runs.append((entry_id, entry_id))
