"""What becomes of a bookie whose local disks are on a node that is gone (spec/operator.md#N4 to N6). Pure.

Its pod cannot be scheduled: the claims are bound to volumes that only that node reaches. Until somebody brings the node
back, nothing but a deletion of these claims lets the bookie live elsewhere, without its data. With `repair.lostNode:
{policy: Replace}` the operator deletes exactly those claims, by uid, and the pod that waits for them; the bookie comes
back as one that lost its volumes, and goes the usual way through gates and grant. This is one of the few places where a
claim is deleted: every line of proof has to hold in the pass that does it, and the decision is stored first.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from bookie_operator.evidence import processes
from bookie_operator.evidence.facts import VolumeCase, is_machine_gone
from bookie_operator.model.status import LostNode
from bookie_operator.model.values import format_time, parse_duration, parse_time
from bookie_operator.plan import dependents, fencing, gates
from bookie_operator.plan.actions import DeleteChild
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import Assessed, Stage


@dataclass(frozen=True, slots=True)
class LostNodes:
    """By bookie, what is to be remembered; and what to delete once that is stored."""

    told: dict[str, LostNode]
    actions: tuple[DeleteChild, ...] = ()


def decide(seen: Observation, fleet: tuple[Assessed, ...]) -> tuple[tuple[Assessed, ...], LostNodes]:
    """Return the fleet, in which each bookie that waits for its node says so, and what is done about lost nodes."""
    told: dict[str, LostNode] = {}
    actions: list[DeleteChild] = []
    out = []
    for one in fleet:
        entry, deletions = _of_bookie(seen, fleet, one)
        actions += deletions
        if entry is not None:
            told[one.case.name] = entry
            one = replace(one, reason="NodeLost", message=_words(seen, one, entry))
        elif waits := _drained(one):
            one = replace(one, reason="NodeDrained", message=waits)
        out.append(one)
    return tuple(out), LostNodes(told, tuple(actions))


def _of_bookie(
    seen: Observation, fleet: tuple[Assessed, ...], one: Assessed
) -> tuple[LostNode | None, list[DeleteChild]]:
    before = one.previous.lost_node if one.previous is not None else None
    lost = _lost_volumes(one)
    is_left = before is not None and _is_left(one, before)
    # CRASH: the claims went, and the operator died before the pod did: it waits for them, or takes the new ones, which
    # are younger than it is, and is held. It serves nobody.
    rest: list[DeleteChild] = []
    if before is not None and is_left:
        held = "; ".join(_at_a_standstill(seen)) or None
        before = before.model_copy(update={"waiting_for": held})
        rest = list(_pod(one, before.node)) if held is None else []
    if not lost:
        return (before if is_left else None), rest
    assert lost[0].recorded is not None
    node = lost[0].recorded.node
    known = before if before is not None and before.node == node else None
    since = known.since if known is not None else format_time(seen.now_ms)
    if parse_time(since) > seen.now_ms:
        since = format_time(seen.now_ms)  # the clock was set back: the time to wait begins anew
    entry = LostNode(node=node, since=since, claims=tuple(one.claim_name for one in lost))
    why = tuple(_closed(seen, fleet, one, lost, entry))
    if why:
        return entry.model_copy(update={"waiting_for": "; ".join(why)[:512]}), rest
    pod_uid = one.case.pod.uid if one.case.pod is not None else ""
    held = "; ".join(_undeleted(seen, lost))[:512] or None
    # Once: a time that goes on with the clock would be another status in each pass (spec/operator.md#K17).
    decided_at = known.decided_at if known is not None and known.decided_at is not None else format_time(seen.now_ms)
    decided = entry.model_copy(update={"decided_at": decided_at, "pod_uid": pod_uid, "waiting_for": held})
    return decided, [*_deletions(node, lost), *_pod(one, node)]


def _undeleted(seen: Observation, lost: list[VolumeCase]) -> Iterator[str]:
    """Yield why claims are still there although they were to be deleted: only a person can change it
    (spec/operator.md#Y3)."""
    for volume in lost:
        refused = seen.hindrances.get(volume.claim_name)
        if refused is not None:
            yield refused.text
        elif volume.claim is not None and volume.claim.is_terminating:
            yield (
                f"claim {volume.claim_name} is being deleted, and something holds it: see the finalizers and events of"
                f" `kubectl -n {seen.cluster.namespace} describe pvc {volume.claim_name}`"
            )


def _lost_volumes(one: Assessed) -> list[VolumeCase]:
    """Return the local disks that wait on a node that is gone; () while the pod has a node: it may run there."""
    return [
        volume
        for volume in _waiting(one)
        if volume.recorded is not None
        and volume.recorded.node in one.case.nodes
        and is_machine_gone(one.case.nodes[volume.recorded.node])
    ]


def _waiting(one: Assessed) -> list[VolumeCase]:
    """Return the local disks of a bookie whose pod has no node to go to."""
    pod = one.case.pod
    # What was proven empty is nothing to replace: its claims are for spec.storage.retention alone (#J8).
    stored = (one.leaving, one.previous.leaving if one.previous is not None else None)
    if any(each is not None and (each.state.is_near_its_end or each.state.is_gone) for each in stored):
        return []
    if not one.case.is_desired or not one.has_lived or (pod is not None and (pod.node or pod.is_terminating)):
        return []
    return [
        volume
        for volume in one.case.volumes
        if volume.is_local_disk and volume.claim is not None and volume.recorded is not None and volume.recorded.node
        if not volume.is_replaced
    ]


def _closed(
    seen: Observation, fleet: tuple[Assessed, ...], one: Assessed, lost: list[VolumeCase], entry: LostNode
) -> Iterator[str]:
    """Yield why the claims must not be deleted now."""
    spec = seen.cluster.spec
    if spec.repair.lost_node.policy != gates.REPLACE:
        yield "spec.repair.lostNode.policy is Wait"
    due_ms = parse_time(entry.since) + parse_duration(spec.repair.lost_node.after)
    if seen.now_ms < due_ms:
        yield f"spec.repair.lostNode.after: not before {format_time(due_ms)}"
    yield from _at_a_standstill(seen)
    if why := fencing.why_out(seen, one):
        yield f"a person fenced {one.case.name} off ({why}): create a BookieOperation Unfence first"
    for volume in lost:
        yield from _unproven(volume)
    yield from processes.doubts(one.case, one.processes)
    yield from _fleet(seen, fleet, one)
    yield from (message for _, message in gates.brake(seen, fleet, one))


def _at_a_standstill(seen: Observation) -> Iterator[str]:
    """Yield why nothing is deleted now, whatever was decided."""
    if seen.cluster.spec.lifecycle.paused:
        yield "spec.lifecycle.paused is true"
    if not seen.leadership.is_held:
        yield "this operator does not hold the lease"


def _unproven(volume: VolumeCase) -> Iterator[str]:
    """Yield why it is not proven that this claim's data is on the node that is gone, and nowhere else."""
    claim, pv, recorded = volume.claim, volume.pv, volume.recorded
    assert claim is not None
    assert recorded is not None
    if claim.uid != recorded.pvc_uid or claim.marks is None or claim.marks.claim_uid != claim.uid:
        yield f"claim {claim.name} is not the one that was proven to be there"
    if pv is None:
        yield f"the PersistentVolume of claim {claim.name} cannot be read (chart value persistentVolumes.read)"
    elif not recorded.pv_uid or pv.uid != recorded.pv_uid:
        yield f"claim {claim.name} has another PersistentVolume than it had there"
    elif not recorded.hostname or pv.hostnames != (recorded.hostname,):
        yield f"PersistentVolume {pv.name} is not tied to host {recorded.hostname or recorded.node} and no other"


def _fleet(seen: Observation, fleet: tuple[Assessed, ...], one: Assessed) -> Iterator[str]:
    """Yield why the rest of the fleet cannot do without this bookie's data."""
    if seen.cluster.spec.tolerance < 1:
        yield "the ack quorum is 1: acknowledged entries may be nowhere but on these disks"
    if why := gates.collapsed(fleet):
        yield why
    if seen.members_problem:
        yield f"no bookie listed cookies and registrations: {seen.members_problem}"
    elif one.case.member is not None and one.case.member.is_registered:
        yield f"bookie {one.case.bookie_id} is registered in the metadata store: a process of it runs somewhere"
    others = [other for other in fleet if other.case.name != one.case.name]
    waiting = [other.case.name for other in others if _may_need_copies(other)]
    # Those of one node are lost together: what matters is that no ledger depends on all of them (#N8).
    shared = dependents.why_not(seen, fleet, (one.case.name, *waiting)) if dependents.may_share(seen) else None
    if waiting and shared:
        yield shared
    for name in waiting if shared is None else ():
        stage = next(other.stage for other in others if other.case.name == name)
        yield f"{name} is {stage.value}, and may need this bookie's copies"
    for other in others:
        if why := other.case.loses_with_its_pod if other.case.name in waiting else other.case.goes:
            yield why
    yield from in_another_store(seen, [other for other in others if other.case.name not in waiting])


def in_another_store(seen: Observation, others: Iterable[Assessed]) -> Iterator[str]:
    """Yield who serves and is not known to be in the pinned metadata store: its copies are perhaps of another."""
    expected = seen.cluster.expected_instance_id
    for other in others:
        report = other.case.report
        if other.stage.serves and (report is None or report.instance_id != expected):
            yield f"{other.case.name} is not known to be in metadata store {expected}"


def _may_need_copies(other: Assessed) -> bool:
    return other.is_dataless or other.is_unavailable or other.stage is Stage.LIMBO


def together(seen: Observation, fleet: tuple[Assessed, ...]) -> tuple[str, ...]:
    """Return the bookies of which it has to be known whether a ledger depends on all of them, for one whose node is
    gone; () for nobody."""
    is_wanted = seen.cluster.spec.repair.lost_node.policy == gates.REPLACE and any(_lost_volumes(one) for one in fleet)
    return tuple(one.case.name for one in fleet if _may_need_copies(one)) if is_wanted else ()


def _deletions(node: str, lost: list[VolumeCase]) -> Iterator[DeleteChild]:
    for volume in lost:
        claim = volume.claim
        assert claim is not None
        if not claim.is_terminating:
            why = f"its local disk was on node {node}, which is gone"
            yield DeleteChild("PersistentVolumeClaim", claim.name, claim.uid, claim.resource_version, why)


def _pod(one: Assessed, node: str) -> Iterator[DeleteChild]:
    pod = one.case.pod
    if pod is not None and not pod.is_terminating and (not pod.node or one.stage is Stage.HELD):
        yield DeleteChild("Pod", pod.name, pod.uid, pod.resource_version, f"it waits for node {node}, which is gone")


def _is_left(one: Assessed, before: LostNode) -> bool:
    """Return True for the pod that goes with claims that were deleted, while it is there."""
    if before.decided_at is None or one.case.pod is None or one.case.pod.uid != before.pod_uid:
        return False
    return any(volume.claim_name in before.claims and volume.is_replaced for volume in one.case.volumes)


def _drained(one: Assessed) -> str:
    """Return the words for a bookie, none of whose nodes is gone, that waits for one that is drained, or not ready; ""
    otherwise."""
    for volume in _waiting(one):
        assert volume.recorded is not None
        node = one.case.nodes.get(volume.recorded.node)
        if node is not None and (node.drained or not node.is_ready):
            state = node.drained or "not ready"
            how = f"`kubectl uncordon {node.name}`" if node.drained == "cordoned" else "bring the node back"
            return f"its local disks are on node {node.name}, which is {state}; {how}, and the bookie comes back"
    return ""


def _words(seen: Observation, one: Assessed, entry: LostNode) -> str:
    lost = f"node {entry.node} is gone since {entry.since}, with the local disks of {', '.join(entry.claims)}"
    back = "a machine of that name with these disks brings the bookie back"
    if entry.decided_at is not None:
        held = f"; it waits for: {entry.waiting_for}" if entry.waiting_for else ""
        return f"{lost}: the operator deletes these claims, and the bookie begins a new life elsewhere{held}"
    if seen.cluster.spec.repair.lost_node.policy != gates.REPLACE:
        return f"{lost}: {back}; if they are lost for good, set spec.repair.lostNode.policy to Replace"
    return f"{lost}: {back}; the operator replaces them, and waits for: {entry.waiting_for}"
