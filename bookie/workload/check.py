"""Compares the acknowledged entries of a ledger with the entries that were read, and gives the verdict. Pure.

Rules (spec/bp46.md#S1, S2): an acknowledged entry never lies beyond the end of a closed ledger, and reads back with
exactly the acknowledged bytes. Entries that were read but never recorded are fine: the record is written after the
acknowledgement, so a killed writer's last entries may be missing in it, never the other way round.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from bookie.base import errors
from bookie.workload import payload, records

PROBLEMS_MAX = 20  # enough to see what is wrong; the counts are complete


@dataclass(slots=True)
class AcknowledgedLedger:
    """All acknowledged entries of one ledger."""

    ledger_id: int
    plan: str
    seed: int
    acknowledged: dict[int, records.Ack] = field(default_factory=dict)
    acknowledged_ms: dict[int, int] = field(default_factory=dict)
    closed_at: int | None = None
    failed: str | None = None

    @property
    def last_acknowledged(self) -> int:
        """The highest acknowledged entry; -1 = none."""
        return max(self.acknowledged, default=-1)

    def acknowledged_before(self, wall_ms: int) -> list[int]:
        """The entries recorded before `wall_ms`, in order."""
        return sorted(entry for entry, at_ms in self.acknowledged_ms.items() if at_ms < wall_ms)


def expectations(found: Iterable[records.Record]) -> dict[int, AcknowledgedLedger]:
    """Gather the records of one writer's log, in their order, by ledger. Raises BadInput for a log that says something
    of a ledger before it was created: a part of it is missing."""
    ledgers: dict[int, AcknowledgedLedger] = {}
    now_ms = 0
    for record in found:
        match record:
            case records.Time(wall_ms):
                now_ms = wall_ms
            case records.Create(ledger_id, plan, seed):
                ledgers[ledger_id] = AcknowledgedLedger(ledger_id, plan, seed)
            case records.Ack() | records.Close() if record.ledger_id not in ledgers:
                raise errors.BadInput(
                    f"the oracle's log has a record of ledger {record.ledger_id} and none of its creation: a part of"
                    " the log is missing, so nothing that it says can be checked"
                )
            case records.Ack():
                ledgers[record.ledger_id].acknowledged[record.entry_id] = record
                ledgers[record.ledger_id].acknowledged_ms[record.entry_id] = now_ms
            case records.Close(ledger_id, last_entry):
                ledgers[ledger_id].closed_at = last_entry
            case records.Fail(ledger_id, reason) if ledger_id in ledgers:
                ledgers[ledger_id].failed = reason
            case records.Fail():
                pass  # a ledger that could not be created: nothing of it was ever acknowledged
    return ledgers


@dataclass(slots=True)
class CheckResult:
    """The sum over ledgers. `lost` counts acknowledged entries that provably do not come back byte for byte, `unknown`
    those that nobody could read now: a bookie or the metadata store that does not answer proves nothing."""

    ledgers: int = 0
    recovered: int = 0
    acknowledged: int = 0
    verified: int = 0
    lost: int = 0
    unknown: int = 0
    wrong_ends: int = 0
    replicas_checked: int = 0
    replicas_missing: int = 0
    replicas_unknown: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.unknown or self.replicas_missing or self.replicas_unknown or self.problems)

    @property
    def outcome(self) -> str:
        """One of "damage", "whole" and "not known". Only a run that read every acknowledged entry is "whole"."""
        if self.lost or self.replicas_missing or self.wrong_ends:
            return "damage"
        return "whole" if self.is_clean and self.verified == self.acknowledged > 0 else "not known"

    def problem(self, text: str) -> None:
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(text)

    def judge_end(self, expected: AcknowledgedLedger, last_entry: int) -> None:
        """Check where a ledger ends: not before what was acknowledged, and where its writer closed it."""
        if last_entry < expected.last_acknowledged:
            acknowledged = f"entry {expected.last_acknowledged} was acknowledged"
            self.wrong_ends += 1
            self.problem(f"ledger {expected.ledger_id} ends at {last_entry}, and {acknowledged}")
        if expected.closed_at is not None and last_entry != expected.closed_at:
            self.wrong_ends += 1
            self.problem(f"ledger {expected.ledger_id} was closed at {expected.closed_at} and now ends at {last_entry}")

    def judge_entry(self, expected: AcknowledgedLedger, entry_id: int, body: bytes | memoryview) -> None:
        """Count one acknowledged entry as verified or lost, by what was read."""
        if wrong := difference(expected, entry_id, body):
            self.lost_entries(expected, [entry_id], wrong)
        else:
            self.verified += 1

    def failed_entries(self, expected: AcknowledgedLedger, entries: list[int], error: Exception) -> None:
        """Count entries that could not be read: lost if the error proves it, else unknown."""
        reason = f"{type(error).__name__}: {error}"
        if proves_loss(error):
            self.lost_entries(expected, entries, reason)
            return
        self.unknown += len(entries)
        self.problem(f"ledger {expected.ledger_id}, {len(entries)} entries not read: {reason}")

    def lost_entries(self, expected: AcknowledgedLedger, entries: list[int], reason: str) -> None:
        self.lost += len(entries)
        if entries:
            self.problem(f"ledger {expected.ledger_id} entry {entries[0]} (and {len(entries) - 1} more): {reason}")


def proves_loss(error: Exception) -> bool:
    """Return True for an error that proves the entry missing or damaged on every replica (CLIENT.md)."""
    gone = (errors.NoSuchEntry, errors.NoSuchLedger, errors.LedgerMissing, errors.DigestMismatch)
    return isinstance(error, gone)


def difference(expected: AcknowledgedLedger, entry_id: int, body: bytes | memoryview) -> str | None:
    """Return what is wrong with the bytes read for an acknowledged entry; None = they are the acknowledged ones."""
    made = payload.payload(expected.seed, expected.ledger_id, entry_id)
    recorded = expected.acknowledged[entry_id]
    assert payload.digest(made) == recorded.digest, "the log and the generator disagree: not this fleet's fault"
    if body == made:
        return None
    return f"read {len(body)} bytes ({payload.digest(body)}), acknowledged {recorded.size_bytes} ({recorded.digest})"
