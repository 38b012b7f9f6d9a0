"""A ZooKeeper that speaks TLS alone and asks for certificates, by the fields of the resource: all certificates are made
anew under another authority while the fleet runs, and a wrong authority is told in words."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import kube_images
import kube_load
import kube_setup
import kube_tools
import secrets_support
import tls_support
from bookie_operator.model.names import METADATA_DIR
from fleet_kubernetes import KubernetesStage
from fleet_support import Fleet
from kube_setup import NAMESPACE
from scenario_support import own_fleet, under_writers

pytestmark = pytest.mark.cluster

NAME = "sealed"
SERVER = "zookeeper-tls"
POD = f"{SERVER}-0"
PORT = 2281
OF_SERVER, OF_BOOKIES, OF_WRITERS = "sealed-server", "sealed-bookies", "sealed-writers"
REFUSED = f"TLS with {SERVER}:{PORT} failed: "
REMEDY = f"is {METADATA_DIR}/ca.crt (zkTlsTrustStore) the right authority's?"
CONFIGURATION = f"""dataDir=/data
dataLogDir=/datalog
tickTime=2000
admin.enableServer=false
maxClientCnxns=200
secureClientPort={PORT}
serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
ssl.keyStore.location=/tls/both.pem
ssl.trustStore.location=/tls/trusted.pem
ssl.clientAuth=need
"""


class Authorities:
    """Two authorities, the one that is there and its successor, and a third that vouches for nobody here."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known = {name: tls_support.Authority(name) for name in ("first", "second", "stranger")}

    def trusted(self, *names: str) -> bytes:
        """The certificates of these authorities."""
        return b"".join(Path(self.known[name].pem(self.folder)).read_bytes() for name in names)

    def server(self, by: str, *, trusts: tuple[str, ...]) -> dict[str, bytes]:
        """The files of ZooKeeper: its key and certificate by one authority, and whom it trusts."""
        files = self.client(by, trusts=trusts, host=SERVER)
        return {"both.pem": files["tls.key"] + files["tls.crt"], "trusted.pem": files["ca.crt"]}

    def client(self, by: str, *, trusts: tuple[str, ...], host: str = "bookies") -> dict[str, bytes]:
        key, certificate = self.known[by].issue(host, hosts=(host,)).pem(self.folder)
        return {
            "tls.key": Path(key).read_bytes(),
            "tls.crt": Path(certificate).read_bytes(),
            "ca.crt": self.trusted(*trusts),
        }


def manifest() -> str:
    """The example's ZooKeeper under another name, with its settings and certificates in files."""
    text = (kube_setup.ROOT / "examples" / "zookeeper.yaml").read_text().replace("2181", str(PORT))
    service, server = yaml.safe_load_all(text.replace("zookeeper", SERVER).replace(f"{SERVER}:3.9", "zookeeper:3.9"))
    pod = server["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    container["volumeMounts"] += [
        {"name": "settings", "mountPath": "/conf/zoo.cfg", "subPath": "zoo.cfg"},
        {"name": "tls", "mountPath": "/tls", "readOnly": True},
    ]
    pod["volumes"] += [
        {"name": "settings", "configMap": {"name": SERVER}},
        {"name": "tls", "secret": {"secretName": OF_SERVER}},
    ]
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": SERVER}}
    return yaml.safe_dump_all([settings | {"data": {"zoo.cfg": CONFIGURATION}}, service, server])


@pytest.fixture(scope="module")
def authorities(stage: KubernetesStage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authorities]:
    """A ZooKeeper that trusts both authorities, and the Secrets of bookies and writers."""
    del stage
    made = Authorities(tmp_path_factory.mktemp(NAME))
    both = ("first", "second")
    secrets_support.put(OF_SERVER, made.server("first", trusts=both))
    secrets_support.put(OF_BOOKIES, made.client("first", trusts=("first",)))
    secrets_support.put(OF_WRITERS, made.client("second", trusts=both))
    within = ("--namespace", NAMESPACE)
    try:
        kube_load.load([kube_images.ensure_zookeeper()])  # the fleet of the run before may have one without TLS
        kube_setup.apply_text(manifest())
        kube_tools.kubectl(*within, "rollout", "status", f"statefulset/{SERVER}", "--timeout=180s")
        yield made
    finally:
        everything = f"statefulset/{SERVER} service/{SERVER} configmap/{SERVER}".split()
        kube_tools.kubectl(*within, "delete", *everything, "--ignore-not-found")
        secrets_support.remove(OF_SERVER, OF_BOOKIES, OF_WRITERS)


def service(secret: str = OF_BOOKIES) -> dict[str, Any]:
    """The spec's metadataService of a fleet on that ZooKeeper."""
    return {
        "uri": f"zk+hierarchical://{SERVER}:{PORT}/{NAME}-{secrets.token_hex(4)}",
        "initialize": "IfAbsent",
        "sessionTimeout": "10s",
        "security": {"secretName": secret, "authentication": "None", "tls": "Mutual"},
    }


