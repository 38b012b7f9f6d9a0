"""Bytes of an entry log. Pure.

    log       header and zeros, one block (`ports.disk`); then what was appended, each time records, one after the
              other, and zeros to the end of a block: nothing that was synced is ever written again
    header    0 magic "BKIELOG1" | 8 version u32 | 12 log id u32 | 16 crc u32 | 20
    record    0 crc u32 | 4 size u32 | 8 body (size bytes), an entry as its client sent it: it begins with its ids

All numbers big-endian. The record's CRC32C is that of the body, starting from the log id; a location says its size. So
a flipped bit, a torn record or a wrong location is an error and never an answer. No entry is shorter than its head
(`storage.heads`), so zeros are not a record.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import google_crc32c

from bookie.base.ids import EntryId, LedgerId
from bookie.ports.disk import BLOCK_BYTES, Buffer
from bookie.storage import location as locations
from bookie.storage.location import Location

MAGIC: Final = b"BKIELOG1"
VERSION: Final = 2  # 1 had the ids in the head too
_HEADER: Final = struct.Struct(">8sII")
_CRC: Final = struct.Struct(">I")
_HEAD: Final = struct.Struct(">II")
_IDS: Final = struct.Struct(">qq")
HEADER_SIZE: Final = _HEADER.size + _CRC.size
RECORD_HEAD_SIZE: Final = _HEAD.size
assert HEADER_SIZE == 20
assert RECORD_HEAD_SIZE == 8


def pack_head_block(log_id: int) -> bytes:
    """Return the block at the head of a log."""
    return pack_header(log_id).ljust(BLOCK_BYTES, b"\0")


def pack_header(log_id: int) -> bytes:
    """Return the 20 bytes at the head of a log."""
    fields = _HEADER.pack(MAGIC, VERSION, log_id)
    return fields + _CRC.pack(google_crc32c.value(fields))


def is_header(data: bytes, log_id: int) -> bool:
    """True when `data` begins with the header of log `log_id`."""
    return data[:HEADER_SIZE] == pack_header(log_id)


def pack_run(log_id: int, offset: int, bodies: Sequence[bytes], buffers: list[Buffer]) -> tuple[list[bytes], int]:
    """Append the records of entries, the first at `offset`, to `buffers`; return each one's packed location, and the
    offset after the last."""
    places: list[bytes] = []
    extend, pack_head, pack_location = google_crc32c.extend, _HEAD.pack, locations.pack
    for body in bodies:
        size = len(body)
        buffers.append(pack_head(extend(log_id, body), size))
        buffers.append(body)
        places.append(pack_location(log_id, offset, size))
        offset += RECORD_HEAD_SIZE + size
    return places, offset


def body_of(data: bytes, start: int, location: Location, ledger_id: LedgerId, entry_id: EntryId) -> bytes | None:
    """Return the body of the entry's record, which begins at `start` of `data`; None unless a whole, valid record of
    this very entry is there."""
    begin = start + RECORD_HEAD_SIZE
    body = data[begin : begin + location.size]
    if len(body) != location.size or location.size < _IDS.size:
        return None
    crc, size = _HEAD.unpack_from(data, start)
    ledger, entry = _IDS.unpack_from(body)
    is_it = size == location.size and ledger == ledger_id and entry == entry_id
    return body if is_it and google_crc32c.extend(location.log_id, body) == crc else None


def claimed_size(head: bytes) -> int:
    """Return the body's size as the record's head gives it, not verified; 0 for a head that is cut off."""
    return int(_HEAD.unpack_from(head)[1]) if len(head) >= RECORD_HEAD_SIZE else 0


class ScannedRecord(NamedTuple):
    ledger_id: LedgerId
    entry_id: EntryId
    location: Location
    body: bytes


def unpack_record(data: bytes, offset: int, log_id: int) -> ScannedRecord | None:
    """Return the record at `offset` of a whole log's bytes; None when no whole, valid one is there."""
    if offset + RECORD_HEAD_SIZE + _IDS.size > len(data):
        return None
    location = Location(log_id, offset, claimed_size(data[offset : offset + RECORD_HEAD_SIZE]))
    ledger_id, entry_id = map(int, _IDS.unpack_from(data, offset + RECORD_HEAD_SIZE))
    body = body_of(data, offset, location, LedgerId(ledger_id), EntryId(entry_id))
    return None if body is None else ScannedRecord(LedgerId(ledger_id), EntryId(entry_id), location, body)
