"""A release that writes a new format on disk goes no further than its way back, unless the user says so; and a bookie
that has written it is not stopped to come back with one that cannot read it (spec/operator.md#Q21)."""

import pytest

from bookie.ports.admin import DiskFormat, State
from bookie_operator.model.operation import OperationPhase
from bookie_operator.reconcile import Reconciler
from operator_world_support import World
from rolling_support import PASSES, PODS, Watcher, images, run, said, turn

HALT = {"strategy": "Automatic", "soakSeconds": 3, "onFailure": "Halt"}
ROLLBACK = HALT | {"onFailure": "Rollback"}
OLD, NEXT = "bookie:test", "bookie:next"
KNOWN = DiskFormat("journal", 3, 3, 3)


@pytest.fixture
def fleet(world: World) -> World:
    """It serves with a release that writes index format 2; the next one reads that, and writes format 3."""
    world.releases = {
        OLD: (KNOWN, DiskFormat("index", 2, 2, 2)),
        NEXT: (KNOWN, DiskFormat("index", 2, 3, 3)),
        "bookie:same": (KNOWN, DiskFormat("index", 2, 2, 2)),
        "bookie:stranger": (KNOWN, DiskFormat("index", 3, 3, 3)),
    }
    for one in world.bookies.values():
        one.formats = world.releases[OLD]
        world.formats[one.bookie_id] = {"journal": 3, "index": 2}
    world.edit(rollout=ROLLBACK)
    run(world, passes=8)
    assert set(images(world).values()) == {OLD}
    return world


def all_serve(world: World) -> bool:
    return sorted(one.name for one in world.bookies.values() if one.state is State.SERVING) == PODS


@pytest.mark.slow
def test_with_rollback_the_first_bookie_is_the_only_one_that_has_no_way_back(fleet: World) -> None:
    watcher = Watcher(fleet)

    fleet.edit(image=NEXT)
    run(fleet)
    run(fleet, fleet.operator(), passes=20)

    assert (watcher.stops, watcher.wrong) == (PODS[:1], [])
    assert all_serve(fleet)
    assert turn(fleet) is None
    assert said(fleet, "Ready")[:2] == ("False", "HumanNeeded")
    assert said(fleet, "Stalled")[1] == "RolloutHalted"
    assert "ledgers-zone-a-0, which runs the image that ledgers-zone-a-1" in said(fleet, "Stalled")[2]
    assert "writes index format 3, and ledgers-zone-a-1 reads only 2" in said(fleet, "Stalled")[2]
    found = fleet.status().rollout
    assert found is not None
    assert found.failed is None, "nothing failed, so nothing goes back"


def test_with_halt_all_of_them_go_on_and_are_told_that_there_is_no_way_back(fleet: World) -> None:
    fleet.edit(image=NEXT)
    run(fleet)
    watcher, operator = Watcher(fleet), fleet.operator()

    fleet.edit(rollout=HALT)
    told = set()
    for _ in range(PASSES):
        run(fleet, operator, passes=1)
        told.add(said(fleet, "Reconciling")[2])

    assert (watcher.stops, watcher.wrong) == (PODS[1:], [])
    assert set(images(fleet).values()) == {NEXT}
    assert any("there is no way back" in one for one in told), told
    assert said(fleet, "UpToDate")[:2] == ("True", "Updated")
    assert said(fleet, "Stalled")[0] == "False"


@pytest.mark.slow
@pytest.mark.parametrize("rollout", [HALT, ROLLBACK])
def test_an_image_that_is_set_back_stops_nobody_who_has_written_what_it_cannot_read(
    fleet: World, rollout: dict[str, object]
) -> None:
    fleet.edit(image=NEXT)
    run(fleet)
    watcher = Watcher(fleet)

    fleet.edit(image=OLD, rollout=rollout)
    run(fleet)

    assert watcher.stops == []
    assert images(fleet)[PODS[0]] == NEXT
    assert all_serve(fleet)
    assert said(fleet, "Stalled")[1] == "RolloutHalted"
    assert "ledgers-zone-a-0 has written index format 3" in said(fleet, "Stalled")[2]

    fleet.edit(image=NEXT, rollout=HALT)
    run(fleet)
    assert (watcher.stops, watcher.wrong) == (PODS[1:], [])
    assert said(fleet, "UpToDate")[:2] == ("True", "Updated")


