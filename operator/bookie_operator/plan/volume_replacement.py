"""Replaces one volume of one bookie by an empty one: the operation ReplaceVolume (spec/operator.md#U13). Pure.

A disk of several is worn out, has read errors, or went read-only: it goes, and what the bookie's other disks have stays
there. The bookie stops in its turn of the roll-out, behind the gates of a Restart and those of a lost disk
(plan/lost_node.py). The claim is deleted by uid after the flush and just before the pod, and Kubernetes keeps it until
no pod uses it. The bookie comes back with one empty volume, as it would if the disk had vanished: evidence, gates,
grant, and the repair of that role are the usual ones, and nothing of them is decided here.

A disk that takes no writes takes no flush: none is asked for where the bookie itself says so of this very volume, and
the gates look past its failed disks, and past ledgers that it cannot judge: the copies of the others are whole. Where
only another disk has failed, this one stays: perhaps a person named the wrong one.

Level-based: an operation asks for its volume while the claim is older than the operation, and the one that was there
when the operation was first looked at. Never here: a claim of another volume, or of a bookie that does not serve.
"""

from collections.abc import Iterator
from dataclasses import replace

from bookie.ports.admin import StorageReport
from bookie_operator.evidence.facts import VolumeCase
from bookie_operator.model.operation import BookieOperation, OperationPhase, OperationType
from bookie_operator.model.status import ClosedGate
from bookie_operator.plan import fencing, formats, gates, lost_node, operation_queue, rollout, stop_gates
from bookie_operator.plan.actions import DeleteChild, StopBookie
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.operation_queue import Said
from bookie_operator.plan.rollout import Rollout
from bookie_operator.plan.stages import Assessed


def to_stop(seen: Observation, fleet: tuple[Assessed, ...], operation: BookieOperation, one: Assessed) -> bool:
    """Return True when the bookie is to be stopped, in its turn, and its volume may go then."""
    volume = volume_of(operation, one)
    if volume is None or not _is_asked_of(operation, volume):
        return False
    return not any(_closed(seen, fleet, one, volume))


def is_to_go(operation: BookieOperation, one: Assessed) -> bool:
    """Return True while the volume of before is there, whatever keeps it."""
    volume = volume_of(operation, one)
    return volume is not None and _is_asked_of(operation, volume)


def as_judged(seen: Observation, fleet: tuple[Assessed, ...]) -> Assessed | None:
    """Return the bookie whose turn a ReplaceVolume asks for, as the gates are to see it: without the volume that goes,
    and without its failed disks, where that volume is one of them; None when none asks."""
    wish = _wish(seen, fleet)
    if wish is None:
        return None
    one, volume = wish
    report = one.case.report
    kept = tuple(known for known in one.case.volumes if known.name != volume.name)
    one = replace(one, case=replace(one.case, volumes=kept))
    if report is None or volume.name not in failed_volumes(report):
        return one
    mended = replace(report, directories_failed=(), quarantined_count=0)
    return replace(one, case=replace(one.case, report=mended))


def with_claim(seen: Observation, fleet: tuple[Assessed, ...], rolled: Rollout) -> Rollout:
    """Return the roll-out's step, in which a bookie that ends because of a ReplaceVolume loses that claim as well."""
    stop, wish = rolled.action, _wish(seen, fleet)
    if not isinstance(stop, StopBookie) or wish is None or wish[0].case.name != stop.bookie:
        return rolled
    one, volume = wish
    claim, report = volume.claim, one.case.report
    assert claim is not None
    if report is not None and volume.name in failed_volumes(report):
        stop = replace(stop, door=None, may_delete=True)
    elif not stop.may_delete or stop.door is None:
        return rolled
    why = f"volume {volume.name} of {one.case.name} is to be replaced"
    gone = DeleteChild("PersistentVolumeClaim", claim.name, claim.uid, claim.resource_version, why)
    return replace(rolled, action=replace(stop, claim=None if claim.is_terminating else gone))


