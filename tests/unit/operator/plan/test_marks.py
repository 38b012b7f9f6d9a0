"""Auto-recovery's marks as a gate of a stop (spec/operator.md#Q20)."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import Member
from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model.status import BookieClusterStatus
from bookie_operator.plan import fleet, marks
from bookie_operator.plan.observation import Leadership, MarksLook, Observation

FIRST = "ledgers-zone-a-0"
NOW_MS, GRACE_MS = make.NOW_MS, 600_000
ON = {"autorecovery": {"enabled": True}}
HELD = {"held": {make.fleet()[0].bookie_id: "ledger 7: replicas of x are missing"}}


def serving(case: BookieCase, **report: Any) -> BookieCase:
    assert case.pod is not None
    assert case.report is not None
    member = Member(case.bookie_id, has_cookie=True, is_registered=True, is_writable=True)
    pod = replace(case.pod, ready_since_ms=NOW_MS - 3_600_000, inputs="v1-older", resource_version="5")
    return replace(case, pod=pod, member=member, report=replace(case.report, **report))


def seen(look: MarksLook | None, *, knows: bool = True, spec: dict[str, Any] | None = None, **more: Any) -> Observation:
    """The first is older than its spec, and nothing but `look` may speak against its stop."""
    said = {"capabilities": ("marks",) if knows else ()}
    wanted = {"rollout": {"strategy": "Automatic", "soakSeconds": 10}} | (spec or {})
    first, *others = (serving(one, **said) for one in make.fleet())
    assert first.pod is not None
    cases = (replace(first, pod=replace(first.pod, revision="rev-0")), *others)
    status = BookieClusterStatus(observed_generation=1, instance_id="instance")
    return make.observation(
        cases, status=status, spec_changes=wanted, children=make.rolled_out(**wanted), marks=look, **more
    )


def look(**changes: Any) -> MarksLook:
    asked = tuple(sorted(one.bookie_id for one in make.fleet()))
    known: dict[str, Any] = {"asked": asked, "began_ms": NOW_MS - 1_000, "ended_ms": NOW_MS - 1_000}
    return MarksLook(**(known | changes))


def why(of: Observation) -> str:
    """Why the first is not stopped; "" when it is."""
    rolled = fleet.decide(of).rollout
    assert bool(rolled.action) is (rolled.stopped == FIRST)
    return "" if rolled.stopped == FIRST else rolled.status.waiting_for or "?"


@pytest.mark.parametrize("spec", [{}, ON], ids=["off", "on"])
def test_a_clear_look_lets_the_stop_go_on(spec: dict[str, Any]) -> None:
    assert why(seen(look(), spec=spec)) == ""


def test_marks_that_the_stop_makes_worse_are_waited_for_with_their_end_told() -> None:
    found = why(seen(look(**HELD, since_ms=NOW_MS - 1_000)))

    assert "ledger 7: replicas of x are missing" in found
    assert "until 2027-01-15T08:09:59Z (spec.repair.peerGrace)" in found


def test_marks_that_speak_against_others_alone_let_this_one_stop() -> None:
    assert why(seen(look(held={make.fleet()[1].bookie_id: "ledger 7"}, since_ms=NOW_MS))) == ""


@pytest.mark.parametrize("changes", [HELD, {"problem": "UNAVAILABLE"}])
@pytest.mark.parametrize(("waited_ms", "is_open"), [(GRACE_MS - 1, False), (GRACE_MS, True)])
def test_the_wait_ends_whoever_does_not_mend(changes: dict[str, Any], waited_ms: int, is_open: bool) -> None:
    of = seen(look(**changes, since_ms=NOW_MS - waited_ms), spec=ON)

    assert (why(of) == "") is is_open


@pytest.mark.parametrize(
    ("found", "word"),
    [
        (look(problem="UNAVAILABLE", since_ms=NOW_MS), "UNAVAILABLE"),
        (look(began_ms=NOW_MS - 180_001), "nobody has looked lately"),
        (look(asked=("another",)), "nobody has looked lately"),
        (None, "nobody has looked lately"),
    ],
    ids=["no answer", "old", "of others", "none"],
)
def test_what_nobody_knows_closes_the_gate_where_the_fleet_has_auto_recovery(
    found: MarksLook | None, word: str
) -> None:
    assert word in why(seen(found, spec=ON))
    assert why(seen(found)) == "", "elsewhere nobody of the fleet marks anything"


def test_bookies_of_a_release_before_are_not_asked_and_not_waited_for() -> None:
    of = seen(None, knows=False, spec=ON)

    assert marks.to_ask(of) is None
    assert why(of) == ""


def test_who_asks_and_when() -> None:
    question = marks.to_ask(seen(None))

    assert question is not None
    assert (question.reader.name, question.ids) == (FIRST, look().asked)
    assert marks.to_ask(seen(look(ended_ms=NOW_MS - 59_999))) is None
    assert marks.to_ask(seen(look(ended_ms=NOW_MS - 60_000))) is not None
    assert marks.to_ask(seen(look(asked=("another",)))) is not None
    assert marks.to_ask(seen(None, leadership=Leadership("operator-1", 7, is_held=False))) is None


def test_the_wait_begins_with_the_first_look_that_is_not_clear_and_anew_after_a_clear_one() -> None:
    first = marks.following(None, look(**HELD, ended_ms=1_000))
    second = marks.following(first, look(problem="x", ended_ms=2_000))
    clear = marks.following(second, look(ended_ms=3_000))
    again = marks.following(clear, look(**HELD, ended_ms=4_000))

    assert [one.since_ms for one in (first, second, clear, again)] == [1_000, 1_000, None, 4_000]
