"""Two clusters of one operator, in whole passes: one rolls out at a time (spec/operator.md#H4)."""

import random

import pytest

import operator_world_support as worlds
from bookie_operator.model import names
from bookie_operator.model.status import BookieClusterStatus, RolloutStatus
from operator_world_support import World
from rolling_support import AUTOMATIC, PODS, Watcher, images, run


@pytest.mark.slow
def test_a_cluster_waits_for_the_turn_of_another_and_goes_on_after_it(world: World) -> None:
    other = RolloutStatus(inputs="new", desired=3, updated=1, turn_since="2027-01-15T07:00:00Z", waiting_for="soaking")
    manifest = {"kind": names.KIND, "metadata": {"name": "another", "namespace": "data", "uid": "another-uid"}}
    world.put(manifest | {"spec": {}, "status": BookieClusterStatus(rollout=other).dump()})
    world.rolling_max = 1
    watcher, operator = Watcher(world), world.operator()

    world.edit(rollout=AUTOMATIC, image="bookie:next")
    run(world, operator, passes=6)
    waiting = world.status().rollout
    assert waiting is not None
    assert (watcher.stops, waiting.asks_for_turn, waiting.turn_since) == ([], True, None)
    assert "data/another has its turn since 2027-01-15T07:00:00Z, and waits for: soaking" in (waiting.waiting_for or "")

    del world.objects[(names.KIND, "another")]
    run(world, operator, passes=5)
    begun = world.status().rollout
    assert begun is not None
    assert begun.turn_since is not None
    run(world, world.operator(), passes=45)

    done = world.status().rollout
    assert done is not None
    assert (watcher.stops, watcher.wrong) == (PODS, [])
    assert (done.turn_since, done.asks_for_turn) == (None, False)


@pytest.mark.slow
def test_a_fleet_whose_volumes_go_with_its_pods_waits_for_its_turn_and_keeps_it_to_its_last_bookie() -> None:
    world = worlds.ephemeral(scaleDown={"proofInterval": "5s"}, rollout={"strategy": "Automatic", "soakSeconds": 2})
    world.rolling_max = 1
    operator = world.operator()
    run(world, operator, passes=14)
    assert world.is_quiet(), world.status()
    world.write(60, random.Random(1))
    had = images(world)
    other = RolloutStatus(inputs="new", desired=3, updated=1, turn_since="2027-01-15T07:00:00Z", waiting_for="soaking")
    manifest = {"kind": names.KIND, "metadata": {"name": "another", "namespace": "data", "uid": "another-uid"}}
    world.put(manifest | {"spec": {}, "status": BookieClusterStatus(rollout=other).dump()})

    world.edit(image="bookie:next")
    run(world, operator, passes=12)
    waiting = world.status().rollout
    assert waiting is not None
    assert (images(world), waiting.asks_for_turn, waiting.turn_since) == (had, True, None)
    told = [one.leaving.waiting_for for one in world.status().bookies if one.leaving is not None]
    assert any("data/another has its turn since" in (why or "") for why in told), told

    del world.objects[(names.KIND, "another")]
    has_turn = []
    for _ in range(250):
        run(world, operator, passes=1)
        known = world.status().rollout
        assert known is not None
        has_turn.append(known.turn_since is not None)
        if set(images(world).values()) == {"bookie:next"} and world.is_quiet() and not has_turn[-1]:
            break

    assert set(images(world).values()) == {"bookie:next"}
    first, last = has_turn.index(True), len(has_turn) - 1 - has_turn[::-1].index(True)
    assert all(has_turn[first : last + 1]), "nobody else comes between two of its bookies"
    assert not has_turn[-1], "and it is given on"
    assert (world.wrong, world.lost_entries(), world.thin_entries()) == ([], [], [])
