"""The whole plan of one pass, in the order of concerns: protect, then build, then remember, then heal."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bookie_operator.model.cluster import Cluster
from bookie_operator.model.status import ClosedGate, Departure, HibernationState, RolloutStatus, TakenBack
from bookie_operator.plan import (
    adding,
    children,
    claims,
    confirmed_loss,
    cookies,
    deletion,
    dependents,
    ephemeral,
    eviction,
    expansion,
    fencing,
    filling,
    formats,
    hibernation,
    leaving,
    ledger_loss,
    live_settings,
    lost_node,
    operations,
    rebuild,
    repair,
    replacing,
    revisions,
    rollback,
    rollout,
    stages,
    staggering,
    turns,
    volume_replacement,
    windows,
)
from bookie_operator.plan.actions import (
    AcceptLedgerLoss,
    Action,
    Apply,
    ChangeSettings,
    DeleteChild,
    FillHoles,
    MarkClaim,
    RestoreCookie,
    SendGrant,
    SetAside,
    StopBookie,
)
from bookie_operator.plan.children import MetadataStep, Obstacle
from bookie_operator.plan.deletion import Deletion
from bookie_operator.plan.dependents import Question
from bookie_operator.plan.eviction import Eviction
from bookie_operator.plan.expansion import Expansion
from bookie_operator.plan.hibernation import Hibernation
from bookie_operator.plan.leaving import LeavingPlan
from bookie_operator.plan.lost_node import LostNodes
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.operations import Told
from bookie_operator.plan.rebuild import Rebuild
from bookie_operator.plan.rollout import Rollout
from bookie_operator.plan.stages import Assessed, Stage

# How soon to look again, by the most restless bookie.
_FLUSHED_MS = 250
_MOVING_MS = 1_000
_WAITING_MS = 2_000
QUIET_MS = 30_000
_ASLEEP_MS: dict[HibernationState | None, int] = {
    HibernationState.STOPPING: _FLUSHED_MS,
    HibernationState.HIBERNATED: QUIET_MS,
    HibernationState.WAKING: _MOVING_MS,
}
_MOVING = (
    Stage.INSPECTING,
    Stage.BOOTSTRAPPING,
    Stage.SUSPECTED,
    Stage.CONFIRMED,
    Stage.GRANTED,
    Stage.FENCING,
    Stage.STAMPING,
    Stage.REPAIRING,
    Stage.LIMBO,
)


@dataclass(frozen=True, slots=True)
class FleetPlan:
    observation: Observation
    fleet: tuple[Assessed, ...]  # with new grants in it
    closed: dict[str, tuple[ClosedGate, ...]]  # by bookie, of those that wait for a grant
    actions: tuple[Action, ...]  # before the status is written
    sends: tuple[SendGrant, ...]  # after it was written
    expansion: Expansion  # its actions after those
    lost_nodes: LostNodes  # their actions after those, and what people gave up (plan/confirmed_loss.py)
    eviction: Eviction  # its action after those
    rollout: Rollout  # its action after those
    asides: tuple[SetAside, ...]  # after all of that
    cookies: tuple[RestoreCookie, ...]  # and these
    losses: tuple[AcceptLedgerLoss, ...]  # and these
    fills: tuple[FillHoles, ...]  # and these
    settings: tuple[ChangeSettings, ...]  # and these
    operations: tuple[Told, ...]
    leaving: LeavingPlan  # its steps last
    hibernation: Hibernation  # its action after the status is stored, when it has one: then nothing else has
    deletion: Deletion  # what is told; `actions` has what it asks for
    rebuild: Rebuild  # what is told; `leaving` does it
    taken_back: TakenBack | None  # turns that came to nothing, in a row
    obstacles: tuple[Obstacle, ...]
    withheld: tuple[str, ...]  # "Kind name" of what differs from the spec and stays so while paused
    metadata: MetadataStep
    max_unavailable: int
    requeue_ms: int


def held_back(plan: FleetPlan, failures: Sequence[Obstacle]) -> FleetPlan:
    """Return `plan` without all that is done after `actions`, for some of those could not be done."""
    # CRASH: the operator sends no grant and stops nobody until the whole protection is in place; the next pass tries
    # again.
    return replace(
        plan,
        obstacles=(*plan.obstacles, *failures),
        sends=(),
        expansion=replace(plan.expansion, actions=()),
        lost_nodes=replace(plan.lost_nodes, actions=()),
        eviction=replace(plan.eviction, action=None),
        rollout=replace(plan.rollout, action=None),
        asides=(),
        cookies=(),
        losses=(),
        fills=(),
        settings=(),
        leaving=replace(plan.leaving, steps=()),
        hibernation=replace(plan.hibernation, action=None),
    )


def with_turn(observation: Observation) -> Observation:
    """Return `observation` with the mark of the bookie whose turn it is to begin anew; all else is known by now."""
    named, anew = replacing.named(observation), ephemeral.to_begin_anew(observation)
    drained = ephemeral.of_drained_nodes(observation)
    bookies = rebuild.marked(observation.cluster, observation.bookies, named, anew, drained)
    return adding.between(replace(observation, bookies=bookies))


def assess(observation: Observation) -> tuple[Assessed, ...]:
    """Return every bookie with what this pass concludes about it alone."""
    cluster = observation.cluster
    return tuple(
        stages.assess(
            case,
            cluster.status.bookie(case.name),
            now_ms=observation.now_ms,
            stabilization_ms=cluster.spec.stabilization_ms,
            healed=[entry.grant_id for entry in cluster.status.history if entry.result == "Healed"],
            is_asleep=hibernation.is_asleep(cluster.status),
        )
        for case in observation.bookies
    )


def questions(observation: Observation) -> tuple[Question, ...]:
    """Return what to ask bookies about all ledgers before the plan is made (plan/dependents.py)."""
    if not dependents.may_share(observation):
        return ()
    fleet = assess(observation)
    dataless = dependents.dataless_beyond(observation, fleet)
    sets = (dataless, lost_node.together(observation, fleet), *eviction.together(observation, fleet))
    return dependents.to_ask(observation, fleet, sets)


def decide(observation: Observation) -> FleetPlan:
    """Return the plan for `observation`: the same observation always gives the same plan."""
    plan = _decided(observation)
    return plan if children.is_protected(observation) else held_back(plan, ())


def _decided(observation: Observation) -> FleetPlan:
    cluster = observation.cluster
    fleet, departures = leaving.decide(observation, assess(observation))
    observation = operations.with_turn(observation, fleet)
    asleep = hibernation.decide(observation, fleet, departures.pools, departures.away)
    if asleep.has_the_turn:
        departures = replace(departures, actions=(), steps=())
    evicted = eviction.decide(observation, fleet) if not asleep.has_the_turn else Eviction(0)
    to_run = replace(observation, pools=tuple(one for one in departures.pools if one.name not in departures.away))
    changes, obstacles, withheld = children.plan(to_run, evicted.max_unavailable, evicted.evictable)
    changes = tuple(change for change in changes if asleep.may_change(change))
    marks = _marks(cluster, fleet)
    doomed = deletion.decide(observation, fleet)
    fleet, closed, sends = repair.decide(observation, fleet)
    fleet, lost = _lost(observation, fleet) if not asleep.has_the_turn else (fleet, LostNodes({}))
    fleet = formats.worded(observation, fleet)
    grown = expansion.decide(observation, fleet)
    if asleep.has_the_turn:
        grown = replace(grown, actions=())
        fleet = tuple(_off(one) if one.case.name in asleep.off else one for one in fleet)
    unsettled = hibernation.WHY_HELD_UP if asleep.has_the_turn else _unsettled(observation, changes, obstacles)
    fleet, departures = leaving.held_back(observation, fleet, departures, unsettled)
    knowing = _with_eviction(observation, evicted)
    rolled = rollout.decide(
        knowing,
        fleet,
        unsettled,
        operations.restart(observation, fleet),
        grown.to_start,
        volume_replacement.as_judged(observation, fleet),
        is_kept_out=operations.is_kept_out(observation, fleet),
    )
    turns.at_most_one((evicted.stopped, rolled.stopped, *departures.stopped))
    rolled = volume_replacement.with_claim(observation, fleet, rolled)
    rolled = fencing.with_order(observation, fleet, rollback.after(observation, fleet, rolled))
    rolled = replace(rolled, status=_with_turn(observation, fleet, rolled, departures))
    told = operations.tell(observation, fleet, rolled, closed)
    rebuilt = rebuild.progress(observation, fleet, ephemeral.to_begin_anew(observation))
    is_going_on = _is_going_on(rolled, grown, evicted, departures, rebuilt)
    taken = live_settings.orders(observation, fleet) if not (unsettled or changes) else ()
    is_busy = bool(
        taken or changes or marks or doomed.actions or obstacles or is_going_on or any(one.is_moving for one in told)
    )
    return FleetPlan(
        observation=observation,
        fleet=fleet,
        closed=closed,
        actions=(*doomed.taken_back, *changes, *marks, *departures.actions, *doomed.armed, *asleep.scales),
        sends=sends,
        expansion=grown,
        lost_nodes=lost,
        eviction=evicted,
        rollout=rolled,
        asides=fencing.orders(observation, fleet) if not asleep.has_the_turn else (),
        cookies=cookies.orders(observation, fleet) if not asleep.has_the_turn else (),
        losses=ledger_loss.orders(observation),
        fills=filling.to_ask(observation, fleet) if not asleep.has_the_turn else (),
        settings=taken,
        operations=told,
        leaving=departures,
        hibernation=asleep,
        deletion=doomed,
        rebuild=rebuilt,
        taken_back=turns.taken_back(observation, fleet, evicted.status, rolled.status, asleep.status),
        obstacles=obstacles,
        withheld=withheld,
        metadata=children.metadata_step(observation),
        max_unavailable=evicted.max_unavailable,
        requeue_ms=_requeue_ms(fleet, rolled, asleep, is_busy=is_busy),
    )


def _lost(observation: Observation, fleet: tuple[Assessed, ...]) -> tuple[tuple[Assessed, ...], LostNodes]:
    """Return what becomes of volumes whose nodes are gone, and of those that people gave up."""
    fleet, lost = lost_node.decide(observation, fleet)
    return fleet, replace(lost, actions=(*lost.actions, *confirmed_loss.deletions(observation, fleet)))


def _marks(cluster: Cluster, fleet: tuple[Assessed, ...]) -> tuple[MarkClaim, ...]:
    """Return what is to be written on claims, which stays when status and record go. That somebody's data is there is
    noted also while paused: the pod may be gone before the pause ends, and its claims would count as empty."""
    found = tuple(mark for one in fleet for mark in claims.contents(one))
    if cluster.spec.lifecycle.paused:
        return found
    return (*(mark for one in fleet for mark in claims.marks(one)), *found)


def _with_turn(
    observation: Observation, fleet: tuple[Assessed, ...], rolled: Rollout, departures: LeavingPlan
) -> RolloutStatus:
    """Return the roll-out's status with this cluster's turn among those of its operator. An edit that begins bookies
    anew, because their volumes go with their pods, is a roll-out here."""
    known = observation.cluster.status.rollout
    had = known is not None and known.turn_since is not None
    behind = ephemeral.rolled(observation)
    at_once = (*replacing.named(observation), *ephemeral.of_drained_nodes(observation))
    is_begun = (had or bool(behind)) and any(
        one.case.is_ephemeral
        and one.leaving is not None
        and one.leaving.rebuilds
        and one.leaving.state is not Departure.LEAVING
        and one.case.name not in at_once
        for one in fleet
    )
    status = rolled.status
    if departures.asks_for_turn:
        status = status.model_copy(update={"asks_for_turn": True})
    return staggering.remembered(
        observation,
        status,
        is_going_on=rolled.is_going_on or is_begun,
        is_begun=is_begun,
        is_waiting=bool(behind) and not is_begun and bool(windows.of(observation).closed),
    )


def _is_going_on(
    rolled: Rollout, grown: Expansion, evicted: Eviction, departures: LeavingPlan, rebuilt: Rebuild
) -> bool:
    # A window may be days away: nobody looks every other second until then.
    is_rolling = rolled.is_going_on and rolled.status.window_opens_at is None
    is_growing = grown.is_going_on or rebuilt.is_going_on
    return is_rolling or is_growing or evicted.status is not None or departures.is_going_on


def _with_eviction(observation: Observation, evicted: Eviction) -> Observation:
    """Return `observation` as the next workflow is to see it: a turn that this pass gave is a turn (plan/turns.py)."""
    status = observation.cluster.status.model_copy(update={"eviction": evicted.status})
    return replace(observation, cluster=replace(observation.cluster, status=status))


def _off(one: Assessed) -> Assessed:
    return replace(one, reason="Hibernated", message=hibernation.WHY_OFF)


def _unsettled(
    observation: Observation,
    changes: tuple[Apply | DeleteChild, ...],
    obstacles: tuple[Obstacle, ...],
) -> str:
    """Return why it is not settled what pods should run; "" when it is."""
    if obstacles:
        return f"{obstacles[0].reason}: {obstacles[0].message}"
    # Not the budget: it moves with each stop, no pod depends on it, and it is stored before anybody is stopped.
    pending = [str(one) for one in changes if _is_of_pods(one)]
    return f"the operator has yet to {pending[0]}" if pending else revisions.unread(observation)


def _is_of_pods(change: Apply | DeleteChild) -> bool:
    if isinstance(change, Apply):
        return bool(change.manifest["kind"] != "PodDisruptionBudget")
    return change.kind == "StatefulSet"


def _requeue_ms(fleet: tuple[Assessed, ...], rolled: Rollout, asleep: Hibernation, *, is_busy: bool) -> int:
    if asleep.state in _ASLEEP_MS:
        return _ASLEEP_MS[asleep.state]
    if isinstance(rolled.action, StopBookie) and not rolled.action.may_delete:
        return _FLUSHED_MS
    if any(one.stage in _MOVING for one in fleet):
        return _MOVING_MS
    if is_busy or any(not one.stage.serves and one.stage is not Stage.RETIRED for one in fleet):
        return _WAITING_MS
    return QUIET_MS
