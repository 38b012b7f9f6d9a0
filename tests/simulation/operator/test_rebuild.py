"""Bookies get another class, access mode or smaller size by being rebuilt, one by one (spec/operator.md#X7)."""

import asyncio
import random
from typing import Any

import pytest

import operator_world_support as worlds
from bookie_operator.model import names
from bookie_operator.model.status import Departure
from bookie_operator.reconcile import Reconciler
from operator_world_support import DeathAtEveryThird, World

FLEET = ("ledgers-zone-a-0", "ledgers-zone-a-1", "ledgers-zone-b-0", "ledgers-zone-c-0")
FIRST = FLEET[0]  # in the middle of its pool: Kubernetes alone could not take it away
FIRST_ID = "data.ledgers.zone-a.0"
PASSES = 220


def run(world: World, operator: Reconciler, *, passes: int) -> None:
    asyncio.run(world.run(operator, passes=passes))


def storage(world: World, **changes: Any) -> "dict[str, Any]":
    """The storage of the spec with other ledger volumes, by rebuilding."""
    (ledgers,) = world.spec()["storage"]["ledgers"]["volumes"]
    return world.spec()["storage"] | {
        "layoutChange": "RollingRebuild",
        "ledgers": {"volumes": [ledgers | changes]},
    }


def classes(world: World) -> "dict[str, str]":
    found = {}
    for claim in world.of_kind("PersistentVolumeClaim"):
        volume, _, pod = claim["metadata"]["name"].partition("-")
        if volume == "ledgers":
            found[pod] = claim["spec"]["storageClassName"]
    return found


def check(world: World) -> None:
    assert (world.wrong, world.lost_entries(), world.thin_entries(), world.past_tolerance) == ([], [], [], [])
    assert world.uncounted() == []


def until(world: World, operator: Reconciler, state: Departure, *, name: str = FIRST) -> None:
    for _ in range(PASSES):
        entry = world.status().bookie(name)
        if entry is not None and entry.leaving is not None and entry.leaving.state is state:
            return
        run(world, operator, passes=1)
    raise AssertionError(f"{name} never was {state.value}: {world.status()}")


@pytest.fixture
def busy(world: World) -> World:
    world.edit(scaleDown={"proofInterval": "5s"})
    world.write(60, random.Random(1))
    run(world, world.operator(), passes=3)
    return world


def with_watch(world: World, operator: Reconciler, *, passes: int) -> "list[int]":
    """Pass after pass, while writers go on; how many bookies took no writes after each."""
    rng, away = random.Random(3), []
    for _ in range(passes):
        run(world, operator, passes=1)
        world.write(2, rng)
        away.append(4 - sum(one.is_writable for one in world.own_members()))
        if world.status().rebuild is None and len(away) > 5 and world.is_quiet():
            break
    return away


@pytest.mark.slow
@pytest.mark.parametrize("change", [{"storageClassName": "fast"}, {"size": "1000Mi"}])
def test_every_bookie_gets_the_claims_of_the_spec_one_after_the_other_and_nothing_is_lost(
    busy: World, change: "dict[str, str]"
) -> None:
    busy.edit(storage=storage(busy, **change))

    away = with_watch(busy, busy.operator(), passes=PASSES)

    check(busy)
    status = busy.status()
    assert busy.is_quiet(), status
    assert status.rebuild is None, status.rebuild
    assert busy.forgotten == [names.bookie_id("data", "ledgers", *_place(pod)) for pod in FLEET]
    assert max(away) == 1, "never two at once"
    for claim in busy.of_kind("PersistentVolumeClaim"):
        if claim["metadata"]["name"].startswith("ledgers-"):
            assert _said(claim, next(iter(change))) == next(iter(change.values()))
    assert (status.summary, status.replicas, [one.incarnation for one in status.bookies]) == ("4/4", 4, [2, 2, 2, 2])


STATES = (Departure.DRAINING, Departure.DRAINED, Departure.RETIRING)


