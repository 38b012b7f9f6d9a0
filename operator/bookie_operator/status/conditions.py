"""The conditions that this version can know (spec/operator.md#K19). Reasons are a closed list (docs/OPERATOR.md).

A condition is True or False only for what this pass looked at; else Unknown, with the reason and the count. kstatus
reads Stalled and Reconciling; healing by itself raises neither, so that a dead disk at night does not turn every
pipeline red. It shows in Degraded, DataAtRisk and RepairInProgress.
"""

from bookie_operator.model import names, pools
from bookie_operator.plan import dependents, formats, gates
from bookie_operator.plan.children import MetadataStep
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.plan.stages import Assessed, Stage
from bookie_operator.resources import memory
from bookie_operator.status import data, growth, hibernation, rollout, truth
from bookie_operator.status.sight import Sight, unknown
from bookie_operator.status.truth import Truth

# All of them, in the order in which they are shown.
TYPES = (
    "Ready",
    "Reconciling",
    "Stalled",
    "Available",
    "Degraded",
    "DataAtRisk",
    "RepairInProgress",
    "StorageHealthy",
    "UpToDate",
    "VolumesExpanding",
    "LimitedVisibility",
    "MemoryBelowNeed",
    "DeletionHeld",
    "Hibernated",
)

# Gates that time does not open.
_HUMAN_GATES = {
    "G2-Metadata": "WrongMetadataStore",
    "G8-Brake": "BrakeTripped",
    "G9-Policy": "AwaitingApproval",
    "G11-Capability": "BookieHeld",
}


def of(plan: FleetPlan) -> tuple[Truth, ...]:
    sight = Sight.of(plan)
    stalled = _stalled(plan, sight)
    truths = (
        _ready(plan, sight, stalled),
        rollout.reconciling(plan, sight),
        stalled,
        _available(plan, sight),
        data.degraded(sight),
        data.data_at_risk(plan, sight),
        data.repair_in_progress(plan, sight),
        data.storage_healthy(sight),
        rollout.up_to_date(plan, sight),
        growth.volumes_expanding(plan),
        _limited_visibility(plan),
        _memory_below_need(plan),
        data.deletion_held(sight),
    )
    return (*(hibernation.told(plan, one) for one in truths), hibernation.hibernated(plan))


def unseen(why: str) -> tuple[Truth, ...]:
    """Return every condition as Unknown, for a pass that could look at nothing."""
    return tuple(unknown(kind, why) for kind in TYPES)


def _ready(plan: FleetPlan, sight: Sight, stalled: Truth) -> Truth:
    desired, ensemble = len(sight.desired), plan.observation.cluster.spec.quorum.ensemble_size
    if stalled.is_true and stalled.reason != "RolledBack":  # then all is as it was, and serves
        return Truth("Ready", False, "HumanNeeded", stalled.message)
    if plan.metadata is not MetadataStep.READY:
        said = plan.observation.said.get(f"Job {names.metadata_job(plan.observation.cluster.name)}", "it has not ended")
        return Truth("Ready", False, "MetadataInitializing", f"the Job that formats the metadata: {said}")
    # Of a fleet that was whole once nobody misses a newcomer yet (a scale up, a bookie that is replaced); it hides no
    # outage of the others.
    if sight.living < desired and plan.rollout.status.last_good is None:
        told = truth.listed(_absence(plan, one) for one in sight.desired if not one.has_lived)
        return Truth("Ready", False, "Bootstrapping", f"{sight.living} of {desired} bookies are in service; {told}")
    if sight.metadata is False:
        return Truth(
            "Ready",
            False,
            "MetadataUnavailable",
            "no bookie reaches the metadata store: look at it, and at the network; where it refuses them (TLS, a"
            " password), the log of each bookie says why",
        )
    told = truth.listed(_absence(plan, one) for one in sight.desired if not one.stage.is_writable)
    if sight.writable + len(sight.silent) < ensemble:
        counted = f"{sight.writable} bookies take writes, and an ensemble needs {ensemble}"
        return Truth("Ready", False, "NotEnoughWritable", f"{counted}; {told}")
    if sight.writable < ensemble:
        return unknown(
            "Ready", f"{sight.writable} bookies are seen to take writes, an ensemble needs {ensemble}; {told}"
        )
    counted = f"{sight.writable} of {desired} bookies take writes"
    return Truth("Ready", True, "Serving", f"{counted}; {told}" if told else counted)


def _absence(plan: FleetPlan, one: Assessed) -> str:
    """Return why a bookie takes no writes, in the words of the scheduler, the kubelet, the quota or the bookie."""
    said = plan.observation.said.get(f"StatefulSet {names.stateful_set(plan.observation.cluster.name, one.case.pool)}")
    told = f"{one.case.name}: {one.message or one.reason}"
    return f"{told}: {said}" if one.case.pod is None and said else told


