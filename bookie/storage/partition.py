"""One ledger directory with all that belongs to it: entry logs, index, write cache, ledger table, marks.

A ledger lives in exactly one partition (`shapes`). The marks are kept in the index of the
partition whose state they describe, one per journal: a disk that went back in time brings back its own, older mark,
and the replay from there either finds its journal files or refuses.
"""

import contextlib
import logging
import struct
from collections.abc import Mapping, Sequence

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.storage import shapes, versions
from bookie.storage.doubt import Doubt
from bookie.storage.entrylog.logs import EntryLogs, EntryPlace
from bookie.storage.entrylog.writer import LogWriter
from bookie.storage.index import Index
from bookie.storage.journal.batch import NOTHING, JournalPosition
from bookie.storage.ledger_table import LedgerTable
from bookie.storage.ledgers import UNKNOWN_LAST, Ledger
from bookie.storage.location import Location
from bookie.storage.log_use import LogUse
from bookie.storage.read_ahead import DiskReadAhead
from bookie.storage.read_cache import ReadCache
from bookie.storage.run import Placed
from bookie.storage.shapes import History
from bookie.storage.write_cache import CacheGeneration

log = logging.getLogger(__name__)

_MARK = struct.Struct(">QQ")
_SHAPE = struct.Struct(">III")
_NUMBER = struct.Struct(">I")
_MARKS, _SHAPE_NAME, _NEXT_LOG, _FORMAT = "marks", "shape", "next-log", "format"
_HISTORY = "history"  # of shapes; only where a directory was added since the index began
_GIVEN_UP_NAME = "given-up"  # only where entries of a ledger were given up
# Of the index's rows (`index`, `block`); facts of ledgers have a version of their own in each row.
FORMAT_VERSION = 2  # 1 had a row for each entry
GROWN_FORMAT_VERSION = 3  # the same with a history
# Added to the format of an index that is in doubt: a program that knows no doubt would say "no" where this one says
# "unknown".
_IN_DOUBT = 0x100
# Added, for good, to the format of an index in which entries of a ledger were given up: a program that does not know
# the mark would take its row for damage, and forget the fence and the key that it holds.
_GAVE_UP = 0x200
FORMAT_IN_DOUBT = FORMAT_VERSION + _IN_DOUBT
# Added to the format of an index while it has deltas: a program that does not know them would miss entries. An orderly
# stop leaves none, so an older program may follow.
_HAS_DELTAS = 0x400
FLAGS = (_IN_DOUBT, _GAVE_UP, _HAS_DELTAS)  # whoever adds one to the format names it here: `formats` counts them


