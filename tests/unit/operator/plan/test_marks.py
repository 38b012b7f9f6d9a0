"""Auto-recovery's marks as a gate of a stop (spec/operator.md#Q20)."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.client.repair import marked
from bookie.ports.admin import Member
from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model.status import BookieClusterStatus
from bookie_operator.plan import fleet, marks
from bookie_operator.plan.observation import Leadership, MarksLook, Observation

FIRST = "ledgers-zone-a-0"
NOW_MS, GRACE_MS = make.NOW_MS, 600_000
ON = {"autorecovery": {"enabled": True}}
FIRST_ID, SECOND_ID = (one.bookie_id for one in make.fleet()[:2])


def held(*ledgers: int, by: str = FIRST_ID, waited_ms: int = 0) -> dict[str, Any]:
    """Marks of `ledgers` that speak against a stop of `by`, all waited for as long."""
    words = dict.fromkeys(ledgers, "replicas of x are missing")
    return {"held": {by: words}, "waited_ms": {(by, one): waited_ms for one in ledgers}}


HELD = held(7)
UNANSWERED = {"problem": "UNAVAILABLE"}


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
    found = why(seen(look(**HELD)))

    assert "ledger 7: replicas of x are missing" in found
    assert "until 2027-01-15T08:09:59Z (spec.repair.peerGrace)" in found


def test_marks_that_speak_against_others_alone_let_this_one_stop() -> None:
    assert why(seen(look(**held(7, by=SECOND_ID)))) == ""


@pytest.mark.parametrize(("waited_ms", "is_open"), [(GRACE_MS - 1, False), (GRACE_MS, True)])
def test_the_wait_ends_whoever_does_not_mend(waited_ms: int, is_open: bool) -> None:
    marked = look(**held(7, waited_ms=waited_ms), began_ms=NOW_MS, ended_ms=NOW_MS)
    unanswered = look(**UNANSWERED, unanswered_ms=waited_ms, began_ms=NOW_MS, ended_ms=NOW_MS)

    for one in (marked, unanswered):
        assert (why(seen(one, spec=ON)) == "") is is_open


def test_the_end_of_the_wait_does_not_wait_for_another_look() -> None:
    assert why(seen(look(**held(7, waited_ms=GRACE_MS - 1_000)))) == ""


def test_a_mark_that_was_waited_for_long_enough_does_not_let_another_one_pass() -> None:
    of_another = held(3, by=SECOND_ID, waited_ms=GRACE_MS)
    old, new = held(7, waited_ms=GRACE_MS), held(9)
    waited_ms = of_another["waited_ms"] | old["waited_ms"] | new["waited_ms"]
    of_first = old["held"][FIRST_ID] | new["held"][FIRST_ID]
    found = why(seen(look(held=of_another["held"] | {FIRST_ID: of_first}, waited_ms=waited_ms)))

    assert "ledger 9: " in found
    assert "ledger 7: " not in found


def test_looks_without_an_answer_use_up_no_time_of_a_mark() -> None:
    known = marks.following(None, look(**UNANSWERED, ended_ms=0))
    for minute in range(1, 11):
        known = marks.following(known, look(**UNANSWERED, ended_ms=minute * 60_000))
    assert known.unanswered_ms == GRACE_MS

    found = marks.following(known, look(held=HELD["held"], began_ms=NOW_MS, ended_ms=NOW_MS))

    assert (found.waited_ms, found.unanswered_ms) == ({(FIRST_ID, 7): 0}, 0)
    assert why(seen(found, spec=ON)) != ""


@pytest.mark.parametrize(
    ("found", "word"),
    [
        (look(**UNANSWERED), "UNAVAILABLE"),
        (look(began_ms=NOW_MS - 180_001), "nobody has looked lately"),
        (look(began_ms=NOW_MS + 1, ended_ms=NOW_MS + 1), "nobody has looked lately"),
        (look(asked=("another",)), "nobody has looked lately"),
        (None, "nobody has looked lately"),
    ],
    ids=["no answer", "old", "of a clock that was set back", "of others", "none"],
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
    assert marks.to_ask(seen(look(ended_ms=NOW_MS + 1))) is not None, "the clock was set back"
    assert marks.to_ask(seen(look(asked=("another",)))) is not None
    assert marks.to_ask(seen(None, leadership=Leadership("operator-1", 7, is_held=False))) is None


def test_whoever_did_not_answer_is_followed_by_the_next() -> None:
    names = [one.name for one in make.fleet()]
    found, last = [], ""
    for _ in range(len(names) + 1):
        question = marks.to_ask(seen(look(**UNANSWERED, reader=last, ended_ms=0) if last else None))
        assert question is not None
        found.append(last := question.reader.name)

    assert found == [*names, names[0]]
    asked = marks.to_ask(seen(look(reader=names[1], ended_ms=0)))
    assert asked is not None
    assert asked.reader.name == names[0], "one who did answer is no reason to go on"


def test_the_wait_begins_with_the_first_look_that_found_a_mark_and_anew_after_one_that_did_not() -> None:
    of = HELD["held"]
    looks = [
        look(held=of, ended_ms=1_000),
        look(**UNANSWERED, ended_ms=2_000),
        look(held=of, ended_ms=3_000),
        look(held=of, ended_ms=2_500),  # the clock was set back
        look(held=of, ended_ms=3_500),
        look(ended_ms=4_000),
        look(held=of, ended_ms=5_000),
    ]
    waited: list[int | None] = []
    known: MarksLook | None = None
    for one in looks:
        known = marks.following(known, one)
        waited.append(known.waited_ms.get((FIRST_ID, 7)))

    assert waited == [0, 0, 1_000, 1_000, 2_000, None, 0]


def follow(*held_by_look: range) -> MarksLook:
    """The last of looks that come a second after one another."""
    known: MarksLook | None = None
    for second, ledgers in enumerate(held_by_look):
        known = marks.following(known, look(held=held(*ledgers)["held"], ended_ms=second * 1_000))
    assert known is not None
    return known


def test_a_ledger_that_a_full_list_pushed_out_is_not_waited_for_anew_when_it_is_back() -> None:
    """Marks with lower ids come and go beside more than a look lists."""
    stuck, lower = range(500, 500 + marks.LISTED_MAX), range(marks.LISTED_MAX)

    back = follow(stuck, stuck, lower, lower, stuck)
    gone = follow(stuck, stuck, lower[1:], lower[1:], stuck)
    one_more = follow(stuck, stuck, range(1, 2), stuck)

    assert back.waited_ms[(FIRST_ID, 500)] == 2_000, "only time in which a look saw it counts"
    assert gone.waited_ms[(FIRST_ID, 500)] == 0, "a list with room would have had it"
    assert one_more.waited_ms[(FIRST_ID, 500)] == 0


def test_what_is_remembered_of_pushed_out_ledgers_has_a_bound() -> None:
    size = marks.LISTED_MAX
    falling = [range(start, start + size) for start in range(100 * size, 0, -size)]

    assert len(follow(*falling).waited_ms) == size + 1_000


def test_a_list_is_full_as_the_bookies_say() -> None:
    assert marks.LISTED_MAX == marked.LISTED_MAX


def test_time_that_no_look_saw_does_not_count() -> None:
    first = marks.following(None, look(held=HELD["held"], ended_ms=0))

    assert marks.following(first, look(held=HELD["held"], ended_ms=7_200_000)).waited_ms == {(FIRST_ID, 7): 180_000}
