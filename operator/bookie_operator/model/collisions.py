"""Finds names that two clusters of one namespace, or two volumes of one cluster, would both give to their objects.
Pure.

    StatefulSet  {cluster}-{zone or pool}              cluster `a` with zone `x-b`, and cluster `a-x` with zone `b`
    claim        {volume}-{cluster}-{zone}-{number}    volume `v` of cluster `a-b`, and volume `v-a` of cluster `b`

Kubernetes joins the parts with the very character that each part may contain, so different parts can make one name.
Two bookies on one claim would each find the other's data, so the younger cluster must not begin.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bookie_operator.model import names

Manifest = Mapping[str, Any]


def within(manifest: Manifest) -> tuple[str, ...]:
    """Return one sentence for each claim name that two volumes of this one cluster would share."""
    found = Counter(name for _, name in sorted({*_volumes(manifest)}))
    return tuple(
        f"spec.zones (or pools) and spec.storage: two volumes would have the claim {name}-0: rename a volume or a zone"
        for name, count in found.items()
        if count > 1
    )


def find(manifest: Manifest, clusters: Iterable[Manifest], claims: Sequence[Manifest]) -> str:
    """Return why the cluster of `manifest` must not begin beside `clusters` and `claims` of its namespace; "" when it
    may.

    A cluster that has claims under these names keeps the names, also when its resource was deleted and applied again.
    Else the cluster that was created first gets them; of two of the same second the one with the smaller uid.
    """
    mine, name = {*_claims(manifest)}, manifest["metadata"]["name"]
    owners = {claim["metadata"]["name"]: _owner(claim) for claim in claims if _stem(claim) in mine}
    for claim, owner in sorted(owners.items()):
        if owner not in ("", name):
            return _sentence(f"claim {claim}", f"it is of BookieCluster {owner} and may hold its data")
    return "" if name in owners.values() else _with_older(manifest, clusters)


def _with_older(manifest: Manifest, clusters: Iterable[Manifest]) -> str:
    for other in sorted(clusters, key=_age):
        if _age(other) >= _age(manifest):
            break
        shared = [f"StatefulSet {name}" for name in sorted({*_sets(manifest)} & {*_sets(other)})]
        shared += [f"claim {name}-0" for name in sorted({*_claims(manifest)} & {*_claims(other)})]
        if shared:
            return _sentence(shared[0], f"BookieCluster {other['metadata']['name']}, which is older, has it too")
    return ""


def _stem(claim: Manifest) -> str:
    return str(claim["metadata"]["name"]).rpartition("-")[0]


def _owner(claim: Manifest) -> str:
    """Return the cluster whose StatefulSet made the claim; "" for one that a person made, to bring a volume back."""
    return str((claim["metadata"].get("labels") or {}).get(names.LABEL_CLUSTER, ""))


def _sentence(what: str, why: str) -> str:
    return (
        f"this BookieCluster would use {what}, and {why}. Nothing of this one was made: give it another name, or other"
        " names of zones, pools or volumes"
    )


def _age(manifest: Manifest) -> tuple[str, str]:
    metadata = manifest["metadata"]
    return metadata.get("creationTimestamp") or "", metadata.get("uid") or ""


def _sets(manifest: Manifest) -> Iterator[str]:
    """Return the names of the cluster's StatefulSets. Read from the manifest, not from a model: a cluster whose spec is
    refused now may have had its bookies before."""
    return (names.stateful_set(manifest["metadata"]["name"], pool.get("name", "")) for pool in _pools(manifest))


def _pools(manifest: Manifest) -> Iterable[Manifest]:
    spec = manifest.get("spec") or {}
    return spec.get("pools") or spec.get("zones") or ({"name": names.POOL_DEFAULT},)


def _claims(manifest: Manifest) -> Iterator[str]:
    """Return the names of claims without the number at their end."""
    return (name for _, name in _volumes(manifest))


def _volumes(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Yield (volume, name of its claim without the number)."""
    everybodys = (manifest.get("spec") or {}).get("storage") or {}
    for pool in _pools(manifest):
        storage = pool.get("storage") or everybodys
        name = names.stateful_set(manifest["metadata"]["name"], pool.get("name", ""))
        for role in ("journal", "ledgers", "index"):
            for volume in (storage.get(role) or {}).get("volumes") or ():
                yield volume.get("name", ""), names.claim(volume.get("name", ""), name)
