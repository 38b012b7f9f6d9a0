"""The roll-out: which bookie is stopped next so that its pod comes back with what the spec says, if any is.

Pure, and at most one step: the fleet as it is seen now decides, so nothing has to be remembered between bookies. The
one before was proven when every bookie but the next is in full service (spec/operator.md#Q3); a bookie that does not
come back closes that gate, and so halts the roll-out at the first one. The turn of a bookie is stored before the bookie
hears of it: two operators never begin with two bookies, and when one operator dies after the flush, the next knows
which bookie to end or to let write again.

A bookie that is down already may be replaced with closed gates (spec/operator.md#Q8): it serves nobody, so that
deleting its pod harms nobody, and no gate would ever open while the pod stays. Not so while another bookie does not
come back with that revision: a bookie that is down for a moment would be lost to it too.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bookie.ports.admin import State
from bookie_operator.evidence.facts import LOOK_AGE_MS_MAX
from bookie_operator.evidence.reasons import Conclusion
from bookie_operator.model.status import RolloutStatus, RolloutStep
from bookie_operator.model.values import format_time, parse_duration, parse_time
from bookie_operator.plan import doors, gates, revisions
from bookie_operator.plan.actions import ResumeBookie, StopBookie
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import Assessed, Stage
from bookie_operator.resources import inputs

# A kubelet or scheduler that complains for a moment is no news; so is a start that takes a while.
PATIENCE_MS = 30_000


@dataclass(frozen=True, slots=True)
class Rollout:
    """How far the roll-out is, and what to do now. `halted`: why it needs a person to go on; "" while it does not."""

    status: RolloutStatus
    waiting: tuple[str, ...] = ()  # whose turn is still to come, in order
    halted: str = ""
    action: StopBookie | ResumeBookie | None = None

    @property
    def is_going_on(self) -> bool:
        return bool(self.waiting) or self.status.step is not None


def decide(seen: Observation, fleet: tuple[Assessed, ...], unsettled: str) -> Rollout:
    """Return the roll-out's next step. `unsettled`: what has to be cleared or applied before it is known what pods
    should run; "" = nothing."""
    older = [one for one in revisions.older(seen, fleet) if revisions.is_asked_for(seen, one)]
    held = tuple(_held(seen, unsettled))
    step = _step(seen, fleet)
    asked = _asked(fleet, step)
    if asked is not None:
        assert step is not None
        return _go_on(seen, fleet, older, step, asked, held)
    down = [] if held else [one for one in older if _is_down(seen, one) and _may_be_replaced(fleet, older, step, one)]
    if down:
        return _begin(seen, fleet, older, step, down[0], _stop(seen, down[0], with_flush=False))
    ready = [one for one in older if not _is_gone(one)]
    if step is not None or not ready:
        return _told(seen, fleet, older, step, _why_step(seen, fleet, step))
    # Who takes no writes is missed least.
    candidate = min(ready, key=lambda one: one.stage is not Stage.READ_ONLY)
    if closed := (*held, *closed_gates(seen, fleet, candidate)):
        return _told(seen, fleet, older, None, "; ".join(closed), candidate)
    return _begin(seen, fleet, older, None, candidate, _stop(seen, candidate, with_flush=True, may_delete=False))


def closed_gates(seen: Observation, fleet: tuple[Assessed, ...], candidate: Assessed) -> tuple[str, ...]:
    """Return why `candidate`, which serves, must not be stopped now; () = it may be (spec/operator.md#Q1 to Q7)."""
    peers = [one for one in fleet if one.case.name != candidate.case.name]
    checks = (
        _leader(seen, candidate),
        _metadata(seen, candidate),
        _candidate(candidate),
        (why for one in peers if (why := _missed(seen, one))),
        _brake(seen),
        _soak(seen, peers),
    )
    return tuple(why for check in checks for why in check)


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
    if one.evidence.conclusion is not Conclusion.HEALTHY or one.has_loss or one.grant is not None:
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


def _held(seen: Observation, unsettled: str) -> Iterator[str]:
    """Return what keeps the operator from any step."""
    if seen.cluster.spec.lifecycle.paused:
        yield "spec.lifecycle.paused is true"
    if seen.cluster.spec.rollout.paused:
        yield "spec.rollout.paused is true"
    if seen.cluster.spec.rollout.strategy == "Manual":
        yield "spec.rollout.strategy is Manual"
    if not seen.leadership.is_held:
        yield "this operator does not hold the lease"
    if unsettled:
        yield unsettled


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


def _missed(seen: Observation, one: Assessed) -> str:
    """Return why no other bookie may be stopped beside this one; "" when one may."""
    if one.is_dataless or one.is_healing:
        return f"{one.case.name} is without its data"
    if one.case.is_desired:
        return unproven(one)
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


def _soak(seen: Observation, peers: list[Assessed]) -> Iterator[str]:
    seconds = seen.cluster.spec.rollout.soak_seconds
    for one in peers:
        since_ms = one.case.pod.ready_since_ms if one.case.pod is not None else None
        if since_ms is not None and seen.now_ms < since_ms + seconds * 1_000:
            since = format_time(since_ms)
            yield f"{one.case.name} has been ready since {since}, and spec.rollout.soakSeconds is {seconds}"


def _is_gone(one: Assessed) -> bool:
    return one.case.pod is None or one.case.pod.is_terminating


def _is_down(seen: Observation, one: Assessed) -> bool:
    """Return True when the bookie's pod serves nobody and blocks no step: it does not run, or has got nowhere near its
    volumes, for longer than a restart takes."""
    pod, report = one.case.pod, one.case.report
    if pod is None or pod.is_terminating or pod.is_ready:
        return False
    since_ms = max(pod.created_ms, one.away_since_ms or 0)
    if seen.now_ms - since_ms < PATIENCE_MS:
        return False
    if one.stage in (Stage.MISSING, Stage.PROVISIONING):
        return not pod.is_bookie_running  # what the kubelet complains of may be another container
    is_starting = report is not None and report.state is State.STARTING and not report.data_port_open
    return one.stage in (Stage.INSPECTING, Stage.BOOTSTRAPPING) and is_starting


def _may_be_replaced(
    fleet: tuple[Assessed, ...], older: list[Assessed], step: RolloutStep | None, one: Assessed
) -> bool:
    """Return True when `one`, which is down, may get the newest revision with closed gates: nobody knows anything bad
    of that revision, or it is the turn of `one` anyway, so that no second bookie is lost to it."""
    if step is not None:
        return step.bookie == one.case.name
    newest = [peer for peer in fleet if peer.case.is_desired and peer.case.pod is not None and peer not in older]
    return all(_is_well(peer) for peer in newest)


def _is_well(one: Assessed) -> bool:
    """Return True when its revision is no reason why the bookie is not in service: it may wait for data that the one
    that is down has."""
    waits_for_data = one.is_dataless or one.is_healing or one.stage is Stage.LIMBO
    return not unproven(one) or (one.case.report is not None and waits_for_data)


def _step(seen: Observation, fleet: tuple[Assessed, ...]) -> RolloutStep | None:
    """Return the stored turn; None when there is none, or when it ended with its bookie back in service."""
    before = seen.cluster.status.rollout
    step = before.step if before is not None else None
    one = next((one for one in fleet if step is not None and one.case.name == step.bookie), None)
    if step is None or one is None:
        return None
    is_replaced = one.case.pod is not None and one.case.pod.uid != step.pod_uid
    return None if is_replaced and not unproven(one, may_be_read_only=not step.was_writable) else step


def _asked(fleet: tuple[Assessed, ...], step: RolloutStep | None) -> Assessed | None:
    """Return the bookie that was asked to stop, or would have been, and whose pod is still there."""
    for one in fleet:
        pod = one.case.pod
        if step is not None and pod is not None and pod.uid == step.pod_uid and not pod.is_terminating:
            return one
    return None


def _go_on(
    seen: Observation,
    fleet: tuple[Assessed, ...],
    older: list[Assessed],
    step: RolloutStep,
    asked: Assessed,
    held: tuple[str, ...],
) -> Rollout:
    """Finish the stored turn; or take it back, when a gate has closed since or the pod is as wanted again."""
    hindrance = seen.hindrances.get(step.pod_uid, "")
    if not held and asked in older and _is_down(seen, asked):
        return _told(seen, fleet, older, step, hindrance, asked, _stop(seen, asked, with_flush=False))
    closed = (*held, *closed_gates(seen, fleet, asked))
    if asked not in older:
        closed = (*closed, f"{asked.case.name} runs what the spec says again")
    refuses = _refuses_writes(asked, step)
    if not closed:
        # CRASH: what this pass saw is younger than the first flush; a gate that closed meanwhile is seen closed.
        stop = _stop(seen, asked, with_flush=True, may_delete=bool(refuses))
        return _told(seen, fleet, older, step, hindrance, asked, stop)
    if step.was_writable and refuses:
        assert asked.case.pod is not None
        resume = ResumeBookie(asked.case.name, doors.of(seen.cluster, asked.case.pod))
        why = "; ".join((hindrance, *closed) if hindrance else closed)
        return _told(seen, fleet, older, step, why, asked, resume)
    # A turn that is forgotten while its bookie refuses writes would leave it read-only for ever.
    is_over = not step.was_writable or refuses is False
    return _told(seen, fleet, older, None if is_over else step, "; ".join(closed), asked)


def _refuses_writes(asked: Assessed, step: RolloutStep) -> bool | None:
    """Return whether the bookie whose turn it is refuses writes, by a report of that very pod; None without one."""
    report = asked.case.report
    if report is None or report.pod_uid != step.pod_uid:
        return None
    return report.read_only or report.state is State.READ_ONLY


def _stop(seen: Observation, one: Assessed, *, with_flush: bool, may_delete: bool = True) -> StopBookie:
    pod = one.case.pod
    assert pod is not None
    door = doors.of(seen.cluster, pod) if with_flush else None
    return StopBookie(one.case.name, pod.uid, pod.resource_version, door, may_delete)


def _begin(
    seen: Observation,
    fleet: tuple[Assessed, ...],
    older: list[Assessed],
    before: RolloutStep | None,
    one: Assessed,
    stop: StopBookie,
) -> Rollout:
    """Give `one` its turn. `before`: its turn with another pod, which did not come into service."""
    step = RolloutStep(
        bookie=one.case.name,
        pod_uid=stop.pod_uid,
        begun_at=format_time(seen.now_ms),
        was_writable=before.was_writable if before is not None else one.stage is Stage.SERVING,
    )
    return _told(seen, fleet, older, step, "", one, stop)


def _why_step(seen: Observation, fleet: tuple[Assessed, ...], step: RolloutStep | None) -> str:
    for one in fleet:
        if step is not None and one.case.name == step.bookie:
            return unproven(one) or "; ".join(_soak(seen, [one]))
    return ""


def _told(
    seen: Observation,
    fleet: tuple[Assessed, ...],
    older: list[Assessed],
    step: RolloutStep | None,
    why: str,
    candidate: Assessed | None = None,
    action: StopBookie | ResumeBookie | None = None,
) -> Rollout:
    desired = [one for one in fleet if one.case.is_desired]
    behind = {one.case.name for one in older}
    is_manual = seen.cluster.spec.rollout.strategy == "Manual"
    turns = [one.case.name for one in older if not is_manual]
    waiting = tuple(name for name in turns if step is None or name != step.bookie)
    if candidate is not None and candidate.case.name in waiting:
        waiting = (candidate.case.name, *(name for name in waiting if name != candidate.case.name))
    halted = _halted(seen, fleet, older, step)
    return Rollout(
        RolloutStatus(
            inputs=inputs.digest(seen.cluster.spec, None),
            desired=len(desired),
            updated=sum(one.case.pod is not None and one.case.name not in behind for one in desired),
            next=waiting[0] if waiting else None,
            waiting_for=((halted or why)[:512] or None) if waiting or step is not None else None,
            step=step,
        ),
        waiting,
        halted,
        action,
    )


def _halted(seen: Observation, fleet: tuple[Assessed, ...], older: list[Assessed], step: RolloutStep | None) -> str:
    """Return which bookie does not come back with what the spec says, and the reason as the bookie or Kubernetes gives
    it; "" while all is well."""
    limit_ms = seen.cluster.spec.rollout.max_seconds_per_bookie * 1_000
    for one in fleet:
        pod, is_turn = one.case.pod, step is not None and step.bookie == one.case.name
        if not one.case.is_desired or (one in older and not is_turn) or not (is_turn or older):
            continue
        why = unproven(one, may_be_read_only=is_turn)
        if not why and not (is_turn and one in older):
            continue
        began_ms = parse_time(step.begun_at) if is_turn and step is not None else one.away_since_ms
        is_late = began_ms is not None and seen.now_ms - began_ms >= limit_ms
        is_broken = pod is not None and bool(pod.problem) and seen.now_ms - pod.created_ms >= PATIENCE_MS
        if is_late or (is_broken and one not in older):
            hindrance = seen.hindrances.get(step.pod_uid, "") if step is not None else ""
            told = why or hindrance or f"{one.case.name} was asked to flush, and has not proven it"
            rest = f"; {len(older)} bookies are left as they were" if older else ""
            return f"{told}{rest}: correct the spec, or set it back"
    return ""
