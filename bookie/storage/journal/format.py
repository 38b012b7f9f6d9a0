"""Bytes of a journal file. Pure; never reads a file and never decides what a bad record means for a start.

    file    header and zeros, one block (`ports.disk`); then groups of records, each group whole blocks
    header  0 magic "BKIEJNL1" | 8 version u32 | 12 file id u64 | 20 salt 8 | 28 previous end u64 | 36 crc u32 | 40
    record  0 crc u32 | 4 size u32 | 8 group start u32 | 12 kind u8 | 13 "BKR" | 16 ledger i64 | 24 entry i64 | 32 body
    body of ENTRIES     0 count u32 | 4 size u32 of each | entries, one after the other
    body of PADDING     zeros: it ends a group at the end of a block
    TOUCH has no body; it stands only in files of version 4

All numbers big-endian. The record's CRC32C covers everything after it and starts from a seed made of the file's salt,
so a record of another file, or one that a client stored as its payload, is never valid here. Kind 0 does not exist:
zeros are never a record. `group start` is the offset where the record's group began. A group is appended only after
the sync of the one before it has returned, hence: a valid record whose group starts *after* offset X proves that
everything before X was durable. That is what tells rot from a torn tail (`is_synced_beyond`). `previous end` is the
size of the file before this one, so that a file cut short between two records is seen too. A group is whole blocks so
that no write ever covers bytes that were synced before: no disk can tear those. (A lone add costs 4 KiB of the file;
the disk wrote as much of it anyway.) Padding is a record like the others, so zeros are rot there too.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import google_crc32c

from bookie.base.errors import BadInput
from bookie.base.ids import EntryId, LedgerId
from bookie.base.units import GIB
from bookie.ports.disk import BLOCK_BYTES, bytes_to_block

MAGIC: Final = b"BKIEJNL1"
VERSION: Final = 3  # 1 had no ENTRIES, 2 no PADDING
# The same, and may hold TOUCH: an older program must refuse it, since what it would make of a touch is no limbo.
TOUCH_VERSION: Final = 4
READABLE: Final = range(VERSION, TOUCH_VERSION + 1)
_HEADER: Final = struct.Struct(">8sIQ8sQ")
_CRC: Final = struct.Struct(">I")
_HEAD: Final = struct.Struct(">IIB3sqq")
_ENTRY_ID: Final = struct.Struct(">q")  # at 8 in an entry (spec/wire.md#W19)
HEADER_SIZE: Final = _HEADER.size + _CRC.size
RECORD_HEAD_SIZE: Final = _CRC.size + _HEAD.size
_MARK: Final = b"BKR"
_MARK_OFFSET: Final = 13
SALT_SIZE: Final = 8
FIRST_GROUP: Final = BLOCK_BYTES  # offset of the first group
assert HEADER_SIZE == 40
assert RECORD_HEAD_SIZE == 32

# Kinds of record. Numbers are for ever.
ENTRY: Final = 1  # body: the entry as the client sent it
KEY: Final = 2  # body: the master key of a ledger seen for the first time
FENCE: Final = 3  # body: the fence's key, which makes a ledger that is unknown (spec/storage.md#E2)
LAC: Final = 4  # body: the explicit LAC as the client sent it
ENTRIES: Final = 5  # body: entries of one ledger that came together; each names itself in its head
PADDING: Final = 6  # body: zeros
TOUCH: Final = 7  # no body: an entry of the ledger is in memory alone, of the checkpoint that comes next
KINDS: Final = frozenset((ENTRY, KEY, FENCE, LAC, ENTRIES, PADDING, TOUCH))
NO_ENTRY: Final = EntryId(-1)  # the entry field of every kind but ENTRY
NO_LEDGER: Final = LedgerId(-1)  # the ledger field of PADDING
# What a search for synced records checks altogether in those of more than a block. A torn tail may be all payload, and
# a payload a million heads of which each claims everything after it: hours of checksums (two MiB took 38 s). Records of
# a block at most are always checked, and a group ends with one, its padding.
_CHECKED_BYTES_MAX: Final = GIB


class Header(NamedTuple):
    file_id: int
    salt: bytes
    previous_end: int
    version: int = VERSION


class WholeRecord(NamedTuple):
    """One whole record; `end` is the offset after it."""

    kind: int
    ledger_id: LedgerId
    entry_id: EntryId
    body: bytes
    end: int


def pack_head_block(header: Header) -> bytes:
    """Return the block at the head of a file."""
    return pack_header(header).ljust(FIRST_GROUP, b"\0")


def pack_header(header: Header) -> bytes:
    """Return the 40 bytes at the head of a file."""
    fields = _HEADER.pack(MAGIC, header.version, header.file_id, header.salt, header.previous_end)
    return fields + _CRC.pack(google_crc32c.value(fields))


def unpack_header(data: bytes) -> Header | None:
    """Return the header at the start of `data`, or None when the bytes are not our header (torn, rotten, foreign)."""
    if len(data) < HEADER_SIZE:
        return None
    fields = data[: _HEADER.size]
    magic, version, file_id, salt, previous_end = _HEADER.unpack(fields)
    (crc,) = _CRC.unpack_from(data, _HEADER.size)
    if magic != MAGIC or version not in READABLE or crc != google_crc32c.value(fields):
        return None
    return Header(file_id, salt, previous_end, version)


def seed_of(header: Header) -> int:
    """Return the CRC seed of the file's records."""
    return int(google_crc32c.value(pack_header(header)))


