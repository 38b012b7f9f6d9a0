"""What does not work goes back by itself, through the same gates, and is not tried again (spec/operator.md#Q16)."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

import operator_world_support as worlds
from bookie.ports.admin import State
from bookie_operator.crash import CrashPoint
from bookie_operator.reconcile import Reconciler
from operator_world_support import Crashed, World
from rolling_support import PASSES, PODS, Watcher, die, forget_notes, images, run, said, turn

ROLLBACK = {"strategy": "Automatic", "soakSeconds": 3, "onFailure": "Rollback"}
BAD_CONFIG = {"diskUsageThreshold": "0.11"}
GOOD_IMAGE = "bookie:test"


@pytest.fixture
def careful(world: World) -> World:
    world.edit(rollout=ROLLBACK)
    run(world, passes=8)
    return world


def spec_of(world: World) -> dict[str, Any]:
    return dict(world.spec())


def is_as_before(world: World) -> bool:
    quiet = world.is_quiet() and turn(world) is None
    return quiet and set(images(world).values()) == {GOOD_IMAGE} and not told_behind(world)


def told_behind(world: World) -> bool:
    """Whether some pod is still to be made of what worked before."""
    return any(one.restart_for for one in world.status().bookies)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "field"),
    [({"image": worlds.BROKEN_IMAGE}, "spec.image"), ({"config": BAD_CONFIG}, "spec.config.diskUsageThreshold")],
    ids=["image", "settings"],
)
def test_what_does_not_start_goes_back_and_the_spec_stays(careful: World, change: dict[str, Any], field: str) -> None:
    watcher = Watcher(careful)
    careful.edit(**change)
    spec = spec_of(careful)

    run(careful, passes=2 * PASSES)

    assert is_as_before(careful), careful.status().conditions
    assert (set(watcher.stops), watcher.wrong) == ({PODS[0]}, [])
    assert spec_of(careful) == spec
    for kind in ("Stalled", "UpToDate"):
        assert said(careful, kind)[1] == "RolledBack"
        assert field in said(careful, kind)[2]
    assert said(careful, "Ready")[0] == "True"


@pytest.mark.slow
def test_what_failed_is_never_tried_again_and_nothing_is_written(careful: World) -> None:
    careful.edit(image=worlds.BROKEN_IMAGE)
    operator = careful.operator()
    run(careful, operator, passes=2 * PASSES)
    watcher = Watcher(careful)
    careful.writes.clear()

    run(careful, operator, passes=PASSES)
    run(careful, careful.operator(), passes=6)

    assert watcher.stops == []
    assert [one for one in careful.writes if not one.endswith("/status")] == []


@pytest.mark.slow
def test_a_corrected_spec_goes_on_and_becomes_what_worked(careful: World) -> None:
    watcher = Watcher(careful)
    careful.edit(image=worlds.BROKEN_IMAGE)
    run(careful, passes=2 * PASSES)

    careful.edit(image="bookie:right")
    run(careful, passes=2 * PASSES)

    assert watcher.wrong == []
    assert set(images(careful).values()) == {"bookie:right"}
    assert said(careful, "Stalled")[0] == "False"
    assert said(careful, "UpToDate")[:2] == ("True", "Updated")

    careful.edit(config=BAD_CONFIG)
    run(careful, passes=2 * PASSES)
    assert set(images(careful).values()) == {"bookie:right"}, "not further back than the last that worked"


@pytest.mark.slow
def test_bookies_that_came_first_go_back_one_by_one_behind_gates(careful: World) -> None:
    """The third bookie does not come back: the disk of its node cannot hold the image."""
    watcher, operator = Watcher(careful), careful.operator()
    careful.edit(image="bookie:next")
    while len(watcher.stops) < 2 or turn(careful) is not None:
        run(careful, operator, passes=1)

    while watcher.stops[2:] != [PODS[2]]:
        run(careful, operator, passes=1)
    break_container(careful, PODS[2])
    run(careful, operator, passes=3 * PASSES)

    assert watcher.wrong == []
    assert is_as_before(careful), (images(careful), careful.status().conditions)
    assert PODS[3] not in watcher.stops, "it never had the other one"


def break_container(world: World, pod: str) -> None:
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}
    if ("Pod", pod) not in world.objects:
        world.settle()
    live = world.objects[("Pod", pod)]
    world.put(live | {"status": live["status"] | {"containerStatuses": [{"state": {"waiting": waiting}}]}})
    world.bookies = {address: one for address, one in world.bookies.items() if one.name != pod}


@pytest.mark.slow
def test_halt_is_the_default_and_tries_again_what_was_rolled_back(careful: World) -> None:
    careful.edit(image=worlds.BROKEN_IMAGE)
    run(careful, passes=2 * PASSES)
    assert is_as_before(careful)

    careful.edit(rollout=ROLLBACK | {"onFailure": "Halt"})
    run(careful)

    assert images(careful)[PODS[0]] == worlds.BROKEN_IMAGE
    assert said(careful, "Stalled")[1] == "RolloutHalted"


def test_where_nothing_is_known_to_have_worked_it_halts_and_says_so(world: World) -> None:
    """Its pods are of an operator that noted nothing on them."""
    forget_notes(world)
    del world.objects[("ConfigMap", "ledgers-record")]
    del world.objects[("BookieCluster", "ledgers")]["status"]["rollout"]
    world.edit(rollout=ROLLBACK)
    run(world, passes=8)

    world.edit(image=worlds.BROKEN_IMAGE)
    run(world)

    assert said(world, "Stalled")[1] == "RolloutHalted"
    assert "nothing is known to have worked" in said(world, "Stalled")[2]
    assert set(list(images(world).values())[1:]) == {GOOD_IMAGE}


@pytest.mark.slow
def test_a_status_that_somebody_deletes_does_not_bring_back_what_failed(careful: World) -> None:
    careful.edit(image=worlds.BROKEN_IMAGE)
    run(careful, passes=2 * PASSES)
    watcher = Watcher(careful)

    del careful.objects[("BookieCluster", "ledgers")]["status"]
    run(careful, passes=20)

    assert watcher.stops == []
    assert is_as_before(careful)


@pytest.mark.slow
def test_a_bookie_that_cannot_flush_is_no_proof_against_the_spec(careful: World) -> None:
    careful.bookie(PODS[0]).flush_problem = "a disk fails"
    careful.edit(image="bookie:next", rollout=ROLLBACK | {"maxSecondsPerBookie": 60})

    run(careful, passes=90)

    found = careful.status().rollout
    assert found is not None
    assert found.failed is None
    assert said(careful, "Stalled")[1] == "RolloutHalted"


@pytest.mark.slow
def test_a_disk_that_is_lost_in_its_turn_is_no_proof_against_the_spec(careful: World) -> None:
    """It waits for a person's approval, for longer than a bookie may take to come back."""
    careful.edit(rollout=ROLLBACK | {"maxSecondsPerBookie": 60}, repair={"regeneration": "Manual"})
    operator = careful.operator()
    run(careful, operator, passes=60)
    watcher = Watcher(careful)
    careful.edit(image="bookie:next")
    while not watcher.stops:
        run(careful, operator, passes=1)
    careful.lose(watcher.stops[0])

    run(careful, operator, passes=90)

    found = careful.status().rollout
    assert found is not None
    assert found.step is not None, "it is still its turn"
    assert found.failed is None
    assert images(careful)[watcher.stops[0]] == "bookie:next"
    assert said(careful, "Stalled")[1] != "RolloutHalted", "no spec brings its disk back"


