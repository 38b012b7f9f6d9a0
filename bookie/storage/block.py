"""One row of the index's table of entries: the locations of the entries in one block of a ledger. Pure.

A block is 32 consecutive entry ids. A row per entry took the checkpoint as long as the entry's bytes did, and 29 bytes
an entry instead of 13. A row is rewritten whole when one of its entries comes or moves: one truth per entry.

    0 present u32: bit i for entry i of the block | 4 one location (12 bytes, `location`) per bit, ascending
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.storage import location
from bookie.storage.location import Location

SHIFT: Final = 5
COUNT: Final = 1 << SHIFT
_SLOT_MASK: Final = COUNT - 1
_PRESENT_SIZE: Final = 4
_ALL: Final = (2**COUNT - 1).to_bytes(_PRESENT_SIZE, "big")
KEY: Final = struct.Struct(">cqq")  # "E", ledger, number of the block
assert COUNT == 8 * _PRESENT_SIZE


def pack(entry_ids: Sequence[EntryId], locations: Sequence[bytes], row: bytes | None) -> bytes:
    """Return the block's row: `row`, as the index has it, with these entries (ascending ids of one block) added."""
    if len(entry_ids) == COUNT:
        return b"".join((_ALL, *locations))
    present = _present(row) if row is not None else 0
    if present < 1 << (entry_ids[0] & _SLOT_MASK):  # all of them are behind what is there, as a writer adds
        kept = row[_PRESENT_SIZE:] if row is not None else b""
        for entry_id in entry_ids:
            present |= 1 << (entry_id & _SLOT_MASK)
        return b"".join((present.to_bytes(_PRESENT_SIZE, "big"), kept, *locations))
    slots = dict(_slots(row)) if row is not None else {}
    slots.update(zip([entry_id & _SLOT_MASK for entry_id in entry_ids], locations, strict=True))
    present = sum(1 << slot for slot in slots)
    return present.to_bytes(_PRESENT_SIZE, "big") + b"".join([slots[slot] for slot in sorted(slots)])


def pack_all(
    entry_ids: list[EntryId], locations: list[bytes], bounds: list[int], rows: list[bytes | None]
) -> list[bytes]:
    """Return `pack` of each block between two of `bounds`, and of its row. Raises CorruptFile."""
    values: list[bytes] = []
    for place in range(len(rows)):
        start, end = bounds[place], bounds[place + 1]
        row = rows[place]
        if end - start == 1 and row is not None:  # of many ledgers each has few at a time
            values.append(_with_one(row, entry_ids[start], locations[start]))
        else:
            values.append(pack(entry_ids[start:end], locations[start:end], row))
    return values


def _with_one(row: bytes, entry_id: EntryId, packed: bytes) -> bytes:
    present, bit = _present(row), 1 << (entry_id & _SLOT_MASK)
    if present >= bit:
        return pack([entry_id], [packed], row)
    return b"".join(((present | bit).to_bytes(_PRESENT_SIZE, "big"), row[_PRESENT_SIZE:], packed))


def bounds(ledger_ids: list[LedgerId], entry_ids: list[EntryId]) -> list[int]:
    """Return the places where another block begins, the first of them 0, and the end, among entries ascending by ledger
    and id."""
    found: list[int] = []
    ledger_id, after = LedgerId(-1), 0
    for place in range(len(entry_ids)):
        if entry_ids[place] >= after or ledger_ids[place] != ledger_id:
            ledger_id = ledger_ids[place]
            after = ((entry_ids[place] >> SHIFT) + 1) << SHIFT
            found.append(place)
    found.append(len(entry_ids))
    return found


def keys(ledger_ids: list[LedgerId], entry_ids: list[EntryId], bounds: list[int]) -> list[bytes]:
    """Return the key of each block between two of `bounds`."""
    pack_key = KEY.pack
    found: list[bytes] = []
    for place in range(len(bounds) - 1):
        start = bounds[place]
        found.append(pack_key(b"E", ledger_ids[start], entry_ids[start] >> SHIFT))
    return found


def partly(bounds: list[int]) -> list[int]:
    """Return the places of those blocks between two of `bounds` that are not whole: what else is in them must be looked
    up."""
    return [place for place in range(len(bounds) - 1) if bounds[place + 1] - bounds[place] < COUNT]


def find(row: bytes, entry_id: EntryId) -> Location | None:
    """Return the location of the entry, None when the row has no entry of that id. Raises CorruptFile."""
    present = _present(row)
    bit = 1 << (entry_id & _SLOT_MASK)
    if not present & bit:
        return None
    start = _PRESENT_SIZE + location.SIZE * (present & (bit - 1)).bit_count()
    return location.unpack(row[start : start + location.SIZE])


def locations_in(row: bytes, first: EntryId) -> Iterator[tuple[EntryId, Location]]:
    """Return every entry of the block that begins with id `first`, ascending. Raises CorruptFile."""
    for slot, packed in _slots(row):
        yield EntryId(first + slot), location.unpack(packed)


def last_in(row: bytes, first: EntryId) -> EntryId:
    """Return the highest entry of the block that begins with id `first`; a row is never empty."""
    return EntryId(first + _present(row).bit_length() - 1)


def _present(row: bytes) -> int:
    present = int.from_bytes(row[:_PRESENT_SIZE], "big")
    if not present or len(row) != _PRESENT_SIZE + location.SIZE * present.bit_count():
        raise errors.CorruptFile(f"index: a row of {len(row)} bytes that says it has {present.bit_count()} locations")
    return present


def _slots(row: bytes) -> Iterator[tuple[int, bytes]]:
    """Return pairs of slot and packed location, ascending."""
    present = _present(row)
    start = _PRESENT_SIZE
    while present:
        slot = (present & -present).bit_length() - 1
        yield slot, row[start : start + location.SIZE]
        start += location.SIZE
        present &= present - 1
