"""Which bookie may be evicted from a node that is drained, and how large the disruption budget is. Pure.

A drain asks the eviction API for all pods of its node, again and again. With `onDrain: ReadOnlyFirst` the budget is 0
and one pod is outside of it: that of the bookie whose turn it is, once it has flushed and takes no more writes, while
every gate of a voluntary stop is open (spec/operator.md#N2). The turn is stored before the bookie hears of it, and
excludes every other turn (plan/turns.py). So it is with `Restart` while one of the bookies would not start elsewhere:
one budget cannot keep that pod alone (spec/operator.md#Q21). Everything else is seen anew in each pass: a gate that
closes shuts the budget again and lets the bookie write; so does a node that is not drained any more.

Never here: a pod deleted. Whoever drains the node evicts it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from bookie_operator.model.status import EvictionStatus, EvictionTurn
from bookie_operator.model.values import format_time
from bookie_operator.plan import dependents, doors, ephemeral, formats, gates, rollout, stop_gates, turns
from bookie_operator.plan.actions import FlushBookie, ResumeBookie
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import HEALING, Assessed, Stage
from bookie_operator.plan.turns import Work


@dataclass(frozen=True, slots=True)
class Eviction:
    """`max_unavailable`: of the budget. `evictable`: the pod that the budget leaves out; "" = none."""

    max_unavailable: int
    evictable: str = ""
    status: EvictionStatus | None = None
    action: FlushBookie | ResumeBookie | None = None

    @property
    def stopped(self) -> str:
        """Return the bookie that this pass takes away or lets be evicted; "" = none."""
        return self.action.bookie if isinstance(self.action, FlushBookie) else self.evictable


def decide(seen: Observation, fleet: tuple[Assessed, ...]) -> Eviction:
    """Return the budget of this pass, and whose turn it is to leave a drained node."""
    unfit = _unfit(seen, fleet)
    if not _is_read_only_first(seen, unfit):
        return _as_restart(seen, fleet, unfit)
    turn = _turn(seen, fleet)
    # Who must not be evicted with its data is drained and begun anew elsewhere (plan/ephemeral.py).
    candidates = [one for one in fleet if ephemeral.drained(one.case) and not ephemeral.holds_data(one)]
    if turn is not None:
        return _go_on(seen, fleet, turn, candidates)
    chosen = _first(candidates, unfit)
    if chosen is None:
        return _kept(fleet, unfit)
    if closed := _closed(seen, fleet, chosen):
        return _told(None, candidates, closed)
    return _go_on(seen, fleet, _begun(seen, chosen), candidates)


def _is_read_only_first(seen: Observation, unfit: Mapping[str, str]) -> bool:
    """Return True when the operator moves bookies off drained nodes. Without the right to read Nodes it sees none, and
    a paused one flushes nobody: evictions are then as with Restart, or no drain would ever end."""
    spec = seen.cluster.spec
    if not seen.can_read_nodes or spec.lifecycle.paused:
        return False
    # Beside bookies that no budget may let go (spec/operator.md#X11, Q21), the others go one by one.
    is_wanted = spec.disruption.on_drain == "ReadOnlyFirst" or spec.has_ephemeral
    return is_wanted or bool(unfit)


def _unfit(seen: Observation, fleet: tuple[Assessed, ...]) -> dict[str, str]:
    """Return, by name, why each bookie that would not start elsewhere would not: a budget tells pods not apart."""
    found = {one.case.name: formats.elsewhere(seen, fleet, one) for one in fleet if one.case.pod is not None}
    return {name: why for name, why in found.items() if why}


def _first(candidates: list[Assessed], unfit: Mapping[str, str]) -> Assessed | None:
    """Return who leaves next; None: nobody is there. Who takes no writes is missed least; who would not start elsewhere
    comes last, and keeps nobody from leaving."""
    return min(
        candidates,
        key=lambda one: (one.case.name in unfit, one.stage is not Stage.READ_ONLY, one.case.name),
        default=None,
    )


def _budget(seen: Observation, fleet: tuple[Assessed, ...]) -> int:
    """Return how many pods may be evicted at once. Kubernetes counts those that are not ready; here are the bookies
    that are ready and must not be counted on, the turn of another stop, who leaves by proof, and a metadata store that
    is away: who is evicted then cannot come back (spec/operator.md#K13, N1, J9)."""
    is_blocked = turns.is_any(seen, fleet, but=Work.EVICTION) or bool(gates.collapsed(fleet))
    is_at_risk = any(
        one.is_dataless or _lacks_copies(one) or one.case.loses_with_its_pod or ephemeral.holds_data(one)
        for one in fleet
    )
    if is_blocked or seen.members_problem or is_at_risk:
        return 0
    return seen.cluster.spec.disruption.max_unavailable


def _lacks_copies(one: Assessed) -> bool:
    report = one.case.report
    has_failed = report is not None and bool(report.directories_failed)
    return one.stage in (Stage.LIMBO, *HEALING) or has_failed


def _turn(seen: Observation, fleet: tuple[Assessed, ...]) -> EvictionTurn | None:
    """Return the stored turn while its pod is there: evicted, the bookie comes back as another pod."""
    before = seen.cluster.status.eviction
    turn = before.turn if before is not None else None
    return turn if turn is not None and _bookie(fleet, turn) is not None else None


def _bookie(fleet: tuple[Assessed, ...], turn: EvictionTurn) -> Assessed | None:
    for one in fleet:
        pod = one.case.pod
        if pod is not None and pod.uid == turn.pod_uid and not pod.is_terminating:
            return one
    return None


def _begun(seen: Observation, one: Assessed) -> EvictionTurn:
    assert one.case.pod is not None
    return EvictionTurn(
        bookie=one.case.name,
        pod_uid=one.case.pod.uid,
        node=one.case.pod.node,
        begun_at=format_time(seen.now_ms),
        was_writable=one.stage is not Stage.READ_ONLY,
    )


def _closed(seen: Observation, fleet: tuple[Assessed, ...], one: Assessed) -> str:
    """Return why this bookie must not be stopped now; "" = it may be: the gates of a roll-out's stop. Of bookies that
    share its node those that left it before, and wait, are excused when no ledger depends on all of them
    (spec/operator.md#N8)."""
    waiting = _waiting_beside(seen, fleet, one)
    rest = tuple(other for other in fleet if other not in waiting)
    unfit = formats.elsewhere(seen, fleet, one)
    closed = "; ".join((*((unfit,) if unfit else ()), *stop_gates.closed(seen, rest, one, Work.EVICTION)))
    if closed or not waiting:
        return closed
    return dependents.why_not(seen, fleet, (one.case.name, *(other.case.name for other in waiting)))


def _waiting_beside(seen: Observation, fleet: tuple[Assessed, ...], one: Assessed) -> tuple[Assessed, ...]:
    """Return the bookies whose pods no node takes: with their data, and without a process."""
    if not dependents.may_share(seen):
        return ()
    return tuple(other for other in fleet if other.case.name != one.case.name and _waits_for_node(other))


def _waits_for_node(one: Assessed) -> bool:
    pod, member = one.case.pod, one.case.member
    if not one.case.is_desired or not one.is_unavailable or one.leaving is not None or one.case.loses_with_its_pod:
        return False
    # Who is registered has a process, whatever became of its pod (deleted by force, say): a look would be too early.
    is_stopped = one.case.is_listed and (member is None or not member.is_registered)
    return is_stopped and pod is not None and not pod.node and not pod.is_terminating


def together(seen: Observation, fleet: tuple[Assessed, ...]) -> tuple[tuple[str, ...], ...]:
    """Return, by drained node, the bookies of which it has to be known whether a ledger depends on all of them: who is
    still there, with those that wait."""
    nodes: dict[str, list[Assessed]] = {}
    for one in fleet:
        if one.case.pod is not None and ephemeral.drained(one.case):
            nodes.setdefault(one.case.pod.node, []).append(one)
    found = []
    for there in nodes.values():
        waiting = _waiting_beside(seen, fleet, there[0])
        if waiting:
            found.append(tuple(one.case.name for one in (*there, *waiting)))
    return tuple(found)


def _go_on(seen: Observation, fleet: tuple[Assessed, ...], turn: EvictionTurn, candidates: list[Assessed]) -> Eviction:
    """Prepare the bookie whose turn it is, let it be evicted, or take its turn back."""
    one = _bookie(fleet, turn)
    assert one is not None
    assert one.case.pod is not None
    closed = _closed(seen, fleet, one) if one in candidates else f"node {turn.node} is not drained any more"
    if not closed and rollout.has_own_mode(one):
        closed = turn.given_back_for or ""  # what was begun is ended: a gate that opens again does not turn it round
    refuses = rollout.refuses_writes(one, turn.pod_uid)
    if closed:
        if refuses and _is_given_back(one, turn):
            return _told(_back(turn, closed), candidates, closed, _resume(seen, one))
        # A turn that is forgotten while its bookie refuses writes would leave it read-only.
        is_over = refuses is False or not _is_given_back(one, turn)
        return _told(None if is_over else _shut(turn), candidates, closed)
    if not _has_spare(seen, fleet, one):
        # Nobody could take its writes: it goes on until it ends, and flushes then.
        return _opened(turn, candidates)
    flush = FlushBookie(one.case.name, turn.pod_uid, doors.of(seen.cluster, one.case.pod), seen.leadership.epoch)
    is_announced = rollout.is_announced(one) or not turn.was_writable
    if refuses and is_announced and turn.pod_uid in seen.flushed:
        return _opened(turn, candidates, flush)  # once more, or its turn would end by itself
    refused = seen.hindrances.get(turn.pod_uid)
    why = refused.text if refused is not None else f"{turn.bookie} has yet to flush and to refuse writes"
    return _told(_shut(turn), candidates, why, flush)


def _is_given_back(one: Assessed, turn: EvictionTurn) -> bool:
    """Return True when the end of the turn has to be told to the bookie."""
    return turn.was_writable or rollout.has_own_mode(one)


def _resume(seen: Observation, one: Assessed) -> ResumeBookie:
    assert one.case.pod is not None
    return ResumeBookie(one.case.name, doors.of(seen.cluster, one.case.pod), seen.leadership.epoch)


def _has_spare(seen: Observation, fleet: tuple[Assessed, ...], leaving: Assessed) -> bool:
    """Return True when the others can make an ensemble: only then is there anywhere for writers to move to."""
    others = sum(one.stage.is_writable for one in fleet if one.case.name != leaving.case.name)
    return others >= seen.cluster.spec.quorum.ensemble_size


def _as_restart(seen: Observation, fleet: tuple[Assessed, ...], unfit: Mapping[str, str]) -> Eviction:
    """Return the plain budget; and let a bookie write again whose turn was stored when the spec said ReadOnlyFirst."""
    turn = _turn(seen, fleet)
    one = _bookie(fleet, turn) if turn is not None else None
    if turn is None or one is None or not _is_given_back(one, turn):
        return _next_of_node(seen, fleet, unfit) or _plain(seen, fleet, unfit)
    if rollout.refuses_writes(one, turn.pod_uid) is False:
        return _plain(seen, fleet, unfit)
    back = _back(turn, "evictions are as with onDrain: Restart")
    told = EvictionStatus(waiting_for="its turn is taken back", turn=back)
    return Eviction(0, status=told, action=_resume(seen, one))


def _plain(seen: Observation, fleet: tuple[Assessed, ...], unfit: Mapping[str, str]) -> Eviction:
    """Return the plain budget: none while any of those whom it protects would not start elsewhere."""
    return _kept(fleet, unfit) if unfit else Eviction(_budget(seen, fleet))


def _kept(fleet: tuple[Assessed, ...], unfit: Mapping[str, str]) -> Eviction:
    """Return that nobody may be evicted, and why: one that would not start elsewhere. The next pass looks at nodes for
    it; it waits for its turn only where its node is drained."""
    if not unfit:
        return Eviction(0)
    waiting = tuple(one.case.name for one in fleet if one.case.name in unfit and ephemeral.drained(one.case))
    return Eviction(0, status=EvictionStatus(waiting=waiting, waiting_for=next(iter(unfit.values()))[:512]))


def _next_of_node(seen: Observation, fleet: tuple[Assessed, ...], unfit: Mapping[str, str]) -> Eviction | None:
    """Return the budget that lets one more bookie go from a node that others have left and wait for; None when the
    plain one holds. Kubernetes counts those that wait as unavailable, and would refuse every other pod."""
    candidates = [one for one in fleet if ephemeral.drained(one.case) and _waiting_beside(seen, fleet, one)]
    chosen = _first(candidates, unfit)
    is_forbidden = seen.cluster.spec.disruption.max_unavailable == 0
    if chosen is None or is_forbidden or _closed(seen, fleet, chosen):
        return None
    return Eviction(0, chosen.case.name)


def _shut(turn: EvictionTurn) -> EvictionTurn:
    return turn.model_copy(update={"is_open": False})


def _back(turn: EvictionTurn, why: str) -> EvictionTurn:
    why = turn.given_back_for or why[: turns.WHY_MAX]
    return turn.model_copy(update={"is_open": False, "given_back_for": why})


def _opened(turn: EvictionTurn, candidates: list[Assessed], again: FlushBookie | None = None) -> Eviction:
    open_turn = turn.model_copy(update={"is_open": True})
    return _told(open_turn, candidates, "", again, evictable=turn.bookie)


def _told(
    turn: EvictionTurn | None,
    candidates: list[Assessed],
    why: str,
    action: FlushBookie | ResumeBookie | None = None,
    *,
    evictable: str = "",
) -> Eviction:
    waiting = tuple(one.case.name for one in candidates if turn is None or one.case.name != turn.bookie)
    status = EvictionStatus(waiting=waiting, waiting_for=why[:512] or None, turn=turn)
    return Eviction(0, evictable, status if waiting or turn is not None else None, action)
