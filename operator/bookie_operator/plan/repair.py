"""Grants: issued for confirmed bookies whose gates are all open, repeated until the bookie moves (spec/operator.md#K6).

The record goes into status first (write-ahead); the bookie hears of it only after the API server has it. Everything
about a grant is made from the observation, so that a pass that is repeated after a crash makes the same one or finds
the stored one.
"""

from dataclasses import replace

from bookie_operator.model.status import Approval, ClosedGate, GrantRecord
from bookie_operator.model.values import format_time, parse_time
from bookie_operator.plan import approvals, doors, gates
from bookie_operator.plan.actions import SendGrant
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import Assessed, Stage
from bookie_operator.resources import common

GRANT_TTL_MS = 5 * 60_000  # spec/operator.md#K9


def decide(
    observation: Observation, fleet: tuple[Assessed, ...]
) -> tuple[tuple[Assessed, ...], dict[str, tuple[ClosedGate, ...]], tuple[SendGrant, ...]]:
    """Return (the fleet with its new grants, the closed gates by bookie, the grants to send once they are stored)."""
    closed: dict[str, tuple[ClosedGate, ...]] = {}
    sends: list[SendGrant] = []
    for candidate in _candidates(fleet):
        accepted, approved = approvals.accepted(observation, fleet), approvals.approved(observation, candidate)
        closed[candidate.case.name] = gates.closed(observation, fleet, candidate, accepted=accepted, approved=approved)
        if closed[candidate.case.name]:
            continue
        grant = candidate.grant or _issue(observation, candidate, accepted or approved)
        if grant.epoch != observation.leadership.epoch:
            # Taken over from an operator that died: same grant, our epoch. Stored again before it is sent again.
            grant = grant.model_copy(
                update={"epoch": observation.leadership.epoch, "issued_by": observation.leadership.identity}
            )
        if grant.approval is None and (accepted or approved) is not None:
            grant = grant.model_copy(update={"approval": accepted or approved})
        granted = replace(candidate, grant=grant, stage=Stage.GRANTED)
        fleet = tuple(granted if one is candidate else one for one in fleet)
        sends.append(_send(observation, granted, grant))
    return fleet, closed, tuple(sends)


def _candidates(fleet: tuple[Assessed, ...]) -> list[Assessed]:
    """Return the bookies that wait for a grant: first those that have one, then the longest suspected."""
    waiting = [one for one in fleet if one.stage in (Stage.CONFIRMED, Stage.GRANTED) and one.suspicion is not None]
    return sorted(
        waiting,
        key=lambda one: (one.grant is None, one.suspicion.since_ms if one.suspicion else 0, one.case.name),
    )


def _issue(observation: Observation, candidate: Assessed, approval: Approval | None) -> GrantRecord:
    case, evidence = candidate.case, candidate.evidence
    assert case.pod is not None
    assert case.report is not None
    issued_at = format_time(observation.now_ms)
    identity = (observation.cluster.uid, case.bookie_id, case.pod.uid, evidence.digest, issued_at)
    return GrantRecord(
        id=common.digest(identity),
        bookie_id=case.bookie_id,
        pod_uid=case.pod.uid,
        evidence=evidence.digest,
        report_evidence=case.report.evidence_hash,
        cookie_version=case.report.cookie_version,
        new_incarnation=case.report.incarnation + 1,
        profile=evidence.profile,
        epoch=observation.leadership.epoch,
        issued_at=issued_at,
        expires_at=format_time(observation.now_ms + GRANT_TTL_MS),
        issued_by=observation.leadership.identity,
        approval=approval,
    )


def _send(observation: Observation, candidate: Assessed, grant: GrantRecord) -> SendGrant:
    assert candidate.case.pod is not None
    # Never longer than a new one, though it was dated by a clock that was ahead (spec/operator.md#K9).
    ttl_ms = min(parse_time(grant.expires_at) - observation.now_ms, GRANT_TTL_MS)
    return SendGrant(candidate.case.name, doors.of(observation.cluster, candidate.case.pod), grant, ttl_ms)
