"""Appending entries to the newest log of a directory, rolled by size. One caller: the directory's checkpoint.

Must never append to a log of an earlier life (its tail may be torn), and never hand out a location whose bytes were
not accepted by the file.
"""

from collections.abc import Sequence

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.ports.disk import Buffer, File
from bookie.storage import location
from bookie.storage.entrylog import format as log_format
from bookie.storage.entrylog.logs import EntryLogs

Entry = tuple[LedgerId, EntryId, bytes]


class LogWriter:
    """`next_id` is above every id this directory ever used; it is made durable before any location in that log."""

    def __init__(self, logs: EntryLogs, *, next_id: int, log_bytes_max: int) -> None:
        self.next_id = next_id
        self.current_id = -1  # the log being written; no other is ever changed
        self._logs = logs
        self._log_bytes_max = log_bytes_max
        self._file: File | None = None
        self._unsynced: list[File] = []
        self._has_new_names = False

    async def append(self, entries: Sequence[Entry]) -> tuple[int, list[bytes]]:
        """Write `entries` in order; return the log's id and each entry's packed location. Durable after `sync`.

        Raises DiskFull: nothing was written that a location points to, and the next call begins another log.
        """
        try:
            file = await self._roll() if self._file is None or self._is_full(self._file) else self._file
            log_id = self.current_id
            offset = file.size
            pack_record, pack_location = log_format.pack_record, location.pack
            buffers: list[Buffer] = []
            locations: list[bytes] = []
            for ledger_id, entry_id, body in entries:
                size = len(body)
                buffers.append(pack_record(log_id, ledger_id, entry_id, body))
                buffers.append(body)
                locations.append(pack_location(log_id, offset, size))
                offset += log_format.RECORD_HEAD_SIZE + size
            start = file.size
            written_at = await file.append(buffers)
            assert written_at == start, f"{file.path}: written at {written_at}, located at {start}"
        except errors.DiskFull:
            self._file = None
            raise
        return log_id, locations

    def _is_full(self, file: File) -> bool:
        return file.size >= self._log_bytes_max

    async def _roll(self) -> File:
        log_id = self.next_id
        self.next_id += 1
        self._has_new_names = True
        file = await self._logs.create(log_id)
        self._file, self.current_id = file, log_id
        self._unsynced.append(file)
        return file

    async def sync(self) -> None:
        """Make everything appended durable: bytes first, then new names."""
        for file in self._unsynced:
            await file.sync()
        if self._has_new_names:
            await self._logs.disk.sync_dir(self._logs.directory)
            self._has_new_names = False
        # The log being written may grow again; the full ones are finished.
        self._unsynced = [self._file] if self._file is not None else []
