"""The operator rolls out by itself: one bookie at a time behind its gates, halted by the first that does not come back,
undone by the reverse edit, and as far as it was after any death (spec/operator.md#Q1 to Q8)."""

import asyncio
import contextlib
import random
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import operator_world_support as worlds
from bookie.ports.admin import State
from bookie_operator.crash import CrashPoint
from bookie_operator.gateways.kube import KubeError, KubeForbidden
from bookie_operator.model.status import RolloutStep
from bookie_operator.reconcile import Reconciler
from operator_world_support import Crashed, World

PODS = ["ledgers-zone-a-0", "ledgers-zone-a-1", "ledgers-zone-b-0", "ledgers-zone-c-0"]
AUTOMATIC = {"strategy": "Automatic", "soakSeconds": 3}
PASSES = 60  # seconds; a bookie takes about eight
WRITES_MIN = 3 * len(PODS)


def die(_: int) -> NoReturn:
    raise Crashed


class Watcher:
    """Judges each stop by the world itself, and knows nothing of the operator's rules."""

    def __init__(self, world: World) -> None:
        self.world, self.stops, self.wrong = world, list[str](), list[str]()
        world.on_stop = self

    def __call__(self, pod: str) -> None:
        self.stops.append(pod)
        running = {one.name: one for one in self.world.bookies.values()}
        if pod not in running:
            return  # it did not run: nobody misses it
        others = [one for one in self.world.of_kind("Pod") if one["metadata"]["name"] != pod]
        down = [one["metadata"]["name"] for one in others if one["metadata"]["name"] not in running]
        down += [name for name, one in running.items() if name != pod and one.state is not State.SERVING]
        if len(others) != len(PODS) - 1 or down or self.world.dataless:
            self.wrong.append(f"{pod} was stopped while {down or 'some'} did not serve, {self.world.dataless} empty")
        if running[pod].state is not State.READ_ONLY:
            self.wrong.append(f"{pod} was stopped before it had flushed")
        if self.world.has_lease is False:
            self.wrong.append(f"{pod} was stopped without the lease")


@pytest.fixture
def automatic(world: World) -> World:
    world.edit(rollout=AUTOMATIC)
    run(world)
    return world


def run(world: World, operator: Reconciler | None = None, *, passes: int = PASSES) -> None:
    asyncio.run(world.run(operator or world.operator(), passes=passes))


def images(world: World) -> dict[str, str]:
    found = {one["metadata"]["name"]: one["spec"]["containers"][0]["image"] for one in world.of_kind("Pod")}
    return dict(sorted(found.items()))


def uids(world: World) -> dict[str, str]:
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in world.of_kind("Pod")}


def turn(world: World) -> RolloutStep | None:
    found = world.status().rollout
    return found.step if found is not None else None


def said(world: World, kind: str) -> tuple[str, str, str]:
    found = world.status().condition(kind)
    assert found is not None
    return found.status, found.reason, found.message


def test_an_image_goes_through_the_fleet_zone_by_zone_each_flushed_and_proven_before_the_next(automatic: World) -> None:
    watcher = Watcher(automatic)

    automatic.edit(image="bookie:next")
    run(automatic)

    assert (watcher.stops, watcher.wrong) == (PODS, [])
    assert set(images(automatic).values()) == {"bookie:next"}
    assert said(automatic, "UpToDate")[:2] == ("True", "Updated")
    assert automatic.is_quiet()
    assert [one for one in automatic.events() if one.startswith("Rollout")] == [
        "RolloutStarted", *["RolloutStep"] * len(PODS), "RolloutCompleted",
    ]  # fmt: skip
    assert automatic.events().count("BookieRolledOut") == len(PODS)


def test_when_it_is_done_nothing_is_written_any_more(automatic: World) -> None:
    automatic.edit(image="bookie:next")
    operator = automatic.operator()
    run(automatic, operator)
    automatic.writes.clear()

    run(automatic, operator, passes=20)

    assert automatic.writes == []


