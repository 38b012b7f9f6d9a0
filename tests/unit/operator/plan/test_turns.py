"""Who may take a bookie away of its own will: plan/turns.py's table, by the whole planner (spec/operator.md#Y1)."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import operator_support as make
from bookie.ports.admin import DrainStatus, Member, State
from bookie_operator.evidence.facts import BookieCase, NodeFacts
from bookie_operator.model import assignment
from bookie_operator.model.status import (
    BookieClusterStatus,
    BookieStatus,
    Departure,
    EvictionStatus,
    EvictionTurn,
    LeavingStatus,
    ReferenceLook,
    RolloutStatus,
    RolloutStep,
)
from bookie_operator.model.values import format_time
from bookie_operator.plan import fleet, turns
from bookie_operator.plan.actions import FlushBookie, ResumeBookie, RetireBookie, StopBookie
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.turns import Work
from bookie_operator.status import render

LEAVER, EVICTED, OLDER, OTHER = "ledgers-zone-b-1", "ledgers-zone-a-0", "ledgers-zone-c-0", "ledgers-zone-a-1"
LONG_AGO_MS = make.NOW_MS - 3_600_000
LONG_AGO = format_time(LONG_AGO_MS)
HELD = {"zone-a": 2, "zone-b": 2, "zone-c": 1}
SPEC: dict[str, Any] = {
    "rollout": {"strategy": "Automatic", "soakSeconds": 0},
    "disruption": {"onDrain": "ReadOnlyFirst"},
    "scaleDown": {"proofInterval": "5s"},
}
READ_ONLY = (State.READ_ONLY, True)


def _case(name: str, *, wants: frozenset[str], refusing: frozenset[str]) -> BookieCase:
    pool, _, ordinal = name.removeprefix("ledgers-").rpartition("-")
    case = make.sibling(pool, int(ordinal))
    assert case.pod is not None
    assert case.report is not None
    drained = "cordoned" if "eviction" in wants and name == EVICTED else ""
    node = NodeFacts(f"node-{name}", f"uid-{name}", drained=drained)
    known = "v1-older" if "rollout" in wants and name == OLDER else ""
    revision = "rev-0" if known else "rev-1"
    pod = replace(
        case.pod, uid=f"pod-{name}", node=node.name, ready_since_ms=LONG_AGO_MS, inputs=known, revision=revision
    )
    is_drained = name == LEAVER and "departure" in wants
    state, read_only = READ_ONLY if is_drained or name in refusing else (State.SERVING, False)
    report = replace(case.report, pod_uid=pod.uid, state=state, read_only=read_only, has_turn=name in refusing)
    drain = DrainStatus(is_draining=is_drained, is_empty=is_drained)
    member = Member(case.bookie_id, has_cookie=True, is_registered=True, is_writable=not read_only)
    return replace(
        case,
        pod=pod,
        report=report,
        nodes={node.name: node},
        member=member,
        is_listed=True,
        drain=drain if name == LEAVER else None,
        is_leaving=is_drained,
    )


def departure(state: Departure = Departure.DRAINED) -> LeavingStatus:
    looks = tuple(ReferenceLook(by=by, at=LONG_AGO, references=0, instance_id="instance") for by in (EVICTED, OLDER))
    return LeavingStatus(state=state, since=LONG_AGO, looks=looks, cookie_version=0)


def situation(
    *,
    wants: frozenset[str] = frozenset(("departure", "eviction", "rollout")),
    evicted: str = "",
    stepped: str = "",
    leaving: LeavingStatus | None = None,
    refusing: frozenset[str] = frozenset(),
    facts: dict[str, dict[str, Any]] | None = None,
) -> Observation:
    """Five bookies in full service, each workflow that is in `wants` with one that it would take away: every gate but
    those of turns is open. `evicted`, `stepped`, `leaving`: the turns that are stored. `facts`: of reports."""
    names = ("ledgers-zone-a-0", "ledgers-zone-a-1", "ledgers-zone-b-0", LEAVER, OLDER)
    cases = tuple(_case(name, wants=wants, refusing=refusing) for name in names)
    cases = tuple(
        replace(one, report=replace(one.report, **facts[one.name])) if facts and one.name in facts else one  # type: ignore[type-var]
        for one in cases
    )
    spec = SPEC | {"replicas": 4 if "departure" in wants else 5}
    stored = BookieStatus(
        name=LEAVER,
        bookie_id="data.ledgers.zone-b.1",
        pool="zone-b",
        state="Serving",
        verdict="Healthy",
        reason="",
        since=LONG_AGO,
        incarnation=1,
        has_lived=True,
        leaving=leaving,
    )
    turn = EvictionTurn(bookie=evicted, pod_uid=f"pod-{evicted}", node=f"node-{evicted}", begun_at=LONG_AGO)
    step = RolloutStep(bookie=stepped, pod_uid=f"pod-{stepped}", begun_at=format_time(make.NOW_MS - 1_000))
    status = BookieClusterStatus(
        observed_generation=1,
        instance_id="instance",
        bookies=(stored,),
        eviction=EvictionStatus(turn=turn) if evicted else None,
        rollout=RolloutStatus(inputs="new", desired=5, updated=4, step=step) if stepped else None,
    )
    children = make.rolled_out(**(SPEC | {"replicas": 5}))
    children[("StatefulSet", "ledgers-zone-b")]["spec"]["replicas"] = 2
    seen = make.observation(
        cases,
        status=status,
        spec_changes=spec,
        children=children,
        flushed=frozenset(f"pod-{name}" for name in refusing),
    )
    return replace(seen, pools=assignment.assign(seen.cluster.spec, HELD))


def stopped(plan: FleetPlan) -> dict[Work, str]:
    """Whom each workflow takes away in this pass: the test's own reading of the plan."""
    found = {}
    if isinstance(plan.eviction.action, FlushBookie) or plan.eviction.evictable:
        found[Work.EVICTION] = plan.eviction.evictable or str(plan.eviction.action and plan.eviction.action.bookie)
    if isinstance(plan.rollout.action, StopBookie):
        found[Work.ROLLOUT] = plan.rollout.action.bookie
    for step in plan.leaving.steps:
        if isinstance(step, RetireBookie):
            found[Work.DEPARTURE] = step.bookie
    return found


