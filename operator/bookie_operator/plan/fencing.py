"""Fences one bookie off by hand, and takes it back: the operations Fence and Unfence (spec/operator.md#U6 to U8). Pure.

What keeps the bookie out is an order in the metadata store, which its next boot obeys wherever it comes up: the pod
stays, its process answers the admin port, opens no volume, registers nowhere and gets no grant. The gates count the
bookie as away, its claims stay, and nothing is ever regenerated of it.

    serves           its turn in the roll-out: gates, flush, the order, then its pod is deleted and comes back held
    serves nobody    the order alone, by any bookie, once all others are in full service
    deleted before the bookie was stopped     the order is taken back

The roll-out holds the turn (plan/turns.py). An order carries the time at which its operation was created: of two the
later one stands, so that an operation whose status was lost undoes nothing. Never here: a claim touched, a pod deleted.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from bookie.ports.admin import Aside
from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model.operation import BookieOperation, OperationPhase, OperationSpec, OperationType
from bookie_operator.plan import doors, hibernation, operation_queue, stop_gates, turns
from bookie_operator.plan.actions import SetAside, StopBookie
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.operation_queue import Said
from bookie_operator.plan.rollout import Rollout
from bookie_operator.plan.stages import Assessed, Stage
from bookie_operator.plan.turns import Work

CAPABILITY = "aside"  # of bookies: their boots obey the order
_WHY_MAX = 300
_TYPES = (OperationType.FENCE, OperationType.UNFENCE)
_VOID = (OperationPhase.FAILED, OperationPhase.EXPIRED, OperationPhase.CANCELLED)
# No process of it serves, as far as can be seen; it may begin to with its next boot.
_SERVES_NOBODY = (
    Stage.MISSING,
    Stage.UNREACHABLE,
    Stage.HELD,
    Stage.SUSPECTED,
    Stage.CONFIRMED,
    Stage.BOOTSTRAPPING,
    Stage.PROVISIONING,
)


@dataclass(frozen=True, slots=True)
class _Wish:
    """A Fence or an Unfence that may do something now."""

    operation: BookieOperation
    spec: OperationSpec
    order: Aside


def orders(seen: Observation, fleet: tuple[Assessed, ...]) -> tuple[SetAside, ...]:
    """Return the orders to be given now, after the status is stored: those that stop nobody."""
    if not seen.leadership.is_held or seen.cluster.spec.lifecycle.paused:
        return ()
    found = []
    for one in fleet:
        wish = _wish(seen, one)
        if wish is None:
            order = _withdrawn(seen, one)
        else:
            order = wish.order if _is_to_be_given(seen, fleet, one, wish.order) else None
        if order is not None and (action := _action(seen, one, order)) is not None:
            found.append(action)
    return tuple(found)


def to_stop(seen: Observation, operation: BookieOperation, one: Assessed) -> bool:
    """Return True when the bookie serves and is to be stopped for this Fence, in its turn."""
    wish = _wish(seen, one)
    return wish is not None and wish.operation.uid == operation.uid and stops(one) and not _lacks_capability(one)


def own_hindrance(one: Assessed) -> str:
    """Return what about the bookie itself keeps a Fence of it waiting; "" when it waits for others alone."""
    if _lacks_capability(one):
        return f"the release of {one.case.name} cannot be kept out of service: update its image"
    if one.leaving is not None:
        return f"{one.case.name} leaves the fleet ({one.leaving.state.value})"
    return "; ".join(stop_gates.kept_by_its_volumes(one)) if stops(one) else ""


def with_order(seen: Observation, fleet: tuple[Assessed, ...], rolled: Rollout) -> Rollout:
    """Return the roll-out's step, in which a bookie that ends because of a Fence gets the order before its pod goes."""
    stop = rolled.action
    if not isinstance(stop, StopBookie) or stop.door is None or not stop.may_delete:
        return rolled
    one = next(one for one in fleet if one.case.name == stop.bookie)
    wish = _wish(seen, one)
    if wish is None or not wish.order.is_aside or not stops(one) or _lacks_capability(one):
        return rolled
    order = SetAside(one.case.name, one.case.bookie_id, stop.door, wish.order, stop.epoch)
    return replace(rolled, action=replace(stop, aside=order))


