"""What ends a rest, and what keeps one from beginning (spec/operator.md#K35); what it costs to remember one."""

import dataclasses
from dataclasses import replace

import pytest

import operator_support as make
from bookie_operator import rests
from bookie_operator.plan import fleet
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.rests import FULL_LOOK_MS, GlancedNodes, Rest, Rests
from bookie_operator.status import render
from operator_support import Manifest
from story_support import in_a_loop

KEY = ("data", "ledgers")


def at_rest(**rollout: object) -> FleetPlan:
    """A plan that wants nothing, by a status that says all of it already; `rollout`: what is otherwise in it."""
    plan = fleet.decide(make.observation())
    rolled = replace(plan.rollout, status=plan.rollout.status.model_copy(update=rollout))
    plan = replace(plan, requeue_ms=fleet.QUIET_MS, rollout=rolled)
    cluster = plan.observation.cluster
    for _ in range(3):
        cluster = replace(cluster, status=render.render(plan))
        plan = replace(plan, observation=replace(plan.observation, cluster=cluster))
    return plan


class Clock:
    def __init__(self) -> None:
        self.ms = 0

    def __call__(self) -> int:
        return self.ms


def test_a_rest_ends_by_itself_and_by_an_event_and_by_another_version() -> None:
    plan, clock = at_rest(), Clock()
    assert rests.may_begin(plan)
    version = plan.observation.cluster.resource_version

    def rested() -> Rests:
        known = Rests(clock)
        known.keep(KEY, plan, known.begin_look(KEY))
        assert known.of(KEY) is not None
        return known

    known = rested()
    known.stir(KEY)
    assert known.of(KEY) is None

    known = rested()
    known.heed(KEY, version)
    assert known.of(KEY) is not None, "its own version is no news"
    known.heed(KEY, f"{version}0")
    assert known.of(KEY) is None

    known = rested()
    clock.ms += FULL_LOOK_MS
    assert known.of(KEY) is None


def test_a_rest_ends_to_the_millisecond_and_fleets_that_begin_one_together_do_not_end_it_together() -> None:
    clock, plan = Clock(), at_rest()
    known = Rests(clock)
    ends = set[int]()
    for number in range(8):
        key = ("data", f"ledgers-{number}")
        known.keep(key, plan, known.begin_look(key))
        rest = known.of(key)
        assert rest is not None
        ends.add(rest.until_ms)

    assert len(ends) > 6
    assert min(ends) > FULL_LOOK_MS - 60_000
    assert max(ends) <= FULL_LOOK_MS
    assert known.looks == 8
    clock.ms = rest.until_ms - 1
    assert known.of(key) is not None
    clock.ms += 1
    assert known.of(key) is None


def test_only_a_plan_that_may_rest_is_kept_and_a_look_that_broke_off_leaves_none() -> None:
    clock, plan = Clock(), at_rest()
    known = Rests(clock)

    known.keep(KEY, replace(plan, requeue_ms=fleet.QUIET_MS - 1), known.begin_look(KEY))
    assert known.of(KEY) is None

    known.keep(KEY, plan, known.begin_look(KEY))
    assert known.of(KEY) is not None
    known.begin_look(KEY)
    assert known.of(KEY) is None, "what the look before saw says nothing of this one"


def test_a_version_that_is_news_is_said_and_events_count_for_their_own_fleet_alone() -> None:
    known, plan = Rests(Clock()), at_rest()
    assert not known.heed(KEY, "7"), "it had no rest"
    stirs = known.begin_look(KEY)
    known.stir(("data", "another"))
    known.keep(KEY, plan, stirs)
    assert known.of(KEY) is not None

    assert not known.heed(KEY, plan.observation.cluster.resource_version)
    assert known.heed(KEY, "another version")
    assert not known.heed(KEY, "another version"), "its rest is over"


def test_of_a_fleet_that_is_gone_nothing_is_kept() -> None:
    known, plan = Rests(Clock()), at_rest()
    known.stir(KEY)
    known.keep(KEY, plan, known.begin_look(KEY))
    assert known.of(KEY) is not None

    known.forget(KEY)

    assert known.of(KEY) is None
    assert known.begin_look(KEY) == Rests(Clock()).begin_look(KEY)