def has_turn(status: BookieClusterStatus) -> set[tuple[Work, str]]:
    found = {
        (Work.DEPARTURE, one.name)
        for one in status.bookies
        if one.leaving is not None and one.leaving.state.is_near_its_end
    }
    if status.eviction is not None and status.eviction.turn is not None:
        found.add((Work.EVICTION, status.eviction.turn.bookie))
    if status.rollout is not None and status.rollout.step is not None:
        found.add((Work.ROLLOUT, status.rollout.step.bookie))
    return found


ALONE = [
    ("departure", {"leaving": departure()}, Work.DEPARTURE, LEAVER),
    ("eviction", {}, Work.EVICTION, EVICTED),
    ("rollout", {}, Work.ROLLOUT, OLDER),
]


@pytest.mark.parametrize(("want", "stored", "work", "bookie"), ALONE, ids=[one[0] for one in ALONE])
def test_alone_each_workflow_takes_its_bookie_away(want: str, stored: Any, work: Work, bookie: str) -> None:
    """The situation is one in which nothing but turns can be in the way: else the table below would prove nothing."""
    plan = fleet.decide(situation(wants=frozenset((want,)), **stored))

    assert stopped(plan) == {work: bookie}


def test_every_workflow_has_its_row() -> None:
    assert {one[2] for one in ALONE} == set(Work), "a workflow that is new gets its row here, and in turns.py"


TURNS: dict[Work, dict[str, Any]] = {
    Work.DEPARTURE: {"leaving": departure()},
    Work.EVICTION: {"evicted": EVICTED},
    Work.ROLLOUT: {"stepped": OLDER},
}


@pytest.mark.parametrize(("asks", "holds"), list(product(Work, Work)))
def test_who_has_the_turn_goes_on_and_everybody_else_begins_nothing(asks: Work, holds: Work) -> None:
    """Of all who want one, the holder alone takes its bookie away; who has yet to begin waits, and says for whom."""
    plan = fleet.decide(situation(**TURNS[holds]))
    turn = turns.in_the_way(
        plan.observation, plan.fleet, asks, {Work.EVICTION: EVICTED, Work.ROLLOUT: OLDER}.get(asks, LEAVER)
    )

    assert set(stopped(plan)) == {holds}
    assert (turn == "") is (asks is holds)


@pytest.mark.parametrize(
    "pair", [(Work.EVICTION, Work.ROLLOUT), (Work.DEPARTURE, Work.ROLLOUT), (Work.DEPARTURE, Work.EVICTION)]
)
def test_of_two_turns_in_one_status_neither_goes_on_and_a_bookie_that_refuses_writes_takes_them_again(
    pair: tuple[Work, Work],
) -> None:
    """As after a restore of the status. Who can give its turn back does, and the other one goes on."""
    refusing = frozenset(
        {Work.EVICTION: EVICTED, Work.ROLLOUT: OLDER}[one] for one in pair if one is not Work.DEPARTURE
    )
    plan = fleet.decide(situation(**TURNS[pair[0]], **TURNS[pair[1]], refusing=refusing))

    assert stopped(plan) == {}
    given_back = [one for one in (plan.eviction.action, plan.rollout.action) if isinstance(one, ResumeBookie)]
    assert {one.bookie for one in given_back} == refusing


@pytest.mark.parametrize(("first", "last"), [("ledgers-zone-b-0", LEAVER), ("ledgers-zone-b-9", "ledgers-zone-b-10")])
def test_two_departures_near_their_end_do_not_wait_for_each_other(first: str, last: str) -> None:
    """As no planner makes them: the last one of a pool must go first, as its StatefulSet lets no other go."""
    assessed = tuple(replace_name(name) for name in (first, last))
    seen = make.observation(())

    assert turns.in_the_way(seen, assessed, Work.DEPARTURE, last) == ""
    assert last in turns.in_the_way(seen, assessed, Work.DEPARTURE, first)


