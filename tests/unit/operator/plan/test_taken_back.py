"""A turn that is taken back is ended, and turns that come to nothing in a row are followed by a rest
(spec/operator.md#Y2)."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import Member, State
from bookie_operator.evidence.facts import BookieCase, NodeFacts
from bookie_operator.model.status import (
    BookieClusterStatus,
    EvictionStatus,
    EvictionTurn,
    HibernationState,
    HibernationStatus,
    RolloutStatus,
    RolloutStep,
    TakenBack,
)
from bookie_operator.model.values import format_time
from bookie_operator.plan import fleet
from bookie_operator.plan.actions import FlushBookie, ResumeBookie, StopBookie
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.plan.observation import Observation

FIRST, LAST = "ledgers-zone-a-0", "ledgers-zone-c-0"
ROLLING = {"rollout": {"strategy": "Automatic", "soakSeconds": 0}}
DRAINING = {"disruption": {"onDrain": "ReadOnlyFirst"}}
LONG_AGO_MS = make.NOW_MS - 3_600_000
WHY = "ledgers-zone-c-0 cannot write to /data/ledgers"
SECOND, MINUTE = 1_000, 60_000


def serving(case: BookieCase, revision: str = "rev-1", drained: str = "", **report: Any) -> BookieCase:
    assert case.pod is not None
    assert case.report is not None
    has_turn = bool(report.get("has_turn"))
    member = Member(case.bookie_id, has_cookie=True, is_registered=True, is_writable=not has_turn)
    node = NodeFacts(case.pod.node, "node-uid", drained=drained)
    notes = "v1-older" if revision == "rev-0" else case.pod.inputs
    pod = replace(
        case.pod,
        revision=revision,
        inputs=notes,
        ready_since_ms=LONG_AGO_MS,
        created_ms=LONG_AGO_MS,
        resource_version="5",
    )
    return replace(case, pod=pod, member=member, nodes={node.name: node}, report=replace(case.report, **report))


REFUSING = {"state": State.READ_ONLY, "read_only": True, "has_turn": True}


def bookies(*, drained: str = "", last: dict[str, Any] | None = None, **first: Any) -> tuple[BookieCase, ...]:
    """The first is of an older revision, or on a node that is drained; `first`, `last`: facts of their reports."""
    one, *others = make.fleet()
    *others, end = others
    revision = "rev-1" if drained else "rev-0"
    return (
        serving(one, revision, drained, **first),
        *(serving(other) for other in others),
        serving(end, **(last or {})),
    )


def seen(cases: tuple[BookieCase, ...], spec: dict[str, Any] = ROLLING, **status: Any) -> Observation:
    known = BookieClusterStatus(observed_generation=1, instance_id="instance", **status)
    return make.observation(cases, status=known, spec_changes=spec, children=make.rolled_out(**spec))


def step(**changes: Any) -> RolloutStatus:
    known = {"bookie": FIRST, "pod_uid": "pod-1", "begun_at": format_time(make.NOW_MS - 5_000)}
    return RolloutStatus(inputs="new", desired=4, updated=3, step=RolloutStep(**(known | changes)))


def turn(**changes: Any) -> EvictionStatus:
    known = {"bookie": FIRST, "pod_uid": "pod-1", "node": "node-a", "begun_at": format_time(make.NOW_MS - 5_000)}
    return EvictionStatus(turn=EvictionTurn(**(known | changes)))


def back(count: int, ago_ms: int = SECOND) -> TakenBack:
    return TakenBack(count=count, at=format_time(make.NOW_MS - ago_ms), bookie=FIRST, why=WHY)


def rolled(found: FleetPlan) -> RolloutStep:
    assert found.rollout.status.step is not None
    return found.rollout.status.step


FAILED = {"directories_failed": ("/data/ledgers",)}


def test_a_turn_of_the_roll_out_that_a_gate_closes_says_why_and_is_ended_though_the_gate_opens_again() -> None:
    closed = fleet.decide(seen(bookies(last=FAILED, **REFUSING), rollout=step()))
    stored = rolled(closed)
    opened = fleet.decide(seen(bookies(**REFUSING), rollout=closed.rollout.status))
    ended = fleet.decide(seen(bookies(), rollout=opened.rollout.status))

    assert isinstance(closed.rollout.action, ResumeBookie)
    assert WHY in (stored.given_back_for or "")
    assert isinstance(opened.rollout.action, ResumeBookie), "it is not asked to flush once more"
    assert rolled(opened).given_back_for == stored.given_back_for
    assert closed.taken_back is opened.taken_back is None
    assert ended.rollout.status.step is None
    assert ended.taken_back is not None
    assert (ended.taken_back.count, ended.taken_back.bookie) == (1, FIRST)
    assert WHY in ended.taken_back.why


OF_BEFORE: dict[str, Any] = {"state": State.READ_ONLY, "read_only": True, "has_turn": False, "capabilities": ()}


def test_of_a_release_that_knows_no_turns_it_goes_on_where_the_gate_opens_again() -> None:
    """Its disk is full, say: it refuses writes whoever ends its turn, and would be told so for ever."""
    found = fleet.decide(seen(bookies(**OF_BEFORE), rollout=step(given_back_for=WHY)))

    assert isinstance(found.rollout.action, StopBookie)


def test_so_does_its_eviction() -> None:
    given_back = turn(given_back_for=WHY)

    found = fleet.decide(seen(bookies(drained="cordoned", **OF_BEFORE), DRAINING, eviction=given_back))

    assert isinstance(found.eviction.action, FlushBookie)


def test_so_is_the_turn_of_an_eviction() -> None:
    closed = fleet.decide(
        seen(bookies(drained="cordoned", last=FAILED, **REFUSING), DRAINING, eviction=turn(is_open=True))
    )
    assert closed.eviction.status is not None
    opened = fleet.decide(seen(bookies(drained="cordoned", **REFUSING), DRAINING, eviction=closed.eviction.status))
    assert opened.eviction.status is not None
    ended = fleet.decide(seen(bookies(drained="cordoned"), DRAINING, eviction=opened.eviction.status))

    for found in (closed, opened):
        assert isinstance(found.eviction.action, ResumeBookie)
        assert found.eviction.evictable == ""
        assert found.eviction.status is not None
        assert found.eviction.status.turn is not None
        assert WHY in (found.eviction.status.turn.given_back_for or "")
        assert found.eviction.status.turn.is_open is False
    assert ended.eviction.status is not None
    assert ended.eviction.status.turn is None
    assert ended.taken_back is not None
    assert WHY in ended.taken_back.why


@pytest.mark.parametrize(
    ("count", "ago_ms", "rests"),
    [
        (1, 0, False),
        (5, 0, False),
        (6, 29 * SECOND, True),
        (6, 30 * SECOND, False),
        (7, 59 * SECOND, True),
        (7, 60 * SECOND, False),
        (10, 8 * MINUTE - SECOND, True),
        (10, 8 * MINUTE, False),
        (11, 15 * MINUTE - SECOND, True),
        (11, 15 * MINUTE, False),
        (1_000, 15 * MINUTE, False),
        (11, -SECOND, False),
    ],
)
def test_the_rest_grows_to_a_quarter_of_an_hour(count: int, ago_ms: int, rests: bool) -> None:
    """The last row: the clock was set back."""
    rolling = fleet.decide(seen(bookies(), taken_back=back(count, ago_ms)))
    draining = fleet.decide(seen(bookies(drained="cordoned"), DRAINING, taken_back=back(count, ago_ms)))

    assert isinstance(rolling.rollout.action, StopBookie) is not rests
    assert isinstance(draining.eviction.action, FlushBookie) is not rests
    if rests:
        words = f"{count} turns in a row were taken back, the last one that of {FIRST} ({WHY}): no other begins before"
        assert words in rolling.rollout.why
        assert draining.eviction.status is not None
        assert words in (draining.eviction.status.waiting_for or "")


def test_a_turn_that_has_begun_goes_on() -> None:
    rolling = fleet.decide(seen(bookies(**REFUSING), rollout=step(), taken_back=back(9)))

    assert isinstance(rolling.rollout.action, StopBookie)
    assert rolling.rollout.action.may_delete


@pytest.mark.parametrize("asked", ["rollout", "eviction"])
def test_the_count_grows_by_turns_that_are_taken_back_and_ends_with_one_that_was_not(asked: str) -> None:
    what: dict[str, Any] = {"rollout": step()} if asked == "rollout" else {"eviction": turn()}
    spec, drained = (ROLLING, "") if asked == "rollout" else (DRAINING, "cordoned")
    kept = bookies(drained=drained, last=FAILED)
    gone = replace(kept[0], pod=None, report=None)

    again = fleet.decide(seen(kept, spec, taken_back=back(3), **what))
    old = fleet.decide(seen(kept, spec, taken_back=back(3, 60 * MINUTE), **what))
    done = fleet.decide(seen((gone, *kept[1:]), DRAINING, taken_back=back(3), eviction=turn()))

    assert again.taken_back is not None
    assert old.taken_back is not None
    assert (again.taken_back.count, old.taken_back.count) == (4, 1)
    assert again.taken_back.at == format_time(make.NOW_MS)
    assert done.taken_back is None


def test_it_is_kept_as_it_is_while_nobody_has_a_turn_and_forgotten_after_an_hour() -> None:
    whole = tuple(serving(one) for one in make.fleet())

    assert fleet.decide(seen(whole, taken_back=back(3))).taken_back == back(3)
    assert fleet.decide(seen(whole, taken_back=back(3, 60 * MINUTE))).taken_back is None


def test_a_fleet_that_is_to_sleep_and_is_woken_by_a_gate_rests_as_well() -> None:
    spec = {"lifecycle": {"hibernate": True}}
    stopping = HibernationStatus(state=HibernationState.STOPPING, since=format_time(make.NOW_MS))
    cases = tuple(serving(one, **REFUSING) for one in make.fleet())

    woken = fleet.decide(seen((*cases[:3], serving(make.fleet()[3], **FAILED)), spec, hibernation=stopping))
    waking = woken.hibernation.status
    again = fleet.decide(seen(cases, spec, hibernation=waking, taken_back=back(6)))

    assert waking is not None
    assert waking.state is HibernationState.WAKING
    assert woken.taken_back is not None
    assert (woken.taken_back.bookie, woken.taken_back.count) == ("the whole fleet", 1)
    assert WHY in woken.taken_back.why
    assert again.hibernation.state is HibernationState.WAKING
    assert "6 turns in a row" in ((again.hibernation.status and again.hibernation.status.waiting_for) or "")


@pytest.mark.parametrize(("kind", "waits"), [("Fence", False), ("Restart", True)])
def test_who_fences_a_bookie_off_by_hand_waits_for_no_rest(kind: str, waits: bool) -> None:
    cases = tuple(
        replace(one, report=replace(one.report, capabilities=("turn", "aside")))
        for one in bookies()
        if one.report is not None
    )
    asked = make.operation("asked", type=kind, reason="its disk clicks")
    observed = seen(cases, {"rollout": {"strategy": "Manual"}}, taken_back=back(11, 14 * MINUTE))

    found = fleet.decide(replace(observed, operations=(asked,)))

    assert isinstance(found.rollout.action, StopBookie) is not waits