@pytest.mark.slow
def test_whoever_has_written_what_the_older_release_cannot_read_gets_it_by_beginning_anew(fleet: World) -> None:
    """The way back that is left: its data goes to others first, and its volumes are new."""
    fleet.edit(image=NEXT)
    run(fleet)
    fleet.edit(image=OLD, scaleDown={"proofInterval": "5s"})
    run(fleet, passes=8)
    assert images(fleet)[PODS[0]] == NEXT

    fleet.ask("anew", "Replace", target={"bookie": PODS[0]})
    run(fleet, passes=2 * PASSES)

    assert fleet.operation("anew").phase is OperationPhase.COMPLETE
    assert set(images(fleet).values()) == {OLD}
    assert all_serve(fleet)
    assert (fleet.wrong, fleet.lost_entries()) == ([], [])
    assert said(fleet, "UpToDate")[:2] == ("True", "Updated")


@pytest.mark.slow
@pytest.mark.parametrize("on_drain", ["ReadOnlyFirst", "Restart"])
def test_whoever_would_not_start_elsewhere_keeps_nobody_else_on_a_drained_node(fleet: World, on_drain: str) -> None:
    fleet.edit(image=NEXT, disruption={"onDrain": on_drain})
    run(fleet)
    fleet.edit(image=OLD)
    fleet.add_node("elsewhere")
    operator, evicted = fleet.operator(), list[str]()
    run(fleet, operator, passes=1)

    fleet.cordon("node")
    for _ in range(PASSES):
        evicted += [pod for pod in PODS if pod not in evicted and fleet.evict(pod)]
        run(fleet, operator, passes=1)

    assert evicted == PODS[1:]
    assert images(fleet)[PODS[0]] == NEXT
    assert all_serve(fleet)
    found = fleet.status().eviction
    assert found is not None
    assert "ledgers-zone-a-0 has written index format 3" in (found.waiting_for or "")

    fleet.edit(image=NEXT, rollout=HALT)
    for _ in range(PASSES):
        evicted += [PODS[0]] if PODS[0] not in evicted[3:] and fleet.evict(PODS[0]) else []
        run(fleet, operator, passes=1)
    assert evicted == [*PODS[1:], PODS[0]]
    assert all_serve(fleet)


def test_no_drain_takes_who_would_not_start_elsewhere_and_does_not_answer_for_a_moment(fleet: World) -> None:
    """What it has written the status remembers."""
    fleet.edit(image=NEXT)
    run(fleet)
    fleet.edit(image=OLD)
    fleet.add_node("elsewhere")
    operator = fleet.operator()
    run(fleet, operator, passes=2)
    fleet.cordon("node")

    for number in range(20):
        fleet.bookie(PODS[0]).is_reachable = bool(number % 3)
        run(fleet, operator, passes=1)
        assert not fleet.evict(PODS[0])


@pytest.mark.slow
def test_whose_pod_was_killed_meanwhile_says_by_name_what_brings_it_back(fleet: World) -> None:
    fleet.edit(image=NEXT)
    run(fleet)
    fleet.edit(image=OLD)
    run(fleet, passes=4)

    fleet.kill(PODS[0])
    run(fleet)

    told = fleet.status().bookie(PODS[0])
    assert images(fleet)[PODS[0]] == OLD
    assert told is not None
    assert (told.state, told.counted, told.reason) == ("Missing", "Away", "FormatUnreadable")
    assert said(fleet, "Stalled")[:2] == ("True", "FormatUnreadable")
    for words in (told.message, said(fleet, "Degraded")[2]):
        assert "ledgers-zone-a-0 has written index format 3, and ledgers-zone-" in words
        assert "set spec.image to a release that reads index format 3 (CrashLoopBackOff" in words

    fleet.edit(image=NEXT, rollout=HALT)
    run(fleet, passes=2 * PASSES)
    assert all_serve(fleet)
    assert set(images(fleet).values()) == {NEXT}
    assert (fleet.wrong, fleet.lost_entries()) == ([], [])