def test_who_leaves_is_not_stopped_beside_higher_numbers_of_its_pool_or_when_a_ledger_names_it_again() -> None:
    """Its StatefulSet would end the others with it; and what was proven is of before."""
    scaled = situation(wants=frozenset(("departure",)), leaving=departure(Departure.RETIRING))
    named = situation(wants=frozenset(("departure",)), leaving=departure(Departure.RETIRING))
    scaled.children[("StatefulSet", "ledgers-zone-b")]["spec"]["replicas"] = 3
    written = DrainStatus(is_draining=True, is_empty=False, ledgers_left=1)
    named = replace(
        named, bookies=tuple(replace(one, drain=written) if one.name == LEAVER else one for one in named.bookies)
    )

    plans = [fleet.decide(scaled), fleet.decide(named)]

    assert [stopped(plan) for plan in plans] == [{}, {}]
    (again,) = [one.leaving for one in plans[1].fleet if one.case.name == LEAVER]
    assert again is not None
    assert (again.state, again.looks) == (Departure.DRAINING, ())


def test_who_never_held_data_has_no_turn_while_it_goes() -> None:
    """Nobody misses it: whatever keeps its pod for long keeps nobody else."""
    retiring = departure(Departure.RETIRING)
    one = replace_name(LEAVER)

    told = [
        turns.told(make.observation(()), (replace(one, leaving=retiring.model_copy(update={"never_lived": never})),))
        for never in (False, True)
    ]

    assert [len(words) for words in told] == [1, 0]


def replace_name(name: str) -> Any:
    """A bookie of the leaver's pool, as far as that."""
    plan = fleet.decide(situation(leaving=departure()))
    one = next(one for one in plan.fleet if one.case.name == LEAVER)
    return replace(one, case=replace(one.case, name=name), leaving=departure())


def test_of_two_that_want_to_begin_in_one_pass_one_begins() -> None:
    plan = fleet.decide(situation(wants=frozenset(("eviction", "rollout"))))

    assert stopped(plan) == {Work.EVICTION: EVICTED}
    assert has_turn(render.render(plan)) == {(Work.EVICTION, EVICTED)}


def test_two_stops_in_one_pass_are_a_defect_of_ours() -> None:
    turns.at_most_one((EVICTED, EVICTED, "", ""))

    with pytest.raises(AssertionError, match="takes ledgers-zone-a-0 and ledgers-zone-c-0 away"):
        turns.at_most_one((EVICTED, "", OLDER))


FACTS: list[dict[str, Any]] = [
    {},
    {"state": State.REPAIRING},
    {"state": State.READ_ONLY, "read_only": True},
    {"directories_failed": ("/data/ledgers",)},
]
NAMES = (EVICTED, OTHER, "ledgers-zone-b-0", OLDER)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    wants=st.frozensets(st.sampled_from(("departure", "eviction", "rollout"))),
    evicted=st.sampled_from(("", EVICTED, OLDER)),
    stepped=st.sampled_from(("", OLDER, OTHER, EVICTED)),
    state=st.sampled_from((None, *Departure)),
    refusing=st.frozensets(st.sampled_from(NAMES)),
    facts=st.dictionaries(st.sampled_from((*NAMES, LEAVER)), st.sampled_from(FACTS), max_size=2),
)
def test_whatever_is_stored_nobody_is_stopped_beside_a_turn_or_beside_one_that_is_not_whole(
    wants: frozenset[str],
    evicted: str,
    stepped: str,
    state: Departure | None,
    refusing: frozenset[str],
    facts: dict[str, dict[str, Any]],
) -> None:
    leaving = departure(state) if state is not None else None
    seen = situation(wants=wants, evicted=evicted, stepped=stepped, leaving=leaving, refusing=refusing, facts=facts)

    plan = fleet.decide(seen)

    found = stopped(plan)
    after = render.render(plan)
    assert len(found) <= 1
    for work, bookie in found.items():
        assert has_turn(after) == {(work, bookie)}, "its turn is stored first, and is the only one"
        for _, other in has_turn(seen.cluster.status) - {(work, bookie)}:
            assert other not in refusing, "a turn that ends in this pass is of a bookie that was seen to take writes"
        needed = [one for one in plan.fleet if one.case.name not in (bookie, LEAVER)]
        assert all(one.stage.value in ("Serving", "ReadOnly") for one in needed), "a closed gate"
        if work is not Work.DEPARTURE:
            assert not any(facts.get(name) for name in NAMES if name != bookie), "a closed gate"


def test_a_departure_that_is_stored_is_a_turn_before_this_pass_has_decided_about_it() -> None:
    seen = situation(wants=frozenset(("departure",)), leaving=departure())
    every = fleet.assess(seen)

    assert all(one.leaving is None for one in every)
    assert turns.in_the_way(seen, every, Work.DEPARTURE, OTHER) == f"{LEAVER} leaves now, and is Drained"
    assert turns.in_the_way(seen, every, Work.ROLLOUT, OLDER) == f"{LEAVER} leaves now, and is Drained"
