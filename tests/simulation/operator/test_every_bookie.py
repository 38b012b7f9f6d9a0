"""A bookie that may hold data is never uncounted: whatever becomes of the spec, of its resource and of its objects."""

import asyncio
import random

import pytest

import operator_world_support as worlds
from operator_world_support import World

ZONES = ("zone-a", "zone-b", "zone-c")


def zones(*names: str) -> list[dict[str, str]]:
    return [{"name": name} for name in names]


def in_service(**spec_changes: object) -> World:
    """Five bookies over three zones, with entries on them."""
    world = worlds.world(replicas=5, **spec_changes)
    asyncio.run(world.run(world.operator(), passes=14))
    assert world.is_quiet(), world.status()
    world.write(300, random.Random(1))
    return world


def lose_when_all_is_well(world: World, *bookies: str) -> list[str]:
    """A careful administrator replaces disks, one after the other, as long as the status says that all is well."""
    taken = []
    operator = world.operator()
    for bookie in bookies:
        asyncio.run(world.run(operator, passes=4))
        if world.says_all_is_well():
            world.lose(bookie)
            taken.append(bookie)
    asyncio.run(world.run(operator, passes=30))
    return taken


def test_a_bookie_hidden_by_reordered_zones_still_counts_when_it_loses_its_disks() -> None:
    world = in_service()
    world.edit(zones=zones(*reversed(ZONES)))

    taken = lose_when_all_is_well(world, "ledgers-zone-a-1", "ledgers-zone-b-0")

    assert taken == ["ledgers-zone-a-1"]
    assert world.lost_entries() == []
    assert world.past_tolerance == []


@pytest.mark.slow
def test_a_resource_applied_again_with_fewer_bookies_has_all_of_them_until_the_others_left_by_proof() -> None:
    world = in_service()

    world.delete_and_apply(replicas=3, scaleDown={"proofInterval": "1h"})
    operator = world.operator()
    asyncio.run(world.run(operator, passes=15))
    counted = world.status().summary
    world.edit(scaleDown={"proofInterval": "2s"})
    asyncio.run(world.run(operator, passes=90))

    assert (counted, world.status().summary) == ("5/3", "3/3")
    assert world.forgotten == ["data.ledgers.zone-b.1", "data.ledgers.zone-a.1"]
    assert (world.lost_entries(), world.thin_entries(), world.wrong) == ([], [], [])


def test_a_bookie_that_lost_its_claims_while_nobody_looked_counts_when_the_resource_is_applied_again() -> None:
    world = in_service()
    world.delete_and_apply(replicas=3)
    world.delete_claims("ledgers-zone-b-1")
    del world.objects[("ConfigMap", "ledgers-record")]
    operator = world.operator()

    asyncio.run(world.run(operator, passes=8))
    orphans = [(one.bookie_id, one.state, one.seen_in) for one in world.status().orphans]
    world.lose("ledgers-zone-a-0")
    asyncio.run(world.run(operator, passes=30))

    assert orphans == [("data.ledgers.zone-b.1", "Missing", ("Cookie",))]
    stalled = world.status().condition("Stalled")
    assert stalled is not None
    assert (stalled.status, stalled.reason) == ("True", "AckQuorumBreached")
    assert world.past_tolerance == []


def test_bookies_of_a_zone_that_is_gone_from_the_spec_are_orphans_and_count() -> None:
    world = in_service()
    world.delete_and_apply(zones=zones("zone-a", "zone-b", "zone-d"))

    asyncio.run(world.run(world.operator(), passes=10))

    status = world.status()
    (orphan,) = status.orphans
    stalled = status.condition("Stalled")
    assert (orphan.name, orphan.state, orphan.seen_in) == ("ledgers-zone-c-0", "Missing", ("Claim", "Cookie"))
    assert status.budget is not None
    assert (status.budget.dataless, status.budget.unavailable) == (0, 1)
    assert stalled is not None
    assert stalled.reason == "OrphanedBookies"
    assert "data.ledgers.zone-c.0" in stalled.message


