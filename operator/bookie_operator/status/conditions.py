"""The conditions of operators.md 2.4 that this version can know. Reasons are a closed list (docs/OPERATOR.md).

kstatus reads Stalled and Reconciling; healing by itself raises neither, so that a dead disk at night does not turn
every pipeline red. It shows in Degraded, DataAtRisk and RepairInProgress.
"""

from dataclasses import dataclass

from bookie_operator.evidence.volume import Verdict
from bookie_operator.model.status import Condition
from bookie_operator.plan.fleet import Plan
from bookie_operator.plan.stages import Assessed, Stage


@dataclass(frozen=True, slots=True)
class Truth:
    """One condition before it has times."""

    type: str
    is_true: bool
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Counts:
    """The arithmetic that several conditions share."""

    desired: int
    living: int  # have held data at least once
    writable: int
    dataless: int
    unavailable: int
    held: tuple[Assessed, ...]

    @classmethod
    def of(cls, plan: Plan) -> "Counts":
        return cls(
            desired=plan.observation.cluster.spec.replicas,
            living=sum(one.incarnation > 0 for one in plan.fleet),
            writable=sum(one.stage.is_writable for one in plan.fleet),
            dataless=sum(one.is_dataless for one in plan.fleet),
            unavailable=sum(one.is_unavailable for one in plan.fleet),
            held=tuple(one for one in plan.fleet if one.stage is Stage.HELD),
        )


def of(plan: Plan) -> tuple[Truth, ...]:
    """All conditions, in the order in which they are shown."""
    counts = Counts.of(plan)
    stalled = _stalled(plan, counts)
    return (
        _ready(plan, counts, stalled),
        _reconciling(plan, counts),
        stalled,
        _available(plan, counts),
        _degraded(plan, counts),
        _data_at_risk(plan, counts),
        _repair_in_progress(plan),
        _storage_healthy(plan),
        _up_to_date(plan),
        _limited_visibility(plan),
    )


def dated(truths: tuple[Truth, ...], before: tuple[Condition, ...], generation: int, now: str) -> tuple[Condition, ...]:
    """`truths` as metav1.Conditions: lastTransitionTime moves only when the status flips."""
    known = {condition.type: condition for condition in before}
    return tuple(
        Condition(
            type=truth.type,
            status="True" if truth.is_true else "False",
            reason=truth.reason,
            message=truth.message[:1024],
            last_transition_time=(
                known[truth.type].last_transition_time
                if truth.type in known and (known[truth.type].status == "True") == truth.is_true
                else now
            ),
            observed_generation=generation,
        )
        for truth in truths
    )


def _ready(plan: Plan, counts: Counts, stalled: Truth) -> Truth:
    ensemble = plan.observation.cluster.spec.quorum.ensemble_size
    reports = [one.case.report for one in plan.fleet if one.case.report is not None]
    if stalled.is_true:
        return Truth("Ready", False, "HumanNeeded", stalled.message)
    if counts.living < counts.desired:
        waiting = [f"{one.case.name}: {one.message or one.reason}" for one in plan.fleet if one.incarnation == 0]
        return Truth(
            "Ready",
            False,
            "Bootstrapping",
            f"{counts.living} of {counts.desired} bookies are in service; {'; '.join(waiting[:3])}",
        )
    if reports and not any(report.metadata_reachable for report in reports):
        return Truth("Ready", False, "MetadataUnavailable", "no bookie can reach the metadata store")
    if counts.writable < ensemble:
        return Truth(
            "Ready", False, "NotEnoughWritable", f"{counts.writable} writable bookies, an ensemble needs {ensemble}"
        )
    return Truth("Ready", True, "Serving", f"{counts.writable} of {counts.desired} bookies take writes")


def _reconciling(plan: Plan, counts: Counts) -> Truth:
    if counts.living == 0:
        return Truth("Reconciling", True, "Bootstrapping", "the fleet starts for the first time")
    if counts.living < counts.desired:
        return Truth("Reconciling", True, "ScalingUp", f"{counts.desired - counts.living} bookies are new")
    if outdated := _outdated(plan):
        return Truth("Reconciling", True, "RolloutInProgress", _rollout_hint(outdated))
    return Truth("Reconciling", False, "Done", "the observed generation is rolled out")


