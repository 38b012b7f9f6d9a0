"""Finds the bookies of a cluster: those that the spec asks for, and every other one that an object or a record names.

Pure. Never here: a bookie left out because no spec names it. It may hold data, so it counts (decision 0016).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from bookie.ports.admin import Member
from bookie_operator.evidence.facts import BookieCase, ClaimFacts, PodFacts, VolumeCase
from bookie_operator.gateways import facts
from bookie_operator.gateways.kube import Manifest
from bookie_operator.model import assignment, names
from bookie_operator.model.assignment import BookiePool
from bookie_operator.model.cluster import Cluster

Claims = Mapping[str, Mapping[str, ClaimFacts]]  # by pod, then by name


def claims_by_pod(cluster: Cluster, manifests: Iterable[Manifest]) -> Claims:
    """Return the claims of this cluster, also those that a person made by hand, without our labels."""
    found: dict[str, dict[str, ClaimFacts]] = {}
    for manifest in manifests:
        pod = _pod_of(cluster, manifest)
        if pod is not None:
            claim = facts.claim(manifest)
            found.setdefault(pod, {})[claim.name] = claim
    return found


def _pod_of(cluster: Cluster, manifest: Manifest) -> str | None:
    metadata = manifest["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if labels.get(names.LABEL_CLUSTER, cluster.name) != cluster.name:
        return None
    for _, volume in cluster.spec.storage.by_role():
        pod: str = metadata["name"].removeprefix(f"{volume.name}-")
        if pod != metadata["name"] and names.parse_pod(cluster.name, pod) is not None:
            return pod
    place = names.parse_bookie_id(cluster.namespace, cluster.name, annotations.get(names.MARK_BOOKIE_ID, ""))
    if place is not None:
        return names.pod(cluster.name, *place)
    if names.LABEL_POOL not in labels:
        return None
    name = f"{names.stateful_set(cluster.name, labels[names.LABEL_POOL])}-{metadata['name'].rpartition('-')[2]}"
    return name if metadata["name"].endswith(f"-{name}") and names.parse_pod(cluster.name, name) else None


def pools(cluster: Cluster, stateful_sets: Iterable[Manifest], claims: Claims) -> tuple[BookiePool, ...]:
    """Return how many bookies each pool must have, by its record, its running pods and its marked claims."""
    held = {pool.name: pool.desired for pool in cluster.status.pools}

    def at_least(pool: str, size: int) -> None:
        held[pool] = max(held.get(pool, 0), size)

    for manifest in stateful_sets:
        pool = (manifest["metadata"].get("labels") or {}).get(names.LABEL_POOL)
        if pool is not None:
            at_least(pool, int((manifest.get("spec") or {}).get("replicas") or 0))
    for pod, its_claims in claims.items():
        place = names.parse_pod(cluster.name, pod)
        if place is not None and any(claim.marks is not None for claim in its_claims.values()):
            at_least(place[0], place[1] + 1)
    return assignment.assign(cluster.spec, held)


def cases(
    cluster: Cluster, wanted: tuple[BookiePool, ...], pods: Mapping[str, PodFacts], claims: Claims
) -> tuple[BookieCase, ...]:
    """Return one bare case per desired bookie, in the order of pools and ordinals, then one for each other bookie that
    was found."""
    desired = {
        names.pod(cluster.name, pool.name, ordinal): pool.zone.name if pool.zone is not None else None
        for pool in wanted
        for ordinal in range(pool.replicas)
    }
    remembered = [entry.name for entry in (*cluster.status.bookies, *cluster.status.orphans) if entry.pool]
    found = sorted({*pods, *claims, *remembered} - desired.keys())
    out = [_case(cluster, name, zone, pods, claims) for name, zone in desired.items()]
    for name in found:
        place = names.parse_pod(cluster.name, name)
        if place is not None:
            out.append(replace(_case(cluster, name, place[0], pods, claims), is_desired=False))
    return tuple(out)


def _case(cluster: Cluster, name: str, zone: str | None, pods: Mapping[str, PodFacts], claims: Claims) -> BookieCase:
    place = names.parse_pod(cluster.name, name)
    assert place is not None
    its_claims = claims.get(name, {})
    entry = cluster.status.bookie(name)
    recorded = {volume.name: volume.recorded for volume in entry.volumes} if entry is not None else {}
    volumes = tuple(
        VolumeCase(
            name=volume.name,
            role=role,
            is_local_disk=volume.is_local_disk,
            shares_filesystem=volume.shares_filesystem,
            claim_name=names.claim(volume.name, name),
            claim=its_claims.get(names.claim(volume.name, name)),
            recorded=recorded.get(volume.name),
        )
        for role, volume in cluster.spec.storage.by_role()
    )
    expected = {volume.claim_name for volume in volumes}
    return BookieCase(
        name=name,
        bookie_id=names.bookie_id(cluster.namespace, cluster.name, *place),
        pool=place[0],
        zone=zone,
        pod=pods.get(name),
        volumes=volumes,
        other_claims=tuple(claim for claim_name, claim in its_claims.items() if claim_name not in expected),
    )


def with_members(
    cluster: Cluster, known: tuple[BookieCase, ...], members: tuple[Member, ...] | None
) -> tuple[BookieCase, ...]:
    """Return `known` with what the metadata store says of each, and a case for each bookie that only the store knows.

    `members` None: the store was not read, and every known bookie stays known. A bookie that is gone from everywhere is
    listed no longer.
    """
    if members is None:
        strangers = tuple(
            BookieCase(entry.name, entry.bookie_id, "", None, (), is_desired=False, is_ours=False)
            for entry in cluster.status.orphans
            if not entry.pool
        )
        return (*known, *strangers)
    by_id = {member.bookie_id: member for member in members}
    out = [replace(case, member=by_id.pop(case.bookie_id, None)) for case in known]
    left = [case for case in out if case.is_desired or case.member or case.pod or _claims_of(case)]
    for member in by_id.values():
        place = names.parse_bookie_id(cluster.namespace, cluster.name, member.bookie_id)
        if place is None:
            stranger = BookieCase(member.bookie_id, member.bookie_id, "", None, (), is_desired=False, is_ours=False)
            left.append(replace(stranger, member=member))
        else:
            name = names.pod(cluster.name, *place)
            left.append(replace(_case(cluster, name, place[0], {}, {}), is_desired=False, member=member))
    return tuple(left)


def _claims_of(case: BookieCase) -> bool:
    return bool(case.other_claims) or any(volume.claim is not None for volume in case.volumes)