@pytest.mark.slow
def test_beside_a_replace_in_its_last_step_a_pod_that_was_killed_needs_the_image_that_reads_its_volumes(
    fleet: World,
) -> None:
    """Two of one zone have the new format; the one begins anew with the older image, the other is killed meanwhile."""
    watcher, operator = Watcher(fleet), fleet.operator()
    fleet.edit(image=NEXT, rollout=HALT)
    run_until_stopped(fleet, operator, watcher, 2)
    fleet.edit(rollout=HALT | {"paused": True})
    run(fleet, operator, passes=8)
    fleet.edit(image=OLD, rollout=HALT, scaleDown={"proofInterval": "5s"})
    run(fleet, operator, passes=8)
    assert images(fleet) == dict(zip(PODS, (NEXT, NEXT, OLD, OLD), strict=True))
    fleet.ask("anew", "Replace", target={"bookie": PODS[0]})
    for _ in range(PASSES):
        run(fleet, operator, passes=1)
        if ("StatefulSet", "ledgers-zone-a") not in fleet.objects:
            break
    else:
        pytest.fail("it never came to its last step")

    fleet.kill(PODS[1])
    run(fleet, operator)

    told = fleet.status().bookie(PODS[1])
    assert told is not None
    assert "set spec.image to a release that reads index format 3" in told.message
    fleet.edit(image=NEXT)
    run(fleet, operator, passes=3 * PASSES)
    assert all_serve(fleet)
    assert set(images(fleet).values()) == {NEXT}
    assert fleet.operation("anew").phase is OperationPhase.COMPLETE
    assert (fleet.wrong, fleet.lost_entries()) == ([], [])


def test_who_would_not_start_again_can_be_fenced_off_and_says_what_unfencing_it_needs(fleet: World) -> None:
    fleet.edit(image=NEXT)
    run(fleet)
    fleet.edit(image=OLD)
    run(fleet, passes=4)

    fleet.ask("anew", "Restart", target={"bookie": PODS[0]}, reason="its disk clicks")
    run(fleet, passes=8)
    assert "has written index format 3" in (fleet.operation("anew").message or "")
    fleet.now_ms += 60_000
    fleet.ask("out", "Fence", target={"bookie": PODS[0]}, reason="its disk clicks")
    run(fleet)

    assert fleet.operation("out").phase is OperationPhase.COMPLETE
    bookie, told = fleet.bookie(PODS[0]), fleet.status().bookie(PODS[0])
    assert bookie.state is State.HELD
    assert told is not None
    assert "it would not start; set spec.image to a release that reads index format 3" in told.message
    assert (fleet.wrong, fleet.lost_entries()) == ([], [])


@pytest.mark.slow
@pytest.mark.parametrize(("image", "words"), [(NEXT, "there is no way back"), (OLD, "it would not start")])
def test_a_fleet_does_not_fall_asleep_to_wake_with_what_it_cannot_read_or_leave(
    fleet: World, image: str, words: str
) -> None:
    """Asleep it would be stopped all the same, and all wake with the newest revision."""
    fleet.edit(image=NEXT)
    run(fleet)
    fleet.edit(image=image)
    run(fleet, passes=4)

    fleet.edit(lifecycle={"hibernate": True, "terminationGrace": "2m"})
    run(fleet, passes=12)

    assert images(fleet) == dict(zip(PODS, (NEXT, OLD, OLD, OLD), strict=True))
    assert all_serve(fleet)
    assert said(fleet, "Hibernated")[:2] == ("False", "HibernationWaits")
    assert words in said(fleet, "Hibernated")[2]

    fleet.edit(image=NEXT, rollout=HALT)
    run(fleet, passes=2 * PASSES)
    assert said(fleet, "Hibernated")[0] == "True"
    fleet.edit(lifecycle={"terminationGrace": "2m"})
    run(fleet, passes=12)
    assert all_serve(fleet)


