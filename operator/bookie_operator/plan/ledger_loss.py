"""AcceptLedgerLoss: a person gives up what named bookies held of ledgers whose end nobody can decide any more. Pure.

A bookie does it, as `bookie ledger accept-loss` would (spec/metadata.md#M49): it hears every named one first, refuses
while any of them might still answer, and writes who, why and what into the ledger's own record in the write that closes
it. So nothing is judged here but whom to ask, and nothing has to be remembered: a ledger that is closed is done, and is
asked for again when its answer was lost. Some at a time, and after a refusal not before a minute: each attempt is a
recovery. Nobody is stopped (spec/operator.md#U15).
"""

from collections.abc import Iterator

from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model.operation import (
    BookieOperation,
    EndedLedger,
    OperationPhase,
    OperationSpec,
    OperationType,
)
from bookie_operator.plan import doors, hibernation, operation_queue
from bookie_operator.plan.actions import AcceptLedgerLoss
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.operation_queue import Said

CAPABILITY = "ledger-loss"  # of bookies: they can be asked
AGAIN_MS = 60_000
AT_ONCE = 4
_SAID_MAX = 256


def orders(seen: Observation) -> tuple[AcceptLedgerLoss, ...]:
    """Return what to ask for now, after the status is stored."""
    found: list[AcceptLedgerLoss] = []
    for operation, spec in operation_queue.of_type(seen, OperationType.ACCEPT_LEDGER_LOSS):
        reader = _reader(seen)
        if reader is None or any(hindrances(seen, spec)):
            continue
        assert reader.pod is not None
        door, ids = doors.of(seen.cluster, reader.pod), _ids(seen, spec)
        by = f"BookieOperation {operation.namespace}/{operation.name} ({operation.requested_by or 'unknown'})"
        found += [
            AcceptLedgerLoss(operation.uid, ledger, ids, by, spec.reason, door, seen.leadership.epoch)
            for ledger in _left(seen, operation, spec)
            if _is_due(seen, operation, ledger)
        ]
    return tuple(found[:AT_ONCE])


def hindrances(seen: Observation, spec: OperationSpec) -> Iterator[str]:
    """Yield why no ledger is to be ended now."""
    known = {case.name for case in seen.bookies if case.is_ours}
    if unknown := [name for name in spec.target.given_up if name not in known]:
        yield f"no bookie of this cluster is called {', '.join(unknown)}: it has {', '.join(sorted(known)) or 'none'}"
    if not seen.leadership.is_held:
        yield "this operator does not hold the lease"
    if hibernation.has_begun(seen.cluster.status):
        yield hibernation.WHY_HELD_UP
    if _reader(seen) is None:
        yield "no bookie serves that can end a ledger (the release of their image must know it)"


def ended(seen: Observation, operation: BookieOperation) -> tuple[EndedLedger, ...]:
    """Return the ledgers of the operation that are ended, to be stored: those of before, and those of the last pass."""
    assert operation.spec is not None
    stored = {one.id: one for one in operation.status.ledgers}
    for ledger in operation.spec.target.ledgers:
        answer = seen.ledger_answers.get((operation.uid, ledger))
        if answer is not None and answer.is_done:
            stored.setdefault(ledger, EndedLedger(id=ledger, said=answer.text[:_SAID_MAX]))
    return tuple(stored.values())


def tell(seen: Observation, operation: BookieOperation) -> Said:
    """Return how far the operation is."""
    assert operation.spec is not None
    left, count = _left(seen, operation, operation.spec), len(operation.spec.target.ledgers)
    if not left:
        return OperationPhase.COMPLETE, f"{count} ledgers are closed; status.ledgers says where, and what was given up"
    if why := "; ".join(hindrances(seen, operation.spec)):
        return OperationPhase.QUEUED, f"not in force: {why}"
    answers = [seen.ledger_answers.get((operation.uid, ledger)) for ledger in left]
    refused = next((one.text for one in answers if one is not None and one.text), "")
    return OperationPhase.RUNNING, f"{count - len(left)} of {count} ledgers are closed. {refused}".rstrip()


def _left(seen: Observation, operation: BookieOperation, spec: OperationSpec) -> list[str]:
    done = {one.id for one in ended(seen, operation)}
    return [ledger for ledger in spec.target.ledgers if ledger not in done]


def _is_due(seen: Observation, operation: BookieOperation, ledger: str) -> bool:
    answer = seen.ledger_answers.get((operation.uid, ledger))
    return answer is None or not 0 <= seen.now_ms - answer.told_ms < AGAIN_MS


def _ids(seen: Observation, spec: OperationSpec) -> tuple[str, ...]:
    return tuple(case.bookie_id for case in seen.bookies if case.is_ours and case.name in spec.target.given_up)


def _reader(seen: Observation) -> BookieCase | None:
    """Return a bookie that serves in the pinned metadata store and knows the order, by name."""
    expected = seen.cluster.spec.metadata_service.expected_instance_id or seen.cluster.status.instance_id
    able = [
        case
        for case in seen.bookies
        if case.can_look_into(expected)
        and case.report is not None
        and case.report.state.serves
        and CAPABILITY in case.report.capabilities
    ]
    return min(able, key=lambda case: case.name, default=None)