class Partition:
    """`active` takes adds; `flushing` is what a running, or failed, checkpoint writes, with the marks it will earn."""

    def __init__(
        self,
        number: int,
        index: Index,
        logs: EntryLogs,
        writer: LogWriter,
        table: LedgerTable,
        read_cache: ReadCache,
        ahead: DiskReadAhead,
    ) -> None:
        self.number = number
        self.index = index
        self.logs = logs
        self.writer = writer
        self.table = table
        self.read_cache = read_cache
        self.ahead = ahead
        self.active = CacheGeneration()
        self.flushing: CacheGeneration | None = None
        self.flushing_marks: tuple[JournalPosition, ...] = ()
        self.flushing_log = 0  # the checkpoint writes to this log and later ones
        self.is_making_rows = False  # of deltas, which name these logs
        self.written: list[Placed] | None = None  # where the entries of `flushing` are, once their bytes are synced
        self.marks: tuple[JournalPosition, ...] = ()  # durable
        self.failure: errors.PartitionFailed | None = None  # its disk takes no writes any more, until a restart
        self.durable_next_log = 0
        self.log_use: LogUse = {}  # of the log being written; after a checkpoint has rolled, of those before it too
        self.fresh_use: LogUse = {}  # what of it changed with `written`: its rows are not durable yet
        index.on_malformed = self._quarantine

    # ---- reading --------------------------------------------------------------------------------------------------

    def cached(self, ledger_id: LedgerId, entry_id: EntryId) -> bytes | None:
        """Return the entry's body if a generation holds it: it may not be in a log yet."""
        body = self.active.get(ledger_id, entry_id)
        if body is None and self.flushing is not None:
            body = self.flushing.get(ledger_id, entry_id)
        return body

    def held(self, ledger_id: LedgerId) -> list[Mapping[EntryId, bytes]]:
        """Return a ledger's entries in the generations, the newest generation first; look at them before any await."""
        flushing = self.flushing.ledgers.get(ledger_id) if self.flushing is not None else None
        return [entries for entries in (self.active.ledgers.get(ledger_id), flushing) if entries]

    def locate(self, ledger_id: LedgerId, entry_id: EntryId) -> Location | None:
        """Return where the index has the entry; None for what was there before the ledger was deleted."""
        return self.index.locate(ledger_id, entry_id) if self.table.is_in_index(ledger_id) else None

    def locate_many(self, ledger_id: LedgerId, entry_ids: Sequence[EntryId]) -> Sequence[Location | None]:
        """Return what `locate` does of each."""
        if not self.table.is_in_index(ledger_id):
            return [None] * len(entry_ids)
        return self.index.locate_many(ledger_id, entry_ids)

    def last_entry(self, ledger: Ledger) -> EntryId:
        """Return the highest entry of a ledger here, -1 when there is none."""
        if ledger.last == UNKNOWN_LAST:
            is_in_index = self.table.is_in_index(ledger.ledger_id)
            indexed = self.index.last_entry(ledger.ledger_id) if is_in_index else None
            highest = [max(entries) for entries in self.held(ledger.ledger_id)]
            ledger.last = max([EntryId(-1) if indexed is None else indexed, *highest])
        return ledger.last

    def has_log_of(self, location: Location) -> bool:
        """Return False when the entry log that the index names is gone (data volume lost, index kept;
        spec/bp46.md#T15)."""
        return location.log_id in self.logs.ids

    def is_busy(self, ledger_id: LedgerId) -> bool:
        """Return True while a generation holds entries of the ledger."""
        return bool(self.held(ledger_id))

    # ---- what the checkpoint needs ----------------------------------------------------------------------------------

    @property
    def is_clean(self) -> bool:
        """Return True when nothing is in memory that the index lacks."""
        table = self.table
        return self.flushing is None and not self.active.ledgers and not table.dirty and not table.deleted

    def rotate(self, marks: tuple[JournalPosition, ...]) -> None:
        """Begin a checkpoint. `marks`: journal positions;
        every record before them is in memory now, or checkpointed already.

        One synchronous step: an add puts its entry in the cache and its record in the journal in one step too, so
        whatever was synced before this moment is in this generation or already in the index.
        """
        assert self.flushing is None
        self.flushing, self.active = self.active, CacheGeneration()
        self.flushing_marks = marks
        self.flushing_log = self.writer.first_open_id
        self.table.rotate()

    def rotated_out(self) -> None:
        """End a durable checkpoint: drop the generation that it wrote."""
        assert self.flushing is not None
        self.read_cache.forget(self.flushing.ledgers)  # from now on the index is asked for them
        self.flushing = self.written = None
        self.fresh_use = {}
        self.marks = self.flushing_marks
        self.table.flushed()

    def delete(self, ledger_id: LedgerId, *, is_journaled: bool) -> None:
        """Forget a ledger; the next checkpoint removes it from the index. `is_journaled`: nothing of it is on its way
        to the journal."""
        self.active.drop(ledger_id)
        self.read_cache.drop(ledger_id)
        if self.flushing is not None:
            self.flushing.drop(ledger_id)
        self.table.delete(ledger_id, is_journaled=is_journaled)

    def give_up(self, ledger: Ledger) -> None:
        """Forget a ledger's entries, and nothing else of it; the next checkpoint removes them from the index."""
        self.active.drop(ledger.ledger_id)
        self.read_cache.drop(ledger.ledger_id)
        if self.flushing is not None:
            self.flushing.drop(ledger.ledger_id)
        self.table.give_up(ledger)

    def begin_giving_up(self) -> None:
        """Put into the index, before any mark, that an older program must not read it."""
        if not self.table.has_given_up:
            version = (_format_of(self.index) | _GAVE_UP) + _passing(self.index, self.index.doubt)
            self.index.put_metas({_GIVEN_UP_NAME: b"\1", _FORMAT: _NUMBER.pack(version)})
            self.table.has_given_up = True

    def _quarantine(self, ledger_id: LedgerId, reason: str) -> None:
        """Quarantine a ledger with a row that the index cannot read;
        write that first, as the row may be replaced next."""
        ledger = self.table.quarantine(ledger_id, reason)
        if ledger is not None:
            self.index.put_many(self.table.rows_of([ledger]))

    @property
    def first_open_log(self) -> int:
        """Return the first log that may still be written, or of which rows are being made; the index knows all that is
        in the logs before it."""
        is_open = self.flushing is not None or self.is_making_rows
        return self.flushing_log if is_open else self.writer.first_open_id

    def is_current(self, place: EntryPlace) -> bool:
        """Return True when the entry's location is still this one: it is not deleted, nor moved to a newer place."""
        ledger_id, entry_id, location = place
        return (
            self.table.is_here(ledger_id)
            and self.cached(ledger_id, entry_id) is None
            and self.locate(ledger_id, entry_id) == location
        )

    # ---- marks and shape ------------------------------------------------------------------------------------------

    def save_marks(self) -> None:
        """Put this checkpoint's marks into the index: the last write before its flush."""
        put_marks(self.index, self.flushing_marks)

    def save_doubt(self, doubt: Doubt) -> None:
        """Put the doubt into the index, with the format that a program must know while it stands."""
        version = _format_of(self.index) + _passing(self.index, doubt)
        self.index.put_doubt(doubt, (_FORMAT, _NUMBER.pack(version)))

    def begin_deltas(self) -> None:
        """Put into the index, before its first delta, that a program must know them."""
        if not self.index.deltas.is_told:
            version = _format_of(self.index) + (0 if self.index.doubt.is_over else _IN_DOUBT) + _HAS_DELTAS
            self.index.put_meta(_FORMAT, _NUMBER.pack(version))
            self.index.deltas.is_told = True

    def end_deltas(self) -> None:
        """Remove the deltas, of which all is in rows now."""
        self.index.drop_deltas()
        version = _format_of(self.index) + _passing(self.index, self.index.doubt)
        self.index.deltas.is_told = True  # until that is written, or tried again
        self.index.put_meta(_FORMAT, _NUMBER.pack(version))
        self.index.deltas.is_told = False

    def save_next_log(self) -> None:
        """Put the id above the newest log into the index, before any location in that log."""
        if self.durable_next_log != self.writer.next_id:
            self.index.put_meta(_NEXT_LOG, _NUMBER.pack(self.writer.next_id))
            self.durable_next_log = self.writer.next_id

    # ---- hints: what work in the background would like to know after a restart, and can find out again -------------

    def keep_hint(self, name: str, value: bytes) -> None:
        """Keep `value` if that costs nothing. Nothing is written to a directory that takes no writes any more: its
        index may lie there, too."""
        if self.failure is not None:
            return
        try:
            self.index.put_hint(name, value)
        except (errors.DiskFull, errors.OutOfResources) as error:
            log.debug("a hint could not be kept name=%s reason=%s", name, error)

    def kept_hint(self, name: str) -> bytes | None:
        """Return what an earlier life kept; None when there is nothing, or it cannot be read."""
        with contextlib.suppress(errors.StorageFailed):
            return self.index.get_meta(name)
        return None


