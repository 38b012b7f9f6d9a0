"""The entry envelope: what a client sends, a bookie stores and a read returns, byte for byte (wire-protocol.md, 6.1).

    0         8          16         24         32           32+d
    ledgerId  entryId    LAC        length     digest (d)   payload
    all signed, big-endian; `length` counts user bytes of the ledger up to and including this entry

The LAC may be >= the entry id (re-replication writes such entries): it is never validated against it.
"""

import struct
from typing import NamedTuple

from bookie.base.errors import BadInput
from bookie.base.ids import EntryId, LedgerId
from bookie.wire.messages import Buffer

HEADER = struct.Struct(">qqqq")
HEADER_SIZE = HEADER.size
assert HEADER_SIZE == 32  # DigestManager.METADATA_LENGTH

# The part a bookie itself relies on: ids and LAC (wire-protocol.md 7.2, "body < 24 bytes").
BODY_SIZE_MIN = 24

_IDS = struct.Struct(">qq")


class EntryHeader(NamedTuple):
    """`lac`: last add confirmed known to the sender. `length`: see the module."""

    ledger_id: LedgerId
    entry_id: EntryId
    lac: int
    length: int


def pack_entry(
    ledger_id: LedgerId, entry_id: EntryId, lac: int, length: int, payload: Buffer, digest: bytes
) -> list[Buffer]:
    """Return the entry as [header and digest, payload]; the payload is borrowed."""
    return [HEADER.pack(ledger_id, entry_id, lac, length) + digest, payload]


def unpack_header(view: Buffer) -> EntryHeader:
    """Return the header of the entry in `view`. Raises BadInput when it is too short to hold one."""
    if len(view) < HEADER_SIZE:
        raise BadInput(f"an entry of {len(view)} bytes cannot hold its header of {HEADER_SIZE}")
    return EntryHeader._make(HEADER.unpack_from(view))


def unpack_ids(view: Buffer) -> tuple[LedgerId, EntryId]:
    """Return (ledger id, entry id); `view` must hold BODY_SIZE_MIN bytes. For the hot path."""
    ledger_id, entry_id = _IDS.unpack_from(view)
    return LedgerId(ledger_id), EntryId(entry_id)
