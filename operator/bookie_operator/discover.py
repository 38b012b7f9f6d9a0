"""Finds the bookies of a cluster: those that the spec asks for, and every other one that an object or a record names.

Pure. Never here: a bookie left out because no spec names it. It may hold data, so it counts (decision 0016).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from bookie.ports.admin import Member
from bookie_operator.evidence.facts import BookieCase, ClaimFacts, ClaimMarks, PodFacts, VolumeCase
from bookie_operator.gateways import facts
from bookie_operator.gateways.kube import Manifest
from bookie_operator.model import assignment, names
from bookie_operator.model.assignment import BookiePool
from bookie_operator.model.cluster import Cluster
from bookie_operator.model.status import BookieStatus, PoolStatus, VolumeRecord, VolumeStatus
from bookie_operator.model.storage import VolumeKind, VolumeSpec

Claims = Mapping[str, Mapping[str, ClaimFacts]]  # by pod, then by name


def claims_by_pod(cluster: Cluster, manifests: Iterable[Manifest]) -> Claims:
    """Return the claims of this cluster, also those that a person made by hand, without our labels."""
    found: dict[str, dict[str, ClaimFacts]] = {}
    shapes = [cluster.spec, *(shape for _, shape in cluster.spec.shapes())]
    volumes = dict.fromkeys(volume.name for shape in shapes for _, volume in shape.storage.by_role())
    for manifest in manifests:
        pod = _pod_of(cluster, tuple(volumes), manifest)
        if pod is not None:
            claim = facts.claim(manifest)
            found.setdefault(pod, {})[claim.name] = claim
    return found


def _pod_of(cluster: Cluster, volumes: Sequence[str], manifest: Manifest) -> str | None:
    metadata = manifest["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if labels.get(names.LABEL_CLUSTER, cluster.name) != cluster.name:
        return None
    for volume in volumes:
        pod: str = metadata["name"].removeprefix(f"{volume}-")
        if pod != metadata["name"] and names.parse_pod(cluster.name, pod) is not None:
            return pod
    place = names.parse_bookie_id(cluster.namespace, cluster.name, annotations.get(names.MARK_BOOKIE_ID, ""))
    if place is not None:
        return names.pod(cluster.name, *place)
    if names.LABEL_POOL not in labels:
        return None
    name = f"{names.stateful_set(cluster.name, labels[names.LABEL_POOL])}-{metadata['name'].rpartition('-')[2]}"
    return name if metadata["name"].endswith(f"-{name}") and names.parse_pod(cluster.name, name) else None


def foreign_claims(cluster: Cluster, wanted: Iterable[BookiePool], manifests: Iterable[Manifest]) -> Mapping[str, str]:
    """Return, by StatefulSet, why it must not begin: a claim that its bookies would use is another cluster's. For a
    zone or pool that is added to a fleet in service; at a fleet's beginning `collisions` asks more."""
    owners = {one["metadata"]["name"]: (one["metadata"].get("labels") or {}) for one in manifests}
    out: dict[str, str] = {}
    for pool in wanted:
        own = names.stateful_set(cluster.name, pool.name)
        for _, volume in cluster.spec.of(pool.name).storage.by_role():
            stem = names.claim(volume.name, own)
            for name, labels in sorted(owners.items()):
                owner = labels.get(names.LABEL_CLUSTER, cluster.name)
                if owner != cluster.name and name.rpartition("-")[0] == stem:
                    out.setdefault(own, f"claim {name} is of BookieCluster {owner}: give pool {pool.name} another name")
    return out