def test_ready_stays_true_and_the_condition_counts_while_it_goes_well(automatic: World) -> None:
    automatic.edit(image="bookie:next")
    operator, ready, told = automatic.operator(), set(), set()
    for _ in range(PASSES):
        run(automatic, operator, passes=1)
        ready.add(said(automatic, "Ready")[0])
        told.add(said(automatic, "UpToDate")[2])

    assert ready == {"True"}
    assert any("2 of 4 run what the spec says, next ledgers-zone-b-0, waiting for: " in one for one in told), told


@pytest.mark.parametrize(
    "change",
    [{"config": {"flushInterval": "777"}}, {"resources": {"requests": {"cpu": "50m"}}}],
    ids=["settings", "resources"],
)
def test_settings_and_resources_roll_as_images_do(automatic: World, change: dict[str, object]) -> None:
    watcher = Watcher(automatic)

    automatic.edit(**change)
    run(automatic)

    assert (watcher.stops, watcher.wrong) == (PODS, [])


@pytest.mark.parametrize(
    "change",
    [
        {"rollout": {"strategy": "Manual"}},
        {"rollout": AUTOMATIC | {"paused": True}},
        {"lifecycle": {"paused": True, "terminationGrace": "2m"}},
    ],
    ids=["manual", "rollout paused", "paused"],
)
def test_manual_and_paused_stop_nobody(automatic: World, change: dict[str, object]) -> None:
    watcher = Watcher(automatic)

    automatic.edit(image="bookie:next", **change)
    run(automatic, passes=20)

    assert watcher.stops == []


def test_what_reaches_no_pod_stops_nobody(automatic: World) -> None:
    before = uids(automatic)

    automatic.edit(repair={"stabilization": "9s", "maxPerDay": 9}, disruption={"pdb": False})
    run(automatic, passes=20)

    assert uids(automatic) == before


@pytest.mark.parametrize("words", ["ImagePullBackOff", "CrashLoopBackOff"])
def test_what_does_not_start_halts_at_the_first_bookie_and_the_reverse_edit_is_enough(
    automatic: World, words: str
) -> None:
    watcher, before = Watcher(automatic), uids(automatic)
    bad = {"image": worlds.BROKEN_IMAGE} if words == "ImagePullBackOff" else {"config": {"diskUsageThreshold": "0.11"}}
    good = {"image": "bookie:test"} if words == "ImagePullBackOff" else {"config": None}

    automatic.edit(**bad)
    run(automatic)
    halted = said(automatic, "Stalled")

    assert watcher.stops == PODS[:1]
    assert halted[:2] == ("True", "RolloutHalted")
    assert words in halted[2]
    assert {name: uid for name, uid in uids(automatic).items() if name != PODS[0]} == {
        name: uid for name, uid in before.items() if name != PODS[0]
    }

    automatic.edit(**good)
    run(automatic)

    # The one that could not start, and nobody who served.
    assert watcher.stops[1:] == PODS[:1] if words == "CrashLoopBackOff" else watcher.stops[1:2] == PODS[:1]
    assert watcher.wrong == []
    assert automatic.is_quiet()
    assert said(automatic, "Stalled")[0] == "False"


def test_a_correction_goes_on_with_the_one_that_is_down_and_then_with_the_rest(automatic: World) -> None:
    watcher = Watcher(automatic)
    automatic.edit(image=worlds.BROKEN_IMAGE)
    run(automatic)

    automatic.edit(image="bookie:right")
    run(automatic, passes=2 * PASSES)

    assert watcher.stops == [PODS[0], *PODS]
    assert watcher.wrong == []
    assert set(images(automatic).values()) == {"bookie:right"}


def test_a_good_bookie_that_dies_does_not_come_back_with_what_another_did_not_survive(automatic: World) -> None:
    watcher = Watcher(automatic)
    automatic.edit(image=worlds.BROKEN_IMAGE)
    run(automatic)
    assert watcher.stops == PODS[:1]

    crash_container(automatic, PODS[1])
    run(automatic)

    assert watcher.stops == PODS[:1]
    assert images(automatic)[PODS[1]] == "bookie:test"
    assert "BookieRolledOut" not in automatic.events()


