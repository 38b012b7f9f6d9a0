"""A fleet of its own whose living bookies get a ledger volume more, with its index: one after the other, by a restart
(spec/operator.md#X15). On the real StatefulSet controller, which is why it is here: it makes no pod behind one that
lacks a claim template's volume."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from fleet_kubernetes import KubernetesStage
from fleet_support import Fleet
from scenario_support import own_fleet, under_writers

pytestmark = pytest.mark.cluster

NAME = "wider"
MORE = {"ledgers": "ledgers-2", "index": "index-2"}


@pytest.fixture(scope="module")
def own(stage: KubernetesStage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with own_fleet(stage, tmp_path_factory.mktemp(NAME), NAME) as made:
        yield made


@pytest.fixture
def fleet(own: Fleet, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    yield from under_writers(own, request)


def with_more(fleet: Fleet) -> dict[str, Any]:
    """The storage of its spec with one ledger volume and one index volume at the end."""
    storage: dict[str, Any] = copy.deepcopy(fleet.resource()["spec"]["storage"])
    for role, name in MORE.items():
        volumes = storage[role]["volumes"]
        volumes.append(volumes[0] | {"name": name, "added": True})
    return storage


def volumes(fleet: Fleet) -> dict[str, set[str]]:
    return {one["name"]: {volume["name"] for volume in one["volumes"]} for one in fleet.status()["bookies"]}


def test_each_bookie_takes_a_ledger_volume_in_when_its_turn_comes(fleet: Fleet) -> None:
    before, lives, claims = fleet.uids(), fleet.incarnations(), fleet.claim_uids()
    storage = with_more(fleet)
    fleet.edits(storage=storage)
    fleet.sees("the first bookie to have it", lambda: fleet.status().get("addedVolumes"))
    told = fleet.is_refused(
        "kubectl patch bookiecluster $NAME --type=json --patch"
        ' \'[{"op": "remove", "path": "/spec/storage/ledgers/volumes/1"},'
        ' {"op": "remove", "path": "/spec/storage/index/volumes/1"}]\''
    )
    assert "cannot be taken back any more" in told
    last = max(fleet.names())
    fleet.types(f"kubectl delete pod {last}")  # out of turn: it comes back, with the volume or without it
    fleet.sees("all to be others", lambda: not fleet.uids().items() & before.items(), timeout_s=900.0)
    fleet.settled()

    assert all(set(MORE.values()) <= found for found in volumes(fleet).values()), volumes(fleet)
    assert fleet.incarnations() == lives, "nobody lost anything"
    assert not fleet.status().get("history")
    now = fleet.claim_uids()
    assert claims.items() <= now.items()
    assert len(now) == len(claims) + len(MORE) * len(before)
    settings = fleet.types(f"kubectl exec {last} -- cat /etc/bookie/bookie.properties")
    assert "allowStorageExpansion=true" in settings
    fleet.is_written_to()
