"""Two bookies a node: it is drained, or lost, as one, when no ledger depends on both (spec/operator.md#N8)."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

import operator_support as make
import operator_world_support as worlds
from bookie.base.ids import BookieId
from bookie.ports.admin import State
from bookie_operator.crash import CrashPoint
from bookie_operator.model import names
from operator_world_support import Crashed, World

FLEET = [f"ledgers-big-{number}" for number in range(6)]
NODE, PAIR = "n-0", FLEET[:2]
PLACES = {name: f"n-{number // 2}" for number, name in enumerate(FLEET)}
CLAIMS = [
    f"delete PersistentVolumeClaim/{volume}-{name}" for name in PAIR for volume in ("journal", "ledgers", "index")
]


def storage() -> dict[str, Any]:
    out: dict[str, Any] = make.spec()["storage"] | {"journalWriteData": True}
    for role in ("journal", "ledgers", "index"):
        for volume in out[role]["volumes"]:
            volume["kind"] = "LocalDisk"
    return out


def bookie_id(pod: str) -> BookieId:
    parts = names.parse_pod("ledgers", pod)
    assert parts is not None
    return BookieId(names.bookie_id("data", "ledgers", *parts))


def write(world: World, count: int, rng: random.Random, *, nodes: int = 3) -> None:
    """Entries of ledgers that our clients made: a bookie of each node; with `nodes` 2, two of the first node, as a
    client that knows no machines may have it."""
    for _ in range(count):
        chosen = [bookie_id(FLEET[2 * node + rng.randint(0, 1)]) for node in range(3)]
        if nodes == 2:
            chosen = [*(bookie_id(name) for name in PAIR), chosen[rng.randint(1, 2)]]
        rng.shuffle(chosen)
        by_id = {one.bookie_id: one for one in world.bookies.values()}
        for one in chosen[:2]:
            by_id[one].disk.add(len(world.entries))
        world.entries.append(tuple(chosen))


@pytest.fixture(scope="module")
def local() -> World:
    """A fleet in service on local disks, two bookies on each node, and one node to spare."""
    pools = [{"name": "big", "replicas": 6, "perNode": 2}]
    world = worlds.world(storage=storage(), replicas=None, zones=None, pools=pools)
    world.has_local_disks, world.places = True, dict(PLACES)
    world.mount = worlds.MountProof.PROVEN
    for name in sorted(set(PLACES.values())):
        world.add_node(name)
    asyncio.run(world.run(world.operator(), passes=20))
    assert world.is_quiet(), world.status()
    world.add_node("n-spare")
    return world


@pytest.fixture(params=["Restart", "ReadOnlyFirst"])
def draining(local: World, request: pytest.FixtureRequest) -> World:
    out = worlds.clone(local)
    out.edit(disruption={"onDrain": request.param}, rollout={"strategy": "Manual", "soakSeconds": 2})
    asyncio.run(out.run(out.operator(), passes=3))
    write(out, 50, random.Random(1))
    return out


@pytest.fixture
def losing(local: World) -> World:
    out = worlds.clone(local)
    out.edit(repair={"stabilization": "6s", "lostNode": {"policy": "Replace", "after": "20s"}})
    asyncio.run(out.run(out.operator(), passes=3))
    write(out, 50, random.Random(1))
    out.writes.clear()
    return out


def drain(world: World, *, passes: int = 25, crash: CrashPoint | None = None) -> list[str]:
    """`kubectl drain`: every pod of the node is tried in each second. Returns who was evicted, in order."""

    async def run() -> list[str]:
        operator, evicted = world.operator(crash), list[str]()
        for _ in range(passes):
            left = [pod for pod in PAIR if world.objects[("Pod", pod)]["spec"].get("nodeName") == NODE]
            evicted += [pod for pod in left if world.evict(pod)]
            world.settle()
            try:
                await operator.reconcile(worlds.KEY)
            except Crashed:
                operator = world.operator(has_watched=False)
        return evicted

    world.cordon(NODE)
    return asyncio.run(run())


def lose_node(world: World) -> None:
    world.switch_off(NODE)
    world.delete_node(NODE)


def deleted(world: World) -> list[str]:
    return [one for one in world.writes if one.startswith("delete PersistentVolumeClaim/")]


def test_a_drain_of_a_node_takes_both_its_bookies_one_after_the_other(draining: World) -> None:
    away: list[list[str]] = []
    draining.on_stop = lambda _: away.append([name for name in FLEET if not serves(draining, name)])

    evicted = drain(draining)
    draining.cordon(NODE, is_cordoned=False)
    asyncio.run(draining.run(draining.operator(), passes=12))

    assert sorted(evicted) == PAIR
    assert away == [[], evicted[:1]] or away == [evicted[:1], evicted], away
    assert draining.is_quiet(), draining.status()
    assert all(serves(draining, name) for name in FLEET)


@pytest.mark.parametrize("on_drain", ["Restart", "ReadOnlyFirst"])
def test_a_drain_ends_also_where_the_other_nodes_are_full_and_no_disk_is_local(on_drain: str) -> None:
    """Network disks, and no node to spare: perNode keeps the pods waiting until the node takes pods again."""
    pools = [{"name": "big", "replicas": 6, "perNode": 2}]
    remote = make.spec()["storage"] | {"journalWriteData": True}
    world = worlds.world(storage=remote, replicas=None, zones=None, pools=pools, disruption={"onDrain": on_drain})
    world.has_local_disks, world.places = True, dict(PLACES)  # of the world: a pod goes to its node or to none
    for name in sorted(set(PLACES.values())):
        world.add_node(name)
    world.edit(rollout={"strategy": "Manual", "soakSeconds": 2})
    asyncio.run(world.run(world.operator(), passes=20))
    assert world.is_quiet(), world.status()
    write(world, 50, random.Random(1))

    assert sorted(drain(world)) == PAIR


def serves(world: World, name: str) -> bool:
    return any(one.name == name and one.state.serves for one in world.bookies.values())


def an_old_ledger(world: World) -> None:
    write(world, 1, random.Random(2), nodes=2)


def an_unreadable_record(world: World) -> None:
    world.unreadable = 1


def a_release_before(world: World) -> None:
    world.no_dependents = "UNIMPLEMENTED"


def another_node_is_away(world: World) -> None:
    world.bookie(FLEET[4]).is_reachable = False


@pytest.mark.parametrize("doubt", [an_old_ledger, another_node_is_away])
def test_the_second_stays_while_a_ledger_may_depend_on_both(draining: World, doubt: Any) -> None:
    doubt(draining)

    evicted = drain(draining, passes=12)

    assert len(evicted) <= 1, evicted
    assert sum(serves(draining, name) for name in FLEET) >= 4


@pytest.mark.parametrize("write_number", [2, 4, 6])
def test_a_drain_ends_whichever_write_was_the_operators_last(
    draining: World, write_number: int, tmp_path: Path
) -> None:
    def end(_: int) -> None:
        raise Crashed

    evicted = drain(draining, crash=CrashPoint(write_number, str(tmp_path), end))

    assert sorted(evicted) == PAIR
    draining.cordon(NODE, is_cordoned=False)
    asyncio.run(draining.run(draining.operator(), passes=12))
    assert [one.state for one in draining.bookies.values()] == [State.SERVING] * 6


def test_a_lost_node_costs_both_bookies_and_no_entry(losing: World) -> None:
    lose_node(losing)
    losing.places = dict.fromkeys(PAIR, "n-spare")

    asyncio.run(losing.run(losing.operator(), passes=120, until_quiet=True))

    assert sorted(deleted(losing)) == sorted(CLAIMS)
    assert losing.is_quiet(), losing.status()
    assert sorted(one.bookie_id for one in losing.accepted) == [bookie_id(name) for name in PAIR], "each by a grant"
    assert losing.lost_entries() == []
    assert losing.thin_entries() == []
    assert {losing.objects[("Pod", name)]["spec"]["nodeName"] for name in PAIR} == {"n-spare"}


@pytest.mark.parametrize("doubt", [an_old_ledger, a_release_before])
def test_of_a_lost_node_nothing_is_deleted_while_a_ledger_may_depend_on_both(losing: World, doubt: Any) -> None:
    doubt(losing)
    lose_node(losing)

    losing.step_ms = 3_000
    asyncio.run(losing.run(losing.operator(), passes=20))

    told = losing.status().bookie(PAIR[0])
    assert deleted(losing) == []
    assert told is not None
    assert told.message.startswith(f"node {NODE} is gone since"), told.message


def test_two_empty_bookies_of_one_node_wait_for_a_person_while_a_ledger_may_depend_on_both(losing: World) -> None:
    an_unreadable_record(losing)
    for name in PAIR:
        losing.lose(name)

    asyncio.run(losing.run(losing.operator(), passes=20))

    stalled = losing.status().condition("Stalled")
    assert losing.accepted == []
    assert stalled is not None
    assert stalled.reason == "AckQuorumBreached"


def test_the_operator_may_die_after_every_write_of_a_lost_node(losing: World, tmp_path: Path) -> None:
    def end(_: int) -> None:
        raise Crashed

    lose_node(losing)
    losing.step_ms = 5_000
    for number in (2, 5, 8):
        (tmp_path / str(number)).mkdir()
        crash = CrashPoint(number, str(tmp_path / str(number)), end)
        world = worlds.clone(losing)
        asyncio.run(world.run(world.operator(crash), passes=90, until_quiet=True))

        assert sorted(deleted(world)) == sorted(CLAIMS), number
        assert world.is_quiet(), world.status()
        assert world.lost_entries() == []
