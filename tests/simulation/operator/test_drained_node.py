"""A node is drained through the eviction API: the drain ends, one bookie at a time, each after it flushed."""

import asyncio
import random
from pathlib import Path

import pytest

import operator_world_support as worlds
from bookie.ports.admin import State
from bookie_operator.crash import CrashPoint
from operator_world_support import Crashed, World

FIRST, SECOND, SPARE = "ledgers-zone-a-0", "ledgers-zone-b-0", "ledgers-zone-c-0"


def pods_on(world: World, node: str) -> list[str]:
    return [one["metadata"]["name"] for one in world.of_kind("Pod") if one["spec"].get("nodeName") == node]


async def drained(
    world: World, nodes: list[str], *, passes: int = 90, crash: CrashPoint | None = None, has_crashed: bool = False
) -> list[str]:
    """`kubectl drain` of all `nodes` at once: every pod there is tried in each second, until none is left. Returns who
    was evicted, in order."""
    for node in nodes:
        world.cordon(node)
    operator, evicted = world.operator(crash), list[str]()
    for _ in range(passes):
        left = [pod for node in nodes for pod in pods_on(world, node)]
        if not left and world.is_quiet():
            break
        evicted += [pod for pod in left if world.evict(pod)]
        try:
            await operator.reconcile(worlds.KEY)
        except Crashed:
            operator = world.operator(has_watched=False)
        world.settle()
    return evicted


@pytest.fixture
def world(built: World) -> World:
    out = worlds.clone(built)
    out.add_node("elsewhere")
    out.edit(disruption={"onDrain": "ReadOnlyFirst"}, rollout={"strategy": "Manual", "soakSeconds": 2})
    asyncio.run(out.run(out.operator(), passes=3))
    return out


def test_a_drain_takes_each_bookie_after_it_flushed_and_one_after_the_other(world: World) -> None:
    states: list[dict[str, State]] = []
    world.on_stop = lambda _: states.append({one.name: one.state for one in world.bookies.values()})

    evicted = asyncio.run(drained(world, ["node"]))

    assert sorted(evicted) == [FIRST, "ledgers-zone-a-1", SECOND, SPARE]
    assert pods_on(world, "node") == []
    for name, state in zip(evicted, states, strict=True):
        others = [one for other, one in state.items() if other != name]
        assert state[name] is State.READ_ONLY, "it had flushed"
        assert others == [State.SERVING] * 3, "nobody else was away"
    assert world.is_quiet()
    assert world.status().eviction is None


def test_who_makes_room_is_not_sealed_as_recoveries_of_others_may_need_it_until_it_ends(world: World) -> None:
    sealed = list[bool]()
    world.on_stop = lambda name: sealed.append(world.bookie(name).is_sealed)

    asyncio.run(drained(world, ["node"]))

    assert sealed == [False] * 4


def outside(world: World) -> list[str]:
    """Whom the disruption budget lets go."""
    spec = world.objects[("PodDisruptionBudget", "ledgers-bookies")]["spec"]
    return [name for one in spec["selector"]["matchExpressions"] for name in one["values"]]


def test_a_flush_counts_until_the_next_one_is_asked_for(world: World) -> None:
    """Nobody evicts it in its turn, and it takes writes again: what it cannot flush then is on no disk."""
    world.cordon("node")
    operator = world.operator()
    for _ in range(20):
        asyncio.run(world.run(operator, passes=1))
        if outside(world):
            break
    (name,) = outside(world)

    world.bookie(name).flush_problem = "the disk says no"
    world.bookie(name).end_turn()
    asyncio.run(world.run(operator, passes=6))

    assert world.writes.count(f"flush/{name}") > 1
    assert outside(world) == []


def test_a_drain_waits_while_another_bookie_is_without_its_data(world: World) -> None:
    world.lose(SPARE)
    asyncio.run(world.run(world.operator(), passes=1))
    world.cordon("node")
    world.refuse_grants = "not yet"

    evicted = asyncio.run(drained(world, ["node"], passes=15))
    world.refuse_grants = ""
    later = asyncio.run(drained(world, ["node"]))

    assert set(evicted) <= {SPARE}, "who serves nobody may go: the budget allows that in any case"
    assert len(later) == 3


def test_a_cordon_that_is_taken_back_leaves_everybody_writing(world: World) -> None:
    world.cordon("node")
    asyncio.run(world.run(world.operator(), passes=5))
    during = [one.state for one in world.bookies.values()]
    world.cordon("node", is_cordoned=False)

    asyncio.run(world.run(world.operator(), passes=5))

    assert during.count(State.READ_ONLY) == 1
    assert [one.state for one in world.bookies.values()] == [State.SERVING] * 4
    assert world.status().eviction is None


def test_who_cannot_flush_stays(world: World) -> None:
    world.bookie(FIRST).flush_problem = "the disk says no"

    evicted = asyncio.run(drained(world, ["node"], passes=15))

    told = world.status().eviction
    assert FIRST not in evicted
    assert told is not None
    assert "the disk says no" in (told.waiting_for or "")


def test_a_drain_ends_while_a_bookie_leaves_and_those_that_stay_are_one_more_than_an_ensemble(world: World) -> None:
    """Each has one turn, and none closes the gate by which it began."""
    world.edit(replicas=5)
    operator = world.operator()
    asyncio.run(world.run(operator, passes=30))
    world.write(50, random.Random(2))
    world.drain_rate = 0  # it takes hours
    world.edit(replicas=4)
    asyncio.run(world.run(operator, passes=4))
    name = next(one.name for one in world.status().bookies if one.leaving is not None)
    world.writes.clear()

    evicted = asyncio.run(drained(world, ["node"]))

    flips = [one for one in world.writes if one.startswith(("flush", "resume"))]
    entry = world.status().bookie(name)
    assert len(set(evicted)) == len(evicted) == 5
    assert pods_on(world, "node") == []
    assert len(flips) == 2 * len(evicted), flips
    assert entry is not None
    assert entry.leaving is not None, "it goes on to leave from where it is now"


def test_without_the_right_to_read_nodes_a_drain_ends_too(world: World) -> None:
    world.forbidden = "Node"

    evicted = asyncio.run(drained(world, ["node"]))

    limited = world.status().condition("LimitedVisibility")
    assert len(evicted) == 4
    assert limited is not None
    assert limited.reason == "NoNodeRead"


@pytest.mark.parametrize("write", range(1, 15))
def test_a_drain_ends_whichever_write_was_the_operators_last(world: World, write: int, tmp_path: Path) -> None:
    def end(_: int) -> None:
        raise Crashed

    world.places = {SECOND: "elsewhere", SPARE: "elsewhere", "ledgers-zone-a-1": "elsewhere"}
    for pod in (SECOND, SPARE, "ledgers-zone-a-1"):
        world.kill(pod)
    asyncio.run(world.run(world.operator(), passes=6))

    evicted = asyncio.run(drained(world, ["node"], crash=CrashPoint(write, str(tmp_path), end)))

    assert evicted == [FIRST]
    assert world.is_quiet()
    assert world.status().eviction is None
    assert [one.state for one in world.bookies.values()] == [State.SERVING] * 4
