"""Who leaves the fleet and how far each one is: drained alive, proven empty, retired, forgotten (spec/operator.md#J1 to
J10).

Pure; worked out anew at each pass from what is seen and what is stored. Each state is stored before whoever it is about
hears of it, so an operator that dies is followed by one that finds the state and does the same again:

    Leaving     it is to leave, and nobody told it yet
    Draining    the bookie was, or will be, told to become read-only and to move its ledgers away
    Drained     two bookies looked, some time apart, and no ledger names it            the proof, stored
    Retiring    it flushes, then the number of its StatefulSet is lowered              the last safe point is before
    Forgetting  its process ended, a third look found nothing, a peer was asked to delete its cookie
    Forgotten   the cookie is gone; its claims are marked as retired
    Reclaimed   its claims are being deleted, because the spec says so and the proof is stored

One bookie at a time, the last of its pool. Whoever is not to leave any more gets back: its drain is cancelled, or its
pod returns with all its data; only when its cookie is gone, a new bookie takes its place.

A bookie that is rebuilt (`rebuild.py`) goes the same way to come back, from wherever in its pool it is. Kubernetes
takes none out of the middle: while it is Retiring or further, its StatefulSet is away and the other pods stay. That is
taken back while it is possible when another pod of the pool needs the StatefulSet (spec/operator.md#X7).

What nobody could look at is never "no": without a list of cookies and registrations, or with a record of metadata that
nobody can read, nothing goes on and no time changes that.
"""

from dataclasses import dataclass, replace

from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model.assignment import BookiePool
from bookie_operator.model.cluster import Cluster
from bookie_operator.model.status import Departure, LeavingStatus
from bookie_operator.model.values import parse_duration, parse_time
from bookie_operator.plan import ephemeral
from bookie_operator.plan.actions import (
    DeleteChild,
    LeaveStep,
    MarkClaim,
    RemoveBookie,
    RetireBookie,
    ScalePool,
)
from bookie_operator.plan.departure import draining, never_lived, reclaiming, retiring, sizes, state, stateful_sets
from bookie_operator.plan.departure.state import Next
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import Assessed

# Between two looks at all metadata that were not clean, and between two orders to forget: each reads every ledger.
LOOK_AGAIN_MS = 30_000


@dataclass(frozen=True, slots=True)
class LeavingPlan:
    """`pools`: what each StatefulSet is to run now. `actions` rest on what is stored; `steps` come after the status of
    this pass is stored. `blocked`: why a pool cannot grow."""

    pools: tuple[BookiePool, ...]
    actions: tuple[MarkClaim | DeleteChild | ScalePool, ...] = ()
    steps: tuple[LeaveStep, ...] = ()
    blocked: tuple[str, ...] = ()
    away: frozenset[str] = frozenset()  # pools whose StatefulSet must not be there now
    is_near_its_end: bool = False  # somebody is between proof and end
    is_going_on: bool = False
    asks_for_turn: bool = False  # somebody could begin if no other cluster came first (plan/staggering.py)

    @property
    def stopped(self) -> tuple[str, ...]:
        """Return the bookies that this pass takes away although they could serve."""
        flushed = (one for one in self.steps if isinstance(one, RetireBookie | RemoveBookie))
        return tuple(one.bookie for one in flushed if one.door is not None)


def decide(seen: Observation, fleet: tuple[Assessed, ...]) -> tuple[tuple[Assessed, ...], LeavingPlan]:
    """Return (the fleet with how far each leaving bookie is, what to do about it)."""
    last = _last_of_pools(fleet)
    turn = _turn(fleet, last)
    found = {one.case.name: _next(seen, fleet, one, is_last=one.case.name in last, turn=turn) for one in fleet}
    fleet = tuple(replace(one, leaving=found[one.case.name].status) for one in fleet)
    pools, scales, blocked, kept = sizes.to_run(seen, fleet)
    near_end = any(one.leaving is not None and one.leaving.state.is_near_its_end for one in fleet)
    plan = LeavingPlan(
        pools=pools,
        actions=(
            *(action for step in found.values() for action in step.actions),
            *scales,
            *sizes.empty_sets(seen, fleet),
        ),
        steps=tuple(action for step in found.values() for action in step.steps),
        blocked=blocked,
        away=kept | {one.case.pool for one in fleet if stateful_sets.needs_no_set(fleet, one)},
        is_near_its_end=near_end,
        is_going_on=any(one.leaving is not None and not one.leaving.state.is_gone for one in fleet),
        asks_for_turn=any(step.asks_for_turn for step in found.values()),
    )
    if seen.cluster.spec.lifecycle.paused:
        plan = replace(plan, actions=(), steps=())
    return fleet, plan


