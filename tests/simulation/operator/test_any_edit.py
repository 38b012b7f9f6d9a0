"""Whatever is edited, asked for, cut short or lost, in any order and by whichever operator: each stop is a safe one, no
bookie is uncounted, and the spec set back brings back the fleet that there was.

The other files tell one workflow each; here they meet. Judged by the world alone: nobody here knows the operator's
rules.
"""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import operator_world_support as worlds
from bookie_operator.model import names
from meeting_support import LIVES, Fleet, Judge, begin, has_volumes, shape, with_volumes
from operator_world_support import World

Step = tuple[str, int, int]  # what happens, a number for it, seconds until the next one
EDITS = ("image", "config", "broken", "replicas", "zone out", "zone in", "class", "journal", "sleep", "pause", "budget")
EDITS += (
    "drains",
    "tls",
    "fenced",
    "restart",
    "replace",
    "cordon",
    "lose",
    "kill",
    "forget",
    "silent",
    "applied again",
)
END_PASSES = 600
ENDINGS = (0, 3, 25)  # seconds that a pod takes to end; an operator that dies sees it at every tenth second


def happen(fleet: Fleet, what: str, number: int) -> None:
    world, spec = fleet.world, fleet.world.spec()
    here = sorted(one.name for one in world.bookies.values())
    pod = here[number % len(here)] if here else ""
    match what:
        case "image":
            world.edit(image=f"bookie:{number}")
        case "config":
            world.edit(config={"flushInterval": f"{number + 1}000"})
        case "broken":
            world.edit(image=worlds.BROKEN_IMAGE)
        case "replicas":
            world.edit(replicas=3 + number)
        case "zone out":
            world.edit(zones=[one for one in spec["zones"] if one["name"] != "zone-c"])
        case "zone in" if {"name": "zone-d"} not in spec["zones"]:
            world.edit(zones=[*spec["zones"], {"name": "zone-d"}])
        case "class":
            storage = copy.deepcopy(spec["storage"])
            storage["ledgers"]["volumes"][0]["storageClassName"] = ("standard", "fast")[number % 2]
            world.edit(storage=storage)
        case "volumes":
            world.edit(storage=with_volumes(spec["storage"]))
        case "journal":
            world.edit(storage=spec["storage"] | {"journalWriteData": bool(number % 2)})
        case "sleep":
            world.edit(lifecycle={"hibernate": bool(number % 2)})
        case "pause":
            world.edit(lifecycle={"paused": bool(number % 2)})
        case "budget":
            world.edit(disruption=spec["disruption"] | {"pdb": bool(number % 2)})
        case "drains":
            world.edit(disruption=spec["disruption"] | {"onDrain": ("Restart", "ReadOnlyFirst")[number % 2]})
        case "tls":
            world.edit(security={"tls": {"mode": ("Disabled", "Permissive")[number % 2]}})
        case "fenced" if pod:
            fleet.ask("Fence" if number % 2 else "Unfence", pod)
        case "restart" if pod:
            fleet.ask("Restart", pod)
        case "replace" if pod:
            fleet.ask("Replace", pod)
        case "cordon":
            world.cordon("node", is_cordoned=bool(number % 2))
        case "lose" if pod and world.says_all_is_well() and not world.dataless:
            world.lose(pod)
        case "kill" if pod:
            world.kill(pod)
        case "forget":
            world.objects[(names.KIND, "ledgers")].pop("status", None)
        case "silent":
            for one in world.bookies.values():
                one.is_reachable = not number % 2 or one.name != pod
        case "applied again":
            world.delete_and_apply()
        case _:
            return


@pytest.fixture(scope="module")
def begun(built: World) -> World:
    return begin(worlds.clone(built), on_drain="Restart")


STEPS = st.tuples(st.sampled_from(EDITS), st.integers(0, 3), st.integers(1, 15))


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(story=st.lists(STEPS, min_size=2, max_size=5), life=st.sampled_from(LIVES), ending_s=st.sampled_from(ENDINGS))
def test_whatever_meets_each_stop_is_safe_and_the_reverse_ends_where_it_began(
    begun: World, story: list[Step], life: str, ending_s: int
) -> None:
    world = worlds.clone(begun)
    world.ending_s = ending_s
    ends_where_it_began(world, story, life)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("life", "story"),
    [
        # Fenced off behind its back: it did not answer the operator, and served.
        ("dies", [("silent", 3, 5), ("fenced", 3, 10)]),
        # The way back for a zone that gave up its bookie.
        ("two", [("zone out", 3, 11), ("config", 0, 14), ("lose", 0, 6), ("kill", 0, 15)]),
        ("dies", [("silent", 2, 8), ("pause", 0, 8), ("pause", 0, 10), ("zone out", 2, 11)]),
    ],
)
def test_stories_that_taught_something(begun: World, life: str, story: list[Step]) -> None:
    ends_where_it_began(worlds.clone(begun), story, life)


@pytest.mark.slow
@settings(max_examples=5, deadline=None)
@given(
    story=st.lists(STEPS, min_size=1, max_size=4),
    life=st.sampled_from(LIVES),
    passes=st.integers(1, 40),
    ending_s=st.sampled_from(ENDINGS),
)
def test_whatever_meets_the_adding_of_volumes_every_bookie_has_them_in_the_end(
    begun: World, story: list[Step], life: str, passes: int, ending_s: int
) -> None:
    world = worlds.clone(begun)
    world.ending_s = ending_s
    gets_its_volumes(world, [("volumes", 0, passes), *story], life)


