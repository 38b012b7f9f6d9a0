"""Two clusters of one operator, in whole passes: one rolls out at a time (spec/operator.md#H4)."""

import pytest

from bookie_operator.model import names
from bookie_operator.model.status import BookieClusterStatus, RolloutStatus
from operator_world_support import World
from rolling_support import AUTOMATIC, PODS, Watcher, run


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
