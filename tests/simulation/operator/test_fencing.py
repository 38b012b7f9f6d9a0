"""A bookie is fenced off by hand: it is provably out, stays out, nothing of it is replaced, and it comes back whole."""

import asyncio
import random
from pathlib import Path
from typing import Any, NoReturn

import pytest

import operator_world_support as worlds
from bookie.ports.admin import State, Verdict
from bookie_operator.crash import CrashPoint
from bookie_operator.gateways.kube import KubeForbidden
from bookie_operator.model import names
from bookie_operator.model.operation import OperationPhase
from operator_world_support import Crashed, World

OUT, OTHER = "ledgers-zone-a-0", "ledgers-zone-c-0"
OUT_ID = "data.ledgers.zone-a.0"


def die(_: int) -> NoReturn:
    raise Crashed


def run(world: World, passes: int = 24, crash: CrashPoint | None = None) -> None:
    asyncio.run(world.run(world.operator(crash), passes=passes, crash=crash))


def ask(world: World, name: str, kind: str) -> None:
    world.now_ms += 60_000
    world.ask(name, kind, target={"bookie": OUT}, reason="its disk clicks")


def deleted(world: World, kind: str) -> list[str]:
    return [one for one in world.writes if one.startswith(f"delete {kind}/")]


def is_out(world: World) -> bool:
    bookie = world.bookie(OUT)
    return (bookie.state, bookie.claimed) == (State.HELD, Verdict.SET_ASIDE)


def fence(world: World, **how: Any) -> None:
    world.write(40, random.Random(1))
    ask(world, "fence", "Fence")
    run(world, **how)
    assert is_out(world)


@pytest.mark.slow
def test_it_stops_behind_the_gates_stays_out_and_comes_back_with_its_data(world: World) -> None:
    fence(world)

    assert world.writes.index(f"flush/{OUT}") < world.writes.index(f"aside/{OUT_ID}")
    assert world.writes.index(f"aside/{OUT_ID}") < world.writes.index(f"delete Pod/{OUT}")
    told = world.operation("fence")
    assert (told.phase, told.target) == (OperationPhase.COMPLETE, OUT)
    entry = world.status().bookie(OUT)
    assert entry is not None
    assert (entry.state, entry.reason, entry.fenced, entry.counted) == ("Held", "SetAside", "its disk clicks", "Away")

    world.kill(OUT)
    run(world, passes=10)
    assert is_out(world), "also as another pod"
    ask(world, "back", "Unfence")
    run(world)

    assert world.operation("back").phase is OperationPhase.COMPLETE
    assert world.is_quiet(), world.status()
    assert (world.accepted, world.lost_entries(), deleted(world, "PersistentVolumeClaim")) == ([], [], [])


def test_who_cannot_be_kept_out_is_not_stopped_and_whoever_asked_hears_why(world: World) -> None:
    """Its pod would come back, and serve: everybody would believe that it is out."""
    world.aside_problem = "the metadata store does not answer"
    ask(world, "fence", "Fence")

    run(world, passes=12)

    assert f"aside/{OUT_ID}" in world.writes
    assert deleted(world, "Pod") == []
    assert "the metadata store does not answer" in world.operation("fence").message
    world.aside_problem = ""
    run(world)
    assert is_out(world)


@pytest.mark.slow
def test_meanwhile_nobody_else_is_stopped_and_its_lost_disks_get_no_grant(world: World) -> None:
    fence(world)
    world.lose(OUT)
    world.ask("restart", "Restart", target={"bookie": OTHER})
    world.writes.clear()

    run(world, passes=30)

    assert is_out(world)
    assert (world.accepted, deleted(world, "Pod")) == ([], [])
    assert world.operation("restart").phase is OperationPhase.QUEUED
    assert OUT in world.operation("restart").message


