"""More bookies, fewer, none of it meant, other zones, bigger volumes."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import kube_tools
import polling
from fleet_support import Fleet
from kube_errors import ClusterError
from kube_setup import NAMESPACE
from short_lives_support import dying_after_every_write

pytestmark = pytest.mark.cluster

# No node bears this zone's name.
ANYWHERE = {"name": "zone-d", "nodeSelector": {"kubernetes.io/os": "linux"}}
LAST = "ledgers-zone-a-1"  # who leaves first: the highest number of the largest zone


def leaving(fleet: Fleet, name: str = LAST) -> str:
    return str((fleet.bookie(name).get("leaving") or {}).get("state", ""))


def test_a_scale_down_that_is_taken_back_keeps_everything(fleet: Fleet) -> None:
    before, claims = fleet.uids(), set(fleet.claims())
    fleet.edits(scaleDown={"copyRate": "20Ki"})  # slow, so that there is time
    fleet.types("kubectl scale bookiecluster $NAME --replicas=3")
    fleet.sees("it to drain", lambda: leaving(fleet) == "Draining")
    fleet.sees("a count of ledgers", lambda: fleet.bookie(LAST)["leaving"].get("ledgersTotal"))
    fleet.types("kubectl scale bookiecluster $NAME --replicas=4")
    fleet.settled()
    assert (fleet.uids(), set(fleet.claims())) == (before, claims)
    assert "DrainCancelled" in fleet.types("kubectl get events.events.k8s.io")
    fleet.edits(scaleDown={"copyRate": None})


def test_a_bookie_leaves_with_proof_and_another_takes_its_place(fleet: Fleet) -> None:
    """`onScaleDown: Retain`: the old claims are in the way, and the status prints the command that works."""
    life = fleet.bookie(LAST)["incarnation"]
    fleet.types("kubectl scale bookiecluster $NAME --replicas=3")
    looks = fleet.sees("two clean looks", lambda: len((fleet.bookie(LAST).get("leaving") or {}).get("looks", ())) >= 2)
    assert looks
    fleet.types(f"kubectl wait pod/{LAST} --for=delete --timeout=10m")
    fleet.sees("its cookie to be gone", lambda: leaving(fleet) == "Forgotten")
    fleet.settled()
    kept = {name: claim for name, claim in fleet.claims().items() if name.endswith(LAST)}
    assert len(kept) == 3
    assert all("bookie.dev/retired-at" in claim["metadata"]["annotations"] for claim in kept.values())
    told = fleet.types("kubectl get events.events.k8s.io")
    assert all(word in told for word in ("DrainStarted", "BookieDrained", "BookieRetired")), told

    fleet.types("kubectl scale bookiecluster $NAME --replicas=4")
    told = fleet.says("Stalled", "RetiredClaims")
    (command,) = set(re.findall(r"`(kubectl [^`]*delete pvc[^`]*)`", told))
    fleet.types(command)
    fleet.settled()
    assert fleet.bookie(LAST)["incarnation"] == life + 1, "its record of lives stays when its cookie goes"


def test_forty_instead_of_four_leaves_nothing_behind(fleet: Fleet) -> None:
    before, claims = fleet.uids(), set(fleet.claims())
    nodes = "--selector kubernetes.io/os=linux"
    fleet.types(f"kubectl cordon {nodes}")  # nobody has room for them
    fleet.types("kubectl scale bookiecluster $NAME --replicas=40")
    fleet.sees("pods of the typing error", lambda: len(fleet.pods()) >= 40)
    fleet.types("kubectl scale bookiecluster $NAME --replicas=4")
    fleet.sees("them to be gone", lambda: set(fleet.pods()) == set(before))
    fleet.types(f"kubectl uncordon {nodes}")
    fleet.settled()
    assert (fleet.uids(), set(fleet.claims())) == (before, claims)
    assert not fleet.status().get("orphans")


@pytest.mark.operator_lives
def test_a_zone_comes_and_goes_while_the_operator_dies_after_every_write(fleet: Fleet) -> None:
    before, claims = fleet.uids(), set(fleet.claims())
    spec = fleet.resource()["spec"]
    retention = {"onScaleDown": "Delete", "keepFor": "0s"}
    fleet.edits(replicas=5, zones=[*spec["zones"], ANYWHERE], storage={"retention": retention})
    fleet.settled()
    assert set(fleet.uids()) - set(before) == {"ledgers-zone-d-0"}
    with dying_after_every_write() as deaths:
        fleet.edits(replicas=4, zones=spec["zones"])
        fleet.types("kubectl wait statefulset/$NAME-zone-d --for=delete --timeout=15m", timeout_s=1000.0)
        fleet.sees("its claims to go", lambda: set(fleet.claims()) == claims)
        assert deaths() >= 5
    fleet.edits(storage={"retention": None})
    fleet.settled()
    assert fleet.uids() == before, "nobody else was touched"
    assert not fleet.status().get("orphans")


def test_a_number_that_goes_up_and_down_loses_nothing(fleet: Fleet) -> None:
    """What an autoscaler does; `onScaleDown: Delete` is for it."""
    before = fleet.uids()
    fleet.edits(storage={"retention": {"onScaleDown": "Delete", "keepFor": "0s"}})
    fleet.types("kubectl scale bookiecluster $NAME --replicas=6")
    fleet.sees("six to serve", lambda: fleet.status().get("writableReplicas") == 6)
    fleet.types("kubectl scale bookiecluster $NAME --replicas=4")
    fleet.sees("one to leave", lambda: any(one.get("leaving") for one in fleet.status()["bookies"]))
    fleet.types("kubectl scale bookiecluster $NAME --replicas=5")
    fleet.settled()
    fleet.types("kubectl scale bookiecluster $NAME --replicas=4")
    fleet.settled()
    assert fleet.uids() == before
    fleet.edits(storage={"retention": None})


def sizes(fleet: Fleet, size: str) -> dict[str, Any]:
    """The spec's storage with another size of the ledger volume."""
    storage: dict[str, Any] = fleet.resource()["spec"]["storage"]
    storage["ledgers"]["volumes"][0]["size"] = size
    return storage


