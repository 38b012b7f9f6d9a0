"""Limits on what the store accepts, so that each file format can hold it. Pure.

Asked before anything is written or remembered; the formats assert the same where they pack. Replay asks the formats
and not these: what an earlier version took and a row can hold is kept.
"""

from typing import Final

from bookie.base import errors
from bookie.base.ids import LEDGER_ID_MAX, LedgerId
from bookie.base.units import KIB, MIB

# Java's is 20 bytes, a SHA-1 (DigestManager, generateMasterKey). Each ledger in memory holds one.
MASTER_KEY_BYTES_MAX: Final = 1 * KIB
# Two ids, and a digest of at most 20 bytes (DigestManager, computeDigestAndPackageForSendingLac).
EXPLICIT_LAC_BYTES_MAX: Final = 1 * KIB
# Of one call: a run is one record of the journal, and is held twice by the write cache. Frames are far smaller.
ADD_BYTES_MAX: Final = 256 * MIB
LIMBO_EPOCH_MAX: Final = 2**64 - 1


def check_master_key(ledger_id: LedgerId, master_key: bytes) -> None:
    """Raise BadRequest when the key is larger than any client's."""
    if len(master_key) > MASTER_KEY_BYTES_MAX:
        raise errors.BadRequest(
            f"a master key of {len(master_key)} bytes for ledger {ledger_id}: at most {MASTER_KEY_BYTES_MAX}"
        )


def check_explicit_lac(ledger_id: LedgerId, size: int) -> None:
    """Raise BadRequest when an explicit LAC of `size` bytes is larger than any client's."""
    if size > EXPLICIT_LAC_BYTES_MAX:
        raise errors.BadRequest(
            f"an explicit LAC of {size} bytes for ledger {ledger_id}: at most {EXPLICIT_LAC_BYTES_MAX}"
        )


def check_add(ledger_id: LedgerId, size: int) -> None:
    """Raise BadRequest when one add has `size` bytes of entries, more than one record can hold."""
    if size > ADD_BYTES_MAX:
        raise errors.BadRequest(f"{size} bytes of ledger {ledger_id} at once: at most {ADD_BYTES_MAX}")


def check_mark(ledger_id: LedgerId, master_key: bytes | None, epoch: int) -> None:
    """Raise BadRequest when integrity asks for a mark that does not fit into a row."""
    check_master_key(ledger_id, master_key or b"")
    if not 0 <= ledger_id <= LEDGER_ID_MAX:
        raise errors.BadRequest(f"ledger id {ledger_id} is not between 0 and {LEDGER_ID_MAX}")
    if not 0 <= epoch <= LIMBO_EPOCH_MAX:
        raise errors.BadRequest(f"a limbo epoch of {epoch}: between 0 and {LIMBO_EPOCH_MAX}")
