"""Owned children: which of them are missing or drifted, and what stands in the way of applying them."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from bookie_operator.model import names
from bookie_operator.plan.actions import Apply
from bookie_operator.plan.observation import Observation
from bookie_operator.resources import common, fleet
from bookie_operator.resources.common import Manifest


class MetadataStep(Enum):
    """metadataService.initialize, as far as it has come."""

    READY = "Ready"
    WAITING = "Waiting"  # the Job runs
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Something only a person can clear. `reason` is of the Stalled condition's closed list."""

    reason: str
    message: str


def metadata_step(observation: Observation) -> MetadataStep:
    """Initialised once and never again: a record of ours, marked claims or an old fleet forbid a second time."""
    cluster = observation.cluster
    record = cluster.status.metadata
    if cluster.spec.metadata_service.initialize == "Never" or observation.has_marked_claims:
        return MetadataStep.READY
    if record is not None and record.initialized_at is not None:
        return MetadataStep.READY
    if any(kind == "StatefulSet" for kind, _ in observation.children):
        return MetadataStep.READY
    job = observation.children.get(("Job", names.metadata_job(cluster.name)))
    status = (job or {}).get("status") or {}
    conditions = {entry["type"] for entry in status.get("conditions") or () if entry.get("status") == "True"}
    if "Complete" in conditions or int(status.get("succeeded") or 0) > 0:
        return MetadataStep.READY
    return MetadataStep.FAILED if "Failed" in conditions else MetadataStep.WAITING


def plan(observation: Observation, max_unavailable: int) -> tuple[tuple[Apply, ...], tuple[Obstacle, ...]]:
    """What to apply, in order, and what cannot be. Paused: the disruption budget only."""
    cluster = observation.cluster
    wanted = list(fleet.before_metadata(cluster, max_unavailable))
    obstacles: list[Obstacle] = []
    step = metadata_step(observation)
    if step is MetadataStep.FAILED:
        obstacles.append(_initialisation_failed(cluster.namespace, cluster.name))
    elif step is MetadataStep.WAITING:
        wanted.append(fleet.initializer(cluster, observation.image))
    else:
        wanted += (_never_smaller(observation, one) for one in fleet.stateful_sets(cluster, observation.image))
    if cluster.spec.lifecycle.paused:
        wanted = [one for one in wanted if one["kind"] == "PodDisruptionBudget"]
    applies: list[Apply] = []
    for manifest in wanted:
        live = observation.children.get((manifest["kind"], manifest["metadata"]["name"]))
        conflicts = tuple(_conflicts(observation, manifest, live))
        obstacles += conflicts
        if not conflicts and not _is_settled(manifest, live):
            applies.append(Apply(manifest))
    return tuple(applies), tuple(obstacles)


def _is_settled(manifest: Manifest, live: Manifest | None) -> bool:
    """A Job's template cannot change: the one that runs is the one that counts."""
    return (manifest["kind"] == "Job" and live is not None) or common.is_applied(manifest, live)


def _never_smaller(observation: Observation, manifest: Manifest) -> Manifest:
    """Keep surplus replicas that somebody added by hand: taking a bookie away needs its ledgers moved first."""
    live = observation.children.get(("StatefulSet", manifest["metadata"]["name"]))
    running = int(((live or {}).get("spec") or {}).get("replicas") or 0)
    if running <= manifest["spec"]["replicas"]:
        return manifest
    return common.marked(manifest | {"spec": manifest["spec"] | {"replicas": running}})


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
        f"Job {job} failed: read `kubectl -n {namespace} logs job/{job}`, clear the cause, then"
        f" `kubectl -n {namespace} delete job {job}` to try again",
    )