@pytest.mark.slow
def test_bookies_of_a_stateful_set_that_somebody_scaled_leave_by_proof_and_none_goes_with_the_number() -> None:
    world = in_service(scaleDown={"proofInterval": "2s"})
    operator = world.operator()
    world.scale("ledgers-zone-c", 3)
    world.settle()  # they begin before the operator looks; whoever did not would go at once
    asyncio.run(world.run(operator, passes=2))
    grown = world.status().summary
    world.write(100, random.Random(2))
    world.scale("ledgers-zone-c", 0)
    asyncio.run(world.run(operator, passes=90))

    assert grown == "7/5"
    assert world.status().summary == "5/5"
    assert world.forgotten == ["data.ledgers.zone-c.2", "data.ledgers.zone-c.1"]
    assert (world.lost_entries(), world.thin_entries(), world.wrong) == ([], [], [])
    assert world.is_quiet()


def test_a_cookie_that_no_object_explains_is_an_orphan_and_one_without_registration_is_missed() -> None:
    world = in_service()
    world.cookies["java-1:3181"] = [0, 0]

    asyncio.run(world.run(world.operator(), passes=3))

    status = world.status()
    assert [(one.name, one.reason) for one in status.orphans] == [("java-1:3181", "NotRegistered")]
    assert status.budget is not None
    assert status.budget.unavailable == 1


def test_a_registration_that_no_object_and_no_cookie_explains_is_an_orphan() -> None:
    """Who serves without a cookie may have entries all the same: somebody deleted it."""
    world = in_service()
    world.still_registered |= {"java-1:3181", "data.ledgers.zone-b.7"}

    asyncio.run(world.run(world.operator(), passes=3))

    assert sorted(one.bookie_id for one in world.status().orphans) == ["data.ledgers.zone-b.7", "java-1:3181"]
    assert world.uncounted() == []


def test_an_orphan_that_is_gone_from_everywhere_is_listed_no_more() -> None:
    world = in_service()
    operator = world.operator()
    world.cookies["java-1:3181"] = [0, 0]
    asyncio.run(world.run(operator, passes=3))

    del world.cookies["java-1:3181"]
    asyncio.run(world.run(operator, passes=3))

    assert world.status().orphans == ()


def test_without_the_list_of_members_nobody_is_granted_anything() -> None:
    world = in_service()
    world.members_problem = "the metadata store does not answer"
    world.lose("ledgers-zone-a-0")

    asyncio.run(world.run(world.operator(), passes=20))

    entry = world.status().bookie("ledgers-zone-a-0")
    assert entry is not None
    assert [gate.name for gate in entry.gates] == ["G2-Metadata"]
    assert "does not answer" in entry.gates[0].message
    assert world.accepted == []


# ---- what outlives the resource --------------------------------------------------------------------------------------


def test_the_brake_remembers_regenerations_of_a_resource_that_was_deleted() -> None:
    world = in_service(repair={"stabilization": "6s", "maxPerDay": 1})
    operator = world.operator()
    world.lose("ledgers-zone-a-0")
    asyncio.run(world.run(operator, passes=30, until_quiet=True))
    assert [one.result for one in world.status().history] == ["Healed"]

    world.delete_and_apply()
    asyncio.run(world.run(operator, passes=8))
    world.lose("ledgers-zone-b-0")
    asyncio.run(world.run(operator, passes=20))

    entry = world.status().bookie("ledgers-zone-b-0")
    assert entry is not None
    assert [gate.name for gate in entry.gates] == ["G8-Brake"]
    assert [one.result for one in world.status().history] == ["Healed"]
    assert len(world.accepted) == 1


def test_a_grant_of_a_resource_that_was_deleted_is_the_one_that_is_sent() -> None:
    world = in_service()
    world.refuse_grants = "test"
    world.lose("ledgers-zone-a-0")
    operator = world.operator()
    while not any(one.grant for one in world.status().bookies):
        asyncio.run(world.run(operator, passes=1))
    promised = next(one.grant for one in world.status().bookies if one.grant)

    world.delete_and_apply(is_orphaning=True)
    world.refuse_grants = ""
    asyncio.run(world.run(world.operator(), passes=30))

    assert [grant.id for grant in world.accepted] == [promised.id]
    assert [one.result for one in world.status().history] == ["Healed"]
    assert world.is_quiet()


def test_a_record_that_cannot_be_read_stops_grants_and_is_not_written_over() -> None:
    world = in_service()
    world.objects[("ConfigMap", "ledgers-record")]["data"] = {"record.json": "{"}
    world.lose("ledgers-zone-a-0")

    asyncio.run(world.run(world.operator(), passes=20))

    stalled = world.status().condition("Stalled")
    assert stalled is not None
    assert stalled.reason == "RecordUnreadable"
    assert world.objects[("ConfigMap", "ledgers-record")]["data"] == {"record.json": "{"}
    assert world.accepted == []


