"""Reads an entry log from its head to its end, piece by piece, for inspection, never to answer a client.

What the index points at is what a log holds (`index`); a scan also meets what crashes and rewrites left behind.
"""

from collections.abc import AsyncIterator
from typing import NamedTuple

from bookie.base.units import MIB
from bookie.ports.disk import File, bytes_to_block
from bookie.storage.entrylog import format as log_format
from bookie.storage.entrylog.format import ScannedRecord

PIECE_BYTES = 1 * MIB


class BadRecord(NamedTuple):
    """Bytes at `offset` that are not a whole, valid record. `is_end`: the scan cannot read anything after them."""

    offset: int
    reason: str
    is_end: bool


async def scan(file: File, log_id: int) -> AsyncIterator[ScannedRecord | BadRecord]:
    """Yield every record in order. Skip a bad record when its size leads to a valid one; any other bad record ends the
    scan, as a torn tail looks like that."""
    window = _Window(file)
    if not log_format.is_header(await window.at(0, log_format.HEADER_SIZE), log_id):
        yield BadRecord(0, "the header does not check", is_end=True)
        return
    offset = log_format.HEADER_SIZE
    while offset < file.size:
        record, end = await _record_at(window, offset, log_id)
        lacking = bytes_to_block(offset)
        if record is None and lacking and not any(await window.at(offset, lacking)):
            end = offset + lacking
        elif record is None:
            follows = end < file.size and (await _record_at(window, end, log_id))[0] is not None
            yield BadRecord(offset, "the record does not check", is_end=not follows)
            if not follows:
                return
        else:
            yield record
        offset = end


async def _record_at(window: "_Window", offset: int, log_id: int) -> tuple[ScannedRecord | None, int]:
    """Return the record at `offset`, None when it fails its check; and the end offset that its head gives."""
    head = await window.at(offset, log_format.RECORD_HEAD_SIZE)
    size = log_format.RECORD_HEAD_SIZE + log_format.claimed_size(head)
    if offset + size > window.file.size:
        return None, offset + size
    record = log_format.unpack_record(await window.at(offset, size), 0, log_id)
    if record is None:
        return None, offset + size
    return record._replace(location=record.location._replace(offset=offset)), offset + size


class _Window:
    """The part of a file that is in memory; it moves on as the file is read."""

    def __init__(self, file: File) -> None:
        self.file = file
        self._start = 0
        self._data = b""

    async def at(self, offset: int, size: int) -> bytes:
        """Return `size` bytes; fewer only at the end of the file."""
        if offset < self._start or offset + size > self._start + len(self._data):
            self._start, self._data = offset, await self.file.pread(offset, max(size, PIECE_BYTES))
        return self._data[offset - self._start : offset - self._start + size]
