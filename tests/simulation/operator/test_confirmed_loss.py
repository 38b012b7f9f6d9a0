"""A bookie that is held for emptied volumes comes back by the word of a person (spec/operator.md#U14)."""

import asyncio
import random

import pytest

from bookie.ports.admin import Contents, State
from bookie_operator.gateways.kube import KubeForbidden
from bookie_operator.model.operation import OperationPhase
from operator_world_support import DeathAtEveryThird, World

HELD = "ledgers-zone-a-0"
REASON = "M. ran mkfs on the wrong device on Tuesday, it is gone"


def run(world: World, passes: int) -> None:
    asyncio.run(world.run(world.operator(), passes=passes))


def claims(world: World) -> "dict[str, str]":
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in world.of_kind("PersistentVolumeClaim")}


def wipe(world: World, *volumes: str, fsid: str = "fs") -> None:
    """Somebody empties volumes, pod and claims stay; the container starts anew."""
    bookie = world.bookie(HELD)
    bookie.volumes |= dict.fromkeys(volumes, Contents.EMPTY)
    world.fsids[bookie.bookie_id] = fsid
    world.disks.pop(bookie.bookie_id, None)
    world.dataless.add(bookie.bookie_id)
    world.start_container(HELD)


def confirm(world: World, evidence: str = "", **spec: object) -> None:
    world.now_ms += 60_000
    (known,) = world.evidence(HELD)
    wanted = {"target": {"bookie": HELD}, "evidence": evidence or known["evidence"], "reason": REASON} | spec
    world.ask("gone", "ConfirmLoss", **wanted)


def check(world: World) -> None:
    assert (world.wrong, world.lost_entries(), world.thin_entries(), world.past_tolerance) == ([], [], [], [])
    assert world.uncounted() == []


def silence(world: World, volume: str) -> None:
    """A disk dies and answers nothing any more; the container starts anew, and again at each pass."""
    world.bookie(HELD).volumes[volume] = Contents.UNREADABLE
    world.start_container(HELD)


@pytest.fixture
def busy(world: World) -> World:
    world.write(40, random.Random(1))
    run(world, 3)
    return world


@pytest.mark.parametrize("first", [0, 1, 2, 3])
@pytest.mark.parametrize("volumes", [("ledgers",), ("journal", "ledgers", "index")], ids=["one", "all"])
def test_the_empty_claims_go_and_no_other_whichever_writes_are_the_operators_last(
    busy: World, volumes: tuple[str, ...], first: int
) -> None:
    """`first` 0: nobody dies. Otherwise every third write is the last of its operator."""
    before, crash, crashes = claims(busy), DeathAtEveryThird(first), 0
    wipe(busy, *volumes)
    run(busy, 5)
    told = busy.status().bookie(HELD)
    assert told is not None
    assert (told.state, told.reason) == ("Held", "WipedInPlace")
    busy.step_ms = 10_000 if first else busy.step_ms
    confirm(busy)

    for _ in range(24):
        crashes += asyncio.run(busy.run(busy.operator(crash), passes=10, crash=crash))
        if busy.operation("gone").phase is OperationPhase.COMPLETE and busy.is_quiet():
            break

    assert busy.operation("gone").phase is OperationPhase.COMPLETE, busy.operation("gone")
    assert (busy.is_quiet(), crashes > 3) == (True, bool(first)), busy.status()
    gone = {f"{volume}-{HELD}" for volume in volumes}
    assert {name for name, uid in claims(busy).items() if before[name] != uid} == gone
    assert [one for one in busy.writes if one == f"delete Pod/{HELD}"] == [f"delete Pod/{HELD}"]
    assert len({grant.id for grant in busy.accepted}) == 1
    check(busy)


def test_a_volume_with_another_file_system_behind_its_claim_goes_the_same_way(busy: World) -> None:
    wipe(busy, "journal", "ledgers", "index", fsid="another")
    run(busy, 5)
    told = busy.status().bookie(HELD)
    assert told is not None
    assert told.reason in ("EmptyButInitialized", "ResetLocalDisk")
    confirm(busy)

    run(busy, 100)

    assert (busy.operation("gone").phase, busy.is_quiet()) == (OperationPhase.COMPLETE, True), busy.operation("gone")
    check(busy)


