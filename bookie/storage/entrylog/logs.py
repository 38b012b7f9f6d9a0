"""The entry logs of one ledger directory: their ids, their open handles, and reading a record by its location.

Must never answer with bytes that do not check, nor turn a damaged or missing log into "no such entry".
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import NamedTuple

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.base.units import KIB, MIB
from bookie.ports.disk import Buffer, Disk, File, Span
from bookie.storage import versions
from bookie.storage.entrylog import format as log_format
from bookie.storage.location import Location

log = logging.getLogger(__name__)

SUFFIX = ".log"
# One read fetches neighbours: what lies between costs less than another request, and a piece stays small in memory.
SPAN_GAP_BYTES = 16 * KIB
SPAN_BYTES_MAX = 1 * MIB
# Of one directory: half a TiB of logs of the usual size, and far below the file descriptors that a process gets.
FILES_MAX = 256
# No checkpoint begins so many logs: a file that is further above all that a directory is known to have had, and has no
# header of ours, is a stranger's.
_LEAP_MAX = 65_536
# Above this there is no id for what comes next that a location can hold (u32). At a log a second it takes 130 years.
_ID_MAX = 0xF000_0000
# Other bookies have copies. The store does not fetch them: it knows neither of others nor which bookie it is.
_REMEDY = "`bookie node fill-holes --start` fetches copies from other bookies now, else the bookie does so by itself"
_REMEDY_OF_A_LOG = f"`bookie node scrub --start` finds what is gone, {_REMEDY}"


class EntryPlace(NamedTuple):
    """An entry and the location of its record."""

    ledger_id: LedgerId
    entry_id: EntryId
    location: Location


def path_of(directory: str, log_id: int) -> str:
    """Return the path of entry log `log_id` in `directory` (a `current` directory)."""
    return f"{directory}/{log_id:08x}{SUFFIX}"


def _record_size(location: Location) -> int:
    return log_format.RECORD_HEAD_SIZE + location.size


def in_pieces(places: Sequence[EntryPlace], size_bytes_max: int) -> Iterator[list[EntryPlace]]:
    """Yield `places` in order, in pieces of at most that many bytes; a larger entry is a piece of its own."""
    piece: list[EntryPlace] = []
    size = 0
    for place in places:
        if piece and size + place.location.size > size_bytes_max:
            yield piece
            piece, size = [], 0
        piece.append(place)
        size += place.location.size
    if piece:
        yield piece


def offset_of(place: EntryPlace) -> int:
    """Return where the entry's record begins: the key to sort places of one log by."""
    return place.location.offset


def end_of(location: Location) -> int:
    """Return the offset after the entry's record."""
    return location.offset + _record_size(location)


def _spans(places: Sequence[EntryPlace]) -> Iterator[list[EntryPlace]]:
    """Yield runs of `places` that lie so close together that one read fetches them all."""
    span: list[EntryPlace] = []
    for place in places:
        if span and (
            place.location.offset - end_of(span[-1].location) > SPAN_GAP_BYTES
            or end_of(place.location) - span[0].location.offset > SPAN_BYTES_MAX
        ):
            yield span
            span = []
        span.append(place)
    if span:
        yield span


def _bodies(data: bytes, start: int, places: Sequence[EntryPlace]) -> list[bytes | None]:
    """Return the bodies of records in `data`, which was read at `start`; None for one that fails its check."""
    body_of = log_format.body_of
    return [
        body_of(data, location.offset - start, location, ledger_id, entry_id)
        for ledger_id, entry_id, location in places
    ]


