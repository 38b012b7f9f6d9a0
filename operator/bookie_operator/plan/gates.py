"""Gates between "this bookie is empty" and "it may take its identity back" (spec/operator.md#G1 to G12).

A closed gate is a name and one sentence. The status shows all closed gates and not only the first, so that the person
on call sees the whole. There is no G10.
"""

from collections.abc import Iterator

from bookie.ports.admin import OPERATOR_EPOCH_MAX
from bookie_operator.evidence import processes
from bookie_operator.evidence.bookie import ROLLBACK
from bookie_operator.evidence.facts import BookieCase, PersistentVolumeFacts, is_machine_gone
from bookie_operator.evidence.reasons import Conclusion
from bookie_operator.model import names
from bookie_operator.model.operation import OperationPhase, OperationType
from bookie_operator.model.spec import Regeneration
from bookie_operator.model.status import Approval, ClosedGate, VolumeRecord
from bookie_operator.model.values import format_time, parse_duration, parse_time
from bookie_operator.plan import dependents, operation_queue
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import OBSERVATIONS_NEEDED, Assessed

DAY_MS = 24 * 3_600_000
REPLACE = "Replace"  # spec.repair.lostNode.policy: who waits for disks of a machine that is gone begins anew
# What a bookie must be able to do before it is let loose on its ledgers (spec/operator.md#G11).
CAPABILITIES = ("regeneration", "limbo")
STALE_VOLUME = "stale-volume"  # and this, before it keeps what went back in time


def closed(
    observation: Observation,
    fleet: tuple[Assessed, ...],
    candidate: Assessed,
    *,
    accepted: Approval | None = None,
    approved: Approval | None = None,
) -> tuple[ClosedGate, ...]:
    """Return every gate that is closed for `candidate`, in the order of their numbers; () = it may get a grant.

    `accepted`: a person accepted exactly the loss that the fleet has (spec/operator.md#U4). `approved`: a person
    approved this very case (spec/operator.md#G9).
    """
    checks = (
        _paused(observation),
        _leader(observation, candidate),
        _metadata(observation, fleet, candidate),
        _identity(candidate),
        () if accepted is not None else _tolerance(observation, fleet),
        _peers(observation, fleet),
        _old_volume(observation, candidate),
        _concurrency(observation, fleet, candidate, accepted),
        brake(observation, fleet, candidate),
        () if approved is not None else _policy(observation, candidate),
        _capability(candidate),
        _old_process(candidate),
    )
    found: dict[str, list[str]] = {}
    for name, message in (pair for check in checks for pair in check):
        found.setdefault(name, []).append(message)
    # One entry for each gate: the API server takes no list with a name twice.
    return tuple(ClosedGate(name=name, message="; ".join(messages)) for name, messages in found.items())


def _paused(observation: Observation) -> Iterator[tuple[str, str]]:
    if observation.cluster.spec.lifecycle.paused:
        yield "Paused", "spec.lifecycle.paused is true: set it to false"


def _leader(observation: Observation, candidate: Assessed) -> Iterator[tuple[str, str]]:
    leadership, report = observation.leadership, candidate.case.report
    if not leadership.is_held:
        yield "G1-Leader", "this operator does not hold the lease: wait for the one that does"
    elif report is not None and report.operator_epoch_seen > OPERATOR_EPOCH_MAX:
        yield (
            "G1-Leader",
            f"the bookie believes in operator epoch {report.operator_epoch_seen}, which no operator gives: somebody"
            " forged a grant under an older release. Update its image and delete its pod; the new release forgets it",
        )
    elif report is not None and report.operator_epoch_seen > leadership.epoch:
        yield (
            "G1-Leader",
            f"the bookie has seen operator epoch {report.operator_epoch_seen}, ours is {leadership.epoch}: another"
            " operator is newer",
        )


def collapsed(fleet: tuple[Assessed, ...]) -> str:
    """Return why the metadata store counts as collapsed; "" when it does not.

    Each bookie keeps what the store has no ledger for when too much is gone at once (decision 0012). When half of those
    that looked keep such ledgers, the store was emptied or set back, rather than ledgers deleted: a bookie that began a
    new life now would mark none of them, and deny them when the store is restored (spec/operator.md#G13).
    """
    reports = [one.case.report for one in fleet if one.evidence.digest and one.case.report is not None]
    told = [report.garbage_held_ledgers for report in reports if report.garbage_held_ledgers >= 0]
    holding = [count for count in told if count > 0]
    if not holding or 2 * len(holding) < len(told):
        return ""
    return (
        f"{len(holding)} of {len(told)} bookies keep ledgers that the metadata store no longer has (up to"
        f" {max(holding)} each): restore the store; if somebody deleted these ledgers, `bookie node release-garbage` in"
        " each pod"
    )


