"""A cluster is deleted: its claims stay, and are found again; or go with it, when that was said twice
(spec/operator.md#C1 to C3)."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

import operator_world_support as worlds
from bookie_operator.crash import CrashPoint
from bookie_operator.gateways.kube import KubeError, Manifest
from bookie_operator.model import names
from operator_world_support import World
from rolling_support import die, run

DELETE = {"deletionPolicy": "Delete", "deletionProtection": False, "terminationGrace": "2m"}


@pytest.fixture
def world() -> World:
    out = worlds.world()
    run(out, passes=14)
    assert out.is_quiet(), out.status()
    out.write(50, random.Random(1))
    return out


def claims(world: World) -> dict[str, str]:
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in world.of_kind("PersistentVolumeClaim")}


def going(world: World) -> int:
    return sum(bool(one["metadata"].get("ownerReferences")) for one in world.of_kind("PersistentVolumeClaim"))


def confirm(world: World) -> None:
    """kubectl annotate bookiecluster ledgers bookie.dev/delete-data=UID"""
    live = world.objects[(names.KIND, "ledgers")]
    annotations = {names.DELETE_DATA: live["metadata"]["uid"]}
    world.put(live | {"metadata": live["metadata"] | {"annotations": annotations}})


def test_said_once_all_claims_stay_and_the_cluster_that_is_applied_again_is_the_same_fleet(world: World) -> None:
    before, cookies = claims(world), {name: list(one) for name, one in world.cookies.items()}
    world.edit(lifecycle=DELETE)
    run(world, passes=3)
    told = world.status().deletion

    world.delete_and_apply()
    run(world, passes=15)

    assert told is not None
    assert (told.bookies, told.claims, told.going) == (4, len(before), 0)
    assert world.is_quiet(), world.status()
    assert claims(world) == before
    assert {name: list(one) for name, one in world.cookies.items()} == cookies
    assert (world.lost_entries(), world.accepted, going(world)) == ([], [], 0)


def test_said_twice_all_claims_go_with_it_and_cookies_stay(world: World) -> None:
    before, cookies = claims(world), set(world.cookies)
    world.edit(lifecycle=DELETE)
    confirm(world)
    run(world, passes=4)
    told = world.status().deletion
    live = world.objects[(names.KIND, "ledgers")]

    assert told is not None
    assert (told.going, told.waiting_for) == (len(before), None)
    assert going(world) == len(before)
    world.delete_and_apply(lifecycle={"terminationGrace": "2m"})
    assert claims(world) == {}
    run(world, passes=8)
    assert live["metadata"]["uid"] != world.objects[(names.KIND, "ledgers")]["metadata"]["uid"]
    assert set(world.cookies) == cookies
    assert (world.accepted, going(world)) == ([], 0)


def test_taken_back_before_the_deletion_every_claim_stays(world: World) -> None:
    before = claims(world)
    world.edit(lifecycle=DELETE)
    confirm(world)
    run(world, passes=4)
    assert going(world) == len(before)
    world.edit(lifecycle=DELETE | {"deletionProtection": True})

    run(world, passes=2)

    assert going(world) == 0
    world.delete_and_apply()
    run(world, passes=15)
    assert (claims(world), world.lost_entries(), world.accepted) == (before, [], [])
    assert world.is_quiet()


def test_what_could_not_be_taken_back_is_still_told(world: World) -> None:
    """An admission policy refuses edits of claims: whoever deletes the resource now deletes its data."""
    world.edit(lifecycle=DELETE)
    confirm(world)
    run(world, passes=4)
    world.invalid = "PersistentVolumeClaim"
    world.edit(lifecycle={"terminationGrace": "2m"})

    run(world, passes=2)
    told = world.status().deletion
    world.invalid = ""
    run(world, passes=2)

    assert told is not None
    assert told.going == len(claims(world))
    assert (world.status().deletion, going(world)) == (None, 0)


class WebhookDown:
    """An API server that refuses every StatefulSet, for hours: each pass ends there."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __getattr__(self, call: str) -> Any:
        return getattr(self._world, call)

    async def apply(self, manifest: Manifest, **how: Any) -> Manifest:
        if manifest["kind"] == "StatefulSet":
            raise KubeError("apply StatefulSet", 500, "failed calling webhook")
        return await self._world.apply(manifest, **how)


def test_the_claims_are_taken_back_before_anything_that_may_fail(world: World) -> None:
    world.edit(lifecycle=DELETE)
    confirm(world)
    run(world, passes=4)
    world.edit(lifecycle={"terminationGrace": "2m"}, image="bookie:next")

    with pytest.raises(KubeError):
        run(world, world.operator(kube=WebhookDown(world), owner="system/bookie-operator"), passes=1)

    assert going(world) == 0


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 2, 4, 9])
def test_after_a_death_at_any_write_both_ways_end_the_same(world: World, after: int, tmp_path: Path) -> None:
    before = claims(world)
    for name, lifecycle, wanted in (("go", DELETE, len(before)), ("stay", {"terminationGrace": "2m"}, 0)):
        (tmp_path / name).mkdir()
        crash = CrashPoint(after, str(tmp_path / name), die)
        world.edit(lifecycle=lifecycle)
        confirm(world)
        crashes = asyncio.run(world.run(world.operator(crash), passes=8, crash=crash))

        assert crashes == 1
        assert going(world) == wanted
    assert (claims(world), world.lost_entries()) == (before, [])