def pools(
    cluster: Cluster,
    stateful_sets: Sequence[Manifest],
    claims: Claims,
    pods: Mapping[str, PodFacts],
    to_retire: Sequence[str] = (),
) -> tuple[BookiePool, ...]:
    """Return how many bookies each pool has and is to have, by its record, its running pods and its marked claims.
    `to_retire`: the bookies whose pools are to become smaller before others, where the spec asks for fewer.

    A pool that is not in the spec, nor its zone, counts while its StatefulSet or a pod of it is there. A growth may
    just have the StatefulSet away (spec/operator.md#X3): its bookies leave by proof all the same.
    """
    held = {pool.name: _given(cluster, pool) for pool in cluster.status.pools}
    sizes = dict(found for one in stateful_sets if (found := _size_of_ours(cluster, one)) is not None)
    live = sizes.keys()

    def at_least(pool: str, size: int) -> None:
        held[pool] = max(held.get(pool, 0), size)

    for pool, size in sizes.items():
        at_least(pool, size)
    for pod, its_claims in claims.items():
        place = names.parse_pod(cluster.name, pod)
        if place is None or _has_left(cluster, pod):
            continue
        # A copy of another bookie's claim, with its marks, holds nothing of the one that its name says.
        its_id = ("", names.bookie_id(cluster.namespace, cluster.name, *place))
        if any(one.marks and one.marks.bookie_id in its_id and not one.retired_at for one in its_claims.values()):
            at_least(place[0], place[1] + 1)
    without_set: set[str] = set()
    for pod, known in pods.items():
        place = names.parse_pod(cluster.name, pod)
        if place is not None and place[0] not in live and known.is_of_set and not known.is_terminating:
            without_set.add(place[0])
            at_least(place[0], place[1] + 1)
    in_spec = assignment.zones_by_pool(cluster.spec).keys()
    places = (names.parse_pod(cluster.name, one) for one in to_retire)
    first = [place[0] for place in places if place is not None and place[1] < held.get(place[0], 0)]
    return assignment.assign(
        cluster.spec, {name: size for name, size in held.items() if name in in_spec | live | without_set}, first
    )


def _size_of_ours(cluster: Cluster, manifest: Manifest) -> tuple[str, int] | None:
    """Return (pool, how many bookies it runs) of a StatefulSet; None for one that has our labels by another's hand: a
    copy under another name, or one that another controls. Counted, it would make bookies that nobody asked for."""
    metadata = manifest["metadata"]
    pool = str((metadata.get("labels") or {}).get(names.LABEL_POOL) or "")
    controllers = [one.get("uid") for one in metadata.get("ownerReferences") or () if one.get("controller")]
    if metadata["name"] != names.stateful_set(cluster.name, pool) or controllers not in ([], [cluster.uid]):
        return None
    return pool, int((manifest.get("spec") or {}).get("replicas") or 0)


def _given(cluster: Cluster, pool: PoolStatus) -> int:
    """Return how many ids the pool has given, without those at its end whose bookies are forgotten."""
    size = pool.desired
    while size > 0 and _has_left(cluster, names.pod(cluster.name, pool.name, size - 1)):
        size -= 1
    return size


def _has_left(cluster: Cluster, pod: str) -> bool:
    """Return True for a bookie that is forgotten and does not come back; its claims may not say so yet."""
    entry = cluster.status.bookie(pod)
    stored = entry.leaving if entry is not None else None
    return stored is not None and stored.state.is_gone and not stored.rebuilds


def cases(
    cluster: Cluster, wanted: tuple[BookiePool, ...], pods: Mapping[str, PodFacts], claims: Claims
) -> tuple[BookieCase, ...]:
    """Return one bare case for each bookie of the pools, in the order of pools and ordinals, then one for each other
    bookie that was found."""
    desired = {
        names.pod(cluster.name, pool.name, ordinal): (pool, ordinal)
        for pool in wanted
        for ordinal in range(pool.replicas)
    }
    remembered = [entry.name for entry in (*cluster.status.bookies, *cluster.status.orphans) if entry.pool]
    found = sorted({*pods, *claims, *remembered} - desired.keys())
    out = [
        replace(_case(cluster, name, _zone_of(pool), pods, claims), is_leaving=ordinal >= pool.wanted)
        for name, (pool, ordinal) in desired.items()
    ]
    for name in found:
        place = names.parse_pod(cluster.name, name)
        if place is not None:
            out.append(replace(_case(cluster, name, place[0], pods, claims), is_desired=False))
    return tuple(out)


def _zone_of(pool: BookiePool) -> str | None:
    if pool.zone is not None:
        return pool.zone.name
    return None if pool.is_in_spec else pool.name


def _volumes_of(cluster: Cluster, pool: str, name: str, entry: BookieStatus | None) -> Iterable[tuple[str, VolumeSpec]]:
    """Return (role, volume) of each volume that a bookie has by the spec. A pool that was taken out of `spec.pools`
    says nothing of its volumes any more: then what is stored of the bookie does, or a loss would be seen where there is
    none."""
    said = cluster.spec.of(pool).storage.by_role()
    is_said = cluster.spec.pools is None or any(one.name == pool for one in cluster.spec.pools)
    if is_said or entry is None or not entry.volumes:
        return said
    # Whether it may share a file system, its bookie has in its own settings; a shared one that is empty proves nothing
    # here either way (evidence/volume.py).
    return [(volume.role, _remembered(name, volume)) for volume in entry.volumes]