def _metadata(observation: Observation, fleet: tuple[Assessed, ...], candidate: Assessed) -> Iterator[tuple[str, str]]:
    cluster, report = observation.cluster, candidate.case.report
    if report is None or not report.metadata_reachable:
        yield "G2-Metadata", "the bookie cannot reach the metadata store: look at the store, and at the network between"
        return
    if why := collapsed(fleet):
        yield "G2-Metadata", why
    if observation.members_problem:
        yield (
            "G2-Metadata",
            f"no bookie listed cookies and registrations, so losses may be unknown: {observation.members_problem}",
        )
    expected = cluster.expected_instance_id
    if expected and report.instance_id != expected:
        found = f"the metadata store is instance {report.instance_id or '?'}, and {expected} is expected"
        yield "G2-Metadata", f"{found}: correct spec.metadataService.uri, or restore the store"


def _identity(candidate: Assessed) -> Iterator[tuple[str, str]]:
    """Check that a report of this very pod proves the loss of every lost volume, and that it was seen often enough."""
    if candidate.evidence.conclusion is not Conclusion.LOST_VOLUME:
        yield "G3-Identity", f"the loss is not proven: {candidate.evidence.finding.message}"
        return
    seen = candidate.suspicion
    if seen is None or seen.evidence != candidate.evidence.digest or seen.observations < OBSERVATIONS_NEEDED:
        yield (
            "G3-Identity",
            "the operator has not seen the same evidence three times yet: wait for spec.repair.stabilization",
        )


def _tolerance(observation: Observation, fleet: tuple[Assessed, ...]) -> Iterator[tuple[str, str]]:
    tolerance = observation.cluster.spec.tolerance
    dataless = dependents.dataless_beyond(observation, fleet)
    if dataless and (why := dependents.why_not(observation, fleet, dataless)):
        shared = f" ({why})" if dependents.may_share(observation) else ""
        yield (
            "G4-Tolerance",
            f"{len(dataless)} bookies are without data ({', '.join(dataless)}), and the ack quorum survives"
            f" {tolerance}{shared}: bring old disks back first; only a person may go on (BookieOperation AcceptLoss)",
        )


def _peers(observation: Observation, fleet: tuple[Assessed, ...]) -> Iterator[tuple[str, str]]:
    """Check that no bookie is down that may hold the only other copy. The grant waits for each one, from when the
    operator last saw it serve; a wait that is over does not shorten the wait for another bookie."""
    tolerance = observation.cluster.spec.tolerance
    dataless = sum(one.is_dataless for one in fleet)
    away = [one for one in fleet if one.is_unavailable]
    if not away or dataless + len(away) <= tolerance:
        return
    grace = observation.cluster.spec.repair.peer_grace
    ends = {one.case.name: (one.away_since_ms or observation.now_ms) + parse_duration(grace) for one in away}
    waited_for = {name: end for name, end in ends.items() if observation.now_ms < end}
    if waited_for:
        names = ", ".join(f"{name} until {format_time(end)}" for name, end in waited_for.items())
        yield "G5-Peers", f"the grant waits {grace} for each bookie that does not serve, because of its copies: {names}"


def _old_volume(observation: Observation, candidate: Assessed) -> Iterator[tuple[str, str]]:
    """Check that no old volume still has the data, since re-attaching it beats copying: a released one that is kept
    (reclaim policy Retain), or that of a claim that the spec's volumes do not name any more."""
    for claim in candidate.case.other_claims:
        if claim.marks is not None:
            yield (
                "G6-OldVolume",
                f"claim {claim.name} holds data of this bookie, and no volume of the spec has that name: give the spec"
                " the volumes it had, or delete the claim if its data is to be given up",
            )
    for volume in candidate.case.volumes:
        if volume.recorded is None or not volume.is_replaced:
            continue
        old = observation.old_volumes.get(volume.recorded.pv_name)
        if old is None or old.uid != volume.recorded.pv_uid or old.reclaim_policy != "Retain":
            continue
        if _is_out_of_reach(observation, candidate.case, volume.recorded, old):
            continue
        if _is_to_be_replaced(observation, candidate.case, volume.name, volume.recorded):
            continue
        if _is_confirmed_lost(observation, candidate.case, volume.recorded):
            continue
        grace = observation.cluster.spec.repair.reattach_grace
        since_ms = candidate.suspicion.since_ms if candidate.suspicion is not None else observation.now_ms
        if observation.now_ms < since_ms + parse_duration(grace):
            yield (
                "G6-OldVolume",
                f"the old volume of {volume.name} still exists ({old.name}, {old.phase}): re-attach it (delete claim"
                f" {volume.claim_name} and pod, clear the volume's claimRef, bind it to a new claim of that name), or"
                f" wait {grace}",
            )


def _is_out_of_reach(
    observation: Observation, case: BookieCase, recorded: VolumeRecord, old: PersistentVolumeFacts
) -> bool:
    """Return True when the old volume is on a machine that is gone, as it is seen now, and on no other, and the spec
    says how long such machines are waited for: `repair.lostNode.after`, before the claims went."""
    is_gone = recorded.node in case.nodes and is_machine_gone(case.nodes[recorded.node])
    is_there_alone = bool(recorded.hostname) and old.hostnames == (recorded.hostname,)
    return observation.cluster.spec.repair.lost_node.policy == REPLACE and is_gone and is_there_alone