@pytest.mark.slow
def test_a_leaving_bookie_whose_pod_has_no_node_is_no_proof_against_the_spec(careful: World) -> None:
    careful.edit(replicas=6, rollout=ROLLBACK | {"maxSecondsPerBookie": 60})
    operator = careful.operator()
    run(careful, operator, passes=40)
    careful.write(50, random.Random(2))
    careful.drain_rate = 0  # it takes hours
    careful.edit(replicas=5)
    run(careful, operator, passes=4)
    name = next(one.name for one in careful.status().bookies if one.leaving is not None)
    stops = list[str]()
    careful.on_stop = stops.append
    careful.edit(image="bookie:next")
    while not stops:
        run(careful, operator, passes=1)
    rolled = stops[0]
    assert careful.objects[("Pod", rolled)]["spec"]["nodeName"], "it has its node again"

    careful.cordon("node")  # and there is no other one for the one that leaves
    careful.kill(name)
    for _ in range(50):
        for one in careful.bookies.values():
            one.is_reachable = one.name != rolled  # it starts slowly
        run(careful, operator, passes=1)

    found = careful.status().rollout
    assert found is not None
    assert found.step is not None
    assert found.step.bookie == rolled
    assert found.failed is None
    assert said(careful, "Stalled")[1] != "RolloutHalted"
    assert careful.objects[("Pod", name)]["status"]["phase"] == "Pending", "it had no node all the time"


@pytest.mark.slow
def test_the_operator_dies_after_any_write_and_the_way_back_ends_all_the_same(careful: World, tmp_path: Path) -> None:
    after = 0
    while True:
        after += 1
        world = worlds.clone(careful)
        watcher = Watcher(world)
        world.edit(image=worlds.BROKEN_IMAGE)
        crash = CrashPoint(after, str(tmp_path), die)
        operator: Reconciler = world.operator(crash)
        crashes = 0
        for _ in range(3 * PASSES):
            try:
                asyncio.run(operator.reconcile(worlds.KEY))
            except Crashed:
                crashes += 1
                operator = world.operator(has_watched=False)
            world.settle()
            if said(world, "Stalled")[1] == "RolledBack" and is_as_before(world):
                break

        assert is_as_before(world), (after, world.status().conditions)
        assert watcher.wrong == [], after
        assert set(watcher.stops) == {PODS[0]}, (after, watcher.stops)
        assert all(one.state is State.SERVING for one in world.bookies.values()), after
        if not crashes:
            break
    assert after > len(PODS)
