"""Maintenance windows: whether a bookie may be stopped, or begin to leave, of nobody's own need now. Pure.

Asked only where a voluntary step begins (plan/rollout.py before a turn, plan/leaving.py before a drain), and of nothing
that has begun: a window that closes takes no turn back, since a bookie that is half stopped is no better at noon. What
heals, what replaces a bookie that is down, an eviction from a drained node, and what a person asks for by the name of
one bookie never come here (spec/operator.md#H1, H2). Nobody's turn is held here.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bookie.base.errors import BadInput
from bookie_operator.model import schedule
from bookie_operator.model.spec import BookieClusterSpec
from bookie_operator.model.values import format_time, parse_duration, parse_time, parse_time_or_0
from bookie_operator.plan.observation import Observation

UTC = "Etc/UTC"
_BEGINNING = format_time(0)


@dataclass(frozen=True, slots=True)
class WindowState:
    """Whether a voluntary step may begin. `closed`: why it may not, "" = it may. `opens_at`: RFC 3339, while one is
    waited for."""

    closed: str = ""
    opens_at: str | None = None


def of(seen: Observation) -> WindowState:
    """Return whether a voluntary step may begin now: within a window of which so much is left as one bookie may
    take."""
    rollout = seen.cluster.spec.rollout
    if not rollout.windows or _is_overridden(seen):
        return WindowState()
    try:
        known = _schedules(seen.cluster.spec)
    except BadInput as error:
        return WindowState(f"spec.rollout.windows cannot be used: {error}")
    need_ms = rollout.max_seconds_per_bookie * 1_000
    end_ms = schedule.open_until_ms(known, seen.now_ms, need_ms)
    if end_ms is not None and end_ms - seen.now_ms >= need_ms:
        return WindowState()
    opens_ms = schedule.next_fit_ms(known, seen.now_ms)
    opens_at = format_time(opens_ms) if opens_ms is not None else None
    words = (
        "no maintenance window is open"
        if end_ms is None
        else f"the maintenance window ends at {format_time(end_ms)}, and a bookie may take"
        f" {rollout.max_seconds_per_bookie} seconds (spec.rollout.maxSecondsPerBookie)"
    )
    return WindowState(f"{words}; the next one opens at {opens_at}", opens_at)


def problems(spec: BookieClusterSpec) -> Iterator[str]:
    """Yield what of spec.rollout.windows cannot be used. What is there stays, and heals; nothing voluntary begins."""
    for number, window in enumerate(spec.rollout.windows):
        try:
            schedule.parse(window.schedule, window.time_zone or UTC, parse_duration(window.duration))
        except BadInput as error:
            yield f"spec.rollout.windows[{number}]: {error}"
    try:
        parse_time(spec.rollout.ignore_windows_until or _BEGINNING)
    except BadInput as error:
        yield f"spec.rollout.ignoreWindowsUntil: {error}"


def _schedules(spec: BookieClusterSpec) -> list[schedule.WindowSchedule]:
    return [
        schedule.parse(one.schedule, one.time_zone or UTC, parse_duration(one.duration)) for one in spec.rollout.windows
    ]


def _is_overridden(seen: Observation) -> bool:
    until = seen.cluster.spec.rollout.ignore_windows_until
    return until is not None and seen.now_ms < parse_time_or_0(until)
