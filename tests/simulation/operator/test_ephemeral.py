"""Bookies whose volumes go with their pods (spec/operator.md#X8 to X13)."""

import asyncio
import random

import pytest

import operator_world_support as worlds
from bookie.ports.admin import State
from bookie_operator.model.status import Departure
from bookie_operator.reconcile import Reconciler
from operator_world_support import BROKEN_IMAGE, DeathAtEveryThird, World

FLEET = ("ledgers-zone-a-0", "ledgers-zone-a-1", "ledgers-zone-b-0", "ledgers-zone-c-0")
FIRST = FLEET[0]
FIRST_ID = "data.ledgers.zone-a.0"
PASSES = 250


def run(world: World, operator: Reconciler, *, passes: int) -> None:
    asyncio.run(world.run(operator, passes=passes))


@pytest.fixture(scope="module")
def begun() -> World:
    world = worlds.ephemeral(scaleDown={"proofInterval": "5s"}, rollout={"strategy": "Automatic", "soakSeconds": 2})
    run(world, world.operator(), passes=14)
    assert world.is_quiet(), world.status()
    world.write(60, random.Random(1))
    run(world, world.operator(), passes=3)
    return world


@pytest.fixture
def fleet(begun: World) -> World:
    return worlds.clone(begun)


def uids(world: World) -> "dict[str, str]":
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in world.of_kind("Pod")}


def check(world: World) -> None:
    assert (world.wrong, world.lost_entries(), world.thin_entries(), world.past_tolerance) == ([], [], [], [])


def until_quiet(world: World, operator: Reconciler, *, done: "set[str]", had: "dict[str, str]") -> "list[int]":
    """Pass after pass, while writers go on, until the pods of `done` are others; how many took no writes after each."""
    rng, away = random.Random(3), []
    for _ in range(PASSES):
        run(world, operator, passes=1)
        world.write(2, rng)
        assert world.wrong == []
        away.append(4 - sum(one.is_writable for one in world.own_members()))
        now = uids(world)
        if all(now.get(name, had[name]) != had[name] for name in done) and world.is_quiet():
            check(world)
            return away
    raise AssertionError(f"pods {had}, now {uids(world)}: {world.status()}")


def test_a_fleet_without_a_claim_comes_into_service(fleet: World) -> None:
    assert fleet.of_kind("PersistentVolumeClaim") == []
    (budget,) = fleet.of_kind("PodDisruptionBudget")
    assert budget["spec"]["unhealthyPodEvictionPolicy"] == "IfHealthyBudget"
    assert {volume.claim for one in fleet.status().bookies for volume in one.volumes} == {
        f"emptyDir/{volume} of {name}" for name in FLEET for volume in ("journal", "ledgers", "index")
    }
    visible = next(one for one in fleet.status().conditions if one.type == "LimitedVisibility")
    assert visible.status == "False", "an AcceptLoss is refused while old disks may be there that nobody can look for"
    assert fleet.status().deletion is None, "no second word is asked for that would keep nothing"
    assert "Claim" not in {word for one in fleet.status().bookies for word in one.seen_in}


@pytest.mark.slow
def test_a_new_image_moves_the_data_of_each_bookie_before_its_pod_ends(fleet: World) -> None:
    had = uids(fleet)
    fleet.edit(image="bookie:2")
    away = until_quiet(fleet, fleet.operator(), done={*FLEET}, had=had)
    assert max(away) == 1
    assert len(fleet.forgotten) == 4, "each left by proof, and began anew"
    images = {one["spec"]["containers"][0]["image"] for one in fleet.of_kind("Pod")}
    assert images == {"bookie:2"}
    assert fleet.status().history == (), "nothing was lost, so nothing was granted"


@pytest.mark.slow
@pytest.mark.parametrize("first", [1, 2, 3])
def test_whichever_write_was_the_operators_last_a_roll_out_ends_well(fleet: World, first: int) -> None:
    """Every third write is the last of its operator."""
    had, crash = uids(fleet), DeathAtEveryThird(first)
    fleet.step_ms = 10_000  # with the watch of an operator the word of a kubelet dies: then a node must prove it
    fleet.edit(image="bookie:2")

    async def story() -> int:
        return await fleet.run(fleet.operator(crash), passes=PASSES, crash=crash)

    crashes = asyncio.run(story())

    assert crashes > 10
    assert {name for name in FLEET if uids(fleet).get(name) != had[name]} == {*FLEET}, fleet.status()
    assert len(fleet.forgotten) == 4
    check(fleet)


