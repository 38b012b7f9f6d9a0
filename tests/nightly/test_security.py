"""TLS of the data port: offered, required, its Secret lost, and back."""

from __future__ import annotations

import pytest

from fleet_support import Fleet

pytestmark = pytest.mark.cluster

POD = "ledgers-zone-b-0"
WRITE = """printf 'one\\ntwo\\n' | kubectl exec -i {pod} -- bookie ledger write {settings}"""
SETTINGS = "--config /etc/bookie/bookie.properties"
URI = "--metadata-service-uri zk+hierarchical://zookeeper:2181/ledgers"


def rolls(fleet: Fleet, mode: str) -> None:
    before = fleet.uids()
    fleet.edits(security={"tls": {"mode": mode}})
    fleet.sees(f"all to run with {mode}", lambda: not fleet.uids().items() & before.items(), timeout_s=900.0)
    fleet.settled()


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
