"""Owned children: which to apply, which to delete, and what prevents applying them."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from bookie_operator.model import bounds, config, names, pools
from bookie_operator.model.values import parse_time_or_0
from bookie_operator.plan import adding, prune, rebuild, stages, templates, windows
from bookie_operator.plan.actions import Apply, DeleteChild
from bookie_operator.plan.observation import Observation
from bookie_operator.resources import common, fleet, memory
from bookie_operator.resources.common import Manifest

# Of a StatefulSet that is deleted in the foreground the pods end first: a flush, and a grace for it.
_UNDYING_MS = 10 * 60_000
# What runs, and reads the others.
_RUN = ("Job", "StatefulSet", "Deployment")
# A fleet whose settings are wrong is not begun either: its metadata are not initialised.
_MADE_FROM_CONFIG = ("ConfigMap", *_RUN)


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
    observation: Observation, max_unavailable: int, evictable: str = ""
) -> tuple[tuple[Apply | DeleteChild, ...], tuple[Obstacle, ...], tuple[str, ...]]:
    """Return what to apply, in order, and what to delete after that; the obstacles; and, while paused, what differs and
    is not applied ("Kind name"): the disruption budget alone is applied then, and a StatefulSet that is away while its
    pods run."""
    cluster = observation.cluster
    obstacles: list[Obstacle] = []
    if observation.record_problem:
        obstacles.append(Obstacle("RecordUnreadable", observation.record_problem))
    if observation.keys is not None:
        # A pod that begins now could not mount them.
        obstacles.append(Obstacle(observation.keys.reason, observation.keys.text))
    if metadata_step(observation) is MetadataStep.FAILED:
        obstacles.append(_initialisation_failed(cluster.namespace, cluster.name))
    sets, wanted = _wanted(observation, max_unavailable, evictable)
    stale = tuple(prune.stale(observation, {(one["kind"], one["metadata"]["name"]): one for one in wanted}))
    if wrong := spec_problems(observation):
        # What is there stays as it is, and so does what protects it; only the roll-out waits.
        obstacles.append(Obstacle("SpecInvalid", "; ".join(wrong)))
        wanted = [one for one in wanted if one["kind"] not in _MADE_FROM_CONFIG]
        wanted += templates.brought_back(observation, sets)
    elif any(_is_strange(observation, one) for one in wanted if one["kind"] not in _RUN):
        # A pod would read another's settings, or be another's account.
        wanted = [one for one in wanted if one["kind"] not in _RUN]
        wanted += templates.brought_back(observation, sets)
    applies: list[Apply | DeleteChild] = []
    anew: list[DeleteChild] = []
    for manifest in wanted:
        live = observation.children.get((manifest["kind"], manifest["metadata"]["name"]))
        conflicts = tuple(_conflicts(observation, manifest, live))
        obstacles += (*conflicts, *_undying(observation, live))
        if conflicts or _is_settled(manifest, live):
            continue
        is_set = manifest["kind"] == "StatefulSet"
        if live is not None and is_set and (why := templates.why_anew(manifest, live)):
            metadata = live["metadata"]
            anew.append(
                DeleteChild(
                    manifest["kind"],
                    metadata["name"],
                    metadata.get("uid", ""),
                    metadata.get("resourceVersion", ""),
                    why,
                    is_orphaning=True,
                )
            )
        else:
            applies.append(Apply(manifest))
    if cluster.spec.lifecycle.paused:
        protection = tuple(
            one for one in applies if isinstance(one, Apply) and one.manifest["kind"] == "PodDisruptionBudget"
        )
        withheld = tuple(_subject(one) for one in (*applies, *anew) if one not in protection)
        back = tuple(Apply(one) for one in templates.brought_back(observation, sets))
        return (*protection, *back), tuple(obstacles), withheld
    # A StatefulSet goes last, and not beside an obstacle: it might not come back before a person has acted.
    return (*applies, *stale, *(() if obstacles else anew)), tuple(obstacles), ()


def _wanted(
    observation: Observation, max_unavailable: int, evictable: str = ""
) -> tuple[list[Manifest], list[Manifest]]:
    """Return the StatefulSets of the spec's pools, and all that there is to be, in the order in which it is applied."""
    cluster, is_ready = observation.cluster, metadata_step(observation) is MetadataStep.READY
    sets = [
        templates.settled(observation, one)
        for one in fleet.stateful_sets(cluster, observation.pools, observation.image)
        if is_ready
    ]
    expected = _uncontrolled(observation, sets)
    wanted = list(fleet.before_metadata(cluster, max_unavailable, evictable, expected=expected))
    if not is_ready:
        return sets, [*wanted, fleet.initializer(cluster, observation.image)]
    wanted += [*sets, *templates.of_removed_zones(observation)]
    return sets, [*wanted, *fleet.after_bookies(cluster, observation.image)]


def absent(observation: Observation) -> tuple[tuple[str, str], ...]:
    """Return (kind, name) of each child that was not found by its label: something else may have its name."""
    _, wanted = _wanted(observation, 0)
    keys = [(one["kind"], one["metadata"]["name"]) for one in wanted]
    keys.append(("ConfigMap", names.record(observation.cluster.name)))
    return tuple(key for key in keys if key not in observation.children and key not in observation.strangers)