def test_an_edit_that_is_taken_back_leaves_every_pod(fleet: World) -> None:
    had, operator = uids(fleet), fleet.operator()
    image = fleet.spec().get("image")
    fleet.edit(image="bookie:2")
    for _ in range(PASSES):
        entry = fleet.status().bookie(FIRST)
        if entry is not None and entry.leaving is not None and entry.leaving.state is Departure.DRAINING:
            break
        run(fleet, operator, passes=1)
    else:
        raise AssertionError(fleet.status())
    fleet.edit(image=image)
    run(fleet, operator, passes=60)
    assert uids(fleet) == had
    assert fleet.is_quiet(), fleet.status()
    check(fleet)


@pytest.mark.slow
def test_an_image_that_does_not_start_takes_one_bookie_and_correcting_it_is_enough(fleet: World) -> None:
    had, operator = uids(fleet), fleet.operator()
    fleet.edit(image=BROKEN_IMAGE)
    run(fleet, operator, passes=150)
    assert sum(uids(fleet).get(name) != had[name] for name in FLEET) == 1, fleet.status()
    fleet.edit(image="bookie:2")
    until_quiet(fleet, operator, done={*FLEET}, had=had)


ROLLBACK = {"strategy": "Automatic", "soakSeconds": 2, "onFailure": "Rollback"}


def goes_back(world: World, operator: Reconciler, *, passes: int = PASSES) -> dict[str, str]:
    """Which pods are others when an image that does not start has gone back, each with its image."""
    had, images = uids(world), {one["spec"]["containers"][0]["image"] for one in world.of_kind("Pod")}
    world.edit(rollout=ROLLBACK)
    run(world, operator, passes=8)
    world.edit(image=BROKEN_IMAGE)
    run(world, operator, passes=passes)
    conditions = {one.type: one.reason for one in world.status().conditions}
    assert (conditions["Stalled"], conditions["UpToDate"]) == ("RolledBack", "RolledBack"), world.status()
    assert world.spec()["image"] == BROKEN_IMAGE, "the spec is the user's"
    found = {one["metadata"]["name"]: one["spec"]["containers"][0]["image"] for one in world.of_kind("Pod")}
    assert set(found.values()) == images
    return {name: found[name] for name, uid in uids(world).items() if had[name] != uid}


@pytest.mark.slow
def test_an_image_that_does_not_start_goes_back_by_itself(fleet: World) -> None:
    operator = fleet.operator()
    assert list(goes_back(fleet, operator)) == [FIRST], "nobody but the first was tried"
    check(fleet)
    had = uids(fleet)

    fleet.edit(image="bookie:2")
    until_quiet(fleet, operator, done={*FLEET}, had=had)
    assert fleet.status().rollout.failed is None


@pytest.mark.slow
@pytest.mark.parametrize("first", [1, 2, 3])
def test_whichever_write_was_the_operators_last_it_goes_back(fleet: World, first: int) -> None:
    fleet.step_ms = 10_000
    had, crash = uids(fleet), DeathAtEveryThird(first)
    fleet.edit(rollout=ROLLBACK)
    run(fleet, fleet.operator(), passes=8)
    fleet.edit(image=BROKEN_IMAGE)

    async def story() -> int:
        return await fleet.run(fleet.operator(crash), passes=PASSES, crash=crash)

    assert asyncio.run(story()) > 5
    run(fleet, fleet.operator(), passes=60)
    assert {one.type: one.reason for one in fleet.status().conditions}["UpToDate"] == "RolledBack", fleet.status()
    assert {name for name in FLEET if uids(fleet)[name] != had[name]} == {FIRST}
    check(fleet)


def test_a_bookie_of_a_fleet_that_grows_takes_nothing_back(fleet: World) -> None:
    """It is nobody's turn: a bookie that there never was may lack a node, or a disk."""
    had, operator = uids(fleet), fleet.operator()
    fleet.edit(rollout=ROLLBACK)
    run(fleet, operator, passes=8)
    fleet.edit(image=BROKEN_IMAGE, replicas=5)
    run(fleet, operator, passes=60)

    rolled = fleet.status().rollout
    assert {name: uid for name, uid in uids(fleet).items() if name in had} == had
    assert {one.type: one.reason for one in fleet.status().conditions}["Stalled"] == "RolloutHalted"
    assert rolled is not None
    assert rolled.failed is None


CRASHES = [{"name": "bookie", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}}]


def crashes(world: World, name: str) -> None:
    """From now on the process of this pod ends again and again."""
    bookie = world.bookie(name)
    bookie.state, bookie.is_reachable = State.STARTING, False
    world.objects["Pod", name]["status"]["containerStatuses"] = CRASHES
    world.settle()