@pytest.mark.slow
def test_what_goes_back_by_itself_leaves_those_where_they_are_that_cannot(fleet: World) -> None:
    """Two have the new format by their user's word; the third does not come back, and Rollback is set meanwhile."""
    watcher, operator = Watcher(fleet), fleet.operator()
    fleet.edit(rollout=HALT, image=NEXT)
    run_until_stopped(fleet, operator, watcher, 3)
    fleet.kill(PODS[2])
    fleet.edit(rollout=ROLLBACK)
    break_container(fleet, PODS[2])

    run(fleet, operator, passes=3 * PASSES)

    assert images(fleet) == dict(zip(PODS, (NEXT, NEXT, OLD, OLD), strict=True))
    assert all_serve(fleet)
    assert watcher.wrong == []
    assert said(fleet, "Stalled")[1] == "RolloutHalted"
    for words in ("has written index format 3", "spec.image did not work: "):
        assert words in said(fleet, "Stalled")[2]


def run_until_stopped(world: World, operator: Reconciler, watcher: Watcher, count: int) -> None:
    for _ in range(2 * PASSES):
        if len(watcher.stops) == count:
            return
        run(world, operator, passes=1)
    pytest.fail(f"{watcher.stops} were stopped")


def break_container(world: World, pod: str) -> None:
    """It is in the middle of its turn, with the new image."""
    world.settle()
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}
    live = world.objects[("Pod", pod)]
    assert live["spec"]["containers"][0]["image"] == NEXT
    world.put(live | {"status": live["status"] | {"containerStatuses": [{"state": {"waiting": waiting}}]}})
    world.bookies = {address: one for address, one in world.bookies.items() if one.name != pod}
    world.formats["data.ledgers.zone-b.0"] = {"journal": 3, "index": 2}  # it ended before it wrote anything


def test_a_release_of_the_same_formats_is_rolled_out_as_ever(fleet: World) -> None:
    watcher = Watcher(fleet)

    fleet.edit(image="bookie:same")
    run(fleet)

    assert (watcher.stops, watcher.wrong) == (PODS, [])
    assert said(fleet, "UpToDate")[:2] == ("True", "Updated")


@pytest.mark.slow
def test_one_that_cannot_read_what_is_there_says_so_itself_and_goes_back(fleet: World) -> None:
    """Nobody runs it yet, so nobody knows before: decision 0023."""
    watcher = Watcher(fleet)

    fleet.edit(image="bookie:stranger")
    run(fleet, passes=2 * PASSES)

    assert (set(watcher.stops), watcher.wrong) == ({PODS[0]}, [])
    assert set(images(fleet).values()) == {OLD}
    assert all_serve(fleet)
    assert said(fleet, "Stalled")[1] == "RolledBack"


@pytest.mark.slow
@pytest.mark.parametrize("work", ["roll-out", "drain"])
def test_a_bookie_that_says_two_things_by_turns_is_flushed_more_and_more_seldom(fleet: World, work: str) -> None:
    """It costs its writers a flush and a change of ensembles each time, and nobody may have that for ever."""
    fleet.edit(image=NEXT, disruption={"onDrain": "ReadOnlyFirst"})
    run(fleet)
    fleet.edit(image=OLD)
    if work == "drain":
        fleet.edit(rollout={"strategy": "Manual"})
        fleet.add_node("elsewhere")
        fleet.cordon("node")
        for pod in PODS[1:]:
            fleet.places[pod] = "elsewhere"
            fleet.kill(pod)
    operator, bookie = fleet.operator(), fleet.bookie(PODS[0])
    run(fleet, operator, passes=8)
    fleet.writes.clear()

    flushes, said_why = list[int](), set[str]()
    for number in range(4 * PASSES):
        bookie.formats = fleet.releases[(NEXT, OLD)[number % 2]]
        run(fleet, operator, passes=1)
        flushes.append(fleet.writes.count(f"flush/{PODS[0]}"))
        status = fleet.status()
        told = status.eviction if work == "drain" else status.rollout
        said_why.add(told.waiting_for or "" if told is not None else "")

    assert flushes[-1] - flushes[2 * PASSES] <= 3, flushes
    assert fleet.bookie(PODS[0]) is bookie, "and it was not stopped"
    assert bookie.in_service is State.SERVING
    found = fleet.status().taken_back
    assert found is not None
    assert found.count > 3
    assert "has written index format 3" in found.why
    assert any("turns in a row were taken back" in one for one in said_why)
