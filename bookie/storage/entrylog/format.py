"""Bytes of an entry log. Pure.

    log       header and zeros, one block (`ports.disk`); then what was appended, each time records, one after the
              other, and zeros to the end of a block: nothing that was synced is ever written again
    header    0 magic "BKIELOG1" | 8 version u32 | 12 log id u32 | 16 crc u32 | 20
    record    0 crc u32 | 4 size u32 | 8 ledger i64 | 16 entry i64 | 24 body (size bytes, never empty)

All numbers big-endian. The record's CRC32C covers everything after it, starting from the log id, so that a flipped bit,
a torn record or a wrong location is an error and never an answer. A size of 0 is never written, hence never read: zeros
are not a record.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import google_crc32c

from bookie.base.ids import EntryId, LedgerId
from bookie.ports.disk import Buffer
from bookie.storage import location as locations
from bookie.storage.location import Location

MAGIC: Final = b"BKIELOG1"
VERSION: Final = 1
_HEADER: Final = struct.Struct(">8sII")
_CRC: Final = struct.Struct(">I")
_HEAD: Final = struct.Struct(">Iqq")
HEADER_SIZE: Final = _HEADER.size + _CRC.size
RECORD_HEAD_SIZE: Final = _CRC.size + _HEAD.size
assert HEADER_SIZE == 20
assert RECORD_HEAD_SIZE == 24


def pack_header(log_id: int) -> bytes:
    """Return the 20 bytes at the head of a log."""
    fields = _HEADER.pack(MAGIC, VERSION, log_id)
    return fields + _CRC.pack(google_crc32c.value(fields))


def is_header(data: bytes, log_id: int) -> bool:
    """True when `data` begins with the header of log `log_id`."""
    return data[:HEADER_SIZE] == pack_header(log_id)


def other_version(data: bytes) -> int | None:
    """The format's number, when `data` begins with a whole header of another format than ours; else None."""
    if len(data) < HEADER_SIZE or data[: len(MAGIC)] != MAGIC:
        return None
    (version,) = _CRC.unpack_from(data, len(MAGIC))
    (crc,) = _CRC.unpack_from(data, _HEADER.size)
    return int(version) if version != VERSION and crc == google_crc32c.value(data[: _HEADER.size]) else None


def pack_run(
    log_id: int,
    offset: int,
    ledger_id: LedgerId,
    entry_ids: Sequence[EntryId],
    bodies: Sequence[bytes],
    buffers: list[Buffer],
) -> tuple[list[bytes], int]:
    """Append the records of a run that begins at `offset` to `buffers`; return each one's packed location, and the
    offset after the last. No body is empty."""
    places: list[bytes] = []
    extend, pack_head, pack_location = google_crc32c.extend, _HEAD.pack, locations.pack
    for entry_id, body in zip(entry_ids, bodies, strict=True):
        size = len(body)
        head = pack_head(size, ledger_id, entry_id)
        crc: int = extend(extend(log_id, head), body)
        buffers.append(crc.to_bytes(4, "big") + head)
        buffers.append(body)
        places.append(pack_location(log_id, offset, size))
        offset += RECORD_HEAD_SIZE + size
    return places, offset


def is_record(data: bytes, log_id: int, ledger_id: LedgerId, entry_id: EntryId) -> bool:
    """True when `data` is exactly one whole, valid record of that entry in that log."""
    if len(data) <= RECORD_HEAD_SIZE:
        return False
    (crc,) = _CRC.unpack_from(data)
    size, ledger, entry = _HEAD.unpack_from(data, 4)
    return bool(
        size == len(data) - RECORD_HEAD_SIZE
        and ledger == ledger_id
        and entry == entry_id
        and google_crc32c.extend(log_id, data[4:]) == crc
    )


def claimed_size(head: bytes) -> int:
    """The body's size as the head says, checked by nothing yet; 0 for a head that is not whole."""
    return int(_HEAD.unpack_from(head, _CRC.size)[0]) if len(head) >= RECORD_HEAD_SIZE else 0


class ScannedRecord(NamedTuple):
    ledger_id: LedgerId
    entry_id: EntryId
    location: Location
    body: bytes


def unpack_record(data: bytes, offset: int, log_id: int) -> ScannedRecord | None:
    """Return the record at `offset` of a whole log's bytes; None when no whole, valid one is there."""
    if offset + RECORD_HEAD_SIZE > len(data):
        return None
    size, ledger, entry = _HEAD.unpack_from(data, offset + 4)
    record = data[offset : offset + RECORD_HEAD_SIZE + size]
    if not is_record(record, log_id, ledger, entry):
        return None
    location = Location(log_id, offset, size)
    return ScannedRecord(LedgerId(ledger), EntryId(entry), location, record[RECORD_HEAD_SIZE:])
