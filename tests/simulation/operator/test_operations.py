"""Operations in the operator's own loop: done once, told truly, and whole under the death of the operator."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import NoReturn

import pytest

import operator_world_support as worlds
from bookie.ports.admin import State
from bookie_operator.crash import CrashPoint
from bookie_operator.model import names, values
from bookie_operator.model.operation import OperationPhase
from operator_world_support import Crashed, World

FIRST, LAST = "ledgers-zone-a-0", "ledgers-zone-c-0"
PASSES = 40


def die(_: int) -> NoReturn:
    raise Crashed


def run(world: World, passes: int = PASSES, crash: CrashPoint | None = None) -> int:
    return asyncio.run(world.run(world.operator(crash), passes=passes, crash=crash))


def uid(world: World, pod: str) -> str:
    return str(world.objects[("Pod", pod)]["metadata"]["uid"])


def stops(world: World) -> "Counter[str]":
    return Counter(one for one in world.writes if one.startswith("delete Pod"))


def test_a_restart_ends_one_pod_in_an_orderly_way_and_says_so(world: World) -> None:
    world.now_ms += 60_000
    before = {one["metadata"]["name"]: one["metadata"]["uid"] for one in world.of_kind("Pod")}
    world.ask("by-hand", "Restart", target={"bookie": LAST}, reason="its log says nothing any more")

    run(world)

    after = {one["metadata"]["name"]: one["metadata"]["uid"] for one in world.of_kind("Pod")}
    assert {name for name, one in after.items() if before[name] != one} == {LAST}
    told = world.operation("by-hand")
    assert (told.phase, told.target) == (OperationPhase.COMPLETE, LAST)
    assert told.started_at is not None
    assert told.finished_at is not None
    assert world.writes.index(f"flush/{LAST}") < world.writes.index(f"delete Pod/{LAST}")
    assert {"OperationStarted", "OperationCompleted"} <= set(world.events())
    assert world.is_quiet(), world.status()


def hang(world: World, pod: str) -> None:
    """The pod's container is not made again after its end, for a reason that another pod would not have any more."""
    address, bookie = next((door, one) for door, one in world.bookies.items() if one.name == pod)
    world.contents[bookie.bookie_id] = world.contents.get(bookie.bookie_id, {}) | bookie.volumes
    del world.bookies[address]
    waiting = {"reason": "CreateContainerError", "message": "context deadline exceeded"}
    status = {"phase": "Running", "containerStatuses": [{"name": names.CONTAINER, "state": {"waiting": waiting}}]}
    world.put(world.objects[("Pod", pod)] | {"status": status})


@pytest.mark.slow
def test_two_that_are_down_on_one_revision_come_back_one_after_the_other_by_their_restarts(world: World) -> None:
    for pod in (FIRST, LAST):
        hang(world, pod)
    run(world, passes=40)
    before = {pod: uid(world, pod) for pod in (FIRST, LAST)}
    for pod in before:
        world.now_ms += 1_000
        world.ask(f"restart-{pod}", "Restart", target={"bookie": pod})

    run(world, passes=60)

    assert [pod for pod in before if uid(world, pod) == before[pod]] == []
    assert {world.operation(f"restart-{pod}").phase for pod in before} == {OperationPhase.COMPLETE}
    assert (world.is_quiet(), world.wrong, world.lost_entries()) == (True, [], []), world.status()


def test_a_finished_operation_causes_no_write(world: World) -> None:
    world.now_ms += 60_000
    world.ask("by-hand", "Restart", target={"bookie": LAST})
    run(world)
    operator = world.operator()
    asyncio.run(world.run(operator, passes=2))
    world.writes.clear()

    asyncio.run(world.run(operator, passes=5))

    assert world.writes == []


def test_two_restarts_never_overlap_and_go_in_order(world: World) -> None:
    world.now_ms += 60_000
    world.ask("second", "Restart", target={"bookie": FIRST})
    world.objects[(names.OPERATION_KIND, "second")]["metadata"]["creationTimestamp"] = "2027-01-15T08:02:00Z"
    world.ask("first", "Restart", target={"bookie": LAST})
    world.objects[(names.OPERATION_KIND, "first")]["metadata"]["creationTimestamp"] = "2027-01-15T08:01:00Z"
    others: list[tuple[str, ...]] = []
    world.on_stop = lambda stopped: others.append(
        (stopped, *(one.name for one in world.bookies.values() if one.name != stopped and one.state != State.SERVING))
    )

    run(world, passes=60)

    assert others == [(LAST,), (FIRST,)]
    assert {world.operation(name).phase for name in ("first", "second")} == {OperationPhase.COMPLETE}


