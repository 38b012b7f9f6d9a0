"""Reads a journal back at start: every record from a mark to the end, or a refusal that names file and offset.

Must never skip a record that may have been acknowledged. A bad record ends the replay only in the last file and only
when nothing after it proves that it had been synced (`format.is_synced_beyond`).
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from bookie.base import errors
from bookie.ports.disk import Disk
from bookie.storage import versions
from bookie.storage.journal import files
from bookie.storage.journal import format as journal_format
from bookie.storage.journal.batch import NOTHING, JournalPosition
from bookie.storage.journal.format import Header, WholeRecord

_ADVICE = (
    "the bookie does not start on it: restore the file, or the index volume, if that was set back; or take this volume"
    " for lost: move its files away and start again, then the bookie asks for a grant and brings back what is missing"
)


@dataclass(slots=True)
class JournalFile:
    """The bytes and header of one file, and two offsets: of the record that `records` has reached, and of the end
    (known once `records` is exhausted)."""

    path: str
    file_id: int
    data: bytes
    header: Header
    is_last: bool
    at: int = journal_format.FIRST_GROUP
    end: int = journal_format.FIRST_GROUP

    def records(self, start: int) -> Iterator[WholeRecord]:
        """Yield every whole record from `start` (0: the first one), entry by entry. Raises CorruptFile; sets `end`.

        One of ENTRIES is yielded as it is when it cannot be taken apart."""
        seed = journal_format.seed_of(self.header)
        if start > len(self.data):
            raise errors.CorruptFile(
                f"{self.path}: the checkpoint reaches offset {start}, the file ends at {len(self.data)}; {_ADVICE}"
            )
        offset = max(start, journal_format.FIRST_GROUP)
        while offset < len(self.data):
            self.at = offset
            record = journal_format.unpack_record(self.data, offset, seed)
            if record is None:
                if not self.is_last or journal_format.is_synced_beyond(self.data, offset, seed):
                    raise errors.CorruptFile(
                        f"{self.path}: the record at offset {offset} does not check, and it was durable; {_ADVICE}"
                    )
                break
            try:
                expanded = list(journal_format.expand(record))
            except errors.BadInput:
                expanded = [record]  # it checks, and is told by its kind as one that makes no sense
            yield from expanded
            offset = record.end
        self.end = offset

    def check_reaches(self, newest: JournalPosition) -> None:
        """Raise CorruptFile when a mark says that more of this file was durable than `records` found."""
        if self.file_id == newest.file_id and self.end < newest.offset:
            raise errors.CorruptFile(
                f"{self.path}: a checkpoint reached offset {newest.offset}, the records end at {self.end}; {_ADVICE}"
            )


async def find_files(
    disk: Disk, directory: str, mark: JournalPosition, newest: JournalPosition, *, accept_loss: bool
) -> list[int]:
    """Return the ids of files to replay: from the mark's file on, without a gap, at least up to the newest mark's file,
    which existed. Raises CorruptFile when one is missing.

    `accept_loss`: integrity has been granted to go on without what is missing; take what is there.
    """
    found = await files.list_ids(disk, directory)
    ids = [file_id for file_id in found if file_id >= mark.file_id]
    if accept_loss:
        return ids
    first = mark.file_id if mark != NOTHING else 1
    if mark == NOTHING and not ids:
        return []
    last = max(ids[-1] if ids else first, newest.file_id)
    if len(ids) != last - first + 1:
        there = set(ids)
        missing = next(file_id for file_id in itertools.count(first) if file_id not in there)
        later = [files.path_of(directory, file_id) for file_id in ids if file_id > missing][:1]
        odd = f" ({later[0]} is there: is it this bookie's?)" if later else ""
        raise errors.CorruptFile(
            f"{files.path_of(directory, missing)} is missing, and the last checkpoint does not cover it{odd}; {_ADVICE}"
        )
    return ids


async def load_file(
    disk: Disk,
    directory: str,
    file_id: int,
    *,
    is_last: bool,
    previous_end: int | None,
    accept_loss: bool,
    newest: JournalPosition = NOTHING,
) -> JournalFile | None:
    """Read one file. Return None for a last file whose header is torn: no record was ever put in it.

    `previous_end`: where the file before ended, None when it was not read. `newest`: the newest durable mark; the file
    that it is in was begun. Raises CorruptFile, RefusedToStart.
    """
    path = files.path_of(directory, file_id)
    data = bytes(await disk.read(path))
    header = journal_format.unpack_header(data)
    known = journal_format.READABLE
    version = versions.other_format(data, journal_format.MAGIC, known, journal_format.HEADER_SIZE)
    if version is not None:
        raise versions.refusal(path, version, known[0] if version < known[0] else known[-1])
    if header is None or header.file_id != file_id:
        if is_last and len(data) <= journal_format.FIRST_GROUP and (accept_loss or file_id > newest.file_id):
            return None
        raise errors.CorruptFile(f"{path}: the header at offset 0 does not check; {_ADVICE}")
    if previous_end is not None and header.previous_end != previous_end and not accept_loss:
        raise errors.CorruptFile(
            f"{files.path_of(directory, file_id - 1)}: ends at {previous_end}, but ended at {header.previous_end}"
            f" when the next file was begun; {_ADVICE}"
        )
    return JournalFile(path, file_id, data, header, is_last)