def crash_container(world: World, pod: str) -> None:
    """The bookie's container ends, and its kubelet waits before it starts it again."""
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}
    live = world.objects[("Pod", pod)]
    world.put(live | {"status": live["status"] | {"containerStatuses": [{"state": {"waiting": waiting}}]}})
    world.bookies = {address: one for address, one in world.bookies.items() if one.name != pod}


def test_a_bookie_that_cannot_flush_is_not_stopped(automatic: World) -> None:
    watcher = Watcher(automatic)
    automatic.bookie(PODS[0]).flush_problem = "a disk fails"

    automatic.edit(image="bookie:next")
    run(automatic)

    assert watcher.stops == []
    assert "flush" in automatic.writes[-1]
    assert "a disk fails" in said(automatic, "UpToDate")[2]


@pytest.mark.parametrize(
    ("refusal", "word"),
    [
        (KubeForbidden("delete Pod", 403, "no such right"), "no such right"),
        (KubeError("delete Pod", 422, "an admission policy"), "an admission policy"),
        (KubeError("delete Pod", 409, "it changed"), ""),
    ],
    ids=["forbidden", "denied", "conflict"],
)
def test_a_deletion_that_is_refused_is_told_and_tried_again(automatic: World, refusal: KubeError, word: str) -> None:
    watcher, operator = Watcher(automatic), automatic.operator()
    automatic.no_deletion = refusal
    automatic.edit(image="bookie:next")
    run(automatic, operator, passes=12)

    assert word in said(automatic, "UpToDate")[2]
    assert {"RolloutStarted", "RolloutStep"} <= set(automatic.events())
    assert watcher.stops == []

    automatic.no_deletion = None
    run(automatic, operator)
    assert (watcher.stops, watcher.wrong) == (PODS, [])


def test_a_gate_that_closes_while_a_bookie_flushes_keeps_its_pod(automatic: World) -> None:
    watcher = Watcher(automatic)

    def lose_another(_: str) -> None:
        automatic.on_flush = worlds.nothing
        automatic.lose(PODS[3])

    automatic.on_flush = lose_another
    automatic.edit(image="bookie:next")
    run(automatic, passes=3 * PASSES)

    assert watcher.wrong == []
    assert set(images(automatic).values()) == {"bookie:next"}


def test_a_flush_that_takes_its_time_is_asked_for_once_more_before_the_pod_goes(automatic: World) -> None:
    watcher, operator = Watcher(automatic), automatic.operator()
    automatic.bookie(PODS[0]).flush_ms = 20_000
    automatic.edit(image="bookie:next")

    run(automatic, operator, passes=10)
    assert watcher.stops == []

    automatic.bookie(PODS[0]).flush_ms = 0
    run(automatic, operator)
    assert (watcher.stops, watcher.wrong) == (PODS, [])


def test_a_gate_that_closes_after_the_flush_gives_the_turn_back(automatic: World) -> None:
    watcher = Watcher(automatic)
    automatic.bookie(PODS[0]).flush_problem = "a disk is slow"
    automatic.edit(image="bookie:next")
    operator = automatic.operator()
    run(automatic, operator, passes=8)
    assert automatic.bookie(PODS[0]).state is State.READ_ONLY

    automatic.edit(rollout=AUTOMATIC | {"paused": True})
    run(automatic, operator, passes=8)

    assert automatic.bookie(PODS[0]).state is State.SERVING
    assert (turn(automatic), watcher.stops) == (None, [])


def test_a_loss_in_the_middle_is_healed_before_the_next_stop(automatic: World) -> None:
    watcher, rng = Watcher(automatic), random.Random(5)
    automatic.write(40, rng)
    automatic.edit(image="bookie:next")
    operator = automatic.operator()
    while len(watcher.stops) < 2 or turn(automatic) is not None:
        run(automatic, operator, passes=1)

    automatic.lose(PODS[0])
    run(automatic, operator, passes=3 * PASSES)

    assert watcher.wrong == []
    assert len(automatic.accepted) == 1
    assert automatic.lost_entries() == []
    assert set(images(automatic).values()) == {"bookie:next"}


