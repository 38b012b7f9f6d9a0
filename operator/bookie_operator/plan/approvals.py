"""What people allow for grants, as operations: one very case under `regeneration: Manual`, and the loss of data. Pure.

AcceptLoss is the only way past the gate of the tolerance (spec/operator.md#U4). As many bookies as the ack quorum are
then without their data, and an acknowledged entry may have been on these alone: what is granted then can make a loss
final. So it fits one situation only, and whatever might still bring data back closes it, for as long as it might.
"""

from collections.abc import Iterator

from bookie_operator.evidence import processes
from bookie_operator.evidence.reasons import Conclusion
from bookie_operator.model.operation import BookieOperation, OperationSpec, OperationType
from bookie_operator.model.status import Approval
from bookie_operator.plan import dependents, operation_queue
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import HEALING, Assessed, Stage

_WAITS = (Stage.CONFIRMED, Stage.GRANTED)
_REASON_MAX = 256


def approved(seen: Observation, candidate: Assessed) -> Approval | None:
    """Return the approval of exactly this case: of this bookie with this evidence."""
    for operation, spec in operation_queue.of_type(seen, OperationType.APPROVE_REGENERATION):
        if spec.target.bookie == candidate.case.name and spec.evidence == candidate.evidence.digest:
            return _approval(operation, spec)
    return None


def accepted(seen: Observation, fleet: tuple[Assessed, ...]) -> Approval | None:
    """Return the acceptance of exactly the loss that the fleet has now; None without one that holds, or needed."""
    if not is_needed(seen, fleet):
        return None
    for operation, spec in operation_queue.of_type(seen, OperationType.ACCEPT_LOSS):
        if not any(hindrances(seen, fleet, operation, spec)):
            return _approval(operation, spec)
    return None


def is_needed(seen: Observation, fleet: tuple[Assessed, ...]) -> bool:
    """Return True when more bookies are without their data than the ack quorum survives."""
    return dependents.is_breached(seen, fleet)


def hindrances(
    seen: Observation, fleet: tuple[Assessed, ...], operation: BookieOperation, spec: OperationSpec
) -> Iterator[str]:
    """Yield why the acceptance does not hold now (spec/operator.md#U5)."""
    named = {one.name: one.evidence for one in spec.target.bookies}
    if not seen.leadership.is_held or seen.record_problem or seen.members_problem:
        yield seen.record_problem or seen.members_problem or "this operator does not hold the lease"
    if seen.can_read_volumes is not True:
        yield "the operator cannot read PersistentVolumes (chart value persistentVolumes.read), so old disks may exist"
    known = {one.case.name: one for one in fleet}
    for name in named:
        if name not in known:
            yield f"the cluster has no bookie {name}"
    for name, one in known.items():
        if one.is_dataless and name not in named:
            yield f"{name} is without its data too, and is not named: name every bookie that is, or bring its disk back"
        elif one.is_unavailable:
            yield f"{name} is {one.stage.value} and may hold the only copy of an entry: bring it back first"
        elif name in named:
            yield from _of_named(seen, operation, one, named[name])


def is_granted_by(seen: Observation, operation: BookieOperation, one: Assessed) -> bool:
    """Return True when the present life of this bookie began, or is about to begin, by this operation."""
    if one.grant is not None:
        return one.grant.approval is not None and one.grant.approval.uid == operation.uid
    return any(
        entry.bookie == one.case.name
        and entry.incarnation == one.incarnation
        and entry.approval is not None
        and entry.approval.uid == operation.uid
        for entry in seen.cluster.status.history
    )


def has_begun(seen: Observation, operation: BookieOperation, one: Assessed) -> bool:
    """Return True when the bookie has taken the grant that this operation allowed, and lives by it."""
    is_past = one.stage not in _WAITS and (one.stage.serves or one.stage in HEALING)
    return is_past and is_granted_by(seen, operation, one)


def _of_named(seen: Observation, operation: BookieOperation, one: Assessed, evidence: str) -> Iterator[str]:
    name = one.case.name
    if has_begun(seen, operation, one):
        return
    if not one.is_dataless:
        yield f"{name} is not without its data: leave it out"
        return
    if one.evidence.conclusion is not Conclusion.LOST_VOLUME or one.stage not in _WAITS:
        yield f"the loss of {name} is not proven ({one.stage.value}: {one.message or one.reason})"
    if one.evidence.digest != evidence:
        yield f"the evidence of {name} is {one.evidence.digest or 'not known'}, and not {evidence}"
    yield from _old_disks(seen, one)
    if one.case.member is not None and one.case.member.is_registered:
        yield f"a process of {name} is registered in the metadata store: stop it, or wait until its session has ended"
    yield from processes.doubts(one.case, one.processes)


def _old_disks(seen: Observation, one: Assessed) -> Iterator[str]:
    """Yield what may still hold the bookie's data. No time of waiting opens this, as it opens the gate of old volumes:
    whoever gives data up takes the disk away by hand."""
    for claim in one.case.other_claims:
        if claim.marks is not None:
            yield f"claim {claim.name} holds data of {one.case.name}: bring it back, or delete it to give its data up"
    for volume in one.case.volumes:
        old = seen.old_volumes.get(volume.recorded.pv_name) if volume.recorded is not None else None
        if old is None or volume.recorded is None or not volume.is_replaced or old.uid != volume.recorded.pv_uid:
            continue
        yield (
            f"the old volume of {volume.name} of {one.case.name} still exists (PersistentVolume {old.name},"
            f" {old.phase}): bring it back, or delete it to give its data up"
        )


def _approval(operation: BookieOperation, spec: OperationSpec) -> Approval:
    return Approval(
        operation=operation.name,
        uid=operation.uid,
        type=spec.type.value,
        requested_by=operation.requested_by or None,
        reason=spec.reason[:_REASON_MAX],
    )