def stored_marks(index: Index) -> tuple[JournalPosition, ...]:
    """Return the durable marks in `index`, one per journal; none before the first checkpoint."""
    data = index.get_meta(_MARKS) or b""
    if len(data) % _MARK.size:
        raise errors.CorruptFile(f"index: marks of {len(data)} bytes; one has {_MARK.size}")
    return tuple(JournalPosition(*pair) for pair in _MARK.iter_unpack(data))


def load_marks(index: Index, journals: int) -> tuple[JournalPosition, ...]:
    """Load the partition's durable marks, one per journal."""
    marks = stored_marks(index)
    if marks and len(marks) != journals:
        raise errors.CorruptFile(f"index: {len(marks)} marks for {journals} journals")
    return marks or (NOTHING,) * journals


def stored_shape(index: Index) -> tuple[int, int, int] | None:
    """Return (number of the directory from 0, ledger directories, journal directories) that `index` was made for."""
    data = index.get_meta(_SHAPE_NAME)
    if data is None:
        return None
    if len(data) != _SHAPE.size:
        raise errors.CorruptFile(f"index: its shape has {len(data)} bytes, not {_SHAPE.size}")
    number, partitions, journals = _SHAPE.unpack(data)
    return number, partitions, journals


def _stored_number(index: Index, name: str, default: int) -> int:
    data = index.get_meta(name)
    if data is None:
        return default
    if len(data) != _NUMBER.size:
        raise errors.CorruptFile(f"index: {name} has {len(data)} bytes, not {_NUMBER.size}")
    return int(_NUMBER.unpack(data)[0])


