"""Packs and unpacks the records of auto-recovery: ledgers that lack replicas, locks of repairers, votes for auditor,
the time of a check.

Protobuf, text but for the last, shared with Java's auditor and replication worker. Rules: spec/metadata.md#M30, M31.
"""

from dataclasses import dataclass

from bookie.base import ids
from bookie.base.ids import BookieId
from bookie.base.varint import varint
from bookie.metadata import textproto
from bookie.metadata.proto.metadata_pb2 import LockDataFormat, UnderreplicatedLedgerFormat

_TIME_TAG = b"\x08"  # field 1, a varint
_TIME_BYTES_MAX = 9  # seven bits each: what has more is no time


@dataclass(frozen=True, slots=True)
class Underreplicated:
    """`missing`: the bookies that no longer hold what they should. `marked_ms` -1: not recorded."""

    missing: tuple[BookieId, ...]
    marked_ms: int = -1


def load_underreplicated(data: bytes) -> Underreplicated:
    """Load the mark of one ledger, as Java's auditor wrote it. Raises BadInput. Empty bytes name no bookie."""
    message = UnderreplicatedLedgerFormat()
    textproto.load(data, message, "the under-replication record")
    marked_ms = message.ctime if message.HasField("ctime") else -1
    return Underreplicated(tuple(BookieId(replica) for replica in message.replica), marked_ms)


def dump_underreplicated(mark: Underreplicated) -> bytes:
    """Return the mark as Java's auditor writes it (spec/metadata.md#M31)."""
    message = UnderreplicatedLedgerFormat(replica=mark.missing)
    if mark.marked_ms >= 0:
        message.ctime = mark.marked_ms
    return textproto.dump(message)


def dump_lock(holder: str) -> bytes:
    """Return the record of a lock. `holder`: Java writes its host name here, and nobody parses it as a bookie id."""
    return textproto.dump(LockDataFormat(bookieId=holder))


def load_lock(data: bytes, what: str = "the replication lock") -> str:
    """Return the holder of a lock. Raises BadInput naming `what`."""
    message = LockDataFormat()
    textproto.load(data, message, what)
    return message.bookieId


def dump_vote(bookie_id: BookieId) -> bytes:
    """Return a vote for auditor: Java parses it as a bookie id, also that of a process that is no bookie."""
    return dump_lock(bookie_id)


def load_vote(data: bytes) -> BookieId:
    """Return the bookie that stands for auditor; a vote has the form of a lock. Raises BadInput."""
    return ids.parse_bookie_id(load_lock(data, "the auditor's vote"))


def dump_check_time(wall_ms: int) -> bytes:
    """Return the record of a check that began then, as Java's auditor writes it (CheckAllLedgersFormat)."""
    return _TIME_TAG + varint(wall_ms)


def load_check_time(data: bytes) -> int | None:
    """Return the milliseconds since the epoch in the record of a check; None for one that says no time: the check is
    due then, which costs reads and hides nothing."""
    digits = data.removeprefix(_TIME_TAG)
    if len(digits) == len(data) or not 1 <= len(digits) <= _TIME_BYTES_MAX:
        return None
    *before, last = digits
    if last & 0x80 or not all(byte & 0x80 for byte in before):
        return None
    return sum((byte & 0x7F) << 7 * place for place, byte in enumerate(digits))