class EntryLogs:
    """Reads entry logs. Keeps at most `FILES_MAX` handles open, besides logs being written. Uses no id twice."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self.disk = disk
        self.directory = directory
        self.ids: set[int] = set()
        self._doubtful: set[int] = set()  # of them: those that do not begin as a log of ours
        self.written_from = 0  # the writer's: logs from this one on may still be written, or wait for their sync
        self._files: dict[int, File] = {}  # in the order they were opened
        self._reads: dict[int, int] = {}  # under way, by log
        self._removed: dict[int, File] = {}  # closed by the last read that is under way there

    async def load(self) -> None:
        """List the directory to learn which logs exist."""
        for name in await self.disk.list(self.directory):
            stem = name.removesuffix(SUFFIX)
            if stem != name and len(stem) == 8 and all(digit in "0123456789abcdef" for digit in stem):
                self.ids.add(int(stem, 16))

    async def check_versions(self) -> None:
        """Raise RefusedToStart when a log has another format version than ours. Does not look for damage."""
        for log_id in sorted(self.ids):
            path = path_of(self.directory, log_id)
            version = None
            self._doubtful.add(log_id)
            try:
                file = await self.disk.open(path, read_only=True)
                try:
                    head = await file.pread(0, log_format.HEADER_SIZE)
                    if log_format.is_header(head, log_id):
                        self._doubtful.discard(log_id)
                    version = versions.other_format(
                        head, log_format.MAGIC, (log_format.VERSION,), log_format.HEADER_SIZE
                    )
                finally:
                    await file.close()
            except errors.OutOfResources:
                raise
            except errors.StorageFailed as error:  # one log: its entries answer an I/O error, the others are served
                log.error("entry log not readable path=%s reason=%s", path, error)
            if version is not None:
                raise versions.refusal(path, version, log_format.VERSION)

    def leave_out_strangers(self, next_id: int) -> int:
        """Leave out files that others named like logs, call after `check_versions`; return an id above every log that
        was ever here. `next_id` is above all that the index knows of.

        One of ours may have no header: the power went before it was durable, or it has rotted. Then its id is near
        others. Raises RefusedToStart when there is no id left for what comes.
        """
        known_end = max([next_id, *(log_id + 1 for log_id in self.ids - self._doubtful)])
        for log_id in sorted(self._doubtful):
            if log_id >= known_end + _LEAP_MAX:
                self.ids.discard(log_id)
                path = path_of(self.directory, log_id)
                log.error("a file has a log's name and is none of ours, left alone: move it away path=%s", path)
        above = max([known_end, *(log_id + 1 for log_id in self.ids)])
        if above > _ID_MAX:
            raise errors.RefusedToStart(
                f"{path_of(self.directory, above - 1)}: after it there is no number left for the next entry log; if"
                " this bookie did not write it, move it away; else give the bookie empty directories"
            )
        return above

    async def create(self, log_id: int) -> File:
        """Create a log and write its header; nothing is durable yet."""
        assert log_id not in self.ids
        path = path_of(self.directory, log_id)
        file = await self._with_descriptor(lambda: self.disk.open(path, create=True, exclusive=True, in_blocks=True))
        try:
            await file.append([log_format.pack_head_block(log_id)])
        except (errors.DiskFull, errors.OutOfResources):
            await file.close()
            raise
        self.ids.add(log_id)
        self._files[log_id] = file
        return file

    def read_nowait(self, location: Location, ledger_id: LedgerId, entry_id: EntryId) -> Buffer | None:
        """Return the entry's body, or None when the read would wait for the disk. Raises CorruptFile."""
        file = self._files.get(location.log_id)
        if file is None or end_of(location) > file.size:
            return None
        data = file.pread_nowait(location.offset, _record_size(location))
        if data is None:
            return None
        return self._check(data, location, ledger_id, entry_id)

    async def read(self, location: Location, ledger_id: LedgerId, entry_id: EntryId) -> Buffer:
        """Return the entry's body. Raises CorruptFile (also when the log is gone), StorageFailed."""
        (data,) = await self._pread_many(location.log_id, [(location.offset, _record_size(location))])
        return self._check(data, location, ledger_id, entry_id)

    async def read_many(self, log_id: int, places: Sequence[EntryPlace]) -> list[bytes | None]:
        """Return the bodies of entries of one log, `places` ascending by offset: one read for neighbours, one hop to
        the disk's threads for all. The caller bounds their bytes.

        None for one that does not check. Raises CorruptFile when the log is gone, StorageFailed.
        """
        spans = list(_spans(places))
        starts = [span[0].location.offset for span in spans]
        sizes = [end_of(span[-1].location) - start for start, span in zip(starts, spans, strict=True)]
        found = await self._pread_many(log_id, list(zip(starts, sizes, strict=True)))
        bodies: list[bytes | None] = []
        for data, start, span in zip(found, starts, spans, strict=True):
            bodies += _bodies(data, start, span)
        return bodies

    def read_many_nowait(self, log_id: int, places: Sequence[EntryPlace]) -> list[bytes | None] | None:
        """Return the bodies of `places`, all of one span; None when the read would wait for the disk."""
        file = self._files.get(log_id)
        if file is None:
            return None
        start, end = places[0].location.offset, end_of(places[-1].location)
        data = file.pread_nowait(start, end - start)
        return None if data is None else _bodies(data, start, places)

    async def reaches(self, log_id: int, size_bytes: int) -> bool:
        """Return whether this directory still has log `log_id` with at least `size_bytes`, which were durable there, or
        a later log: then it may have been collected. A log that cannot be opened counts as there: its reads fail."""
        await self.load()
        try:
            if log_id not in self.ids:
                later = sorted(other for other in self.ids if other > log_id)
                return bool(later) and (later[0] < log_id + _LEAP_MAX or await self._has_one_of_ours(later))
            return await self.size_of(log_id) >= size_bytes
        except errors.StorageFailed:
            return True
        finally:
            await self.close()

    async def _has_one_of_ours(self, log_ids: Sequence[int]) -> bool:
        """Return False when each of these files is one that begins as no log of ours."""
        for log_id in log_ids:
            try:
                await self._open(log_id)
            except errors.CorruptFile:
                continue
            except errors.StorageFailed:
                pass
            return True
        return False

    async def size_of(self, log_id: int) -> int:
        """Return the bytes of a log that is no longer written. Raises CorruptFile, StorageFailed."""
        return (await self._open(log_id)).size

    async def _pread_many(self, log_id: int, spans: Sequence[Span]) -> list[bytes]:
        self._reads[log_id] = self._reads.get(log_id, 0) + 1
        try:
            file = await self._open(log_id)
            # No more than there is: what a damaged location says may be more than the memory holds.
            there = [(offset, min(size, max(0, file.size - offset))) for offset, size in spans]
            return await file.pread_many(there)
        finally:
            self._reads[log_id] -= 1
            if not self._reads[log_id]:
                del self._reads[log_id]
                if log_id in self._removed:
                    await self._removed.pop(log_id).close()

    def _check(self, data: bytes, location: Location, ledger_id: LedgerId, entry_id: EntryId) -> Buffer:
        body = log_format.body_of(data, 0, location, ledger_id, entry_id)
        if body is None:
            raise errors.CorruptFile(self.complaint(EntryPlace(ledger_id, entry_id, location)))
        return body

    def complaint(self, place: EntryPlace) -> str:
        """Say what is wrong with an entry whose record fails its check, and what to do."""
        return (
            f"{path_of(self.directory, place.location.log_id)}: the record of entry {place.entry_id} of ledger"
            f" {place.ledger_id} at offset {place.location.offset} does not check; {_REMEDY}"
        )

    async def _open(self, log_id: int) -> File:
        file = self._files.get(log_id)
        if file is not None:
            return file
        path = path_of(self.directory, log_id)
        if log_id not in self.ids:
            raise errors.CorruptFile(f"{path} is missing, though the index points into it; {_REMEDY_OF_A_LOG}")
        file = await self._with_descriptor(lambda: self.disk.open(path))
        if not log_format.is_header(await file.pread(0, log_format.HEADER_SIZE), log_id):
            await file.close()
            raise errors.CorruptFile(f"{path}: the header does not check; {_REMEDY_OF_A_LOG}")
        # Two readers may have opened it meanwhile: the first one's handle is kept. None, when it was removed.
        kept = self._files.setdefault(log_id, file) if log_id in self.ids else None
        if kept is not file:
            await file.close()
        if kept is None:
            raise errors.CorruptFile(f"{path} was removed while it was read; ask the index again")
        await self.trim()
        return kept

    async def trim(self) -> None:
        """Close the handles beyond the bound that no read or write uses now, those opened first before the others."""
        while len(self._files) > FILES_MAX and await self._close_idle():
            pass

    async def _close_idle(self) -> bool:
        """Close the handle that was opened first among those not in use; return False when all are in use."""
        idle = (log_id for log_id in self._files if log_id < self.written_from and log_id not in self._reads)
        log_id = next(idle, None)
        if log_id is not None:
            await self._files.pop(log_id).close()
        return log_id is not None

    async def _with_descriptor(self, open_file: Callable[[], Awaitable[File]]) -> File:
        """Open a file; when the process has no descriptor left, close an idle handle first."""
        try:
            return await open_file()
        except errors.OutOfResources:
            if not await self._close_idle():
                raise
            return await open_file()

    async def remove(self, log_id: int) -> None:
        """Remove a log that no index row names, durably. Reads of it that are under way still complete.

        One that the disk does not remove now is there still, so that the collector finds it again."""
        self.ids.discard(log_id)
        file = self._files.pop(log_id, None)
        if file is not None and log_id in self._reads:
            self._removed[log_id] = file
        elif file is not None:
            await file.close()
        try:
            await self.disk.remove(path_of(self.directory, log_id))
            await self.disk.sync_dir(self.directory)
        except errors.StorageFailed:
            self.ids.add(log_id)
            raise

    async def close(self) -> None:
        for file in (*self._files.values(), *self._removed.values()):
            await file.close()
        self._files.clear()
        self._removed.clear()
