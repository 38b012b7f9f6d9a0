"""The entry envelope: what a client sends, a bookie stores and a read returns, byte for byte (spec/wire.md#W19).

    0         8          16         24         32           32+d
    ledgerId  entryId    LAC        length     digest (d)   payload
    all signed, big-endian; `length` counts user bytes of the ledger up to and including this entry

The LAC may be >= the entry id, since re-replication writes such entries: nobody compares the two.
"""

import struct
from typing import NamedTuple

from bookie.base.errors import BadInput
from bookie.base.ids import EntryId, LedgerId
from bookie.wire.messages import Buffer

HEADER = struct.Struct(">qqqq")
HEADER_SIZE = HEADER.size
assert HEADER_SIZE == 32  # DigestManager.METADATA_LENGTH

# A bookie itself reads only the ids and the LAC, 24 bytes (spec/wire.md#W24).
_IDS = struct.Struct(">qq")
_LAC = struct.Struct(">q")
_LAC_OFFSET = 16


class EntryHeader(NamedTuple):
    """The 32 bytes before the digest. `lac`: the last add confirmed that the sender knew. `length`: see the module."""

    ledger_id: LedgerId
    entry_id: EntryId
    lac: int
    length: int


def unpack_header(view: Buffer) -> EntryHeader:
    """Return the header of the entry in `view`. Raises BadInput when it is too short to hold one."""
    if len(view) < HEADER_SIZE:
        raise BadInput(f"an entry of {len(view)} bytes cannot hold its header of {HEADER_SIZE}")
    return EntryHeader._make(HEADER.unpack_from(view))


def unpack_lac(view: Buffer) -> int:
    """Return the LAC; `view` holds 24 bytes or more."""
    return int(_LAC.unpack_from(view, _LAC_OFFSET)[0])


def unpack_ids(view: Buffer) -> tuple[LedgerId, EntryId]:
    """Return (ledger id, entry id); `view` holds 24 bytes or more. For the hot path."""
    ledger_id, entry_id = _IDS.unpack_from(view)
    return LedgerId(ledger_id), EntryId(entry_id)