@pytest.mark.parametrize("write", range(2, 12, 2))
def test_whenever_the_operator_dies_it_is_out_after_one_stop(world: World, write: int, tmp_path: Path) -> None:
    fence(world, passes=24, crash=CrashPoint(write, str(tmp_path), die))

    assert deleted(world, "Pod") == [f"delete Pod/{OUT}"]
    assert world.operation("fence").phase is OperationPhase.COMPLETE
    assert world.lost_entries() == []


def test_an_operation_that_is_deleted_before_the_stop_leaves_nothing_behind(world: World) -> None:
    world.no_deletion = KubeForbidden("delete", 403, "a policy keeps this pod")
    ask(world, "fence", "Fence")
    run(world, passes=6)
    assert world.asides[OUT_ID].is_aside
    assert not is_out(world)

    del world.objects[(names.OPERATION_KIND, "fence")]
    run(world, passes=12)

    assert not world.asides[OUT_ID].is_aside
    assert deleted(world, "Pod") == []
    assert world.is_quiet(), world.status()


@pytest.mark.slow
def test_a_fence_whose_status_was_lost_does_nothing_after_the_unfence(world: World) -> None:
    fence(world)
    ask(world, "back", "Unfence")
    run(world)
    for name in ("fence", "back"):
        del world.objects[(names.OPERATION_KIND, name)]["status"]
    world.writes.clear()

    run(world)

    assert (deleted(world, "Pod"), world.bookie(OUT).state) == ([], State.SERVING)
    assert world.operation("fence").phase is OperationPhase.CANCELLED
    assert world.operation("back").phase is OperationPhase.COMPLETE


def test_one_that_is_down_is_kept_out_only_while_all_others_serve(world: World) -> None:
    world.bookie(OTHER).is_reachable = False
    world.bookie(OUT).state = State.HELD
    world.bookie(OUT).claimed = Verdict.UNKNOWN_CONTENT
    ask(world, "fence", "Fence")
    run(world, passes=10)
    assert world.asides == {}
    assert OTHER in world.operation("fence").message

    world.bookie(OTHER).is_reachable = True
    run(world)

    assert is_out(world)
    assert world.operation("fence").phase is OperationPhase.COMPLETE


@pytest.mark.slow
def test_its_claims_stay_when_its_node_is_lost() -> None:
    storage = worlds.make.spec()["storage"]
    for role in ("journal", "ledgers", "index"):
        for volume in storage[role]["volumes"]:
            volume["kind"] = "LocalDisk"
    world = worlds.world(storage=storage)
    world.has_local_disks, world.mount = True, worlds.MountProof.PROVEN
    world.places = {OUT: "n-a", "ledgers-zone-a-1": "n-a1", "ledgers-zone-b-0": "n-b", OTHER: "n-c"}
    for name in (*world.places.values(), "spare"):
        world.add_node(name)
    run(world, passes=14)
    world.edit(repair={"stabilization": "6s", "lostNode": {"policy": "Replace", "after": "20s"}})
    run(world, passes=3)
    fence(world)
    world.switch_off("n-a")
    world.delete_node("n-a")
    world.objects.pop(("Node", "node"), None)

    run(world, passes=60)

    assert deleted(world, "PersistentVolumeClaim") == []
    entry = world.status().bookie(OUT)
    assert entry is not None
    assert entry.lost_node is not None
    assert "fenced" in (entry.lost_node.waiting_for or "")


@pytest.mark.slow
def test_an_order_that_nobody_can_give_has_not_begun_and_expires(world: World) -> None:
    fence(world)
    for one in world.bookies.values():
        one.is_reachable = False
    world.now_ms += 60_000
    world.ask("back", "Unfence", target={"bookie": OUT}, reason="it was the cable", expiresAfter="1h")

    run(world, passes=3)
    waiting = world.operation("back")
    world.now_ms += 2 * 3_600_000
    run(world, passes=2)
    for one in world.bookies.values():
        one.is_reachable = True
    run(world)

    assert (waiting.phase, waiting.started_at) == (OperationPhase.QUEUED, None)
    assert "can write the order" in waiting.message
    assert world.operation("back").phase is OperationPhase.EXPIRED
    assert is_out(world)
