"""Which bookies lack entries that were written while they were away, and whom to ask to fetch them. Pure.

A bookie that restarts misses what is written meanwhile: those entries are on AQ bookies, and the next stop takes one of
these away. So nobody else is stopped before each bookie that serves has said that it is whole (spec/operator.md#Q9). It
fills its holes by itself after each start; what was blocked then is tried again when the operator asks.
"""

from bookie.ports.admin import FillStatus
from bookie_operator.plan import doors
from bookie_operator.plan.actions import FillHoles
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import Assessed

# Between the end of a run and the next, at least; and at least as long as the run took, since it reads all metadata.
AGAIN_MS = 60_000
_SHOWN_MAX = 3


def lacks(one: Assessed) -> str:
    """Return why this bookie is not known to hold all that it should; "" when it is, or when its release cannot say."""
    report, status = one.case.report, one.case.fill
    if report is None or report.whole_since_boot is not False:
        return ""
    if status is not None and status.blocked:
        return f"{one.case.name} {_blocked(status)}"
    found = f", {status.entries_missing} entries so far" if status is not None and status.entries_missing else ""
    return f"{one.case.name} has yet to look for what was written while it was away{found}"


def stuck(one: Assessed) -> str:
    """Return which ledgers of this bookie cannot be filled, once it has tried; "" while there is hope without a
    person."""
    report, status = one.case.report, one.case.fill
    if report is None or report.whole_since_boot is not False or status is None or not status.blocked:
        return ""
    return f"{one.case.name} {_blocked(status)}"


def to_ask(seen: Observation, fleet: tuple[Assessed, ...]) -> tuple[FillHoles, ...]:
    """Return which bookies to ask to look again: those that serve, are not whole, and have nothing of it under way."""
    if not seen.leadership.is_held or seen.cluster.spec.lifecycle.paused:
        return ()
    return tuple(
        FillHoles(one.case.name, doors.of(seen.cluster, one.case.pod))
        for one in fleet
        if one.case.is_ours and one.case.pod is not None and one.case.pod.has_certificates and _is_idle(one)
    )


def _is_idle(one: Assessed) -> bool:
    report, status = one.case.report, one.case.fill
    if report is None or status is None or report.whole_since_boot is not False or not report.state.serves:
        return False
    if status.is_running or status.is_waiting:
        return False
    took_ms = status.began_ms_ago - status.ended_ms_ago
    return status.ended_ms_ago < 0 or status.ended_ms_ago >= max(AGAIN_MS, took_ms)


def _blocked(status: FillStatus) -> str:
    told = [f"ledger {each.ledger_id}: {each.reason}" for each in status.blocked[:_SHOWN_MAX]]
    more = f"; and {status.blocked_count - len(told)} more" if status.blocked_count > len(told) else ""
    return f"lacks entries of {status.blocked_count} ledgers that it cannot fetch: {'; '.join(told)}{more}"
