"""A fleet that sleeps: every bookie is stopped in order, all that it has is kept, and it wakes as it was. Pure.

    Waiting      asked for, and something must not be cut off (spec/operator.md#Z1): a repair, a drain, a turn
    Stopping     every bookie refuses writes and flushes with proof; only then the StatefulSets run none   (#Z2)
    Hibernated   no pod is left; claims, cookies, metadata and the record stay
    Waking       the StatefulSets run as many as before, made of what they were made of                    (#Z4)

From Stopping to Waking this module holds *the* turn of the whole fleet: nobody rolls out, drains, evicts, grows or
replaces anything meanwhile. It takes that turn only in a pass in which nobody else has one.

All bookies refuse writes before the first one stops. *What it costs:* writers get errors from then on, instead of
moving from bookie to bookie; but no ensemble change runs after a fleet that goes anyway, and each copy is flushed where
it is. Level-based: each pass looks up which StatefulSets run none and which pods are there; the stored state says only
what was begun.

What a pod that is off does not say proves nothing: no bookie counts as away, or as lost, because it sleeps (#Z3).
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from bookie_operator.model import names
from bookie_operator.model.assignment import BookiePool
from bookie_operator.model.status import BookieClusterStatus, Departure, HibernationState, HibernationStatus
from bookie_operator.model.values import format_time
from bookie_operator.plan import doors, formats, gates, pace, revisions, rollout, stop_gates, turns
from bookie_operator.plan.actions import Apply, DeleteChild, FlushBookie, ResumeBookie, ScalePool, StopFleet
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import Assessed
from bookie_operator.resources import inputs
from bookie_operator.resources.common import Manifest

_MESSAGE_MAX = 512
WHY_HELD_UP = "the fleet hibernates, or wakes up"
WHY_OFF = "its pod is off, because spec.lifecycle.hibernate is true; its claims and its cookie are kept"


@dataclass(frozen=True, slots=True)
class Hibernation:
    """`action`: after the status of this pass is stored. `scales`: back up, at any time. `off`: bookies without a pod
    because of this."""

    status: HibernationStatus | None = None
    action: StopFleet | None = None
    resumes: tuple[ResumeBookie, ...] = ()
    scales: tuple[ScalePool, ...] = ()
    off: frozenset[str] = frozenset()
    anew: frozenset[str] = frozenset()  # StatefulSets that are applied as the spec says, although the fleet wakes

    @property
    def state(self) -> HibernationState | None:
        return self.status.state if self.status is not None else None

    @property
    def has_the_turn(self) -> bool:
        return self.state is not None and self.state is not HibernationState.WAITING

    def may_change(self, change: Apply | DeleteChild) -> bool:
        """Return True for a change of a child that may be made now: no StatefulSet is touched while the fleet sleeps,
        so that it wakes as what it was; edits come after it, behind their gates."""
        if isinstance(change, Apply):
            kind, name = change.manifest["kind"], change.manifest["metadata"]["name"]
        else:
            kind, name = change.kind, change.name
        return kind != "StatefulSet" or not self.has_the_turn or (isinstance(change, Apply) and name in self.anew)


def has_begun(status: BookieClusterStatus) -> bool:
    """Return True while, by the stored status, the sleep or the waking of the fleet has the turn of all bookies."""
    return status.hibernation is not None and status.hibernation.state is not HibernationState.WAITING


def is_asleep(status: BookieClusterStatus) -> bool:
    """Return True while, by the stored status, bookies are off of the operator's own will: the time since they were
    last seen counts from when the fleet wakes (spec/operator.md#Z3)."""
    known = status.hibernation
    return known is not None and known.state in (HibernationState.STOPPING, HibernationState.HIBERNATED)


def decide(
    seen: Observation, fleet: tuple[Assessed, ...], pools: tuple[BookiePool, ...], away: Collection[str] = ()
) -> Hibernation:
    """Return how far the fleet's sleep is, and what to do about it. `pools`: what each StatefulSet is to run when it is
    awake. `away`: pools whose StatefulSet must not be there now, which nobody who wakes up waits for."""
    wish, stored = seen.cluster.spec.lifecycle, seen.cluster.status.hibernation
    if not wish.hibernate and (stored is None or stored.state is HibernationState.WAITING):
        return Hibernation()  # nobody was told anything
    sets = _sets(seen, pools)
    is_off = not any(one.case.pod is not None for one in fleet) and not any(_runs(live) for live in sets.values())
    was = stored.state if stored is not None else None
    # Off without a word of ours: the status and the record were lost, or the resource is new and asked for it at once.
    if wish.hibernate and is_off and was in (None, HibernationState.STOPPING, HibernationState.HIBERNATED):
        return _told(seen, HibernationState.HIBERNATED, "", off=_off(fleet, sets))
    if wish.paused or not seen.leadership.is_held:
        return _unchanged(seen, fleet, sets)
    to_wake = tuple(pool for pool in pools if pool.name not in away)
    if not wish.hibernate:
        return _wake(seen, fleet, to_wake, sets, "")
    if closed := "; ".join(_closed(seen, fleet, sets)):
        is_begun = was in (HibernationState.STOPPING, HibernationState.HIBERNATED, HibernationState.WAKING)
        return _wake(seen, fleet, to_wake, sets, closed) if is_begun else _told(seen, HibernationState.WAITING, closed)
    return _stop(seen, fleet, sets)


def _unchanged(seen: Observation, fleet: tuple[Assessed, ...], sets: Mapping[str, Manifest]) -> Hibernation:
    """Return what is stored, while this operator may do nothing."""
    stored = seen.cluster.status.hibernation
    why = "spec.lifecycle.paused is true" if seen.cluster.spec.lifecycle.paused else "this operator lacks the lease"
    state = stored.state if stored is not None else HibernationState.WAITING
    return _told(seen, state, why, off=_off(fleet, sets))


# ---- going to sleep ------------------------------------------------------------------------------------------------


def _closed(seen: Observation, fleet: tuple[Assessed, ...], sets: Mapping[str, Manifest]) -> Iterator[str]:
    """Return what must not be cut off now (spec/operator.md#Z1). Who has stopped already is asked no more."""
    left = [one for one in fleet if one.case.is_ours and not _is_stopped(one, sets)]
    yield from turns.told(seen, fleet)
    if not is_asleep(seen.cluster.status) and (why := turns.rest_of_all(seen)):
        yield why
    for one in fleet:
        if one.leaving is not None and one.leaving.state is not Departure.LEAVING and not one.leaving.state.is_gone:
            yield f"{one.case.name} leaves the fleet, and is {one.leaving.state.value}: wait, or set spec.replicas back"
        if one.is_dataless:
            yield f"{one.case.name} is without its data, and heals first"
    if why := gates.collapsed(fleet):
        yield why
    if seen.record_problem:
        yield seen.record_problem
    if left and seen.members_problem:
        yield f"no bookie listed cookies and registrations: {seen.members_problem}"
    for one in left:
        yield from _unready(seen, one, sets)
        yield from formats.closed(seen, fleet, one)  # all wake with the newest revision
    # Nor would canary, windows or soak be asked then.
    for one in pace.behind(seen, fleet):
        if one in left and not revisions.waits_for_volumes(seen, one.case):
            told = inputs.told(revisions.changes(seen, one))
            yield f"{one.case.name} would wake with another {told}: end the roll-out first, or set the spec back"


def _unready(seen: Observation, one: Assessed, sets: Mapping[str, Manifest]) -> Iterator[str]:
    """Return why this bookie may not be stopped in order, or would not come back with all that it has."""
    case, report, expected = one.case, one.case.report, seen.cluster.status.instance_id
    if case.pod is not None and _set_of(one, sets) is None:
        yield f"no StatefulSet runs pod {case.name}: wait until there is one, or delete the pod"
    elif why := stop_gates.unproven(one, may_be_read_only=True) or case.goes:
        yield why
    elif report is not None and report.operator_epoch_seen > seen.leadership.epoch:
        yield f"{case.name} has seen a newer operator (epoch {report.operator_epoch_seen})"
    elif report is not None and expected is not None and report.instance_id != expected:
        yield f"{case.name} is in metadata store {report.instance_id or '?'}, expected {expected}"
    # Without a claim that is known to hold it the data goes with the pod.
    for volume in case.volumes:
        if not volume.is_initialised:
            yield f"claim {volume.claim_name} of {case.name} is not known to hold its data yet"


def _stop(seen: Observation, fleet: tuple[Assessed, ...], sets: Mapping[str, Manifest]) -> Hibernation:
    """Have all flush and refuse writes; and when the pass before saw that they do, flush again and end them."""
    left = [one for one in fleet if one.case.is_ours and not _is_stopped(one, sets)]
    flushes = []
    for one in left:
        assert one.case.pod is not None, "who has no pod is not proven to serve"
        pod = one.case.pod
        flushes.append(FlushBookie(one.case.name, pod.uid, doors.of(seen.cluster, pod), seen.leadership.epoch))
    refused = [seen.hindrances[flush.pod_uid].text for flush in flushes if flush.pod_uid in seen.hindrances]
    is_begun = is_asleep(seen.cluster.status)
    # CRASH: the state is stored before the first bookie hears of it; whoever leads next finds it and goes on, and until
    # then each turn ends by itself (spec/operator.md#Q10).
    may_end = is_begun and all(_refuses(one) for one in left)
    scales = tuple(ScalePool(*_version(live), 0) for live in sets.values() if _runs(live)) if may_end else ()
    why = "; ".join(refused) or ("" if may_end else "every bookie has yet to flush and to refuse writes")
    action = StopFleet(tuple(flushes), scales) if flushes or scales else None
    return _told(seen, HibernationState.STOPPING, why, action=action, off=_off(fleet, sets))


def _refuses(one: Assessed) -> bool:
    pod = one.case.pod
    return pod is not None and rollout.refuses_writes(one, pod.uid) is True and rollout.is_announced(one)


# ---- waking up -----------------------------------------------------------------------------------------------------


def _wake(
    seen: Observation,
    fleet: tuple[Assessed, ...],
    pools: tuple[BookiePool, ...],
    sets: Mapping[str, Manifest],
    why: str,
) -> Hibernation:
    """Run every bookie again: those whose turn was begun take writes, the others get their pods. `why`: what has to be
    done before the fleet may sleep after all; "" = it is to stay awake."""
    resumes = tuple(
        ResumeBookie(one.case.name, doors.of(seen.cluster, one.case.pod), seen.leadership.epoch)
        for one in fleet
        if one.case.pod is not None and one.case.report is not None and one.case.report.has_turn
    )
    # CRASH: a number that is raised twice is raised once. Made of what it was made of: an edit of meanwhile comes after
    # it, one bookie after the other. But where that makes no pod at all, only the edit can help.
    anew = frozenset(
        names.stateful_set(seen.cluster.name, pool.name)
        for pool in pools
        if (name := names.stateful_set(seen.cluster.name, pool.name)) not in sets or f"StatefulSet {name}" in seen.said
    )
    scales = tuple(
        ScalePool(*_version(sets[name]), pool.replicas)
        for pool in pools
        if (name := names.stateful_set(seen.cluster.name, pool.name)) in sets
        and name not in anew
        and _runs(sets[name]) < pool.replicas
    )
    have = {one.case.name for one in fleet if one.case.pod is not None and not one.case.pod.is_terminating}
    missing = [
        pod
        for pool in pools
        for ordinal in range(pool.replicas)
        if (pod := names.pod(seen.cluster.name, pool.name, ordinal)) not in have
    ]
    if not missing and not resumes:
        return Hibernation() if not why else _told(seen, HibernationState.WAITING, why)
    told = why or f"{', '.join(missing[:3]) or resumes[0].bookie} has yet to come back"
    return replace(
        _told(seen, HibernationState.WAKING, told, off=frozenset(missing)),
        resumes=resumes,
        scales=scales,
        anew=anew,
    )


# ---- small parts ---------------------------------------------------------------------------------------------------


def _told(
    seen: Observation,
    state: HibernationState,
    why: str,
    *,
    action: StopFleet | None = None,
    off: frozenset[str] = frozenset(),
) -> Hibernation:
    before = seen.cluster.status.hibernation
    since = before.since if before is not None and before.state is state else format_time(seen.now_ms)
    status = HibernationStatus(state=state, since=since, waiting_for=why[:_MESSAGE_MAX] or None)
    return Hibernation(status, action, off=off)


def _sets(seen: Observation, pools: tuple[BookiePool, ...]) -> dict[str, Manifest]:
    """Return the live StatefulSets of the pools by name, in the order of the pools."""
    found = {}
    for pool in pools:
        name = names.stateful_set(seen.cluster.name, pool.name)
        live = seen.children.get(("StatefulSet", name))
        if live is not None and "deletionTimestamp" not in live["metadata"]:
            found[name] = live
    return found


def _runs(live: Manifest) -> int:
    return int((live.get("spec") or {}).get("replicas") or 0)


def _set_of(one: Assessed, sets: Mapping[str, Manifest]) -> Manifest | None:
    return sets.get(one.case.name.rpartition("-")[0])


def _is_stopped(one: Assessed, sets: Mapping[str, Manifest]) -> bool:
    """Return True for a bookie whose StatefulSet runs it no more, and for one that is no bookie of a pool."""
    if not one.case.is_desired and one.case.pod is None:
        return True
    live = _set_of(one, sets)
    return live is not None and _runs(live) <= int(one.case.name.rpartition("-")[2])


def _off(fleet: tuple[Assessed, ...], sets: Mapping[str, Manifest]) -> frozenset[str]:
    ours = [one for one in fleet if one.case.is_ours and one.case.is_desired]
    ending = [one for one in ours if one.case.pod is None or one.case.pod.is_terminating]
    return frozenset(one.case.name for one in ending if _set_of(one, sets) is None or _is_stopped(one, sets))


def _version(live: Manifest) -> tuple[str, str, str]:
    metadata = live["metadata"]
    return str(metadata["name"]), str(metadata.get("uid", "")), str(metadata.get("resourceVersion", ""))