def test_a_rest_holds_its_plan_packed_and_gives_it_back_as_it_was() -> None:
    """50 fleets of 12 bookies in less than 200 MB: a plan as objects is some 75 KB for each bookie."""
    plan = at_rest()

    rest = Rest.of(plan, 1)

    assert {type(getattr(rest, field.name)) for field in dataclasses.fields(rest)} == {bytes, str, int}
    assert len(rest.packed) < 4_096 * len(plan.observation.bookies)
    assert rest.plan() == plan
    assert rests.difference(plan, rest.plan()) == ""
    assert rests.difference(rest.plan(), replace(plan, max_unavailable=7)) == "max_unavailable"


def test_an_event_in_the_middle_of_a_look_is_news_to_that_look() -> None:
    known = Rests(Clock())

    stirs = known.begin_look(KEY)
    known.stir(KEY)
    known.keep(KEY, at_rest(), stirs)

    assert known.of(KEY) is None


def test_who_waits_for_something_that_a_glance_does_not_read_never_rests() -> None:
    plan = at_rest()
    seen = plan.observation

    def may(**changes: object) -> bool:
        return rests.may_begin(replace(plan, observation=replace(seen, **changes)))  # type: ignore[arg-type]

    assert not rests.may_begin(replace(plan, requeue_ms=fleet.QUIET_MS - 1)), "something moves"
    asks = at_rest(asks_for_turn=True)
    assert render.render(asks) == asks.observation.cluster.status
    assert not rests.may_begin(asks), "the turn is given by what other clusters do"
    new = seen.cluster.status.model_copy(update={"rollout": None})
    assert not may(cluster=replace(seen.cluster, status=new)), "nothing is stored of it yet"
    assert not may(record_problem="it cannot be read")
    assert not may(operations_problem="403")
    assert not may(others_problem="403")
    assert not may(leadership=replace(seen.leadership, is_held=False))
    assert not may(cluster=replace(seen.cluster, is_recalled=True))
    other = seen.cluster.status.model_copy(update={"summary": "another"})
    assert not may(cluster=replace(seen.cluster, status=other)), "the status is yet to be written"


def test_a_plan_that_wants_anything_else_is_told_by_what() -> None:
    plan = at_rest()
    seen = plan.observation

    assert rests.difference(plan, plan) == ""
    assert rests.difference(plan, replace(plan, max_unavailable=plan.max_unavailable + 1)) == "max_unavailable"
    assert rests.difference(plan, replace(plan, requeue_ms=1)) == "requeue_ms"
    later = replace(seen, leadership=replace(seen.leadership, epoch=seen.leadership.epoch + 1))
    assert rests.difference(plan, replace(plan, observation=later)) == "leadership"
    broken = replace(plan, fleet=plan.fleet[1:])
    assert rests.difference(plan, broken) == "status"


class Nodes:
    """The API server of Nodes: who was asked for, in order; each answer says which one it is."""

    def __init__(self) -> None:
        self.asked = list[str]()

    async def get(self, kind: str, namespace: str, name: str) -> Manifest | None:
        self.asked.append(name)
        return {"metadata": {"name": name}, "answer": len(self.asked)}

    async def list(self, kind: str, namespace: str, selector: str = "", *, fields: str = "") -> list[Manifest]:
        raise AssertionError


@in_a_loop
async def test_a_node_is_read_once_for_all_fleets_and_again_when_it_is_old() -> None:
    clock, api = Clock(), Nodes()
    clock.ms = 86_400_000
    nodes = GlancedNodes(api, clock)

    for name in ("a", "b", "a", "a"):
        await nodes.get("Node", "", name)
    assert api.asked == ["a", "b"]
    clock.ms += rests.NODE_AGE_MS
    await nodes.get("Node", "", "c")
    assert await nodes.get("Node", "", "a") == {"metadata": {"name": "a"}, "answer": 1}
    clock.ms += 1
    assert await nodes.get("Node", "", "a") == {"metadata": {"name": "a"}, "answer": 4}

    assert api.asked == ["a", "b", "c", "a"]


@in_a_loop
async def test_a_glance_asks_for_nodes_alone() -> None:
    api = Nodes()
    nodes = GlancedNodes(api, Clock())

    with pytest.raises(AssertionError, match="nothing else"):
        await nodes.get("Pod", "data", "ledgers-zone-a-0")
    with pytest.raises(AssertionError, match="lists nothing"):
        await nodes.list("Node", "")

    assert api.asked == []
