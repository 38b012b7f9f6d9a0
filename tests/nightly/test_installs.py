"""Operators installed by Helm, by plain manifests and by kustomize, each for a namespace of its own beside the first;
a resource that is deleted and applied again."""

from __future__ import annotations

import datetime as dt
import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

import kube_images
import kube_load
from bookie_operator.options import LEASE_DURATION_S as DURATION_S
from fleet_support import Fleet
from kube_setup import NAMESPACE, OPERATOR_NAMESPACE, OPERATOR_RELEASE

pytestmark = pytest.mark.cluster

ELSEWHERE, ITS_OPERATOR = "nightly-data", "nightly-system"
RENDERS = (
    f"helm template second charts/bookie-operator --namespace {ITS_OPERATOR} --set 'watch.namespaces[0]={ELSEWHERE}'"
    " --set image.repository={repository} --set image.tag={tag}"
)
KUSTOMIZATION = {"resources": ["bookieclusters.yaml", "bookieoperations.yaml", "operator.yaml"]}
HOW = {
    "kubectl": f"kubectl apply --server-side --force-conflicts -f crds; {RENDERS} | kubectl apply --server-side -f -",
    "kustomize": f"cp crds/*.yaml {{folder}}; {RENDERS} > {{folder}}/operator.yaml"
    "; kubectl apply --server-side --force-conflicts -k {folder}",
    "helm": RENDERS.replace("helm template", "helm install") + " --wait",
}


def one_bookie() -> str:
    volumes = {
        role: {
            "volumes": [{"name": role, "size": "64Mi", "accessMode": "ReadWriteOnce", "allowSharedFilesystem": True}]
        }
        for role in ("journal", "ledgers")
    }
    path = f"{ELSEWHERE}-{secrets.token_hex(4)}"  # an old one has cookies
    uri = f"zk+hierarchical://zookeeper.{NAMESPACE}.svc.cluster.local:2181/{path}"
    spec = {
        "image": kube_load.name_in_cluster(kube_images.BOOKIE_IMAGE),
        "replicas": 1,
        "metadataService": {"uri": uri, "initialize": "IfAbsent"},
        "quorum": {"ensembleSize": 1, "writeQuorum": 1, "ackQuorum": 1},
        "storage": volumes,
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "tmpSize": "64Mi"},
        "lifecycle": {"deletionProtection": False},
    }
    made = {"apiVersion": "bookie.dev/v1alpha1", "kind": "BookieCluster", "metadata": {"name": "small"}, "spec": spec}
    return json.dumps(made)


@pytest.fixture
def namespaces(person: Fleet) -> Iterator[None]:
    person.types(f"kubectl create namespace {ELSEWHERE}; kubectl create namespace {ITS_OPERATOR}")
    yield
    person.types(
        f"kubectl delete namespace {ELSEWHERE}\n"
        f"{RENDERS.format(repository='bookie', tag='dev')} | kubectl delete --ignore-not-found -f -\n"
        f"kubectl delete namespace {ITS_OPERATOR}"
    )


@pytest.mark.parametrize("how", HOW)
def test_a_second_operator_minds_its_own_namespace(namespaces: None, fleet: Fleet, how: str, tmp_path: Path) -> None:
    before = fleet.uids()
    (tmp_path / "kustomization.yaml").write_text(json.dumps(KUSTOMIZATION))
    repository, _, tag = kube_load.name_in_cluster(kube_images.BOOKIE_IMAGE).rpartition(":")
    fleet.types(HOW[how].format(repository=repository, tag=tag, folder=tmp_path))
    fleet.types(f"kubectl wait --namespace {ITS_OPERATOR} deployment --all --for=condition=Available --timeout=5m")
    fleet.types(f"kubectl apply --namespace {ELSEWHERE} -f - <<'END'\n{one_bookie()}\nEND")
    fleet.types(f"kubectl wait --namespace {ELSEWHERE} bookiecluster/small --for=condition=Ready --timeout=5m")
    words = "-o jsonpath='{.items[0].status.operator.leader}'"
    leaders = {
        namespace: fleet.types(f"kubectl get bookiecluster --namespace {namespace} {words}")
        for namespace in (NAMESPACE, ELSEWHERE)
    }
    assert leaders[NAMESPACE] != leaders[ELSEWHERE]
    assert fleet.uids() == before


