"""What an entry log holds of each ledger: the rows ('G' log ledger) by which collection decides what may go. Pure.

A row is an upper bound, never too little: by it a log is dropped whole.
"""

import struct
from typing import NamedTuple

from bookie.base import errors
from bookie.base.ids import LEDGER_ID_MAX, EntryId, LedgerId
from bookie.storage.run import Held

_KEY = struct.Struct(">cIq")
_USE = struct.Struct(">Qqq")
_SIZE = struct.Struct(">Q")  # of the first version, which kept no range


class Use(NamedTuple):
    """What was written of one ledger to one log:
    the bytes, and a range (inclusive) that contains all its entries there.

    An upper bound: what was rewritten elsewhere since is counted still."""

    size: int
    first: EntryId
    last: EntryId


LogUse = dict[int, dict[LedgerId, Held]]  # by log


def bounds(log_id: int) -> tuple[bytes, bytes]:
    """Return the first key (inclusive) and the end (exclusive) of a log's rows."""
    return _KEY.pack(b"G", log_id, 0), _KEY.pack(b"G", log_id, LEDGER_ID_MAX) + b"\0"


def ledger_of(key: bytes) -> LedgerId:
    """Return the ledger that a key names, or begins with."""
    return LedgerId(_KEY.unpack(key[: _KEY.size])[2])


def pair(log_id: int, item: tuple[LedgerId, Held]) -> tuple[bytes, bytes]:
    return _KEY.pack(b"G", log_id, item[0]), _USE.pack(*item[1])


def unpack(found: tuple[bytes, bytes]) -> tuple[int, LedgerId, Use]:
    """Return log, ledger and what the log holds of it. An unusable value counts as the widest one, so that the
    collector never takes the ledger for absent from the log. Raises CorruptFile when the key names no ledger."""
    key, value = found
    if len(key) != _KEY.size:
        raise errors.CorruptFile(f"index: a key of {len(key)} bytes for the use of a log")
    _, log_id, ledger_id = _KEY.unpack(key)
    if len(value) == _USE.size:
        use = Use(*_USE.unpack(value))
        if 0 <= use.first <= use.last:
            return log_id, LedgerId(ledger_id), use
    size = int(_SIZE.unpack(value)[0]) if len(value) == _SIZE.size else 0
    return log_id, LedgerId(ledger_id), Use(size, EntryId(0), EntryId(LEDGER_ID_MAX))