def _breached(plan: FleetPlan, sight: Sight) -> str:
    """Return which bookies are without their data, and what to do about it."""
    cluster = plan.observation.cluster
    told = ", ".join(one.case.name for one in sight.dataless)
    if all(one.stage is Stage.REPAIRING for one in sight.dataless):
        # Their losses were accepted, their identities began anew: an old volume would be refused.
        return (
            f"{len(sight.dataless)} bookies live anew ({told}), more than the ack quorum survives, and copy what others"
            " have. Bring back whoever has what ledgers lack that stay blocked (`bookie integrity status` in"
            " their pods). Only where those disks are gone for good, a person gives it up: a BookieOperation"
            " AcceptLedgerLoss (`bookie ledger accept-loss`; docs/RECOVERY.md)"
        )
    anew = ""
    if all(one in sight.dataless for one in sight.desired):
        kept = names.record(cluster.name)
        anew = f" (a new fleet under an old name: delete this resource, its claims and ConfigMap {kept})"
    return (
        f"{len(sight.dataless)} bookies are without data ({told}), and the ack quorum survives"
        f" {cluster.spec.tolerance}: bring old volumes back before anything else{anew}"
    )


def _stalled(plan: FleetPlan, sight: Sight) -> Truth:
    if plan.obstacles:
        first = plan.obstacles[0]
        return Truth("Stalled", True, first.reason, first.message)
    if why := gates.collapsed(plan.fleet):
        return Truth("Stalled", True, "MetadataCollapsed", why)
    tolerance = plan.observation.cluster.spec.tolerance
    if len(sight.dataless) > max(tolerance, 0) and dependents.is_breached(plan.observation, plan.fleet):
        return Truth("Stalled", True, "AckQuorumBreached", _breached(plan, sight))
    if plan.rollout.halted:
        # Also what did not work, where the way back from it is halted.
        told = "; ".join(one for one in (plan.rollout.halted, rollout.rolled_back(plan)) if one)
        return Truth("Stalled", True, plan.rollout.reason, told)
    if told := rollout.rolled_back(plan):
        return Truth("Stalled", True, "RolledBack", told)
    if sight.held:
        first_held = sight.held[0]
        return Truth(
            "Stalled", True, "BookieHeld", f"{first_held.case.name}: {first_held.reason}: {first_held.message}"
        )
    if unread := [one for one in sight.away if one.reason == formats.UNREADABLE]:
        return Truth("Stalled", True, formats.UNREADABLE, unread[0].message)
    if plan.leaving.blocked:
        return Truth("Stalled", True, "RetiredClaims", truth.listed(plan.leaving.blocked))
    if lost := [one for one in sight.every if not one.case.is_desired and one.case.is_ours and not _may_be_there(one)]:
        return Truth("Stalled", True, "OrphanedBookies", _orphans_hint(lost))
    for name, closed in plan.closed.items():
        for gate in closed:
            if gate.name in _HUMAN_GATES:
                return Truth("Stalled", True, _HUMAN_GATES[gate.name], f"{name}: {gate.message}")
    if plan.expansion.infeasible:
        return Truth("Stalled", True, "ExpansionInfeasible", plan.expansion.infeasible)
    if sight.silent:
        return unknown("Stalled", f"a bookie may be held that the operator cannot ask: {sight.blindness()}")
    return Truth("Stalled", False, "Progressing", "")


def _may_be_there(one: Assessed) -> bool:
    """Return True when the bookie serves, or its pod runs and gave no answer: one lost answer makes no orphan."""
    return one.stage.serves or one.stage in (Stage.ELSEWHERE, Stage.UNREACHABLE)


def _orphans_hint(lost: list[Assessed]) -> str:
    told = ", ".join(one.case.bookie_id for one in lost[:5])
    return (
        f"{told} may hold data and the spec asks for none of them: give the spec their zones and numbers again, or move"
        f" their ledgers (`bookie cluster decommission {lost[0].case.bookie_id}`) and delete their claims"
    )


def _available(plan: FleetPlan, sight: Sight) -> Truth:
    ensemble = plan.observation.cluster.spec.quorum.ensemble_size
    counted = f"{sight.writable} bookies take writes, and an ensemble needs {ensemble}"
    if sight.writable >= ensemble:
        return Truth("Available", True, "EnsembleWritable", counted)
    if sight.writable + len(sight.silent) >= ensemble:
        return unknown("Available", f"{counted}; {sight.blindness()}")
    return Truth("Available", False, "NotEnoughWritable", counted)


def _limited_visibility(plan: FleetPlan) -> Truth:
    seen = plan.observation
    if seen.can_read_volumes is False:
        return Truth(
            "LimitedVisibility",
            True,
            "NoPVRead",
            "the operator may not read PersistentVolumes: it can neither prove that a volume on a shared disk was"
            " replaced nor see old volumes (chart value persistentVolumes.read)",
        )
    if not seen.can_read_nodes:
        return Truth(
            "LimitedVisibility",
            True,
            "NoNodeRead",
            "the operator may not read Nodes: it counts a pod that was deleted by force as running until a person says"
            " that it ended (chart value nodes.read)",
        )
    if seen.can_read_volumes is None:
        return unknown("LimitedVisibility", "there is no PersistentVolume yet that the operator could try to read")
    return Truth("LimitedVisibility", False, "EverythingReadable", "")


def _memory_below_need(plan: FleetPlan) -> Truth:
    """Whether the memory limit is less than a bookie may need. It is enough for a light load, so this only warns."""
    if told := pools.problems(plan.observation.cluster.spec, lambda shape: filter(None, (memory.shortage(shape),))):
        return Truth("MemoryBelowNeed", True, "LimitBelowNeed", "; ".join(told))
    return Truth("MemoryBelowNeed", False, "LimitCoversNeed", "")
