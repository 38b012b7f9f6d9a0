"""A repair that does not move, or cannot begin for lack of room, does not wait unseen."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.base.ids import LedgerId
from bookie.ports.admin import BlockedLedger, RepairStatus, State, Verdict
from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model.status import BookieClusterStatus, Condition
from bookie_operator.plan import fleet
from bookie_operator.status import render, repairs, warnings

BLOCKED = tuple(BlockedLedger(LedgerId(number), "nobody who serves has entry 3") for number in range(5))


def repairing(**changes: Any) -> BookieCase:
    """A bookie in the second phase of its repair after a loss."""
    report = make.report(state=State.REPAIRING, verdict=Verdict.RESUME, grant_id="grant-1")
    told = {"state": State.REPAIRING, "phase": "two", "ledgers_done": 7, "ledgers_pending": 5, "blocked": BLOCKED}
    return make.bookie_case(report=report, repair=RepairStatus(**(told | changes)))


def later(before: BookieClusterStatus | None, minutes: int, **changes: Any) -> BookieClusterStatus:
    now_ms = make.NOW_MS + minutes * 60_000
    seen = make.observation(
        make.fleet(repairing(**changes)), children=make.rolled_out(), now_ms=now_ms, status=before or quiet()
    )
    return render.render(fleet.decide(seen))


def quiet() -> BookieClusterStatus:
    return render.render(fleet.decide(make.observation(children=make.rolled_out())))


def condition(found: BookieClusterStatus, kind: str) -> Condition:
    one = found.condition(kind)
    assert one is not None
    return one


@pytest.mark.parametrize(
    ("verdict", "state", "word"),
    [
        (Verdict.RESUME, "Repairing", "copies back what it lost"),
        (Verdict.UNCLEAN, "Limbo", "an unclean stop put in doubt"),
    ],
)
def test_a_bookie_that_repairs_itself_says_so_and_not_only_that_its_volumes_are_well(
    verdict: Verdict, state: str, word: str
) -> None:
    report = make.report(state=State.REPAIRING, verdict=verdict, reason="volumes and metadata store agree")
    seen = make.observation(make.fleet(make.bookie_case(report=report)), children=make.rolled_out(), status=quiet())
    found = render.render(fleet.decide(seen))

    assert found.bookies[0].state == state
    assert word in found.bookies[0].message
    assert "volumes and metadata store agree" in found.bookies[0].message
    assert word in condition(found, "RepairInProgress").message


def test_a_repair_that_does_not_move_is_told_after_a_quarter_of_an_hour_with_its_ledgers() -> None:
    slow = {"ledgers_pending": 6}  # five are blocked: a copy of the sixth may take its time
    began = later(None, 0, **slow)
    not_yet, still = later(later(began, 8, **slow), 14, **slow), later(later(began, 8, **slow), 15, **slow)

    assert condition(not_yet, "RepairInProgress").reason == "Repairing"
    told = condition(still, "RepairInProgress")
    assert (told.status, told.reason) == ("True", "RepairNoProgress")
    for word in (
        "ledgers-zone-a-0",
        "6 ledgers are left",
        "ledger 0: nobody who serves",
        "and 2 more",
        "bring back",
        "accept-loss",
    ):
        assert word in told.message
    events = warnings.standing(still, make.NOW_MS + 15 * 60_000)
    assert [one.is_warning for one in events if one.reason == "RepairNoProgress"] == [True]
    assert condition(still, "DataAtRisk").status == "True"
    assert condition(still, "Stalled").status == "False", "it goes on by itself as soon as a peer is back"


def test_a_repair_of_which_only_blocked_ledgers_are_left_is_told_after_three_minutes() -> None:
    began = later(None, 0)

    assert condition(later(began, 2), "RepairInProgress").reason == "Repairing"
    assert condition(later(began, 3), "RepairInProgress").reason == "RepairNoProgress"


@pytest.mark.parametrize(
    "moved",
    [
        {"ledgers_done": 8},
        {"entries_copied": 1},
        {"bytes_copied": 1},
        {"phase": "one"},
        {"ledgers_scanned": 9},
        {"done": True},
    ],
)
def test_a_repair_that_moves_is_no_news(moved: dict[str, Any]) -> None:
    found = later(later(later(None, 0), 14), 29, **moved)

    assert condition(found, "RepairInProgress").reason != "RepairNoProgress"


def test_when_it_moved_last_outlives_the_operator() -> None:
    found = later(later(later(None, 0, ledgers_done=6), 3), 10)

    (entry,) = [one for one in found.bookies if one.progress is not None]
    assert entry.progress is not None
    moved = repairs.moved_at(entry, repairing().repair or RepairStatus(), make.NOW_MS + 600_000)
    assert moved == entry.progress.moved_at == "2027-01-15T08:03:00Z", "three minutes after the first look"


def test_a_bookie_without_room_for_its_marks_is_told_in_its_own_words() -> None:
    lost = make.lost_case()
    words = "CrashLoopBackOff: /bookie/ledgers/SENTINEL.tmp: no space left; free some, or give the volume more"
    pod = make.pod(uid="pod-2", is_ready=False, problem=words, trouble="Crashing")
    full = replace(lost, pod=pod, report=None, report_problem="UNAVAILABLE")
    full = replace(full, volumes=tuple(replace(one, report=None) for one in full.volumes))

    found = render.render(fleet.decide(make.observation(make.fleet(full), children=make.rolled_out(), status=quiet())))

    told = condition(found, "StorageHealthy")
    assert (told.status, told.reason) == ("False", "LostVolume")
    assert "no space left" in told.message
    (event,) = [one for one in warnings.standing(found, make.NOW_MS) if one.reason == "VolumesLost"]
    assert "no space left" in event.message
