"""Conditions about the roll-out: Reconciling and UpToDate. It counts as done when the controllers have seen it done."""

from bookie_operator.plan import revisions
from bookie_operator.plan.actions import Apply
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.status.sight import Sight, unknown
from bookie_operator.status.truth import Truth


def reconciling(plan: FleetPlan, sight: Sight) -> Truth:
    desired = len(sight.desired)
    if plan.observation.cluster.spec.lifecycle.paused:
        return _paused(plan)
    if sight.living == 0:
        return Truth("Reconciling", True, "Bootstrapping", "the fleet starts for the first time")
    if sight.living < desired:
        return Truth("Reconciling", True, "ScalingUp", f"{desired - sight.living} bookies are new")
    if _pending(plan):
        return Truth(
            "Reconciling", True, "RolloutInProgress", f"the operator has yet to apply {', '.join(_pending(plan))}"
        )
    if plan.rollout.halted:
        return Truth("Reconciling", False, "RolloutHalted", _progress(plan))
    if told := _behind(plan):
        return Truth("Reconciling", True, "RolloutInProgress", told)
    if why := revisions.unread(plan.observation):
        return unknown("Reconciling", why)
    return Truth("Reconciling", False, "Done", "every pod runs what the observed generation asks for")


def up_to_date(plan: FleetPlan, sight: Sight) -> Truth:
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
    if told := _behind(plan):
        return Truth("UpToDate", False, "Updating", told)
    if why := revisions.unread(plan.observation):
        return unknown("UpToDate", why)
    absent = [one.case.name for one in sight.desired if one.case.pod is None]
    if absent:
        return unknown("UpToDate", f"{len(absent)} of {len(sight.desired)} pods do not exist: {', '.join(absent[:3])}")
    return Truth("UpToDate", True, "Updated", f"{len(sight.desired)} pods run the revision that the spec asks for")


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
        f"{action.manifest['kind']} {action.manifest['metadata']['name']}"
        for action in plan.actions
        if isinstance(action, Apply) and action.manifest["kind"] == "StatefulSet"
    ]


def _behind(plan: FleetPlan) -> str:
    """Return how far the roll-out is, and what a person must do where the operator does nothing; "" when it is done."""
    older = [one.case.name for one in revisions.older(plan.observation, plan.fleet)]
    is_automatic = plan.observation.cluster.spec.rollout.strategy == "Automatic"
    if plan.rollout.is_going_on and (is_automatic or not older):
        return _progress(plan)
    if not older:
        return ""
    how = (
        f"delete one pod at a time (`kubectl delete pod {older[0]}`), and wait until every bookie serves and Degraded"
        " is False before the next"
    )
    if is_automatic:
        # Nobody changed the spec: the operator alone makes other pods of it now.
        how = f"they take what this operator's release makes of the same spec when they end; to have it now, {how}"
    return f"{', '.join(older)} run an older revision: {how}"


def _progress(plan: FleetPlan) -> str:
    """Return `2 of 5 run ..., now ..., next ..., waiting for: ...`."""
    status = plan.rollout.status
    words = [f"{status.updated} of {status.desired} run what the spec says"]
    words += [f"now {status.step.bookie}"] if status.step is not None else []
    words += [f"next {status.next}"] if status.next is not None else []
    words += [f"waiting for: {status.waiting_for}"] if status.waiting_for is not None else []
    return ", ".join(words)
