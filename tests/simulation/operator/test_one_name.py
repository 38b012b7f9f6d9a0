"""Two clusters of one namespace whose names meet: the older one lives on, of the younger one nothing is made."""

import asyncio
from typing import Any

import pytest

import operator_support as make
import operator_world_support as worlds
from bookie_operator.gateways.kube import KubeError
from bookie_operator.model import cluster as clusters
from bookie_operator.model import names
from bookie_operator.model.status import BookieClusterStatus
from bookie_operator.reconcile import Key
from operator_world_support import World

YOUNGER = "ledgers-zone"  # its zone `a` and zone `zone-a` of `ledgers` give StatefulSets one name


def with_younger(world: World) -> None:
    manifest = make.manifest(zones=[{"name": "a"}, {"name": "b"}, {"name": "c"}])
    manifest["metadata"] = {"name": YOUNGER, "namespace": "data", "uid": "younger", "generation": 1}
    world.now_ms += 60_000
    world.put(manifest)
    world.writes.clear()


def passes(world: World, name: str) -> BookieClusterStatus:
    async def run() -> None:
        operator = world.operator()
        for _ in range(3):
            await operator.reconcile(Key("data", name))

    asyncio.run(run())
    return clusters.parse_status(world.objects[("BookieCluster", name)].get("status"))


def test_of_the_younger_cluster_nothing_is_made_and_it_says_why(world: World) -> None:
    with_younger(world)

    status = passes(world, YOUNGER)

    stalled = status.condition("Stalled")
    assert stalled is not None
    assert (stalled.status, stalled.reason) == ("True", "NameConflict")
    assert "it is of BookieCluster ledgers and may hold its data" in stalled.message
    assert world.writes == [f"BookieCluster/{YOUNGER}/status"]
    assert world.events().count("NameConflict") == 1


def test_of_two_that_have_nothing_yet_only_the_older_one_begins() -> None:
    world = worlds.world()
    world.objects[("BookieCluster", "ledgers")]["metadata"]["creationTimestamp"] = "2027-01-01T00:00:00Z"
    with_younger(world)

    stalled = passes(world, YOUNGER).condition("Stalled")
    asyncio.run(world.run(world.operator(), passes=12))

    assert stalled is not None
    assert "StatefulSet ledgers-zone-a" in stalled.message
    assert "BookieCluster ledgers, which is older" in stalled.message
    assert world.is_quiet()


def test_a_status_from_elsewhere_gives_a_cluster_no_names(world: World) -> None:
    with_younger(world)
    younger = world.objects[("BookieCluster", YOUNGER)]
    world.put(younger | {"status": {"observedGeneration": 1, "instanceId": "forged"}})
    world.writes.clear()

    stalled = passes(world, YOUNGER).condition("Stalled")

    assert stalled is not None
    assert stalled.reason == "NameConflict"
    assert world.writes == [f"BookieCluster/{YOUNGER}/status"]


def test_a_fleet_that_is_applied_again_has_its_names_before_one_that_was_refused(world: World) -> None:
    with_younger(world)
    passes(world, YOUNGER)
    world.now_ms += 60_000

    world.delete_and_apply()
    asyncio.run(world.run(world.operator(), passes=12))

    assert world.is_quiet()
    stalled = passes(world, YOUNGER).condition("Stalled")
    assert stalled is not None
    assert stalled.reason == "NameConflict"


def test_the_older_cluster_does_not_notice(world: World) -> None:
    with_younger(world)

    asyncio.run(world.run(world.operator(), passes=4))

    assert world.is_quiet()


def test_claims_that_a_deleted_cluster_left_behind_are_not_taken_by_another(world: World) -> None:
    with_younger(world)
    del world.objects[("BookieCluster", "ledgers")]

    status = passes(world, YOUNGER)

    stalled = status.condition("Stalled")
    assert stalled is not None
    assert stalled.reason == "NameConflict"
    assert "it is of BookieCluster ledgers and may hold its data" in stalled.message
    assert [write for write in world.writes if "status" not in write] == []


@pytest.mark.parametrize("name", ["other", "ledgers-zon"])
def test_clusters_whose_names_do_not_meet_live_side_by_side(world: World, name: str) -> None:
    with_younger(world)
    manifest = world.objects.pop(("BookieCluster", YOUNGER))
    manifest["metadata"]["name"] = name
    world.put(manifest)

    stalled = passes(world, name).condition("Stalled")

    assert stalled is not None
    assert stalled.reason != "NameConflict"


def test_nothing_is_made_by_a_pass_that_could_not_ask_whose_the_names_are(world: World) -> None:
    """The list of clusters failed once; all else was read."""
    with_younger(world)

    class Failing:
        def __getattr__(self, name: str) -> Any:
            return getattr(world, name)

        async def list(self, kind: str, *what: str, **how: str) -> Any:
            if kind == names.KIND:
                raise KubeError("list BookieCluster", 500, "etcdserver: request timed out")
            return await world.list(kind, *what, **how)

    with pytest.raises(KubeError):
        asyncio.run(world.operator(kube=Failing()).reconcile(Key("data", YOUNGER)))  # type: ignore[arg-type]

    assert world.writes == []
