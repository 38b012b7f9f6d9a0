"""Maintenance windows before each voluntary step, and before nothing else (spec/operator.md#H1, H2)."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import Member
from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model.status import BookieClusterStatus, BookieStatus, RolloutStatus, RolloutStep
from bookie_operator.model.values import format_time
from bookie_operator.plan import fleet, windows
from bookie_operator.plan.actions import StopBookie
from bookie_operator.plan.observation import Observation
from bookie_operator.status import conditions

FIRST = "ledgers-zone-a-0"
HOUR_MS = 3_600_000


def window(begins_in_ms: int, duration: str = "2h") -> dict[str, Any]:
    """A window by the minute, so that `make.NOW_MS` needs no calendar."""
    begins = format_time(make.NOW_MS + begins_in_ms)
    return {"schedule": f"{int(begins[14:16])} {int(begins[11:13])} * * *", "duration": duration}


def bookies(*, is_down: bool = False) -> tuple[BookieCase, ...]:
    """The first is of an older revision, and down if asked for; all others as the spec says."""
    found = []
    for number, one in enumerate(make.fleet()):
        assert one.pod is not None
        first = {"revision": "rev-0"} if number == 0 else {}
        pod = replace(one.pod, ready_since_ms=make.NOW_MS - HOUR_MS, inputs="v1-older", resource_version="5", **first)
        member = Member(one.bookie_id, has_cookie=True, is_registered=True, is_writable=True)
        case = replace(one, pod=pod, member=member)
        if is_down and number == 0:
            broken = replace(
                pod, is_ready=False, ready_since_ms=None, created_ms=make.NOW_MS - HOUR_MS, phase="Pending"
            )
            case = replace(case, pod=broken, report=None, report_problem="no answer")
        found.append(case)
    return tuple(found)


def seen(*opens: dict[str, Any], cases: tuple[BookieCase, ...] | None = None, **changes: Any) -> Observation:
    wanted = {"rollout": {"strategy": "Automatic", "windows": list(opens)} | changes.pop("rollout", {})}
    known = BookieClusterStatus(observed_generation=1, instance_id="instance", **changes.pop("known", {}))
    children = make.rolled_out(**wanted)
    found = bookies() if cases is None else cases
    return make.observation(found, status=known, spec_changes=wanted, children=children, **changes)


def stopped(situation: Observation) -> str:
    action = fleet.decide(situation).rollout.action
    return action.bookie if isinstance(action, StopBookie) else ""


def away(name: str) -> dict[str, Any]:
    long_ago = format_time(make.NOW_MS - HOUR_MS)
    told = {"bookie_id": "data.ledgers", "pool": "zone-a", "state": "Missing", "verdict": "", "reason": ""}
    return {"bookies": (BookieStatus(name=name, away_since=long_ago, since=long_ago, **told),)}


CLOSED, OPEN, NEARLY_OVER = window(3 * HOUR_MS), window(-HOUR_MS), window(-HOUR_MS, "80m")


@pytest.mark.parametrize(
    ("opens", "more", "wanted"),
    [
        ((), {}, FIRST),
        ((OPEN,), {}, FIRST),
        ((CLOSED,), {}, ""),
        ((CLOSED, OPEN), {}, FIRST),
        ((NEARLY_OVER,), {}, ""),  # 20 minutes are left, and a bookie may take 30
        ((NEARLY_OVER,), {"maxSecondsPerBookie": 1_199}, FIRST),
        ((NEARLY_OVER,), {"maxSecondsPerBookie": 1_200}, FIRST),
        ((NEARLY_OVER,), {"maxSecondsPerBookie": 1_201}, ""),
        ((CLOSED | {"timeZone": "Etc/GMT-3"},), {}, FIRST),  # where clocks are three hours ahead it begins now
        ((OPEN | {"timeZone": "Etc/GMT+3"},), {}, ""),
        ((NEARLY_OVER, window(20 * 60_000)), {}, FIRST),  # the next begins as this one ends
        ((CLOSED,), {"ignoreWindowsUntil": format_time(make.NOW_MS + 1_000)}, FIRST),
        ((CLOSED,), {"ignoreWindowsUntil": format_time(make.NOW_MS)}, ""),
        ((CLOSED,), {"ignoreWindowsUntil": "2026-99-99T00:00:00Z"}, ""),
        ((CLOSED | {"schedule": "0 0 30 2 *"},), {}, ""),
        ((OPEN | {"timeZone": "Mars/Olympus"},), {}, ""),
    ],
)
def test_a_bookie_is_stopped_only_within_a_window_in_which_it_can_end(
    opens: tuple[dict[str, Any], ...], more: dict[str, Any], wanted: str
) -> None:
    assert stopped(seen(*opens, rollout=more)) == wanted


def test_outside_a_window_nobody_is_stopped_and_the_status_says_until_when() -> None:
    plan = fleet.decide(seen(CLOSED))

    opens_at = format_time((make.NOW_MS + 3 * HOUR_MS) // 60_000 * 60_000)
    assert plan.rollout.status.window_opens_at == opens_at
    assert opens_at in (plan.rollout.status.waiting_for or "")
    reconciling = next(one for one in conditions.of(plan) if one.type == "Reconciling")
    assert (reconciling.is_true, reconciling.reason) == (True, "WaitingForWindow")
    assert plan.requeue_ms == 30_000, "nobody looks every other second until a window opens"


def test_a_window_that_is_open_and_too_short_says_when_it_ends() -> None:
    told = fleet.decide(seen(NEARLY_OVER)).rollout.status.waiting_for or ""

    assert f"the maintenance window ends at {format_time(make.NOW_MS + 20 * 60_000)}" in told
    assert "no maintenance window is open" in (fleet.decide(seen(CLOSED)).rollout.status.waiting_for or "")


def test_what_heals_or_was_begun_or_asked_for_by_name_never_waits() -> None:
    begun = RolloutStep(bookie=FIRST, pod_uid="pod-1", begun_at=format_time(make.NOW_MS - 5_000))
    known = {"rollout": RolloutStatus(inputs="new", desired=4, updated=3, step=begun)}

    assert stopped(seen(CLOSED, known=known)) == FIRST, "its turn had begun"
    assert stopped(seen(CLOSED, cases=bookies(is_down=True), known=away(FIRST))) == FIRST, "it serves nobody"
    asked = make.operation(created_ms=make.NOW_MS - 1_000)
    assert stopped(seen(CLOSED, operations=(asked,))) == FIRST, "a person named it"


@pytest.mark.parametrize(
    ("field", "value", "word"),
    [
        ("windows", [OPEN | {"schedule": "0 0 30 2 *"}], "never fits"),
        ("windows", [OPEN, OPEN | {"timeZone": "Mars/Olympus"}], "windows[1]"),
        ("ignoreWindowsUntil", "2026-99-99T00:00:00Z", "ignoreWindowsUntil"),
    ],
)
def test_a_window_that_cannot_be_used_is_told_and_opens_nothing(field: str, value: object, word: str) -> None:
    situation = seen(OPEN, rollout={field: value})

    (obstacle,) = fleet.decide(situation).obstacles
    assert obstacle.reason == "SpecInvalid"
    assert word in obstacle.message
    assert stopped(situation) == ""


def test_windows_reach_no_pod() -> None:
    assert list(windows.problems(seen(OPEN).cluster.spec)) == []
    assert fleet.decide(seen(OPEN)).rollout.status.inputs == fleet.decide(seen(CLOSED)).rollout.status.inputs
