"""The metadata store goes away and comes back, dies, and is emptied."""

from __future__ import annotations

import json

import pytest

import kube_engine
from fleet_support import Fleet

pytestmark = pytest.mark.cluster

POD = "ledgers-zone-b-0"
# As an accident would: the records go, and no client was told to delete anything.
EMPTIES = """
import sys
from kazoo.client import KazooClient
client = KazooClient(hosts="zookeeper:2181", timeout=20.0)
client.start(30)
gone = 0
for ledger in sys.argv[1:]:
    text = f"{int(ledger):010d}"
    client.delete(f"/ledgers/{text[:2]}/{text[2:6]}/L{text[6:]}")
    gone += 1
print("deleted", gone)
client.stop()
"""


def zookeeper(fleet: Fleet, signal: str) -> None:
    """Send `signal` to the server's process, as the node sees it."""
    # Brackets: the pattern must not find the very shell that looks.
    node = fleet.types("kubectl get pod zookeeper-0 -o jsonpath='{.spec.nodeName}'").strip()
    kube_engine.docker("exec", node, "sh", "-c", f"kill -{signal} $(pgrep -f [Q]uorumPeerMain)")


def test_the_metadata_store_is_away_for_longer_than_a_session(fleet: Fleet) -> None:
    before, lives = fleet.uids(), [entry["incarnation"] for entry in fleet.status()["bookies"]]
    zookeeper(fleet, "STOP")
    try:
        fleet.sees("the status to say so", lambda: not (fleet.status().get("metadata") or {}).get("reachable", True))
        assert fleet.condition("Ready")["status"] != "True"
        fleet.edits(config={"flushInterval": "7100"})  # must wait
        fleet.sees("the edit to be seen", lambda: fleet.condition("UpToDate"))
        assert fleet.uids() == before
    finally:
        zookeeper(fleet, "CONT")
    fleet.edits(config={"flushInterval": None})
    fleet.settled()
    assert [entry["incarnation"] for entry in fleet.status()["bookies"]] == lives


def test_the_metadata_store_dies_and_starts_again(fleet: Fleet) -> None:
    before = fleet.uids()
    zookeeper(fleet, "KILL")
    fleet.sees("it to be started", lambda: "1" in fleet.types(
        "kubectl get pod zookeeper-0 -o jsonpath='{.status.containerStatuses[0].restartCount}'"))  # fmt: skip
    fleet.types("kubectl wait pod/zookeeper-0 --for=condition=Ready --timeout=5m")
    fleet.is_written_to()
    fleet.settled()
    assert fleet.uids() == before


@pytest.fixture
def earlier_ledgers(person: Fleet) -> list[str]:
    """Ledgers of writers that nobody asks for any more: those of the scenarios before."""
    return [
        line
        for line in person.types(
            f"kubectl exec {POD} -- bookie ledger list --config /etc/bookie/bookie.properties"
        ).split()
        if line.isdigit()
    ]


def test_an_emptied_metadata_store_stops_whatever_would_harm(earlier_ledgers: list[str], fleet: Fleet) -> None:
    assert len(earlier_ledgers) > 20
    print(fleet.types(f"kubectl exec -i {POD} -- python - {' '.join(earlier_ledgers)} <<'END'\n{EMPTIES}\nEND"))
    pods = " ".join(fleet.names())
    fleet.types(f"for pod in {pods}; do kubectl exec $pod -- bookie node collect-garbage || true; done")
    fleet.says("Stalled", "MetadataCollapsed")
    fleet.sees("each to hold what is gone", lambda: all(
        entry.get("garbageHeldLedgers") for entry in fleet.status()["bookies"]))  # fmt: skip
    fleet.sees("a closed budget", lambda: fleet.status()["budget"]["effectiveMaxUnavailable"] == 0)

    life = fleet.bookie(POD)["incarnation"]
    fleet.loses(POD)
    fleet.sees("gate G2", lambda: "G2-Metadata" in json.dumps(fleet.bookie(POD).get("gates", ())))
    assert fleet.bookie(POD)["incarnation"] == life
    others = " ".join(name for name in fleet.names() if name != POD)
    fleet.types(f"for pod in {others}; do kubectl exec $pod -- bookie node release-garbage --yes; done")
    fleet.sees("it to heal", lambda: fleet.bookie(POD).get("incarnation", 0) == life + 1)
