"""The parts that all children share: labels, owner reference, and the hash that tells whether an object is as we
applied it."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from bookie_operator.model import names, values
from bookie_operator.model.cluster import Cluster

Manifest = dict[str, Any]


def labels(cluster: Cluster, component: str) -> dict[str, str]:
    return {
        names.LABEL_NAME: "bookie",
        names.LABEL_INSTANCE: cluster.name,
        names.LABEL_COMPONENT: component,
        names.LABEL_MANAGED_BY: names.MANAGED_BY,
        names.LABEL_CLUSTER: cluster.name,
    }


def selector(cluster: Cluster) -> dict[str, str]:
    """Return labels that select this cluster's bookies. Immutable in a StatefulSet: never add one."""
    return {names.LABEL_CLUSTER: cluster.name, names.LABEL_COMPONENT: names.COMPONENT_BOOKIE}


def metadata(cluster: Cluster, name: str, component: str, extra: dict[str, str] | None = None) -> Manifest:
    """Return the metadata of an owned child, which is deleted with the cluster (claims are no children)."""
    return {
        "name": name,
        "namespace": cluster.namespace,
        "labels": labels(cluster, component) | (extra or {}),
        "ownerReferences": [owner(cluster, is_controller=True)],
    }


def owner(cluster: Cluster, *, is_controller: bool) -> Manifest:
    """Return the reference by which Kubernetes deletes an object with its last owner. At most one owner is the
    controller."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "name": cluster.name,
        "uid": cluster.uid,
        "controller": is_controller,
        "blockOwnerDeletion": False,
    }


def digest(value: object) -> str:
    """Return sixteen hex digits over canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def marked(manifest: Manifest) -> Manifest:
    """Return `manifest` with its own hash as an annotation."""
    annotations = dict(manifest["metadata"].get("annotations") or {})
    annotations.pop(names.APPLIED_HASH, None)
    bare = manifest | {"metadata": manifest["metadata"] | {"annotations": annotations}}
    annotations = annotations | {names.APPLIED_HASH: digest(bare)}
    return manifest | {"metadata": manifest["metadata"] | {"annotations": annotations}}


def is_applied(desired: Manifest, live: Manifest | None) -> bool:
    """Return True when `live` came from exactly `desired` (hash) and no leaf of it was changed since (drift)."""
    return live is not None and _contains(live, desired)


def part(live: object, desired: object) -> object:
    """Return what `live` has in the places that `desired` names; lists whole."""
    if isinstance(live, dict) and isinstance(desired, dict):
        return {key: part(live.get(key), value) for key, value in desired.items()}
    return live


def _has_in_order(live: Sequence[object], desired: Sequence[object]) -> bool:
    """Return True when every desired item is there, in order. Other items between them come from others: a mesh's
    container, a policy's toleration, an admission's variable. An apply would leave them, or its owner would put them
    back: it would never end. When we no longer want an item, the hash of the desired object changes, and that starts an
    apply."""
    rest = iter(live)
    return all(any(_contains(one, wanted) for one in rest) for wanted in desired)


def _contains(live: object, desired: object) -> bool:
    match desired:
        case _ if live is None and not desired:
            return True  # the API server drops empty maps, lists and false flags of some fields
        case dict():
            return isinstance(live, dict) and all(_contains(live.get(key), value) for key, value in desired.items())
        case [dict(), *_]:
            return isinstance(live, list) and _has_in_order(live, desired)
        case list():
            return (
                isinstance(live, list)
                and len(live) == len(desired)
                and all(_contains(one, other) for one, other in zip(live, desired, strict=True))
            )
        case str() if isinstance(live, str) and live != desired:
            return values.is_same_quantity(live, desired)
        case _:
            return live == desired