@pytest.mark.parametrize("write", range(1, 11))
def test_a_restart_is_done_once_whenever_the_operator_dies(world: World, write: int, tmp_path: Path) -> None:
    world.now_ms += 60_000
    before = uid(world, LAST)
    world.ask("by-hand", "Restart", target={"bookie": LAST})
    world.writes.clear()
    crash = CrashPoint(write, str(tmp_path), die)

    run(world, passes=60, crash=crash)

    assert stops(world) == {f"delete Pod/{LAST}": 1}
    assert uid(world, LAST) != before
    assert world.operation("by-hand").phase is OperationPhase.COMPLETE
    assert world.is_quiet(), world.status()


def test_a_status_that_somebody_wiped_makes_nothing_happen_twice(world: World) -> None:
    world.now_ms += 60_000
    world.ask("by-hand", "Restart", target={"bookie": LAST})
    run(world)
    world.writes.clear()
    del world.objects[(names.OPERATION_KIND, "by-hand")]["status"]

    run(world)

    assert stops(world) == {}
    assert world.operation("by-hand").phase is OperationPhase.COMPLETE


def test_an_operation_that_is_deleted_in_its_turn_leaves_the_bookie_writable(world: World) -> None:
    world.now_ms += 60_000
    world.bookie(LAST).flush_problem = "the disk is full"
    world.ask("by-hand", "Restart", target={"bookie": LAST})
    run(world, passes=5)
    assert world.bookie(LAST).state is State.READ_ONLY
    assert "the disk is full" in world.operation("by-hand").message

    del world.objects[(names.OPERATION_KIND, "by-hand")]
    run(world, passes=10)

    assert world.bookie(LAST).state is State.SERVING
    assert stops(world) == {}
    assert world.is_quiet(), world.status()


def test_an_operation_from_an_api_server_whose_clock_is_ahead_stops_its_bookie_once(world: World) -> None:
    world.ask("by-hand", "Restart", target={"bookie": LAST})
    ahead = values.format_time(world.now_ms + 10 * 60_000)
    world.objects[(names.OPERATION_KIND, "by-hand")]["metadata"]["creationTimestamp"] = ahead

    run(world, passes=60)

    assert stops(world) == {f"delete Pod/{LAST}": 1}
    assert world.operation("by-hand").phase is OperationPhase.COMPLETE


def test_an_operation_of_no_cluster_waits_until_there_is_one() -> None:
    world = World()
    world.ask("early", "Restart", target={"bookie": LAST})

    run(world, passes=2)

    told = world.operation("early")
    assert told.phase is OperationPhase.QUEUED
    assert "there is no BookieCluster ledgers" in told.message


@pytest.mark.parametrize("forbidden", [names.OPERATION_KIND])
def test_without_the_right_to_read_operations_the_fleet_is_cared_for(world: World, forbidden: str) -> None:
    world.forbidden = forbidden
    world.lose(FIRST)

    run(world)

    assert world.is_quiet(), world.status()


def test_an_operation_that_somebody_else_writes_stops_no_pass(world: World) -> None:
    world.now_ms += 60_000
    world.ask("by-hand", "Restart", target={"bookie": LAST})
    taken = world.replace_status

    async def conflict(manifest: worlds.Manifest, *, manager: str) -> worlds.Manifest:
        if manifest["kind"] == names.OPERATION_KIND:
            raise worlds.KubeError("apply", 409, "it changed")
        return await taken(manifest, manager=manager)

    world.replace_status = conflict  # type: ignore[method-assign]
    run(world)
    world.replace_status = taken  # type: ignore[method-assign]
    run(world, passes=3)

    assert stops(world) == {f"delete Pod/{LAST}": 1}
    assert world.operation("by-hand").phase is OperationPhase.COMPLETE


REASON = "both disks burnt, and nobody has a copy"


def two_lost(world: World) -> None:
    world.now_ms += 60_000
    world.lose(FIRST)
    world.lose(LAST)
    run(world, passes=20)
    assert world.accepted == [], "as many as the ack quorum: nothing happens by itself"


