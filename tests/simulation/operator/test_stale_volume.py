"""A volume that went back in time: held for a person, or repaired under one grant where the spec gives up the rest."""

import asyncio
import random

import pytest

import operator_world_support as worlds
from bookie.ports.admin import Verdict
from bookie_operator.evidence.bookie import ROLLBACK
from operator_world_support import World
from rolling_support import PODS

OLD, OTHER = "ledgers-zone-b-0", "ledgers-zone-c-0"


@pytest.fixture(scope="module")
def fleet() -> World:
    world = worlds.world(repair={"stabilization": "6s", "staleVolume": "Repair"})
    asyncio.run(world.run(world.operator(), passes=14))
    assert world.is_quiet(), world.status()
    world.write(30, random.Random(7))
    world.boot_epochs = dict.fromkeys(world.cookies, 2)
    return world


@pytest.fixture
def world(fleet: World) -> World:
    return worlds.clone(fleet)


def run(world: World) -> None:
    asyncio.run(world.run(world.operator(), passes=60, until_quiet=True))


def test_it_is_repaired_under_one_grant_that_says_what_is_given_up(world: World) -> None:
    world.set_back(OLD, kept=set(range(5)))

    run(world)

    assert world.is_quiet(), world.status()
    assert [(one.bookie_id, one.profile) for one in world.accepted] == [("data.ledgers.zone-b.0", ROLLBACK)]
    assert world.lost_entries() == []
    assert [one.profile for one in world.status().history] == [ROLLBACK]


def test_where_the_spec_says_hold_nothing_is_granted_and_nobody_else_may_be_evicted(world: World) -> None:
    world.edit(repair={"stabilization": "6s"})
    world.set_back(OLD, kept=set())

    run(world)

    entry = world.status().bookie(OLD)
    assert entry is not None
    assert (entry.state, entry.reason, entry.counted) == ("Held", "StaleVolume", "WithoutData")
    assert "spec.repair.staleVolume" in entry.message
    assert world.accepted == []
    assert world.objects[("PodDisruptionBudget", "ledgers-bookies")]["spec"]["maxUnavailable"] == 0


def test_of_two_that_went_back_in_time_at_once_none_is_repaired(world: World) -> None:
    world.set_back(OLD, kept=set())
    world.set_back(OTHER, kept=set())

    run(world)

    assert world.accepted == []
    stalled = world.status().condition("Stalled")
    assert stalled is not None
    assert stalled.reason == "AckQuorumBreached"


def test_of_a_fleet_that_was_set_back_as_a_whole_nobody_is_repaired(world: World) -> None:
    """A namespace restored from a backup, beside a metadata store that went on."""
    for pod in PODS:
        world.set_back(pod, kept=set(range(5)))

    run(world)

    assert (world.accepted, world.forgotten) == ([], [])
    assert {one.claimed for one in world.bookies.values()} == {Verdict.STALE}, "each waits as it was found"
    assert {one.counted for one in world.status().bookies} == {"WithoutData"}
    stalled = world.status().condition("Stalled")
    assert stalled is not None
    assert stalled.reason == "AckQuorumBreached"
    assert world.objects[("PodDisruptionBudget", "ledgers-bookies")]["spec"]["maxUnavailable"] == 0