def next_log_id(index: Index, logs: EntryLogs) -> int:
    """Return an id above every log that was ever in this directory, even if its file is gone. Raises RefusedToStart."""
    return logs.leave_out_strangers(_stored_number(index, _NEXT_LOG, 0))


def stored_history(index: Index, what: str) -> History | None:
    """Return how many directories there were when, by what `index` says; None: it is new. Raises CorruptFile."""
    shape = stored_shape(index)
    if shape is None:
        return None
    data = index.get_meta(_HISTORY)
    return shapes.plain(shape[1]) if data is None else shapes.load(data, what)


def _format_of(index: Index) -> int:
    """Return the format of an index that is not in doubt."""
    if index.get_meta(_HISTORY) is not None:
        return _grown(index)
    return FORMAT_VERSION | (_GAVE_UP if has_given_up(index) else 0)


def _passing(index: Index, doubt: Doubt) -> int:
    """Return what is added to the format of `index` while it has deltas, and while `doubt` stands."""
    return (0 if index.deltas.is_empty else _HAS_DELTAS) + (0 if doubt.is_over else _IN_DOUBT)


def _grown(index: Index) -> int:
    return GROWN_FORMAT_VERSION | (_GAVE_UP if has_given_up(index) else 0)


def has_given_up(index: Index) -> bool:
    """Return True when entries of a ledger in this index were ever given up."""
    return index.get_meta(_GIVEN_UP_NAME) is not None


def begin_reading(index: Index, what: str) -> None:
    """Refuse an index whose rows are not of our format, then load its deltas: without them it misses entries.

    Raises RefusedToStart, naming `what`; CorruptFile.
    """
    if index.get_meta(_SHAPE_NAME) is not None:
        version = _stored_number(index, _FORMAT, 1)  # the first one did not say
        known = _format_of(index)
        if version & ~_HAS_DELTAS not in (known, known + _IN_DOUBT):
            raise versions.refusal(what, version, known)
        index.deltas.is_told = bool(version & _HAS_DELTAS)
    index.load_deltas()


def check_place(index: Index, *, number: int, journals: int, configured: int) -> None:
    """Refuse an index that was written as another ledger directory, or beside another number of journals.

    `configured`: ledger directories in the settings. Raises RefusedToStart.
    """
    found = stored_shape(index)
    if found is not None and (found[0], found[2]) != (number, journals):
        raise other_shape(found, (number, configured, journals))


def other_shape(found: tuple[int, int, int], configured: tuple[int, int, int]) -> errors.RefusedToStart:
    """Return the error for an index of another shape (`stored_shape`) than is configured: reads would miss ledgers."""
    (was_number, was_count, was_journals), (number, count, journals) = found, configured
    return errors.RefusedToStart(
        f"this was ledger directory {was_number + 1} of {was_count} with {was_journals} journal directories,"
        f" but is configured as {number + 1} of {count} with {journals}; configure the old directories in"
        " their old order"
    )


def begin_index(index: Index, *, number: int, history: History, journals: int) -> None:
    """Put the shape into an index that is new, or that a directory's adding left in an older one. Durable with the next
    flush, whole or not at all."""
    if len(history) == 1:
        index.put_meta(_FORMAT, _NUMBER.pack(FORMAT_VERSION))
        index.put_meta(_SHAPE_NAME, _SHAPE.pack(number, history[0].directories, journals))
    else:
        index.put_metas(
            {
                # A version that knows no history would look for each ledger by the newest rule: it must refuse.
                _FORMAT: _NUMBER.pack(_grown(index) + _passing(index, index.doubt)),
                _HISTORY: shapes.dump(history),
                _SHAPE_NAME: _SHAPE.pack(number, history[-1].directories, journals),
            }
        )


def put_marks(index: Index, marks: tuple[JournalPosition, ...]) -> None:
    """Let an index that holds no ledger begin at `marks`: whatever the journals have before them is of others."""
    index.put_meta(_MARKS, b"".join(_MARK.pack(*mark) for mark in marks))