def _stalled(plan: Plan, counts: Counts) -> Truth:
    if plan.obstacles:
        first = plan.obstacles[0]
        return Truth("Stalled", True, first.reason, first.message)
    tolerance = plan.observation.cluster.spec.tolerance
    if counts.dataless > max(tolerance, 0):
        names = ", ".join(one.case.name for one in plan.fleet if one.is_dataless)
        return Truth(
            "Stalled",
            True,
            "AckQuorumBreached",
            f"{counts.dataless} bookies are without data ({names}), the ack quorum survives {tolerance}: bring old"
            " volumes back before anything else",
        )
    if counts.held:
        first_held = counts.held[0]
        return Truth(
            "Stalled", True, "BookieHeld", f"{first_held.case.name}: {first_held.reason}: {first_held.message}"
        )
    for name, gates in plan.closed.items():
        for gate in gates:
            if gate.name in _HUMAN_GATES:
                return Truth("Stalled", True, _HUMAN_GATES[gate.name], f"{name}: {gate.message}")
    return Truth("Stalled", False, "Progressing", "")


# Gates that time does not open.
_HUMAN_GATES = {
    "G2-Metadata": "WrongMetadataStore",
    "G8-Brake": "BrakeTripped",
    "G9-Policy": "AwaitingApproval",
    "G11-Capability": "BookieHeld",
}


def _available(plan: Plan, counts: Counts) -> Truth:
    ensemble = plan.observation.cluster.spec.quorum.ensemble_size
    is_enough = counts.writable >= ensemble
    reason = "EnsembleWritable" if is_enough else "NotEnoughWritable"
    return Truth("Available", is_enough, reason, f"{counts.writable} writable, {ensemble} needed")


def _degraded(plan: Plan, counts: Counts) -> Truth:
    healing = [one.case.name for one in plan.fleet if one.has_loss or one.stage is Stage.LIMBO]
    down = [one.case.name for one in plan.fleet if one.is_unavailable]
    if healing:
        return Truth("Degraded", True, "Repairing", f"not fully copied: {', '.join(healing)}")
    if down:
        return Truth("Degraded", True, "BookieDown", f"not serving: {', '.join(down)}")
    return Truth("Degraded", False, "FullRedundancy", "")


def _data_at_risk(plan: Plan, counts: Counts) -> Truth:
    tolerance = plan.observation.cluster.spec.tolerance
    arithmetic = (
        f"{counts.dataless} without data, {counts.unavailable} not serving; the ack quorum survives {tolerance}"
    )
    if counts.dataless > tolerance:
        return Truth("DataAtRisk", True, "AckQuorumBreached", arithmetic)
    if counts.dataless + counts.unavailable >= max(1, tolerance):
        return Truth("DataAtRisk", True, "AtTolerance", arithmetic)
    return Truth("DataAtRisk", False, "WithinTolerance", "")


def _repair_in_progress(plan: Plan) -> Truth:
    for one in plan.fleet:
        if one.stage in (Stage.FENCING, Stage.STAMPING):
            return Truth("RepairInProgress", True, "Fencing", f"{one.case.name}: {one.message or one.reason}")
        if one.stage in (Stage.REPAIRING, Stage.LIMBO):
            return Truth("RepairInProgress", True, "Repairing", f"{one.case.name}: {one.message or one.reason}")
    return Truth("RepairInProgress", False, "Nothing", "")


def _storage_healthy(plan: Plan) -> Truth:
    for one in plan.fleet:
        if one.evidence.verdict in (Verdict.HELD, Verdict.MOUNT_MISSING):
            finding = one.evidence.finding
            return Truth("StorageHealthy", False, finding.reason, f"{one.case.name}: {finding.message}")
        if one.has_loss:
            return Truth("StorageHealthy", False, "LostVolume", f"{one.case.name}: {one.message or one.reason}")
    return Truth("StorageHealthy", True, "Proven", "")


def _outdated(plan: Plan) -> list[str]:
    """Pods that run an older revision than their StatefulSet's template."""
    revisions = {
        name: ((live.get("status") or {}).get("updateRevision") or "")
        for (kind, name), live in plan.observation.children.items()
        if kind == "StatefulSet"
    }
    return [
        one.case.name
        for one in plan.fleet
        if one.case.pod is not None
        and (revision := revisions.get(one.case.name.rsplit("-", 1)[0]))
        and one.case.pod.revision != revision
    ]


def _rollout_hint(outdated: list[str]) -> str:
    return (
        f"{', '.join(outdated)} run an older revision: delete one pod at a time (`kubectl delete pod {outdated[0]}`),"
        " and wait until every bookie serves and Degraded is False before the next"
    )


def _up_to_date(plan: Plan) -> Truth:
    if outdated := _outdated(plan):
        return Truth("UpToDate", False, "Updating", _rollout_hint(outdated))
    return Truth("UpToDate", True, "Updated", "")


def _limited_visibility(plan: Plan) -> Truth:
    if plan.observation.can_read_volumes:
        return Truth("LimitedVisibility", False, "EverythingReadable", "")
    return Truth(
        "LimitedVisibility",
        True,
        "NoPVRead",
        "no permission to get persistentvolumes: volumes on shared disks can never be proven replaced, and old volumes"
        " are not seen (chart value persistentVolumes.read)",
    )
