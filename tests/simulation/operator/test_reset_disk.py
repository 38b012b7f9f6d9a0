"""Local disks that are empty after their machine booted: only a spec and a proof let the bookie go on."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

import operator_world_support as worlds
from bookie_operator.crash import CrashPoint
from operator_world_support import Crashed, World
from workflows_support import on_local_disks

RESET = "ledgers-zone-b-0"


PLACES = {f"ledgers-{pool}": f"n-{pool}" for pool in ("zone-a-0", "zone-a-1", "zone-b-0", "zone-c-0")}


@pytest.fixture(scope="module")
def local() -> World:
    """A fleet with data on local disks, a node for each bookie, which may go on by itself after a reset."""
    world = on_local_disks(PLACES, repair={"stabilization": "6s", "localDiskReset": "Auto"})
    world.write(30, random.Random(7))
    return world


@pytest.fixture
def world(local: World) -> World:
    return worlds.clone(local)


def run(world: World, *, passes: int = 60, **how: Any) -> None:
    asyncio.run(world.run(world.operator(**how), passes=passes, until_quiet=True))


def told(world: World) -> tuple[str | None, str | None]:
    entry = world.status().bookie(RESET)
    assert entry is not None
    return entry.state, entry.reason


def test_after_a_boot_of_its_machine_it_is_repaired_under_one_grant(world: World) -> None:
    world.reset_disks(RESET, boot="n-zone-b-0-boot-2")

    run(world)

    assert world.is_quiet(), world.status()
    assert [one.bookie_id for one in world.accepted] == ["data.ledgers.zone-b.0"]
    assert world.lost_entries() == []
    claim = world.objects[("PersistentVolumeClaim", f"ledgers-{RESET}")]
    assert "fs-of-n-zone-b-0-boot-2" in claim["metadata"]["annotations"].values(), "marked with its new file system"


def test_without_a_boot_it_is_held_for_a_person_and_nothing_is_granted(world: World) -> None:
    world.reset_disks(RESET, boot="n-zone-b-0-boot-1")

    run(world)

    assert told(world) == ("Held", "ResetLocalDisk")
    assert world.accepted == []


def test_two_machines_that_lose_their_disks_at_once_wait_for_a_person(world: World) -> None:
    world.reset_disks(RESET, boot="n-zone-b-0-boot-2")
    world.reset_disks("ledgers-zone-c-0", boot="n-zone-c-0-boot-2")

    run(world)

    assert world.accepted == []
    stalled = world.status().condition("Stalled")
    assert stalled is not None
    assert stalled.reason == "AckQuorumBreached"


@pytest.mark.parametrize("write", range(1, 6))
def test_whichever_write_was_the_operators_last_it_heals_into_one_new_life(
    world: World, write: int, tmp_path: Path
) -> None:
    def end(_: int) -> None:
        raise Crashed

    world.reset_disks(RESET, boot="n-zone-b-0-boot-2")

    run(world, crash=CrashPoint(write, str(tmp_path), end))

    assert world.is_quiet(), world.status()
    assert world.cookies["data.ledgers.zone-b.0"][1] == 2
    assert world.lost_entries() == []
