"""Ledger volumes are added to bookies in service: one bookie at a time, halted by the first that cannot, taken back by
the reverse edit while none has them, and never undone afterwards (spec/operator.md#X15, X16)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import operator_world_support as worlds
from bookie.ports.admin import Contents, State
from bookie_operator.crash import CrashPoint
from bookie_operator.model import names
from bookie_operator.reconcile import Reconciler
from operator_world_support import Crashed, DeathAtEveryThird, World
from rolling_support import AUTOMATIC, PODS, Watcher, die, said, turn

FIRST, SECOND = PODS[:2]
MORE = ("index-2", "ledgers-2")
PASSES = 150


@pytest.fixture
def fleet(world: World) -> World:
    world.edit(rollout=AUTOMATIC)
    run(world)
    return world


def add(world: World) -> None:
    storage = worlds._copy(world.spec()["storage"])
    for role, name in (("ledgers", "ledgers-2"), ("index", "index-2")):
        storage[role]["volumes"].append({"name": name, "size": "5Gi", "added": True, "allowSharedFilesystem": True})
    world.edit(storage=storage)


def take_back(world: World) -> None:
    storage = worlds._copy(world.spec()["storage"])
    for role in ("ledgers", "index"):
        storage[role]["volumes"].pop()
    world.edit(storage=storage)


def step(world: World, operator: Reconciler) -> None:
    asyncio.run(operator.reconcile(worlds.KEY))
    world.settle()


def run(
    world: World,
    operator: Reconciler | None = None,
    crash: CrashPoint | None = None,
    until: Any = None,
    *,
    passes: int = PASSES,
) -> None:
    """Pass after pass, by a new operator after each death, until the operator calls the spec done or in need of a
    person; or `until` is so."""
    operator = operator or world.operator(crash)
    asked = world.objects[(names.KIND, "ledgers")]["metadata"]["generation"]
    for _ in range(passes):
        try:
            step(world, operator)
        except Crashed:
            operator = world.operator(crash, has_watched=False)
            world.settle()
        assert (world.refused, world.accepted) == ([], []), "nobody lacks a directory, and nothing is taken for a loss"
        status = world.status()
        assert [one.name for one in status.bookies if one.suspicion is not None] == []
        found = status.condition("Reconciling")
        if until is not None:
            if until():
                return
        elif status.observed_generation == asked and found is not None and found.status == "False":
            return
    raise AssertionError(
        f"not within {passes} passes: {[(one.type, one.message) for one in world.status().conditions]}"
    )


def having(world: World) -> list[str]:
    """The pods whose bookies have the added volumes for their own."""
    return sorted(
        one.name for one in world.bookies.values() if all(one.volumes.get(name) is Contents.VALID for name in MORE)
    )


def mounts(world: World, pod: str) -> frozenset[str]:
    return names.data_volumes(world.objects[("Pod", pod)]["spec"])


def templates(world: World, name: str) -> list[str]:
    live = world.objects.get(("StatefulSet", name)) or {"spec": {"volumeClaimTemplates": []}}
    return [one["metadata"]["name"] for one in live["spec"]["volumeClaimTemplates"]]


def marked(world: World) -> list[str]:
    return sorted(
        claim["metadata"]["name"]
        for claim in world.of_kind("PersistentVolumeClaim")
        if claim["metadata"]["name"].startswith(MORE)
        and names.MARK_INCARNATION in claim["metadata"].get("annotations", {})
    )


def whole(world: World) -> None:
    """Every bookie has the volumes, and the operator knows it."""
    assert having(world) == PODS
    assert marked(world) == sorted(f"{volume}-{pod}" for volume in MORE for pod in PODS)
    assert world.status().added_volumes == MORE
    assert world.is_quiet()


def test_every_bookie_gets_the_volumes_in_its_turn_and_nobody_loses_anything(fleet: World) -> None:
    watcher, lives = Watcher(fleet), {name: one[1] for name, one in fleet.cookies.items()}

    add(fleet)
    run(fleet)

    whole(fleet)
    assert (watcher.stops, watcher.wrong) == (PODS, [])
    assert {name: one[1] for name, one in fleet.cookies.items()} == lives
    assert said(fleet, "UpToDate")[:2] == ("True", "Updated")


def test_what_is_added_to_no_fleet_changes_no_setting(fleet: World) -> None:
    before = {one.name: one.settings for one in fleet.bookies.values()}
    assert not any("allowStorageExpansion" in one for one in before.values())

    add(fleet)
    run(fleet)

    assert all("allowStorageExpansion=true" in one.settings.splitlines() for one in fleet.bookies.values())


def test_the_next_one_waits_while_a_bookie_takes_the_volumes_in(fleet: World) -> None:
    operator, taken_in = fleet.operator(), list[list[str]]()

    def look(pod: str) -> None:
        taken_in.append(having(fleet))

    fleet.on_stop = look
    add(fleet)
    run(fleet, operator)

    assert taken_in == [PODS[:number] for number in range(len(PODS))]


@pytest.mark.slow
@pytest.mark.parametrize("number", [*range(1, 31)])
def test_the_operator_may_die_after_any_write(fleet: World, tmp_path: Path, number: int) -> None:
    watcher, crash = Watcher(fleet), CrashPoint(number, str(tmp_path), die)

    add(fleet)
    run(fleet, crash=crash)
    run(fleet)

    whole(fleet)
    assert watcher.wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("first", [1, 2, 3])
def test_one_operator_after_the_other_may_die(fleet: World, first: int) -> None:
    watcher = Watcher(fleet)

    add(fleet)
    run(fleet, crash=DeathAtEveryThird(first))

    whole(fleet)
    assert watcher.wrong == []


def test_a_claim_that_gets_no_disk_halts_at_the_first_bookie_and_the_edit_can_be_taken_back(fleet: World) -> None:
    before = {pod: fleet.objects[("Pod", pod)]["metadata"]["uid"] for pod in PODS}
    fleet.no_capacity = {"ledgers-2"}
    add(fleet)
    run(fleet)
    assert said(fleet, "Reconciling")[1] == "RolloutHalted"
    assert "0/4 nodes fit" in said(fleet, "Stalled")[2]
    assert fleet.status().added_volumes == (), "nobody has data there: there is a way back"

    take_back(fleet)
    run(fleet)

    assert fleet.is_quiet()
    assert all(not mounts(fleet, pod) & set(MORE) for pod in PODS)
    assert {pod: fleet.objects[("Pod", pod)]["metadata"]["uid"] for pod in PODS[1:]} == {
        pod: before[pod] for pod in PODS[1:]
    }


def test_a_claim_that_gets_its_disk_later_lets_all_go_on(fleet: World) -> None:
    fleet.no_capacity = {"index-2"}
    add(fleet)
    run(fleet)

    fleet.no_capacity = set()
    operator = fleet.operator()
    run(fleet, operator, until=lambda: len(having(fleet)) == len(PODS))
    run(fleet, operator)

    whole(fleet)


def test_what_a_bookie_has_is_not_taken_back_whatever_the_spec_says(fleet: World) -> None:
    """The API server refuses the edit; one with an older CRD takes it."""
    operator = fleet.operator()
    add(fleet)
    run(fleet, operator, until=lambda: FIRST in having(fleet) and "index-2-" + FIRST in marked(fleet))
    assert fleet.status().added_volumes == MORE

    take_back(fleet)
    for _ in range(20):
        step(fleet, operator)
    assert said(fleet, "Stalled")[1] == "SpecInvalid"
    assert f"{FIRST} may have data on it" in said(fleet, "Stalled")[2]
    fleet.kill(FIRST)
    for _ in range(20):
        step(fleet, operator)
    assert (fleet.refused, mounts(fleet, FIRST) >= set(MORE)) == ([], True)

    add(fleet)
    run(fleet, operator)
    whole(fleet)


@pytest.mark.parametrize("dying", PODS)
@pytest.mark.parametrize("grown", [0, 1, 2, 3])
def test_a_pod_that_dies_out_of_turn_comes_back_whoever_has_the_volumes(fleet: World, grown: int, dying: str) -> None:
    """The controller makes no pod behind one that lacks a claim template's volume, so the template follows."""
    operator = fleet.operator()
    add(fleet)
    run(fleet, operator, until=lambda: len(having(fleet)) == grown and (grown == 0 or turn(fleet) is None))
    had = dying in having(fleet)

    fleet.kill(dying)
    run(fleet, operator, until=lambda: all(("Pod", pod) in fleet.objects for pod in PODS) and fleet.is_quiet())
    assert dying in having(fleet) if had else True
    run(fleet, operator)

    whole(fleet)


