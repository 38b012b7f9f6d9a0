"""Conditions about the roll-out: Reconciling and UpToDate. It counts as done when the controllers have seen it done."""

from dataclasses import replace

from bookie_operator.model import config
from bookie_operator.model.status import LeavingStatus, RebuildStatus
from bookie_operator.plan import ephemeral, live_settings, revisions
from bookie_operator.plan.actions import Apply, DeleteChild
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.resources import inputs
from bookie_operator.status import growth, truth
from bookie_operator.status.sight import Sight, unknown
from bookie_operator.status.truth import Truth


def reconciling(plan: FleetPlan, sight: Sight) -> Truth:
    desired = len(sight.desired)
    if plan.observation.cluster.spec.lifecycle.paused:
        return _paused(plan)
    if sight.living == 0:
        return Truth("Reconciling", True, "Bootstrapping", "the fleet starts for the first time")
    if plan.rebuild.status is not None and not _leaves_for_good(plan):
        return Truth("Reconciling", True, "Rebuilding", _rebuilt(plan.rebuild.status))
    if sight.living < desired:
        return Truth("Reconciling", True, "ScalingUp", f"{desired - sight.living} bookies are new")
    if told := _leaving(plan):
        return Truth("Reconciling", True, "ScalingDown", told)
    if _pending(plan):
        return Truth(
            "Reconciling", True, "RolloutInProgress", f"the operator has yet to apply {', '.join(_pending(plan))}"
        )
    if plan.rollout.halted:
        return Truth("Reconciling", False, "RolloutHalted", _progress(plan))
    if (told := _behind(plan)) and not _asks_for_nothing(plan):
        is_waiting = plan.rollout.status.window_opens_at is not None
        return Truth("Reconciling", True, "WaitingForWindow" if is_waiting else "RolloutInProgress", told)
    if told := rolled_back(plan):
        return Truth("Reconciling", False, "RolledBack", told)
    if plan.expansion.infeasible:
        return Truth("Reconciling", False, "ExpansionInfeasible", plan.expansion.infeasible)
    if plan.expansion.is_going_on:
        return Truth("Reconciling", True, "VolumesExpanding", growth.progress(plan))
    if why := revisions.unread(plan.observation):
        return unknown("Reconciling", why)
    done = "every pod runs what the observed generation asks for"
    return Truth("Reconciling", False, "Done", f"{done}; {told}" if told else done)


def _leaving(plan: FleetPlan) -> str:
    """Return who leaves, and how far each one is; "" when nobody does."""
    return truth.listed(
        f"{one.case.name} is {_departure(one.leaving)}"
        for one in plan.fleet
        if one.leaving is not None and not one.leaving.state.is_gone
    )


def _leaves_for_good(plan: FleetPlan) -> bool:
    return any(one.case.is_leaving and not one.case.is_rebuilt for one in plan.fleet)


def _rebuilt(status: RebuildStatus) -> str:
    """Return `2 of 6 bookies have the volumes that they are to have; ledgers-a-0 is rebuilt; ...`."""
    told = f"{status.done} of {status.desired} bookies have the volumes that they are to have"
    told += f"; {status.bookie} is rebuilt" if status.bookie is not None else ""
    told += f", about {status.minutes_left} minutes for all" if status.minutes_left is not None else ""
    return f"{told}; waits: {status.waiting_for}" if status.waiting_for else told


def _departure(leaving: LeavingStatus) -> str:
    words = leaving.state.value
    if leaving.ledgers_total:
        words += f", {leaving.ledgers_left} of {leaving.ledgers_total} ledgers left"
    if leaving.minutes_left is not None:
        words += f", about {leaving.minutes_left} minutes"
    return f"{words}; waits: {leaving.waiting_for}" if leaving.waiting_for else words


def up_to_date(plan: FleetPlan, sight: Sight) -> Truth:
    found = _up_to_date(plan, sight)
    idle = config.without_meaning(plan.observation.cluster.spec)
    if not idle:
        return found
    told = f"{found.message}; in spec.config, without meaning for these bookies: {', '.join(idle)}"
    return replace(found, message=told)


def _up_to_date(plan: FleetPlan, sight: Sight) -> Truth:
    if plan.withheld:
        return Truth(
            "UpToDate",
            False,
            "Paused",
            f"the cluster is paused, and these differ from the spec: {', '.join(plan.withheld)}",
        )
    if pending := _pending(plan):
        return Truth("UpToDate", False, "Updating", f"the operator has yet to apply {', '.join(pending)}")
    if plan.rollout.halted:
        return Truth("UpToDate", False, "RolloutHalted", _progress(plan))
    if told := rolled_back(plan):
        progress = _behind(plan)
        return Truth("UpToDate", False, "RolledBack", f"{told}; {progress}" if progress else told)
    if told := _behind(plan):
        return Truth("UpToDate", False, "Updating", told)
    if told := _untaken(plan):
        return Truth("UpToDate", False, "Paused", told)
    if moved := ephemeral.rolled(plan.observation):
        told = f"{', '.join(moved)} run an older revision, and what they have goes with their pods"
        return Truth(
            "UpToDate", False, "Updating", f"{told}: they are drained first, and begun anew with what the spec says"
        )
    if why := revisions.unread(plan.observation):
        return unknown("UpToDate", why)
    # Who leaves to begin anew is one of the spec's bookies, and comes back with what it says then.
    desired = [one for one in plan.fleet if one in sight.desired or one.case.is_rebuilt]
    absent = [one.case.name for one in desired if one.case.pod is None]
    if absent:
        return unknown("UpToDate", f"{len(absent)} of {len(desired)} pods do not exist: {', '.join(absent[:3])}")
    return Truth("UpToDate", True, "Updated", f"{len(desired)} pods run the revision that the spec asks for")


