"""Nodes that are cordoned, drained, lost and back; an API server that dies."""

from __future__ import annotations

import pytest

import kube_engine
import kube_home
import kube_kind
import kube_setup
import kube_tools
from fleet_support import Fleet

pytestmark = pytest.mark.cluster

POD = "ledgers-zone-b-0"


def node_of(fleet: Fleet, pod: str) -> str:
    return str(fleet.pods()[pod]["spec"]["nodeName"])


def turn(fleet: Fleet) -> dict[str, object]:
    return (fleet.status().get("eviction") or {}).get("turn") or {}


def test_a_cordon_alone_and_back(fleet: Fleet, nodes_back: None) -> None:
    before = fleet.uids()
    fleet.edits(disruption={"onDrain": "ReadOnlyFirst"})
    node = node_of(fleet, POD)
    fleet.types(f"kubectl cordon {node}")
    fleet.sees("its bookie to be free to go", lambda: turn(fleet).get("isOpen"))
    assert turn(fleet)["bookie"] == POD
    assert fleet.bookie(POD)["state"] == "ReadOnly"
    fleet.types(f"kubectl uncordon {node}")
    fleet.sees("it to take writes again", lambda: fleet.bookie(POD)["state"] == "Serving")
    assert fleet.uids() == before
    fleet.edits(disruption=None)


def test_two_nodes_drained_at_once_lose_one_bookie_after_the_other(fleet: Fleet, nodes_back: None) -> None:
    before = fleet.uids()
    fleet.edits(disruption={"onDrain": "ReadOnlyFirst"})
    fleet.sees(
        "a closed budget", lambda: "0" in fleet.types("kubectl get pdb -o jsonpath='{.items[*].spec.maxUnavailable}'")
    )
    first, second = node_of(fleet, POD), node_of(fleet, "ledgers-zone-a-0")
    drain = "kubectl drain {} --pod-selector=bookie.dev/cluster=$NAME --delete-emptydir-data --timeout={}"
    fleet.types(f"kubectl cordon {first} {second}")
    fleet.types(f"({drain.format(first, '90s')} || true) & ({drain.format(second, '90s')} || true) & wait")
    away = {name for name, uid in fleet.uids().items() if before.get(name) != uid}
    assert len(away) == 1, "disks of the node's own: the first waits for its node, and the others for the first"
    (name,) = away
    # NodeDrained is the word for volumes of kind LocalDisk; these are claims of a provisioner that says nothing of it.
    fleet.sees("why it waits", lambda: fleet.bookie(name).get("reason") == "NotScheduled")
    fleet.types(f"kubectl uncordon {first} {second}")
    fleet.edits(disruption=None)
    fleet.settled()
    assert {name for name, uid in fleet.uids().items() if before[name] != uid} == away


def test_a_node_is_lost_and_comes_back(beside_zookeeper: str, fleet: Fleet, nodes_back: None) -> None:
    fleet.types("kubectl uncordon --selector kubernetes.io/os=linux")
    lives = {entry["name"]: entry["incarnation"] for entry in fleet.status()["bookies"]}
    claims = {name: claim["metadata"]["uid"] for name, claim in fleet.claims().items()}
    nodes = {node_of(fleet, pod) for pod in fleet.names()}
    lost = next(node for node in sorted(nodes) if node != beside_zookeeper and "control-plane" not in node)
    on_it = {name for name in fleet.names() if node_of(fleet, name) == lost}

    kube_engine.docker("kill", lost)  # its power is cut
    fleet.sees(
        "its bookies not to be called serving", lambda: all(fleet.bookie(one)["state"] != "Serving" for one in on_it)
    )
    fleet.sees("Kubernetes to know", lambda: "Unknown" in fleet.types(
        f"kubectl get node {lost} -o jsonpath='{{.status.conditions[?(@.type==\"Ready\")].status}}'"))  # fmt: skip
    assert fleet.condition("Degraded")["status"] != "False", "nobody can see whether all copies are there"
    kube_engine.docker("start", lost)
    fleet.settled()
    assert {entry["name"]: entry["incarnation"] for entry in fleet.status()["bookies"]} == lives, "nobody lost anything"
    assert {name: claim["metadata"]["uid"] for name, claim in fleet.claims().items()} == claims


def test_the_api_server_dies_in_the_middle_of_a_restart(fleet: Fleet) -> None:
    before = fleet.uids()
    name = fleet.types("kubectl create -f examples/bookieoperation.yaml -o name").strip()
    fleet.sees("its turn", lambda: (fleet.status().get("rollout") or {}).get("step"))
    control_plane = next(node for node in kube_kind.nodes(kube_home.this().name) if "control-plane" in node)
    kube_engine.docker("exec", control_plane, "sh", "-c", "kill -9 $(pgrep -x kube-apiserver)")
    fleet.sees("it to end", lambda: "Complete" in kube_tools.kubectl(
        "--namespace", kube_setup.NAMESPACE, "get", name, "-o", "jsonpath={.status.phase}"))  # fmt: skip
    assert {name for name, uid in fleet.uids().items() if before[name] != uid} == {"ledgers-zone-a-0"}