def _is_to_be_replaced(observation: Observation, case: BookieCase, volume: str, recorded: VolumeRecord) -> bool:
    """Return True when a person named this very volume for ReplaceVolume, so that nobody is to attach it again."""
    return any(
        (spec.target.bookie, spec.target.volume) == (case.name, volume) and recorded.pvc_uid in operation.status.claims
        for operation, spec in operation_queue.of_type(observation, OperationType.REPLACE_VOLUME)
    )


def _is_confirmed_lost(observation: Observation, case: BookieCase, recorded: VolumeRecord) -> bool:
    """Return True when the volume's claim went by a ConfirmLoss: a person has said that nothing of it is left."""
    return any(
        one.spec.target.bookie == case.name and recorded.pvc_uid in one.status.claims
        for one in observation.operations
        if one.spec is not None
        and one.spec.type is OperationType.CONFIRM_LOSS
        and one.status.phase in (OperationPhase.RUNNING, OperationPhase.COMPLETE)
    )


def _concurrency(
    observation: Observation, fleet: tuple[Assessed, ...], candidate: Assessed, accepted: Approval | None
) -> Iterator[tuple[str, str]]:
    """Check how many heal. Those of one accepted loss wait for each other's copies, so that they do not count."""
    others = [one for one in fleet if one.is_healing and one.case.name != candidate.case.name]
    healing = [
        one.case.name for one in others if accepted is None or one.grant is None or one.grant.approval != accepted
    ]
    limit = observation.cluster.spec.repair.max_concurrent
    if len(healing) >= limit:
        yield "G7-Concurrency", f"{', '.join(healing)} heals now, and spec.repair.maxConcurrent is {limit}: wait for it"


def brake(observation: Observation, fleet: tuple[Assessed, ...], candidate: Assessed) -> Iterator[tuple[str, str]]:
    """Check the number of regenerations in the last day. A second grant for the same new incarnation counts as the same
    regeneration."""
    if observation.record_problem:
        yield "G8-Brake", f"the operator does not know the past regenerations: {observation.record_problem}"
    limit = observation.cluster.spec.repair.max_per_day
    recent = {
        (entry.bookie, entry.incarnation)
        for entry in observation.cluster.status.history
        if parse_time(entry.granted_at) > observation.now_ms - DAY_MS
    }
    report = candidate.case.report
    recent.discard((candidate.case.name, report.incarnation + 1 if report is not None else 0))
    if len(recent) >= limit:
        yield (
            "G8-Brake",
            f"there were {len(recent)} regenerations in 24 h and spec.repair.maxPerDay is {limit}: find out why disks"
            " vanish, then raise it",
        )
    zone, zone_limit = candidate.case.zone, observation.cluster.spec.repair.max_per_day_per_zone
    there = {one.case.name for one in fleet if one.case.zone == zone}
    in_zone = sum(bookie in there for bookie, _ in recent)
    if zone_limit is not None and in_zone >= zone_limit:
        yield (
            "G8-Brake",
            f"there were {in_zone} regenerations in 24 h in zone {zone or 'default'}, and spec.repair.maxPerDayPerZone"
            f" is {zone_limit}: find out what happens to the disks of that zone, then raise it",
        )


def _policy(observation: Observation, candidate: Assessed) -> Iterator[tuple[str, str]]:
    if observation.cluster.spec.repair.regeneration is Regeneration.GATED:
        return
    approved = observation.cluster.annotations.get(names.APPROVED_EVIDENCE, "")
    digest = candidate.evidence.digest
    if digest not in [word.strip() for word in approved.split(",")]:
        yield (
            "G9-Policy",
            f"spec.repair.regeneration is {observation.cluster.spec.repair.regeneration.value}: to approve exactly this"
            f" case, create a BookieOperation ApproveRegeneration with evidence {digest}, or annotate the BookieCluster"
            f" with {names.APPROVED_EVIDENCE}={digest}",
        )


def _old_process(candidate: Assessed) -> Iterator[tuple[str, str]]:
    """Check that no older process of this id may run: it would acknowledge entries that the new life does not have."""
    member = candidate.case.member
    if member is not None and member.is_registered:
        yield (
            "G12-OldProcess",
            f"bookie {member.bookie_id} is registered in the metadata store, and not by the pod that waits: an older"
            " process has a session there; stop it, or wait until the session has ended",
        )
    for doubt in processes.doubts(candidate.case, candidate.processes):
        yield "G12-OldProcess", doubt


def _capability(candidate: Assessed) -> Iterator[tuple[str, str]]:
    report = candidate.case.report
    wanted = (*CAPABILITIES, STALE_VOLUME) if candidate.evidence.profile == ROLLBACK else CAPABILITIES
    missing = [word for word in wanted if report is not None and word not in report.capabilities]
    if missing:
        yield "G11-Capability", f"this bookie's software does not know {', '.join(missing)}: update the image"
    if candidate.case.pod is not None and not candidate.case.pod.has_certificates:
        yield (
            "G11-Capability",
            "this pod is of a release without TLS on the admin port, and a grant never travels in clear: delete the"
            " pod; it comes back with certificates",
        )