def is_protected(observation: Observation) -> bool:
    """Return False where another's object has the name of the disruption budget: none of ours protects the pods."""
    key = ("PodDisruptionBudget", names.disruption_budget(observation.cluster.name))
    return not observation.cluster.spec.disruption.pdb or key not in observation.strangers


def _is_strange(observation: Observation, manifest: Manifest) -> bool:
    return (manifest["kind"], manifest["metadata"]["name"]) in observation.strangers


def _uncontrolled(observation: Observation, wanted: list[Manifest]) -> int:
    """Return how many bookies the disruption budget is about while pods run whose StatefulSet is away, or is to go; 0
    while Kubernetes knows that itself (spec/operator.md#J9). `wanted`: the StatefulSets as they are to be."""
    mine = [case for case in observation.bookies if case.is_desired and case.is_ours]
    run = {pool.name for pool in observation.pools}
    sets = {name for kind, name in observation.children if kind == "StatefulSet"}
    for one in wanted:
        live = observation.children.get(("StatefulSet", one["metadata"]["name"]))
        if live is not None and templates.why_anew(one, live):
            sets.discard(one["metadata"]["name"])
    for case in mine:
        is_run = case.pool in run and names.stateful_set(observation.cluster.name, case.pool) in sets
        if case.pod is not None and not is_run:
            return len(mine)
    return 0


def spec_problems(observation: Observation) -> tuple[str, ...]:
    """Return what is wrong with the spec, so that no pod is made of it."""
    return (*_of_spec(observation), *windows.problems(observation.cluster.spec))


def _of_spec(observation: Observation) -> tuple[str, ...]:
    spec = observation.cluster.spec
    found = (*pools.problems(spec, config.problems), *pools.problems(spec, memory.problems))
    found = (*bounds.problems(spec), *found)
    return (*found, *_of_template(observation))


def _of_template(observation: Observation) -> tuple[str, ...]:
    if found := observation.template_problems:
        return found  # what it says beyond that cannot be read
    return fleet.template_problems(observation.cluster, observation.pools, observation.image)


def _subject(change: Apply | DeleteChild) -> str:
    """Return `Kind name` of what would change."""
    if isinstance(change, Apply):
        return f"{change.manifest['kind']} {change.manifest['metadata']['name']}"
    return f"{change.kind} {change.name}"


def _is_settled(manifest: Manifest, live: Manifest | None) -> bool:
    """Return True when there is nothing to apply. A Job's template and an immutable ConfigMap cannot change: `prune`
    deletes a wrong one first, and the next pass makes it anew; whose they are is put right. A child that is being
    deleted is left alone, and made anew when it is gone. The disruption budget counts until then."""
    if live is None:
        return False
    kind = manifest["kind"]
    if "deletionTimestamp" in live["metadata"] and kind != "PodDisruptionBudget":
        return True
    if kind in ("Job", "ConfigMap"):
        body = {key: value for key, value in manifest.items() if key != "metadata"}
        return not common.is_applied(body, live) or common.is_applied(manifest, live)
    return common.is_applied(manifest, live)


def _undying(observation: Observation, live: Manifest | None) -> Iterator[Obstacle]:
    """Yield that a child is on its way for long: it cannot be made anew before it is gone."""
    metadata = live["metadata"] if live is not None else {}
    if live is None or not (finalizers := metadata.get("finalizers")) or "deletionTimestamp" not in metadata:
        return
    since = metadata["deletionTimestamp"]
    if observation.now_ms - parse_time_or_0(since) >= _UNDYING_MS:
        yield Obstacle(
            "ApplyRefused",
            f"{live['kind']} {metadata['name']} is being deleted since {since}, and {stages.kept_by(finalizers)}; then"
            " it is made anew",
        )


def _conflicts(observation: Observation, manifest: Manifest, live: Manifest | None) -> Iterator[Obstacle]:
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    if stranger := observation.strangers.get((kind, name)):
        yield Obstacle("NameConflict", stranger)
        return
    if live is None:
        if kind == "StatefulSet" and name in observation.foreign_claims:
            yield Obstacle("NameConflict", observation.foreign_claims[name])
        return
    if kind == "StatefulSet":
        spec = observation.cluster.spec
        why = templates.why_not(
            manifest,
            live,
            is_rebuilding=spec.storage.layout_change == rebuild.ROLLING,
            added=spec.of(manifest["metadata"]["labels"][names.LABEL_POOL]).storage.added,
            taken=adding.taken(observation),
        )
        if why:
            yield Obstacle("SpecInvalid", f"StatefulSet {name}: {why}")


def _initialisation_failed(namespace: str, cluster: str) -> Obstacle:
    job = names.metadata_job(cluster)
    return Obstacle(
        "MetadataInitFailed",
        f"Job {job} failed: read `kubectl -n {namespace} logs job/{job}` and clear the cause. It is made anew when the"
        f" spec is corrected, and tried again every {prune.JOB_RETRY_MS // 60_000} minutes; at once after"
        f" `kubectl -n {namespace} delete job {job}`",
    )
