"""The claims of a bookie whose cookie is gone: marked, kept, or deleted (spec/operator.md#J8, X7). Pure.

Never here: a claim deleted under a pod."""

from bookie_operator.evidence import processes
from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model import names
from bookie_operator.model.status import Departure, LeavingStatus
from bookie_operator.model.values import parse_duration, parse_time
from bookie_operator.plan.actions import (
    DetachPool,
    MarkClaim,
    RemoveBookie,
)
from bookie_operator.plan.departure import state, stateful_sets
from bookie_operator.plan.departure.state import Next
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import Assessed


def step(seen: Observation, fleet: tuple[Assessed, ...], one: Assessed, stored: LeavingStatus) -> Next:
    """Mark the claims of a forgotten bookie, and delete them when the spec says so (spec/operator.md#J8)."""
    case, stored = one.case, state.waits(stored, "")
    is_on_old = stored.rebuilds and any(
        claim.marks is not None or claim.retired_at for claim in stateful_sets.volume_claims(case)
    )
    if case.member is not None or (case.pod is not None and not is_on_old):
        # Somebody runs it again, or brought its cookie back: it is no bookie that left.
        return Next(state.now(seen, Departure.LEAVING) if case.is_leaving else None)
    claims = stateful_sets.claims(case)
    if not claims and case.is_listed:
        return Next(None if case.is_desired else stored)
    if stored.rebuilds and (hold := _beside_its_mates(seen, fleet, one, stored)) is not None:
        return hold
    unmarked = [claim for claim in claims if claim.marks is not None and not claim.retired_at]
    if unmarked:
        when = {names.RETIRED_AT: stored.forgotten_at or stored.since}
        marks = tuple(MarkClaim(claim.name, claim.uid, when, names.RETIREMENT_MANAGER) for claim in unmarked)
        return Next(stored, actions=marks)
    if not _may_be_deleted(seen, case, stored):
        return Next(stored)
    # Of a bookie that is rebuilt every claim, also one that was made a moment ago and never marked.
    retired = [claim for claim in claims if claim.retired_at or stored.rebuilds]
    reclaimed = stored if stored.state is Departure.RECLAIMED else state.since(seen, stored, Departure.RECLAIMED)
    return Next(reclaimed, actions=stateful_sets.deletions(retired, "its bookie left, and no ledger names it"))


def _beside_its_mates(
    seen: Observation, fleet: tuple[Assessed, ...], one: Assessed, stored: LeavingStatus
) -> Next | None:
    """Return what comes before the claims of a bookie that is rebuilt are deleted; None when nothing does: a pod of its
    pool that is missing comes back, and its own, which came with that one's StatefulSet, goes again."""
    case = one.case
    if why := next(stateful_sets.needs_its_set(fleet, one), ""):
        return Next(state.waits(stored, why))
    if not case.is_listed or seen.record_problem or not seen.leadership.is_held:
        return Next(state.waits(stored, seen.record_problem or state.unlisted(seen))) if case.pod is not None else None
    step: DetachPool | RemoveBookie | None
    if any(not claim.is_terminating for claim in stateful_sets.claims(case)):
        step = stateful_sets.removal(seen, case, door=None)
    else:
        # Its StatefulSet may stay. A pod that began on them before holds them, and one that waits for the new has no
        # node: Kubernetes refuses to use what is being deleted.
        is_in_use = case.pod is not None and case.pod.node
        step = stateful_sets.removal_of_pod(seen, case, door=None) if is_in_use else None
    if step is not None or case.pod is not None:
        return Next(state.waits(stored, "its pod ends, which came with the StatefulSet"), steps=(step,) if step else ())
    doubts = processes.doubts(case, one.processes)
    return Next(state.waits(stored, "; ".join(doubts))) if doubts else None


def _may_be_deleted(seen: Observation, case: BookieCase, stored: LeavingStatus) -> bool:
    """Return True when the stored proof, the spec and the time allow to delete the claims of a bookie that is gone."""
    retention = seen.cluster.spec.storage.retention
    if not case.is_listed or seen.record_problem or not state.is_proven(seen.cluster, stored):
        return False
    if stored.rebuilds:
        return True  # the spec asked for new claims, whatever it says of those of bookies that left
    if retention.on_scale_down != "Delete":
        return False
    since_ms = parse_time(stored.forgotten_at or stored.since)
    return _is_wanted_again(seen, case) or seen.now_ms >= since_ms + parse_duration(retention.keep_for)


def _is_wanted_again(seen: Observation, case: BookieCase) -> bool:
    return any(pool.name == case.pool and stateful_sets.ordinal(case) < pool.wanted for pool in seen.pools)
