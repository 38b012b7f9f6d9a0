"""The operator rolls out by itself: one bookie at a time behind its gates, halted by the first that does not come back,
undone by the reverse edit, and as far as it was after any death (spec/operator.md#Q1 to Q8)."""

import asyncio
import contextlib
import random
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import operator_world_support as worlds
from bookie.ports.admin import Member, State
from bookie_operator.crash import CrashPoint
from bookie_operator.gateways.kube import KubeError, KubeForbidden
from bookie_operator.model.status import Departure
from bookie_operator.reconcile import Reconciler
from operator_world_support import Crashed, World
from rolling_support import AUTOMATIC, PASSES, PODS, Watcher, die, forget_notes, images, run, said, turn

WRITES_MIN = 3 * len(PODS)


@pytest.fixture
def automatic(world: World) -> World:
    world.edit(rollout=AUTOMATIC)
    run(world)
    return world


def uids(world: World) -> dict[str, str]:
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in world.of_kind("Pod")}


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


@pytest.mark.slow
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


@pytest.mark.slow
def test_an_edit_that_makes_the_same_pod_stops_nobody_and_the_next_goes_on_as_ever(automatic: World) -> None:
    before, watcher = uids(automatic), Watcher(automatic)

    automatic.edit(security={"tls": {"mode": "Disabled", "secretName": "later"}}, repair={"regeneration": "Manual"})
    run(automatic, passes=20)
    assert uids(automatic) == before
    assert said(automatic, "UpToDate")[:2] == ("True", "Updated")
    automatic.edit(image="bookie:next")
    run(automatic)

    assert (watcher.stops, watcher.wrong) == (PODS, [])
    assert said(automatic, "UpToDate")[:2] == ("True", "Updated")


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("refusal", "word", "reason"),
    [
        (KubeForbidden("delete Pod", 403, "no such right"), "no such right", "PermissionMissing"),
        (KubeError("delete Pod", 422, "an admission policy"), "an admission policy", "RolloutHalted"),
        (KubeError("delete Pod", 409, "it changed"), "", "Progressing"),
    ],
    ids=["forbidden", "denied", "conflict"],
)
def test_a_deletion_that_is_refused_is_told_and_tried_again(
    automatic: World, refusal: KubeError, word: str, reason: str
) -> None:
    watcher, operator = Watcher(automatic), automatic.operator()
    automatic.no_deletion = refusal
    automatic.edit(image="bookie:next")
    run(automatic, operator, passes=12)

    assert word in said(automatic, "UpToDate")[2]
    assert {"RolloutStarted", "RolloutStep"} <= set(automatic.events())
    assert watcher.stops == []
    assert said(automatic, "Stalled")[1] == reason

    automatic.no_deletion = None
    run(automatic, operator, passes=2 * PASSES)
    assert (watcher.stops, watcher.wrong) == (PODS, [])
    assert said(automatic, "Stalled")[0] == "False"


@pytest.mark.slow
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


def test_a_pod_that_changes_while_its_bookie_flushes_is_looked_at_anew(automatic: World) -> None:
    """Somebody marks it, a kubelet reports of it: what the pass saw of it is not how it is."""
    watcher, operator = Watcher(automatic), automatic.operator()
    flushes = 0

    def change(pod: str) -> None:
        nonlocal flushes
        flushes += 1
        if flushes <= 5:
            automatic.put(automatic.objects[("Pod", pod)])

    automatic.on_flush = change
    automatic.edit(image="bookie:next")
    while flushes <= 5:
        assert watcher.stops == []
        run(automatic, operator, passes=1)


def test_a_status_that_somebody_deletes_after_the_flush_leaves_no_bookie_read_only(automatic: World) -> None:
    """spec/operator.md#Q10: the record has the turn too."""
    watcher = Watcher(automatic)
    automatic.bookie(PODS[0]).flush_problem = "a disk is slow"
    automatic.edit(image="bookie:next")
    run(automatic, passes=8)
    assert automatic.bookie(PODS[0]).state is State.READ_ONLY

    del automatic.objects[("BookieCluster", "ledgers")]["status"]
    automatic.edit(rollout=AUTOMATIC | {"paused": True})
    run(automatic, passes=8)

    assert automatic.bookie(PODS[0]).state is State.SERVING
    assert (turn(automatic), watcher.stops) == (None, [])


def test_with_operator_status_and_record_gone_a_bookie_takes_writes_again_by_itself(automatic: World) -> None:
    automatic.bookie(PODS[0]).flush_problem = "a disk is slow"
    automatic.edit(image="bookie:next")
    run(automatic, passes=8)
    assert automatic.bookie(PODS[0]).state is State.READ_ONLY

    for _ in range(100):
        automatic.settle()

    assert automatic.bookie(PODS[0]).state is State.SERVING


@pytest.mark.slow
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


