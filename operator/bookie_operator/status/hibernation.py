"""What the conditions say of a fleet that sleeps, goes to sleep or wakes up: it is off because its user wants so."""

from dataclasses import replace

from bookie_operator.model.status import HibernationState
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.status.truth import Truth

# Nobody can look at a fleet that is off: neither good nor bad is known of it. What is bad for another reason stays.
_OF_BOOKIES = ("Degraded", "DataAtRisk", "RepairInProgress", "StorageHealthy", "UpToDate", "DeletionHeld")


def hibernated(plan: FleetPlan) -> Truth:
    """Return the condition Hibernated: what to wait for before a machine is switched off."""
    status = plan.hibernation.status
    if status is None:
        return Truth("Hibernated", False, "Awake", "spec.lifecycle.hibernate is not set")
    why = status.waiting_for or ""
    match status.state:
        case HibernationState.WAITING:
            return Truth("Hibernated", False, "HibernationWaits", why)
        case HibernationState.STOPPING:
            return Truth("Hibernated", False, "Hibernating", why or "the last pods end")
        case HibernationState.HIBERNATED:
            return Truth("Hibernated", True, "Hibernated", _asleep(plan))
        case HibernationState.WAKING:
            return Truth("Hibernated", False, "WakingUp", why)


def told(plan: FleetPlan, truth: Truth) -> Truth:
    """Return `truth` as a fleet that sleeps, or is about to, says it."""
    status = plan.hibernation.status
    if status is None or truth.reason == "HumanNeeded":
        return truth
    if status.state is HibernationState.HIBERNATED:
        return _of_sleep(plan, truth)
    word = hibernated(plan)
    if truth.type == "Reconciling" and truth.is_true is False:
        return replace(word, type="Reconciling", is_true=True)
    is_going = status.state in (HibernationState.STOPPING, HibernationState.WAKING)
    if truth.type == "Ready" and is_going:
        return replace(word, type="Ready", is_true=False)
    return truth


def _of_sleep(plan: FleetPlan, truth: Truth) -> Truth:
    if truth.type in ("Ready", "Available", "Reconciling"):
        return Truth(truth.type, False, "Hibernated", _asleep(plan))
    is_bad = truth.is_true is (truth.type not in ("StorageHealthy", "UpToDate"))
    if truth.type in _OF_BOOKIES and not is_bad:
        return Truth(
            truth.type, None, "Hibernated", "nobody looks at a fleet that is off; nothing was found wrong before"
        )
    return truth


def _asleep(plan: FleetPlan) -> str:
    return (
        f"{len(plan.hibernation.off)} bookies are off, and all that they have is kept: set spec.lifecycle.hibernate to"
        " false to have them back"
    )
