"""A fleet of pools of different shape (decision 0019): it goes over from zones without a restart, gets another pool,
rolls one pool's settings out, heals, and lets a pool go by proof."""

import asyncio
import random
from typing import Any

import pytest

from bookie.ports.admin import State
from bookie_operator.model.status import Departure
from bookie_operator.reconcile import Reconciler
from operator_world_support import World
from rolling_support import AUTOMATIC

ZONES = [
    {"name": "zone-a", "zone": "zone-a", "replicas": 2},
    {"name": "zone-b", "zone": "zone-b", "replicas": 1},
    {"name": "zone-c", "zone": "zone-c", "replicas": 1},
]
FAST = {"proofInterval": "5s"}


def volume(name: str, size: str) -> dict[str, Any]:
    return {"name": name, "size": size, "allowSharedFilesystem": True}


STORAGE = {
    "journal": {"volumes": [volume("fast", "1Gi")]},
    "ledgers": {"volumes": [volume("l0", "8Gi"), volume("l1", "8Gi")]},
}


def big(replicas: int, **said: Any) -> dict[str, Any]:
    return {"name": "big", "zone": "zone-b", "replicas": replicas, "storage": STORAGE, **said}


def run(world: World, operator: Reconciler | None = None, *, passes: int) -> None:
    asyncio.run(world.run(operator or world.operator(), passes=passes))


def go_over(world: World, *more: dict[str, Any], **changes: Any) -> None:
    spec = world.spec()
    spec.pop("replicas", None)
    spec.pop("zones", None)
    world.edit(pools=[*ZONES, *more], **changes)


def names_of(world: World, kind: str, part: str = "") -> list[str]:
    return sorted(one["metadata"]["name"] for one in world.of_kind(kind) if part in one["metadata"]["name"])


def uids(world: World) -> dict[str, str]:
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in world.of_kind("Pod")}


def until(world: World, operator: Reconciler, name: str, state: Departure, passes: int = 80) -> None:
    for _ in range(passes):
        entry = world.status().bookie(name)
        if entry is not None and entry.leaving is not None and entry.leaving.state is state:
            return
        run(world, operator, passes=1)
    raise AssertionError(f"{name} never was {state.value}: {world.status().bookie(name)}")


@pytest.mark.slow
def test_the_life_of_a_pool(world: World) -> None:
    world.write(300, random.Random(1))
    before = uids(world)

    go_over(world, rollout=AUTOMATIC, scaleDown=FAST)
    operator = world.operator()
    run(world, operator, passes=30)

    assert uids(world) == before, "nobody restarts because its zone is a pool now"
    assert world.is_quiet(), world.status()

    # Another pool, with other volumes, beside the pools of today.
    world.edit(pools=[*ZONES, big(2)])
    run(world, operator, passes=15)

    assert world.says_all_is_well(), world.status()
    assert names_of(world, "PersistentVolumeClaim", "big-0") == [
        "fast-ledgers-big-0",
        "l0-ledgers-big-0",
        "l1-ledgers-big-0",
    ]
    found = {one.name: (one.zone, one.desired, one.ready) for one in world.status().pools}
    assert found["big"] == ("zone-b", 2, 2)
    entry = world.status().bookie("ledgers-big-1")
    assert entry is not None
    assert (entry.pool, entry.zone, [one.name for one in entry.volumes]) == ("big", "zone-b", ["fast", "l0", "l1"])

    # One pool's settings: its bookies restart, one after the other, and no other.
    world.write(200, random.Random(2))
    stops: list[str] = []
    world.on_stop = stops.append
    world.edit(pools=[*ZONES, big(2, config={"flushInterval": "777"})])
    run(world, operator, passes=40)

    assert stops == ["ledgers-big-0", "ledgers-big-1"]
    assert all("flushInterval=777" in one.settings for one in world.bookies.values() if "-big-" in one.name)
    assert not any("flushInterval=777" in one.settings for one in world.bookies.values() if "-big-" not in one.name)

    # One loses its disks.
    world.on_stop = lambda _: None
    world.lose("ledgers-big-0")
    run(world, operator, passes=60)

    assert world.lost_entries() == []
    assert world.says_all_is_well(), world.status()
    assert [entry.bookie for entry in world.status().history] == ["ledgers-big-0"]

    # The pool goes: its bookies drain by proof, and it is taken out when it has none.
    world.edit(pools=[*ZONES, big(0)])
    run(world, operator, passes=120)

    assert world.lost_entries() == []
    assert world.thin_entries() == []
    assert names_of(world, "Pod", "big") == []
    assert {one.name: one.desired for one in world.status().pools}["big"] == 0
    world.edit(pools=ZONES)
    run(world, operator, passes=10)

    assert world.says_all_is_well(), world.status()
    assert names_of(world, "StatefulSet", "big") == []
    assert {name: uid for name, uid in uids(world).items() if name in before} == before


def test_one_pool_is_scaled_down_and_nobody_of_the_others_leaves(world: World) -> None:
    """Not even from a larger pool: each says its own number."""
    go_over(world, big(2), scaleDown=FAST)
    operator = world.operator()
    run(world, operator, passes=20)
    world.write(300, random.Random(3))
    run(world, operator, passes=3)

    world.edit(pools=[*ZONES, big(1)])
    until(world, operator, "ledgers-big-1", Departure.FORGOTTEN)

    assert world.lost_entries() == []
    assert world.thin_entries() == []
    assert [name for name in names_of(world, "Pod") if "big" in name] == ["ledgers-big-0"]
    assert len(names_of(world, "Pod", "zone")) == 4


@pytest.mark.slow
def test_a_pool_that_vanishes_from_the_spec_with_its_bookies_leaves_by_proof_too(world: World) -> None:
    """The API server refuses it; one that has not the rule, or a resource applied again, does not."""
    go_over(world, big(1), scaleDown=FAST)
    operator = world.operator()
    run(world, operator, passes=20)
    world.write(300, random.Random(4))
    run(world, operator, passes=3)

    world.edit(pools=ZONES)
    run(world, operator, passes=1)
    entry = world.status().bookie("ledgers-big-0")
    assert entry is not None
    assert entry.counted is None, entry

    run(world, operator, passes=120)

    assert world.lost_entries() == []
    assert world.thin_entries() == []
    assert names_of(world, "Pod", "big") == []
    assert world.status().history == ()


@pytest.mark.slow
def test_a_setting_of_a_pool_that_does_not_start_goes_back(world: World) -> None:
    rollout = AUTOMATIC | {"onFailure": "Rollback", "maxSecondsPerBookie": 60}
    go_over(world, big(2), rollout=rollout)
    operator = world.operator()
    run(world, operator, passes=30)
    assert world.says_all_is_well(), world.status()

    world.edit(pools=[*ZONES, big(2, config={"diskUsageThreshold": "0.11"})])
    run(world, operator, passes=100)

    told = world.status().condition("UpToDate")
    assert told is not None
    assert told.reason == "RolledBack", told
    assert "spec.pools[big].config.diskUsageThreshold" in told.message
    assert len([one for one in world.bookies.values() if one.state is State.SERVING]) == 6
    assert not [one.restart_for for one in world.status().bookies if one.restart_for]
