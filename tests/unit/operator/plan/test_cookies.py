"""RestoreCookie: a bookie is asked to make its cookie again only where nothing that anybody can see disagrees."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import Contents, Member, State, Verdict
from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model.operation import OperationPhase, OperationStatus
from bookie_operator.model.status import (
    BookieClusterStatus,
    BookieStatus,
    Departure,
    HibernationState,
    HibernationStatus,
    LeavingStatus,
    Process,
)
from bookie_operator.plan import fleet
from bookie_operator.plan.fleet import FleetPlan

FIRST = "ledgers-zone-a-0"


def held(**report: Any) -> BookieCase:
    """The first bookie, whole, without its cookie."""
    found = make.fleet()[0]
    assert found.report is not None
    said = {"state": State.HELD, "verdict": Verdict.COOKIE_MISSING, "cookie_present": False, "cookie_version": -1}
    said |= {"capabilities": ("cookie",), "data_port_open": False, "evidence_hash": "seen"}
    return replace(found, report=replace(found.report, **(said | report)), member=None, is_listed=True)


def plan(case: BookieCase, *, evidence: str = "", **how: Any) -> FleetPlan:
    """What is decided with the operation; `evidence`: what it names, by default that of the case."""
    others = tuple(replace(one, report=replace(one.report, **how.get("others", {}))) for one in make.fleet()[1:])  # type: ignore[type-var]
    how.pop("others", None)
    known = BookieStatus(
        name=FIRST,
        bookie_id=case.bookie_id,
        pool="zone-a",
        state="Held",
        verdict="Held",
        reason="CookieMissingInMetadata",
        since="2027-01-15T08:00:00Z",
        processes=how.pop("processes", ()),
        leaving=how.pop("leaving", None),
    )
    asleep = how.pop("hibernation", None)
    status = BookieClusterStatus(observed_generation=1, instance_id="instance", bookies=(known,), hibernation=asleep)
    bare = fleet.decide(make.observation((case, *others), status=status))
    digest = evidence or bare.fleet[0].evidence.digest or "0" * 32
    stored, why = how.pop("operation_status", None), "its node was deleted by hand"
    asked = make.operation("cookie", status=stored, type="RestoreCookie", evidence=digest, reason=why)
    return fleet.decide(make.observation((case, *others), status=status, operations=(asked,), **how))


def said(found: FleetPlan) -> tuple[OperationPhase | None, str]:
    (one,) = found.operations
    return one.status.phase, one.status.message


def volume(case: BookieCase, **changes: Any) -> BookieCase:
    first = case.volumes[0]
    assert first.claim is not None
    assert case.report is not None
    if "contents" in changes:
        reports = (replace(case.report.volumes[0], **changes), *case.report.volumes[1:])
        case = replace(case, report=replace(case.report, volumes=reports))
        return replace(case, volumes=(replace(first, report=reports[0]), *case.volumes[1:]))
    return replace(case, volumes=(replace(first, claim=replace(first.claim, **changes)), *case.volumes[1:]))


def first_volume(**changes: Any) -> BookieCase:
    case = held()
    return replace(case, volumes=(replace(case.volumes[0], **changes), *case.volumes[1:]))


def test_with_nothing_against_it_the_bookie_is_asked_by_the_report_that_was_judged() -> None:
    found = plan(held())

    assert [(one.bookie, one.evidence_hash) for one in found.cookies] == [(FIRST, "seen")]
    assert said(found)[0] is OperationPhase.RUNNING


AGAINST: dict[str, Callable[[BookieCase], BookieCase]] = {
    "it serves": lambda case: make.fleet()[0],
    "another release": lambda case: held(capabilities=()),
    "held for something else": lambda case: held(verdict=Verdict.UNKNOWN_CONTENT),
    "another store": lambda case: held(instance_id="other"),
    "registered": lambda case: replace(case, member=Member(case.bookie_id, False, True)),
    "nobody listed": lambda case: replace(case, is_listed=False),
    "empty volume": lambda case: volume(case, contents=Contents.EMPTY),
    "claim of one that left": lambda case: volume(case, retired_at="2027-01-15T08:00:00Z"),
    "claim that ends": lambda case: volume(case, is_terminating=True),
    "claim without mark": lambda case: volume(case, marks=None),
    "a claim made anew": lambda case: volume(case, uid="another", marks=make.marks("another", "fs-journal")),
    "no claim": lambda case: first_volume(claim=None, recorded=None),
    "a volume that it did not report": lambda case: first_volume(report=None),
    "its cookie is there": lambda case: held(cookie_present=True),
    "not desired": lambda case: replace(case, is_desired=False),
    "it leaves": lambda case: replace(case, is_leaving=True),
    "mark of another life": lambda case: volume(case, marks=make.marks("claim-journal-1", "fs-journal", incarnation=2)),
    "no pod": lambda case: replace(case, pod=None),
}


@pytest.mark.parametrize("doubt", AGAINST)
def test_with_one_doubt_nobody_is_asked_and_the_operation_says_why(doubt: str) -> None:
    found = plan(AGAINST[doubt](held()))

    assert found.cookies == ()
    assert said(found)[0] is not OperationPhase.RUNNING


@pytest.mark.parametrize(
    "how",
    [
        {"evidence": "f" * 32},
        {"record_problem": "it cannot be read"},
        {"others": {"garbage_held_ledgers": 3}},
        {"leaving": LeavingStatus(state=Departure.DRAINING, since="2027-01-15T08:00:00Z")},
        {"spec_changes": {"lifecycle": {"paused": True, "terminationGrace": "2m"}}},
        {"processes": (Process(pod_uid="old", node="n", gone_since="2027-01-15T08:00:00Z"),)},
    ],
)
def test_what_the_operator_cannot_see_or_was_not_asked_keeps_it_from_asking(how: dict[str, Any]) -> None:
    found = plan(held(), **how)

    assert (found.cookies, said(found)[0]) == ((), OperationPhase.QUEUED)


def test_nobody_is_asked_while_the_fleet_wakes_up() -> None:
    """Whose turn was begun takes writes again first."""
    waking = HibernationStatus(state=HibernationState.WAKING, since="2027-01-15T08:00:00Z")

    assert plan(held(), others={"has_turn": True}).cookies != ()
    assert plan(held(), others={"has_turn": True}, hibernation=waking).cookies == ()


def test_a_bookie_that_has_its_cookie_again_is_asked_for_nothing_and_the_operation_is_done() -> None:
    begun = OperationStatus(phase=OperationPhase.RUNNING, started_at="2027-01-15T08:00:00Z")
    found = plan(make.fleet()[0], operation_status=begun)

    assert (found.cookies, said(found)[0]) == ((), OperationPhase.COMPLETE)
    assert "has its cookie again, and is Serving" in said(found)[1]


def test_a_bookie_that_had_its_cookie_all_the_time_needs_nothing_and_nothing_was_done() -> None:
    found = plan(make.fleet()[0])

    assert (found.cookies, said(found)[0]) == ((), OperationPhase.QUEUED)
    assert said(found)[1] == f"nothing to do: {FIRST} has its cookie, and is Serving"
    late = plan(make.fleet()[0], now_ms=make.NOW_MS + 2 * 86_400_000)
    assert said(late)[0] is OperationPhase.EXPIRED
