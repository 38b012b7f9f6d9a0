"""Bookies whose volumes go with their pods (kind Ephemeral): to stop one is to lose what it has (spec/operator.md#X8 to
X13). Pure.

So nobody stops one that holds data. What would stop another bookie has this one drained, proven to be named by no
ledger, forgotten and begun anew in another pod: the way of a rebuild (rebuild.py), by the same states and behind the
same gates (leaving.py). Two things ask for it: what its pod runs is not what the spec says, and its node is drained.

Level-based, like every rebuild: what is set back before the pod is gone ends it. From then on there is nothing to come
back to, and it goes on.
"""

from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model.status import Departure
from bookie_operator.plan import revisions
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import Assessed

_WITHOUT_ITS_POD = (Departure.RETIRING, Departure.FORGETTING, Departure.FORGOTTEN, Departure.RECLAIMED)


def to_begin_anew(seen: Observation) -> tuple[str, ...]:
    """Return the bookies that are to begin anew in other pods because their volumes do not outlive the present ones."""
    return tuple(case.name for case in seen.bookies if case.is_ephemeral and _is_to_begin_anew(seen, case))


def of_drained_nodes(seen: Observation) -> tuple[str, ...]:
    """Return those of `to_begin_anew` that have to leave their nodes."""
    waiting = to_begin_anew(seen)
    return tuple(case.name for case in seen.bookies if case.name in waiting and drained(case))


def rolled(seen: Observation) -> tuple[str, ...]:
    """Return those of `to_begin_anew` that an edit of the spec asks for, and that have not ended yet."""
    waiting = to_begin_anew(seen)
    return tuple(
        case.name for case in seen.bookies if case.name in waiting and case.pod is not None and _is_rolled(seen, case)
    )


def begun_anew(seen: Observation, fleet: tuple[Assessed, ...]) -> str | None:
    """Return the bookie that the operator last began anew in another pod, until that is in service (to be stored: what
    it was taken for is known of it while it leaves, and no longer)."""
    for one in fleet:
        is_anew = one.case.is_ephemeral and one.leaving is not None and one.leaving.rebuilds
        if is_anew and one.leaving is not None and one.leaving.state in _WITHOUT_ITS_POD:
            return one.case.name
    known = seen.cluster.status.rollout
    name = known.begun_anew if known is not None else None
    return next((name for one in fleet if one.case.name == name and not one.stage.serves), None)


def holds_data(one: Assessed) -> str:
    """Return why the pod of this bookie must not end; "" when nothing goes with it. Of a bookie that has lived it may,
    unless we know that what we recorded was in another pod (spec/operator.md#X9)."""
    case = one.case
    if not case.is_ephemeral or case.pod is None or not one.has_lived:
        return ""
    if all(volume.is_replaced for volume in case.volumes):
        return ""
    return f"the volumes of {case.name} go with its pod (kind Ephemeral), so that it is drained and begun anew instead"


def may_hold_data(seen: Observation, one: Assessed) -> str:
    """Return why the pod of this bookie, which is down, must not be replaced; "" when nothing goes with it. Where
    nobody could list cookies, one that was never seen to live may have served unseen, unless the fleet never served."""
    is_unseen = one.case.is_ephemeral and one.case.pod is not None and not one.case.is_listed
    if is_unseen and seen.cluster.status.instance_id is not None:
        return f"nobody could list cookies, and what {one.case.name} has goes with its pod (kind Ephemeral)"
    return holds_data(one)


def _is_to_begin_anew(seen: Observation, case: BookieCase) -> bool:
    entry = seen.cluster.status.bookie(case.name)
    stored = entry.leaving if entry is not None else None
    is_gone = case.pod is None or case.pod.is_terminating
    if is_gone:
        return stored is not None and stored.rebuilds and stored.state in _WITHOUT_ITS_POD
    if case.report is None or not case.report.state.serves:
        return False
    return bool(drained(case)) or _is_rolled(seen, case)


def drained(case: BookieCase) -> str:
    """Return why the bookie is to leave its node ("node N is cordoned"); "" when it may stay, or goes already."""
    pod = case.pod
    node = case.nodes.get(pod.node) if pod is not None else None
    if pod is None or pod.is_terminating or node is None or not node.drained:
        return ""
    return f"node {node.name} is {node.drained}"


def _is_rolled(seen: Observation, case: BookieCase) -> bool:
    """Return True when the user changed what the pod is made of, and the operator is to roll it out."""
    wish = seen.cluster.spec.rollout
    if wish.paused or wish.strategy == "Manual":
        return False
    return revisions.is_behind(seen, case)
