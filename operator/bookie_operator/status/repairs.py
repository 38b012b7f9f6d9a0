"""Whether the repair of a bookie moves, and what it waits for when it does not (spec/operator.md#V12). Pure.

A repair that waits for ledgers whose last copies are away stays as it is, for ever if need be: the limbo marks stand,
and nothing is denied. So that it does not wait unseen, each status says when it moved last.
"""

from bookie.ports.admin import RepairStatus
from bookie_operator.model.status import BookieStatus
from bookie_operator.model.values import format_time, parse_time
from bookie_operator.plan.stages import Assessed, Stage

STILL_MS = 15 * 60_000
BLOCKED_MS = (
    3 * 60_000
)  # where every ledger that is left was tried and is blocked: no copy is under way that may be slow
_SHOWN_MAX = 3
_UNDER_WAY = (Stage.FENCING, Stage.STAMPING, Stage.REPAIRING, Stage.LIMBO)


def moved_at(before: BookieStatus | None, repair: RepairStatus, now_ms: int) -> str:
    """Return when the repair moved last, as far as this pass and the last status tell."""
    was = before.progress if before is not None else None
    if was is not None and was.moved_at is not None and (was.phase, was.work) == (repair.phase, work(repair)):
        return was.moved_at
    return format_time(now_ms)


def work(repair: RepairStatus) -> int:
    """Return a number that grows with every step of a repair: ledgers looked at, marked and done, entries, bytes."""
    done = repair.ledgers_scanned + repair.ledgers_fenced + repair.ledgers_done
    return done + repair.entries_copied + repair.bytes_copied


def standstill(one: Assessed, now_ms: int) -> str:
    """Return since when the repair of this bookie has not moved, and what it waits for; "" while it moves, or is
    over."""
    repair, before = one.case.repair, one.previous
    if repair is None or repair.done or not repair.phase or one.stage not in _UNDER_WAY:
        return ""
    since = moved_at(before, repair, now_ms)
    all_are_blocked = len(repair.blocked) >= repair.ledgers_pending > 0
    if now_ms - parse_time(since) < (BLOCKED_MS if all_are_blocked else STILL_MS):
        return ""
    told = [f"ledger {each.ledger_id}: {each.reason}" for each in repair.blocked[:_SHOWN_MAX]]
    more = f"; and {len(repair.blocked) - len(told)} more" if len(repair.blocked) > len(told) else ""
    waits = f" ({'; '.join(told)}{more})" if told else ""
    return (
        f"the repair of {one.case.name} has not moved since {since}, {repair.ledgers_pending} ledgers are left{waits}:"
        " bring back the bookies that have their entries; until then it denies none of them. Where their disks are gone"
        " for good, or what they had not flushed went with a crash, `bookie ledger accept-loss` closes a ledger whose"
        " end nobody can decide any more. `bookie integrity status` in its pod names every ledger"
    )