@pytest.mark.slow
@pytest.mark.parametrize("on_failure", ["Halt", "Rollback"])
def test_one_that_served_unseen_keeps_its_pod_while_nobody_can_list_cookies(fleet: World, on_failure: str) -> None:
    """It began anew, no operator lived to see it serve, and then it crashes while the metadata store is away."""
    fleet.edit(rollout=ROLLBACK | {"onFailure": on_failure})
    operator, had = fleet.operator(), uids(fleet)
    run(fleet, operator, passes=8)
    fleet.edit(image="bookie:2")
    while uids(fleet).get(FIRST, had[FIRST]) == had[FIRST]:
        asyncio.run(operator.reconcile(worlds.KEY))  # it looks, and then the world goes on
        fleet.settle()
    for _ in range(5):
        fleet.settle()
        fleet.write(20, random.Random(5))
    assert fleet.naming(fleet.bookie(FIRST).bookie_id), "it has data"
    crashes(fleet, FIRST)
    crashed = uids(fleet)[FIRST]
    fleet.members_problem = "UNAVAILABLE: the metadata store"

    operator = fleet.operator()
    run(fleet, operator, passes=5)
    fleet.edit(image="bookie:3")
    run(fleet, operator, passes=100)

    assert fleet.wrong == []
    assert uids(fleet)[FIRST] == crashed


@pytest.mark.slow
def test_the_last_bookie_of_a_roll_out_takes_the_spec_back_too(fleet: World) -> None:
    fleet.edit(rollout=ROLLBACK | {"maxSecondsPerBookie": 60})
    operator, had = fleet.operator(), uids(fleet)
    run(fleet, operator, passes=8)
    fleet.edit(image="bookie:2")
    new: list[str] = []
    while len(new) < len(FLEET):
        known = new
        asyncio.run(operator.reconcile(worlds.KEY))
        fleet.settle()
        new = [name for name, uid in uids(fleet).items() if had[name] != uid]
    (last,) = set(new) - set(known)
    fleet.cookies.pop(fleet.bookie(last).bookie_id, None)  # it never comes so far
    crashes(fleet, last)
    run(fleet, operator, passes=150)

    assert {one.type: one.reason for one in fleet.status().conditions}["UpToDate"] == "RolledBack", fleet.status()


def test_a_pod_that_ends_is_a_lost_bookie_that_heals(fleet: World) -> None:
    had, operator = uids(fleet), fleet.operator()
    fleet.kill(FIRST)
    run(fleet, operator, passes=2)
    entry = fleet.status().bookie(FIRST)
    assert entry is not None
    until_quiet(fleet, operator, done={FIRST}, had=had)
    (grant,) = fleet.status().history
    assert (grant.bookie, grant.result) == (FIRST, "Healed")
    assert not fleet.dataless


def test_a_container_that_restarts_keeps_its_volumes(fleet: World) -> None:
    """The kernel ended it for memory, say: the pod stays, and what is in it (docs/OPERATOR-CASES.md, F27)."""
    had, operator = uids(fleet), fleet.operator()
    fleet.start_container(FIRST)
    run(fleet, operator, passes=20)
    assert uids(fleet) == had
    assert fleet.status().history == ()
    assert fleet.is_quiet(), fleet.status()
    check(fleet)


def test_a_drained_node_is_left_only_after_the_data_has_moved(fleet: World) -> None:
    had, operator = uids(fleet), fleet.operator()
    fleet.add_node("other")
    fleet.places = dict.fromkeys(FLEET, "other")
    fleet.cordon("node")
    until_quiet(fleet, operator, done={*FLEET}, had=had)
    assert {one["spec"]["nodeName"] for one in fleet.of_kind("Pod")} == {"other"}
    assert len(fleet.forgotten) == 4


def test_no_budget_ever_lets_a_pod_with_data_be_evicted(fleet: World) -> None:
    operator = fleet.operator()
    fleet.cordon("node")  # and no other takes pods
    evicted = []
    for _ in range(60):
        run(fleet, operator, passes=1)
        (budget,) = fleet.of_kind("PodDisruptionBudget")
        assert not budget["spec"]["selector"].get("matchExpressions"), "nobody is left out of the budget"
        placed = [one["metadata"]["name"] for one in fleet.of_kind("Pod") if one["spec"].get("nodeName")]
        evicted += [name for name in placed if fleet.evict(name)]
    assert evicted == []
    check(fleet)