def why_out(seen: Observation, one: Assessed) -> str:
    """Return why a person keeps this bookie out of service; "" when nobody does. What it said last holds while it says
    nothing."""
    known = _known(one)
    if one.evidence.digest:
        return known.why if known is not None and known.is_aside and not one.stage.serves else ""
    if wish := _wish(seen, one):
        return wish.order.why if wish.order.is_aside else ""
    return (one.previous.fenced if one.previous is not None else None) or ""


def tell_fence(
    seen: Observation, fleet: tuple[Assessed, ...], rolled: Rollout, operation: BookieOperation, one: Assessed
) -> Said:
    """Return how far a Fence is."""
    assert operation.spec is not None
    order, known = _order(seen, operation, operation.spec), _known(one)
    if one.is_set_aside:
        text = "its process runs, opens no volume and is not registered; its claims stay. Unfence brings it back"
        return OperationPhase.COMPLETE, f"the bookie is out of service: {text}"
    if later := _later(seen, operation, order, known):
        return OperationPhase.CANCELLED, later
    if why := own_hindrance(one):
        return OperationPhase.QUEUED, f"waits for: {why}"
    if stops(one):
        step = rolled.status.step
        if step is not None and step.bookie == one.case.name:
            return OperationPhase.RUNNING, f"the bookie stops. {rolled.status.waiting_for or ''}".rstrip(". ")
        return OperationPhase.QUEUED, f"waits for: {rolled.restart_waits_for or 'the next pass'}"
    if why := "; ".join(_hindrances(seen, fleet, one)):
        return OperationPhase.QUEUED, f"waits for: {why}"
    return _given(seen, operation, one, order, f"{one.case.name} is {one.stage.value}, and not seen held yet")


def tell_unfence(seen: Observation, operation: BookieOperation, one: Assessed) -> Said:
    """Return how far an Unfence is."""
    assert operation.spec is not None
    order, known = _order(seen, operation, operation.spec), _known(one)
    # Only its own look after the order proves it: one that serves tells what it read minutes ago.
    if known == order:
        return OperationPhase.COMPLETE, f"the bookie is not fenced off, and is {one.stage.value}"
    if _lacks_capability(one):
        return (
            OperationPhase.QUEUED,
            f"the release of {one.case.name} does not tell what keeps it out: update its image",
        )
    if later := _later(seen, operation, order, known):
        return OperationPhase.CANCELLED, later
    return _given(seen, operation, one, order, f"{one.case.name} is {one.stage.value}")


def _given(seen: Observation, operation: BookieOperation, one: Assessed, order: Aside, then: str) -> Said:
    """Return that the order is given, and what is seen since (`then`); or why nobody can give it now. What nobody could
    give has not begun, and expires."""
    why = hibernation.WHY_HELD_UP if hibernation.has_begun(seen.cluster.status) else ""
    if not why and not seen.leadership.is_held:
        why = "this operator does not hold the lease"
    if not why and _action(seen, one, order) is None:
        why = "no bookie answers that is in the metadata store and can write the order"
    if why:
        has_begun = operation.status.started_at is not None
        return OperationPhase.RUNNING if has_begun else OperationPhase.QUEUED, f"waits for: {why}"
    hindrance = seen.hindrances.get(one.case.name)
    return OperationPhase.RUNNING, f"the order is given; {hindrance.text if hindrance is not None else then}"


def _wish(seen: Observation, one: Assessed) -> _Wish | None:
    """Return the latest operation in force about this bookie, which no later order has overtaken."""
    found = []
    for kind in _TYPES:
        for operation, spec in operation_queue.of_type(seen, kind):
            order = _order(seen, operation, spec)
            if spec.target.bookie == one.case.name and not _later(seen, operation, order, _known(one)):
                found.append(_Wish(operation, spec, order))
    return max(found, key=lambda wish: _key(wish.order), default=None)


def _is_to_be_given(seen: Observation, fleet: tuple[Assessed, ...], one: Assessed, order: Aside) -> bool:
    if order.is_aside:
        return not one.is_set_aside and not any(_hindrances(seen, fleet, one))
    return _known(one) != order and not _lacks_capability(one)


def _order(seen: Observation, operation: BookieOperation, spec: OperationSpec) -> Aside:
    is_aside = spec.type is OperationType.FENCE
    why = spec.reason or f"operation {operation.name}"
    return Aside(is_aside, why[:_WHY_MAX], f"{seen.cluster.uid}/{operation.uid}", operation.created_ms)


def _key(order: Aside) -> tuple[int, str]:
    return order.asked_ms, order.order_id


