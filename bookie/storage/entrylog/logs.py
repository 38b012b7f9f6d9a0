"""The entry logs of one ledger directory: which exist, their open handles, reading a record by its location.

Must never answer with bytes that do not check, nor turn a damaged or missing log into "no such entry".
"""

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.ports.disk import Buffer, Disk, File
from bookie.storage.entrylog import format as log_format
from bookie.storage.location import Location

SUFFIX = ".log"


def path_of(directory: str, log_id: int) -> str:
    """The path of entry log `log_id` in `directory` (a `current` directory)."""
    return f"{directory}/{log_id:08x}{SUFFIX}"


def _record_size(location: Location) -> int:
    return log_format.RECORD_HEAD_SIZE + location.size


class EntryLogs:
    """Handles stay open: a log is 1 GiB, so a directory has hundreds, not thousands. Ids never come back."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self.disk = disk
        self.directory = directory
        self.ids: set[int] = set()
        self._files: dict[int, File] = {}

    async def load(self) -> None:
        """Learn which logs are there."""
        for name in await self.disk.list(self.directory):
            stem = name.removesuffix(SUFFIX)
            if stem != name and len(stem) == 8 and all(digit in "0123456789abcdef" for digit in stem):
                self.ids.add(int(stem, 16))

    async def create(self, log_id: int) -> File:
        """Begin a log: its header is written, nothing is durable yet."""
        assert log_id not in self.ids
        file = await self.disk.open(path_of(self.directory, log_id), create=True, exclusive=True)
        await file.append([log_format.pack_header(log_id)])
        self.ids.add(log_id)
        self._files[log_id] = file
        return file

    def read_nowait(self, location: Location, ledger_id: LedgerId, entry_id: EntryId) -> Buffer | None:
        """The entry's body, or None when the disk must be waited for. Raises CorruptFile."""
        file = self._files.get(location.log_id)
        if file is None:
            return None
        data = file.pread_nowait(location.offset, _record_size(location))
        if data is None:
            return None
        return self._check(data, location, ledger_id, entry_id)

    async def read(self, location: Location, ledger_id: LedgerId, entry_id: EntryId) -> Buffer:
        """The entry's body. Raises CorruptFile (also when the log is gone), StorageFailed."""
        file = await self._open(location.log_id)
        data = await file.pread(location.offset, _record_size(location))
        return self._check(data, location, ledger_id, entry_id)

    def _check(self, data: bytes, location: Location, ledger_id: LedgerId, entry_id: EntryId) -> Buffer:
        if len(data) == _record_size(location) and log_format.is_record(data, location.log_id, ledger_id, entry_id):
            return memoryview(data)[log_format.RECORD_HEAD_SIZE :]
        raise errors.CorruptFile(
            f"{path_of(self.directory, location.log_id)}: the record of entry {entry_id} of ledger {ledger_id} at"
            f" offset {location.offset} does not check; other bookies have copies: run the integrity check here"
        )

    async def _open(self, log_id: int) -> File:
        file = self._files.get(log_id)
        if file is not None:
            return file
        path = path_of(self.directory, log_id)
        if log_id not in self.ids:
            raise errors.CorruptFile(f"{path} is missing, though the index points into it; run the integrity check")
        file = await self.disk.open(path)
        if not log_format.is_header(await file.pread(0, log_format.HEADER_SIZE), log_id):
            await file.close()
            raise errors.CorruptFile(f"{path}: the header does not check; run the integrity check")
        # Two readers may have opened it meanwhile: the first one's handle is kept.
        kept = self._files.setdefault(log_id, file)
        if kept is not file:
            await file.close()
        return kept

    async def remove(self, log_id: int) -> None:
        """Remove a log that nothing points into, durably."""
        self.ids.discard(log_id)
        file = self._files.pop(log_id, None)
        if file is not None:
            await file.close()
        await self.disk.remove(path_of(self.directory, log_id))
        await self.disk.sync_dir(self.directory)

    async def close(self) -> None:
        for file in self._files.values():
            await file.close()
        self._files.clear()
