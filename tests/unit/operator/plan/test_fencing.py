"""Fence and Unfence by hand: who is stopped, which orders are given, and what each operation says."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import Aside, Member, State, StorageReport, Verdict
from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model.operation import BookieOperation, OperationPhase, OperationStatus
from bookie_operator.model.status import (
    BookieClusterStatus,
    BookieStatus,
    HibernationState,
    HibernationStatus,
    RolloutStatus,
    RolloutStep,
)
from bookie_operator.model.values import format_time
from bookie_operator.plan import doors, fencing, fleet
from bookie_operator.plan.actions import SetAside, StopBookie
from bookie_operator.plan.fleet import FleetPlan

FIRST, LAST = "ledgers-zone-a-0", "ledgers-zone-c-0"
LONG_AGO_MS = make.NOW_MS - 3_600_000


def case(found: BookieCase, **report: Any) -> BookieCase:
    """`found`, registered and ready for long, of a release that obeys orders."""
    assert found.pod is not None
    assert found.report is not None
    said: StorageReport = replace(found.report, **({"capabilities": ("turn", "aside")} | report))
    pod = replace(found.pod, ready_since_ms=LONG_AGO_MS, created_ms=LONG_AGO_MS, resource_version="5")
    serves = said.state.serves
    member = Member(found.bookie_id, has_cookie=True, is_registered=serves, is_writable=serves)
    return replace(found, pod=pod, report=said, member=member)


def held(verdict: Verdict = Verdict.SET_ASIDE, **report: Any) -> dict[str, Any]:
    return {"state": State.HELD, "verdict": verdict, "data_port_open": False} | report


def aside(*, is_aside: bool = True, ago_ms: int = 60_000, uid: str = "uid-fence") -> Aside:
    return Aside(is_aside, "its disk clicks", f"{make.cluster().uid}/{uid}", make.NOW_MS - ago_ms)


def asked(kind: str = "Fence", ago_ms: int = 60_000, **changes: Any) -> BookieOperation:
    name = kind.lower()
    return make.operation(name, type=kind, reason="its disk clicks", created_ms=make.NOW_MS - ago_ms, **changes)


def plan(
    *found: BookieOperation, first: dict[str, Any] | None = None, last: dict[str, Any] | None = None, **how: Any
) -> FleetPlan:
    cases = [
        case(one, **((first if one.name == FIRST else last if one.name == LAST else None) or {}))
        for one in make.fleet()
    ]
    spec = {"rollout": {"strategy": "Manual", "soakSeconds": 10}} | how.pop("spec", {})
    return fleet.decide(
        make.observation(
            tuple(cases),
            status=how.pop("status", None) or BookieClusterStatus(observed_generation=1, instance_id="instance"),
            spec_changes=spec,
            children=make.rolled_out(**spec),
            operations=found,
            **how,
        )
    )


def waking() -> BookieClusterStatus:
    """The fleet wakes up, and whose turn was begun has yet to take writes again."""
    asleep = HibernationStatus(state=HibernationState.WAKING, since=format_time(make.NOW_MS - 1_000))
    return BookieClusterStatus(observed_generation=1, instance_id="instance", hibernation=asleep)


def of_last() -> BookieClusterStatus:
    """It is the turn of LAST in the roll-out."""
    turn = {"bookie": LAST, "pod_uid": f"pod-{LAST}", "begun_at": format_time(make.NOW_MS - 1_000)}
    rollout = RolloutStatus(inputs="", desired=4, updated=4, step=RolloutStep(**turn))
    return BookieClusterStatus(observed_generation=1, instance_id="instance", rollout=rollout)


def given(found: FleetPlan) -> list[tuple[str, bool]]:
    return [(one.bookie, one.order.is_aside) for one in found.asides]


def phase(found: FleetPlan, name: str = "fence") -> OperationPhase | None:
    return next(one.status.phase for one in found.operations if one.operation.name == name)


def test_one_that_serves_begins_its_turn_and_no_order_is_given_before_its_flush() -> None:
    found = plan(asked())

    assert isinstance(found.rollout.action, StopBookie)
    assert (found.rollout.action.bookie, found.rollout.action.aside, given(found)) == (FIRST, None, [])


def test_the_order_goes_with_the_stop_that_may_delete_the_pod() -> None:
    seen = make.observation(tuple(case(one) for one in make.fleet()), operations=(asked(),))
    assessed = plan(asked()).fleet
    pod = seen.bookies[0].pod
    assert pod is not None
    stop = StopBookie(FIRST, pod.uid, "5", doors.of(seen.cluster, pod), 7)

    rolled = fencing.with_order(seen, assessed, replace(plan(asked()).rollout, action=stop))

    assert isinstance(rolled.action, StopBookie)
    assert isinstance(rolled.action.aside, SetAside)
    assert rolled.action.aside.order == aside()


@pytest.mark.parametrize(
    "how",
    [
        {"spec": {"lifecycle": {"paused": True, "terminationGrace": "2m"}}},
        {"record_problem": "it cannot be read"},
        {"members_problem": "nobody answers"},
        {"last": {"state": State.STARTING}},
        {"last": {"directories_failed": ("/d",)}},
        {"status": of_last()},
        {"status": waking(), "last": {"has_turn": True}},
    ],
)
def test_one_that_serves_nobody_is_kept_out_only_while_nothing_closes(how: dict[str, Any]) -> None:
    down = held(Verdict.UNKNOWN_CONTENT)
    assert given(plan(asked(), first=down)) == [(FIRST, True)]

    found = plan(asked(), first=down, **how)

    assert given(found) == []
    assert phase(found) is OperationPhase.QUEUED


def test_an_order_whose_operation_is_gone_is_taken_back_from_one_that_serves_unless_the_cluster_is_paused() -> None:
    paused = {"lifecycle": {"paused": True, "terminationGrace": "2m"}}

    assert given(plan(first={"aside": aside()})) == [(FIRST, False)]
    assert given(plan(first={"aside": aside()}, spec=paused)) == []


def test_one_that_serves_is_not_called_fenced_off_whatever_it_was_told() -> None:
    serves, waits = plan(first={"aside": aside()}), plan(first=held(aside=aside()))

    assert fencing.why_out(serves.observation, serves.fleet[0]) == ""
    assert fencing.why_out(waits.observation, waits.fleet[0]) == "its disk clicks"


@pytest.mark.parametrize(
    ("report", "is_asked"),
    [
        ({}, True),
        ({"instance_id": "another"}, False),
        ({"pod_uid": "before"}, False),
        ({"metadata_reachable": False}, False),
    ],
)
def test_an_order_is_given_only_to_a_bookie_that_can_write_it_into_the_clusters_own_store(
    report: dict[str, Any], is_asked: bool
) -> None:
    """It stands in the metadata store: written into another one it would keep nobody out, and end nothing."""
    found = with_own_address(asked("Unfence", ago_ms=1_000), first=held(aside=aside()) | report)

    assert given(found) == [(FIRST, False)]
    assert [one.door.address.startswith("10.0.9.1:") for one in found.asides] == [is_asked]


def with_own_address(*found: BookieOperation, first: dict[str, Any]) -> FleetPlan:
    """A plan for a fleet of which FIRST has an address of its own."""
    seen = plan(*found, first=first).observation
    cases = tuple(
        replace(one, pod=replace(one.pod, ip="10.0.9.1")) if one.name == FIRST and one.pod is not None else one
        for one in seen.bookies
    )
    return fleet.decide(replace(seen, bookies=cases))


def seen_silent(*, is_ready: bool, is_registered: bool) -> FleetPlan:
    """FIRST does not answer the operator; what its kubelet and the metadata store say of it."""
    member = Member("data.ledgers.zone-a.0", has_cookie=True, is_registered=is_registered, is_writable=is_registered)
    cases = []
    for one in (case(found) for found in make.fleet()):
        if one.name == FIRST:
            assert one.pod is not None
            one = replace(one, report=None, pod=replace(one.pod, is_ready=is_ready), member=member)
        cases.append(one)
    return fleet.decide(
        make.observation(
            tuple(cases),
            status=BookieClusterStatus(observed_generation=1, instance_id="instance"),
            spec_changes={"rollout": {"strategy": "Manual", "soakSeconds": 10}},
            children=make.rolled_out(rollout={"strategy": "Manual", "soakSeconds": 10}),
            operations=(asked(),),
        )
    )


@pytest.mark.parametrize(("is_ready", "is_registered"), [(True, True), (True, False), (False, True)])
def test_one_that_cannot_be_asked_and_may_serve_gets_no_order_behind_its_back(
    is_ready: bool, is_registered: bool
) -> None:
    """It would serve on, until some restart that nobody decides takes it out (spec/operator.md#U7)."""
    found = seen_silent(is_ready=is_ready, is_registered=is_registered)

    assert (given(found), phase(found)) == ([], OperationPhase.QUEUED)
    assert "it may serve" in next(one.status.message for one in found.operations)


def test_one_that_cannot_be_asked_and_is_neither_ready_nor_registered_is_kept_out() -> None:
    assert given(seen_silent(is_ready=False, is_registered=False)) == [(FIRST, True)]


def test_one_of_an_older_release_is_not_stopped_for_nothing() -> None:
    found = plan(asked(), first={"capabilities": ("turn",)})

    assert given(found) == []
    assert "update its image" in next(one.status.message for one in found.operations)


def test_it_is_done_when_the_bookie_says_that_it_is_out_and_nobody_is_registered() -> None:
    assert phase(plan(asked(), first=held(aside=aside()))) is OperationPhase.COMPLETE
    assert phase(plan(asked(), first=held(aside=aside(), data_port_open=True))) is not OperationPhase.COMPLETE


def test_the_later_of_two_stands() -> None:
    found = plan(asked(), asked("Unfence", ago_ms=30_000), first=held(aside=aside()))
    assert given(found) == [(FIRST, False)]

    late = plan(asked("Unfence"), asked(ago_ms=30_000), first=held(aside=aside(ago_ms=30_000)))
    assert (given(late), phase(late, "unfence")) == ([], OperationPhase.CANCELLED)

    lost = plan(asked(), first={"aside": aside(is_aside=False, ago_ms=1_000, uid="other")})
    assert (lost.rollout.action, phase(lost)) == (None, OperationPhase.CANCELLED)


def test_an_order_whose_operation_is_gone_is_taken_back_only_where_it_is_known_to_be_ours() -> None:
    assert given(plan(first={"aside": aside()})) == [(FIRST, False)]
    assert given(plan(first={"aside": replace(aside(), order_id="another/uid-fence")})) == []
    assert given(plan(first={"aside": aside()}, operations_problem="forbidden")) == []
    assert given(plan(first=held(aside=aside()))) == []
    done = asked(status=make.operation(status=None).status.model_copy(update={"phase": OperationPhase.COMPLETE}))
    assert given(plan(done, first={"aside": aside()})) == []


def test_what_was_said_last_holds_while_it_says_nothing() -> None:
    known = BookieStatus(
        name=FIRST,
        bookie_id="x",
        pool="zone-a",
        state="Held",
        verdict="Held",
        reason="SetAside",
        since="2027-01-15T08:00:00Z",
        fenced="its disk clicks",
    )
    found = plan()
    silent = replace(found.fleet[0], previous=known, evidence=replace(found.fleet[0].evidence, digest=""))

    assert fencing.why_out(found.observation, silent) == "its disk clicks"
    assert fencing.why_out(found.observation, replace(found.fleet[0], previous=known)) == ""


def test_a_fence_of_an_older_release_takes_no_turn() -> None:
    """It kept the turn, and with it the update of the image that its own message asks for."""
    found = plan(asked(), first={"capabilities": ("turn",)})

    assert (found.rollout.action, found.rollout.status.step) == (None, None)


def test_an_unfence_is_not_done_by_a_look_from_before_the_order() -> None:
    """The order went out with a stop that the API server refused; the bookie serves on, and its last look is older."""
    found = plan(asked(), asked("Unfence", ago_ms=10_000), first={"inspection_age_ms": 120_000})

    assert phase(found, "unfence") is OperationPhase.RUNNING
    assert given(found) == [(FIRST, False)]
    own = next(one.pod for one in make.fleet() if one.name == FIRST)
    assert own is not None
    assert [one.door for one in found.asides] == [doors.of(make.cluster(), own)]


def test_an_unfence_is_done_when_its_bookie_has_read_it() -> None:
    order = aside(is_aside=False, ago_ms=10_000, uid="uid-unfence")
    found = plan(asked(), asked("Unfence", ago_ms=10_000), first={"aside": order})

    assert (phase(found, "unfence"), given(found)) == (OperationPhase.COMPLETE, [])


def test_an_unfence_of_an_older_release_waits_for_its_update() -> None:
    found = plan(asked("Unfence"), first={"capabilities": ("turn",)})

    assert (phase(found, "unfence"), given(found)) == (OperationPhase.QUEUED, [])


def test_an_order_whose_operation_was_cancelled_before_the_stop_is_taken_back() -> None:
    cancelled = asked(status=OperationStatus(phase=OperationPhase.CANCELLED))
    done = asked("Unfence", ago_ms=10_000, status=OperationStatus(phase=OperationPhase.COMPLETE))

    assert given(plan(cancelled, done, first={"aside": aside()})) == [(FIRST, False)]


def test_beside_a_bookie_without_a_pod_another_one_writes_the_order() -> None:
    """Its own node is gone, say: the first that could write it has no pod to be asked by."""
    first, second, *others = make.fleet()
    cases = (case(first, **held()), replace(case(second), pod=None, report=None), *(case(one) for one in others))
    of = make.observation(cases, status=BookieClusterStatus(observed_generation=1, instance_id="instance"))

    assert [fencing._can_write(of, one) for one in cases] == [True, False, True, True]