def gets_its_volumes(world: World, story: list[Step], life: str) -> None:
    spec, judge, fleet = copy.deepcopy(world.spec()), Judge(world), Fleet(world, life)
    spec["storage"] = with_volumes(spec["storage"])

    for what, number, passes in story:
        happen(fleet, what, number)
        fleet.run(passes)
        check(world, judge, story)
    set_back(fleet, spec)
    fleet.lives_on()
    for _ in range(END_PASSES // 10):
        fleet.run(10)
        check(world, judge, story)
        if has_volumes(world, spec["replicas"]) and world.is_quiet():
            break

    assert has_volumes(world, spec["replicas"]), (story, life, world.status())
    assert world.is_quiet(), (story, life, world.status())


def ends_where_it_began(world: World, story: list[Step], life: str) -> None:
    began, spec, judge, fleet = shape(world), copy.deepcopy(world.spec()), Judge(world), Fleet(world, life)

    for what, number, passes in story:
        happen(fleet, what, number)
        fleet.run(passes)
        check(world, judge, story)
    set_back(fleet, spec)
    fleet.lives_on()
    settles(fleet, judge, story)
    if world.objects[("StatefulSet", "ledgers-zone-c")]["spec"]["replicas"] == 0:
        # Nobody moves to a zone that was away: docs/OPERATOR.md says that one more, and one less, brings it a bookie.
        for replicas in (spec["replicas"] + 1, spec["replicas"]):
            world.edit(replicas=replicas)
            settles(fleet, judge, story)
    fleet.run(20)  # claims of bookies that left are kept for a while

    now = shape(world)
    assert {key: now[key] for key in now if now[key] != began[key]} == {}, (story, life, world.status())
    assert world.is_quiet(), (story, life, world.status())
    writes = len(world.writes)
    fleet.run(12)
    told = [one for one in world.writes[writes:] if "status" not in one and "record" not in one]
    assert told == [], (story, life, "ping-pong")


def settles(fleet: Fleet, judge: Judge, story: list[Step]) -> None:
    """Let the fleet become what the spec says."""
    said = fleet.world.spec()["replicas"]
    for _ in range(END_PASSES // 10):
        fleet.run(10)
        check(fleet.world, judge, story)
        done = fleet.world.status().condition("Reconciling")
        is_whole = sum(shape(fleet.world)["sets"].values()) == said == len(fleet.world.bookies)
        if done is not None and done.status == "False" and is_whole and fleet.world.is_quiet():
            return


def set_back(fleet: Fleet, spec: dict[str, Any]) -> None:
    """Whoever edited sets all back, and lets everybody in again."""
    world = fleet.world
    for one in world.bookies.values():
        one.is_reachable = True
    world.cordon("node", is_cordoned=False)
    for bookie_id, order in world.asides.items():
        if order.is_aside:
            *_, pool, ordinal = bookie_id.split(".")
            fleet.ask("Unfence", f"ledgers-{pool}-{ordinal}")
    for kind, name in list(world.objects):
        if kind == names.OPERATION_KIND and not name.startswith("unfence"):
            del world.objects[(kind, name)]
    gone = {key: None for key in world.spec() if key not in spec}
    world.edit(**gone, **copy.deepcopy(spec))
    for key in gone:
        del world.spec()[key]


def check(world: World, judge: Judge, story: list[Step]) -> None:
    assert (judge.wrong, world.wrong, world.past_tolerance, world.lost_entries()) == ([], [], [], []), story


# No more is written of a cluster that is paused (docs/OPERATOR.md): what tells, what protects and what gives back;
# and certificates, which are renewed for whoever lives, with the authority that is published for them.
WHILE_PAUSED = (
    *("BookieCluster/", "BookieOperation/", "ConfigMap/ledgers-record", "PodDisruptionBudget/", "resume/"),
    *("Secret/", "ConfigMap/ledgers-ca"),
)
OF_A_PAUSE = STEPS.filter(lambda step: step[0] not in ("pause", "sleep", "applied again"))


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(
    before=st.lists(OF_A_PAUSE, min_size=1, max_size=3),
    meanwhile=st.lists(OF_A_PAUSE, max_size=3),
    life=st.sampled_from(LIVES),
    ending_s=st.sampled_from(ENDINGS),
)
def test_a_pause_lets_nothing_go_on_whatever_is_under_way_and_whatever_comes(
    begun: World, before: list[Step], meanwhile: list[Step], life: str, ending_s: int
) -> None:
    world = worlds.clone(begun)
    world.ending_s = ending_s
    judge, fleet, story = Judge(world), Fleet(world, life), [*before, ("pause", 1, 1), *meanwhile]
    for what, number, passes in before:
        happen(fleet, what, number)
        fleet.run(passes)
    happen(fleet, "pause", 1)
    fleet.run(1)
    written, sets = len(world.writes), {one["metadata"]["name"] for one in world.of_kind("StatefulSet")}

    for what, number, passes in (*meanwhile, ("", 0, 12)):
        happen(fleet, what, number)
        fleet.run(passes)

    told = [one for one in world.writes[written:] if not one.startswith(WHILE_PAUSED)]
    # A StatefulSet that is away while its pods run comes back as they were made.
    assert [one for one in told if one.partition("/")[0] != "StatefulSet" or one.partition("/")[2] in sets] == [], story
    check(world, judge, story)
