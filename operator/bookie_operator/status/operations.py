"""Events about operations: that one began, and how it ended.

Made from what is told now and from what ended lately, not from a difference: so what an operator did not send before it
died is sent by the next one. The key is the operation's uid, so that each is one object.
"""

from collections.abc import Iterable, Iterator

from bookie_operator.model.operation import BookieOperation, OperationPhase, OperationStatus
from bookie_operator.model.values import parse_time_or_0
from bookie_operator.plan.operations import Told
from bookie_operator.status.events import ClusterEvent

_LATELY_MS = 10 * 60_000
_REASONS = {
    OperationPhase.RUNNING: "OperationStarted",
    OperationPhase.COMPLETE: "OperationCompleted",
    OperationPhase.FAILED: "OperationFailed",
    OperationPhase.EXPIRED: "OperationExpired",
    OperationPhase.CANCELLED: "OperationCancelled",
}
_WARNINGS = (OperationPhase.FAILED, OperationPhase.EXPIRED)


def events(told: Iterable[Told], every: Iterable[BookieOperation], now_ms: int) -> Iterator[ClusterEvent]:
    """Yield the events of the operations in `told`, then of those of `every` that ended lately."""
    for one in told:
        yield from _of(one.operation, one.status)
    for operation in every:
        if operation.is_over and now_ms < parse_time_or_0(operation.status.finished_at) + _LATELY_MS:
            yield from _of(operation, operation.status)


def _of(operation: BookieOperation, status: OperationStatus) -> Iterator[ClusterEvent]:
    if status.phase is None or status.phase not in _REASONS:
        return
    kind = operation.spec.type.value if operation.spec is not None else "unusable"
    why = operation.spec.reason if operation.spec is not None else ""
    by = f" by {status.requested_by}" if status.requested_by else ""
    text = f"operation {operation.name} ({kind}{by}{f': {why}' if why else ''}): {status.message}"
    reason = _REASONS[status.phase]
    yield ClusterEvent(reason, status.target or "", operation.uid, text, status.phase in _WARNINGS)
