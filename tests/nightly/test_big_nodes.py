"""A fleet of its own with two bookies on every node (`pools[].perNode`): a node is their common failure domain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from fleet_kubernetes import KubernetesStage
from fleet_support import Fleet
from scenario_support import own_fleet, under_writers

pytestmark = pytest.mark.cluster

NAME = "big"
POOL = {"name": "hall", "zone": "hall", "replicas": 6, "perNode": 2, "nodeSelector": {"kubernetes.io/os": "linux"}}
# Every ensemble of every ledger, one a line.
ENSEMBLES = """
import asyncio, sys
from bookie.connect import connect

async def main():
    async with connect(sys.argv[1]) as client:
        async for ledger in client.ledgers():
            for segment in (await client.metadata(ledger)).segments:
                print(*segment.bookies)

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def own(stage: KubernetesStage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    storage = stage.resource()["spec"]["storage"] | {"journalWriteData": True}  # one zone alone
    shape = {"replicas": None, "zones": None, "pools": [POOL], "placement": {"antiAffinity": "Required"}}
    drained = {"disruption": {"onDrain": "ReadOnlyFirst"}}
    with own_fleet(stage, tmp_path_factory.mktemp(NAME), NAME, storage=storage, **shape, **drained) as made:
        yield made


@pytest.fixture
def fleet(own: Fleet, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    yield from under_writers(own, request)


def nodes(fleet: Fleet) -> dict[str, str]:
    """The node of each bookie, by the name of its pod."""
    return {name: pod["spec"].get("nodeName", "") for name, pod in fleet.pods().items()}


def ensembles(fleet: Fleet) -> list[tuple[str, ...]]:
    """The ids of the bookies of each ensemble of every ledger."""
    uri, pod = fleet.resource()["spec"]["metadataService"]["uri"], f"{NAME}-hall-0"
    told = fleet.types(f"kubectl exec -i {pod} -- python - '{uri}' <<'END'\n{ENSEMBLES}\nEND")
    return [tuple(line.split()) for line in told.splitlines()]


def test_two_bookies_a_node_and_a_drain_that_takes_both(fleet: Fleet, nodes_back: None) -> None:
    before, places, claims = fleet.uids(), nodes(fleet), fleet.claim_uids()
    assert set(Counter(places.values()).values()) == {2}, places
    node_of = {entry["bookieId"]: places[entry["name"]] for entry in fleet.status()["bookies"]}
    seen = ensembles(fleet)
    assert seen
    together = [one for one in seen if len({node_of[member] for member in one}) < len(one)]
    assert not together, "no two copies of an entry are on one node"
    lowered = '[{"op": "replace", "path": "/spec/pools/0/perNode", "value": 1}]'
    assert "perNode" in fleet.is_refused(f"kubectl patch bookiecluster $NAME --type=json --patch '{lowered}'")

    node = places[f"{NAME}-hall-1"]
    both = {name for name, one in places.items() if one == node}
    fleet.types(
        f"kubectl drain {node} --pod-selector=bookie.dev/cluster=$NAME --delete-emptydir-data --timeout=10m",
        timeout_s=700.0,
    )
    away = {name for name, uid in fleet.uids().items() if before[name] != uid}
    assert away == both, "one after the other, and the second though the first has yet to come back"
    assert fleet.condition("Stalled")["status"] == "False"
    assert all(fleet.bookie(name)["state"] != "Serving" for name in both)
    fleet.is_written_to()
    fleet.types(f"kubectl uncordon {node}")
    fleet.settled()
    assert {name for name, uid in fleet.uids().items() if before[name] != uid} == both
    assert (nodes(fleet), fleet.claim_uids()) == (places, claims)
    assert set(fleet.incarnations().values()) == {1}, "nobody lost anything"
