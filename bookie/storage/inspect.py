"""Reads the directories of a stopped bookie without changing a byte: journal, entry logs, index.

For people and their tools. Never repairs, never concludes; damage is told where it is met, and what is readable beside
it is still shown. Directories are the configured ones (everything is in `current/` below). A running bookie's files may
be read too, but then what they say may be older than what it knows.
"""

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.ports.disk import Disk
from bookie.ports.ordered_store import OrderedStores
from bookie.storage import dirs, ledgers, replay, shapes
from bookie.storage import partition as partition_module
from bookie.storage.entrylog import logs as log_files
from bookie.storage.entrylog import scan as log_scan
from bookie.storage.index import Index
from bookie.storage.journal import files as journal_files
from bookie.storage.journal import format as journal_format
from bookie.storage.journal import reader as journal_reader
from bookie.storage.journal.batch import JournalPosition
from bookie.storage.ledgers import LedgerFacts
from bookie.storage.location import Location
from bookie.storage.log_use import Use

KIND_NAMES = {
    journal_format.ENTRY: "entry",
    journal_format.KEY: "key",
    journal_format.FENCE: "fence",
    journal_format.LAC: "lac",
    journal_format.TOUCH: "touch",
}


class Damage(NamedTuple):
    """Bytes that fail their check. `is_tail`: a crash leaves a file's end like this; no client got an ack for them."""

    path: str
    offset: int
    reason: str
    is_tail: bool


class JournalRecord(NamedTuple):
    """One record of a journal file; `kind` is entry, key, fence, lac or touch, `entry_id` -1 for all but entries."""

    path: str
    offset: int
    kind: str
    ledger_id: LedgerId
    entry_id: EntryId
    body: bytes


class LogEntry(NamedTuple):
    """One record of an entry log, whether the index still points at it or not."""

    path: str
    location: Location
    ledger_id: LedgerId
    entry_id: EntryId
    body: bytes


# ---- the journal ----------------------------------------------------------------------------------------------------


async def journal_ids(disk: Disk, directory: str) -> list[int]:
    """Return the ids of the files of one journal directory, ascending."""
    return await journal_files.list_ids(disk, dirs.current(directory))


async def journal_records(
    disk: Disk, directory: str, file_id: int, *, is_last: bool = False
) -> AsyncIterator[JournalRecord | Damage]:
    """Yield every whole record of one file. `is_last`: no file follows, so its end may be torn. Raises FileMissing."""
    where = dirs.current(directory)
    path = journal_files.path_of(where, file_id)
    try:
        file = await journal_reader.load_file(
            disk, where, file_id, is_last=is_last, previous_end=None, accept_loss=True
        )
    except errors.CorruptFile as error:
        yield Damage(path, 0, str(error), is_tail=False)
        return
    if file is None:
        yield Damage(path, 0, "the header was never whole", is_tail=True)
        return
    try:
        for record in file.records(0):  # entries that came together are one record: they share its place
            reason = replay.complaint(record)
            if reason:
                yield Damage(path, file.at, f"the record checks, but {reason}", is_tail=False)
                continue
            kind = KIND_NAMES[record.kind]
            yield JournalRecord(path, file.at, kind, record.ledger_id, record.entry_id, record.body)
    except errors.CorruptFile as error:
        yield Damage(path, file.at, str(error), is_tail=False)
    else:
        if file.end < len(file.data):
            yield Damage(path, file.end, f"{len(file.data) - file.end} bytes of a torn tail", is_tail=True)


# ---- entry logs -----------------------------------------------------------------------------------------------------


async def log_ids(disk: Disk, directory: str) -> list[int]:
    """Return the ids of the entry logs of one ledger directory, ascending."""
    logs = log_files.EntryLogs(disk, dirs.current(directory))
    await logs.load()
    return sorted(logs.ids)


