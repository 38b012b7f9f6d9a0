"""Derives the new metadata of an ensemble change.

Rules: spec/wire.md#W50; spec/metadata.md#M17; spec/bp46.md#S14; CONFORMANCE.md#P19, P20.
"""

from collections.abc import Mapping

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, EntryId
from bookie.metadata.ledger import LedgerMetadata, LedgerState


def still_failed(metadata: LedgerMetadata, failed: Mapping[int, BookieId]) -> dict[int, BookieId]:
    """Return those of `failed` (slot to bookie) that are still in the last ensemble:
    another client may have replaced the rest."""
    ensemble = metadata.last_segment.bookies
    return {slot: bookie_id for slot, bookie_id in sorted(failed.items()) if ensemble[slot] == bookie_id}


def changed(metadata: LedgerMetadata, lac: EntryId, replacements: Mapping[int, BookieId]) -> LedgerMetadata:
    """Return `metadata` with `replacements` (slot to new bookie) from entry `lac` + 1 on.

    A last segment that starts at that entry is replaced in place: nothing in it was ever confirmed. The metadata of
    every entry at or below the LAC stays as it is.
    """
    ensemble = list(metadata.last_segment.bookies)
    for slot, bookie_id in sorted(replacements.items()):
        assert bookie_id not in ensemble, f"{bookie_id} would be twice in one ensemble"
        ensemble[slot] = bookie_id
    first = EntryId(lac + 1)
    # Re-replication never moves a segment's first entry, and only this writer adds segments: at LAC+1 or before.
    assert first >= metadata.last_segment.first_entry, "the LAC went back"
    return metadata.with_ensemble(first, tuple(ensemble))


def why_not_open(metadata: LedgerMetadata) -> BookieError | None:
    """Return the error that ends a writer whose ledger is in this state; None while it may go on
    (CONFORMANCE.md#P20)."""
    match metadata.state:
        case LedgerState.OPEN:
            return None
        case LedgerState.IN_RECOVERY:
            return errors.LedgerFenced("another client recovers this ledger; the outcome of pending adds is unknown")
        case LedgerState.CLOSED:
            return errors.LedgerClosed(f"another client closed this ledger at entry {metadata.last_entry}")
