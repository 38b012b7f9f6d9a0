"""Conditions about the roll-out: Reconciling and UpToDate. Rolled out means: the controllers saw it."""

from bookie_operator.plan.actions import Apply
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.resources.common import Manifest
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
    if outdated := _outdated(plan):
        return Truth("Reconciling", True, "RolloutInProgress", _hint(outdated))
    if why := _unread(plan):
        return unknown("Reconciling", why)
    return Truth("Reconciling", False, "Done", "the observed generation is rolled out")


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
    if outdated := _outdated(plan):
        return Truth("UpToDate", False, "Updating", _hint(outdated))
    if why := _unread(plan):
        return unknown("UpToDate", why)
    absent = [one.case.name for one in sight.desired if one.case.pod is None]
    if absent:
        return unknown("UpToDate", f"{len(absent)} of {len(sight.desired)} pods do not exist: {', '.join(absent[:3])}")
    return Truth("UpToDate", True, "Updated", f"{len(sight.desired)} pods run the revision that the spec asks for")


def _paused(plan: FleetPlan) -> Truth:
    """A paused cluster is never "rolled out": what the spec asks for may differ from what runs."""
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


def _sets(plan: FleetPlan) -> dict[str, Manifest]:
    return {name: live for (kind, name), live in plan.observation.children.items() if kind == "StatefulSet"}


def _unread(plan: FleetPlan) -> str:
    """Why it is not known which revision the pods should run; "" when it is."""
    sets = _sets(plan)
    if not sets:
        return "there is no StatefulSet yet"
    for name, live in sorted(sets.items()):
        status = live.get("status") or {}
        if not status.get("updateRevision"):
            return f"StatefulSet {name} does not say which revision is the newest"
        observed, generation = status.get("observedGeneration"), live["metadata"].get("generation")
        if observed is not None and generation is not None and int(observed) < int(generation):
            return f"the StatefulSet controller has not seen generation {generation} of {name} yet"
    return ""


def _outdated(plan: FleetPlan) -> list[str]:
    """Pods that run an older revision than their StatefulSet's template."""
    revisions = {name: ((live.get("status") or {}).get("updateRevision") or "") for name, live in _sets(plan).items()}
    return [
        one.case.name
        for one in plan.fleet
        if one.case.pod is not None
        and (revision := revisions.get(one.case.name.rsplit("-", 1)[0]))
        and one.case.pod.revision != revision
    ]


def _hint(outdated: list[str]) -> str:
    return (
        f"{', '.join(outdated)} run an older revision: delete one pod at a time (`kubectl delete pod {outdated[0]}`),"
        " and wait until every bookie serves and Degraded is False before the next"
    )
