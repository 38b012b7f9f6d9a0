"""The departure of a bookie from its proof to the end of its cookie (spec/operator.md#J6, J7). Pure.

The last safe point is before the order to forget: whoever is wanted again until then comes back with its data."""

from bookie_operator.evidence import processes
from bookie_operator.model.status import Departure, LeavingStatus
from bookie_operator.model.values import format_time, parse_time
from bookie_operator.plan import doors
from bookie_operator.plan.actions import (
    ForgetBookie,
    RetireBookie,
    ScalePool,
)
from bookie_operator.plan.departure import hindrances, state, stateful_sets
from bookie_operator.plan.departure.state import Next
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import Assessed

# A peer that was asked to forget and did not answer may still do it: nobody comes back under that id before.
# It counts from the start of the pass that asked, and that pass may take two scans: a look, then the order
# (SCAN_DEADLINE_S of gateways/bookies.py each), and a minute more.
FORGET_SETTLES_MS = 300_000


def go_on(seen: Observation, fleet: tuple[Assessed, ...], one: Assessed, stored: LeavingStatus) -> Next:
    """Go on with a bookie that was proven to be named by no ledger: its pod goes, then its cookie."""
    case = one.case
    if stored.state is Departure.RETIRING and (
        stateful_sets.is_lowered(seen, case) or stateful_sets.is_removed(seen, one, stored)
    ):
        return retired(seen, fleet, one, stored)
    if case.drain is None or case.pod is None:
        return Next(state.waits(stored, f"{case.name} cannot be asked: {one.message or one.reason}"))
    if not case.drain.is_draining or not case.drain.is_empty:
        # It restarted, or a writer named it: what was proven is of before.
        return Next(state.now(seen, Departure.DRAINING))
    if why := "; ".join(hindrances.of(seen, fleet, one)):
        # While it waits, the others of its pool have their StatefulSet.
        is_away = stored.rebuilds and stored.state is Departure.RETIRING
        return Next(state.waits(state.since(seen, stored, Departure.DRAINED) if is_away else stored, why))
    if stored.rebuilds:
        return _removed(seen, one, stored)
    live, replicas = stateful_sets.set_of(seen, case.pool)
    if live is None or replicas != stateful_sets.ordinal(case) + 1:
        return Next(state.waits(stored, "its StatefulSet runs bookies with higher numbers"))
    if stored.state is not Departure.RETIRING:
        stored = state.since(seen, stored, Departure.RETIRING)
    scale = ScalePool(*stateful_sets.version(live), stateful_sets.ordinal(case))
    door = doors.of(seen.cluster, case.pod)
    retire = RetireBookie(case.name, case.pod.uid, door, seen.leadership.epoch, scale)
    told = seen.hindrances.get(case.name)
    return Next(state.waits(stored, told.text if told is not None else ""), steps=(retire,))


def _removed(seen: Observation, one: Assessed, stored: LeavingStatus) -> Next:
    """Take the pod of a bookie that is rebuilt away: the StatefulSet first, once that is stored, then the pod."""
    case = one.case
    assert case.pod is not None
    if stored.state is not Departure.RETIRING:
        stored = state.since(seen, stored, Departure.RETIRING)
    step = stateful_sets.removal(seen, case, door=doors.of(seen.cluster, case.pod))
    told = seen.hindrances.get(case.name)
    return Next(state.waits(stored, told.text if told is not None else ""), steps=(step,) if step is not None else ())


