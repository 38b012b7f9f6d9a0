"""A fleet of its own that changes its shape: it goes over to pools, which has no way back, gets another pool and gives
it up again; its volumes change their class by rebuilding one bookie after the other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import kube_tools
from fleet_kubernetes import KubernetesStage
from fleet_support import Fleet
from scenario_support import own_fleet, under_writers

pytestmark = pytest.mark.cluster

NAME = "shapes"
ZONES = [{"name": zone, "zone": zone, "replicas": 2 if zone == "zone-a" else 1}
         for zone in ("zone-a", "zone-b", "zone-c")]  # fmt: skip
OTHER_CLASS = "nightly-other"  # of the same provisioner: what differs is its name


def volume(name: str, size: str) -> dict[str, Any]:
    return {"name": name, "size": size, "accessMode": "ReadWriteOnce", "allowSharedFilesystem": True}


BIG = {
    "name": "big",
    "zone": "zone-b",
    "replicas": 1,
    "storage": {  # two ledger volumes, and the index on them
        "journal": {"volumes": [volume("fast", "64Mi")]},
        "ledgers": {"volumes": [volume("disk0", "128Mi"), volume("disk1", "128Mi")]},
    },
    "config": {"flushInterval": "7600"},
}
WORD = "kubectl exec {pod} -- cat /etc/bookie/bookie.properties"


@pytest.fixture(scope="module")
def other_class(stage: KubernetesStage) -> Iterator[None]:
    found = kube_tools.kubectl_json("get", "storageclass", "standard")
    found["metadata"] = {"name": OTHER_CLASS}
    kube_tools.kubectl("apply", "-f", "-", text_in=json.dumps(found))
    yield
    kube_tools.kubectl("delete", "storageclass", OTHER_CLASS, "--ignore-not-found")


@pytest.fixture(scope="module")
def own(stage: KubernetesStage, other_class: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    # Claims of bookies that left go at once, as whoever changes hardware wants it.
    example = stage.resource()["spec"]["storage"]
    storage = example | {"retention": {"onScaleDown": "Delete", "keepFor": "0s"}}
    with own_fleet(stage, tmp_path_factory.mktemp(NAME), NAME, storage=storage) as made:
        yield made


@pytest.fixture
def fleet(own: Fleet, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    yield from under_writers(own, request)


def pools(fleet: Fleet, *found: dict[str, Any]) -> None:
    fleet.edits(pools=[*ZONES, *found], replicas=None, zones=None)


def test_a_fleet_goes_over_to_pools_gets_one_of_another_shape_and_gives_it_up(fleet: Fleet) -> None:
    before, claims = fleet.uids(), fleet.claim_uids()
    pools(fleet)
    fleet.settled()
    assert fleet.uids() == before, "nobody restarts because its zone is a pool now"
    assert "spec.replicas" in fleet.is_refused("kubectl scale bookiecluster $NAME --replicas=5")

    pools(fleet, BIG)
    fleet.settled()
    assert fleet.uids().items() > before.items()
    assert set(fleet.claims()) - set(claims) == {f"{one}-{NAME}-big-0" for one in ("fast", "disk0", "disk1")}
    entry = fleet.bookie(f"{NAME}-big-0")
    assert (entry["pool"], entry["zone"]) == ("big", "zone-b")
    assert "7600" in fleet.types(WORD.format(pod=f"{NAME}-big-0"))
    assert "7600" not in fleet.types(WORD.format(pod=min(before)))

    pools(fleet, BIG | {"config": {"flushInterval": "7650"}})
    fleet.sees(
        "its pool's setting to reach it", lambda: "7650" in fleet.types(f"{WORD} || true".format(pod=f"{NAME}-big-0"))
    )
    fleet.settled()
    assert fleet.uids().items() >= before.items(), "nobody of another pool restarts for it"

    assert "replicas to 0" in fleet.is_refused(
        f"""kubectl patch bookiecluster $NAME --type=merge -p '{json.dumps({"spec": {"pools": ZONES}})}'"""
    )
    pools(fleet, BIG | {"replicas": 0})
    fleet.settled()
    fleet.sees("its claims to go", lambda: fleet.claim_uids() == claims)
    pools(fleet)
    fleet.settled()
    sets = fleet.types("kubectl get statefulset -l bookie.dev/cluster=$NAME -o name")
    assert "big" not in sets, sets
    assert fleet.uids() == before, "nobody else was touched"
    assert not fleet.status().get("orphans")


def test_another_class_of_volumes_comes_by_rebuilding_one_bookie_after_the_other(fleet: Fleet) -> None:
    claims, lives = fleet.claim_uids(), fleet.incarnations()
    storage = fleet.resource()["spec"]["storage"]
    (ledgers,) = storage["ledgers"]["volumes"]
    wanted = {"volumes": [ledgers | {"storageClassName": OTHER_CLASS}]}
    away: list[int] = []

    def done() -> bool:
        status = fleet.status()
        away.append(len(status["bookies"]) - status.get("writableReplicas", 0))
        found = [one for name, one in fleet.claims().items() if name.startswith("ledgers-")]
        return len(found) == 4 and all(one["spec"]["storageClassName"] == OTHER_CLASS for one in found)

    fleet.edits(storage={"layoutChange": "RollingRebuild", "ledgers": wanted})
    fleet.sees("the rebuild to begin", lambda: fleet.status().get("rebuild"))
    fleet.sees("every claim to be of the other class", done, timeout_s=1500.0)
    fleet.settled()
    assert not fleet.status().get("rebuild")
    assert max(away) <= 1, f"never two at once: {away}"
    now = fleet.claim_uids()
    assert now.keys() == claims.keys()
    assert all(now[name] != claims[name] for name in now if "-zone-" in name), "each began anew, on claims of its own"
    # Their records of lives stay when their cookies go: numbers are never used twice.
    assert fleet.incarnations() == {name: life + 1 for name, life in lives.items()}