def test_pods_of_an_older_operator_are_left_by_its_upgrade_and_rolled_by_the_next_edit(automatic: World) -> None:
    watcher, operator = Watcher(automatic), automatic.operator()
    forget_notes(automatic)
    operator._image = "bookie:newer-release"
    run(automatic, operator, passes=20)
    assert watcher.stops == []
    assert "did not note" in said(automatic, "UpToDate")[2]

    automatic.edit(config={"flushInterval": "777"})
    run(automatic, operator, passes=3)
    told = said(automatic, "UpToDate")[2]
    run(automatic, operator)

    assert (watcher.stops, watcher.wrong) == (PODS, [])
    assert "because of spec.config.flushInterval" in told
    assert "spec.config.flushInterval changed" in " ".join(
        one["note"] for one in automatic.of_kind("Event") if one["reason"] == "RolloutStep"
    )
    assert said(automatic, "UpToDate")[:2] == ("True", "Updated")


def as_neighbour(world: World, prefix: str) -> tuple[Member, ...]:
    """What another cluster of the same metadata store sees of this one."""
    return tuple(replace(one, bookie_id=one.bookie_id.replace("data", prefix, 1)) for one in world.own_members())


async def together(operators: list[Reconciler]) -> None:
    """One pass of each: they look, and then they flush."""
    await asyncio.gather(*(one.reconcile(worlds.KEY) for one in operators))


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(turns=st.lists(st.integers(0, 2), min_size=1, max_size=40))
def test_two_clusters_in_one_metadata_store_never_stop_a_bookie_each(built: World, turns: list[int]) -> None:
    """spec/operator.md#Q13: whatever the order of their operators' passes."""
    worlds_ = [worlds.clone(built), worlds.clone(built)]
    operators = []
    wrong: list[str] = []
    for number, world in enumerate(worlds_):
        other = worlds_[1 - number]
        prefix = "a-other" if number else "other"  # the first world's ids are the smaller ones, for both
        world.strangers = partial(as_neighbour, other, prefix)
        world.edit(rollout=AUTOMATIC)
        operators.append(world.operator())

        def judge(pod: str, other: World = other) -> None:
            if len(other.bookies) < len(PODS) or any(one.state is not State.SERVING for one in other.bookies.values()):
                wrong.append(pod)

        world.on_stop = judge
    for world, operator in zip(worlds_, operators, strict=True):
        run(world, operator, passes=4)
        world.edit(image="bookie:next")
    for count in range(8 * PASSES):
        chosen = {0: (0,), 1: (1,), 2: (0, 1)}[turns[count % len(turns)]] if count < 2 * PASSES else (0, 1)
        asyncio.run(together([operators[number] for number in chosen]))
        for world in worlds_:
            world.settle()
        if all(set(images(world).values()) == {"bookie:next"} and world.is_quiet() for world in worlds_):
            break

    assert wrong == []
    assert [set(images(world).values()) for world in worlds_] == [{"bookie:next"}] * 2


@pytest.mark.slow
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


def leaves(world: World, operator: Reconciler, *, replicas: int) -> str:
    """Lower the number of bookies, and return who leaves, once it moves its ledgers away."""
    world.write(50, random.Random(2))
    world.drain_rate = 0  # it takes hours
    world.edit(replicas=replicas)
    run(world, operator, passes=4)
    name = next(one.name for one in world.status().bookies if one.leaving is not None)
    assert departure(world, name) is Departure.DRAINING
    return name


def departure(world: World, name: str) -> Departure | None:
    entry = world.status().bookie(name)
    return entry.leaving.state if entry is not None and entry.leaving is not None else None


@pytest.mark.slow
def test_a_corrected_image_reaches_a_bookie_that_is_down_while_another_waits_to_leave(automatic: World) -> None:
    """The one that leaves waits for the end of the turn: the turn must not wait for the one that leaves."""
    automatic.edit(replicas=6, scaleDown={"proofInterval": "5s"})
    operator = automatic.operator()
    run(automatic, operator, passes=30)
    name = leaves(automatic, operator, replicas=5)
    automatic.edit(image=worlds.BROKEN_IMAGE)
    for _ in range(PASSES):
        run(automatic, operator, passes=1)
        if worlds.BROKEN_IMAGE in images(automatic).values():
            break
    broken = next(pod for pod, image in images(automatic).items() if image == worlds.BROKEN_IMAGE)
    automatic.drain_rate = 600
    for _ in range(PASSES):
        run(automatic, operator, passes=1)
        if departure(automatic, name) is Departure.DRAINED:
            break
    assert departure(automatic, name) is Departure.DRAINED

    automatic.edit(image="bookie:right")
    for _ in range(3 * PASSES):
        run(automatic, operator, passes=1)
        if departure(automatic, name) is None and set(images(automatic).values()) == {"bookie:right"}:
            break

    assert images(automatic)[broken] == "bookie:right"
    assert name not in images(automatic), departure(automatic, name)
    assert set(images(automatic).values()) == {"bookie:right"}