def changed(world: World, had: "dict[str, str]") -> "set[str]":
    now = uids(world)
    return {name for name in FLEET if now.get(name, had[name]) != had[name]}


@pytest.mark.slow
@pytest.mark.parametrize("pace", [{"canary": {"count": 1, "soakSeconds": 3600}}, {"soakSeconds": 3600}])
def test_an_edit_goes_from_bookie_to_bookie_as_slowly_as_a_roll_out_would(
    fleet: World, pace: "dict[str, object]"
) -> None:
    had, operator = uids(fleet), fleet.operator()
    fleet.now_ms += 3_600_000
    fleet.edit(image="bookie:2", rollout={"strategy": "Automatic"} | pace)
    run(fleet, operator, passes=120)
    assert changed(fleet, had) == {FIRST}, fleet.status()
    assert fleet.is_quiet()
    told = fleet.status().rebuild
    assert told is not None
    assert "oakSeconds is 3600" in str(told.waiting_for) or "spec.rollout.canary" in str(told.waiting_for)

    fleet.now_ms += 3_600_000
    run(fleet, operator, passes=60)
    assert len(changed(fleet, had)) > 1
    check(fleet)


@pytest.mark.slow
def test_a_drained_node_waits_for_no_window_and_an_edit_does(fleet: World) -> None:
    """spec/operator.md#H1, H2: it is eight in the morning."""
    had, operator = uids(fleet), fleet.operator()
    closed = {"windows": [{"schedule": "0 2 * * *", "duration": "4h"}]}
    fleet.edit(image="bookie:2", rollout={"strategy": "Automatic", "soakSeconds": 2} | closed)
    run(fleet, operator, passes=60)
    assert changed(fleet, had) == set()

    fleet.add_node("other")
    fleet.places = dict.fromkeys(FLEET, "other")
    fleet.cordon("node")
    until_quiet(fleet, operator, done={*FLEET}, had=had)
    assert {one["spec"]["nodeName"] for one in fleet.of_kind("Pod")} == {"other"}


def test_a_drained_node_does_not_wait_for_an_edit_that_waits(fleet: World) -> None:
    last, operator = FLEET[-1], fleet.operator()
    fleet.add_node("other")
    fleet.places = {last: "other"}
    fleet.kill(last)
    run(fleet, operator, passes=40)
    assert fleet.is_quiet(), fleet.status()
    had = uids(fleet)
    closed = {"windows": [{"schedule": "0 2 * * *", "duration": "4h"}]}
    fleet.edit(image="bookie:2", rollout={"strategy": "Automatic", "soakSeconds": 2} | closed)
    run(fleet, operator, passes=5)

    fleet.places = {}
    fleet.cordon("other")
    until_quiet(fleet, operator, done={last}, had=had)

    assert changed(fleet, had) == {last}


@pytest.mark.slow
def test_a_drained_node_does_not_wait_for_a_scale_down_that_waits(fleet: World) -> None:
    """The largest zone has the other node to itself; the window of the scale down is closed."""
    last, operator = FLEET[-1], fleet.operator()
    fleet.add_node("other")
    fleet.places = {last: "other"}
    fleet.kill(last)
    run(fleet, operator, passes=40)
    assert fleet.is_quiet(), fleet.status()
    had = uids(fleet)
    closed = {"windows": [{"schedule": "0 2 * * *", "duration": "4h"}]}
    fleet.edit(replicas=3, rollout={"strategy": "Automatic", "soakSeconds": 2} | closed)
    run(fleet, operator, passes=5)
    leaver = fleet.status().bookie("ledgers-zone-a-1")
    assert leaver is not None
    assert leaver.leaving is not None
    assert leaver.leaving.state is Departure.LEAVING

    fleet.places = {}
    fleet.cordon("other")
    until_quiet(fleet, operator, done={last}, had=had)

    assert changed(fleet, had) == {last}
    fleet.edit(rollout={"strategy": "Automatic", "soakSeconds": 2})
    run(fleet, operator, passes=90)
    assert set(uids(fleet)) == {*FLEET} - {"ledgers-zone-a-1"}, fleet.status()
    check(fleet)


QUICK = ("ledgers-quick-0", "ledgers-quick-1")


@pytest.fixture(scope="module")
def mixed_once() -> World:
    """Zones on claims, and a pool of two whose volumes go with their pods."""
    world = worlds.world(scaleDown={"proofInterval": "5s"})
    operator = world.operator()
    run(world, operator, passes=14)
    for said in ("replicas", "zones"):
        world.spec().pop(said)
    rollout = {"strategy": "Automatic", "soakSeconds": 2}
    world.edit(pools=[*ZONES, PASSING], lifecycle={"deletionPolicy": "Delete"}, rollout=rollout)
    run(world, operator, passes=25)
    world.write(80, random.Random(1))
    run(world, operator, passes=5)
    assert world.is_quiet(), world.status()
    return world