@pytest.mark.slow
def test_the_operator_dies_after_any_write_and_the_roll_out_ends_all_the_same(automatic: World, tmp_path: Path) -> None:
    after = 0
    while True:
        after += 1
        world = worlds.clone(automatic)
        watcher = Watcher(world)
        world.edit(image="bookie:next")
        crash = CrashPoint(after, str(tmp_path), die)
        operator, crashes = world.operator(crash), 0
        for _ in range(PASSES):
            try:
                asyncio.run(operator.reconcile(worlds.KEY))
            except Crashed:
                crashes += 1
                operator = world.operator(has_watched=False)
            world.settle()
            if said(world, "UpToDate")[0] == "True" and set(images(world).values()) == {"bookie:next"}:
                break

        assert (watcher.stops, watcher.wrong) == (PODS, []), after
        assert world.is_quiet(), after
        assert set(images(world).values()) == {"bookie:next"}, after
        if not crashes:
            break
    assert after > WRITES_MIN, "turn, flush and end of each bookie are writes of their own"


def test_a_default_image_of_a_newer_operator_stops_nobody(automatic: World) -> None:
    before = uids(automatic)
    operator = automatic.operator()
    operator._image = "bookie:newer-release"  # what an upgraded operator has

    run(automatic, operator, passes=30)

    assert uids(automatic) == before
    assert automatic.objects[("StatefulSet", "ledgers-zone-a")]["spec"]["template"]["spec"]["containers"][0][
        "image"
    ] == ("bookie:newer-release")
    assert said(automatic, "UpToDate")[1] == "Updating"


def test_two_operators_that_both_believe_to_lead_stop_one_bookie(automatic: World) -> None:
    watcher = Watcher(automatic)
    automatic.edit(image="bookie:next")
    first, second = automatic.operator(), automatic.operator()

    async def both() -> None:
        for _ in range(PASSES):
            for one in (first, second):
                with contextlib.suppress(KubeError):  # a conflict: the other one was first
                    await one.reconcile(worlds.KEY)
            automatic.settle()

    asyncio.run(both())

    assert watcher.wrong == []


EDITS = st.sampled_from(["image", "settings", "broken", "bad setting", "back", "kill", "lose", "silent", "heard"])


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(story=st.lists(st.tuples(EDITS, st.integers(1, 25), st.integers(0, 3)), max_size=6))
def test_whatever_is_edited_and_breaks_no_stop_is_wrong_and_the_reverse_ends_where_it_began(
    built: World, story: list[tuple[str, int, int]]
) -> None:
    world = worlds.clone(built)
    world.edit(rollout=AUTOMATIC, repair={"stabilization": "6s", "maxPerDay": 20})
    run(world, passes=6)
    began, spec = images(world), dict(world.spec())
    watcher, operator = Watcher(world), world.operator()
    for what, passes, number in story:
        happen(world, what, number)
        run(world, operator, passes=passes)
    for one in world.bookies.values():
        one.is_reachable = True
    world.edit(config=None, **{key: spec.get(key) for key in ("image", "rollout")})
    for _ in range(5 * PASSES):
        run(world, operator, passes=1)
        if said(world, "UpToDate")[0] == "True" and world.is_quiet() and images(world) == began:
            break

    assert watcher.wrong == []
    assert images(world) == began
    assert world.is_quiet(), (story, world.status().conditions)
    stops = len(watcher.stops)
    run(world, operator, passes=12)
    assert len(watcher.stops) == stops, "ping-pong"


def happen(world: World, what: str, number: int) -> None:
    match what:
        case "image":
            world.edit(image=f"bookie:{number}")
        case "settings":
            world.edit(config={"flushInterval": f"{number + 1}000"})
        case "broken":
            world.edit(image=worlds.BROKEN_IMAGE)
        case "bad setting":
            world.edit(config={"diskUsageThreshold": "0.11"})
        case "back":
            world.edit(image="bookie:test", config=None)
        case "kill" if ("Pod", PODS[number]) in world.objects:
            world.kill(PODS[number])
        case "lose" if not world.dataless and len(world.bookies) == len(PODS):
            world.lose(PODS[number])
        case "silent" | "heard":
            for one in world.bookies.values():
                one.is_reachable = what == "heard" or one.name != PODS[number]
        case _:
            return
