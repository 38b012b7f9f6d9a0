"""An edit reaches a pod as a whole or not at all; what is corrected is made anew; what is switched off goes."""

import asyncio
from typing import Any

import pytest

import operator_world_support as worlds
from bookie_operator.reconcile import Reconciler
from operator_world_support import World

FIRST = "ledgers-zone-a-0"


def settle(world: World, operator: Reconciler | None = None, *, passes: int = 4) -> None:
    asyncio.run(world.run(operator or world.operator(), passes=passes))


def config_maps(world: World) -> list[str]:
    """Those of settings: the record has no owner."""
    return sorted(one["metadata"]["name"] for one in world.of_kind("ConfigMap") if "ownerReferences" in one["metadata"])


def test_a_container_that_restarts_in_its_old_pod_reads_what_the_pod_began_with(world: World) -> None:
    world.edit(config={"flushInterval": "777"})
    settle(world)

    world.start_container(FIRST)
    before = world.bookie(FIRST).settings
    world.kill(FIRST)
    settle(world)

    assert "flushInterval=777" not in before
    assert "flushInterval=777" in world.bookie(FIRST).settings


def test_settings_that_nobody_reads_any_more_are_taken_away(world: World) -> None:
    (first,) = config_maps(world)
    for number in range(1, 9):
        world.edit(config={"flushInterval": f"{number}000"})
        settle(world, passes=2)
    during = config_maps(world)

    for pod in [one["metadata"]["name"] for one in world.of_kind("Pod")]:
        world.kill(pod)
    settle(world)

    history_limit = 5  # revisions that a StatefulSet keeps for going back
    assert first in during, "the pods still read them"
    assert len(config_maps(world)) == 1 + history_limit
    assert first not in config_maps(world)


def test_a_config_map_that_somebody_remade_with_other_contents_is_made_right(world: World) -> None:
    (name,) = config_maps(world)
    world.objects[("ConfigMap", name)]["data"] = {"bookie.properties": "edited=by hand"}

    settle(world)

    world.start_container(FIRST)
    assert "edited" not in world.bookie(FIRST).settings


def job_runs(world: World) -> int:
    return world.writes.count("Job/ledgers-metadata")


def test_a_metadata_job_that_failed_by_a_wrong_image_is_made_anew_when_that_is_corrected() -> None:
    world = worlds.world(image=worlds.BROKEN_IMAGE)
    operator = world.operator()
    settle(world, operator, passes=6)
    stalled = world.status().condition("Stalled")
    assert stalled is not None
    assert (stalled.reason, job_runs(world), world.of_kind("StatefulSet")) == ("MetadataInitFailed", 1, [])

    world.edit(image="bookie:right")
    settle(world, operator, passes=12)

    assert world.is_quiet(), world.status()
    assert job_runs(world) == 2


def test_a_metadata_job_that_failed_is_tried_again_after_a_while() -> None:
    world = worlds.world(image=worlds.BROKEN_IMAGE)
    operator = world.operator()
    settle(world, operator, passes=6)

    world.now_ms += 5 * 60_000
    settle(world, operator, passes=6)

    assert job_runs(world) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"image": "bookie:other"},
        {"imagePullSecrets": [{"name": "registry"}]},
        {"imagePullPolicy": "Always"},
        {"metadataService": {"uri": "zk+hierarchical://other:2181/ledgers", "initialize": "IfAbsent"}},
        {"placement": {"tolerations": [{"operator": "Exists"}]}},
    ],
)
def test_a_metadata_job_that_still_runs_is_made_anew_from_what_was_corrected(change: dict[str, Any]) -> None:
    world = worlds.world()
    operator = world.operator()
    settle(world, operator, passes=1)
    world.objects[("Job", "ledgers-metadata")]["status"] = {"active": 1}
    settle(world, operator, passes=2)
    assert job_runs(world) == 1

    world.edit(**change)
    settle(world, operator, passes=12)

    assert world.is_quiet(), world.status()
    assert job_runs(world) == 2


