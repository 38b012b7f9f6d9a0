"""All acts by which persons gave up something of one ledger, as its record tells them. Pure.

An act without signature is as good as one with it for bookies, workers and readers (spec/metadata.md#M49, M57); what a
signature is worth is told to persons alone. Never: leaves out a note because it cannot be read, or does not verify.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bookie.base.ids import IdRange
from bookie.metadata import loss_signature, lost_entries
from bookie.metadata.ledger import LedgerMetadata
from bookie.metadata.loss_signature import Judgement, Place, TrustedKey, Worth

ENDED = "bookie.accepted-loss"  # the key of the note of a ledger whose end a person had decided (spec/metadata.md#M49)
DECLARED = lost_entries.KEY
_NOT_IN_FORCE = Judgement(Worth.NOT_IN_FORCE, "not in force: the ledger is not closed, so that nobody heeds it")
_UNREADABLE = Judgement(Worth.INVALID, "does not verify: the note cannot be read, or says one thing twice")
_AT_MS_MAX = 253_402_300_799_999  # the end of the year 9999; what is no time of a clock is not shown as one


@dataclass(frozen=True, slots=True)
class RecordedLoss:
    """One act. `act`: ENDED or DECLARED. `runs`: that were declared lost, inclusive. `last_entry`: of an ENDED one, the
    entry that the ledger was closed at; None where the note does not say. `at_ms`: 0 where it does not say."""

    act: str
    signature: Judgement
    by: str = ""
    reason: str = ""
    at_ms: int = 0
    runs: tuple[IdRange, ...] = ()
    last_entry: int | None = None


def has_notes(metadata: LedgerMetadata) -> bool:
    """Return True when something was given up, as the ledger's record tells it, readable or not."""
    return any(key in (ENDED, DECLARED) for key, _ in metadata.custom)


def of(metadata: LedgerMetadata, place: Place, trusted: Sequence[TrustedKey] | None) -> list[RecordedLoss]:
    """Return the acts in a ledger's record, the one that closed it first. `trusted`: see `loss_signature.judge`."""
    notes = dict(metadata.custom)
    found: list[RecordedLoss] = []
    if ENDED in notes:
        found.append(_ended(notes[ENDED], metadata, place, trusted))
    if DECLARED in notes:
        found += _declared(notes[DECLARED], metadata, place, trusted)
    if not metadata.is_closed:  # whoever makes a ledger may write one
        return [replace(each, signature=_NOT_IN_FORCE) for each in found]
    return found


def _ended(value: bytes, metadata: LedgerMetadata, place: Place, trusted: Sequence[TrustedKey] | None) -> RecordedLoss:
    try:
        note = loss_signature.load(value)
    except (ValueError, RecursionError):
        return RecordedLoss(ENDED, _UNREADABLE)
    if not isinstance(note, dict):
        return RecordedLoss(ENDED, _UNREADABLE)
    at_ms, last_entry = note.get("atMs"), note.get("lastEntry")
    return RecordedLoss(
        ENDED,
        loss_signature.judge(ENDED, note, place, metadata, trusted),
        by=str(note.get("by", "")),
        reason=str(note.get("reason", "")),
        at_ms=_time(at_ms),
        last_entry=last_entry if type(last_entry) is int else None,
    )


def _declared(
    value: bytes, metadata: LedgerMetadata, place: Place, trusted: Sequence[TrustedKey] | None
) -> Iterator[RecordedLoss]:
    acts = lost_entries.load(value)
    try:
        notes = loss_signature.load(value)
    except (ValueError, RecursionError):
        notes = None
    if not acts:
        yield RecordedLoss(DECLARED, _UNREADABLE)
    for index, act in enumerate(acts):
        judgement = _UNREADABLE
        if isinstance(notes, list) and isinstance(notes[index], Mapping):
            judgement = loss_signature.judge(DECLARED, notes[index], place, metadata, trusted)
        yield RecordedLoss(DECLARED, judgement, by=act.by, reason=act.reason, at_ms=_time(act.at_ms), runs=act.runs)


def _time(at_ms: object) -> int:
    return at_ms if isinstance(at_ms, int) and 0 <= at_ms <= _AT_MS_MAX else 0
