"""A fleet sleeps and wakes as it was: stopped in order, all kept, whatever was edited, lost or killed meanwhile
(spec/operator.md#Z1 to Z4)."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from bookie.ports.admin import State
from bookie_operator.crash import CrashPoint
from bookie_operator.model import names
from bookie_operator.model.operation import OperationPhase
from bookie_operator.model.status import Departure, HibernationState
from bookie_operator.model.values import format_time
from bookie_operator.reconcile import Reconciler
from operator_world_support import World
from rolling_support import AUTOMATIC, PODS, Watcher, die, images, run, said

ASLEEP = {"hibernate": True, "terminationGrace": "2m"}
AWAKE = {"terminationGrace": "2m"}
SLEEP_PASSES, WAKE_PASSES = 7, 8


class Sleepers:
    """Judges each pod that goes with the number of its StatefulSet, by the world itself."""

    def __init__(self, world: World) -> None:
        self.world, self.wrong = world, list[str]()
        world.on_lowered = self

    def __call__(self, pod: str) -> None:
        here = {one.name: one for one in self.world.bookies.values()}
        if pod not in here or here[pod].state is not State.READ_ONLY or not here[pod].is_sealed:
            self.wrong.append(f"{pod} went before it had flushed for the last time")
        if loud := [name for name, one in here.items() if one.state is not State.READ_ONLY]:
            self.wrong.append(f"{pod} went while {loud} took writes")
        if self.world.dataless:
            self.wrong.append(f"{pod} went while {self.world.dataless} were empty")


def claims(world: World) -> dict[str, str]:
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in world.of_kind("PersistentVolumeClaim")}


def replicas(world: World) -> dict[str, int]:
    return {one["metadata"]["name"]: one["spec"]["replicas"] for one in world.of_kind("StatefulSet")}


def state(world: World) -> HibernationState | None:
    found = world.status().hibernation
    return found.state if found is not None else None


def sleep(world: World, operator: Reconciler | None = None, *, passes: int = SLEEP_PASSES) -> None:
    world.edit(lifecycle=ASLEEP)
    run(world, operator, passes=passes)


def wake(world: World, operator: Reconciler | None = None, *, passes: int = WAKE_PASSES) -> None:
    world.edit(lifecycle=AWAKE)
    run(world, operator, passes=passes)


@pytest.fixture
def asleep(world: World) -> World:
    """A fleet with entries, asleep."""
    world.write(50, random.Random(1))
    sleep(world)
    assert state(world) is HibernationState.HIBERNATED, world.status()
    return world


def test_nobody_ends_by_a_flush_that_took_its_time(world: World) -> None:
    """What the pass saw is old by then: a turn may be over, and a bookie that took writes again is not flushed."""
    judge = Sleepers(world)
    slow = world.bookie("ledgers-zone-b-0")
    slow.flush_ms = 20_000

    sleep(world, passes=SLEEP_PASSES)

    assert world.writes.count("flush/ledgers-zone-b-0") > 1
    assert (replicas(world), state(world)) == (
        {"ledgers-zone-a": 2, "ledgers-zone-b": 1, "ledgers-zone-c": 1},
        HibernationState.STOPPING,
    )
    slow.flush_ms = 0
    run(world, passes=SLEEP_PASSES)
    assert (set(replicas(world).values()), state(world)) == ({0}, HibernationState.HIBERNATED)
    assert judge.wrong == []


def test_the_pass_that_asks_ends_nobody_and_the_next_has_seen_them_refuse_writes(world: World) -> None:
    sleep(world, passes=1)

    assert state(world) is HibernationState.STOPPING
    assert {one.state for one in world.bookies.values()} == {State.READ_ONLY}
    assert set(replicas(world).values()) == {1, 2}


def test_nobody_ends_while_one_bookie_has_yet_to_refuse_writes(world: World) -> None:
    """Its process began anew after the first flush, and writers went on with it."""
    world.write(50, random.Random(1))
    judge, operator = Sleepers(world), world.operator()
    sleep(world, operator, passes=1)
    world.start_container("ledgers-zone-c-0")

    run(world, operator, passes=1)

    assert (state(world), set(replicas(world).values())) == (HibernationState.STOPPING, {1, 2})
    run(world, operator, passes=SLEEP_PASSES)
    assert (state(world), judge.wrong) == (HibernationState.HIBERNATED, [])


def test_every_bookie_is_flushed_before_the_first_pod_goes_and_all_is_kept(world: World) -> None:
    world.write(50, random.Random(1))
    judge, before, cookies = Sleepers(world), claims(world), dict(world.cookies)

    sleep(world)

    assert judge.wrong == []
    assert state(world) is HibernationState.HIBERNATED
    assert world.of_kind("Pod") == []
    assert (claims(world), world.cookies) == (before, cookies)
    assert world.lost_entries() == world.thin_entries() == []
    assert world.of_kind("PodDisruptionBudget")
    assert [pool.desired for pool in world.status().pools] == [2, 1, 1]
    assert set(replicas(world).values()) == {0}


def test_nobody_falls_asleep_on_a_claim_that_would_go_with_its_pod(world: World) -> None:
    claim = next(one for one in world.of_kind("PersistentVolumeClaim") if one["metadata"]["name"].endswith(PODS[0]))
    world.put(claim | {"metadata": claim["metadata"] | {"deletionTimestamp": format_time(world.now_ms)}})

    sleep(world)

    assert state(world) is HibernationState.WAITING
    assert len(world.of_kind("Pod")) == len(PODS)
    assert "is being deleted" in world.status().model_dump_json()


def test_the_status_says_asleep_and_nothing_is_called_degraded_or_stalled(asleep: World) -> None:
    asleep.now_ms += 7 * 24 * 3_600_000

    run(asleep, passes=3)

    assert said(asleep, "Ready")[:2] == ("False", "Hibernated")
    assert said(asleep, "Hibernated")[:2] == ("True", "Hibernated")
    for kind in ("Stalled", "Reconciling"):
        assert said(asleep, kind)[0] == "False", said(asleep, kind)
    for kind in ("Degraded", "DataAtRisk", "RepairInProgress", "StorageHealthy"):
        assert said(asleep, kind)[:2] == ("Unknown", "Hibernated"), said(asleep, kind)
    status = asleep.status()
    assert status.phase == "Hibernated"
    assert {one.reason for one in status.bookies} == {"Hibernated"}
    assert status.orphans == ()
    assert [one for one in asleep.events() if one.startswith(("Hibern", "Bookie"))] == [
        "HibernationStarted", "HibernationCompleted",
    ]  # fmt: skip


def test_asleep_nothing_is_written_any_more(asleep: World) -> None:
    operator = asleep.operator()
    run(asleep, operator, passes=4)
    asleep.writes.clear()

    run(asleep, operator, passes=6)

    assert asleep.writes == []


def test_it_wakes_with_the_same_bookies_and_all_entries(asleep: World) -> None:
    before = claims(asleep)

    wake(asleep)

    assert asleep.is_quiet()
    assert state(asleep) is None
    assert sorted(one["metadata"]["name"] for one in asleep.of_kind("Pod")) == PODS
    assert claims(asleep) == before
    assert (asleep.lost_entries(), asleep.accepted) == ([], [])
    assert said(asleep, "Degraded")[0] == "False"
    assert said(asleep, "Hibernated")[:2] == ("False", "Awake")


def test_what_was_edited_meanwhile_comes_one_bookie_after_the_other_once_the_fleet_is_awake(asleep: World) -> None:
    asleep.edit(rollout=AUTOMATIC, image="bookie:next")
    run(asleep, passes=5)
    assert said(asleep, "Hibernated")[0] == "True"
    watcher = Watcher(asleep)

    asleep.edit(lifecycle=AWAKE)
    operator = asleep.operator()
    run(asleep, operator, passes=2)
    first = set(images(asleep).values())
    run(asleep, operator, passes=60)

    assert first == {"bookie:test"}
    assert (watcher.stops, watcher.wrong) == (PODS, [])
    assert set(images(asleep).values()) == {"bookie:next"}


@pytest.mark.parametrize(
    "change",
    [{"replicas": 3}, {"zones": [{"name": "zone-a"}, {"name": "zone-c"}, {"name": "zone-d"}]}, {"replicas": 6}],
    ids=["fewer", "another zone", "more"],
)
def test_no_bookie_is_forgotten_by_an_edit_of_the_size_while_asleep(asleep: World, change: dict[str, Any]) -> None:
    before, cookies = claims(asleep), set(asleep.cookies)

    asleep.edit(**change)
    run(asleep, passes=5)
    assert said(asleep, "Hibernated")[0] == "True"
    assert asleep.of_kind("Pod") == []
    wake(asleep, passes=6)

    assert {one.bookie_id for one in asleep.bookies.values()} >= cookies
    assert before.items() <= claims(asleep).items()
    assert (asleep.lost_entries(), asleep.wrong) == ([], [])


def refuses_pods(world: World, pool: str, at_ms: int) -> None:
    """The controller of a StatefulSet says that it could make no pod."""
    world.put(
        {
            "kind": "Event",
            "metadata": {"name": f"quota-{pool}", "namespace": "data"},
            "reason": "FailedCreate",
            "regarding": {"kind": "StatefulSet", "name": f"ledgers-{pool}"},
            "note": "exceeded quota",
            "deprecatedLastTimestamp": format_time(at_ms),
        }
    )


def test_words_of_before_the_sleep_bring_no_edit_to_several_bookies_at_once(asleep: World) -> None:
    """Events last an hour. Seen on a real cluster: two of three StatefulSets woke with the edit."""
    for pool in ("zone-a", "zone-b", "zone-c"):
        refuses_pods(asleep, pool, asleep.now_ms - 1_800_000)
    asleep.edit(rollout=AUTOMATIC, image="bookie:next", lifecycle=AWAKE)

    run(asleep, passes=2)

    assert set(images(asleep).values()) == {"bookie:test"}


def test_where_the_old_template_makes_no_pod_the_edit_is_taken_at_once(asleep: World) -> None:
    asleep.edit(image="bookie:next", lifecycle=AWAKE)
    asleep.over_quota = "ledgers-zone-b"
    refuses_pods(asleep, "zone-b", asleep.now_ms + 60_000)

    run(asleep, passes=5)

    live = asleep.objects[("StatefulSet", "ledgers-zone-b")]
    assert live["spec"]["template"]["spec"]["containers"][0]["image"] == "bookie:next"
    assert live["spec"]["replicas"] == 1


def test_a_loss_found_on_waking_waits_for_the_others_as_if_they_had_just_gone(asleep: World) -> None:
    asleep.now_ms += 7 * 24 * 3_600_000
    asleep.delete_claims("ledgers-zone-b-0")
    asleep.cut_off.add("ledgers-zone-c-0")  # it starts, and nobody hears from it

    wake(asleep)

    assert asleep.accepted == []
    entry = asleep.status().bookie("ledgers-zone-b-0")
    assert entry is not None
    assert "G5-Peers" in [gate.name for gate in entry.gates], entry.gates


def test_it_waits_for_a_loss_to_heal_and_says_so(world: World) -> None:
    world.write(50, random.Random(1))
    judge, operator = Sleepers(world), world.operator()
    world.lose("ledgers-zone-b-0")

    sleep(world, operator, passes=4)
    waits = said(world, "Hibernated")
    run(world, operator, passes=40)

    assert waits[:2] == ("False", "HibernationWaits")
    assert "ledgers-zone-b-0" in waits[2]
    assert judge.wrong == []
    assert len(world.accepted) == 1
    assert state(world) is HibernationState.HIBERNATED
    assert (world.lost_entries(), world.thin_entries()) == ([], [])


def test_it_waits_for_the_end_of_a_roll_out(world: World) -> None:
    world.edit(rollout=AUTOMATIC)
    operator = world.operator()
    run(world, operator, passes=4)
    world.edit(image="bookie:next")
    run(world, operator, passes=2)
    watcher, judge = Watcher(world), Sleepers(world)

    sleep(world, operator, passes=60)

    assert (watcher.wrong, judge.wrong) == ([], [])
    assert state(world) is HibernationState.HIBERNATED
    assert watcher.stops == PODS, "each had its turn"


def test_nobody_gets_by_a_sleep_what_only_the_canary_is_to_have(world: World) -> None:
    """All would wake with it, and at once."""
    world.boot_epochs = dict.fromkeys(world.cookies, 2)
    world.edit(rollout=AUTOMATIC | {"canary": {"count": 1, "soakSeconds": 3_600}}, image="bookie:next")
    run(world, passes=20)
    began = images(world)

    sleep(world)
    wake(world)

    assert (images(world), list(began.values()).count("bookie:next")) == (began, 1)
    sleep(world)
    assert said(world, "Hibernated")[:2] == ("False", "HibernationWaits")
    assert "ledgers-zone-a-1 would wake with another spec.image" in said(world, "Hibernated")[2]
    world.edit(image="bookie:test", rollout=AUTOMATIC)
    run(world, passes=30)
    assert state(world) is HibernationState.HIBERNATED


def test_a_bookie_that_leaves_does_so_first_and_nobody_begins_to(world: World) -> None:
    world.write(50, random.Random(1))
    world.edit(replicas=3, scaleDown={"proofInterval": "3s"})
    operator = world.operator()
    run(world, operator, passes=3)
    judge = Sleepers(world)

    sleep(world, operator, passes=4)
    waits = said(world, "Hibernated")
    judge.wrong.clear()
    run(world, operator, passes=60)

    assert waits[1] == "HibernationWaits"
    assert "leaves the fleet" in waits[2]
    assert state(world) is HibernationState.HIBERNATED
    assert (world.lost_entries(), world.wrong, len(world.forgotten)) == ([], [], 1)


def test_a_bookie_that_cannot_flush_keeps_all_pods_and_is_named(world: World) -> None:
    world.bookie("ledgers-zone-c-0").flush_problem = "a disk fails"

    sleep(world)

    assert len(world.of_kind("Pod")) == len(PODS)
    assert set(replicas(world).values()) == {1, 2}
    assert "a disk fails" in said(world, "Hibernated")[2]


def test_a_claim_that_is_not_known_to_hold_the_data_keeps_its_bookie_awake(world: World) -> None:
    for one in world.of_kind("PersistentVolumeClaim"):
        if one["metadata"]["name"] == "ledgers-ledgers-zone-a-0":
            one["metadata"].pop("annotations")
    for entry in world.objects[(names.KIND, "ledgers")]["status"]["bookies"]:
        for volume in entry["volumes"]:
            volume.pop("recorded")
    world.edit(lifecycle=ASLEEP)

    run(world, passes=1)

    assert "is not known to hold its data" in said(world, "Hibernated")[2]


@pytest.mark.parametrize("passes", [1, 2, 3, 4])
def test_it_is_taken_back_at_any_point(world: World, passes: int) -> None:
    world.write(50, random.Random(1))
    operator, before = world.operator(), claims(world)
    sleep(world, operator, passes=passes)

    wake(world, operator)

    assert world.is_quiet()
    assert state(world) is None
    assert {one.state for one in world.bookies.values()} == {State.SERVING}
    assert (claims(world), world.lost_entries(), world.accepted) == (before, [], [])


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 2, 3, 5, 6])
def test_after_a_death_at_any_write_it_sleeps_and_wakes_all_the_same(world: World, after: int, tmp_path: Path) -> None:
    world.write(50, random.Random(1))
    judge, before = Sleepers(world), claims(world)

    for name, lifecycle in (("sleep", ASLEEP), ("wake", AWAKE)):
        (tmp_path / name).mkdir()
        crash = CrashPoint(after, str(tmp_path / name), die)
        world.edit(lifecycle=lifecycle)
        crashes = asyncio.run(world.run(world.operator(crash), passes=16, crash=crash))
        assert crashes == (1 if name == "sleep" or after < 6 else crashes)
        assert (state(world) is HibernationState.HIBERNATED) == (name == "sleep")

    assert judge.wrong == []
    assert world.is_quiet(), world.status()
    assert (claims(world), world.lost_entries(), world.accepted) == (before, [], [])


@pytest.mark.parametrize("lost", ["status", "status and record", "resource", "StatefulSets"])
def test_what_is_lost_while_asleep_changes_nothing(asleep: World, lost: str) -> None:
    before, cookies = claims(asleep), set(asleep.cookies)
    if lost == "resource":
        asleep.delete_and_apply()
    elif lost == "StatefulSets":
        for one in asleep.of_kind("StatefulSet"):
            del asleep.objects[("StatefulSet", one["metadata"]["name"])]
    else:
        asleep.objects[(names.KIND, "ledgers")].pop("status")
    if lost == "status and record":
        del asleep.objects[("ConfigMap", "ledgers-record")]

    run(asleep, passes=5)
    assert asleep.of_kind("Pod") == []
    assert said(asleep, "Hibernated")[0] == "True"
    assert said(asleep, "Degraded")[0] == "Unknown"
    wake(asleep)

    assert asleep.is_quiet(), asleep.status()
    assert {one.bookie_id for one in asleep.bookies.values()} == cookies
    assert (claims(asleep), asleep.lost_entries(), asleep.accepted) == (before, [], [])


def test_stateful_sets_that_go_as_the_fleet_wakes_are_made_anew(asleep: World) -> None:
    """No pass saw them missing while it slept."""
    before, cookies = claims(asleep), set(asleep.cookies)
    for one in asleep.of_kind("StatefulSet"):
        del asleep.objects[("StatefulSet", one["metadata"]["name"])]

    wake(asleep)

    assert asleep.is_quiet(), asleep.status()
    assert {one.bookie_id for one in asleep.bookies.values()} == cookies
    assert (claims(asleep), asleep.lost_entries(), asleep.accepted) == (before, [], [])


def test_a_pod_that_a_stranger_brings_back_is_put_to_sleep_again_in_order(asleep: World) -> None:
    judge = Sleepers(asleep)
    asleep.scale("ledgers-zone-a", 2)

    run(asleep, passes=16)

    assert judge.wrong == []
    assert state(asleep) is HibernationState.HIBERNATED


def test_paused_neither_sleeps_nor_wakes(world: World) -> None:
    world.edit(lifecycle=ASLEEP | {"paused": True})
    run(world, passes=6)
    assert len(world.of_kind("Pod")) == len(PODS)
    sleep(world)
    assert state(world) is HibernationState.HIBERNATED

    world.edit(lifecycle=AWAKE | {"paused": True})
    run(world, passes=6)

    assert world.of_kind("Pod") == []
    assert state(world) is HibernationState.HIBERNATED


@pytest.mark.slow
@pytest.mark.parametrize("until", [Departure.RETIRING, Departure.FORGETTING, Departure.FORGOTTEN])
def test_a_resource_that_comes_back_asleep_wakes_although_a_bookie_was_being_replaced(
    world: World, until: Departure
) -> None:
    """The StatefulSet of that bookie must not be there: nobody may wait for its pod before the fleet is awake."""
    world.edit(replicas=5, scaleDown={"proofInterval": "2s"})
    run(world, passes=8)
    assert world.is_quiet(), world.status()
    world.write(40, random.Random(1))
    world.now_ms += 60_000
    world.ask("anew", "Replace", target={"bookie": "ledgers-zone-c-0"})
    for _ in range(80):
        run(world, passes=1)
        entry = world.status().bookie("ledgers-zone-c-0")
        if entry is not None and entry.leaving is not None and entry.leaving.state is until:
            break
    else:
        raise AssertionError(world.status())
    world.delete_and_apply(lifecycle=ASLEEP)
    run(world, passes=6)
    assert state(world) is HibernationState.HIBERNATED

    world.step_ms = 10_000
    wake(world, passes=60)

    assert (state(world), world.is_quiet()) == (None, True), world.status()
    assert (world.wrong, world.lost_entries(), world.dataless) == ([], [], set())


def test_an_unfence_of_a_fleet_that_sleeps_waits_for_it_to_wake(asleep: World) -> None:
    asleep.now_ms += 60_000
    asleep.ask("back", "Unfence", target={"bookie": PODS[0]}, reason="it was the cable")
    run(asleep, passes=3)
    told = asleep.operation("back")

    wake(asleep)

    assert (told.phase, told.started_at) == (OperationPhase.QUEUED, None)
    assert "hibernates" in told.message
    assert asleep.operation("back").phase is OperationPhase.COMPLETE
