"""The StatefulSet of a bookie that leaves, with the claims under it (spec/operator.md#J6, X7). Pure."""

from collections.abc import Iterator

from bookie_operator.evidence.facts import BookieCase, ClaimFacts, Door
from bookie_operator.model import names
from bookie_operator.model.status import Departure, LeavingStatus
from bookie_operator.plan.actions import (
    DeleteChild,
    DetachPool,
    RemoveBookie,
)
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import Assessed
from bookie_operator.resources.common import Manifest


def removal(seen: Observation, case: BookieCase, *, door: Door | None) -> DetachPool | RemoveBookie | None:
    """Return the next step that takes a pod out of its pool; None when it is gone, or going."""
    live, _ = set_of(seen, case.pool)
    if live is not None:
        is_going = "deletionTimestamp" in live["metadata"]
        return None if is_going else DetachPool(case.name, *version(live))
    return removal_of_pod(seen, case, door=door)


def removal_of_pod(seen: Observation, case: BookieCase, *, door: Door | None) -> RemoveBookie | None:
    """Return what takes a pod away; None when it is gone, or going."""
    if case.pod is None or case.pod.is_terminating:
        return None
    return RemoveBookie(case.name, case.pod.uid, case.pod.resource_version, door, seen.leadership.epoch)


def is_removed(seen: Observation, one: Assessed, stored: LeavingStatus) -> bool:
    """Return True when the pod of a bookie that is rebuilt is gone or goes, and nothing makes it anew."""
    live, _ = set_of(seen, one.case.pool)
    return stored.rebuilds and live is None and (one.case.pod is None or one.case.pod.is_terminating)


def needs_no_set(fleet: tuple[Assessed, ...], one: Assessed) -> bool:
    """Return True while a StatefulSet would make the pod of a bookie that is rebuilt anew, on its old claims. One whose
    claims are all being deleted gets no pod before they are gone: Kubernetes refuses to use them.

    From Forgotten on another pod that is missing comes first. Nobody knows how long its claims stay (no right to delete
    them, a pause), and whoever starts on them finds no cookie and serves nobody.
    """
    if one.leaving is None or not one.leaving.rebuilds:
        return False
    if one.leaving.state.is_gone and any(needs_its_set(fleet, one)):
        return False
    if one.leaving.state is Departure.RECLAIMED:
        return any(not claim.is_terminating for claim in claims(one.case))
    if one.leaving.state is Departure.RETIRING:
        return one.case.is_leaving  # who is to stay after all comes back by its StatefulSet
    return one.leaving.state in (Departure.FORGETTING, Departure.FORGOTTEN)


def needs_its_set(fleet: tuple[Assessed, ...], one: Assessed) -> Iterator[str]:
    """Return who else of the pool has no pod, and gets one by the StatefulSet alone."""
    if one.leaving is None and not one.case.is_rebuilt:
        return
    for other in fleet:
        is_mate = other.case.pool == one.case.pool and other.case.is_desired and other.case.name != one.case.name
        # A pod that was evicted stands as Failed until its StatefulSet makes it anew.
        if is_mate and (other.case.pod is None or other.case.pod.has_ended):
            yield f"{other.case.name} has no pod, and needs the StatefulSet that rebuilding {one.case.name} takes away"


def ordinal(case: BookieCase) -> int:
    """Return the number of a bookie in its pool."""
    return int(case.name.rpartition("-")[2])


def set_of(seen: Observation, pool: str) -> tuple[Manifest | None, int]:
    """Return (the StatefulSet of a pool, how many bookies it runs)."""
    live = seen.children.get(("StatefulSet", names.stateful_set(seen.cluster.name, pool)))
    return live, int(((live or {}).get("spec") or {}).get("replicas") or 0)


def is_lowered(seen: Observation, case: BookieCase) -> bool:
    """Return True when its StatefulSet runs this bookie no more. One that is not there says nothing: somebody may be
    making it anew over the same pods."""
    live, replicas = set_of(seen, case.pool)
    return live is not None and replicas <= ordinal(case)


def version(live: Manifest) -> tuple[str, str, str]:
    """Return (name, uid, resource version): the preconditions of a change."""
    metadata = live["metadata"]
    return str(metadata["name"]), str(metadata.get("uid", "")), str(metadata.get("resourceVersion", ""))


def claims(case: BookieCase) -> list[ClaimFacts]:
    """Return the claims of a bookie, also those of volumes that the spec does not name."""
    return [*volume_claims(case), *case.other_claims]


def volume_claims(case: BookieCase) -> list[ClaimFacts]:
    """Return the claims of the volumes that the spec names. What goes with the pod has none."""
    return [volume.claim for volume in case.volumes if volume.claim is not None and not volume.is_ephemeral]


def deletions(claims: list[ClaimFacts], reason: str) -> tuple[DeleteChild, ...]:
    """Return what deletes `claims`, but for those that go already."""
    return tuple(
        DeleteChild("PersistentVolumeClaim", claim.name, claim.uid, claim.resource_version, reason)
        for claim in claims
        if not claim.is_terminating
    )
