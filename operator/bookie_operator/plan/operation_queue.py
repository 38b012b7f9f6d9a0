"""Which operations may do something in this pass. Pure.

What has a final phase, cannot be used, is older than its cluster or came too late never does anything; while the
cluster is paused, nothing does. Of the types that take a bookie away one has its turn: the oldest, until the fleet was
looked at and `operations.with_turn` said which (spec/operator.md#U2).
"""

from collections.abc import Iterable

from bookie_operator.model.cluster import Cluster
from bookie_operator.model.operation import BookieOperation, OperationPhase, OperationSpec, OperationType
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import Assessed

TAKES_AWAY = (OperationType.RESTART, OperationType.FENCE, OperationType.REPLACE_VOLUME)

Said = tuple[OperationPhase, str]


def unfinished(seen: Observation) -> list[BookieOperation]:
    """Return the operations that are not over, in the order of creation."""
    return in_order(seen.operations)


def in_order(operations: Iterable[BookieOperation]) -> list[BookieOperation]:
    """Return those of `operations` that are not over, in the order of creation."""
    return sorted((one for one in operations if not one.is_over), key=lambda one: (one.created_ms, one.name, one.uid))


def with_a_turn(seen: Observation) -> list[BookieOperation]:
    """Return the operations that may do something now, in the order of creation."""
    if seen.cluster.spec.lifecycle.paused:
        return []
    able = _able(seen)
    taking = seen.taking if seen.taking is not None else next((one.uid for one in able if _takes_away(one)), "")
    return [one for one in able if not _takes_away(one) or one.uid == taking]


def to_take_away(seen: Observation) -> list[BookieOperation]:
    """Return the operations that may have the turn to take a bookie away, in the order of creation."""
    return [one for one in _able(seen) if _takes_away(one)]


def of_type(seen: Observation, kind: OperationType) -> list[tuple[BookieOperation, OperationSpec]]:
    """Return those of `with_a_turn` that are of this type, with their specs."""
    return [(one, one.spec) for one in with_a_turn(seen) if one.spec is not None and one.spec.type is kind]


def bookie_of(fleet: Iterable[Assessed], spec: OperationSpec | None) -> Assessed | None:
    """Return the bookie that an operation is about; None when there is none of that name, or it names none."""
    wanted = spec.target.bookie if spec is not None else None
    return next((one for one in fleet if one.case.name == wanted), None)


def _able(seen: Observation) -> list[BookieOperation]:
    return [one for one in unfinished(seen) if refused(one, seen.now_ms, seen.cluster) is None]


def _takes_away(operation: BookieOperation) -> bool:
    return operation.spec is not None and operation.spec.type in TAKES_AWAY


def refused(operation: BookieOperation, now_ms: int, cluster: Cluster | None = None) -> Said | None:
    """Return why the operation never does anything (again), whatever the fleet is like; None when it may. `now_ms`: by
    the clock of the API server, where that is known (spec/operator.md#U16)."""
    if operation.spec is None:
        return OperationPhase.FAILED, operation.problem
    if cluster is not None and operation.created_ms < cluster.created_ms:
        # Of an earlier cluster of this name, about bookies that merely have the same names (spec/operator.md#U3).
        text = f"this operation is older than BookieCluster {cluster.name}: create it again if it is meant for this one"
        return OperationPhase.FAILED, text
    if operation.status.started_at is None and now_ms >= operation.expires_ms:
        return OperationPhase.EXPIRED, f"it had not begun {operation.spec.expires_after} after it was created"
    return None