def held_back(
    seen: Observation, fleet: tuple[Assessed, ...], plan: LeavingPlan, unsettled: str
) -> tuple[tuple[Assessed, ...], LeavingPlan]:
    """Let nobody begin to leave for an edit of the spec while it is not settled what pods should run: the API server
    may refuse the edit, and nothing of it counts then (spec/operator.md#X10)."""
    early = {one.case.name for one in fleet if unsettled and draining.begins_for_an_edit(seen, one)}
    if not early:
        return fleet, plan

    def waiting(one: Assessed) -> Assessed:
        before = state.stored(one) or state.now(seen, Departure.LEAVING)
        return replace(one, leaving=state.waits(before, unsettled).model_copy(update={"rebuilds": True}))

    fleet = tuple(waiting(one) if one.case.name in early else one for one in fleet)
    return fleet, replace(plan, steps=tuple(step for step in plan.steps if step.bookie not in early))


def questions(
    cluster: Cluster, cases: tuple[BookieCase, ...], now_ms: int
) -> tuple[tuple[BookieCase, BookieCase], ...]:
    """Return (a bookie that leaves, whom to ask now which ledgers name it): for the proof, and once more before its
    cookie goes."""
    found = []
    for case in cases:
        entry = cluster.status.bookie(case.name)
        stored = entry.leaving if entry is not None else None
        if stored is None or stored.never_lived or not _is_to_be_looked_at(case, stored):
            continue
        last = stored.looks[-1] if stored.looks else None
        is_second = stored.state is Departure.DRAINING and last is not None and last.is_clean
        wait_ms = parse_duration(cluster.spec.scale_down.proof_interval) if is_second else LOOK_AGAIN_MS
        if last is not None and now_ms < parse_time(last.at) + wait_ms:
            continue
        reader = _reader(cluster, cases, case, last.by if is_second and last is not None else "")
        if reader is not None:
            found.append((case, reader))
    return tuple(found)


def _is_to_be_looked_at(case: BookieCase, stored: LeavingStatus) -> bool:
    if stored.state is Departure.DRAINING:
        return case.drain is not None and case.drain.is_draining and case.drain.is_empty
    return stored.state in (Departure.RETIRING, Departure.FORGETTING) and case.pod is None


def _reader(cluster: Cluster, cases: tuple[BookieCase, ...], leaving: BookieCase, before: str) -> BookieCase | None:
    """Return a bookie that can look into the pinned metadata store, another one than `before`. The one that leaves is
    asked only for the second look, where there is no other: what it says of itself alone is no proof
    (spec/operator.md#J5)."""
    able = [case for case in cases if case.name != before and case.can_look_into(cluster.status.instance_id)]
    peers = sorted((case for case in able if case.name != leaving.name), key=lambda case: case.name)
    itself = [case for case in able if case.name == leaving.name and before]
    return next(iter((*peers, *itself)), None)


def in_the_way_of_others(seen: Observation, fleet: tuple[Assessed, ...], candidate: Assessed) -> str:
    """Return why `candidate` may not be stopped of anybody's own will while a bookie is drained; "" when it may
    (spec/operator.md#J9; from its proof on it has the turn, plan/turns.py). The candidate never counts as one that
    takes writes: its own turn, in which it takes none, must not close the gate by which it began."""
    going = [one for one in fleet if one.leaving is not None and not one.leaving.never_lived]
    drained = [one.case.name for one in going if one.leaving is not None and state.has_begun(one.leaving)]
    ensemble = seen.cluster.spec.quorum.ensemble_size
    # Who begins to leave in this very pass is still registered as writable.
    others = [one.case for one in fleet if one.case.is_ours and one.case.name not in (candidate.case.name, *drained)]
    writable = sum(case.member is not None and case.member.is_writable for case in others)
    if drained and writable < ensemble:
        return (
            f"while {drained[0]} leaves {writable} bookies beside {candidate.case.name} take writes, and an ensemble"
            f" needs {ensemble}"
        )
    return ""