def _has(volume: VolumeSpec, pod: PodFacts | None, claim: ClaimFacts | None, entry: BookieStatus | None) -> bool:
    """Return True unless a volume is added that the bookie was never made with (spec/operator.md#X15). A StatefulSet
    makes its claim before that, so a claim alone says nothing."""
    if not volume.added or (claim is not None and claim.marks is not None):
        return True
    if pod is not None and pod.mounts is not None:
        return volume.name in pod.mounts
    return entry is not None and any(known.name == volume.name for known in entry.volumes)


def _remembered(pod: str, volume: VolumeStatus) -> VolumeSpec:
    if volume.claim == names.ephemeral_volume(volume.name, pod):
        return VolumeSpec(name=volume.name, size="0", kind=VolumeKind.EPHEMERAL)
    return VolumeSpec(name=volume.name, size="0", allow_shared_filesystem=True)


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
            claim_name=_claim_name(volume, name),
            claim=_of_pod(volume, pods.get(name), recorded.get(volume.name))
            if volume.is_ephemeral
            else its_claims.get(names.claim(volume.name, name)),
            recorded=recorded.get(volume.name),
            may_be_stale=cluster.spec.repair.stale_volume == "Repair",
            may_be_reset=cluster.spec.repair.local_disk_reset == "Auto",
            is_added=bool(volume.added),
            is_ephemeral=volume.is_ephemeral,
        )
        for role, volume in _volumes_of(cluster, place[0], name, entry)
        if _has(volume, pods.get(name), its_claims.get(names.claim(volume.name, name)), entry)
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


def _claim_name(volume: VolumeSpec, pod: str) -> str:
    return names.ephemeral_volume(volume.name, pod) if volume.is_ephemeral else names.claim(volume.name, pod)


def _of_pod(volume: VolumeSpec, pod: PodFacts | None, recorded: VolumeRecord | None) -> ClaimFacts | None:
    """Return the claim that a volume of kind Ephemeral would have: its pod is what it comes and goes with, so that the
    pod's uid is its identity, and our record of that very pod its mark (spec/operator.md#X8)."""
    if pod is None:
        return None
    is_known = recorded is not None and recorded.pvc_uid == pod.uid and recorded.incarnation > 0
    marks = (
        ClaimMarks(recorded.incarnation, fsid=recorded.fsid, claim_uid=pod.uid)
        if is_known and recorded is not None
        else None
    )
    return ClaimFacts(
        name=names.ephemeral_volume(volume.name, pod.name),
        uid=pod.uid,
        created_ms=pod.created_ms,
        marks=marks,
        owners=frozenset({pod.uid}),
    )


def with_members(
    cluster: Cluster, known: tuple[BookieCase, ...], members: tuple[Member, ...] | None
) -> tuple[BookieCase, ...]:
    """Return `known` with what the metadata store says of each, and a case for each bookie that only the store knows.

    `members` None: the store was not read, and every known bookie stays known. A bookie that is gone from everywhere is
    listed no longer.
    """
    if members is None:
        strangers = tuple(_stranger(cluster, entry.bookie_id) for entry in cluster.status.orphans if not entry.pool)
        return (*known, *strangers)
    by_id = {member.bookie_id: member for member in members}
    out = [replace(case, member=by_id.pop(case.bookie_id, None), is_listed=True) for case in known]
    left = [case for case in out if case.is_desired or case.member or case.pod or _claims_of(case)]
    for member in by_id.values():
        place = names.parse_bookie_id(cluster.namespace, cluster.name, member.bookie_id)
        if place is None:
            left.append(replace(_stranger(cluster, member.bookie_id), member=member, is_listed=True))
        else:
            name = names.pod(cluster.name, *place)
            left.append(
                replace(_case(cluster, name, place[0], {}, {}), is_desired=False, member=member, is_listed=True)
            )
    return tuple(left)


def _stranger(cluster: Cluster, bookie_id: str) -> BookieCase:
    """Return the case of another fleet's bookie. Its name is its id; where that is the name of a pod of ours (a fleet
    whose ids were the names of its pods), it is another word, as what is stored of a bookie is found by its name."""
    name = bookie_id if names.parse_pod(cluster.name, bookie_id) is None else f"id:{bookie_id}"
    return BookieCase(name, bookie_id, "", None, (), is_desired=False, is_ours=False)


def _claims_of(case: BookieCase) -> bool:
    return bool(case.other_claims) or any(volume.claim is not None for volume in case.volumes)