def test_a_metadata_job_that_runs_is_left_alone_while_config_is_wrong() -> None:
    world = worlds.world()
    operator = world.operator()
    settle(world, operator, passes=1)
    world.objects[("Job", "ledgers-metadata")]["status"] = {"active": 1}

    world.edit(config={"flushInterval": "soon"})
    settle(world, operator)

    assert ("Job", "ledgers-metadata") in world.objects
    assert world.of_kind("StatefulSet") == []


def test_a_store_that_was_initialised_by_mistake_is_left_for_the_right_one_before_any_bookie_has_lived() -> None:
    world = worlds.world()
    operator = world.operator()
    while not world.of_kind("StatefulSet"):
        settle(world, operator, passes=1)
    for pod in world.of_kind("Pod"):
        world.bookie(pod["metadata"]["name"]).is_reachable = False  # none gets anywhere in the wrong store
    settle(world, operator, passes=2)

    world.edit(metadataService={"uri": "zk+hierarchical://right:2181/ledgers", "initialize": "IfAbsent"})
    settle(world, operator, passes=6)

    args = world.objects[("Job", "ledgers-metadata")]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert job_runs(world) == 2
    assert "zk+hierarchical://right:2181/ledgers" in args
    metadata = world.status().metadata
    assert metadata is not None
    assert metadata.uri == "zk+hierarchical://right:2181/ledgers"


def test_hosts_of_a_fleet_that_has_lived_change_and_nothing_is_initialised(world: World) -> None:
    world.writes.clear()

    world.edit(metadataService={"uri": "zk+hierarchical://right:2181/ledgers", "initialize": "IfAbsent"})
    settle(world)

    assert job_runs(world) == 0


def test_a_metadata_job_that_is_done_stays_done_whatever_changes(world: World) -> None:
    job = world.objects[("Job", "ledgers-metadata")]["metadata"]["uid"]

    world.edit(image="bookie:other", imagePullSecrets=[{"name": "registry"}])
    settle(world)

    assert world.objects[("Job", "ledgers-metadata")]["metadata"]["uid"] == job


def test_the_disruption_budget_goes_when_it_is_switched_off_and_comes_back(world: World) -> None:
    budget = ("PodDisruptionBudget", "ledgers-bookies")

    world.edit(disruption={"pdb": False})
    settle(world)
    is_gone = budget not in world.objects
    world.edit(disruption={"pdb": True})
    settle(world)

    assert is_gone
    assert budget in world.objects


def test_the_metadata_job_goes_when_initialising_is_switched_off(world: World) -> None:
    uri = world.objects[("BookieCluster", "ledgers")]["spec"]["metadataService"]["uri"]

    world.edit(metadataService={"uri": uri, "initialize": "Never"})
    settle(world)

    assert ("Job", "ledgers-metadata") not in world.objects


@pytest.mark.parametrize("kind", ["PodDisruptionBudget", "ConfigMap", "Service", "Job"])
def test_what_carries_our_label_and_belongs_to_somebody_else_is_never_taken_away(world: World, kind: str) -> None:
    common: dict[str, Any] = {"namespace": "data", "labels": {"bookie.dev/cluster": "ledgers"}}
    owner = [{"controller": True, "uid": "another", "kind": "BookieCluster", "name": "ledgers"}]
    for metadata in ({"name": "theirs"}, {"name": "others", "ownerReferences": owner}):
        world.put({"kind": kind, "metadata": common | metadata, "spec": {}, "status": {}})

    settle(world)

    assert (kind, "theirs") in world.objects
    assert (kind, "others") in world.objects


def test_a_paused_cluster_loses_nothing(world: World) -> None:
    world.edit(disruption={"pdb": False}, lifecycle={"paused": True, "terminationGrace": "2m"})
    world.writes.clear()

    settle(world)

    assert not [write for write in world.writes if write.startswith("delete")]