def pack_record(seed: int, group_start: int, kind: int, ledger_id: LedgerId, entry_id: EntryId, body: bytes) -> bytes:
    """Return the 32 bytes that go before `body`."""
    head = _HEAD.pack(len(body), group_start, kind, _MARK, ledger_id, entry_id)
    crc: int = google_crc32c.extend(google_crc32c.extend(seed, head), body)
    return crc.to_bytes(4, "big") + head


def pack_run(
    seed: int, group_start: int, ledger_id: LedgerId, entry_ids: Sequence[EntryId], bodies: Sequence[bytes]
) -> tuple[bytes, int]:
    """Return the bytes that go before `bodies` in one record that holds them all, and the size of the whole record."""
    count = len(bodies)
    if count == 1:
        head = pack_record(seed, group_start, ENTRY, ledger_id, entry_ids[0], bodies[0])
        return head, len(head) + len(bodies[0])
    sizes = list(map(len, bodies))
    table = struct.pack(f">{1 + count}I", count, *sizes)
    size = len(table) + sum(sizes)
    head = _HEAD.pack(size, group_start, ENTRIES, _MARK, ledger_id, NO_ENTRY) + table
    crc: int = google_crc32c.extend(seed, head)
    extend = google_crc32c.extend
    for body in bodies:
        crc = extend(crc, body)
    return crc.to_bytes(4, "big") + head, RECORD_HEAD_SIZE + size


def pack_padding(seed: int, group_start: int, size: int) -> bytes:
    """Return the padding record that fills a group of `size` bytes up to the end of a block; b"" when the group ends
    there already. When the block has too little room for a record head, the padding fills the next block as well."""
    lacking = bytes_to_block(size)
    if not lacking:
        return b""
    body = bytes(lacking - RECORD_HEAD_SIZE + (BLOCK_BYTES if lacking < RECORD_HEAD_SIZE else 0))
    return pack_record(seed, group_start, PADDING, NO_LEDGER, NO_ENTRY, body) + body


def expand(record: WholeRecord) -> Iterator[WholeRecord]:
    """Yield the records that a record stands for: itself, one ENTRY for each of ENTRIES, none for PADDING.

    Raises BadInput when the body is not laid out so: written by something else than `pack_run`.
    """
    if record.kind != ENTRIES:
        if record.kind != PADDING:
            yield record
        return
    body = record.body
    try:
        (count,) = _CRC.unpack_from(body)
        sizes = struct.unpack_from(f">{count}I", body, _CRC.size)
        start = _CRC.size * (1 + count)
        for size in sizes:
            entry = body[start : start + size]
            (entry_id,) = _ENTRY_ID.unpack_from(entry, 8)
            yield WholeRecord(ENTRY, record.ledger_id, EntryId(entry_id), entry, record.end)
            start += size
    except struct.error as error:
        raise BadInput(f"entries of ledger {record.ledger_id} that end early: {error}") from error
    if start != len(body):
        raise BadInput(f"entries of ledger {record.ledger_id} with {len(body) - start} bytes too many")


def unpack_record(data: bytes, offset: int, seed: int) -> WholeRecord | None:
    """Return the record at `offset`, or None when there is no whole, valid one. The body is a copy. The reader judges
    an unknown kind: a record with a right checksum is no torn tail."""
    if offset + RECORD_HEAD_SIZE > len(data):
        return None
    size, group_start, kind, mark, ledger_id, entry_id = _HEAD.unpack_from(data, offset + 4)
    end = offset + RECORD_HEAD_SIZE + size
    if mark != _MARK or end > len(data) or not HEADER_SIZE <= group_start <= offset:
        return None
    (crc,) = _CRC.unpack_from(data, offset)
    if google_crc32c.extend(seed, data[offset + 4 : end]) != crc:
        return None
    return WholeRecord(kind, LedgerId(ledger_id), EntryId(entry_id), data[offset + RECORD_HEAD_SIZE : end], end)


def is_synced_beyond(data: bytes, offset: int, seed: int, *, checked_bytes_max: int = _CHECKED_BYTES_MAX) -> bool:
    """Return True when a valid record after `offset` belongs to a group that began later: then the bytes at `offset`
    were synced, perhaps acknowledged, and have rotted. False: they may be the torn tail of the last group, which was
    never acknowledged."""
    left = checked_bytes_max
    for start in _heads_after(data, offset):
        size, group_start, *_ = _HEAD.unpack_from(data, start + _CRC.size)
        if not offset < group_start <= start or size > len(data) - start:
            continue  # whatever it is, it proves nothing: nothing is summed up for it
        if size > BLOCK_BYTES:
            if size > left:
                continue
            left -= size
        if unpack_record(data, start, seed) is not None:
            return True
    return False


def _heads_after(data: bytes, offset: int) -> Iterator[int]:
    """Yield where a whole record head may begin after `offset`: each place whose mark is right."""
    position = data.find(_MARK, offset)
    while position >= 0:
        start = position - _MARK_OFFSET
        if offset < start <= len(data) - RECORD_HEAD_SIZE:
            yield start
        position = data.find(_MARK, position + 1)
