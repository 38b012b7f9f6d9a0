"""Checks the part of an entry that a bookie reads: the head. Digest and payload are the writer's business. Pure.

0 ledger id | 8 entry id | 16 the highest entry that its writer knew to be confirmed        i64, big-endian
(spec/wire.md#W19)
"""

import struct
from collections.abc import Sequence
from typing import Final

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId

HEAD: Final = struct.Struct(">qqq")


def check(ledger_id: LedgerId, entry_ids: Sequence[EntryId], bodies: Sequence[bytes]) -> EntryId:
    """Return the highest LAC in the entries' heads that lies before its entry, -1 for none.

    Raises BadRequest when a head names another entry, or an id is negative.
    """
    highest = -1
    unpack = HEAD.unpack_from
    try:
        for entry_id, body in zip(entry_ids, bodies, strict=True):
            ledger, entry, lac = unpack(body)
            if ledger != ledger_id or entry != entry_id or entry_id < 0 or ledger_id < 0:
                raise errors.BadRequest(f"entry {entry_id} of ledger {ledger_id} says that it is {entry} of {ledger}")
            if highest < lac < entry_id:
                highest = lac
    except struct.error:
        raise errors.BadRequest(
            f"an entry of ledger {ledger_id} is shorter than the {HEAD.size} bytes of its head"
        ) from None
    return EntryId(highest)
