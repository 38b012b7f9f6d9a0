"""A log read from its head to its end: every record of it, and of what is damaged where, and whether more follows."""

import asyncio
import struct
from typing import cast

import pytest

from bookie.base.units import KIB, MIB
from bookie.ports.disk import BLOCK_BYTES, Buffer, File, bytes_to_block
from bookie.storage.entrylog import format as log_format
from bookie.storage.entrylog import scan as scans
from bookie.storage.entrylog.scan import PIECE_BYTES, BadRecord

LOG = 5
HEADER_SIZE, HEAD_SIZE = log_format.HEADER_SIZE, log_format.RECORD_HEAD_SIZE


class Bytes:
    """A file in memory that counts what is read at once."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)
        self.reads: list[int] = []

    async def pread(self, offset: int, size: int) -> bytes:
        self.reads.append(size)
        return self.data[offset : offset + size]


def entry(entry_id: int, size: int = 0) -> bytes:
    return struct.pack(">qqq", 3, entry_id, -1) + bytes(size)


def records(*bodies: bytes) -> bytes:
    """What one append writes: records, and zeros to the end of a block."""
    buffers: list[Buffer] = []
    log_format.pack_run(LOG, 0, bodies, buffers)
    data = b"".join(buffers)
    return data + bytes(bytes_to_block(len(data)))


def a_log(*parts: bytes) -> bytes:
    return log_format.pack_head_block(LOG) + b"".join(parts)


def scanned(data: bytes) -> tuple[list[int | tuple[int, bool]], Bytes]:
    """The entry ids found, (offset, is_end) of what is damaged; and the file."""
    file = Bytes(data)

    async def look() -> list[int | tuple[int, bool]]:
        found: list[int | tuple[int, bool]] = []
        async for each in scans.scan(cast(File, file), LOG):
            if isinstance(each, BadRecord):
                found.append((each.offset, each.is_end))
            else:
                assert data[each.location.offset + HEAD_SIZE :][: each.location.size] == each.body
                found.append(each.entry_id)
        return found

    return asyncio.run(look()), file


def broken(data: bytes, entry_id: int) -> bytes:
    """The log with one bit of that entry's body flipped."""
    at = data.index(entry(entry_id)) + 20
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def at(data: bytes, entry_id: int) -> int:
    return data.index(entry(entry_id)) - HEAD_SIZE


def test_every_record_of_every_append_is_found() -> None:
    data = a_log(records(entry(0), entry(1, 900)), records(entry(2, 3 * BLOCK_BYTES)), records(entry(3)))

    assert scanned(data)[0] == [0, 1, 2, 3]
    assert scanned(a_log())[0] == []


@pytest.mark.parametrize("at_", [0, 8, 12, 16, 19])
def test_of_a_file_whose_header_is_not_that_of_the_log_nothing_else_is_told(at_: int) -> None:
    data = bytearray(a_log(records(entry(0))))
    data[at_] ^= 1

    assert scanned(bytes(data))[0] == [(0, True)]
    assert scanned(b"")[0] == [(0, True)]


def test_a_damaged_record_is_passed_over_where_its_size_leads_to_a_whole_one() -> None:
    data = a_log(records(*map(entry, range(4))))

    assert scanned(broken(data, 1))[0] == [0, (at(data, 1), False), 2, 3]


def test_the_scan_ends_where_a_damaged_record_leads_to_no_whole_one() -> None:
    """What is behind it may be read wrongly: nothing says where a record begins."""
    data = a_log(records(*map(entry, range(4))))

    assert scanned(broken(broken(data, 1), 2))[0] == [0, (at(data, 1), True)]
    full = log_format.pack_head_block(LOG) + records(entry(0, BLOCK_BYTES - HEAD_SIZE - len(entry(0))))
    assert scanned(broken(full, 0))[0] == [(BLOCK_BYTES, True)]


@pytest.mark.parametrize("left", [1, HEAD_SIZE - 1, HEAD_SIZE, HEAD_SIZE + 15, HEAD_SIZE + 20])
def test_a_torn_tail_of_any_length_is_told_and_is_the_end(left: int) -> None:
    data = a_log(records(entry(0), entry(1)))
    torn = at(data, 1)

    assert scanned(data[: torn + left])[0] == [0, (torn, True)]


def test_the_size_that_a_damaged_head_claims_is_not_read() -> None:
    """4 GiB of memory for eight bytes of rot."""
    data = bytearray(a_log(records(entry(0), entry(1))))
    second = at(bytes(data), 1)
    data[second + 4 : second + 8] = b"\xff" * 4

    found, file = scanned(bytes(data))

    assert found == [0, (second, True)]
    assert max(file.reads) <= PIECE_BYTES


@pytest.mark.parametrize("size", [PIECE_BYTES - 100, PIECE_BYTES, 2 * MIB + 5])
def test_an_entry_larger_than_a_piece_is_whole_too(size: int) -> None:
    assert scanned(a_log(records(entry(0), entry(1, size), entry(2))))[0] == [0, 1, 2]


def test_a_log_is_read_by_pieces_and_not_by_records() -> None:
    data = a_log(records(*(entry(number, KIB) for number in range(1_500))))

    found, file = scanned(data)

    assert len(found) == 1_500
    assert len(file.reads) <= 1 + 2 * len(data) // PIECE_BYTES