@pytest.fixture(scope="module")
def own(stage: KubernetesStage, authorities: Authorities, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    del authorities
    folder = tmp_path_factory.mktemp(f"{NAME}-shell")
    environment = {
        "BOOKIE_ZK_TLS_ENABLED": "true",
        "BOOKIE_ZK_TLS_TRUST_STORE": "/trust/ca.crt",
        "BOOKIE_ZK_TLS_KEY_STORE": "/trust/tls.key",
        "BOOKIE_ZK_TLS_CERTIFICATE_PATH": "/trust/tls.crt",
    }
    with own_fleet(stage, folder, NAME, metadataService=service(), replicas=3) as made:
        secrets_support.writers_have(made, {"secret": {"secretName": OF_WRITERS}}, "/trust", environment)
        yield made


@pytest.fixture
def fleet(own: Fleet, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    yield from under_writers(own, request)


def begins_again(fleet: Fleet) -> None:
    """End the server's process: its successor reads its certificates anew, and everybody dials it."""
    words = "-o jsonpath='{.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}'"
    before = int(fleet.types(f"kubectl get pod {POD} {words}").split()[0])
    fleet.types(f"kubectl exec {POD} -- sh -c 'kill 1'")

    def is_back() -> bool:
        count, ready = fleet.types(f"kubectl get pod {POD} {words}").split()
        return int(count) > before and ready == "true"

    fleet.sees("the metadata store to be back", is_back)


def is_whole(fleet: Fleet) -> None:
    """Wait until every bookie reaches the metadata store, and new ledgers come into being."""
    fleet.settled()
    fleet.is_written_to()
    settings = "--config /etc/bookie/bookie.properties"
    print(fleet.types(f"echo one | kubectl exec -i {NAME}-zone-a-0 -- bookie ledger write {settings}"))


def test_all_certificates_are_made_anew_while_the_fleet_runs(fleet: Fleet, authorities: Authorities) -> None:
    before, lives, both = secrets_support.restarts(fleet), fleet.incarnations(), ("first", "second")
    uri = shlex.quote(fleet.resource()["spec"]["metadataService"]["uri"])
    asks = f"kubectl exec {NAME}-zone-a-0 -- bookie cluster list-bookies --metadata-service-uri {uri} 2>&1"
    told = fleet.is_refused(asks)
    assert "zkTlsEnabled" in told, told

    # Whom to trust comes first, then the certificates, then nobody trusts the authority of before.
    bookies = authorities.client("second", trusts=both)
    secrets_support.put(OF_BOOKIES, bookies)
    secrets_support.arrives(fleet, before, f"{METADATA_DIR}/ca.crt", bookies["ca.crt"])
    server = authorities.server("second", trusts=("second",))
    secrets_support.put(OF_SERVER, server)
    secrets_support.arrives(fleet, [POD], "/tls/both.pem", server["both.pem"])
    begins_again(fleet)
    is_whole(fleet)

    bookies |= {"ca.crt": authorities.trusted("second")}
    secrets_support.put(OF_BOOKIES, bookies)
    secrets_support.arrives(fleet, before, f"{METADATA_DIR}/ca.crt", bookies["ca.crt"])
    begins_again(fleet)
    is_whole(fleet)
    assert (secrets_support.restarts(fleet), fleet.incarnations()) == (before, lives), "no restart"


def test_a_wrong_authority_is_told_in_words_and_put_right_without_a_restart(
    fleet: Fleet, authorities: Authorities
) -> None:
    before, lives = secrets_support.restarts(fleet), fleet.incarnations()
    right = secrets_support.files_of(OF_BOOKIES)
    wrong = right | {"ca.crt": authorities.trusted("stranger")}
    secrets_support.put(OF_BOOKIES, wrong)
    secrets_support.arrives(fleet, before, f"{METADATA_DIR}/ca.crt", wrong["ca.crt"])
    begins_again(fleet)
    fleet.sees("the status to say so", lambda: (fleet.status().get("metadata") or {}).get("reachable") is False)
    print(fleet.says("Ready", "MetadataUnavailable"))
    told = fleet.types(f"kubectl logs {NAME}-zone-a-0 | grep 'does not take us'").splitlines()[-1]
    assert REFUSED in told, told
    assert REMEDY in told, told

    secrets_support.put(OF_BOOKIES, right)
    is_whole(fleet)
    assert (secrets_support.restarts(fleet), fleet.incarnations()) == (before, lives), "no restart"


def test_a_new_fleet_with_a_wrong_authority_is_told_and_begins_once_it_is_put_right(
    stage: KubernetesStage, authorities: Authorities, tmp_path: Path
) -> None:
    right = secrets_support.files_of(OF_BOOKIES)
    name, secret = f"{NAME}-new", f"{OF_BOOKIES}-new"
    secrets_support.put(secret, right | {"ca.crt": authorities.trusted("stranger")})
    try:
        with own_fleet(stage, tmp_path, name, metadataService=service(secret), replicas=3) as made:
            told = ""

            def is_told() -> bool:
                nonlocal told
                told = str(made.condition("Ready").get("message", ""))
                return REFUSED in told and REMEDY in told

            made.sees("it to be told", is_told, detail=lambda: told)
            assert not made.pods(), "no bookie begins"
            secrets_support.put(secret, right)
            made.settled()
    finally:
        secrets_support.remove(secret)
