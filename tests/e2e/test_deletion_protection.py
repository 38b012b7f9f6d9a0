"""DELETE of a protected BookieCluster is refused by the API server, where this operator watches and nowhere else."""

import json

import pytest

import kube_tools
from fleet_kubernetes import KubernetesStage
from kube_errors import CommandFailed
from kube_setup import KIND, NAMESPACE

pytestmark = pytest.mark.cluster

NAME = "guarded"
ELSEWHERE = "bookie-elsewhere"
COLLECTION = f"/apis/bookie.dev/v1alpha1/namespaces/{NAMESPACE}/bookieclusters?labelSelector=guarded%3Dtrue"


def guarded(*, is_protected: bool = True) -> str:
    """A cluster that is paused: nobody makes a pod of it."""
    volumes = {role: {"volumes": [{"name": role, "size": "64Mi"}]} for role in ("journal", "ledgers")}
    spec = {
        "replicas": 3,
        "metadataService": {"uri": f"zk+hierarchical://zookeeper:2181/{NAME}"},
        "storage": volumes,
        "lifecycle": {"paused": True, "deletionProtection": is_protected},
    }
    metadata = {"name": NAME, "labels": {"guarded": "true"}}
    return json.dumps(
        {"apiVersion": "bookie.dev/v1alpha1", "kind": "BookieCluster", "metadata": metadata, "spec": spec}
    )


def apply(namespace: str, manifest: str) -> None:
    kube_tools.kubectl("apply", "--namespace", namespace, "-f", "-", text_in=manifest)


def test_a_protected_cluster_is_deleted_only_when_the_protection_is_off(stage: KubernetesStage) -> None:
    apply(NAMESPACE, guarded())
    try:
        with pytest.raises(CommandFailed, match="this BookieCluster is protected"):
            stage.kubectl("delete", KIND, NAME)
        with pytest.raises(CommandFailed, match="this BookieCluster is protected"):
            stage.kubectl("delete", "--raw", COLLECTION)
    finally:
        apply(NAMESPACE, guarded(is_protected=False))
        stage.kubectl("delete", KIND, NAME)


def test_a_cluster_where_this_operator_does_not_watch_is_not_held_by_it(stage: KubernetesStage) -> None:
    kube_tools.kubectl("create", "namespace", ELSEWHERE)
    try:
        apply(ELSEWHERE, guarded())

        kube_tools.kubectl("--namespace", ELSEWHERE, "delete", KIND, NAME)
    finally:
        kube_tools.kubectl("delete", "namespace", ELSEWHERE, "--wait=false")
