"""One StatefulSet per pool, a zone or one of spec.pools: with the operator gone, pods come back
(spec/operator.md#K23).

Parallel: a held bookie must not block its neighbours. OnDelete: the order of restarts is the operator's. Claims are
retained by the StatefulSet whatever happens, and carry no owner: nothing but a person, or the proof of
`plan/lost_node.py`, deletes one.
"""

from typing import Any

from bookie_operator.model import names
from bookie_operator.model.cluster import Cluster
from bookie_operator.model.spec import Zone
from bookie_operator.model.storage import VolumeSpec
from bookie_operator.resources import common, inputs, pod, pod_template


def stateful_set(cluster: Cluster, pool: str, zone: Zone | None, replicas: int, image: str) -> common.Manifest:
    """Return the StatefulSet of one pool. `cluster`: as it is for that pool (`Cluster.of`)."""
    pool_label = {names.LABEL_POOL: pool}
    labels = _labels(cluster, pool)
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": common.metadata(
            cluster, names.stateful_set(cluster.name, pool), names.COMPONENT_BOOKIE, pool_label
        ),
        "spec": {
            "replicas": replicas,
            "serviceName": names.headless_service(cluster.name),
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "OnDelete"},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            "revisionHistoryLimit": 5,
            "selector": {"matchLabels": common.selector(cluster) | pool_label},
            "template": pod_template.merged(template(cluster, pool, zone, image), pod_template.overlay(cluster)),
            **_claims(cluster, labels),
        },
    }


def _claims(cluster: Cluster, labels: dict[str, str]) -> dict[str, Any]:
    claims = [_claim(volume, labels) for _, volume in cluster.spec.storage.by_role() if not volume.is_ephemeral]
    return {"volumeClaimTemplates": claims} if claims else {}


def template(cluster: Cluster, pool: str, zone: Zone | None, image: str) -> common.Manifest:
    """Return the pod template of one pool, without the user's own (spec.podTemplate)."""
    annotations = {
        names.INPUTS: inputs.digest(cluster.spec, zone),
        names.SAID: inputs.fingerprints(cluster.spec, zone),
    }
    return {
        "metadata": {"labels": _labels(cluster, pool), "annotations": annotations},
        "spec": pod.spec(cluster, pool, zone, image),
    }


def _labels(cluster: Cluster, pool: str) -> dict[str, str]:
    return common.labels(cluster, names.COMPONENT_BOOKIE) | {names.LABEL_POOL: pool}


def _claim(volume: VolumeSpec, labels: dict[str, str]) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "accessModes": [volume.access_mode or "ReadWriteOncePod"],
        "resources": {"requests": {"storage": volume.size}},
        "volumeMode": "Filesystem",
    }
    if volume.storage_class_name is not None:
        spec["storageClassName"] = volume.storage_class_name
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": volume.name, "labels": labels},
        "spec": spec,
    }
