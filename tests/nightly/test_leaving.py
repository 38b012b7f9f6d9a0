"""A fleet of its own of which a person names who goes: a bookie begins anew on new volumes, or leaves for good."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fleet_kubernetes import KubernetesStage
from fleet_support import Fleet
from scenario_support import is_complete, own_fleet, under_writers

pytestmark = pytest.mark.cluster

NAME = "leaving"
FIRST, LAST = f"{NAME}-zone-a-0", f"{NAME}-zone-a-1"


@pytest.fixture(scope="module")
def own(stage: KubernetesStage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Five bookies, two of them in zone-a and two in zone-b: beside one that leaves an ensemble and one more stay."""
    storage = stage.resource()["spec"]["storage"] | {"retention": {"onScaleDown": "Delete", "keepFor": "0s"}}
    with own_fleet(stage, tmp_path_factory.mktemp(NAME), NAME, storage=storage, replicas=5) as made:
        yield made


@pytest.fixture
def fleet(own: Fleet, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    yield from under_writers(own, request)


def volumes(fleet: Fleet) -> set[str]:
    """Names of the PersistentVolumes of all claims."""
    return {claim["spec"]["volumeName"] for claim in fleet.claims().values()}


def test_a_bookie_begins_anew_on_new_volumes_by_order(fleet: Fleet) -> None:
    """From the middle of its zone; taken back once, while it drains."""
    before, claims, old, lives = fleet.uids(), fleet.claim_uids(), volumes(fleet), fleet.incarnations()
    fleet.edits(scaleDown={"copyRate": "20Ki"})  # slow, so that there is time
    order = fleet.orders(type="Replace", target={"bookie": FIRST}, reason="its disks are five years old")
    fleet.sees("it to drain", lambda: (fleet.bookie(FIRST).get("leaving") or {}).get("state") == "Draining")
    assert fleet.bookie(FIRST)["leaving"]["rebuilds"]
    fleet.types(f"kubectl delete bookieoperation {order}")
    fleet.settled()
    assert (fleet.uids(), fleet.claim_uids()) == (before, claims), "taken back: it stays, with all its data"

    fleet.edits(scaleDown={"copyRate": None})
    fleet.settled()
    ready_since = fleet.condition("Ready")["lastTransitionTime"]
    order = fleet.orders(type="Replace", target={"bookie": FIRST}, reason="its disks are five years old")
    is_complete(fleet, order)
    fleet.settled()
    assert fleet.condition("Ready")["lastTransitionTime"] == ready_since, "the others served all the time"
    now = fleet.claim_uids()
    assert now.keys() == claims.keys()
    assert {name for name in now if now[name] != claims[name]} == {name for name in now if name.endswith(FIRST)}
    assert {name for name, uid in fleet.uids().items() if before[name] != uid} == {FIRST}, "nobody else was touched"
    # Its record of lives stays when its cookie goes: numbers are never used twice.
    assert fleet.incarnations() == lives | {FIRST: lives[FIRST] + 1}
    gone = old - volumes(fleet)
    listed = "kubectl get pv -o jsonpath='{.items[*].metadata.name}'"
    fleet.sees("its volumes to go", lambda: not gone & set(fleet.types(listed).split()))
    assert not fleet.status().get("orphans")
    again = fleet.uids()
    fleet.types(f"kubectl delete bookieoperation {order}")
    fleet.settled()
    assert fleet.uids() == again, "an operation that is gone asks for nothing"


def test_a_person_says_who_retires_when_the_fleet_becomes_smaller(fleet: Fleet) -> None:
    """Of two largest zones the operator would take the last by name; and no pod goes from the middle of a zone."""
    before, claims = fleet.uids(), fleet.claim_uids()
    fleet.types("kubectl scale bookiecluster $NAME --replicas=4")
    order = fleet.orders(type="Retire", target={"bookie": FIRST}, reason="its node is given back")
    fleet.sees(f"{LAST} to leave for it", lambda: "leaves for good first" in fleet.phase(order),
               detail=lambda: fleet.phase(order))  # fmt: skip
    is_complete(fleet, order)
    fleet.settled()
    now, kept = fleet.uids(), {name: uid for name, uid in before.items() if name not in (FIRST, LAST)}
    assert now.keys() == before.keys() - {LAST}
    assert kept.items() <= now.items(), "nobody of another zone was touched"
    left = fleet.claim_uids()
    assert left.keys() == {name for name in claims if not name.endswith(LAST)}
    assert {name for name in left if left[name] != claims[name]} == {name for name in left if name.endswith(FIRST)}
    assert not fleet.status().get("orphans")
    fleet.types(f"kubectl delete bookieoperation {order}")
    fleet.settled()
    assert fleet.uids() == now, "the number is that of the spec: nobody moves"