def _since(began: str, fleet: Fleet, here: str, words: str) -> float:
    """Seconds from one renewal of the operator's lease to the last one."""
    first, last = (
        dt.datetime.fromisoformat(one) for one in (began, fleet.types(f"kubectl get lease {here} {words}").split()[1])
    )
    return (last - first).total_seconds()


@pytest.mark.operator_lives
def test_the_second_of_two_operators_goes_on_when_the_one_that_leads_is_killed(fleet: Fleet) -> None:
    here, pod = f"--namespace {OPERATOR_NAMESPACE}", "ledgers-zone-b-0"
    scales = f"helm upgrade {OPERATOR_RELEASE} charts/bookie-operator {here} --reuse-values --wait --set replicas="
    lives = fleet.incarnations()
    words = "-o jsonpath='{.items[0].spec.leaseTransitions} {.items[0].spec.renewTime}'"
    fleet.types(f"{scales}2")
    try:
        # Two durations of a lease are long enough for whoever waits to take one that it does not see renewed.
        term, began = fleet.types(f"kubectl get lease {here} {words}").split()
        fleet.sees("the leader to renew for two durations", lambda: _since(began, fleet, here, words) > 2 * DURATION_S)
        assert fleet.types(f"kubectl get lease {here} {words}").split()[0] == term, "the leader lives, and stays"
        leader = fleet.status()["operator"]["leader"]
        names = fleet.types(f"kubectl get pods {here} -o jsonpath='{{.items[*].metadata.name}}'").split()
        (leading,) = [one for one in names if one in leader]
        fleet.loses(pod)
        fleet.types(f"kubectl delete pod {leading} {here} --grace-period=0 --force")
        fleet.sees("another one to lead", lambda: leading not in fleet.status()["operator"]["leader"],
                   detail=lambda: str(fleet.status()["operator"]))  # fmt: skip
        fleet.sees("the bookie to begin its next life", lambda: fleet.incarnations()[pod] == lives[pod] + 1)
        fleet.settled()
    finally:
        fleet.types(f"{scales}1")
    assert fleet.incarnations() == lives | {pod: lives[pod] + 1}


def test_a_resource_that_is_deleted_and_applied_again_finds_its_volumes(fleet: Fleet, tmp_path: Path) -> None:
    claims = {name: claim["metadata"]["uid"] for name, claim in fleet.claims().items()}
    lives = {entry["name"]: entry["incarnation"] for entry in fleet.status()["bookies"]}
    resource = fleet.resource()
    kept = {key: resource[key] for key in ("apiVersion", "kind", "spec")} | {"metadata": {"name": "ledgers"}}
    (tmp_path / "ledgers.json").write_text(json.dumps(kept))
    fleet.types("kubectl delete bookiecluster $NAME")
    fleet.sees("all pods to go", lambda: not fleet.pods())
    assert {name: claim["metadata"]["uid"] for name, claim in fleet.claims().items()} == claims
    fleet.types(f"kubectl apply -f {tmp_path}/ledgers.json")
    fleet.settled()
    assert {entry["name"]: entry["incarnation"] for entry in fleet.status()["bookies"]} == lives
    assert {name: claim["metadata"]["uid"] for name, claim in fleet.claims().items()} == claims


def test_a_protected_fleet_is_not_deleted(fleet: Fleet) -> None:
    fleet.edits(lifecycle={"deletionProtection": True})
    before = fleet.uids()
    assert "protected" in fleet.is_refused("kubectl delete bookiecluster $NAME")
    assert "protected" in fleet.is_refused(f"kubectl delete bookiecluster --all --namespace {NAMESPACE}")
    assert fleet.uids() == before
    fleet.edits(lifecycle={"deletionProtection": False})
