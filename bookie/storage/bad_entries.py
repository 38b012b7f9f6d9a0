"""Which entries here are known to be bad: the index has them, and their bytes do not check, or cannot be read.

The scrub finds them, and so does whoever reads. What is known outlives the process: rows of the index (`scrub-bad`),
hints like the place of the scrub. Each answers an I/O error, never a "no"; the fill fetches a copy of each that this
bookie owes (spec/bp46.md#R29). Must never repair, mark or delete anything.
"""

import logging
import struct
from collections.abc import Iterable, Iterator

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.ports.admin import BadEntry
from bookie.storage.entrylog.logs import EntryPlace
from bookie.storage.partition import Partition
from bookie.storage.stats import StorageStats

log = logging.getLogger(__name__)

# Known one by one; of a disk that rots as a whole, or a log that is gone, no longer list is needed: then it is enough
# to know which ledgers have more.
BAD_MAX = 1_000
MORE_MAX = 65_536
_NAME = "scrub-bad"
_ROW = struct.Struct(">qqIQ")  # ledger, entry, log, offset
_FOUND_BEFORE = "its bytes did not check before this bookie was started"


class BadEntries:
    """The known bad entries of all directories. `found`: how many were found in this life, those of the lives before
    among them; it only grows."""

    def __init__(self, partitions: Iterable[Partition], stats: StorageStats) -> None:
        self._stats = stats
        self._bad: dict[tuple[LedgerId, EntryId], BadEntry] = {}
        self._homes: dict[LedgerId, Partition] = {}  # of the ledgers in `_bad`
        self.more: set[LedgerId] = set()  # ledgers with bad entries that found no room in the list; of this life
        self.found = 0
        for partition in partitions:
            for bad in load_rows(partition.kept_hint(_NAME) or b""):
                if len(self._bad) < BAD_MAX and _is_there(partition, bad):
                    self._note(partition, bad)

    def __len__(self) -> int:
        return len(self._bad)

    def listed(self) -> tuple[BadEntry, ...]:
        return tuple(self._bad.values())

    def of(self, ledger_id: LedgerId) -> list[EntryId]:
        """Return the known bad entries of one ledger, ascending."""
        if ledger_id not in self._homes:
            return []
        return sorted(entry_id for each, entry_id in self._bad if each == ledger_id)

    def add(self, partition: Partition, place: EntryPlace, error: errors.StorageFailed) -> None:
        """Note that the entry at `place` could not be read. Not noted: what was deleted, written anew or moved
        meanwhile, and what says nothing about one entry: no descriptor is left, or the whole directory has failed."""
        if (place.ledger_id, place.entry_id) in self._bad or place.ledger_id in self.more:
            return
        if isinstance(error, errors.OutOfResources) or partition.failure is not None or not partition.is_current(place):
            return
        if len(self._bad) >= BAD_MAX:
            if len(self.more) < MORE_MAX:
                self.more.add(place.ledger_id)
                self.found += 1
            return
        location, reason = place.location, str(error)
        self._note(partition, BadEntry(place.ledger_id, place.entry_id, location.log_id, location.offset, reason))
        log.error("bad entry ledger_id=%d entry_id=%d reason=%s", place.ledger_id, place.entry_id, reason)
        self._save(partition)

    def read_well(self, ledger_id: LedgerId, entry_id: EntryId) -> None:
        """Forget an entry that reads well again."""
        if self._bad.pop((ledger_id, entry_id), None) is not None:
            self._changed()

    def forget_gone(self) -> None:
        """Forget entries whose ledger was deleted, or that were written again."""
        gone = [key for key, bad in self._bad.items() if not _is_there(self._homes[key[0]], bad)]
        for key in gone:
            del self._bad[key]
        if gone:
            self._changed()

    def _note(self, partition: Partition, bad: BadEntry) -> None:
        self._bad[bad.ledger_id, bad.entry_id] = bad
        self._homes[bad.ledger_id] = partition
        self.found += 1
        self._stats.scrub_bad = len(self._bad)

    def _changed(self) -> None:
        """Follow up what was forgotten."""
        here = {ledger_id for ledger_id, _ in self._bad}
        changed = {home.number: home for home in self._homes.values()}
        self._homes = {ledger_id: home for ledger_id, home in self._homes.items() if ledger_id in here}
        self._stats.scrub_bad = len(self._bad)
        for partition in changed.values():
            self._save(partition)

    def _save(self, partition: Partition) -> None:
        """Keep what is known of one directory."""
        rows = [
            _ROW.pack(bad.ledger_id, bad.entry_id, bad.log_id, bad.offset)
            for bad in self._bad.values()
            if self._homes[bad.ledger_id] is partition
        ]
        partition.keep_hint(_NAME, b"".join(rows))


def load_rows(data: bytes) -> Iterator[BadEntry]:
    """Yield the bad entries of a stored list; none of one that makes no sense."""
    if len(data) % _ROW.size:
        return
    for ledger_id, entry_id, log_id, offset in _ROW.iter_unpack(data):
        if ledger_id >= 0 and entry_id >= 0:
            yield BadEntry(LedgerId(ledger_id), EntryId(entry_id), log_id, offset, _FOUND_BEFORE)


def _is_there(partition: Partition, bad: BadEntry) -> bool:
    """Return True when the index names the bytes that are bad, or cannot say."""
    try:
        is_here = partition.table.is_here(bad.ledger_id)
        location = partition.locate(bad.ledger_id, bad.entry_id) if is_here else None
    except errors.StorageFailed:
        return True
    return location is not None and (location.log_id, location.offset) == (bad.log_id, bad.offset)