@pytest.mark.parametrize("back", ["Refuse", "the class"])
@pytest.mark.parametrize("state", STATES, ids=lambda one: one.value)
def test_taken_back_before_its_cookie_goes_it_stays_with_all_its_data(busy: World, state: Departure, back: str) -> None:
    before = busy.spec()["storage"]
    busy.edit(storage=storage(busy, storageClassName="fast"))
    operator = busy.operator()
    until(busy, operator, state)
    if state is Departure.RETIRING:
        run(busy, operator, passes=2)
        assert ("Pod", FIRST) not in busy.objects
    new = busy.spec()["storage"] | {"layoutChange": "Refuse"}
    busy.edit(storage=new if back == "Refuse" else before | {"layoutChange": "RollingRebuild"})

    run(busy, operator, passes=20)

    check(busy)
    assert busy.forgotten == []
    assert (busy.status().rebuild, busy.is_quiet()) == (None, True), busy.status()
    assert set(classes(busy).values()) == {"standard"}
    assert busy.bookie(FIRST).is_draining is False
    assert len(busy.of_kind("StatefulSet")) == 3


@pytest.mark.slow
def test_a_pod_of_the_pool_that_goes_meanwhile_brings_the_stateful_set_and_the_bookie_back(busy: World) -> None:
    busy.edit(storage=storage(busy, storageClassName="fast"))
    operator = busy.operator()
    until(busy, operator, Departure.RETIRING)
    run(busy, operator, passes=2)
    assert ("StatefulSet", "ledgers-zone-a") not in busy.objects

    busy.kill("ledgers-zone-a-1")
    run(busy, operator, passes=4)

    assert {"ledgers-zone-a-0", "ledgers-zone-a-1"} <= {one["metadata"]["name"] for one in busy.of_kind("Pod")}
    assert busy.forgotten == []
    with_watch(busy, operator, passes=PASSES)
    assert (len(busy.forgotten), set(classes(busy).values())) == (4, {"fast"})
    check(busy)


def test_while_its_cookie_goes_no_pod_of_it_begins_on_its_old_claims(busy: World) -> None:
    busy.edit(storage=storage(busy, storageClassName="fast"))
    operator = busy.operator()
    until(busy, operator, Departure.RETIRING)

    for _ in range(PASSES):
        run(busy, operator, passes=1)
        is_old = classes(busy).get(FIRST) == "standard"
        entry = busy.status().bookie(FIRST)
        state = entry.leaving.state if entry is not None and entry.leaving is not None else None
        if is_old and (state is Departure.FORGETTING or FIRST_ID not in busy.cookies):
            assert ("Pod", FIRST) not in busy.objects
            assert ("StatefulSet", "ledgers-zone-a") not in busy.objects
        if state is None:
            break

    run(busy, operator, passes=3)
    assert (classes(busy)[FIRST], busy.cookies[FIRST_ID]) == ("fast", [0, 2])


def test_while_its_stateful_set_is_away_its_mates_make_no_room_in_the_budget(busy: World) -> None:
    """spec/operator.md#J9: the pods that the set left are healthy, and no controller says that they are expected."""
    busy.edit(storage=storage(busy, storageClassName="fast"))
    operator = busy.operator()
    until(busy, operator, Departure.RETIRING)

    evicted, is_away = list[str](), 0
    for _ in range(PASSES):
        entry = busy.status().bookie(FIRST)
        if entry is None or entry.leaving is None:
            break
        is_away += ("StatefulSet", "ledgers-zone-a") not in busy.objects
        evicted += [pod for pod in FLEET[1:] if worlds.clone(busy).evict(pod)]
        run(busy, operator, passes=1)

    assert (is_away > 2, evicted) == (True, [])
    run(busy, operator, passes=3)
    assert busy.objects[("PodDisruptionBudget", "ledgers-bookies")]["spec"].keys() >= {"maxUnavailable"}


