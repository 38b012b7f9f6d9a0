"""The departure of a bookie that may hold data, as long as its process can be asked: begun, drained, cancelled
(spec/operator.md#J3 to J5, J10, J11). Pure."""

from bookie.ports.admin import DrainStatus, OpenLedgers, References
from bookie_operator.model.spec import ScaleDownSpec
from bookie_operator.model.status import Departure, LeavingStatus
from bookie_operator.model.values import format_time, parse_quantity, parse_time
from bookie_operator.plan import children, doors, ephemeral, pace, replacing, room, staggering, windows
from bookie_operator.plan.actions import (
    CancelDrain,
    StartDrain,
)
from bookie_operator.plan.departure import hindrances, state, stateful_sets
from bookie_operator.plan.departure.state import Next
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import Assessed

_RATE_MAX = 2**63 - 1  # what the admin port has room for; the same as no limit
_STAYS = "it is to stay, and comes back"


def begin(seen: Observation, fleet: tuple[Assessed, ...], one: Assessed, stored: LeavingStatus, turn: str) -> Next:
    """Let a bookie begin to leave when it is its turn and nothing is in the way."""
    if one.case.name != turn:
        told = f"{turn} leaves first" if turn else "the bookies with higher numbers go first"
        return Next(state.waits(stored, told))
    if why := "; ".join((*hindrances.of(seen, fleet, one), *hindrances.to_begin(seen, fleet, one))):
        return Next(state.waits(stored, why))
    is_at_once = _is_at_once(seen, one)
    if not is_at_once and one.case.is_rebuilt and (why := "; ".join(children.spec_problems(seen))):
        return Next(state.waits(stored, why))  # it would come back with what nobody can run
    if not is_at_once and (why := windows.of(seen).closed or _too_soon(seen, fleet, one)):
        return Next(state.waits(stored, why))
    if not is_at_once and _is_rolled(one) and (why := staggering.closed(seen)):
        return Next(state.waits(stored, why), asks_for_turn=True)
    # CRASH: the state is stored before the bookie hears of it, so that whoever cancels knows that it may be read-only.
    return Next(state.now(seen, Departure.DRAINING), steps=(_start(seen, one),))


def begins_for_an_edit(seen: Observation, one: Assessed) -> bool:
    """Return True when the bookie begins to drain in this pass, because of an edit of the spec."""
    before = state.stored(one)
    was = before.state if before is not None else Departure.LEAVING
    is_begun = one.leaving is not None and one.leaving.state is Departure.DRAINING and was is Departure.LEAVING
    return is_begun and _is_rolled(one) and not _is_at_once(seen, one)


def _is_at_once(seen: Observation, one: Assessed) -> bool:
    """Return True for what a person asked for by name, which waits for no window, and for a drained node
    (spec/operator.md#H2)."""
    return one.case.name in replacing.named(seen) or (one.case.is_ephemeral and bool(ephemeral.drained(one.case)))


def _too_soon(seen: Observation, fleet: tuple[Assessed, ...], one: Assessed) -> str:
    """Return why an edit must not reach this bookie yet, which is drained because a stop would lose what it has: the
    pace is that of a roll-out (spec/operator.md#X10)."""
    if not _is_rolled(one):
        return ""
    peers = [other for other in fleet if other.case.name != one.case.name]
    return "; ".join((*pace.soak(seen, peers), *pace.canary(seen, fleet, one)))


def _is_rolled(one: Assessed) -> bool:
    """Return True for a bookie that is begun anew where another would be restarted: by an edit of the spec, unless a
    person named it or its node is drained."""
    return one.case.is_ephemeral and one.case.is_rebuilt


