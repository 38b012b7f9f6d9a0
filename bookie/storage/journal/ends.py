"""Checks that a journal still holds the records that a mark proves were there. Reads only; the replay judges them."""

from bookie.base import errors
from bookie.ports.disk import Disk
from bookie.storage.journal import files, reader
from bookie.storage.journal.batch import JournalPosition


async def reaches(disk: Disk, directory: str, mark: JournalPosition) -> bool:
    """Return True when the journal of `directory` (a `current`) holds all records before the durable `mark`, or a
    checkpoint trimmed them: a later file exists then. Also True for damage, which the replay refuses."""
    ids = await files.list_ids(disk, directory)
    if not ids or ids[-1] < mark.file_id:
        return False
    if ids[-1] > mark.file_id:
        return True  # its head says how long the file before was, and the replay compares
    try:
        file = await reader.load_file(disk, directory, mark.file_id, is_last=True, previous_end=None, accept_loss=True)
        if file is None:
            return False
        for _ in file.records(0):
            pass
    except (errors.CorruptFile, errors.RefusedToStart):
        return True
    return file.end >= mark.offset
