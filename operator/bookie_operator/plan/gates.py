"""Gates between "this bookie is empty" and "it may take its identity back" (operators.md 3.5).

A closed gate is a name and one sentence. All closed gates are shown, not the first: the person on call sees the whole.
Here: G1 Leader, G2 Metadata (instance id), G3 Identity, G4 Tolerance, G5 Peers, G6 OldVolume, G7 Concurrency,
G8 Brake (per day), G9 Policy, G11 Capability, and Paused. G2's collapse detector, G8's zone rule and G10 come with the
operations that need them.
"""

from collections.abc import Iterator

from bookie_operator.evidence.volume import Verdict
from bookie_operator.model import names
from bookie_operator.model.spec import Regeneration
from bookie_operator.model.status import ClosedGate
from bookie_operator.model.values import parse_duration, parse_time
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import OBSERVATIONS_NEEDED, Assessed

DAY_MS = 24 * 3_600_000
# What a bookie must be able to do before it is let loose on its ledgers (gate G11).
CAPABILITIES = ("regeneration", "limbo")


def closed(observation: Observation, fleet: tuple[Assessed, ...], candidate: Assessed) -> tuple[ClosedGate, ...]:
    """Every gate that is closed for `candidate`, in the order of their numbers; () = it may be granted."""
    checks = (
        _paused(observation),
        _leader(observation, candidate),
        _metadata(observation, candidate),
        _identity(candidate),
        _tolerance(observation, fleet),
        _peers(observation, fleet),
        _old_volume(observation, candidate),
        _concurrency(observation, fleet, candidate),
        _brake(observation, candidate),
        _policy(observation, candidate),
        _capability(candidate),
    )
    return tuple(ClosedGate(name=name, message=message) for check in checks for name, message in check)


def _paused(observation: Observation) -> Iterator[tuple[str, str]]:
    if observation.cluster.spec.lifecycle.paused:
        yield "Paused", "spec.lifecycle.paused is true: set it to false"


def _leader(observation: Observation, candidate: Assessed) -> Iterator[tuple[str, str]]:
    leadership, report = observation.leadership, candidate.case.report
    if not leadership.is_held:
        yield "G1-Leader", "this operator does not hold the lease"
    elif report is not None and report.operator_epoch_seen > leadership.epoch:
        yield (
            "G1-Leader",
            f"the bookie has seen operator epoch {report.operator_epoch_seen}, ours is {leadership.epoch}: another"
            " operator is newer",
        )


def _metadata(observation: Observation, candidate: Assessed) -> Iterator[tuple[str, str]]:
    cluster, report = observation.cluster, candidate.case.report
    if report is None or not report.metadata_reachable:
        yield "G2-Metadata", "the bookie cannot reach the metadata store"
        return
    expected = cluster.spec.metadata_service.expected_instance_id or cluster.status.instance_id
    if expected and report.instance_id != expected:
        yield "G2-Metadata", f"the metadata store is instance {report.instance_id or '?'}, expected {expected}"


def _identity(candidate: Assessed) -> Iterator[tuple[str, str]]:
    """Proven: repairable verdict of every lost volume, mounts included, of exactly this pod, seen long enough."""
    if candidate.evidence.verdict is not Verdict.LOST_VOLUME:
        yield "G3-Identity", f"not proven lost: {candidate.evidence.finding.message}"
        return
    seen = candidate.suspicion
    if seen is None or seen.evidence != candidate.evidence.digest or seen.observations < OBSERVATIONS_NEEDED:
        yield "G3-Identity", "the evidence was not seen often enough yet"


def _tolerance(observation: Observation, fleet: tuple[Assessed, ...]) -> Iterator[tuple[str, str]]:
    tolerance = observation.cluster.spec.tolerance
    dataless = [one.case.name for one in fleet if one.is_dataless]
    if len(dataless) > tolerance:
        yield (
            "G4-Tolerance",
            f"{len(dataless)} bookies without data ({', '.join(dataless)}), the ack quorum survives {tolerance}: bring"
            " old disks back first; only a person may go on",
        )


def _peers(observation: Observation, fleet: tuple[Assessed, ...]) -> Iterator[tuple[str, str]]:
    """Others that are down may hold the only other copy: wait for them, for a while."""
    tolerance = observation.cluster.spec.tolerance
    dataless = sum(one.is_dataless for one in fleet)
    away = [one for one in fleet if one.is_unavailable]
    if not away or dataless + len(away) <= tolerance:
        return
    since_ms = min(one.since_ms if one.since_ms is not None else observation.now_ms for one in away)
    grace = observation.cluster.spec.repair.peer_grace
    if observation.now_ms < since_ms + parse_duration(grace):
        yield (
            "G5-Peers",
            f"{', '.join(one.case.name for one in away)} not serving: waiting up to {grace} for its copies",
        )


def _old_volume(observation: Observation, candidate: Assessed) -> Iterator[tuple[str, str]]:
    """A released volume that is kept (reclaim policy Retain) still has the data: re-attaching beats copying."""
    for volume in candidate.case.volumes:
        if volume.recorded is None or not volume.is_replaced:
            continue
        old = observation.old_volumes.get(volume.recorded.pv_name)
        if old is None or old.uid != volume.recorded.pv_uid or old.reclaim_policy != "Retain":
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


def _concurrency(
    observation: Observation, fleet: tuple[Assessed, ...], candidate: Assessed
) -> Iterator[tuple[str, str]]:
    healing = [one.case.name for one in fleet if one.is_healing and one.case.name != candidate.case.name]
    limit = observation.cluster.spec.repair.max_concurrent
    if len(healing) >= limit:
        yield "G7-Concurrency", f"{', '.join(healing)} heals now, and spec.repair.maxConcurrent is {limit}"


def _brake(observation: Observation, candidate: Assessed) -> Iterator[tuple[str, str]]:
    """Regenerations of the last day. A second grant for the same new incarnation is the same regeneration."""
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
            f"{len(recent)} regenerations in 24 h and spec.repair.maxPerDay is {limit}: find out why disks vanish, then"
            " raise it",
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
            f" case, annotate the BookieCluster with {names.APPROVED_EVIDENCE}={digest}",
        )


def _capability(candidate: Assessed) -> Iterator[tuple[str, str]]:
    report = candidate.case.report
    missing = [word for word in CAPABILITIES if report is not None and word not in report.capabilities]
    if missing:
        yield "G11-Capability", f"this bookie's software does not know {', '.join(missing)}: update the image"