def rolled_back(plan: FleetPlan) -> str:
    """Return what did not work, while the bookies are made of what worked before; "" while they are not."""
    failed = plan.rollout.status.failed
    if failed is None:
        return ""
    return (
        f"{inputs.told(failed.fields)} did not work: {failed.message}; the bookies run what worked before, or go back"
        " to it: correct the spec (or set spec.rollout.onFailure to Halt, which tries the same again)"
    )


def _paused(plan: FleetPlan) -> Truth:
    """Report a paused cluster, never as rolled out: its pods may differ from the spec."""
    if plan.withheld:
        told = f"the cluster is paused, and these stay as they are, unlike the spec: {', '.join(plan.withheld)}"
        return Truth("Reconciling", True, "Paused", told)
    return Truth(
        "Reconciling", None, "Paused", "the cluster is paused: the operator rolls nothing out, whatever the spec says"
    )


def _pending(plan: FleetPlan) -> list[str]:
    return [
        f"StatefulSet {action.manifest['metadata']['name'] if isinstance(action, Apply) else action.name}"
        for action in plan.actions
        if (isinstance(action, Apply) and action.manifest["kind"] == "StatefulSet")
        or (isinstance(action, DeleteChild) and action.kind == "StatefulSet")
    ]


def _untaken(plan: FleetPlan) -> str:
    """Return which settings bookies have otherwise than the spec, while a paused roll-out sends them none: set back to
    what their pods were made of, no pod tells of them."""
    spec = plan.observation.cluster.spec
    lacking = [live_settings.lacks(spec.of(one.case.pool), one.case) for one in plan.fleet if one.case.is_desired]
    fields = dict.fromkeys(live_settings.FIELDS[key] for wanted in lacking for key in sorted(wanted))
    if not spec.rollout.paused or not fields:
        return ""
    return f"spec.rollout.paused is true, and bookies have yet to take {', '.join(fields)}"


def _behind(plan: FleetPlan) -> str:
    """Return how far the roll-out is, and what a person must do where the operator does nothing; "" when it is done."""
    if plan.settings:
        fields = dict.fromkeys(live_settings.FIELDS[key] for order in plan.settings for key, _ in order.settings)
        return f"{len(plan.settings)} bookies have yet to take {', '.join(fields)}, without a restart"
    older = [one.case.name for one in revisions.older(plan.observation, plan.fleet)]
    is_automatic = plan.observation.cluster.spec.rollout.strategy == "Automatic"
    if plan.rollout.is_going_on and (is_automatic or not older):
        return _progress(plan)
    if not older:
        return ""
    first = next(one for one in plan.fleet if one.case.name == older[0])
    how = (
        "create a BookieOperation Replace of one after the other: what they have goes with their pods"
        if ephemeral.holds_data(first)
        else f"delete one pod at a time (`kubectl delete pod {older[0]}`), and wait until every bookie serves and"
        " Degraded is False before the next"
    )
    noteless = [
        one.case.name
        for one in plan.fleet
        if one.case.name in older and one.case.pod is not None and not inputs.is_noted(one.case.pod.inputs)
    ]
    if noteless:
        how = (
            f"{', '.join(noteless)} were made by an operator that did not note what the spec said: they are restarted"
            f" for what the spec says and they lack, and not for what was taken out of it; {how}"
        )
    if plan.rollout.formats:
        how += f"; {plan.rollout.formats}"
    if is_automatic:
        # Nobody changed the spec: the operator alone makes other pods of it now.
        how = f"they take what this operator's release makes of the same spec when they end; to have it now, {how}"
    return f"{', '.join(older)} run an older revision: {how}"


def _asks_for_nothing(plan: FleetPlan) -> bool:
    """Return True when older pods lack nothing that the spec says: the operator alone makes others of it now, and stops
    nobody for that. Pipelines that wait for the end of Reconciling would wait for months."""
    seen = plan.observation
    pods = [(one, one.case.pod) for one in revisions.older(seen, plan.fleet)]
    is_known = all(
        pod is not None and (inputs.is_noted(pod.inputs) or pod.revision in seen.templates) for _, pod in pods
    )
    return is_known and not plan.rollout.is_going_on and not any(revisions.changes(seen, one) for one, _ in pods)


def _progress(plan: FleetPlan) -> str:
    """Return `2 of 5 run ..., now ..., next ..., waiting for: ...`."""
    status = plan.rollout.status
    words = [f"{status.updated} of {status.desired} run what the spec says"]
    if status.step is not None:
        words.append(f"now {status.step.bookie}")
        words += [f"because of {inputs.told(status.step.changed)}"] if status.step.changed else []
    words += [f"next {status.next}"] if status.next is not None else []
    words += [f"waiting for: {status.waiting_for}"] if status.waiting_for is not None else []
    if plan.rollout.formats and plan.rollout.formats not in (status.waiting_for or ""):
        words.append(plan.rollout.formats)
    return ", ".join(words)
