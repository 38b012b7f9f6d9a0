"""TLS of the data port: offered, required, its Secret lost, and back; a person's own certificates and users; and
records of the metadata store that belong to one user."""

from __future__ import annotations

import datetime as dt
import secrets as random_words
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kube_tools
import tls_support
from fleet_kubernetes import KubernetesStage
from fleet_support import Fleet
from kube_setup import NAMESPACE
from scenario_support import own_fleet

pytestmark = pytest.mark.cluster

OWNER = "owner"
POD = "ledgers-zone-b-0"
WRITE = """printf 'one\\ntwo\\n' | kubectl exec -i {pod} -- bookie ledger write {settings}"""
SETTINGS = "--config /etc/bookie/bookie.properties"
URI = "--metadata-service-uri zk+hierarchical://zookeeper:2181/ledgers"
# With the bookies' certificate and without their password.
NOBODY = (
    "grep -v clientAuthProviderFactoryClass /etc/bookie/bookie.properties > /tmp/nobody"
    " && echo one | bookie ledger write --config /tmp/nobody"
)
_YEAR = dt.timedelta(days=365)
PASSWORD = "correct-horse-battery"
USERS = f"""Bookie {{
  org.apache.zookeeper.server.auth.DigestLoginModule required user_bookkeeper="{PASSWORD}";
}};
BookKeeper {{
  org.apache.zookeeper.server.auth.DigestLoginModule required username="bookkeeper" password="{PASSWORD}";
}};
"""


def rolls(fleet: Fleet, mode: str) -> None:
    takes(fleet, tls={"mode": mode})


def takes(fleet: Fleet, **security: Any) -> None:
    before = fleet.uids()
    fleet.edits(security=security)
    fleet.sees(f"all to run with {security}", lambda: not fleet.uids().items() & before.items(), timeout_s=900.0)
    fleet.settled()


@pytest.fixture
def secrets(person: Fleet, tmp_path: Path) -> dict[str, Path]:
    """What a person puts into Secrets: users, and a certificate as cert-manager makes it."""
    authority = tls_support.Authority(left=_YEAR)
    whose = f"*.{person.stage.cluster}-bookies.{NAMESPACE}.svc.cluster.local"
    identity = authority.issue("bookies", hosts=(whose,), left=_YEAR)
    key, certificate = identity.pem(tmp_path)
    users = tmp_path / "jaas.conf"
    users.write_text(USERS)
    return {
        "jaas.conf": users,
        "tls.key": Path(key),
        "tls.crt": Path(certificate),
        "ca.crt": Path(authority.pem(tmp_path)),
    }


def test_tls_is_offered_required_renewed_and_given_up_again(fleet: Fleet) -> None:
    patch = "kubectl patch bookiecluster $NAME --type=merge --patch"
    assert "one step" in fleet.is_refused(
        f"""{patch} '{{"spec": {{"security": {{"tls": {{"mode": "Required"}}}}}}}}'"""
    )

    rolls(fleet, "Permissive")
    assert "BEGIN CERTIFICATE" in fleet.types("kubectl get configmap $NAME-ca -o jsonpath='{.data.ca\\.crt}'")
    fleet.is_written_to()  # in plain, as before
    print(fleet.types(WRITE.format(pod=POD, settings=SETTINGS)))

    before = fleet.uids()
    (secret,) = fleet.types("kubectl get secrets -o name | grep data-certificates").split()
    uid = "-o jsonpath='{.metadata.uid}'"
    was = fleet.types(f"kubectl get {secret} {uid}")
    fleet.types(f"kubectl delete {secret}")
    fleet.sees(
        "it to be made anew", lambda: fleet.types(f"kubectl get {secret} {uid} || true").strip() not in ("", was)
    )
    fleet.settled()
    assert fleet.uids() == before, "no restart"

    fleet.oracle.stop_writing()  # it speaks no TLS; what it wrote is read in the end, when plain is served again
    rolls(fleet, "Required")
    fleet.is_refused(WRITE.format(pod=POD, settings=URI))
    print(fleet.types(WRITE.format(pod=POD, settings=SETTINGS)))
    rolls(fleet, "Permissive")
    rolls(fleet, "Disabled")


def test_certificates_and_users_of_a_persons_own_secrets(fleet: Fleet, secrets: dict[str, Path]) -> None:
    files = {name: f"--from-file={name}={shlex.quote(str(path))}" for name, path in secrets.items()}
    fleet.types(f"kubectl create secret generic own-users {files.pop('jaas.conf')}")
    fleet.types(f"kubectl create secret generic own-certificate {' '.join(files.values())}")
    certificate: dict[str, Any] = {"secretName": "own-certificate", "verifyHostNames": True}
    users: dict[str, Any] = {"secretName": "own-users"}

    def go(mode: str) -> None:
        takes(fleet, tls=certificate | {"mode": mode}, authentication=users | {"mode": mode})

    go("Permissive")
    fleet.is_written_to()  # in plain, by somebody whom nobody asks who he is
    print(fleet.types(WRITE.format(pod=POD, settings=SETTINGS)))

    fleet.oracle.stop_writing()  # it has no password; what it wrote is read in the end, when nobody is asked again
    go("Required")
    print(fleet.types(WRITE.format(pod=POD, settings=SETTINGS)))
    fleet.is_refused(WRITE.format(pod=POD, settings=URI))
    print(fleet.is_refused(f"kubectl exec -i {POD} -- sh -c {shlex.quote(NOBODY)} < /dev/null"))
    go("Permissive")
    certificate, users = {"secretName": None, "verifyHostNames": None}, {"secretName": None}
    go("Disabled")
    fleet.types("kubectl delete secret own-users own-certificate")


@pytest.fixture
def owner(stage: KubernetesStage, tmp_path: Path) -> Iterator[Fleet]:
    """A fleet of its own that proves itself to ZooKeeper by a password, and whose records are for who knows it."""
    uri = f"zk+hierarchical://zookeeper:2181/{OWNER}-{random_words.token_hex(4)}"
    security = {"secretName": "own-zookeeper", "authentication": "Digest"}
    within = ("--namespace", NAMESPACE)
    kube_tools.kubectl("delete", "secret", "own-zookeeper", "--ignore-not-found", *within)
    word = f"--from-literal=digest=bookies:{PASSWORD}"
    kube_tools.kubectl("create", "secret", "generic", "own-zookeeper", word, *within)
    service = {"uri": uri, "initialize": "IfAbsent", "security": security}
    with own_fleet(stage, tmp_path, OWNER, metadataService=service) as made:
        yield made
    kube_tools.kubectl("delete", "secret", "own-zookeeper", *within)


def test_the_records_of_a_fleet_are_for_who_knows_its_password(owner: Fleet) -> None:
    owner.settled()
    pod, uri = f"{OWNER}-zone-a-0", owner.resource()["spec"]["metadataService"]["uri"]
    print(owner.types(WRITE.format(pod=pod, settings=SETTINGS)))

    told = owner.is_refused(WRITE.format(pod=pod, settings=f"--metadata-service-uri {shlex.quote(uri)}"))
    assert "no permission" in told, told