def test_a_class_that_cannot_grow_is_told_and_the_size_set_back(fleet: Fleet) -> None:
    before = fleet.uids()
    fleet.edits(storage=sizes(fleet, "3Gi"))
    told = fleet.says("Stalled", "ExpansionInfeasible")
    assert "setting it back to 2Gi is enough" in told, told
    fleet.edits(storage=sizes(fleet, "2Gi"))
    fleet.settled()
    assert fleet.uids() == before


@pytest.fixture
def expander(person: Fleet) -> Iterator[None]:
    """Play a driver that can: the class allows expansion, and whoever resizes says that the claim has grown.

    Real are the API server's checks, the operator, and its StatefulSets; no file system grew.
    """
    del person
    ended = threading.Event()
    kube_tools.kubectl("patch", "storageclass", "standard", "--patch", '{"allowVolumeExpansion": true}')

    def grows() -> bool | None:
        try:
            for claim in kube_tools.kubectl_json("--namespace", NAMESPACE, "get", "pvc")["items"]:
                asked = claim["spec"]["resources"]["requests"]["storage"]
                if claim["status"].get("capacity", {}).get("storage", asked) != asked:
                    patch = json.dumps({"status": {"capacity": {"storage": asked}}})
                    name = claim["metadata"]["name"]
                    kube_tools.kubectl("--namespace", NAMESPACE, "patch", "pvc", name, "--subresource=status",
                                       "--type=merge", "--patch", patch)  # fmt: skip
        except ClusterError:
            pass  # asked again in a moment
        return True if ended.is_set() else None

    driver = threading.Thread(target=lambda: polling.first(grows, timeout_s=3600.0, poll_s=2.0), daemon=True)
    driver.start()
    yield
    ended.set()
    driver.join()
    kube_tools.kubectl("patch", "storageclass", "standard", "--patch", '{"allowVolumeExpansion": false}')


@pytest.mark.operator_lives
def test_volumes_grow_while_the_operator_dies_after_every_write(fleet: Fleet, expander: None) -> None:
    before = fleet.uids()
    sets = fleet.types("kubectl get statefulset -l bookie.dev/cluster=$NAME -o jsonpath='{.items[*].metadata.uid}'")
    with dying_after_every_write():
        fleet.edits(storage=sizes(fleet, "3Gi"))
        fleet.sees(
            "the last claim to have grown", lambda: fleet.status().get("expansion") is None and has(fleet, "3Gi")
        )
    fleet.settled()
    assert fleet.uids() == before, "no pod restarted"
    now = fleet.types("kubectl get statefulset -l bookie.dev/cluster=$NAME -o jsonpath='{.items[*].metadata.uid}'")
    assert not set(now.split()) & set(sets.split()), "each StatefulSet was made anew, around its pods"


def has(fleet: Fleet, size: str) -> bool:
    claims = [claim for name, claim in fleet.claims().items() if name.startswith("ledgers-ledgers")]
    return all(claim["status"]["capacity"]["storage"] == size for claim in claims)
