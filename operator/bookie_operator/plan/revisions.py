"""Finds the pods that run what the spec says now, by the StatefulSet controller's status."""

from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import Assessed
from bookie_operator.resources import inputs
from bookie_operator.resources.common import Manifest


def sets(seen: Observation) -> dict[str, Manifest]:
    return {name: live for (kind, name), live in seen.children.items() if kind == "StatefulSet"}


def unread(seen: Observation) -> str:
    """Return why it is not known which revision the pods should run; "" when it is."""
    found = sets(seen)
    if not found:
        return "there is no StatefulSet yet"
    for name, live in sorted(found.items()):
        status = live.get("status") or {}
        if not status.get("updateRevision"):
            return f"StatefulSet {name} does not say which revision is the newest"
        observed, generation = status.get("observedGeneration"), live["metadata"].get("generation")
        if observed is not None and generation is not None and int(observed) < int(generation):
            return f"the StatefulSet controller has not seen generation {generation} of {name} yet"
    return ""


def older(seen: Observation, fleet: tuple[Assessed, ...]) -> list[Assessed]:
    """Return the bookies whose pods run an older revision than their StatefulSet's template, zone by zone."""
    newest = {name: ((live.get("status") or {}).get("updateRevision") or "") for name, live in sets(seen).items()}
    found = [
        one
        for one in fleet
        if one.case.pod is not None
        and (revision := newest.get(one.case.name.rsplit("-", 1)[0]))
        and one.case.pod.revision != revision
    ]
    return sorted(found, key=lambda one: (one.case.pool, int(one.case.name.rsplit("-", 1)[1])))


def is_asked_for(seen: Observation, one: Assessed) -> bool:
    """Return True when the user changed the part of the spec that this older pod depends on. False: only a newer
    operator renders the pod otherwise or brings another default image; that waits until the pod ends for another
    reason."""
    pod = one.case.pod
    if pod is None:
        return False
    if not pod.inputs:  # of an operator that did not note it
        return seen.cluster.spec.image is not None and pod.image != seen.cluster.spec.image
    zone = next((pool.zone for pool in seen.pools if pool.name == one.case.pool), None)
    return pod.inputs != inputs.digest(seen.cluster.spec, zone)
