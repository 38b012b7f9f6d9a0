"""What the status says of volumes that grow: the condition VolumesExpanding, how far they are, and each volume."""

from bookie_operator.evidence.facts import VolumeCase
from bookie_operator.model.status import ExpansionStatus, LeastSize
from bookie_operator.model.values import format_quantity
from bookie_operator.plan import expansion
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.status.truth import Truth


def volumes_expanding(plan: FleetPlan) -> Truth:
    """True while claims are on their way to the sizes of the spec; False when all have them, or a person must help."""
    grown = plan.expansion
    told = progress(plan)
    if not grown.is_going_on:
        return Truth("VolumesExpanding", False, "SizesAsAsked", told)
    if grown.infeasible:
        return Truth("VolumesExpanding", False, "ExpansionInfeasible", grown.infeasible)
    if plan.observation.cluster.spec.lifecycle.paused:
        return Truth("VolumesExpanding", False, "Paused", told)
    return Truth("VolumesExpanding", True, "Expanding", told)


def progress(plan: FleetPlan) -> str:
    """Return `2 of 6 bookies have the sizes of the spec; claim ...: its volume is being enlarged`."""
    grown = plan.expansion
    told = f"{grown.bookies_done} of {grown.bookies} bookies have the sizes of the spec"
    return f"{told}; {grown.waiting_for}" if grown.waiting_for else told


def status(plan: FleetPlan) -> ExpansionStatus | None:
    grown = plan.expansion
    if not grown.is_going_on:
        return None
    return ExpansionStatus(
        desired=grown.bookies,
        done=grown.bookies_done,
        waiting_for=(grown.infeasible or grown.waiting_for)[:512] or None,
        volumes=tuple(LeastSize(name=name, size=size) for name, size in sorted(expansion.floor(grown.growing).items())),
    )


def of_volume(plan: FleetPlan, volume: VolumeCase) -> dict[str, str | None]:
    """Return `capacity` and `growth` of one volume, as the status has them."""
    size = volume.claim.size if volume.claim is not None else None
    uid = volume.claim.uid if volume.claim is not None else ""
    growth = next((one for one in plan.expansion.growing if one.claim.uid == uid), None)
    return {
        "capacity": format_quantity(size.capacity) if size is not None and size.capacity else None,
        "growth": growth.state.value if growth is not None else None,
    }
