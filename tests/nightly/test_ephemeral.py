"""A fleet of its own whose volumes go with its pods (kind Ephemeral): whatever ends one, nothing acknowledged goes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fleet_kubernetes import KubernetesStage
from fleet_support import Fleet
from scenario_support import own_fleet, under_writers

pytestmark = pytest.mark.cluster

NAME = "passing"


@pytest.fixture(scope="module")
def own(stage: KubernetesStage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    kept = stage.resource()["spec"]["storage"]
    volumes = {role: {"volumes": [_passing(one) for one in kept[role]["volumes"]]} for role in ("journal", "ledgers")}
    # The node's disk is this machine's, as full as it is.
    shape = {
        "replicas": 4,
        "zones": None,
        "placement": {"antiAffinity": "Preferred"},
        "config": {"diskUsageThreshold": "0.97"},
    }
    storage: dict[str, Any] = {"journalWriteData": True, **volumes}
    gone_with_it = {"deletionPolicy": "Delete", "deletionProtection": False}
    with own_fleet(
        stage, tmp_path_factory.mktemp(NAME), NAME, storage=storage, lifecycle=gone_with_it, **shape
    ) as made:
        yield made


def _passing(volume: dict[str, Any]) -> dict[str, Any]:
    return {"name": volume["name"], "size": volume["size"], "kind": "Ephemeral"}


@pytest.fixture
def fleet(own: Fleet, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    yield from under_writers(own, request)


def others(fleet: Fleet, before: dict[str, str]) -> set[str]:
    return {name for name, uid in fleet.uids().items() if before.get(name) != uid}


def test_a_setting_moves_the_data_of_each_bookie_before_its_pod_ends(fleet: Fleet) -> None:
    before = fleet.uids()
    assert fleet.claims() == {}
    asleep = '{"spec": {"lifecycle": {"hibernate": true}}}'
    told = fleet.is_refused(f"kubectl patch bookiecluster $NAME --type=merge -p '{asleep}'")
    assert "kind Ephemeral" in told
    fleet.edits(config={"flushInterval": "7700"})
    fleet.sees("all to be others", lambda: others(fleet, before) == set(before), timeout_s=900.0)
    fleet.settled()
    assert not fleet.status().get("history"), "nothing was lost, so nothing was granted"


def test_an_eviction_is_refused_and_a_pod_that_ends_all_the_same_heals(fleet: Fleet) -> None:
    before, first = fleet.uids(), min(fleet.names())
    eviction = f'{{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {{"name": "{first}"}}}}'
    told = fleet.is_refused(
        f"NAMESPACE=$(kubectl config view --minify -o jsonpath='{{..namespace}}');"
        f" echo '{eviction}' | kubectl create --raw /api/v1/namespaces/$NAMESPACE/pods/{first}/eviction -f -"
    )
    assert "disruption budget" in told, told
    fleet.types(f"kubectl delete pod {first}")
    fleet.sees("its loss to heal", lambda: [one["result"] for one in fleet.status().get("history", ())] == ["Healed"])
    fleet.settled()
    assert others(fleet, before) == {first}
