"""IPv4 and IPv6 as a field: one family, both, one again, and a fleet whose names have IPv6 alone. A client whose only
way to a bookie is of one family writes and reads there, and every port answers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

import kube_setup
import kube_tools
from fleet_kubernetes import KubernetesStage
from fleet_support import Fleet
from kube_setup import NAMESPACE
from scenario_support import own_fleet, under_writers

pytestmark = pytest.mark.cluster

SIX = "six"
V4, V6 = "IPv4", "IPv6"
# Nothing is acknowledged before all bookies of the fleet have answered.
EVERY = "--ensemble-size 4 --write-quorum 4 --ack-quorum 4"
LINES = "".join(f"entry {number}\\n" for number in range(50))
# One name after the other, with its addresses.
RESOLVE = """
import socket, sys

for name in sys.argv[1:]:
    print(name, *sorted({found[4][0] for found in socket.getaddrinfo(name, None)}))
"""
# One address after the other: what the pod's other ports answer there. Nobody is let in over TLS without a certificate
# of the operator's, but the bookie shows its own first.
PORTS = """
import socket, ssl, sys, urllib.request
import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
question = health_pb2.HealthCheckRequest(service="serving")
for address in sys.argv[1:]:
    host = f"[{address}]" if ":" in address else address
    with grpc.insecure_channel(f"{host}:3182") as channel:
        health = health_pb2_grpc.HealthStub(channel).Check(question, timeout=20).status
    with socket.create_connection((address, 3184), 20) as plain, anybody.wrap_socket(plain) as tls:
        certificate = tls.getpeercert(binary_form=True)
    with urllib.request.urlopen(f"http://{host}:3183/metrics", timeout=20) as answer:
        figures = answer.read().decode()
    print(health == 1, bool(certificate), "bookie_" in figures)
"""


@pytest.fixture(scope="module", autouse=True)
def both_families(stage: KubernetesStage) -> None:
    nodes = kube_tools.kubectl_json("get", "nodes")["items"]
    if any(len(node["spec"].get("podCIDRs", ())) < 2 for node in nodes):
        pytest.skip("this Kubernetes has one family of addresses alone")


@pytest.fixture(scope="module")
def own(stage: KubernetesStage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with own_fleet(stage, tmp_path_factory.mktemp(SIX), SIX, network=single(V6)) as made:
        yield made


@pytest.fixture
def six(own: Fleet, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    yield from under_writers(own, request)


def single(family: str) -> dict[str, Any]:
    return {"ipFamilyPolicy": "SingleStack", "ipFamilies": [family]}


def both(first: str, second: str) -> dict[str, Any]:
    return {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": [first, second]}


# ---- what is there ---------------------------------------------------------------------------------------------------


def known_as(fleet: Fleet) -> dict[str, str]:
    """The name of each bookie, by its pod."""
    domain = f"{fleet.stage.cluster}-bookies.{NAMESPACE}.svc.cluster.local"
    return {pod: f"{pod}.{domain}" for pod in fleet.pods()}


def addresses(fleet: Fleet, *families: str) -> dict[str, list[str]]:
    """The addresses of each bookie's pod, of `families`, by its name: in order of text. The Service has no part in
    them."""
    known, found = known_as(fleet), dict[str, list[str]]()
    for pod, made in fleet.pods().items():
        every = sorted(one["ip"] for one in made["status"].get("podIPs", ()))
        found[known[pod]] = [one for one in every if (V6 if ":" in one else V4) in families]
    return found


def of_service(fleet: Fleet) -> list[str]:
    name = f"{fleet.stage.cluster}-bookies"
    found: list[str] = kube_tools.kubectl_json("--namespace", NAMESPACE, "get", "service", name)["spec"]["ipFamilies"]
    return found


def runs(fleet: Fleet, pod: str, script: str, *arguments: str) -> list[str]:
    """What a script of Python prints in this pod, line by line."""
    words = " ".join(f"'{one}'" for one in arguments)
    return fleet.types(f"kubectl exec -i {pod} -- python - {words} <<'END'\n{script}\nEND").splitlines()


def resolved(fleet: Fleet, pod: str) -> dict[str, list[str]]:
    """Where the bookies' names lead, as a pod sees it."""
    lines = runs(fleet, pod, RESOLVE, *known_as(fleet).values())
    return {name: found for name, *found in (line.split() for line in lines)}


