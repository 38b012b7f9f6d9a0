"""Owned children: which to apply, which to delete, and what prevents applying them."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from bookie_operator.model import config, names
from bookie_operator.plan import prune
from bookie_operator.plan.actions import Apply, DeleteChild
from bookie_operator.plan.observation import Observation
from bookie_operator.resources import common, fleet, memory
from bookie_operator.resources.common import Manifest

# A fleet whose settings are wrong is not begun either: its metadata are not initialised.
_MADE_FROM_CONFIG = ("ConfigMap", "Job", "StatefulSet")


class MetadataStep(Enum):
    """How far metadataService.initialize has come."""

    READY = "Ready"
    WAITING = "Waiting"  # the Job runs
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A hindrance that only a person can remove. `reason` is of the Stalled condition's closed list."""

    reason: str
    message: str


def metadata_step(observation: Observation) -> MetadataStep:
    """Return how far the metadata's initialisation is.

    It happens once: a record of ours, marked claims or an old fleet forbid a second time. But the record is about one
    store: it does not count when the hosts were corrected before any bookie has lived.
    """
    cluster = observation.cluster
    record = cluster.status.metadata
    if cluster.spec.metadata_service.initialize == "Never" or observation.has_marked_claims:
        return MetadataStep.READY
    is_moved = _is_moved(observation)
    if not is_moved and record is not None and record.initialized_at is not None:
        return MetadataStep.READY
    if not is_moved and any(kind == "StatefulSet" for kind, _ in observation.children):
        return MetadataStep.READY
    job = observation.children.get(("Job", names.metadata_job(cluster.name)))
    if job is None:
        return MetadataStep.WAITING
    is_as_wanted = prune.is_made_from(job, fleet.initializer(cluster, observation.image))
    if prune.is_complete(job) and (is_as_wanted or not is_moved):
        return MetadataStep.READY
    return MetadataStep.FAILED if is_as_wanted and "Failed" in prune.conditions(job) else MetadataStep.WAITING


def _is_moved(observation: Observation) -> bool:
    """Return True when the operator initialised another store than the spec names now, and no bookie has lived yet."""
    status = observation.cluster.status
    has_lived = status.instance_id is not None or any(one.incarnation > 0 for one in status.bookies)
    known = status.metadata.uri if status.metadata is not None else None
    return not has_lived and known is not None and known != observation.cluster.spec.metadata_service.uri


def plan(
    observation: Observation, max_unavailable: int
) -> tuple[tuple[Apply | DeleteChild, ...], tuple[Obstacle, ...], tuple[str, ...]]:
    """Return what to apply, in order, and what to delete after that; the obstacles; and, while paused, what differs and
    is not applied ("Kind name"): the disruption budget alone is applied then."""
    cluster = observation.cluster
    wanted = list(fleet.before_metadata(cluster, max_unavailable))
    obstacles: list[Obstacle] = []
    if observation.record_problem:
        obstacles.append(Obstacle("RecordUnreadable", observation.record_problem))
    step = metadata_step(observation)
    if step is MetadataStep.FAILED:
        obstacles.append(_initialisation_failed(cluster.namespace, cluster.name))
    if step is not MetadataStep.READY:
        wanted.append(fleet.initializer(cluster, observation.image))
    else:
        wanted += fleet.stateful_sets(cluster, observation.pools, observation.image)
    stale = tuple(prune.stale(observation, {(one["kind"], one["metadata"]["name"]): one for one in wanted}))
    if wrong := (*config.problems(cluster.spec), *memory.problems(cluster.spec)):
        # What is there stays as it is, and so does what protects it; only the roll-out waits.
        obstacles.append(Obstacle("SpecInvalid", "; ".join(wrong)))
        wanted = [one for one in wanted if one["kind"] not in _MADE_FROM_CONFIG]
    applies: list[Apply] = []
    for manifest in wanted:
        live = observation.children.get((manifest["kind"], manifest["metadata"]["name"]))
        conflicts = tuple(_conflicts(observation, manifest, live))
        obstacles += conflicts
        if not conflicts and not _is_settled(manifest, live):
            applies.append(Apply(manifest))
    if cluster.spec.lifecycle.paused:
        protection = tuple(one for one in applies if one.manifest["kind"] == "PodDisruptionBudget")
        withheld = [one.manifest for one in applies if one not in protection]
        return protection, tuple(obstacles), tuple(f"{one['kind']} {one['metadata']['name']}" for one in withheld)
    return (*applies, *stale), tuple(obstacles), ()


def _is_settled(manifest: Manifest, live: Manifest | None) -> bool:
    """Return True when there is nothing to apply. A Job's template and an immutable ConfigMap cannot change: `prune`
    deletes a wrong one first, and the next pass makes it anew. The same holds for a child that is being deleted."""
    if live is not None and (manifest["kind"] in ("Job", "ConfigMap") or "deletionTimestamp" in live["metadata"]):
        return True
    return common.is_applied(manifest, live)


def _conflicts(observation: Observation, manifest: Manifest, live: Manifest | None) -> Iterator[Obstacle]:
    if live is None:
        return
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    for owner in live["metadata"].get("ownerReferences") or ():
        if owner.get("controller") and owner.get("uid") != observation.cluster.uid:
            yield Obstacle(
                "NameConflict",
                f"{kind} {name} belongs to {owner.get('kind')} {owner.get('name')} (uid {owner.get('uid')}): rename"
                " this BookieCluster, or wait until the other is gone",
            )
    if kind == "StatefulSet" and not _has_same_templates(manifest, live):
        yield Obstacle(
            "SpecInvalid",
            f"StatefulSet {name} has other volume claim templates, which cannot change: create another BookieCluster",
        )


def _has_same_templates(manifest: Manifest, live: Manifest) -> bool:
    def shape(template: Manifest) -> tuple[object, ...]:
        spec = template["spec"]
        size = spec["resources"]["requests"]["storage"]
        return template["metadata"]["name"], tuple(spec["accessModes"]), spec.get("storageClassName"), size

    wanted = manifest["spec"]["volumeClaimTemplates"]
    existing = live["spec"].get("volumeClaimTemplates") or []
    return len(wanted) == len(existing) and all(
        common.is_applied({"shape": list(shape(one))}, {"shape": list(shape(other))})
        for one, other in zip(wanted, existing, strict=True)
    )


def _initialisation_failed(namespace: str, cluster: str) -> Obstacle:
    job = names.metadata_job(cluster)
    return Obstacle(
        "MetadataInitFailed",
        f"Job {job} failed: read `kubectl -n {namespace} logs job/{job}` and clear the cause. It is made anew when the"
        f" spec is corrected, and tried again every {prune.JOB_RETRY_MS // 60_000} minutes; at once after"
        f" `kubectl -n {namespace} delete job {job}`",
    )