def retired(seen: Observation, fleet: tuple[Assessed, ...], one: Assessed, stored: LeavingStatus) -> Next:
    """Go on with a bookie whose StatefulSet runs it no more. Its identity stays until its process is proven to have
    ended and one more look found no reference."""
    case = one.case
    if case.pod is not None:
        return Next(state.waits(stored, "its pod ends"))
    if stored.rebuilds and (why := next(stateful_sets.needs_its_set(fleet, one), "")):
        return Next(state.waits(state.now(seen, Departure.LEAVING), why))  # its pod comes back with all its data
    if doubts := processes.doubts(case, one.processes):
        return Next(state.waits(stored, "; ".join(doubts)))
    if not case.is_listed or seen.record_problem:
        return Next(state.waits(stored, seen.record_problem or state.unlisted(seen)))
    if case.member is None or not case.member.has_cookie:
        return _after_forgetting(seen, one, stored)
    if case.member.is_registered:
        return Next(state.waits(stored, f"{case.bookie_id} is registered in the metadata store: some process runs it"))
    if not state.is_proven(seen.cluster, stored):
        # It was wanted for a while, which made its proof void. It comes back with all its data, and leaves anew.
        return Next(state.waits(state.now(seen, Departure.LEAVING), "its proof is void: it leaves anew"))
    if case.references is None:
        return Next(state.waits(stored, "a bookie looks once more which ledgers name it"))
    look = state.look(seen, case)
    if look.references > look.unreadable:
        # Its pod comes back with all its data, and it leaves anew.
        return Next(state.waits(state.now(seen, Departure.LEAVING), f"{look.references} ledgers name it again"))
    stored = stored.model_copy(update={"looks": (*stored.looks[:2], look)})
    if not look.is_clean:
        return Next(state.waits(stored, state.unclean(look)))
    return _forget(seen, one, state.since(seen, stored, Departure.FORGETTING))


def forgetting(seen: Observation, fleet: tuple[Assessed, ...], one: Assessed, stored: LeavingStatus) -> Next:
    """Find out whether the cookie of a bookie is gone that a peer was asked to forget. Until that is known nobody comes
    back under its id."""
    case = one.case
    if not case.is_listed or seen.record_problem:
        return Next(state.waits(stored, seen.record_problem or state.unlisted(seen)))
    if case.member is None or not case.member.has_cookie:
        return _after_forgetting(seen, one, stored)
    told = seen.hindrances.get(case.name)
    waiting = state.waits(stored, told.text if told is not None else "a peer deletes its cookie")
    # Its StatefulSet may have gone with the resource meanwhile: it goes on, as from Retiring. Not by a proof of another
    # metadata store than the fleet is in now.
    is_to_go = (case.is_leaving or not case.is_desired) and state.is_proven(seen.cluster, stored)
    if stored.rebuilds and (why := next(stateful_sets.needs_its_set(fleet, one), "")):
        is_to_go, waiting = False, state.waits(stored, why)
    if is_to_go and case.pod is None and not case.member.is_registered:
        if case.references is None:
            return Next(waiting)
        look = state.look(seen, case)
        if look.is_clean:
            return _forget(seen, one, waiting.model_copy(update={"looks": (*stored.looks[:2], look)}))
        waiting = state.waits(waiting, state.unclean(look))  # and keeps the time of the last order to forget it
    # Wanted again, or named again: it comes back as soon as no order to forget it can still be on its way.
    asked_ms = parse_time(stored.looks[-1].at if stored.looks else stored.since)
    if seen.now_ms < asked_ms + FORGET_SETTLES_MS:
        return Next(waiting)
    return Next(state.now(seen, Departure.LEAVING) if case.is_leaving else None)


def _after_forgetting(seen: Observation, one: Assessed, stored: LeavingStatus) -> Next:
    """The cookie is gone. Who is registered without one is another process: nothing goes on."""
    if one.case.member is not None:
        return Next(state.waits(stored, f"{one.case.bookie_id} is registered without a cookie: some process runs it"))
    gone = state.since(seen, stored, Departure.FORGOTTEN).model_copy(update={"forgotten_at": format_time(seen.now_ms)})
    return Next(state.waits(gone, ""))


def _forget(seen: Observation, one: Assessed, status: LeavingStatus) -> Next:
    """Ask a peer to forget: the one that has just looked."""
    peer = next(case for case in seen.bookies if case.name == one.case.references_by)
    assert peer.pod is not None
    door = doors.of(seen.cluster, peer.pod)
    order = ForgetBookie(one.case.name, one.case.bookie_id, status.cookie_version, door, seen.leadership.epoch)
    return Next(status, steps=(order,))