def _known(one: Assessed) -> Aside | None:
    """Return the order as the bookie of exactly this pod read it last."""
    return one.case.report.aside if one.evidence.digest and one.case.report is not None else None


def _later(seen: Observation, operation: BookieOperation, order: Aside, known: Aside | None) -> str:
    """Return what makes this operation void: one about the same bookie that was created later."""
    assert operation.spec is not None
    if known is not None and _key(known) > _key(order):
        return f"an order that was asked for later was carried out ({known.order_id}: {known.why})"
    for other in seen.operations:
        spec = other.spec
        if spec is None or spec.type not in _TYPES or spec.type is operation.spec.type:
            continue
        if spec.target.bookie != operation.spec.target.bookie or other.status.phase in _VOID:
            continue
        is_void = not other.is_over and operation_queue.refused(other, seen.now_ms, seen.cluster) is not None
        if not is_void and _key(_order(seen, other, spec)) > _key(order):
            return f"operation {other.name} ({spec.type.value}) was created later"
    return ""


def stops(one: Assessed) -> bool:
    return one.case.is_desired and one.case.pod is not None and one.stage.serves and one.leaving is None


def _may_serve(one: Assessed) -> bool:
    """Return True where somebody else than the bookie says that it serves: its kubelet, or the metadata store."""
    pod, member = one.case.pod, one.case.member
    return (pod is not None and pod.is_ready) or (member is not None and member.is_registered)


def _lacks_capability(one: Assessed) -> bool:
    report = one.case.report
    return report is not None and CAPABILITY not in report.capabilities


def _hindrances(seen: Observation, fleet: tuple[Assessed, ...], one: Assessed) -> Iterator[str]:
    """Yield why a bookie that serves nobody must not be kept from coming back now: it may have copies that others
    lack."""
    if one.stage not in _SERVES_NOBODY:
        yield f"{one.case.name} is {one.stage.value} ({one.message or one.reason})"
    elif one.stage is Stage.UNREACHABLE and _may_serve(one):
        yield (
            f"{one.case.name} cannot be asked, and is ready or registered: it may serve, and nothing would stop it now"
            f" ({one.message or one.reason}): make its admin port answer"
        )
    if not one.case.is_desired or one.leaving is not None:
        yield f"{one.case.name} leaves, or the spec does not ask for it"
    if _lacks_capability(one):
        yield f"the release of {one.case.name} cannot be kept out of service"
    if seen.record_problem:
        yield seen.record_problem
    if why := turns.in_the_way(seen, fleet, Work.ROLLOUT, one.case.name):
        yield why
    yield from stop_gates.missed_beside(seen, fleet, one)


def _withdrawn(seen: Observation, one: Assessed) -> Aside | None:
    """Return the order that takes back one whose operation was deleted, or cancelled, before the bookie was stopped;
    None where there is nothing to take back, or it cannot be known."""
    known = _known(one)
    if known is None or not known.is_aside or not one.stage.serves or seen.operations_problem:
        return None
    cluster, _, uid = known.order_id.partition("/")
    if cluster != seen.cluster.uid or any(
        operation.uid == uid and operation.status.phase not in _VOID for operation in seen.operations
    ):
        return None
    return replace(known, is_aside=False, why="its operation ended before the bookie was stopped")


def _action(seen: Observation, one: Assessed, order: Aside) -> SetAside | None:
    """Return the order, given to a bookie that can write it: another one that serves, else the bookie itself. What
    ends an order goes to the bookie itself, which then looks again at once."""
    able = [case for case in seen.bookies if _can_write(seen, case)]
    itself_last = order.is_aside
    chosen = min(
        able, key=lambda case: ((case.name == one.case.name) == itself_last, not _serves(case), case.name), default=None
    )
    if chosen is None:
        return None
    assert chosen.pod is not None
    door = doors.of(seen.cluster, chosen.pod)
    return SetAside(one.case.name, one.case.bookie_id, door, order, seen.leadership.epoch)


def _can_write(seen: Observation, case: BookieCase) -> bool:
    report = case.report
    if not case.is_ours or case.pod is None or not case.pod.has_certificates or report is None:
        return False
    is_there = report.metadata_reachable and report.instance_id == seen.cluster.status.instance_id
    return is_there and report.pod_uid == case.pod.uid and CAPABILITY in report.capabilities


def _serves(case: BookieCase) -> bool:
    return case.report is not None and case.report.state.serves
