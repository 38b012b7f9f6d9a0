"""A volume that is not mounted is not an empty volume: the bookie is held, and not one byte is written under it.

One bookie on three local volumes with file systems of their own. While its pod is away, one is unmounted: what the new
pod sees in its place is an empty folder on the node's disk, with the same claim and the same PersistentVolume. Mounted
again, everything is as it was.
"""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

import kube_home
import kube_images
import kube_kind
import kube_load
import kube_tools
import kube_view
import kube_volumes
from fleet_kubernetes import KubernetesStage
from kube_setup import KIND, NAMESPACE
from kube_volumes import Volume
from waiting import wait_for

pytestmark = pytest.mark.cluster

NAME = "mounts"
ROLES = ("journal", "ledgers", "index")
TIMEOUT_S = 240.0


def cluster_manifest(node: str) -> str:
    storage: dict[str, Any] = {
        role: {"volumes": [{"name": role, "size": "64Mi", "accessMode": "ReadWriteOnce",
                            "storageClassName": kube_volumes.STORAGE_CLASS}]}
        for role in ROLES
    }  # fmt: skip
    return json.dumps(
        {
            "apiVersion": "bookie.dev/v1alpha1",
            "kind": "BookieCluster",
            "metadata": {"name": NAME},
            "spec": {
                "image": kube_load.name_in_cluster(kube_images.BOOKIE_IMAGE),
                "replicas": 1,
                "metadataService": {"uri": f"zk+hierarchical://zookeeper:2181/{NAME}", "initialize": "IfAbsent"},
                "quorum": {"ensembleSize": 1, "writeQuorum": 1, "ackQuorum": 1},
                "storage": storage,
                "repair": {"stabilization": "3s"},
                "placement": {"nodeSelector": {"kubernetes.io/hostname": node}},
                "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "tmpSize": "64Mi"},
                "lifecycle": {"deletionProtection": False},
            },
        }
    )


@pytest.fixture
def volumes(stage: KubernetesStage) -> Iterator[dict[str, Volume]]:
    """Three volumes, and a bookie that serves from them."""
    node = next(name for name in kube_kind.nodes(kube_home.this().name) if "worker" in name)
    made: dict[str, Volume] = {}
    try:
        for role in ROLES:
            made[role] = kube_volumes.create(f"{NAME}-{role}", node=node)
        kube_tools.apply(kube_volumes.manifest(list(made.values())))
        kube_tools.kubectl("apply", "--namespace", NAMESPACE, "-f", "-", text_in=cluster_manifest(node))
        wait_until("Ready", lambda status: kube_view.is_ready(status))
        yield made
    finally:
        stage.kubectl("delete", KIND, NAME, "--ignore-not-found")
        stage.kubectl("delete", "pod,pvc,configmap", "--selector", f"bookie.dev/cluster={NAME}", "--ignore-not-found")
        for volume in made.values():
            kube_tools.kubectl("delete", "pv", volume.name, "--ignore-not-found")
            kube_volumes.destroy(volume)


@contextlib.contextmanager
def pod_away(stage: KubernetesStage, pod: str, node: str) -> Iterator[None]:
    """Take the pod off its node while the body runs, so that nothing uses the volume when it comes or goes.

    Mounted under a pod that uses the bare folder, a volume would be shared with the pod's own mount of that folder
    (mount_namespaces(7), propagation), and the kubelet would unmount both when the pod ends.
    """
    kube_tools.kubectl("cordon", node)
    try:
        stage.kubectl("delete", "pod", pod)
        yield
    finally:
        kube_tools.kubectl("uncordon", node)


def status_of() -> dict[str, Any]:
    found = kube_tools.kubectl_json("--namespace", NAMESPACE, "get", KIND, NAME)
    status: dict[str, Any] = found.get("status", {})
    return status


def bookie(status: dict[str, Any]) -> dict[str, Any]:
    return next(iter(status.get("bookies", ())), {})


def wait_until(what: str, is_true: Any) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        status = status_of()
        return status if is_true(status) else None

    def detail() -> str:
        entry = bookie(status_of())
        return f"{entry.get('state')} {entry.get('verdict')} {entry.get('message')}"

    return wait_for(what, look, timeout_s=TIMEOUT_S, look_at="kubectl get bookiecluster", detail=detail, poll_s=1.0)


@pytest.mark.parametrize("role", ["ledgers"])
def test_an_unmounted_volume_is_held_and_not_one_byte_is_written(
    stage: KubernetesStage, volumes: dict[str, Volume], role: str
) -> None:
    pod = bookie(status_of())["name"]
    before = kube_volumes.files(volumes[role])
    assert before, "the bookie wrote something while its volume was mounted"

    with pod_away(stage, pod, volumes[role].node):
        kube_volumes.unmount(volumes[role])
    held = wait_until("Held/MountMissing", lambda status: bookie(status).get("state") == "Held")

    entry = bookie(held)
    assert entry["verdict"] == "MountMissing", entry
    assert role in entry["message"]
    assert not entry.get("grant")
    assert entry["incarnation"] == 1
    ready = kube_tools.kubectl_json("--namespace", NAMESPACE, "get", "pod", pod)
    assert not any(one["type"] == "Ready" and one["status"] == "True" for one in ready["status"]["conditions"])
    assert kube_volumes.files(volumes[role]) == []

    with pod_away(stage, pod, volumes[role].node):
        kube_volumes.mount(volumes[role])
    healed = wait_until("Serving again", lambda status: bookie(status).get("state") == "Serving")

    assert bookie(healed)["incarnation"] == 1
    lasting = {name for name in before if name.endswith(("/BOOKIE", "/VERSION"))}  # identity; the index makes new files
    assert lasting
    assert lasting <= set(kube_volumes.files(volumes[role]))
