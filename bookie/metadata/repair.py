"""Records about ledgers that lack replicas, and the locks of those who repair them (codec only).

Protobuf text, shared with Java's auditor and replication worker. Rules: spec/metadata.md#M30, M31.
"""

from dataclasses import dataclass

from bookie.base import ids
from bookie.base.ids import BookieId
from bookie.metadata import textproto
from bookie.metadata.proto.metadata_pb2 import LockDataFormat, UnderreplicatedLedgerFormat


@dataclass(frozen=True, slots=True)
class Underreplicated:
    """`missing`: the bookies that no longer hold what they should. `marked_ms` -1: not recorded."""

    missing: tuple[BookieId, ...]
    marked_ms: int = -1


def dump_underreplicated(record: Underreplicated) -> bytes:
    message = UnderreplicatedLedgerFormat(replica=record.missing)
    if record.marked_ms >= 0:
        message.ctime = record.marked_ms
    return textproto.dump(message)


def load_underreplicated(data: bytes) -> Underreplicated:
    """Raises BadInput. Empty bytes are a legal record that names nobody."""
    message = UnderreplicatedLedgerFormat()
    textproto.load(data, message, "the under-replication record")
    marked_ms = message.ctime if message.HasField("ctime") else -1
    return Underreplicated(tuple(BookieId(replica) for replica in message.replica), marked_ms)


def dump_lock(holder: str) -> bytes:
    """`holder`: Java writes its host name here, and nobody parses it as a bookie id."""
    return textproto.dump(LockDataFormat(bookieId=holder))


def load_lock(data: bytes) -> str:
    """Raises BadInput."""
    message = LockDataFormat()
    textproto.load(data, message, "the replication lock")
    return message.bookieId


def load_vote(data: bytes) -> BookieId:
    """Who stands for auditor; the message has the shape of a lock's. Raises BadInput."""
    message = LockDataFormat()
    textproto.load(data, message, "the auditor's vote")
    return ids.parse_bookie_id(message.bookieId)