def takes(fleet: Fleet, network: dict[str, Any], *families: str) -> None:
    """The edit reaches the Service, then the names, as the writers see them."""
    fleet.edits(network={"ipFamilyPolicy": None, "ipFamilies": None} | network)
    fleet.sees(f"a Service of {families}", lambda: of_service(fleet) == list(families))
    fleet.settled()
    fleet.sees(f"names of {families}", lambda: resolved(fleet, fleet.stage.writers) == addresses(fleet, *families))
    fleet.is_written_to()
    print("written to by", families)


# ---- a client of one family ------------------------------------------------------------------------------------------


@contextlib.contextmanager
def client(fleet: Fleet, family: str) -> Iterator[str]:
    """A pod that knows one address of each bookie and no other, by its own file of hosts; yields its name."""
    made = yaml.safe_load((kube_setup.ROOT / "examples" / "workload.yaml").read_text())
    name = f"{fleet.stage.cluster}-by-{family.lower()}"
    made["metadata"] = {"name": name}
    (container,) = made["spec"]["containers"]
    container |= {"command": ["sleep", "infinity"], "args": []}
    known = addresses(fleet, family)
    made["spec"] |= {
        "hostAliases": [{"ip": address, "hostnames": [name]} for name, (address,) in known.items()],
        "terminationGracePeriodSeconds": 1,
    }
    kube_setup.apply_text(yaml.safe_dump(made))
    try:
        fleet.types(f"kubectl wait --for=condition=Ready pod/{name} --timeout=180s")
        assert resolved(fleet, name) == known
        yield name
    finally:
        fleet.types(f"kubectl delete pod {name} --wait=false --grace-period=1")


def is_served(fleet: Fleet, family: str) -> None:
    """A client of `family` writes each entry to all bookies, reads all copies, and is answered by every port."""
    uri = fleet.resource()["spec"]["metadataService"]["uri"]
    with client(fleet, family) as pod:
        bookie = f"kubectl exec -i {pod} -- bookie ledger"
        write = f"{bookie} write --metadata-service-uri {uri} {EVERY}"
        ledger = fleet.types(f"printf '{LINES}' | {write} 2>/dev/null").strip()
        told = fleet.types(f"{bookie} read --metadata-service-uri {uri} {ledger}")
        assert told == LINES.replace("\\n", "\n")
        print(fleet.types(f"{bookie} check --read --metadata-service-uri {uri} {ledger}"))
        found = [address for (address,) in addresses(fleet, family).values()]
        assert runs(fleet, pod, PORTS, *found) == ["True True True"] * len(found)


# ---- scenarios -------------------------------------------------------------------------------------------------------


def test_a_fleet_gets_a_second_family_and_gives_it_back(fleet: Fleet) -> None:
    before = fleet.uids()
    assert of_service(fleet) == [V4]
    takes(fleet, both(V4, V6), V4, V6)
    is_served(fleet, V6)
    is_served(fleet, V4)

    patch = "kubectl patch bookiecluster $NAME --type=merge --patch"
    turned = '{"spec": {"network": {"ipFamilies": ["IPv6", "IPv4"]}}}'
    assert "cannot change its first family" in fleet.is_refused(f"{patch} '{turned}'")

    takes(fleet, single(V4), V4)
    takes(fleet, {"ipFamilyPolicy": "PreferDualStack"}, V4, V6)
    takes(fleet, single(V6), V6)  # from one to the other, with nothing in between
    is_served(fleet, V6)
    takes(fleet, {"ipFamilyPolicy": "PreferDualStack"}, V4, V6)  # whichever it had: the order is the Kubernetes' own
    takes(fleet, single(V4), V4)
    assert fleet.uids() == before, "bookies listen to both families from their start"


def test_a_fleet_of_ipv6_alone_heals_and_gets_the_second_family(six: Fleet) -> None:
    assert of_service(six) == [V6]
    assert resolved(six, six.stage.writers) == addresses(six, V6), "so its writers have no other way"
    is_served(six, V6)
    first = min(six.names())
    six.loses(first)
    six.sees("its loss to heal", lambda: [one["result"] for one in six.status().get("history", ())] == ["Healed"])
    six.settled()

    before = six.uids()
    takes(six, both(V6, V4), V6, V4)
    is_served(six, V4)
    is_served(six, V6)
    takes(six, single(V6), V6)
    assert six.uids() == before