def test_a_record_that_may_not_be_written_stops_grants() -> None:
    world = in_service()
    world.invalid = "ConfigMap"
    world.lose("ledgers-zone-a-0")

    asyncio.run(world.run(world.operator(), passes=20))

    stalled = world.status().condition("Stalled")
    assert stalled is not None
    assert stalled.reason == "ApplyRefused"
    assert "ledgers-record" in stalled.message
    assert world.accepted == []


# ---- whatever happens ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built() -> World:
    return in_service(scaleDown={"proofInterval": "2s"})


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 60))])
def test_whatever_is_edited_no_bookie_is_uncounted_and_no_entry_is_lost_to_a_status_that_said_fine(
    built: World, seed: int
) -> None:
    world = worlds.clone(built)
    rng = random.Random(seed)

    asyncio.run(tell(world, rng))

    assert world.past_tolerance == [], world.story
    assert world.lost_entries() == [], world.story
    assert world.wrong == [], world.story


async def tell(world: World, rng: random.Random) -> None:
    """Random edits and losses. Disks are taken only while the status says that all is well, or from the dead."""
    operator = world.operator()
    for _ in range(10):
        await world.run(operator, passes=rng.randrange(1, 9))
        assert not (world.says_all_is_well() and world.dataless), world.story
        happening = rng.choice(
            ("reorder", "zones", "replicas", "recreate", "forget", "scale", "lose", "lose", "lose", "kill", "operator")
        )
        some = sorted({one.name for one in world.bookies.values()})
        world.story.append(happening)
        match happening:
            case "reorder":
                world.edit(zones=rng.sample(world.spec()["zones"], len(world.spec()["zones"])))
            case "zones":
                world.edit(zones=zones(*rng.sample((*ZONES, "zone-d"), 3)))
            case "replicas":
                world.edit(replicas=rng.randrange(3, 8))
            case "recreate":
                world.delete_and_apply(replicas=rng.randrange(3, 8), zones=zones(*rng.sample((*ZONES, "zone-d"), 3)))
            case "forget":
                world.delete_and_apply()
                world.objects.pop(("ConfigMap", "ledgers-record"), None)
            case "scale":
                pool = rng.choice(ZONES)
                if ("StatefulSet", f"ledgers-{pool}") in world.objects:
                    world.scale(f"ledgers-{pool}", rng.randrange(5))
            case "lose" if some and world.says_all_is_well():
                world.story.append(victim := rng.choice(some))
                world.lose(victim)
            case "kill" if some:
                world.kill(rng.choice(some))
            case "operator":
                operator = world.operator()
            case _:
                continue
        assert world.uncounted() == [], world.story
        world.write(20, rng)
    await world.run(operator, passes=30)


@pytest.mark.slow
@pytest.mark.parametrize("comes_at", ["Spec", "Draining", "Retiring", "Forgetting"])
def test_another_fleets_bookie_whose_id_is_the_name_of_our_pod_is_never_taken_for_ours(comes_at: str) -> None:
    """Fleets of other operators have the names of pods as ids; what is stored of a bookie is found by its name."""
    world, name = worlds.world(replicas=5, scaleDown={"proofInterval": "2s"}), "ledgers-zone-b-1"
    operator = world.operator()
    asyncio.run(world.run(operator, passes=14))
    world.write(60, random.Random(1))
    world.edit(replicas=4)
    for _ in range(80):
        entry = world.status().bookie(name)
        state = entry.leaving.state.value if entry is not None and entry.leaving is not None else "Spec"
        if state == comes_at:
            break
        asyncio.run(world.run(operator, passes=1))
    else:
        raise AssertionError(world.status())
    world.cookies[name] = [0, 1]  # it is down, and no ledger names it

    world.step_ms = 10_000
    asyncio.run(world.run(operator, passes=60))

    assert world.forgotten == ["data.ledgers.zone-b.1"]
    assert name in world.cookies
    told = {one.name: one.bookie_id for one in world.status().orphans}
    assert told == {name: "data.ledgers.zone-b.1", f"id:{name}": name}
    assert (world.wrong, world.lost_entries(), world.uncounted()) == ([], [], [])
