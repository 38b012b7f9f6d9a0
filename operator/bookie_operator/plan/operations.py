"""The operations of one cluster: whose turn it is, what they ask of this pass, and what is told of each.

Pure. An operation's status is what people read, not what the operator remembers: it may be lost with a crash, a restore
or a careless edit. So each type is bound to something that a second run would find changed, and is done when the
fleet shows it (spec/operator.md#U1):

    Restart    is done when the bookie's pod is younger than the operation, or another than at the first look (clocks
               of two API servers differ), and in service
    ApproveRegeneration, AcceptLoss
               fit one evidence, which the new life of the bookie has no more; the grant and the history name the
               operation
    RestoreCookie
               fits one evidence, and a bookie that has a cookie makes none; is done when one that began has it
    ConfirmLoss
               fits one evidence, which the pod that comes back has no more; is done when the claims of the first look
               are gone
    AcceptLedgerLoss
               is done when every ledger is closed; one that is closed already is left as it is
    Replace, Retire
               is done when every claim of the bookie is younger than the operation, or another than at the first look,
               and the bookie in service; Retire also when the spec does not ask for the bookie any more
    Fence, Unfence
               give an order that carries the time of the operation; the metadata store keeps the last one

What has a final phase is never looked at again. operation_queue.py says who has a turn; the roll-out's gates stand
before each stop as they do for an edit of the spec, and approvals.py says what an approval opens.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from bookie_operator.model.operation import (
    BookieOperation,
    OperationPhase,
    OperationSpec,
    OperationStatus,
    OperationType,
)
from bookie_operator.model.status import ClosedGate
from bookie_operator.model.values import format_time, parse_time_or_0
from bookie_operator.plan import (
    approvals,
    confirmed_loss,
    cookies,
    fencing,
    formats,
    ledger_loss,
    operation_queue,
    replacing,
    rollout,
    stop_gates,
    volume_replacement,
)
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.operation_queue import Said
from bookie_operator.plan.rollout import Rollout
from bookie_operator.plan.stages import Assessed, Stage

_MESSAGE_MAX = 512
_NAMED_MAX = 8


@dataclass(frozen=True, slots=True)
class Told:
    """The status that an operation is to have."""

    operation: BookieOperation
    status: OperationStatus

    @property
    def is_stored(self) -> bool:
        return self.status == self.operation.status

    @property
    def is_moving(self) -> bool:
        """Return True when the next look should come soon; an approval may stand for a day."""
        return not self.is_stored or self.status.phase is OperationPhase.RUNNING


@dataclass(frozen=True, slots=True)
class Pass:
    """All that a handler may look at."""

    seen: Observation
    fleet: tuple[Assessed, ...]
    rolled: Rollout
    closed: Mapping[str, tuple[ClosedGate, ...]]  # by bookie, of those that wait for a grant


_Tell = Callable[[Pass, BookieOperation, OperationSpec], Said]


def with_turn(seen: Observation, fleet: tuple[Assessed, ...]) -> Observation:
    """Return `seen` with the operation that may take a bookie away now, if any may (spec/operator.md#U2).

    One that waits for something about its own bookie, which no time cures, lets the others pass. A bookie that is on
    its way back keeps its turn, for rollout.maxSecondsPerBookie; then comes one that is down, as those that serve may
    wait for it, and needs no gate.
    """
    able = [one for one in operation_queue.to_take_away(seen) if not _own_hindrance(seen, fleet, one)]
    first = min(able, key=lambda one: _rank(seen, fleet, one), default=None)
    return replace(seen, taking=first.uid if first is not None else "")


def _own_hindrance(seen: Observation, fleet: tuple[Assessed, ...], operation: BookieOperation) -> str:
    """Return what about its own bookie keeps an operation that takes it away from beginning; "" when nothing does, and
    when it has begun."""
    one = operation_queue.bookie_of(fleet, operation.spec)
    if one is None or not one.case.is_desired or operation.spec is None:
        return ""
    if operation.spec.type is OperationType.RESTART and _is_to_stop(operation, one):
        return "; ".join((*stop_gates.kept_by_its_volumes(one), *formats.closed(seen, fleet, one)))
    if operation.spec.type is OperationType.FENCE:
        return fencing.own_hindrance(one)
    if operation.spec.type is OperationType.REPLACE_VOLUME and volume_replacement.is_to_go(operation, one):
        is_able = volume_replacement.to_stop(seen, fleet, operation, one)
        return "" if is_able else f"volume {operation.spec.target.volume} of {one.case.name} must not go"
    return ""


def _rank(seen: Observation, fleet: tuple[Assessed, ...], operation: BookieOperation) -> int:
    one, has_begun = operation_queue.bookie_of(fleet, operation.spec), operation.status.started_at is not None
    if _is_on_its_way(operation, one) and not _is_late(seen, operation):
        return 0
    is_restart = operation.spec is not None and operation.spec.type is OperationType.RESTART
    if is_restart and one is not None and _is_to_stop(operation, one) and rollout.is_down(seen, one):
        return 1
    return 2 if has_begun else 3


def _is_on_its_way(operation: BookieOperation, one: Assessed | None) -> bool:
    """Return True when the operation has begun and its bookie's pod has ended: nothing but the way back is left."""
    return operation.status.started_at is not None and (one is None or not _is_to_end(operation, one))


def _is_late(seen: Observation, operation: BookieOperation) -> bool:
    begun_ms = parse_time_or_0(operation.status.started_at)
    return seen.now_ms - begun_ms >= seen.cluster.spec.rollout.max_seconds_per_bookie * 1_000


def _is_to_end(operation: BookieOperation, one: Assessed) -> bool:
    """Return True while the pod that the operation is to end is there."""
    assert operation.spec is not None
    if operation.spec.type is OperationType.FENCE:
        return fencing.stops(one)
    if operation.spec.type is OperationType.REPLACE_VOLUME:
        return volume_replacement.is_to_go(operation, one)
    return _is_to_stop(operation, one)


def restart(seen: Observation, fleet: tuple[Assessed, ...]) -> str:
    """Return the bookie that the operation whose turn it is wants stopped; "" when none is asked for."""
    return _stopping(seen, fleet)[0]


def is_kept_out(seen: Observation, fleet: tuple[Assessed, ...]) -> bool:
    """Return True when that bookie is to stay out of service: no matter what its next program can read."""
    return _stopping(seen, fleet)[1] is OperationType.FENCE


def _stopping(seen: Observation, fleet: tuple[Assessed, ...]) -> tuple[str, OperationType | None]:
    """Return the bookie that an operation wants stopped now, and the type of that operation; ("", None) for none."""
    for operation in operation_queue.with_a_turn(seen):
        assert operation.spec is not None
        kind = operation.spec.type
        one = operation_queue.bookie_of(fleet, operation.spec)
        if one is None:
            continue
        if kind is OperationType.RESTART and _is_to_stop(operation, one):
            return one.case.name, kind
        if kind is OperationType.REPLACE_VOLUME and volume_replacement.to_stop(seen, fleet, operation, one):
            return one.case.name, kind
        if kind is OperationType.FENCE and fencing.to_stop(seen, operation, one):
            return one.case.name, kind
    return "", None


def tell(
    seen: Observation, fleet: tuple[Assessed, ...], rolled: Rollout, closed: Mapping[str, tuple[ClosedGate, ...]]
) -> tuple[Told, ...]:
    """Return the status of every operation that is not over, oldest first. `closed`: the gates of those that wait for
    a grant."""
    looked, turns = Pass(seen, fleet, rolled, closed), operation_queue.with_a_turn(seen)
    out = []
    for operation in operation_queue.unfinished(seen):
        told = _told(operation, _say(looked, operation, turns), seen.now_ms)
        one = operation_queue.bookie_of(fleet, operation.spec)
        pod_uid = operation.status.pod_uid or (
            one.case.pod.uid if one is not None and one.case.pod is not None else None
        )
        known: dict[str, object] = {"pod_uid": pod_uid, "claims": _claims_of(operation, one)}
        if operation.spec is not None and operation.spec.type is OperationType.ACCEPT_LEDGER_LOSS:
            known["ledgers"] = ledger_loss.ended(seen, operation)
        out.append(replace(told, status=told.status.model_copy(update=known)))
    return tuple(out)


def _claims_of(operation: BookieOperation, one: Assessed | None) -> tuple[str, ...]:
    """Return the uids of the claims that the operation is to replace; () for a type that replaces none."""
    if operation.status.claims or one is None or operation.spec is None:
        return operation.status.claims
    if operation.spec.type is OperationType.REPLACE_VOLUME:
        volume = volume_replacement.volume_of(operation, one)
        return (volume.claim.uid,) if volume is not None and volume.claim is not None else ()
    if operation.spec.type is OperationType.CONFIRM_LOSS:
        return confirmed_loss.claims_of(one) if one.evidence.digest == operation.spec.evidence else ()
    if operation.spec.type not in replacing.TYPES:
        return ()
    return tuple(claim.uid for claim in replacing.claims_of(one.case))


def without_cluster(operations: Iterable[BookieOperation], why: str, now_ms: int) -> tuple[Told, ...]:
    """Return the status of operations whose cluster is not there: they wait, and expire."""
    out = []
    for operation in operations:
        said = operation_queue.refused(operation, now_ms) or (OperationPhase.QUEUED, why)
        out += [] if operation.is_over else [_told(operation, said, now_ms)]
    return tuple(out)


def _say(looked: Pass, operation: BookieOperation, turns: list[BookieOperation]) -> Said:
    seen, spec = looked.seen, operation.spec
    refused = operation_queue.refused(operation, seen.now_ms, seen.cluster)
    if refused is not None or spec is None:
        assert refused is not None
        # What is done is done, though nobody said that it began.
        is_done = spec is not None and refused[0] is OperationPhase.EXPIRED
        said = _TYPES[spec.type](looked, operation, spec) if is_done and spec is not None else refused
        return said if said[0] is OperationPhase.COMPLETE else refused
    paused = seen.cluster.spec.lifecycle.paused
    if operation in turns or (
        not paused
        and (
            _own_hindrance(seen, looked.fleet, operation)
            or _is_on_its_way(operation, operation_queue.bookie_of(looked.fleet, spec))
            or _names_nobody(looked, operation, spec)
        )
    ):
        return _TYPES[spec.type](looked, operation, spec)
    if paused:
        return OperationPhase.QUEUED, "spec.lifecycle.paused of the cluster is true"
    ahead = next(one.name for one in turns if one.spec is not None and one.spec.type in operation_queue.TAKES_AWAY)
    return OperationPhase.QUEUED, f"{ahead} comes first: one operation at a time may take a bookie away"


def _told(operation: BookieOperation, said: Said, now_ms: int) -> Told:
    phase, message = said
    before, now = operation.status, format_time(now_ms)
    has_begun = phase not in (OperationPhase.QUEUED, OperationPhase.EXPIRED)
    return Told(
        operation,
        OperationStatus(
            observed_generation=operation.generation,
            phase=phase,
            message=message[:_MESSAGE_MAX],
            target=_target(operation.spec) if operation.spec is not None else None,
            requested_by=operation.requested_by or None,
            pod_uid=before.pod_uid,
            claims=before.claims,
            ledgers=before.ledgers,
            started_at=before.started_at or (now if has_begun else None),
            finished_at=now if phase.is_final else None,
        ),
    )


def _target(spec: OperationSpec) -> str | None:
    named = [*(one.name for one in spec.target.bookies), *spec.target.ledgers]
    return spec.target.bookie or ", ".join(named)[:_MESSAGE_MAX] or None


def _of_desired(tell: Callable[[Pass, BookieOperation, Assessed], Said]) -> _Tell:
    """Return `tell` for operations of one bookie that the spec asks for; about any other the operation fails."""

    def told(looked: Pass, operation: BookieOperation, spec: OperationSpec) -> Said:
        one = operation_queue.bookie_of(looked.fleet, spec)
        if one is None or not one.case.is_desired:
            return OperationPhase.FAILED, _unknown(looked, spec)
        return tell(looked, operation, one)

    return told


def _tell_restart(looked: Pass, operation: BookieOperation, one: Assessed) -> Said:
    step = looked.rolled.status.step
    is_turn = step is not None and step.bookie == one.case.name
    if _is_to_stop(operation, one):
        if is_turn:
            return OperationPhase.RUNNING, f"the bookie stops. {looked.rolled.status.waiting_for or ''}".rstrip(". ")
        own = _own_hindrance(looked.seen, looked.fleet, operation)
        why = own or looked.rolled.restart_waits_for or "the next pass"
        return OperationPhase.QUEUED, f"waits for: {why}"
    why = stop_gates.unproven(one, may_be_read_only=True)
    if why or is_turn:
        return OperationPhase.RUNNING, why or looked.rolled.status.waiting_for or "the turn of this bookie ends"
    assert one.case.pod is not None
    return OperationPhase.COMPLETE, f"pod {one.case.pod.uid} runs since {format_time(one.case.pod.created_ms)}"


def _tell_fence(looked: Pass, operation: BookieOperation, one: Assessed) -> Said:
    return fencing.tell_fence(looked.seen, looked.fleet, looked.rolled, operation, one)


def _tell_replace(looked: Pass, operation: BookieOperation, one: Assessed) -> Said:
    return replacing.tell(looked.fleet, operation, one, stop_gates.unproven(one, may_be_read_only=True))


def _tell_volume(looked: Pass, operation: BookieOperation, one: Assessed) -> Said:
    closed = looked.closed.get(one.case.name, ())
    return volume_replacement.tell(looked.seen, looked.fleet, looked.rolled, closed, operation, one)


def _tell_retire(looked: Pass, operation: BookieOperation, spec: OperationSpec) -> Said:
    one = operation_queue.bookie_of(looked.fleet, spec)
    if one is not None and one.case.is_desired:
        return _tell_replace(looked, operation, one)
    # Who is merely not asked for any more (its StatefulSet was deleted by hand, say) did not leave.
    has_left = one is None or one.stage is Stage.RETIRED
    is_gone = one is not None and one.leaving is not None and one.leaving.state.is_gone
    if is_gone or (has_left and operation.status.claims):
        return OperationPhase.COMPLETE, "the bookie left the fleet by proof"
    return OperationPhase.FAILED, _unknown(looked, spec)


def _tell_unfence(looked: Pass, operation: BookieOperation, one: Assessed) -> Said:
    return fencing.tell_unfence(looked.seen, operation, one)


def _tell_cookie(looked: Pass, operation: BookieOperation, one: Assessed) -> Said:
    return cookies.tell(looked.seen, looked.fleet, one, operation)


def _tell_confirmed(looked: Pass, operation: BookieOperation, one: Assessed) -> Said:
    return confirmed_loss.tell(looked.seen, operation, one)


def _is_to_stop(operation: BookieOperation, one: Assessed) -> bool:
    pod = one.case.pod
    if not one.case.is_desired or pod is None or pod.is_terminating or operation.status.pod_uid not in (None, pod.uid):
        return False
    return pod.created_ms <= operation.created_ms


def _names_nobody(looked: Pass, operation: BookieOperation, spec: OperationSpec) -> bool:
    """Return True for one that has not begun and would fail at its turn: nobody waits to hear that a name is wrong."""
    one = operation_queue.bookie_of(looked.fleet, spec)
    is_unknown = spec.target.bookie is not None and (one is None or not one.case.is_desired)
    return is_unknown and operation.status.started_at is None


def _unknown(looked: Pass, spec: OperationSpec) -> str:
    have = [one.case.name for one in looked.fleet if one.case.is_desired]
    rest = f" and {len(have) - _NAMED_MAX} more" if len(have) > _NAMED_MAX else ""
    return (
        f"cluster {looked.seen.cluster.name} asks for no bookie {spec.target.bookie}; it asks for"
        f" {', '.join(have[:_NAMED_MAX])}{rest}"
    )


def _tell_approval(looked: Pass, operation: BookieOperation, spec: OperationSpec) -> Said:
    one = operation_queue.bookie_of(looked.fleet, spec)
    if one is None:
        return OperationPhase.FAILED, _unknown(looked, spec)
    if approvals.has_begun(looked.seen, operation, one):
        return OperationPhase.COMPLETE, "the bookie has begun its new life, by this approval"
    if one.evidence.digest != spec.evidence:
        now = one.evidence.digest or "not known"
        return OperationPhase.QUEUED, f"the evidence of {one.case.name} is {now}: this approval is for another case"
    return _waiting(looked, operation, [one])


def _tell_loss(looked: Pass, operation: BookieOperation, spec: OperationSpec) -> Said:
    seen, fleet = looked.seen, looked.fleet
    wanted = {one.name for one in spec.target.bookies}
    named = [one for one in fleet if one.case.name in wanted]
    begun = [one for one in named if approvals.has_begun(seen, operation, one)]
    if named and len(begun) == len(wanted):
        text = (
            f"{len(begun)} bookies live again. Acknowledged entries that were on these alone are given up; their"
            " ledgers stay in limbo"
        )
        return OperationPhase.COMPLETE, text
    if not begun and not approvals.is_needed(seen, fleet):
        return OperationPhase.QUEUED, "no more bookies are without their data than the ack quorum survives: not needed"
    if closed := "; ".join(approvals.hindrances(seen, fleet, operation, spec)):
        return OperationPhase.RUNNING if begun else OperationPhase.QUEUED, f"not in force: {closed}"
    return _waiting(looked, operation, [one for one in named if one not in begun])


def _waiting(looked: Pass, operation: BookieOperation, waiting: list[Assessed]) -> Said:
    """Return what stands between an approval that is in force and the bookies that wait."""
    if any(approvals.is_granted_by(looked.seen, operation, one) for one in waiting):
        return OperationPhase.RUNNING, "the grant is on its way"
    closed = [f"{one.case.name}: {gate.name}" for one in waiting for gate in looked.closed.get(one.case.name, ())]
    return OperationPhase.QUEUED, f"in force; waits for {', '.join(closed) or 'the bookie to ask'}"


_TYPES: dict[OperationType, _Tell] = {
    OperationType.RESTART: _of_desired(_tell_restart),
    OperationType.APPROVE_REGENERATION: _tell_approval,
    OperationType.ACCEPT_LOSS: _tell_loss,
    OperationType.FENCE: _of_desired(_tell_fence),
    OperationType.UNFENCE: _of_desired(_tell_unfence),
    OperationType.RESTORE_COOKIE: _of_desired(_tell_cookie),
    OperationType.REPLACE: _of_desired(_tell_replace),
    OperationType.RETIRE: _tell_retire,
    OperationType.REPLACE_VOLUME: _of_desired(_tell_volume),
    OperationType.CONFIRM_LOSS: _of_desired(_tell_confirmed),
    OperationType.ACCEPT_LEDGER_LOSS: lambda looked, operation, _spec: ledger_loss.tell(looked.seen, operation),
}
assert set(_TYPES) == set(OperationType), "every type has its handler"