@pytest.mark.slow
@pytest.mark.parametrize("volume", ["journal", "ledgers", "index"])
def test_a_disk_that_does_not_answer_is_left_alone_until_a_person_says_that_it_is_lost(
    busy: World, volume: str
) -> None:
    """spec/operator.md#V14"""
    before = claims(busy)
    silence(busy, volume)
    busy.step_ms = 60_000
    run(busy, 60)
    told = busy.status().bookie(HELD)
    assert told is not None
    assert (told.state, told.reason, told.counted) == ("Held", "UnreadableVolume", "Away")
    assert f"ConfirmLoss with evidence {told.evidence}" in (told.message or "")
    assert (claims(busy), busy.accepted) == (before, [])
    assert [one for one in busy.writes if one.startswith("delete")] == []
    busy.step_ms = 1_000
    confirm(busy)

    run(busy, 100)

    assert (busy.operation("gone").phase, busy.is_quiet()) == (OperationPhase.COMPLETE, True), busy.operation("gone")
    assert {name for name, uid in claims(busy).items() if before[name] != uid} == {f"{volume}-{HELD}"}
    assert [one for one in busy.writes if one == f"delete Pod/{HELD}"] == [f"delete Pod/{HELD}"]
    assert len({grant.id for grant in busy.accepted}) == 1
    check(busy)


def test_a_disk_that_answers_again_keeps_its_claim_whatever_was_confirmed(busy: World) -> None:
    known, on_disk = claims(busy), set(busy.bookie(HELD).disk)
    silence(busy, "ledgers")
    run(busy, 5)
    (named,) = busy.evidence(HELD)
    busy.bookie(HELD).volumes["ledgers"] = Contents.VALID
    busy.start_container(HELD)
    confirm(busy, evidence=named["evidence"])

    run(busy, 30)

    assert (claims(busy), busy.operation("gone").phase) == (known, OperationPhase.QUEUED)
    assert (busy.bookie(HELD).state, busy.bookie(HELD).disk, busy.accepted) == (State.SERVING, on_disk, [])
    check(busy)


def test_a_volume_that_came_back_is_none_of_what_was_confirmed(busy: World) -> None:
    """The disk was unplugged, and another one in its place, until somebody saw it."""
    known, on_disk = claims(busy), set(busy.bookie(HELD).disk)
    wipe(busy, "ledgers")
    run(busy, 5)
    (named,) = busy.evidence(HELD)
    bookie = busy.bookie(HELD)
    bookie.volumes["ledgers"] = Contents.VALID
    busy.disks[bookie.bookie_id] = on_disk
    busy.dataless.discard(bookie.bookie_id)
    busy.start_container(HELD)
    confirm(busy, evidence=named["evidence"])

    run(busy, 30)

    told = busy.operation("gone")
    assert (claims(busy), told.phase) == (known, OperationPhase.QUEUED)
    assert "not held for an empty volume" in told.message
    assert busy.bookie(HELD).state is State.SERVING
    busy.now_ms += 25 * 3_600_000
    run(busy, 3)
    assert busy.operation("gone").phase is OperationPhase.EXPIRED, "it does not wait for ever"
    check(busy)


@pytest.mark.slow
def test_a_claim_that_may_not_be_deleted_keeps_the_pod_and_is_told(busy: World) -> None:
    wipe(busy, "ledgers")
    run(busy, 5)
    busy.no_claim_deletion = KubeForbidden("delete PersistentVolumeClaim", 403, "forbidden")
    pod = busy.objects[("Pod", HELD)]["metadata"]["uid"]
    confirm(busy)

    run(busy, 10)

    told = busy.operation("gone")
    assert busy.objects[("Pod", HELD)]["metadata"]["uid"] == pod
    assert (told.phase, "forbidden" in told.message) == (OperationPhase.RUNNING, True), told
    busy.no_claim_deletion = None
    run(busy, 100)
    assert (busy.operation("gone").phase, busy.is_quiet()) == (OperationPhase.COMPLETE, True), busy.operation("gone")
    check(busy)
