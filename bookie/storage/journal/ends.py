"""Does a journal still hold what it is known to have held? Looks only; the replay judges everything else."""

from bookie.base import errors
from bookie.ports.disk import Disk
from bookie.storage.journal import files, reader
from bookie.storage.journal.batch import JournalPosition


async def reaches(disk: Disk, directory: str, mark: JournalPosition) -> bool:
    """True when all before `mark`, which was durable, is in the journal of `directory` (a `current`), or was let go by
    a checkpoint: a later file is there then. Damage that the replay refuses is left to it, and is True here."""
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