def test_new_bookies_come_while_volumes_are_added(fleet: World) -> None:
    operator = fleet.operator()
    add(fleet)
    run(fleet, operator, until=lambda: having(fleet) == [FIRST])

    fleet.edit(replicas=6)
    run(fleet, operator)

    assert len(fleet.of_kind("Pod")) == 6
    assert len(having(fleet)) == 6


@pytest.mark.slow
def test_a_bookie_leaves_while_volumes_are_added(fleet: World) -> None:
    fleet.edit(replicas=5)
    run(fleet)
    operator = fleet.operator()
    add(fleet)
    run(fleet, operator, until=lambda: having(fleet) == [FIRST])

    fleet.edit(replicas=4)
    run(fleet, operator, passes=3 * PASSES)

    assert len(fleet.of_kind("Pod")) == 4
    assert len(having(fleet)) == 4


@pytest.mark.slow
def test_a_bookie_that_was_made_without_a_volume_that_it_has_gets_another_pod(fleet: World) -> None:
    """While a bookie of the pool leaves, its pods are made without; one that has the volume is held then."""
    fleet.edit(replicas=7)
    run(fleet)
    operator = fleet.operator()
    add(fleet)
    run(fleet, operator, until=lambda: having(fleet) == [FIRST])
    fleet.unreadable = 1  # so that nobody leaves by proof
    fleet.edit(replicas=6)
    run(fleet, operator, until=lambda: templates(fleet, "ledgers-zone-a") == ["journal", "ledgers", "index"])

    fleet.kill(FIRST)
    fleet.settle()
    held = list(fleet.refused)
    fleet.refused.clear()
    for _ in range(60):
        step(fleet, operator)

    assert len(held) == 1
    assert (fleet.refused, FIRST in having(fleet)) == ([], True)
    assert fleet.accepted == []
    fleet.unreadable = 0
    run(fleet, operator, passes=4 * PASSES)
    assert len(having(fleet)) == len(fleet.of_kind("Pod")) == 6


def test_a_bookie_that_cannot_be_asked_is_not_taken_for_empty_because_of_a_volume_that_it_is_to_get(
    fleet: World,
) -> None:
    operator = fleet.operator()
    add(fleet)
    step(fleet, operator)
    fleet.bookie(SECOND).is_reachable = False

    for _ in range(90):
        step(fleet, operator)

    assert fleet.status().budget is not None
    assert fleet.status().budget.dataless == 0
    assert having(fleet) == []


@pytest.mark.slow
def test_a_bookie_that_lost_its_disks_before_its_turn_heals_and_gets_the_volumes(fleet: World) -> None:
    operator = fleet.operator()
    add(fleet)
    step(fleet, operator)

    fleet.lose(SECOND)
    for _ in range(PASSES):
        step(fleet, operator)

    assert len(fleet.accepted) == 1
    assert fleet.refused == []
    assert having(fleet) == PODS
    assert {one.state for one in fleet.bookies.values()} == {State.SERVING}