@pytest.mark.slow
def test_a_turn_does_not_close_the_gate_by_which_it_began(automatic: World) -> None:
    """One of five leaves: four take writes, three while one of them has its turn, and an ensemble has three."""
    automatic.edit(replicas=5)
    operator = automatic.operator()
    run(automatic, operator, passes=30)
    name = leaves(automatic, operator, replicas=4)
    automatic.writes.clear()

    automatic.edit(image="bookie:next")
    run(automatic, operator, passes=2 * PASSES)

    flips = [one for one in automatic.writes if one.startswith(("flush", "resume"))]
    assert {pod for pod, image in images(automatic).items() if image != "bookie:next"} == {name}
    assert departure(automatic, name) is Departure.DRAINING
    assert len(flips) == 2 * len(PODS), flips


def test_while_those_that_stay_are_just_an_ensemble_nobody_is_stopped_and_the_status_says_why(
    automatic: World,
) -> None:
    operator = automatic.operator()
    name = leaves(automatic, operator, replicas=3)
    watcher = Watcher(automatic)
    automatic.writes.clear()

    automatic.edit(image="bookie:next")
    run(automatic, operator, passes=20)

    found = automatic.status().rollout
    assert found is not None
    assert (watcher.stops, found.step) == ([], None)
    assert f"while {name} leaves 2 bookies beside" in (found.waiting_for or "")
    assert [one for one in automatic.writes if one.startswith(("flush", "resume"))] == []


EDITS = st.sampled_from(["image", "settings", "broken", "bad setting", "back", "kill", "lose", "silent", "heard"])


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(story=st.lists(st.tuples(EDITS, st.integers(1, 25), st.integers(0, 3)), max_size=6))
def test_whatever_is_edited_and_breaks_no_stop_is_wrong_and_the_reverse_ends_where_it_began(
    built: World, story: list[tuple[str, int, int]]
) -> None:
    ends_where_it_began(worlds.clone(built), story)


@pytest.mark.slow
def test_one_that_lost_its_data_in_its_turn_keeps_no_other_that_is_down_from_a_corrected_spec(built: World) -> None:
    """spec/operator.md#Q8: its grant waits for the copies of the one that is down."""
    story = [("bad setting", 1, 0), ("lose", 20, 0), ("kill", 23, 3), ("image", 24, 0), ("image", 20, 0)]
    ends_where_it_began(worlds.clone(built), story)


def ends_where_it_began(world: World, story: list[tuple[str, int, int]]) -> None:
    """Play `story`, set all right again, and judge."""
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


@pytest.mark.parametrize("is_on", [True, False], ids=["on", "off"])
def test_the_journal_is_switched_one_bookie_after_the_other_and_each_stop_is_proven(
    automatic: World, is_on: bool
) -> None:
    """A bookie that goes over has flushed, so that nothing of the old way is left to replay (spec/operator.md#Q12)."""
    world = automatic  # its journal is off
    operator = world.operator()
    if not is_on:
        world.edit(storage=world.spec()["storage"] | {"journalWriteData": True})
        run(world, operator)
    world.writes.clear()
    watcher = Watcher(world)

    world.edit(storage=world.spec()["storage"] | {"journalWriteData": is_on})
    run(world, operator)

    assert (watcher.stops, watcher.wrong) == (PODS, [])
    assert {f"journalWriteData={str(is_on).lower()}" in one.settings for one in world.bookies.values()} == {True}
    for pod in PODS:
        assert world.writes.index(f"flush/{pod}") < world.writes.index(f"delete Pod/{pod}")
    assert world.status().rebuild is None


def test_a_pod_that_takes_a_while_to_end_is_waited_for_and_ended_once(world: World) -> None:
    world.edit(rollout=AUTOMATIC)
    run(world, passes=6)
    world.ending_s, watcher, ending = 3, Watcher(world), list[int]()
    operator = world.operator()

    world.edit(image="bookie:2")
    for _ in range(2 * PASSES):
        run(world, operator, passes=1)
        ending.append(sum("deletionTimestamp" in one["metadata"] for one in world.of_kind("Pod")))
        if set(images(world).values()) == {"bookie:2"} and world.is_quiet():
            break

    assert (watcher.stops, watcher.wrong) == (PODS, [])
    assert set(images(world).values()) == {"bookie:2"}
    assert (world.is_quiet(), max(ending)) == (True, 1)


def test_an_image_that_nobody_can_pull_stops_no_bookie(world: World) -> None:
    """Kubernetes takes any text for an image, and a kubelet says InvalidImageName when its pod begins."""
    world.edit(image="Bad Image:tag", rollout=AUTOMATIC)
    world.writes.clear()

    asyncio.run(world.run(world.operator(), passes=12))

    stalled = world.status().condition("Stalled")
    assert stalled is not None
    assert (stalled.status, stalled.reason) == ("True", "SpecInvalid")
    assert "spec.image: 'Bad Image:tag' is not the name of an image" in stalled.message
    assert not [one for one in world.writes if one.startswith(("StatefulSet", "flush", "delete Pod"))]