def test_its_claims_go_only_when_its_process_is_proven_to_have_ended(busy: World) -> None:
    busy.cut_off.add(FIRST)  # its node: the pod goes, and no kubelet says that it ended
    busy.edit(storage=storage(busy, storageClassName="fast"))
    operator = busy.operator()
    until(busy, operator, Departure.RETIRING)

    run(busy, operator, passes=100)

    entry = busy.status().bookie(FIRST)
    assert entry is not None
    assert entry.leaving is not None
    assert "went away without its kubelet's word" in (entry.leaving.waiting_for or "")
    assert (busy.forgotten, classes(busy)[FIRST]) == ([], "standard")


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1, 4))
def test_after_a_death_at_any_write_the_fleet_is_rebuilt_all_the_same(busy: World, first: int) -> None:
    """Every third write is the last of its operator."""
    crash = DeathAtEveryThird(first)
    busy.step_ms = 10_000  # with the watch of an operator the word of a kubelet dies: then a node must prove it
    busy.edit(storage=storage(busy, storageClassName="fast"))

    async def story() -> int:
        return await busy.run(busy.operator(crash), passes=PASSES, crash=crash)

    crashes = asyncio.run(story())

    assert crashes > 10
    assert (len(busy.forgotten), set(classes(busy).values())) == (4, {"fast"}), busy.status().rebuild
    check(busy)


def test_a_bookie_that_never_held_data_begins_anew_at_once_and_before_all_others(busy: World) -> None:
    new = "ledgers-zone-b-1"
    busy.is_scheduling = False
    busy.edit(storage=storage(busy, storageClassName="typo"), replicas=5)
    operator = busy.operator()
    run(busy, operator, passes=8)
    assert (classes(busy)[new], busy.forgotten) == ("typo", [])

    busy.edit(storage=storage(busy, storageClassName="fast"))
    run(busy, operator, passes=12)

    assert (classes(busy)[new], busy.forgotten) == ("fast", [])
    assert {classes(busy)[one] for one in FLEET} == {"standard"}, "nobody begins beside a bookie that does not serve"
    check(busy)


def _place(pod: str) -> "tuple[str, str]":
    return pod.removeprefix("ledgers-").rsplit("-", 1)[0], pod[-1]


def _said(claim: "dict[str, Any]", field: str) -> str:
    spec = claim["spec"]
    return str({
        "storageClassName": spec["storageClassName"],
        "accessMode": spec["accessModes"][0],
        "size": spec["resources"]["requests"]["storage"],
    }[field])  # fmt: skip


def test_while_a_stateful_set_is_made_anew_the_budget_lets_one_go_and_no_more(busy: World) -> None:
    """An operator that dies between its deletion and the next apply leaves the pods without a controller for longer."""
    operator, allowed = busy.operator(), list[int]()
    busy.edit(storage=storage(busy, storageClassName="fast"))
    for _ in range(6):
        asyncio.run(operator.reconcile(worlds.KEY))
        seen = worlds.clone(busy)
        allowed.append(sum(seen.evict(pod) for pod in FLEET))
        busy.settle()

    assert max(allowed) <= 1, allowed


@pytest.mark.parametrize(
    ("claims", "more"),
    [({"size": "0"}, {}), ({"size": "512Mi"}, {"config": {"jornalMaxSizeMB": "1"}})],
    ids=["a size that no disk has", "a setting that no bookie has"],
)
def test_while_the_spec_is_invalid_nobody_begins_to_be_rebuilt(
    busy: World, claims: "dict[str, str]", more: "dict[str, Any]"
) -> None:
    before = classes(busy)
    busy.edit(storage=storage(busy, **claims), **more)

    run(busy, busy.operator(), passes=20)

    stalled, rebuilt = busy.status().condition("Stalled"), busy.status().rebuild
    assert stalled is not None
    assert stalled.reason == "SpecInvalid"
    assert rebuilt is not None
    assert (rebuilt.done, rebuilt.waiting_for) == (0, stalled.message)
    assert not [one for one in busy.writes if one.startswith(("drain", "delete", "forget"))]
    assert classes(busy) == before
    check(busy)
