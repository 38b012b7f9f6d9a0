"""The roll-out: which bookie is stopped next so that its pod comes back with what the spec says, if any is.

Pure, and at most one step: the fleet as it is seen now decides, so nothing has to be remembered between bookies. The
one before was proven when every bookie but the next is in full service (spec/operator.md#Q3); a bookie that does not
come back closes that gate, and so halts the roll-out at the first one. The turn of a bookie is stored before the bookie
hears of it: two operators never begin with two bookies, and when one operator dies after the flush, the next knows
which bookie to end or to let write again.

A bookie that is down already may be replaced with closed gates (spec/operator.md#Q8): it serves nobody, so that
deleting its pod harms nobody, and no gate would ever open while the pod stays. Not so while another bookie does not
come back with that revision: a bookie that is down for a moment would be lost to it too. One that runs that revision
already cannot be: a person's Restart gives it another pod of the same, however many are down.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from bookie.ports.admin import State
from bookie_operator.model.status import CHANGED_CHARS_MAX, CHANGED_MAX, RolloutStatus, RolloutStep
from bookie_operator.model.values import format_time, parse_time
from bookie_operator.plan import (
    adding,
    doors,
    ephemeral,
    filling,
    formats,
    leaving,
    pace,
    revisions,
    staggering,
    stop_gates,
    turns,
    windows,
)
from bookie_operator.plan.actions import ResumeBookie, StopBookie
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import Assessed, Stage
from bookie_operator.plan.turns import Work
from bookie_operator.resources import inputs

# A kubelet or scheduler that complains for a moment is no news; so is a start that takes a while.
PATIENCE_MS = 30_000
# A deletion that was refused is not tried again before; the bookie takes writes meanwhile.
REFUSED_MS = 60_000
_KNOWS_TURNS = "turn"  # a capability of bookies: the turn to be stopped is a mode of its own, which ends by itself


@dataclass(frozen=True, slots=True)
class Rollout:
    """How far the roll-out is, and what to do now. `halted`: why it needs a person to go on; "" while it does not."""

    status: RolloutStatus
    waiting: tuple[str, ...] = ()  # whose turn is still to come, in order
    halted: str = ""
    halted_by: str = ""  # the bookie that does not come back, or cannot flush
    reason: str = "RolloutHalted"  # of Stalled, while it is halted
    action: StopBookie | ResumeBookie | None = None
    why: str = ""  # why nothing more is done now
    formats: str = ""  # which bookie cannot get its next program, or not come back from it (plan/formats.py)
    restart_waits_for: str = ""  # why the bookie that an operation wants stopped has not got its turn

    @property
    def is_going_on(self) -> bool:
        return bool(self.waiting) or self.status.step is not None

    @property
    def stopped(self) -> str:
        """Return the bookie that this pass takes away although it could serve; "" = none."""
        return self.action.bookie if isinstance(self.action, StopBookie) and self.action.door is not None else ""


def decide(
    seen: Observation,
    fleet: tuple[Assessed, ...],
    unsettled: str,
    restart: str = "",
    to_start: Collection[str] = (),
    as_judged: Assessed | None = None,
    *,
    is_kept_out: bool = False,
) -> Rollout:
    """Return the roll-out's next step. `unsettled`: what has to be cleared or applied before it is known what pods
    should run; "" = nothing. `restart`: the bookie that an operation wants stopped, whatever its revision is; its turn
    comes before all others, also where a person ends the pods himself (strategy Manual). `to_start`: bookies whose pods
    are to start anew whatever they run, each in its turn. `as_judged`: how the gates see the bookie of `restart`, where
    not as it is. `is_kept_out`: that one is not to come back into service, whatever its program reads."""
    step = _step(seen, fleet)
    named = [one for one in fleet if one.case.name == restart]
    if named and not any(_held(seen, unsettled, is_named=True)) and _takes_over(seen, fleet, step, named[0]):
        return _begin(seen, fleet, None, named[0], _stop(seen, named[0], with_flush=False))
    why = f"the turn of {step.bookie} ends first" if step is not None else ""
    if named and (step is None or step.bookie == restart):
        named = [as_judged] if as_judged is not None and as_judged.case.name == restart else named
        judged = tuple(named[0] if one.case.name == restart else one for one in fleet)
        first = _decide(seen, judged, named, step, is_named=True, unsettled=unsettled, is_kept_out=is_kept_out)
        if first.status.step is not None:
            return first
        why = first.why  # and meanwhile the others go on: what the named bookie waits for may be one of them
    older = [one for one in pace.behind(seen, fleet) if not revisions.waits_for_volumes(seen, one.case)]
    older += [one for one in fleet if one.case.name in to_start and one not in older and one.case.pod is not None]
    rest = _decide(seen, fleet, older, step, is_named=False, unsettled=unsettled)
    return replace(rest, restart_waits_for=why if named else "")


def _decide(
    seen: Observation,
    fleet: tuple[Assessed, ...],
    older: list[Assessed],
    step: RolloutStep | None,
    *,
    is_named: bool,
    unsettled: str,
    is_kept_out: bool = False,
) -> Rollout:
    """Return the next step towards other pods for `older`. `is_named`: a person asked for this very bookie.
    `is_kept_out`: and it is not to come back into service."""
    held = tuple(_held(seen, unsettled, is_named=is_named))
    asked = _asked(fleet, step)
    if asked is not None:
        assert step is not None
        unfit = () if is_kept_out else tuple(formats.closed(seen, fleet, asked))
        return _go_on(seen, fleet, older, step, asked, held, unfit)
    down = (
        [] if held else [one for one in older if is_down(seen, one) and _may_be_replaced(seen, fleet, older, step, one)]
    )
    if down:
        before = step if step is not None and step.bookie == down[0].case.name else None
        return _begin(seen, fleet, before, down[0], _stop(seen, down[0], with_flush=False))
    ready = [one for one in older if not _is_gone(one)]
    if not is_named:
        ready = [one for one in ready if not ephemeral.holds_data(one)]  # they are begun anew (plan/ephemeral.py)
    if step is not None or not ready:
        return _told(seen, fleet, step, _why_step(seen, fleet, step) or adding.why_later(seen))
    judged = [(one, () if is_kept_out else tuple(formats.closed(seen, fleet, one))) for one in ready]
    # Who takes no writes is missed least; who cannot have what the spec says comes last, and keeps nobody from it.
    candidate, unfit = min(judged, key=lambda each: (bool(each[1]), each[0].stage is not Stage.READ_ONLY))
    gates_closed = stop_gates.closed(seen, fleet, candidate, is_kept_out=is_kept_out)
    if closed := (*held, *unfit, *gates_closed, *pace.canary(seen, fleet, candidate)):
        told = _told(seen, fleet, None, "; ".join(closed), candidate)
        # No time opens that gate.
        return replace(told, halted=told.halted or ("" if held else "; ".join(unfit)))
    if not is_named and (window := windows.of(seen)).closed:
        told = _told(seen, fleet, None, window.closed, candidate)
        return replace(told, status=told.status.model_copy(update={"window_opens_at": window.opens_at}))
    if not is_named and (why := staggering.closed(seen)):
        told = _told(seen, fleet, None, why, candidate)
        return replace(told, status=told.status.model_copy(update={"asks_for_turn": True}))
    return _begin(seen, fleet, None, candidate, _stop(seen, candidate, with_flush=True, may_delete=False))


def _held(seen: Observation, unsettled: str, *, is_named: bool) -> Iterator[str]:
    """Return what keeps the operator from any step. `is_named`: a person asked for this very bookie."""
    if seen.cluster.spec.lifecycle.paused:
        yield "spec.lifecycle.paused is true"
    if seen.cluster.spec.rollout.paused:
        yield "spec.rollout.paused is true"
    if seen.cluster.spec.rollout.strategy == "Manual" and not is_named:
        yield "spec.rollout.strategy is Manual"
    if not seen.leadership.is_held:
        yield "this operator does not hold the lease"
    if unsettled:
        yield unsettled


def _is_gone(one: Assessed) -> bool:
    return one.case.pod is None or one.case.pod.is_terminating


def is_down(seen: Observation, one: Assessed) -> bool:
    """Return True when the bookie's pod serves nobody and blocks no step: it does not run, or has got nowhere near its
    volumes, for longer than a restart takes."""
    pod, report = one.case.pod, one.case.report
    if pod is None or pod.is_terminating or pod.is_ready:
        return False
    since_ms = max(pod.created_ms, one.away_since_ms or 0)
    if seen.now_ms - since_ms < PATIENCE_MS:
        return False
    if one.case.lacks and one.stage is Stage.HELD:
        return True
    if one.stage in (Stage.MISSING, Stage.PROVISIONING):
        return not pod.is_bookie_running  # what the kubelet complains of may be another container
    is_starting = report is not None and report.state is State.STARTING and not report.data_port_open
    return one.stage in (Stage.INSPECTING, Stage.BOOTSTRAPPING) and is_starting


def _may_be_replaced(
    seen: Observation, fleet: tuple[Assessed, ...], older: list[Assessed], step: RolloutStep | None, one: Assessed
) -> bool:
    """Return True when `one`, which is down, may get the newest revision with closed gates: nobody knows anything bad
    of that revision, or it is the turn of `one` anyway, so that no second bookie is lost to it. Whoever leaves waits
    for the end of that turn, and for a bookie without its data: neither may wait for the one that leaves. Never one
    that has its data only for as long as its pod is there (spec/operator.md#Q19), nor one that would not start with it
    (#Q21)."""
    if formats.there(seen, fleet, one):
        return False
    if one.case.loses_with_its_pod or ephemeral.may_hold_data(seen, one):
        return False
    if one.case.lacks or (step is not None and step.bookie == one.case.name):
        return True  # of the first, nothing but another pod brings it back, whoever else is away
    if step is not None and not _only_lacks_data(fleet, older, step):
        return False
    taken = turns.is_any(seen, fleet, but=Work.ROLLOUT)
    if not one.is_dataless and (taken or leaving.in_the_way_of_others(seen, fleet, one)):
        return False
    if revisions.is_newest(seen, one.case):
        return True  # a person asked for another pod of the same: nothing that another one did not survive reaches it
    newest = [peer for peer in fleet if peer.case.is_desired and peer.case.pod is not None and peer not in older]
    return all(_is_well(peer) for peer in newest)


def _takes_over(seen: Observation, fleet: tuple[Assessed, ...], step: RolloutStep | None, one: Assessed) -> bool:
    """Return True when `one`, which a person wants stopped, is down, and the turn is that of another bookie that was
    replaced, has nothing to take and has not come back: nothing of that turn is left to be done, and it may never end.
    One that has yet to get a correction of the spec gets it first, in its own turn."""
    before = next((peer for peer in fleet if step is not None and peer.case.name == step.bookie), None)
    if step is None or before is None or before.case.name == one.case.name or _is_gone(before):
        return False
    if before.case.pod is None or before.case.pod.uid == step.pod_uid:
        return False
    if before in pace.behind(seen, fleet):
        return False
    return (
        revisions.is_newest(seen, one.case) and is_down(seen, one) and _may_be_replaced(seen, fleet, [one], None, one)
    )


def _only_lacks_data(fleet: tuple[Assessed, ...], older: list[Assessed], step: RolloutStep) -> bool:
    """Return True when the bookie of this turn runs what the spec says and waits for nothing but data that it lost:
    its turn is done, and what it waits for may be the very bookie that is down."""
    one = next(one for one in fleet if one.case.name == step.bookie)
    is_replaced = one.case.pod is not None and one.case.pod.uid != step.pod_uid
    return is_replaced and not _is_gone(one) and one not in older and waits_for_data(one)


def _is_well(one: Assessed) -> bool:
    """Return True when its revision is no reason why the bookie is not in service: it may wait for data that the one
    that is down has."""
    return not stop_gates.unproven(one) or (one.case.report is not None and waits_for_data(one))


def waits_for_data(one: Assessed) -> bool:
    """Return True for a bookie whose data was lost, or is being repaired: no spec brings it back."""
    return one.is_dataless or one.stage is Stage.LIMBO


def _step(seen: Observation, fleet: tuple[Assessed, ...]) -> RolloutStep | None:
    """Return the stored turn; None when there is none, or when it ended with its bookie back in service."""
    before = seen.cluster.status.rollout
    step = before.step if before is not None else None
    one = next((one for one in fleet if step is not None and one.case.name == step.bookie), None)
    if step is None or one is None:
        return None
    is_replaced = one.case.pod is not None and one.case.pod.uid != step.pod_uid
    if is_replaced and one.is_set_aside:
        return None  # it was stopped in order to stay out of service
    return None if is_replaced and not stop_gates.unproven(one, may_be_read_only=not step.was_writable) else step


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
    unfit: tuple[str, ...],
) -> Rollout:
    """Finish the stored turn; or take it back, when a gate has closed since or the pod is as wanted again. `unfit`: why
    `asked` would not come back, or could not go back from there."""
    refused = seen.hindrances.get(step.pod_uid)
    hindrance = refused.text if refused is not None else ""
    may_try = refused is None or not refused.reason or seen.now_ms - refused.told_ms >= REFUSED_MS
    is_kept = bool(asked.case.loses_with_its_pod or ephemeral.may_hold_data(seen, asked))
    is_kept = is_kept or bool(formats.there(seen, fleet, asked))
    if not held and asked in older and is_down(seen, asked) and may_try and not is_kept:
        return _told(seen, fleet, step, hindrance, asked, _stop(seen, asked, with_flush=False))
    closed = (*held, *unfit, *stop_gates.closed(seen, fleet, asked))
    if asked not in older:
        closed = (*closed, f"{asked.case.name} runs what the spec says again")
    if not closed and step.given_back_for and has_own_mode(asked):
        closed = (step.given_back_for,)  # what was begun is ended: a gate that opens again does not turn it round
    refuses = refuses_writes(asked, step.pod_uid)
    if not closed and not may_try:
        return _told(seen, fleet, step, hindrance, asked)
    if not closed:
        # CRASH: what this pass saw is younger than the first flush; a gate that closed meanwhile is seen closed.
        stop = _stop(seen, asked, with_flush=True, may_delete=bool(refuses) and is_announced(asked))
        return _told(seen, fleet, step, hindrance, asked, stop)
    if not step.given_back_for and _has_precedence(seen, fleet, asked, step, held):
        return _told(seen, fleet, step, "; ".join(closed), asked)
    is_own_mode = has_own_mode(asked)
    if refuses and (step.was_writable or is_own_mode):
        assert asked.case.pod is not None
        resume = ResumeBookie(asked.case.name, doors.of(seen.cluster, asked.case.pod), seen.leadership.epoch)
        why = "; ".join((hindrance, *closed) if hindrance else closed)
        step = step.model_copy(update={"given_back_for": step.given_back_for or "; ".join(closed)[: turns.WHY_MAX]})
        return _told(seen, fleet, step, why, asked, resume)
    # A turn that is forgotten while its bookie refuses writes would leave it read-only.
    is_over = refuses is False or not (step.was_writable or is_own_mode)
    return _told(seen, fleet, None if is_over else step, "; ".join(closed), asked)


def is_announced(asked: Assessed) -> bool:
    """Return True when the list of registrations that this pass read, in which everybody else takes writes, says that
    this bookie takes none: whoever else reads it, for another cluster in the same store, sees that too
    (spec/operator.md#Q13)."""
    return asked.case.member is not None and not asked.case.member.is_writable


def _has_precedence(
    seen: Observation, fleet: tuple[Assessed, ...], asked: Assessed, step: RolloutStep, held: tuple[str, ...]
) -> bool:
    """Return True while a turn is kept although gates are closed: only bookies of other clusters take no writes, and
    theirs may be turns too. The one with the smaller id waits for a while, and the other gives way."""
    if held or seen.now_ms - parse_time(step.begun_at) >= PATIENCE_MS:
        return False
    strangers = [one for one in fleet if not one.case.is_ours and stop_gates.why_not_beside(seen, one)]
    rest = tuple(one for one in fleet if one not in strangers)
    is_first = all(asked.case.bookie_id < one.case.bookie_id for one in strangers)
    return bool(strangers) and is_first and not stop_gates.closed(seen, rest, asked)


def has_own_mode(asked: Assessed) -> bool:
    """Return True when its turn is a mode of its own, which ends by itself; older releases are set read-only, and do
    not say when that has ended: a full disk keeps them so."""
    return asked.case.report is not None and _KNOWS_TURNS in asked.case.report.capabilities


def refuses_writes(asked: Assessed, pod_uid: str) -> bool | None:
    """Return whether the bookie refuses writes because it is its turn, by a report of that very pod; None without one.
    Of a release that knows no turns: whether it refuses them for any reason."""
    report = asked.case.report
    if report is None or report.pod_uid != pod_uid:
        return None
    if has_own_mode(asked):
        return report.has_turn
    return report.read_only or report.state is State.READ_ONLY


def _stop(seen: Observation, one: Assessed, *, with_flush: bool, may_delete: bool = True) -> StopBookie:
    pod = one.case.pod
    assert pod is not None
    door = doors.of(seen.cluster, pod) if with_flush else None
    return StopBookie(one.case.name, pod.uid, pod.resource_version, door, seen.leadership.epoch, may_delete)


def _begin(
    seen: Observation,
    fleet: tuple[Assessed, ...],
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
        changed=revisions.changes(seen, one)[:CHANGED_MAX],
    )
    return _told(seen, fleet, step, "", one, stop)


def _why_step(seen: Observation, fleet: tuple[Assessed, ...], step: RolloutStep | None) -> str:
    for one in fleet:
        if step is not None and one.case.name == step.bookie:
            return stop_gates.unproven(one) or "; ".join(pace.soak(seen, [one]))
    return ""


def _told(
    seen: Observation,
    fleet: tuple[Assessed, ...],
    step: RolloutStep | None,
    why: str,
    candidate: Assessed | None = None,
    action: StopBookie | ResumeBookie | None = None,
) -> Rollout:
    desired = [one for one in fleet if one.case.is_desired and not revisions.leaves(one)]
    older = pace.behind(seen, fleet)  # what is told is about revisions, also while an operation asks for another bookie
    behind = {one.case.name for one in older}
    is_manual = seen.cluster.spec.rollout.strategy == "Manual"
    turns = [one.case.name for one in older if not is_manual]
    waiting = tuple(name for name in turns if step is None or name != step.bookie)
    if candidate is not None and candidate.case.name in waiting:
        waiting = (candidate.case.name, *(name for name in waiting if name != candidate.case.name))
    turn = candidate.case.name if candidate is not None else step.bookie if step is not None else ""
    halted_by, halted = _halted(seen, fleet, older, step)
    halted, reason = halted or _stuck(fleet, older, turn), "RolloutHalted"
    refused = seen.hindrances.get(step.pod_uid) if step is not None else None
    if refused is not None and refused.reason:
        halted, reason = refused.text, refused.reason
    return Rollout(
        RolloutStatus(
            inputs=inputs.digest(seen.cluster.spec, None),
            desired=len(desired),
            updated=sum(one.case.pod is not None and one.case.name not in behind for one in desired),
            next=waiting[0] if waiting else None,
            waiting_for=((halted or why)[:512] or None) if waiting or step is not None else None,
            changed=_changed(seen, older),
            step=step,
        ),
        waiting,
        halted,
        halted_by,
        reason,
        action,
        why,
        formats.told(seen, fleet, older),
    )


def _changed(seen: Observation, older: list[Assessed]) -> tuple[str, ...]:
    """Return for which fields of the spec any of `older` has yet to restart; volumes first, which a rule asks about."""
    found = {path for one in older for path in revisions.changes(seen, one)}
    by_volumes = sorted(found, key=lambda path: (not path.startswith("spec.storage."), path))
    return tuple(path[:CHANGED_CHARS_MAX] for path in by_volumes[:CHANGED_MAX])


def _stuck(fleet: tuple[Assessed, ...], older: list[Assessed], turn: str) -> str:
    """Return which bookie cannot fetch what it missed, so that the one whose turn it is must not be stopped."""
    others = [one for one in fleet if one.case.name != turn]
    told = next((why for one in others if (why := filling.stuck(one))), "") if older else ""
    return f"{told}; {len(older)} bookies are left as they were" if told else ""


def _halted(
    seen: Observation, fleet: tuple[Assessed, ...], older: list[Assessed], step: RolloutStep | None
) -> tuple[str, str]:
    """Return (which bookie does not come back with what the spec says, the reason as the bookie or Kubernetes gives
    it); ("", "") while all is well. The one whose turn it is comes first. One that leaves gets nothing new of the spec,
    and no spec keeps a bookie waiting for data that it lost, or repairs."""
    limit_ms, anew = seen.cluster.spec.rollout.max_seconds_per_bookie * 1_000, ephemeral.begun_anew(seen, fleet)
    for one in sorted(fleet, key=lambda one: step is None or step.bookie != one.case.name):
        pod, is_turn = one.case.pod, step is not None and step.bookie == one.case.name
        if not one.case.is_desired or (one in older and not is_turn):
            continue
        if not (is_turn or older or one.case.name == anew):
            continue
        if (one.leaving is not None and not is_turn) or one.is_set_aside:
            continue
        why = stop_gates.unproven(one, may_be_read_only=is_turn)
        if not why and not (is_turn and one in older):
            continue
        began_ms = parse_time(step.begun_at) if is_turn and step is not None else one.away_since_ms
        is_late = began_ms is not None and seen.now_ms - began_ms >= limit_ms and not waits_for_data(one)
        is_broken = pod is not None and bool(pod.problem) and seen.now_ms - pod.created_ms >= PATIENCE_MS
        if is_late or (is_broken and one not in older):
            hindrance = seen.hindrances.get(step.pod_uid) if step is not None else None
            told = (
                why
                or (hindrance.text if hindrance is not None else "")
                or f"{one.case.name} was asked to flush, and has not proven it"
            )
            rest = f"; {len(older)} bookies are left as they were" if older else ""
            return one.case.name, f"{told}{rest}: correct the spec, or set it back"
    return "", ""
