"""Gives a bookie its cookie back that somebody deleted from the metadata store: the operation RestoreCookie
(spec/operator.md#U9, U10). Pure.

The bookie itself writes the cookie, as its disks have it, and checks everything once more. The operator only asks it
to, for exactly the evidence that a person judged, while nothing that it can see disagrees. Nobody is stopped: the
bookie is held.
"""

from collections.abc import Iterator

from bookie.ports.admin import Contents, Verdict
from bookie_operator.evidence import processes
from bookie_operator.model.operation import BookieOperation, OperationPhase, OperationSpec, OperationType
from bookie_operator.plan import doors, gates, operation_queue
from bookie_operator.plan.actions import RestoreCookie
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.operation_queue import Said
from bookie_operator.plan.stages import Assessed, Stage

CAPABILITY = "cookie"  # of bookies: they make their own cookie again
_MISSING = "CookieMissingInMetadata"


def orders(seen: Observation, fleet: tuple[Assessed, ...]) -> tuple[RestoreCookie, ...]:
    """Return the orders to be given now, after the status is stored."""
    found = []
    for _, spec in operation_queue.of_type(seen, OperationType.RESTORE_COOKIE):
        one = operation_queue.bookie_of(fleet, spec)
        if one is None or any(hindrances(seen, fleet, one, spec)):
            continue
        assert one.case.pod is not None
        assert one.case.report is not None
        door = doors.of(seen.cluster, one.case.pod)
        found.append(RestoreCookie(one.case.name, door, one.case.report.evidence_hash, seen.leadership.epoch))
    return tuple(found)


def hindrances(seen: Observation, fleet: tuple[Assessed, ...], one: Assessed, spec: OperationSpec) -> Iterator[str]:
    """Yield why the cookie must not be made again (spec/operator.md#U10)."""
    case, report = one.case, one.case.report
    expected = seen.cluster.expected_instance_id
    if not seen.leadership.is_held or seen.record_problem:
        yield seen.record_problem or "this operator does not hold the lease"
    if not case.is_desired or case.is_leaving or one.leaving is not None:
        yield f"{case.name} leaves, or the spec does not ask for it"
    is_missing = report is not None and report.verdict is Verdict.COOKIE_MISSING and not report.cookie_present
    if one.stage is not Stage.HELD or one.evidence.finding.reason != _MISSING or report is None or not is_missing:
        yield f"{case.name} is {one.stage.value} ({one.evidence.finding.reason}), and not held for {_MISSING}"
        return
    if CAPABILITY not in report.capabilities:
        yield f"the release of {case.name} cannot make its cookie again: update its image"
    if one.evidence.digest != spec.evidence:
        yield f"the evidence of {case.name} is {one.evidence.digest}, and not {spec.evidence}"
    if report.instance_id != expected:
        yield f"{case.name} is in metadata store {report.instance_id or '?'}, expected {expected}"
    if why := gates.collapsed(fleet):
        yield why
    if not case.is_listed:
        yield f"no bookie listed cookies and registrations: {seen.members_problem or 'nobody was asked'}"
    elif case.member is not None:
        yield f"{case.bookie_id} has a cookie or is registered: some process runs it"
    yield from _volumes(one)
    yield from processes.doubts(case, one.processes)


def tell(seen: Observation, fleet: tuple[Assessed, ...], one: Assessed, operation: BookieOperation) -> Said:
    """Return how far the operation is. It is done by itself alone: who has a cookie before the operation began was
    judged by somebody else, or is not who was meant."""
    assert operation.spec is not None
    report, stage = one.case.report, one.stage.value
    if one.evidence.digest and report is not None and report.cookie_present:
        # CRASH: that it began is stored before the bookie is asked.
        if operation.status.started_at is not None:
            return OperationPhase.COMPLETE, f"{one.case.name} has its cookie again, and is {stage}"
        return OperationPhase.QUEUED, f"nothing to do: {one.case.name} has its cookie, and is {stage}"
    if why := "; ".join(hindrances(seen, fleet, one, operation.spec)):
        return OperationPhase.QUEUED, f"not in force: {why}"
    hindrance = seen.hindrances.get(one.case.name)
    return OperationPhase.RUNNING, hindrance.text if hindrance is not None else "the bookie makes its cookie again"


def _volumes(one: Assessed) -> Iterator[str]:
    """Yield which volume is not proven to be the one that this life of the bookie had."""
    assert one.case.report is not None
    for volume in one.case.volumes:
        claim = volume.claim
        if volume.report is None or volume.report.contents is not Contents.VALID:
            yield f"volume {volume.name} is not valid"
        if claim is None or claim.is_terminating or volume.is_replaced:
            yield f"claim {volume.claim_name} is not the one that the bookie had"
        elif claim.retired_at:
            yield f"claim {claim.name} is of a bookie that left the fleet: its cookie went by proof"
        elif claim.marks is None or claim.marks.incarnation != one.case.report.incarnation:
            yield f"claim {claim.name} is not marked with the bookie's incarnation {one.case.report.incarnation}"
