"""The location of an entry's record: the index stores it and the entry logs read by it. Pure.

0 log id u32 | 4 offset u32 of the record | 8 size u32 of the body      big-endian, 12 bytes
"""

import struct
from typing import Final, NamedTuple

from bookie.base import errors

_LOCATION: Final = struct.Struct(">III")
SIZE: Final = _LOCATION.size

pack = _LOCATION.pack  # (log id, offset, size): called for every entry of a checkpoint


class Location(NamedTuple):
    """Log, offset of the record's first byte, size of the entry's body."""

    log_id: int
    offset: int
    size: int


def unpack(data: bytes) -> Location:
    """Return the location in 12 bytes. Raises CorruptFile for any other size."""
    if len(data) != SIZE:
        raise errors.CorruptFile(f"index: a location of {len(data)} bytes; it has {SIZE}")
    return Location(*_LOCATION.unpack(data))
