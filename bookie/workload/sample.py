"""Counts what `bookie workload` has recorded (ledgers created and closed, entries acknowledged). Pure."""

from dataclasses import dataclass

from bookie.workload import records


@dataclass(slots=True)
class OracleSample:
    """What the oracle knows at one instant; `acknowledged` counts what is recorded."""

    wall_ms: int = 0
    acknowledged: int = 0
    rate_per_s: float = 0.0
    created: int = 0
    closed: int = 0
    failed: int = 0
    killed: int = 0
    doomed_acknowledged: int = 0  # by the writer that is killed next
    doomed_ledger: int = -1
    steady_ledger: int = -1
    steady_acknowledged: int = 0
    last_failure: str = ""
    stopped: bool = False

    def count(self, record: records.Record) -> None:
        match record:
            case records.Create(ledger_id, plan, _):
                self.created += 1
                if plan == "steady":
                    self.steady_ledger, self.steady_acknowledged = ledger_id, 0
                if plan == "doomed":
                    self.doomed_ledger, self.doomed_acknowledged = ledger_id, 0
            case records.Ack():
                self.acknowledged += 1
                self.steady_acknowledged += record.ledger_id == self.steady_ledger
                self.doomed_acknowledged += record.ledger_id == self.doomed_ledger
            case records.Close():
                self.closed += 1
            case records.Fail(_, reason):
                self.failed += 1
                self.last_failure = reason
            case records.Time():
                pass