def test_a_loss_that_a_person_accepts_brings_both_bookies_back_and_is_remembered(world: World) -> None:
    two_lost(world)
    world.ask("give-up", "AcceptLoss", reason=REASON, target={"bookies": world.evidence(FIRST, LAST)})

    run(world)

    assert world.is_quiet(), world.status()
    assert world.past_tolerance
    told = world.operation("give-up")
    assert (told.phase, told.target) == (OperationPhase.COMPLETE, f"{FIRST}, {LAST}")
    assert {one.approval.operation for one in world.status().history if one.approval} == {"give-up"}


def test_half_an_acceptance_brings_nobody_back(world: World) -> None:
    two_lost(world)
    world.ask("half", "AcceptLoss", reason=REASON, target={"bookies": world.evidence(FIRST)})
    wrong = [one | {"evidence": "0123456789abcdef"} for one in world.evidence(FIRST, LAST)]
    world.ask("wrong", "AcceptLoss", reason=REASON, target={"bookies": wrong})

    run(world)

    assert world.accepted == []
    assert {world.operation(name).phase for name in ("half", "wrong")} == {OperationPhase.QUEUED}


def test_an_accepted_loss_does_not_fit_the_next_one(world: World) -> None:
    two_lost(world)
    world.ask("give-up", "AcceptLoss", reason=REASON, target={"bookies": world.evidence(FIRST, LAST)})
    run(world)
    world.now_ms += 25 * 3_600_000  # the brake counts a day
    del world.objects[(names.OPERATION_KIND, "give-up")]["status"]
    world.objects[(names.OPERATION_KIND, "give-up")]["spec"]["expiresAfter"] = "99h"
    world.accepted.clear()

    world.lose(FIRST)
    world.lose(LAST)
    run(world)

    assert world.accepted == []
    assert world.operation("give-up").phase is not OperationPhase.COMPLETE


@pytest.mark.parametrize("write", range(1, 13, 2))
def test_an_accepted_loss_is_granted_once_each_whenever_the_operator_dies(
    world: World, write: int, tmp_path: Path
) -> None:
    two_lost(world)
    world.ask("give-up", "AcceptLoss", reason=REASON, target={"bookies": world.evidence(FIRST, LAST)})
    crash = CrashPoint(write, str(tmp_path), die)

    run(world, passes=60, crash=crash)

    assert Counter(one.bookie_id for one in world.accepted) == {"data.ledgers.zone-a.0": 1, "data.ledgers.zone-c.0": 1}
    assert world.operation("give-up").phase is OperationPhase.COMPLETE
    assert world.is_quiet(), world.status()


def test_an_approval_lets_one_bookie_back_under_manual(world: World) -> None:
    world.now_ms += 60_000
    world.edit(repair={"stabilization": "6s", "regeneration": "Manual"})
    world.lose(FIRST)
    run(world, passes=20)
    assert world.accepted == []
    (known,) = world.evidence(FIRST)

    world.ask("yes", "ApproveRegeneration", reason=REASON, target={"bookie": FIRST}, evidence=known["evidence"])
    run(world)

    assert world.is_quiet(), world.status()
    assert len(world.accepted) == 1
    assert world.operation("yes").phase is OperationPhase.COMPLETE
    # It is complete as soon as the new life has begun, and the bookie's report is of the life before then.
    assert "incarnation 1" not in str(world.operation("yes").message)


@pytest.mark.parametrize("write", [0, 1, 2, 3])
def test_a_cookie_that_somebody_deleted_comes_back_by_operation_whenever_the_operator_dies(
    world: World, write: int, tmp_path: Path
) -> None:
    bookie = world.bookie(LAST)
    _, incarnation = world.cookies.pop(bookie.bookie_id)
    world.last_lives[bookie.bookie_id] = incarnation
    world.kill(LAST)
    run(world, passes=8)
    assert world.bookie(LAST).state is State.HELD
    (named,) = world.evidence(LAST)
    world.now_ms += 60_000
    why = "somebody deleted its node by hand"
    world.ask("back", "RestoreCookie", target={"bookie": LAST}, evidence=named["evidence"], reason=why)

    run(world, passes=14, crash=CrashPoint(write, str(tmp_path), die) if write else None)

    assert world.operation("back").phase is OperationPhase.COMPLETE
    assert world.is_quiet(), world.status()
    assert world.accepted == []
