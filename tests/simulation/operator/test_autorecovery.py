"""spec.autorecovery: a Deployment that comes, is kept and goes by the spec, beside a fleet that notices nothing."""

import asyncio
from typing import Any

import pytest

import operator_world_support as worlds
from operator_world_support import World
from rolling_support import AUTOMATIC

NAME = "ledgers-autorecovery"
ON = {"enabled": True, "replicas": 2}


@pytest.fixture
def world() -> World:
    """A quiet fleet with auto-recovery, and its controllers' pod, whose name looks like a bookie's."""
    out = worlds.world(autorecovery=ON, rollout=AUTOMATIC)
    go(out, 14)
    assert out.is_quiet(), out.status()
    add_pod(out, f"{NAME}-6769489654-24567")
    return out


def go(world: World, passes: int = 4) -> None:
    asyncio.run(world.run(world.operator(), passes=passes))


def deployment(world: World) -> dict[str, Any] | None:
    return world.objects.get(("Deployment", NAME))


def add_pod(world: World, name: str) -> None:
    """What Kubernetes makes of the Deployment."""
    live = deployment(world)
    assert live is not None
    template = live["spec"]["template"]
    owner = {"kind": "ReplicaSet", "name": name.rpartition("-")[0], "uid": "rs", "controller": True}
    world.put(
        {
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "data",
                "labels": template["metadata"]["labels"] | {"controller-revision-hash": "rs"},
                "ownerReferences": [owner],
            },
            "spec": template["spec"] | {"nodeName": "node"},
            "status": {"phase": "Running", "podIP": "10.9.9.9"},
        }
    )


def settings_of(world: World, of_kind: str) -> set[str]:
    """The ConfigMaps of settings that the templates of a kind name."""
    specs = [one["spec"]["template"]["spec"] for one in world.of_kind(of_kind)]
    return {volume["configMap"]["name"] for spec in specs for volume in spec["volumes"] if "configMap" in volume}


def test_its_pods_are_no_bookies_whatever_they_are_called(world: World) -> None:
    before = world.status()
    world.writes.clear()

    go(world, 6)

    assert world.is_quiet(), world.status()
    assert set(world.writes) <= {"BookieCluster/ledgers/status"}, "the new operator's own epoch"
    assert {one.name for one in world.status().bookies} == {one.name for one in before.bookies}
    assert (world.status().orphans, world.status().pools) == (before.orphans, before.pools)


def test_switched_on_over_a_running_fleet_it_restarts_no_bookie() -> None:
    world = worlds.world(rollout=AUTOMATIC)
    go(world, 14)
    uids = {one["metadata"]["uid"] for one in world.of_kind("Pod")}
    assert (deployment(world), world.is_quiet()) == (None, True)

    world.edit(autorecovery=ON)
    go(world, 10)

    assert deployment(world) is not None
    assert {one["metadata"]["uid"] for one in world.of_kind("Pod")} == uids
    assert world.is_quiet(), world.status()


def test_what_somebody_changes_or_deletes_is_put_back_and_what_is_switched_off_goes(world: World) -> None:
    live = deployment(world)
    assert live is not None
    live["spec"]["template"]["spec"]["containers"][0]["args"] = ["sh"]
    world.put(live)
    go(world)
    mended = deployment(world)
    assert mended is not None
    assert mended["spec"]["template"]["spec"]["containers"][0]["args"][:2] == ["autorecovery", "run"]

    del world.objects[("Deployment", NAME)]
    go(world)
    assert deployment(world) is not None

    world.edit(autorecovery={"enabled": False})
    go(world)
    assert deployment(world) is None
    assert f"delete Deployment/{NAME}" in world.writes


def test_paused_nothing_of_it_changes(world: World) -> None:
    world.edit(lifecycle={"paused": True}, autorecovery={"enabled": False})

    go(world)

    assert deployment(world) is not None


@pytest.mark.slow
def test_settings_are_kept_as_long_as_its_pods_may_read_them(world: World) -> None:
    (old,) = settings_of(world, "Deployment")
    assert {old} == settings_of(world, "StatefulSet")

    world.edit(config={"flushInterval": "777"})
    go(world, 60)

    assert settings_of(world, "Deployment") == settings_of(world, "StatefulSet") != {old}
    assert ("ConfigMap", old) in world.objects, "its pod of before still runs"
    del world.objects[("Pod", f"{NAME}-6769489654-24567")]
    for number in range(1, 8):  # until no revision of a StatefulSet names them either
        world.edit(config={"flushInterval": f"{number}000"}, rollout={"strategy": "Manual"})
        go(world, 2)
    assert ("ConfigMap", old) not in world.objects


def test_it_does_not_begin_before_there_is_a_cluster_in_the_metadata_store() -> None:
    world = worlds.world(image=worlds.BROKEN_IMAGE, autorecovery=ON)  # the Job that makes it fails

    go(world, 6)

    assert deployment(world) is None


def test_it_sleeps_and_wakes_with_the_fleet(world: World) -> None:
    def replicas() -> int:
        live = deployment(world)
        assert live is not None
        return int(live["spec"]["replicas"])

    world.edit(lifecycle={"hibernate": True, "terminationGrace": "2m"})
    go(world, 8)
    assert replicas() == 0

    world.edit(lifecycle={"terminationGrace": "2m"})
    go(world, 10)
    assert replicas() == 2
