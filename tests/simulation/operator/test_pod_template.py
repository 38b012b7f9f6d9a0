"""An edit of spec.podTemplate: refused as a whole, or applied as a whole; corrected, it goes on."""

import asyncio
from typing import Any

import pytest

from operator_world_support import World

SETS = ["ledgers-zone-a", "ledgers-zone-b", "ledgers-zone-c"]


def settle(world: World, *, passes: int = 4) -> None:
    asyncio.run(world.run(world.operator(), passes=passes))


def templates(world: World) -> list[dict[str, Any]]:
    return [world.objects[("StatefulSet", name)]["spec"]["template"] for name in SETS]


@pytest.mark.parametrize(
    "overlay",
    [{"containers": [{"name": "logs", "imgae": "logs:1"}]}, {"containers": [{"name": "bookie", "image": "other"}]}],
    ids=["a field that Kubernetes does not have", "a field of the operator's"],
)
def test_a_wrong_template_is_told_and_touches_nothing_and_a_corrected_one_is_applied(
    world: World, overlay: dict[str, Any]
) -> None:
    before, written = templates(world), len(world.writes)

    world.edit(podTemplate={"spec": overlay, "metadata": {"labels": {"team": "a"}}}, config={"flushInterval": "777"})
    settle(world)

    stalled = world.status().condition("Stalled")
    assert stalled is not None
    assert (stalled.status, stalled.reason) == ("True", "SpecInvalid")
    assert "spec.podTemplate.spec" in stalled.message
    assert templates(world) == before
    assert {one.partition("/")[0] for one in world.writes[written:]} <= {"BookieCluster"}, world.writes[written:]

    world.edit(podTemplate={"spec": {"containers": [{"name": "logs", "image": "logs:1"}]}})
    settle(world)

    assert [[one["name"] for one in made["spec"]["containers"]] for made in templates(world)] == [
        ["bookie", "logs"]
    ] * 3


def test_a_template_is_applied_once(world: World) -> None:
    world.edit(podTemplate={"metadata": {"annotations": {"team": "a"}}, "spec": {"schedulerName": "volcano"}})
    settle(world)
    during, written = templates(world), len(world.writes)
    settle(world)

    assert [made["spec"]["schedulerName"] for made in during] == ["volcano"] * 3
    assert [one for one in world.writes[written:] if one.startswith("StatefulSet")] == [], "applied once"
