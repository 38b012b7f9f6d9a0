"""Whether the fleet can do without a bookie that is to be stopped: the gates before every stop that is wanted, whoever
wants it (spec/operator.md#Q1 to Q7, Q9, Q20).

Pure. A closed gate is one sentence; a person sees all of them.
"""

from collections.abc import Iterator

from bookie_operator.evidence.facts import LOOK_AGE_MS_MAX
from bookie_operator.evidence.reasons import Conclusion
from bookie_operator.model.values import format_time, parse_duration, parse_time
from bookie_operator.plan import ephemeral, filling, gates, leaving, marks, pace, turns
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import Assessed, Stage
from bookie_operator.plan.turns import Work


def closed(
    seen: Observation,
    fleet: tuple[Assessed, ...],
    candidate: Assessed,
    asks: Work = Work.ROLLOUT,
    *,
    is_kept_out: bool = False,
) -> tuple[str, ...]:
    """Return why `asks` must not stop `candidate`, which serves; () = it may (spec/operator.md#Y1, Y5, Q1 to Q7, Q9,
    Q20, J9). `is_kept_out`: a person wants it out of service, and does not wait for turns that came to nothing."""
    peers = [one for one in fleet if one.case.name != candidate.case.name]
    checks = (
        _leader(seen, candidate),
        _metadata(seen, candidate),
        (why for why in (turns.in_the_way(seen, fleet, asks, candidate.case.name), gates.collapsed(fleet)) if why),
        (why for why in ("" if is_kept_out else turns.rest(seen, fleet, asks),) if why),
        (why for why in (leaving.in_the_way_of_others(seen, fleet, candidate),) if why),
        _candidate(candidate),
        (why for one in peers if (why := why_not_beside(seen, one))),
        (why for one in peers if (why := filling.lacks(one))),
        (why for why in (marks.why_not(seen, candidate),) if why),
        _brake(seen),
        pace.soak(seen, peers),
    )
    return tuple(why for check in checks for why in check)


def missed_beside(seen: Observation, fleet: tuple[Assessed, ...], candidate: Assessed) -> Iterator[str]:
    """Yield why the fleet cannot do without `candidate`, which serves nobody, for longer than now."""
    if why := gates.collapsed(fleet):
        yield why
    if seen.members_problem:
        yield f"no bookie listed cookies and registrations: {seen.members_problem}"
    if why := leaving.in_the_way_of_others(seen, fleet, candidate):
        yield why
    yield from (why for one in fleet if one.case.name != candidate.case.name and (why := why_not_beside(seen, one)))


def unproven(one: Assessed, *, may_be_read_only: bool = False) -> str:
    """Return why this bookie does not count as in full service with all its data; "" when it does."""
    case, report = one.case, one.case.report
    if one.stage is not Stage.SERVING and not (may_be_read_only and one.stage is Stage.READ_ONLY):
        return f"{case.name} is {one.stage.value} ({one.message or one.reason})"
    assert case.pod is not None
    assert report is not None
    if case.pod.is_terminating:
        return f"pod {case.name} is being deleted"
    if not case.pod.is_ready or case.pod.ready_since_ms is None:
        return f"the kubelet does not call {case.name} ready"
    if one.evidence.conclusion is not Conclusion.HEALTHY or one.has_loss:
        return (
            f"the storage of {case.name} is not proven: {one.evidence.finding.message or one.evidence.finding.reason}"
        )
    if report.inspection_age_ms > LOOK_AGE_MS_MAX:
        return f"nobody has looked at the volumes of {case.name} lately"
    if report.directories_failed:
        return f"{case.name} cannot write to {', '.join(report.directories_failed)}"
    if report.quarantined_count:
        return f"{case.name} cannot judge {report.quarantined_count} of its ledgers"
    is_registered = case.member is not None and case.member.is_registered
    if not is_registered or not (may_be_read_only or (case.member is not None and case.member.is_writable)):
        return f"{case.name} is not registered as writable in the metadata store"
    return ""


def _leader(seen: Observation, candidate: Assessed) -> Iterator[str]:
    report = candidate.case.report
    if report is not None and report.operator_epoch_seen > seen.leadership.epoch:
        yield f"{candidate.case.name} has seen a newer operator (epoch {report.operator_epoch_seen})"


def _metadata(seen: Observation, candidate: Assessed) -> Iterator[str]:
    report, expected = candidate.case.report, seen.cluster.status.instance_id
    if report is None or not report.metadata_reachable:
        yield f"{candidate.case.name} cannot reach the metadata store"
    elif seen.members_problem:
        yield f"no bookie listed cookies and registrations: {seen.members_problem}"
    elif expected is not None and report.instance_id != expected:
        yield f"{candidate.case.name} is in metadata store {report.instance_id or '?'}, expected {expected}"


def _candidate(candidate: Assessed) -> Iterator[str]:
    if why := unproven(candidate, may_be_read_only=True):
        yield why
    elif candidate.case.pod is not None and not candidate.case.pod.has_certificates:
        yield f"pod {candidate.case.name} is of a release without TLS on the admin port: delete it by hand"
    yield from kept_by_its_volumes(candidate)


def kept_by_its_volumes(candidate: Assessed) -> Iterator[str]:
    """Yield why this pod must not end, whatever becomes of the rest of the fleet: what its bookie has would go with
    it."""
    if why := candidate.case.loses_with_its_pod:
        yield f"{why}: to have it replaced, create a BookieOperation ReplaceVolume"
    if why := ephemeral.holds_data(candidate):
        yield f"{why}: to have that done now, create a BookieOperation Replace"


def why_not_beside(seen: Observation, one: Assessed) -> str:
    """Return why no other bookie may be stopped beside this one; "" when one may."""
    if one.is_dataless:
        return f"{one.case.name} is without its data"
    if one.has_lived and (why := one.case.goes):
        return why
    if one.case.is_desired:
        return unproven(one, may_be_read_only=one.leaving is not None)
    if not one.is_unavailable:
        is_there = one.stage.serves or one.stage is Stage.ELSEWHERE
        is_writable = one.case.member is not None and one.case.member.is_writable
        return f"{one.case.name}, which the spec does not name, takes no writes" if is_there and not is_writable else ""
    # Of another fleet, or one that nobody asks for any more: waited for as a grant would.
    grace = seen.cluster.spec.repair.peer_grace
    end_ms = (one.away_since_ms or seen.now_ms) + parse_duration(grace)
    is_awaited = seen.now_ms < end_ms
    return (
        f"{one.case.name} may hold the only other copy of an entry; until {format_time(end_ms)}" if is_awaited else ""
    )


def _brake(seen: Observation) -> Iterator[str]:
    if seen.record_problem:
        yield f"the operator does not know the past regenerations: {seen.record_problem}"
    began_ms = [parse_time(entry.granted_at) for entry in seen.cluster.status.history]
    recent = sum(began > seen.now_ms - gates.DAY_MS for began in began_ms)
    limit = seen.cluster.spec.repair.max_per_day
    if recent and recent >= limit:
        yield f"there were {recent} regenerations in 24 h, and spec.repair.maxPerDay is {limit}"
