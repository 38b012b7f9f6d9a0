"""AcceptLedgerLoss: a person gives up what named bookies held of ledgers that nobody can end or make whole. Pure.

A bookie does it, as `bookie ledger accept-loss` would (spec/metadata.md#M49, M57): it hears every named one first,
refuses while any of them might still answer, and writes who, why and what into the ledger's own record. So nothing is
judged here but whom to ask, and nothing has to be remembered: a ledger that is settled is left as it is when it is
asked for again because its answer was lost. Each attempt is a recovery, for which the pass waits. So there is one in a
pass, that which was asked for longest ago, then a rest as long as it took, and after a refusal a minute. Whoever
deletes the operation, or pauses the cluster, therefore stops all but the one that is under way. And consent ends with
`expiresAfter`: what was refused until then may be another loss a month later. Nobody is stopped
(spec/operator.md#U15).
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
_SAID_MAX, _NAMED_MAX = 256, 8


def orders(seen: Observation) -> tuple[AcceptLedgerLoss, ...]:
    """Return what to ask for now, after the status is stored: one ledger at most."""
    # Either way: what was told by a clock that was set back since must hold up nobody until it is there again.
    if any(abs(seen.now_ms - one.told_ms) < one.took_ms for one in seen.ledger_answers.values()):
        return ()
    due = [
        (_told_ms(seen, operation, ledger), operation, spec, ledger)
        for operation, spec in operation_queue.of_type(seen, OperationType.ACCEPT_LEDGER_LOSS)
        if not any(hindrances(seen, operation, spec))
        for ledger in _left(seen, operation, spec)
        if _is_due(seen, operation, ledger)
    ]
    reader = _reader(seen)
    if not due or reader is None:
        return ()
    assert reader.pod is not None
    _, operation, spec, ledger = min(due, key=lambda one: one[0])
    by = f"BookieOperation {operation.namespace}/{operation.name} ({operation.requested_by or 'unknown'})"
    door = doors.of(seen.cluster, reader.pod)
    return (AcceptLedgerLoss(operation.uid, ledger, _ids(seen, spec), by, spec.reason, door, seen.leadership.epoch),)


def hindrances(seen: Observation, operation: BookieOperation, spec: OperationSpec) -> Iterator[str]:
    """Yield why no ledger is to be ended now."""
    if seen.now_ms >= operation.expires_ms:
        yield f"it is over since {spec.expires_after} after it was created (spec.expiresAfter)"
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
            told = EndedLedger(id=ledger, said=answer.text[:_SAID_MAX])
            stored.setdefault(ledger, EndedLedger.missing(ledger) if answer.is_missing else told)
    return tuple(stored.values())


def tell(seen: Observation, operation: BookieOperation) -> Said:
    """Return how far the operation is. A ledger that is not there is done, and never told as one that was closed."""
    assert operation.spec is not None
    left, count = _left(seen, operation, operation.spec), len(operation.spec.target.ledgers)
    missing = [one.id for one in ended(seen, operation) if one.is_missing]
    if len(missing) == count:
        return OperationPhase.COMPLETE, f"nothing was given up: there is no ledger {_listed(missing)}"
    absent = f" (there is no ledger {_listed(missing)})" if missing else ""
    if not left:
        text = f"{count - len(missing)} of {count} ledgers are settled{absent}; status.ledgers has the words of each"
        return OperationPhase.COMPLETE, text
    answers = [seen.ledger_answers.get((operation.uid, ledger)) for ledger in left]
    refused = next((one.text for one in answers if one is not None and one.text), "")
    so_far = f"{count - len(left) - len(missing)} of {count} ledgers are settled{absent}. {refused}".rstrip()
    if seen.now_ms >= operation.expires_ms:
        text = f"not settled within {operation.spec.expires_after}: {_listed(left)}. Look anew, and create"
        return OperationPhase.FAILED, f"{text} another operation. {so_far}"
    if why := "; ".join(hindrances(seen, operation, operation.spec)):
        return OperationPhase.QUEUED, f"not in force: {why}"
    return OperationPhase.RUNNING, so_far


def _listed(ledgers: list[str]) -> str:
    rest = len(ledgers) - _NAMED_MAX
    return ", ".join(ledgers[:_NAMED_MAX]) + (f" and {rest} more" if rest > 0 else "")


def _left(seen: Observation, operation: BookieOperation, spec: OperationSpec) -> list[str]:
    done = {one.id for one in ended(seen, operation)}
    return [ledger for ledger in spec.target.ledgers if ledger not in done]


def _is_due(seen: Observation, operation: BookieOperation, ledger: str) -> bool:
    answer = seen.ledger_answers.get((operation.uid, ledger))
    return answer is None or not 0 <= seen.now_ms - answer.told_ms < AGAIN_MS


def _told_ms(seen: Observation, operation: BookieOperation, ledger: str) -> int:
    answer = seen.ledger_answers.get((operation.uid, ledger))
    return answer.told_ms if answer is not None else 0


def _ids(seen: Observation, spec: OperationSpec) -> tuple[str, ...]:
    return tuple(case.bookie_id for case in seen.bookies if case.is_ours and case.name in spec.target.given_up)


def _reader(seen: Observation) -> BookieCase | None:
    """Return a bookie that serves and knows the order."""
    return next(iter(seen.readers(CAPABILITY)), None)