def go_on(seen: Observation, fleet: tuple[Assessed, ...], one: Assessed, stored: LeavingStatus) -> Next:
    """Go on with a bookie that was told to drain: until two looks prove that no ledger names it."""
    case, drain = one.case, one.case.drain
    if not case.is_listed:
        return Next(state.waits(stored, state.unlisted(seen)))
    if drain is None:
        return Next(state.waits(stored, f"{case.name} cannot be asked: {one.message or one.reason}"))
    if not drain.is_empty and (why := room.lacks(seen, fleet, one, stored)):
        return _paused(seen, one, stored, why)
    stored = state.with_progress(seen, stored, one)
    wish = _start(seen, one)
    # What the spec says now, also when it was edited since: a drain that waits for writers may wait for ever.
    if not drain.is_draining or not _is_carried_out(wish, drain):
        told = seen.hindrances.get(case.name)
        restarted = state.waits(stored.model_copy(update={"looks": ()}), told.text if told is not None else "")
        if seen.record_problem or not seen.leadership.is_held:
            return Next(state.waits(restarted, seen.record_problem or "this operator does not hold the lease"))
        return Next(restarted, steps=(wish,))
    if not drain.is_empty:
        return Next(state.waits(stored.model_copy(update={"looks": ()}), hindrances.why_not_empty(seen, one)))
    if case.references is not None and _is_of_now(seen, stored, case.references):
        look = state.look(seen, case)
        clean = [known for known in stored.looks if known.is_clean][:1]
        stored = stored.model_copy(update={"looks": (*clean, look) if look.is_clean else (look,)})
    if state.is_proven(seen.cluster, stored):
        assert case.report is not None, "who answers about its drain gave a report before"
        version = case.report.cookie_version
        return Next(state.now(seen, Departure.DRAINED, looks=stored.looks, cookie_version=version))
    return Next(state.waits(stored, hindrances.why_unproven(seen, stored)))


def _paused(seen: Observation, one: Assessed, stored: LeavingStatus, why: str) -> Next:
    """Let a bookie take writes again for which the others have no room left. It stays Draining, so that whoever cancels
    knows that it may be read-only, and goes on where it was when there is room (spec/operator.md#J11)."""
    assert one.case.pod is not None
    waiting = state.waits(stored.model_copy(update={"looks": ()}), f"paused: {why}")
    assert one.case.drain is not None
    if not one.case.drain.is_draining or not seen.leadership.is_held:
        return Next(waiting)
    return Next(
        waiting, steps=(CancelDrain(one.case.name, doors.of(seen.cluster, one.case.pod), seen.leadership.epoch),)
    )


def cancelled(seen: Observation, one: Assessed, stored: LeavingStatus) -> Next:
    """Bring a bookie back that is to stay after all, or whose turn to leave comes later. Its state goes when it serves
    and drains no more: what else keeps writers away from it (a person, a full disk) is no matter of its leaving."""
    case = one.case
    if stored.state is Departure.LEAVING or stored.never_lived:
        return Next(None)  # nobody told it
    why = "the bookies with higher numbers go first, and it comes back" if case.is_leaving else _STAYS
    back = stored.model_copy(update={"looks": (), "waiting_for": why})
    if case.pod is None:
        # Whose number was never lowered has its pod by itself, and a process that begins does not drain.
        live, replicas = stateful_sets.set_of(seen, case.pool)
        is_kept = live is not None and replicas > stateful_sets.ordinal(case)
        has_cookie = case.is_listed and case.member is not None and case.member.has_cookie
        return Next(None if is_kept and has_cookie else back)
    if stored.state is not Departure.DRAINING:
        # It is near its end no more: nobody else has to wait until it is told.
        back = back.model_copy(update={"state": Departure.DRAINING, "since": format_time(seen.now_ms)})
    if case.drain is None:
        return Next(back)
    if not case.drain.is_draining and one.stage.serves:
        return Next(None)
    if not seen.leadership.is_held:
        return Next(back)
    door = doors.of(seen.cluster, case.pod)
    return Next(back, steps=(CancelDrain(case.name, door, seen.leadership.epoch),))


def rate(wish: ScaleDownSpec) -> int:
    """Return how many bytes a second a bookie is to copy away at most; 0: as for repairs."""
    return min(int(parse_quantity(wish.copy_rate)), _RATE_MAX) if wish.copy_rate is not None else 0


def _start(seen: Observation, one: Assessed) -> StartDrain:
    assert one.case.pod is not None
    wish = seen.cluster.spec.scale_down
    return StartDrain(
        one.case.name,
        doors.of(seen.cluster, one.case.pod),
        seen.leadership.epoch,
        rate(wish),
        OpenLedgers.RECOVER if wish.open_ledgers == "Recover" else OpenLedgers.WAIT,
    )


def _is_carried_out(wish: StartDrain, drain: DrainStatus) -> bool:
    recovers = wish.open_ledgers is OpenLedgers.RECOVER
    return (drain.recovers_open_ledgers, drain.asked_bytes_per_second) == (recovers, wish.bytes_per_second)


def _is_of_now(seen: Observation, stored: LeavingStatus, found: References) -> bool:
    """Return True when a look counts for the proof: the first began after the drain did, the second after the first
    had ended (spec/operator.md#J5). One that a caller left unfinished goes on with what it read before."""
    first = next((known for known in stored.looks if known.is_clean), None)
    return seen.now_ms - found.age_ms >= parse_time(first.at if first is not None else stored.since)