async def log_entries(disk: Disk, directory: str, log_id: int) -> AsyncIterator[LogEntry | Damage]:
    """Yield every record of one entry log, in the order written. Raises FileMissing."""
    path = log_files.path_of(dirs.current(directory), log_id)
    file = await disk.open(path, read_only=True)
    try:
        async for found in log_scan.scan(file, log_id):
            if isinstance(found, log_scan.BadRecord):
                yield Damage(path, found.offset, found.reason, is_tail=found.is_end)
            else:
                yield LogEntry(path, found.location, found.ledger_id, found.entry_id, found.body)
    finally:
        await file.close()


async def read_entry(disk: Disk, directory: str, location: Location, ledger_id: LedgerId, entry_id: EntryId) -> bytes:
    """Return one entry, read from the location in the index. Raises CorruptFile, also when its log is gone."""
    logs = log_files.EntryLogs(disk, dirs.current(directory))
    await logs.load()
    try:
        return bytes(await logs.read(location, ledger_id, entry_id))
    finally:
        await logs.close()


# ---- the index ------------------------------------------------------------------------------------------------------


class IndexView:
    """The index of one ledger directory, as its last flush left it. Rows come ascending."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._malformed: dict[LedgerId, str] = {}
        index.on_malformed = self._malformed.__setitem__

    def ledgers(self) -> Iterator[tuple[LedgerId, LedgerFacts]]:
        """Yield every ledger with its durable facts; a ledger whose row cannot be read is in `quarantined`."""
        for ledger_id, row in self._index.rows():
            with contextlib.suppress(errors.CorruptFile):
                yield ledger_id, ledgers.unpack_row(ledger_id, row).facts()

    def quarantined(self) -> dict[LedgerId, str]:
        """Return the ledgers whose state is lost, and why: as the bookie noted, or because a row cannot be read (of
        rows of entries, those read so far)."""
        found = self._malformed | dict(self._index.quarantined())
        for ledger_id, row in self._index.rows():
            try:
                ledgers.unpack_row(ledger_id, row)
            except errors.CorruptFile as error:
                found.setdefault(ledger_id, str(error))
        return found

    def facts(self, ledger_id: LedgerId) -> LedgerFacts | None:
        """Return the durable facts of a ledger; None when it has no row. Raises CorruptFile."""
        row = self._index.row(ledger_id)
        return None if row is None else ledgers.unpack_row(ledger_id, row).facts()

    def entries(self, ledger_id: LedgerId | None = None) -> Iterator[tuple[LedgerId, EntryId, Location]]:
        """Yield the location of every entry, of one ledger or of all."""
        if ledger_id is None:
            yield from self._index.all_locations()
            return
        for entry_id, location in self._index.locations(ledger_id):
            yield ledger_id, entry_id, location

    def log_use(self) -> Iterator[tuple[int, LedgerId, Use]]:
        """Yield (log, ledger, what was written of it there); still counts rewritten and deleted entries."""
        return self._index.all_use()

    def marks(self) -> tuple[JournalPosition, ...]:
        """Return the mark of each journal: all records of this directory before it are in logs and index."""
        return partition_module.stored_marks(self._index)

    def shape(self) -> tuple[int, int, int] | None:
        """Return what it was made for:
        (number of this ledger directory from 0, ledger directories, journal directories)."""
        return partition_module.stored_shape(self._index)

    def history(self) -> shapes.History | None:
        """Return how many ledger directories there were when (`shapes`); None for an index that is new."""
        return partition_module.stored_history(self._index, "the index")


@contextlib.asynccontextmanager
async def open_index(stores: OrderedStores, directory: str) -> AsyncIterator[IndexView]:
    """Open the index below a configured index directory.

    Raises FileMissing, CorruptFile, StorageFailed, or RefusedToStart when another version of this program wrote it.
    """
    path = f"{dirs.current(directory)}/{dirs.INDEX}"
    index = Index(await stores.open_read_only(path))
    try:
        partition_module.begin_reading(index, path)
        yield IndexView(index)
    finally:
        await index.close()