def _volume(name: str) -> "dict[str, object]":
    return {"volumes": [{"name": name, "size": "8Gi", "kind": "Ephemeral"}]}


ZONES = [{"name": f"zone-{zone}", "zone": f"zone-{zone}", "replicas": 2 if zone == "a" else 1} for zone in "abc"]
PASSING = {
    "name": "quick",
    "zone": "zone-b",
    "replicas": 2,
    "storage": {"journal": _volume("quick-journal"), "ledgers": _volume("quick-ledgers")},
}


@pytest.fixture
def mixed(mixed_once: World) -> World:
    return worlds.clone(mixed_once)


@pytest.mark.slow
def test_beside_claims_a_roll_out_stops_those_and_moves_these(mixed: World) -> None:
    had = uids(mixed)
    mixed.edit(image="bookie:2")
    until_quiet(mixed, mixed.operator(), done={*FLEET, *QUICK}, had=had)
    assert mixed.forgotten == ["data.ledgers.quick.0", "data.ledgers.quick.1"], "nobody else left"
    assert mixed.status().history == ()


@pytest.mark.slow
def test_nothing_is_up_to_date_while_the_last_of_them_moves(mixed: World) -> None:
    """`kubectl wait --for=condition=UpToDate` ended while that bookie drained, with its pod as it was."""
    had, operator = uids(mixed), mixed.operator()
    one_bookie = PASSING | {"config": {"flushInterval": "7700"}}
    mixed.edit(pools=[*ZONES, one_bookie])
    told = set[str]()
    for _ in range(PASSES):
        run(mixed, operator, passes=1)
        words = next(one for one in mixed.status().conditions if one.type == "UpToDate")
        left = {name for name in QUICK if uids(mixed).get(name, had[name]) == had[name]}
        if not left and words.status == "True" and mixed.is_quiet():
            break
        assert words.status != "True" or not left, (words, left)
        told |= {words.message} if words.status == "False" else set()
    else:
        raise AssertionError(mixed.status())
    assert any("what they have goes with their pods" in one for one in told), told


@pytest.mark.slow
def test_an_edit_that_the_api_server_refuses_moves_nobody(mixed: World) -> None:
    had, operator = uids(mixed), mixed.operator()
    mixed.invalid = "Service"
    mixed.edit(network={"ipFamilyPolicy": "PreferDualStack"}, image="bookie:2")
    for _ in range(8):
        run(mixed, operator, passes=1)
        left = [one.leaving for one in mixed.status().bookies if one.leaving is not None]
        assert all(one.state is Departure.LEAVING for one in left), left
    assert any("apply Service ledgers-bookies" in str(one.waiting_for) for one in left), left
    mixed.invalid = ""
    until_quiet(mixed, operator, done={*FLEET, *QUICK}, had=had)


@pytest.mark.slow
def test_a_drain_evicts_those_on_claims_alone_and_ends(mixed: World) -> None:
    operator, rng, evicted = mixed.operator(), random.Random(2), list[str]()
    mixed.add_node("other")
    mixed.places = dict.fromkeys((*FLEET, *QUICK), "other")
    mixed.cordon("node")
    for _ in range(PASSES):
        there = [one["metadata"]["name"] for one in mixed.of_kind("Pod") if one["spec"].get("nodeName") == "node"]
        if not there and mixed.is_quiet():
            break
        evicted += [name for name in there if mixed.evict(name)]
        run(mixed, operator, passes=1)
        mixed.write(1, rng)
    else:
        raise AssertionError(mixed.status())
    assert sorted(evicted) == [*FLEET]
    assert mixed.forgotten == ["data.ledgers.quick.0", "data.ledgers.quick.1"]
    check(mixed)


@pytest.mark.slow
def test_their_pool_is_given_up_by_proof(mixed: World) -> None:
    operator = mixed.operator()
    mixed.edit(pools=ZONES)
    for _ in range(PASSES):
        run(mixed, operator, passes=1)
        assert mixed.wrong == []
        if not {*QUICK} & {*uids(mixed)} and len(mixed.of_kind("StatefulSet")) == 3 and mixed.is_quiet():
            break
    else:
        raise AssertionError(mixed.status())
    assert mixed.forgotten == ["data.ledgers.quick.1", "data.ledgers.quick.0"]
    check(mixed)
