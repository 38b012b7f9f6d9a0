"""Takes the data and volumes of one named bookie away: the operations Replace and Retire (spec/operator.md#U11, U12).
Pure.

The bookie leaves by proof and comes back under its name as one that never held data, on new claims: what a bookie does
whose claims are of another class (rebuild.py), by the same states and behind the same gates (leaving.py). So nothing of
it is decided here but who was asked for, in which order, and what is told.

Retire says besides which zone becomes smaller when the spec asks for fewer bookies. Kubernetes takes no pod out of the
middle of a StatefulSet for good: the highest number of the zone leaves then, and the named one, if it is another, is
replaced after it. Without a lower number in the spec Retire is Replace.

Level-based: an operation asks for its bookie while one of its claims is older than the operation, and was there
when the operation was first looked at (clocks of two API servers differ). A status that was lost replaces nobody twice,
as the new claims are younger. Deleted before the bookie's cookie went, it is taken back: the bookie stays, with all its
data. Never here: a claim deleted.
"""

from collections.abc import Iterable

from bookie_operator.evidence.facts import BookieCase, ClaimFacts
from bookie_operator.model.cluster import Cluster
from bookie_operator.model.operation import BookieOperation, OperationPhase, OperationType
from bookie_operator.model.status import Departure, LeavingStatus
from bookie_operator.plan import operation_queue
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.operation_queue import Said
from bookie_operator.plan.stages import Assessed

TYPES = (OperationType.REPLACE, OperationType.RETIRE)


def to_retire(cluster: Cluster, operations: Iterable[BookieOperation], now_ms: int) -> tuple[str, ...]:
    """Return the bookies that operations in force ask to retire, in the order of creation, also while the cluster is
    paused."""
    found = [
        one.spec.target.bookie
        for one in operation_queue.in_order(operations)
        if one.spec is not None
        and one.spec.type is OperationType.RETIRE
        and operation_queue.refused(one, now_ms, cluster) is None
    ]
    return tuple(dict.fromkeys(one for one in found if one is not None))


def named(seen: Observation) -> tuple[str, ...]:
    """Return the bookies that operations in force ask to replace or to retire, in the order of creation. Also while the
    cluster is paused: a pause holds what was begun, and takes nothing back."""
    cases = {case.name: case for case in seen.bookies if case.is_desired and case.is_ours}
    found = []
    for one in operation_queue.unfinished(seen):
        if operation_queue.refused(one, seen.now_ms, seen.cluster) or one.spec is None:
            continue
        case = cases.get(one.spec.target.bookie or "")
        if one.spec.type in TYPES and case is not None and is_asked_of(one, case):
            found.append(case.name)
    return tuple(dict.fromkeys(found))


def is_asked_of(operation: BookieOperation, case: BookieCase) -> bool:
    """Return True while a claim of `case` is one that this operation is to replace."""
    known = operation.status.claims
    return any(
        claim.created_ms <= operation.created_ms and (not known or claim.uid in known) for claim in claims_of(case)
    )


def claims_of(case: BookieCase) -> tuple[ClaimFacts, ...]:
    """Return the claims of the volumes that the spec names."""
    return tuple(volume.claim for volume in case.volumes if volume.claim is not None)


def tell(fleet: tuple[Assessed, ...], operation: BookieOperation, one: Assessed, unproven: str) -> Said:
    """Return how far a Replace is, or a Retire of a bookie that the spec still has. `unproven`: why the bookie is not
    in full service; "" when it is."""
    leaving = one.leaving
    is_retired = operation.spec is not None and operation.spec.type is OperationType.RETIRE
    if leaving is not None and leaving.state is not Departure.LEAVING and (leaving.rebuilds or is_retired):
        return OperationPhase.RUNNING, _progress(leaving)
    if not is_asked_of(operation, one.case):
        if unproven:
            return OperationPhase.RUNNING, unproven
        names = ", ".join(claim.name for claim in claims_of(one.case))
        return OperationPhase.COMPLETE, f"the bookie began anew, on new claims: {names}"
    if one.case.is_leaving and not one.case.is_rebuilt and not is_retired:
        return OperationPhase.QUEUED, f"{one.case.name} leaves for good: the spec asks for fewer bookies"
    if is_retired and (highest := _leaves_for(fleet, one)):
        # It has begun: expired in the middle, it would have another zone become smaller, and all that was moved undone.
        return OperationPhase.RUNNING, f"{highest} leaves for good first, as the highest of its zone"
    if leaving is None or not one.case.is_leaving:
        return OperationPhase.QUEUED, f"waits for: {_ahead(fleet, one) or 'the next pass'}"
    return OperationPhase.QUEUED, f"waits for: {leaving.waiting_for or 'the next pass'}"


def _progress(leaving: LeavingStatus) -> str:
    words = f"the bookie is {leaving.state.value}"
    if leaving.state is Departure.DRAINING and leaving.ledgers_total:
        words += f", {leaving.ledgers_left} of {leaving.ledgers_total} ledgers left"
        words += f", about {leaving.minutes_left} minutes" if leaving.minutes_left is not None else ""
    return f"{words}; waits for: {leaving.waiting_for}" if leaving.waiting_for else words


def _leaves_for(fleet: tuple[Assessed, ...], one: Assessed) -> str:
    """Return the bookie of the same zone that was told to leave for good; "" when there is none."""
    for other in fleet:
        is_mate = other.case.pool == one.case.pool and other.case.name != one.case.name
        is_for_good = other.case.is_leaving and not other.case.is_rebuilt
        if is_mate and is_for_good and other.leaving is not None and other.leaving.state is not Departure.LEAVING:
            return other.case.name
    return ""


def _ahead(fleet: tuple[Assessed, ...], one: Assessed) -> str:
    """Return who leaves, or comes back from it, before this bookie may; "" when nobody does."""
    others = [other for other in fleet if other.case.name != one.case.name]
    first = next((other for other in others if other.case.is_leaving or other.leaving is not None), None)
    return f"{first.case.name} leaves first, or comes back from it" if first is not None else ""
