"""A stop waits for ledgers that auto-recovery has marked, and not for ever (spec/operator.md#Q20)."""

import asyncio

import pytest

from bookie_operator.reconcile import Reconciler
from operator_world_support import World

PODS = ["ledgers-zone-a-0", "ledgers-zone-a-1", "ledgers-zone-b-0", "ledgers-zone-c-0"]


@pytest.fixture
def rolling(world: World) -> tuple[World, list[str]]:
    """A new image is to be rolled out, and a ledger misses the replica of a bookie of another fleet."""
    stops: list[str] = []
    world.on_stop = stops.append
    world.entries.append((world.bookie(PODS[0]).bookie_id, world.bookie(PODS[2]).bookie_id, "stranger:3181"))
    world.marks = {len(world.entries) - 1: ("stranger:3181",)}
    world.edit(rollout={"strategy": "Automatic", "soakSeconds": 3})
    world.edit(image="bookie:next")
    return world, stops


def run(world: World, operator: Reconciler, *, passes: int) -> None:
    asyncio.run(world.run(operator, passes=passes))


def waiting_for(world: World) -> str:
    found = world.status().rollout
    return (found.waiting_for if found is not None else None) or ""


@pytest.mark.slow
def test_the_roll_out_goes_on_when_the_mark_is_worked_off(rolling: tuple[World, list[str]]) -> None:
    world, stops = rolling
    operator = world.operator()
    run(world, operator, passes=30)
    assert stops == []
    assert "auto-recovery has marked ledgers that might be undecidable without ledgers-zone-a-0" in waiting_for(world)

    world.marks = {}
    run(world, operator, passes=120)

    assert stops == PODS


@pytest.mark.slow
def test_a_mark_that_nobody_works_off_holds_the_fleet_for_one_grace_and_no_longer(
    rolling: tuple[World, list[str]],
) -> None:
    world, stops = rolling
    world.edit(repair={"peerGrace": "60s"})
    operator = world.operator()
    began_ms = world.now_ms

    run(world, operator, passes=120)

    assert stops == PODS
    assert world.marks, "it stands still"
    assert world.now_ms - began_ms > 60_000


@pytest.mark.slow
def test_a_new_mark_is_waited_for_although_an_old_one_was_long_enough(rolling: tuple[World, list[str]]) -> None:
    world, stops = rolling
    world.edit(rollout={"strategy": "Manual"}, repair={"peerGrace": "120s"})
    operator = world.operator()
    run(world, operator, passes=200)
    assert stops == [], "nothing is to be done: the old mark was looked at all the while"

    world.entries.append((world.bookie(PODS[0]).bookie_id, world.bookie(PODS[2]).bookie_id, "stranger:3181"))
    new = len(world.entries) - 1
    world.marks[new] = ("stranger:3181",)
    run(world, operator, passes=70)  # until a look has found it
    world.edit(rollout={"strategy": "Automatic", "soakSeconds": 3})
    run(world, operator, passes=20)

    assert stops == []
    assert f"ledger {new}: " in waiting_for(world)
    assert f"ledger {new - 1}: " not in waiting_for(world)


@pytest.mark.slow
def test_no_fleet_asks_more_than_once_a_minute(world: World) -> None:
    operator = world.operator()
    run(world, operator, passes=20)  # it is built
    world.marks_asked.clear()
    run(world, operator, passes=150)

    assert len(world.marks_asked) in (1, 2), "in two and a half minutes"


@pytest.mark.slow
def test_a_look_that_takes_minutes_closes_the_gate_for_one_grace_and_no_longer(
    rolling: tuple[World, list[str]],
) -> None:
    world, stops = rolling
    world.edit(repair={"peerGrace": "60s"}, autorecovery={"enabled": True})
    world.marks, world.marks_take_ms = {}, 200_000
    operator = world.operator()
    run(world, operator, passes=20)
    assert stops == []
    assert "the look took 200 s" in waiting_for(world)

    run(world, operator, passes=120)
    assert stops == PODS
