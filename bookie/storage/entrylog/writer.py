"""Appends entries to the newest log of a directory and begins a new log by size. Only the directory's checkpoint calls
it.

Must never append to a log of an earlier life (its tail may be torn), and never hand out a location whose bytes were
not accepted by the file.
"""

import logging
from collections.abc import Sequence

from bookie.base import errors
from bookie.ports.disk import Buffer, File, bytes_to_block
from bookie.storage.entrylog import format as log_format
from bookie.storage.entrylog.logs import EntryLogs

log = logging.getLogger(__name__)


class LogWriter:
    """`next_id` is above every id this directory ever used; it is made durable before any location in that log."""

    def __init__(self, logs: EntryLogs, *, next_id: int, log_bytes_max: int) -> None:
        self.next_id = next_id
        self.current_id = -1  # the log being written; no other is ever changed
        self.synced = (0, 0)  # its id, and its durable size; before the first sync of this life (0, 0)
        self._logs = logs
        logs.written_from = next_id
        self._log_bytes_max = log_bytes_max
        self._file: File | None = None
        self._unsynced: list[File] = []
        self._has_new_names = False
        self._began_in: File | None = None
        self._began_at = 0
        self._began_id = -1
        self._begun: list[int] = []  # logs that this checkpoint began

    @property
    def first_open_id(self) -> int:
        """Return the lowest id of a log that may still be written."""
        return self.current_id if self.current_id >= 0 else self.next_id

    def begin(self) -> None:
        """Begin a checkpoint: `roll_back` returns to this point."""
        self._began_in, self._began_at = self._file, self._file.size if self._file is not None else 0
        self._began_id = self.current_id
        self._begun = []

    async def append(self, bodies: Sequence[bytes]) -> tuple[int, list[bytes]]:
        """Write entries in order; return the log's id and their packed locations. Durable after `sync`.

        Raises DiskFull, OutOfResources: nothing was written that a location points to; call `roll_back`.
        """
        file = await self._roll() if self._file is None or self._file.size >= self._log_bytes_max else self._file
        log_id = self.current_id
        start = file.size
        buffers: list[Buffer] = []
        locations, offset = log_format.pack_run(log_id, start, bodies, buffers)
        buffers.append(bytes(bytes_to_block(offset)))
        written_at = await file.append(buffers)
        assert written_at == start, f"{file.path}: written at {written_at}, located at {start}"
        return log_id, locations

    async def _roll(self) -> File:
        log_id = self.next_id
        self.next_id += 1
        self._begun.append(log_id)
        self._has_new_names = True
        file = await self._logs.create(log_id)
        self._file, self.current_id = file, log_id
        self._unsynced.append(file)
        return file

    async def roll_back(self) -> None:
        """Cut off everything written since `begin`. Otherwise each new attempt on a full disk would fill it further.

        CRASH: nothing points at these bytes, whatever of them stays; a log that nothing points into is dropped later.
        """
        for log_id in self._begun:
            try:
                await self._logs.remove(log_id)
            except errors.StorageFailed as error:
                if error.fatal:
                    raise
                log.warning("entry log not removed, the collector finds it log_id=%d reason=%s", log_id, error)
        self._file, self.current_id = self._began_in, self._began_id
        self._unsynced = [file for file in self._unsynced if file is self._file]
        if self._file is not None:
            await self._file.truncate(self._began_at)
        self._begun = []

    async def sync(self) -> None:
        """Make everything appended durable: first the bytes, then the names of new logs."""
        for file in self._unsynced:
            await file.sync()
        if self._has_new_names:
            await self._logs.disk.sync_dir(self._logs.directory)
            self._has_new_names = False
        # The log being written may grow again; the full ones are finished.
        self._unsynced = [self._file] if self._file is not None else []
        if self._file is not None:
            self.synced = self.current_id, self._file.size
        self._logs.written_from = self.first_open_id
        await self._logs.trim()
