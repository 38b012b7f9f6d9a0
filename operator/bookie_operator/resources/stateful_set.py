"""One StatefulSet per zone: with the operator gone, pods still come back (spec/operator.md#K23).

Parallel: a held bookie must not block its neighbours. OnDelete: the order of restarts is the operator's. Claims are
retained by the StatefulSet whatever happens, and carry no owner: nothing but a person deletes one.
"""

from typing import Any

from bookie_operator.model import names
from bookie_operator.model.cluster import Cluster
from bookie_operator.model.spec import Zone
from bookie_operator.model.storage import VolumeSpec
from bookie_operator.resources import common, inputs, pod


def stateful_set(cluster: Cluster, pool: str, zone: Zone | None, replicas: int, image: str) -> common.Manifest:
    pool_label = {names.LABEL_POOL: pool}
    labels = common.labels(cluster, names.COMPONENT_BOOKIE) | pool_label
    annotations = {names.INPUTS: inputs.digest(cluster.spec, zone)}
    template = {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": pod.spec(cluster, pool, zone, image),
    }
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
            "template": template,
            "volumeClaimTemplates": [_claim(volume, labels) for _, volume in cluster.spec.storage.by_role()],
        },
    }


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
