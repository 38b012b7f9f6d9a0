"""One volume of a bookie that serves is replaced by an empty one, and its role is repaired (spec/operator.md#U13)."""

import asyncio
import random

import pytest

from bookie.ports.admin import State
from bookie_operator.gateways.kube import KubeForbidden
from bookie_operator.model.operation import OperationPhase
from operator_world_support import DeathAtEveryThird, World

NAMED = "ledgers-zone-a-0"
SPARE = "ledgers-zone-c-0"
PASSES = 120


def claims(world: World) -> "dict[str, str]":
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in world.of_kind("PersistentVolumeClaim")}


def check(world: World) -> None:
    assert (world.wrong, world.lost_entries(), world.thin_entries(), world.past_tolerance) == ([], [], [], [])
    assert world.uncounted() == []


def run(world: World, passes: int) -> None:
    asyncio.run(world.run(world.operator(), passes=passes))


def fails(world: World, *directories: str) -> None:
    """The bookie serves what it can read, and takes no writes."""
    bookie = world.bookie(NAMED)
    bookie.failed, bookie.state = directories, State.READ_ONLY


def ask(world: World, volume: str = "ledgers") -> None:
    world.now_ms += 60_000
    world.ask("disk", "ReplaceVolume", target={"bookie": NAMED, "volume": volume})


@pytest.fixture
def busy(world: World) -> World:
    world.write(40, random.Random(1))
    run(world, 3)
    return world


@pytest.mark.parametrize("first", [0, 1, 2, 3])
@pytest.mark.parametrize("is_failed", [False, True])
def test_exactly_that_volume_is_new_whichever_writes_are_the_operators_last(
    busy: World, is_failed: bool, first: int
) -> None:
    """`first` 0: nobody dies. Otherwise every third write is the last of its operator."""
    before, crash, crashes = claims(busy), DeathAtEveryThird(first), 0
    if is_failed:
        fails(busy, "/bookie/ledgers/current")
        run(busy, 2)
    busy.step_ms = 10_000 if first else busy.step_ms
    ask(busy)

    for _ in range(2 * PASSES // 10):
        crashes += asyncio.run(busy.run(busy.operator(crash), passes=10, crash=crash))
        if busy.operation("disk").phase is OperationPhase.COMPLETE and busy.is_quiet():
            break

    assert busy.operation("disk").phase is OperationPhase.COMPLETE, (busy.operation("disk"), busy.status())
    assert (busy.is_quiet(), crashes > 5) == (True, bool(first)), busy.status()
    assert {name for name, uid in claims(busy).items() if before[name] != uid} == {f"ledgers-{NAMED}"}
    assert {one for one in busy.writes if one.startswith("delete ")} == {
        f"delete PersistentVolumeClaim/ledgers-{NAMED}", f"delete Pod/{NAMED}"
    }  # fmt: skip
    assert busy.forgotten == []
    assert {grant.profile for grant in busy.accepted} == {"Partial"}
    check(busy)


def test_a_volume_that_is_kept_is_not_waited_for_although_it_is_still_there(busy: World) -> None:
    """spec/operator.md#G6: a person named it; `reattachGrace` is a quarter of an hour."""
    for one in busy.of_kind("PersistentVolume"):
        one["spec"]["persistentVolumeReclaimPolicy"] = "Retain"
    ask(busy)
    began_ms = busy.now_ms

    run(busy, 50)

    kept = [one for one in busy.of_kind("PersistentVolume") if one.get("status", {}).get("phase") == "Released"]
    assert (busy.operation("disk").phase, len(kept)) == (OperationPhase.COMPLETE, 1), busy.operation("disk")
    assert busy.now_ms - began_ms < 900_000
    check(busy)


@pytest.mark.parametrize(("volume", "profile"), [("index", "IndexRebuild"), ("journal", "JournalLoss")])
def test_it_flushes_before_its_claim_goes_and_only_then_its_pod(busy: World, volume: str, profile: str) -> None:
    ask(busy, volume)

    run(busy, 50)

    assert busy.operation("disk").phase is OperationPhase.COMPLETE, busy.operation("disk")
    order = [f"flush/{NAMED}", f"delete PersistentVolumeClaim/{volume}-{NAMED}", f"delete Pod/{NAMED}"]
    assert [one for one in busy.writes if one in order] == [order[0], *order]
    assert [grant.profile for grant in busy.accepted] == [profile]
    check(busy)


def test_a_finished_one_whose_status_was_lost_replaces_nothing_again(busy: World) -> None:
    ask(busy)
    run(busy, 50)
    known = claims(busy)
    del busy.objects[("BookieOperation", "disk")]["status"]

    run(busy, 20)

    assert (claims(busy), busy.operation("disk").phase) == (known, OperationPhase.COMPLETE)


def test_nothing_goes_while_another_bookie_lacks_something(busy: World) -> None:
    known = claims(busy)
    busy.bookie(SPARE).failed = ("/bookie/ledgers",)
    fails(busy, "/bookie/ledgers")
    ask(busy)

    run(busy, 15)

    told = busy.operation("disk")
    assert (told.phase, claims(busy)) == (OperationPhase.QUEUED, known)
    assert f"{SPARE} cannot write to /bookie/ledgers" in told.message
    busy.bookie(SPARE).failed = ()
    run(busy, 50)
    assert busy.operation("disk").phase is OperationPhase.COMPLETE, busy.operation("disk")
    check(busy)


def test_a_volume_stays_while_another_of_its_bookie_has_failed(busy: World) -> None:
    """Perhaps a person named the wrong disk."""
    known = claims(busy)
    fails(busy, "/bookie/ledgers-2/current", "/bookie/ledgers")
    ask(busy, "index")

    run(busy, 15)

    told = busy.operation("disk")
    assert (told.phase, claims(busy)) == (OperationPhase.QUEUED, known)
    assert "cannot write to /bookie/ledgers-2/current, /bookie/ledgers" in told.message


def test_of_two_disks_that_failed_one_goes(busy: World) -> None:
    fails(busy, "/bookie/index", "/bookie/ledgers")
    ask(busy)

    run(busy, 50)

    assert busy.operation("disk").phase is OperationPhase.COMPLETE, busy.operation("disk")
    check(busy)


def test_a_claim_that_may_not_be_deleted_keeps_the_pod_and_is_told(busy: World) -> None:
    busy.no_claim_deletion = KubeForbidden("delete PersistentVolumeClaim", 403, "forbidden")
    pod = busy.objects[("Pod", NAMED)]["metadata"]["uid"]
    ask(busy)

    run(busy, 12)

    assert busy.objects[("Pod", NAMED)]["metadata"]["uid"] == pod
    told = busy.operation("disk")
    assert "could not delete PersistentVolumeClaim" in told.message, told
    busy.no_claim_deletion = None
    busy.now_ms += 60_000
    run(busy, 60)
    assert busy.operation("disk").phase is OperationPhase.COMPLETE, busy.operation("disk")
    check(busy)