def tell(
    seen: Observation,
    fleet: tuple[Assessed, ...],
    rolled: Rollout,
    closed: tuple[ClosedGate, ...],
    operation: BookieOperation,
    one: Assessed,
) -> Said:
    """Return how far a ReplaceVolume is. `closed`: the gates between the bookie and its grant."""
    volume = volume_of(operation, one)
    if volume is None:
        have = ", ".join(known.name for known in one.case.volumes)
        return OperationPhase.FAILED, f"{one.case.name} has no such volume; it has {have}"
    step = rolled.status.step
    is_turn = step is not None and step.bookie == one.case.name
    if _is_asked_of(operation, volume):
        why = "; ".join(_closed(seen, fleet, one, volume))
        if is_turn and not why:
            return OperationPhase.RUNNING, f"the bookie stops. {rolled.status.waiting_for or ''}".rstrip(". ")
        return OperationPhase.QUEUED, f"waits for: {why or rolled.restart_waits_for or 'the next pass'}"
    if why := stop_gates.unproven(one, may_be_read_only=True):
        waits = "; ".join(f"{gate.name}: {gate.message}" for gate in closed)
        return OperationPhase.RUNNING, f"{why}; waits for: {waits}" if waits else why
    if is_turn:
        return OperationPhase.RUNNING, rolled.status.waiting_for or "the turn of this bookie ends"
    return OperationPhase.COMPLETE, f"volume {volume.name} is new (claim {volume.claim_name}), and the bookie is whole"


def volume_of(operation: BookieOperation, one: Assessed) -> VolumeCase | None:
    """Return the volume that the operation names; None when the bookie has none of that name."""
    assert operation.spec is not None
    return next((volume for volume in one.case.volumes if volume.name == operation.spec.target.volume), None)


def failed_volumes(report: StorageReport) -> frozenset[str]:
    """Return the names of the volumes that take no writes, by the bookie's own word."""
    return frozenset(
        volume.name
        for volume in report.volumes
        if any(_is_below(path, volume.path) for path in report.directories_failed)
    )


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _wish(seen: Observation, fleet: tuple[Assessed, ...]) -> tuple[Assessed, VolumeCase] | None:
    for operation, spec in operation_queue.of_type(seen, OperationType.REPLACE_VOLUME):
        one = operation_queue.bookie_of(fleet, spec)
        volume = volume_of(operation, one) if one is not None else None
        if one is not None and volume is not None and to_stop(seen, fleet, operation, one):
            return one, volume
    return None


def _is_asked_of(operation: BookieOperation, volume: VolumeCase) -> bool:
    known, claim = operation.status.claims, volume.claim
    if claim is None or claim.created_ms > operation.created_ms:
        return False
    return not known or claim.uid in known


def _closed(seen: Observation, fleet: tuple[Assessed, ...], one: Assessed, volume: VolumeCase) -> Iterator[str]:
    """Yield why this volume must not go now, beside the gates of a stop: those of a lost disk."""
    claim, recorded = volume.claim, volume.recorded
    assert claim is not None
    if volume.is_ephemeral:
        yield f"volume {volume.name} goes with its pod, and so do all others: create a BookieOperation Replace"
    if not one.case.is_desired or one.leaving is not None:
        yield f"{one.case.name} leaves, or comes back from it"
    if not one.stage.serves:
        # What its other disks have nobody could read meanwhile: it comes back first, or all of it is replaced.
        yield f"{one.case.name} is {one.stage.value} ({one.message or one.reason}), and must serve"
    if why := fencing.why_out(seen, one):
        yield f"a person fenced {one.case.name} off ({why}): create a BookieOperation Unfence first"
    if seen.cluster.spec.tolerance < 1:
        yield "the ack quorum is 1: acknowledged entries may be nowhere but on this volume"
    if recorded is None or claim.uid != recorded.pvc_uid or claim.marks is None or claim.marks.claim_uid != claim.uid:
        yield f"claim {claim.name} is not the one that was proven to be there"
    report = one.case.report
    if report is not None and volume.name in failed_volumes(report) and not rollout.is_announced(one):
        # No flush comes before its end, in which it would be announced (spec/operator.md#Q13).
        yield f"{one.case.name} takes no writes, and its registration does not say so yet"
    yield from formats.closed(seen, fleet, one)
    yield from lost_node.in_another_store(seen, [other for other in fleet if other.case.name != one.case.name])
    yield from (message for _, message in gates.brake(seen, fleet, one))
