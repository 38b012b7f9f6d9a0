"""The whole plan of one pass, in the order of concerns: protect, then build, then remember, then heal."""

from dataclasses import dataclass

from bookie_operator.model.status import ClosedGate
from bookie_operator.plan import children, claims, repair, revisions, rollout, stages
from bookie_operator.plan.actions import Action, Apply, DeleteChild, SendGrant, StopBookie
from bookie_operator.plan.children import MetadataStep, Obstacle
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.rollout import Rollout
from bookie_operator.plan.stages import Assessed, Stage

# How soon to look again, by the most restless bookie.
_FLUSHED_MS = 250
_MOVING_MS = 1_000
_WAITING_MS = 2_000
_QUIET_MS = 30_000
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
    rollout: Rollout  # its action after those
    obstacles: tuple[Obstacle, ...]
    withheld: tuple[str, ...]  # "Kind name" of what differs from the spec and stays so while paused
    metadata: MetadataStep
    max_unavailable: int
    requeue_ms: int


def decide(observation: Observation) -> FleetPlan:
    """Return the plan for `observation`: the same observation always gives the same plan."""
    cluster = observation.cluster
    fleet = tuple(
        stages.assess(
            case,
            cluster.status.bookie(case.name),
            now_ms=observation.now_ms,
            stabilization_ms=cluster.spec.stabilization_ms,
            healed=[entry.grant_id for entry in cluster.status.history if entry.result == "Healed"],
        )
        for case in observation.bookies
    )
    # Nobody may take another bookie away while one is without its data (spec/operator.md#K13).
    at_risk = any(one.is_dataless for one in fleet)
    max_unavailable = 0 if at_risk else cluster.spec.disruption.max_unavailable
    changes, obstacles, withheld = children.plan(observation, max_unavailable)
    is_paused = cluster.spec.lifecycle.paused
    marks = () if is_paused else tuple(mark for one in fleet for mark in claims.marks(one))
    fleet, closed, sends = repair.decide(observation, fleet)
    rolled = rollout.decide(observation, fleet, _unsettled(observation, changes, obstacles))
    return FleetPlan(
        observation=observation,
        fleet=fleet,
        closed=closed,
        actions=(*changes, *marks),
        sends=sends,
        rollout=rolled,
        obstacles=obstacles,
        withheld=withheld,
        metadata=children.metadata_step(observation),
        max_unavailable=max_unavailable,
        requeue_ms=_requeue_ms(fleet, rolled, is_busy=bool(changes or marks or obstacles or rolled.is_going_on)),
    )


def _unsettled(
    observation: Observation, changes: tuple[Apply | DeleteChild, ...], obstacles: tuple[Obstacle, ...]
) -> str:
    """Return why it is not settled what pods should run; "" when it is."""
    if obstacles:
        return f"{obstacles[0].reason}: {obstacles[0].message}"
    pending = [str(change) for change in changes if isinstance(change, Apply)]
    return f"the operator has yet to {pending[0]}" if pending else revisions.unread(observation)


def _requeue_ms(fleet: tuple[Assessed, ...], rolled: Rollout, *, is_busy: bool) -> int:
    if isinstance(rolled.action, StopBookie) and not rolled.action.may_delete:
        return _FLUSHED_MS
    if any(one.stage in _MOVING for one in fleet):
        return _MOVING_MS
    if is_busy or any(not one.stage.serves for one in fleet):
        return _WAITING_MS
    return _QUIET_MS