def _last_of_pools(fleet: tuple[Assessed, ...]) -> frozenset[str]:
    """Return the bookies that a StatefulSet can let go: the last of each pool, and each before it where all behind it
    held nothing ever."""
    found: set[str] = set()
    for pool in {one.case.pool for one in fleet if one.case.is_desired}:
        mine = [one for one in fleet if one.case.pool == pool and one.case.is_desired]
        for one in sorted(mine, key=lambda one: stateful_sets.ordinal(one.case), reverse=True):
            found.add(one.case.name)
            if not (one.case.is_leaving and never_lived.never_held_data(one)):
                break
    return frozenset(found) | {one.case.name for one in fleet if one.case.is_rebuilt}


def _turn(fleet: tuple[Assessed, ...], last: frozenset[str]) -> str:
    """Return the one bookie that may go on: whoever began, else who leaves a drained node, else by the names of pools
    backwards, as they leave."""
    begun = [
        one for one in fleet if (was := state.stored(one)) is not None and not was.never_lived and state.has_begun(was)
    ]
    to_leave = [
        one for one in fleet if one.case.is_leaving and one.case.name in last and not never_lived.never_held_data(one)
    ]
    waiting = sorted(to_leave, key=lambda one: one.case.pool, reverse=True)
    at_once = [one for one in waiting if one.case.is_rebuilt and one.case.is_ephemeral and ephemeral.drained(one.case)]
    return next((one.case.name for one in (*begun, *at_once, *waiting)), "")


def _next(seen: Observation, fleet: tuple[Assessed, ...], one: Assessed, *, is_last: bool, turn: str) -> Next:
    """Return what becomes of one bookie. Whether it leaves to come back is what the spec says now, as long as it is to
    leave; who is to stay ends what was begun. So does who is to go for good from the middle of its pool, once its
    cookie may be gone: there Kubernetes leaves no number out, and others of the pool are still to go by proof."""
    stored = state.stored(one)
    rebuilds = one.case.is_rebuilt
    if stored is not None:
        is_to_end = not one.case.is_leaving or (not is_last and state.may_be_forgotten(stored))
        rebuilds = rebuilds or (stored.rebuilds and is_to_end)
        stored = stored.model_copy(update={"rebuilds": rebuilds})
    found = _step(seen, fleet, one, stored, is_last=is_last, turn=turn)
    if found.status is None:
        return found
    return replace(found, status=found.status.model_copy(update={"rebuilds": rebuilds}))


def _step(
    seen: Observation,
    fleet: tuple[Assessed, ...],
    one: Assessed,
    stored: LeavingStatus | None,
    *,
    is_last: bool,
    turn: str,
) -> Next:
    if stored is not None and stored.state.is_gone:
        return reclaiming.step(seen, fleet, one, stored)
    if stored is not None and stored.state is Departure.FORGETTING:
        return retiring.forgetting(seen, fleet, one, stored)
    if stored is not None and not one.case.is_desired:
        # Its StatefulSet went with the resource: it goes on where it is proven, else it is an orphan like others.
        is_proven = stored.state is Departure.RETIRING and state.is_proven(seen.cluster, stored)
        return retiring.retired(seen, fleet, one, stored) if is_proven else Next(None)
    if not one.case.is_leaving:
        if stored is None and _is_of_an_operator(one.case):
            stored = state.now(seen, Departure.DRAINING)
        return Next(None) if stored is None else draining.cancelled(seen, one, stored)
    if stored is not None and state.has_begun(stored) and not stored.never_lived and not is_last:
        # It was rebuilt, and now its pool is to become smaller: the higher numbers go first, and then it leaves anew.
        return draining.cancelled(seen, one, stored)
    stored = stored or state.now(seen, Departure.LEAVING)
    if stored.state is Departure.LEAVING or stored.never_lived:
        held_nothing = never_lived.step(seen, one, stored, is_last=is_last)
        if held_nothing is not None:
            return held_nothing
        if stored.never_lived:
            stored = state.now(
                seen, Departure.LEAVING
            )  # it has lived after all: its pod comes back, and it leaves by proof
    if stored.state is Departure.LEAVING:
        return draining.begin(seen, fleet, one, stored, turn)
    if stored.state is Departure.DRAINING:
        return draining.go_on(seen, fleet, one, stored)
    return retiring.go_on(seen, fleet, one, stored)


def _is_of_an_operator(case: BookieCase) -> bool:
    """Return True for a drain that an operator began: what it stored of it may be lost. One that a person began by hand
    is his to cancel (spec/operator.md#Y4)."""
    return case.drain is not None and case.drain.is_draining and case.drain.operator_epoch > 0
