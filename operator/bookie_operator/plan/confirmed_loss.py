"""ConfirmLoss: a bookie is held because volumes are empty that held data, or their disks do not answer, and a person
says that what they had is lost. Pure.

Nobody but a person can say that: somebody wiped the volume, formatted it, or put another device behind its claim, and
what was there may be somewhere; a disk that is silent may answer tomorrow (spec/operator.md#V6, V7, V14). The operation
does what he would do by hand: the claims of these volumes go, each as it was seen, and then the pod, so that the bookie
comes back on new claims. That proves the loss, and no more: evidence, gates and grant of a lost volume are the usual
ones, so that nothing is granted where too much is lost (spec/operator.md#G4).

It fits one evidence, hence these very claims, pod and contents: a volume that is back is none of it. First the claims,
and the pod in a later pass, when each of them is on its way: Kubernetes keeps a claim while a pod uses it. Never here:
a claim whose volume is not seen to be empty, or silent, now, or anything of a bookie that serves, or of which an older
process may run.
"""

from collections.abc import Iterator

from bookie.ports.admin import HELD, Verdict
from bookie_operator.evidence import processes
from bookie_operator.evidence.facts import VolumeCase
from bookie_operator.evidence.reasons import Conclusion
from bookie_operator.model.operation import BookieOperation, OperationPhase, OperationSpec, OperationType
from bookie_operator.plan import fencing, hibernation, operation_queue
from bookie_operator.plan.actions import DeleteChild
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.operation_queue import Said
from bookie_operator.plan.stages import Assessed, Stage

_SILENT = HELD[Verdict.UNREADABLE].reason
# For these a bookie is held, and by these alone.
REASONS = ("WipedInPlace", "EmptyButInitialized", "ResetLocalDisk", "ClaimTerminating", _SILENT)
_IN_THE_WAY = (Conclusion.HELD, Conclusion.MOUNT_MISSING, Conclusion.UNKNOWN)


def given_up(one: Assessed) -> tuple[VolumeCase, ...]:
    """Return the volumes that hold the bookie because they are empty, or do not answer; () for a bookie that nothing is
    known of now."""
    if not one.evidence.volumes:
        return ()
    found = zip(one.case.volumes, one.evidence.volumes, strict=True)
    return tuple(volume for volume, finding in found if finding.reason in REASONS and volume.claim is not None)


def claims_of(one: Assessed) -> tuple[str, ...]:
    """Return the uids of the claims that are to go, to be noted when the operation is first looked at."""
    return tuple(volume.claim.uid for volume in given_up(one) if volume.claim is not None)


def deletions(seen: Observation, fleet: tuple[Assessed, ...]) -> tuple[DeleteChild, ...]:
    """Return what is to be deleted in this pass."""
    found: list[DeleteChild] = []
    for operation, spec in operation_queue.of_type(seen, OperationType.CONFIRM_LOSS):
        one = operation_queue.bookie_of(fleet, spec)
        if one is not None and _is_noted(operation, one) and not any(hindrances(seen, one, spec)):
            found += _of_bookie(operation, one)
    return tuple(found)


def hindrances(seen: Observation, one: Assessed, spec: OperationSpec) -> Iterator[str]:
    """Yield why the claims must not go now (spec/operator.md#U14)."""
    name, report = one.case.name, one.case.report
    if not seen.leadership.is_held or seen.members_problem:
        yield seen.members_problem or "this operator does not hold the lease"
    if hibernation.has_begun(seen.cluster.status):
        yield hibernation.WHY_HELD_UP
    if not one.case.is_desired or one.leaving is not None:
        yield f"{name} leaves, or comes back from it"
    if one.stage is not Stage.HELD or report is None or not given_up(one):
        why = "not held for an empty volume, or a disk that does not answer"
        yield f"{name} is {one.stage.value} ({one.message or one.reason}), and {why}"
        return
    if one.evidence.digest != spec.evidence:
        yield f"the evidence of {name} is {one.evidence.digest}, and not {spec.evidence}"
    for finding in one.evidence.volumes:
        if finding.conclusion in _IN_THE_WAY and finding.reason not in REASONS:
            yield f"it is not only that: {finding.reason}: {finding.message}"
    if report.verdict is not None and report.verdict.is_held and not _is_told_silent(one):
        yield f"the bookie holds itself: {report.reason or report.verdict.name}"
    yield from _also_lost(one)
    if why := fencing.why_out(seen, one):
        yield f"a person fenced {name} off ({why}): create a BookieOperation Unfence first"
    if report.data_port_open or (one.case.member is not None and one.case.member.is_registered):
        yield f"a process of {name} serves, or is registered in the metadata store"
    yield from processes.doubts(one.case, one.processes)


def _is_told_silent(one: Assessed) -> bool:
    """Return True when the bookie holds itself for a disk that does not answer, which is among those given up."""
    is_one_silent = any(finding.reason == _SILENT for finding in one.evidence.volumes)
    return one.case.report is not None and one.case.report.verdict is Verdict.UNREADABLE and is_one_silent


def _also_lost(one: Assessed) -> Iterator[str]:
    """Yield what else would go with the pod: volumes that hold data, and that nobody confirmed to be lost."""
    confirmed = {volume.name for volume in given_up(one)}
    for volume in one.case.volumes:
        if volume.name in confirmed:
            continue
        if volume.is_ephemeral:
            yield f"volume {volume.name} is not empty, and goes with the pod (kind Ephemeral)"
        elif volume.is_going:
            yield f"{volume.is_going} with the pod, and it is not empty"


def tell(seen: Observation, operation: BookieOperation, one: Assessed) -> Said:
    """Return how far a ConfirmLoss is."""
    assert operation.spec is not None
    left = [volume for volume in one.case.volumes if volume.claim and volume.claim.uid in operation.status.claims]
    if operation.status.claims and not left:
        text = f"the claims of what {one.case.name} lost are gone: what comes back waits for the gates of a lost volume"
        return OperationPhase.COMPLETE, f"{text} (status.bookies[].gates)"
    if why := "; ".join(hindrances(seen, one, operation.spec)):
        return OperationPhase.QUEUED, f"not in force: {why}"
    names = (one.case.name, *(volume.claim_name for volume in given_up(one)))
    refused = [seen.hindrances[name].text for name in names if name in seen.hindrances]
    return OperationPhase.RUNNING, "; ".join(refused) or "the claims of what is lost go, and then the pod"


def _is_noted(operation: BookieOperation, one: Assessed) -> bool:
    # CRASH: what is to go is stored before the first of it goes.
    noted = claims_of(one)
    return bool(noted) and set(noted) <= set(operation.status.claims)


def _of_bookie(operation: BookieOperation, one: Assessed) -> Iterator[DeleteChild]:
    why = f"BookieOperation {operation.name} confirms that its data is lost"
    claims = [volume.claim for volume in given_up(one) if volume.claim is not None and not volume.is_ephemeral]
    there = [claim for claim in claims if not claim.is_terminating]
    for claim in there:
        yield DeleteChild("PersistentVolumeClaim", claim.name, claim.uid, claim.resource_version, why)
    pod = one.case.pod
    # CRASH: claims that are on their way go when the pod does; until then the volumes are what they were.
    if pod is not None and not pod.is_terminating and not there:
        yield DeleteChild("Pod", pod.name, pod.uid, pod.resource_version, why)
