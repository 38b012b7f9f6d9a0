"""The departure of a bookie that never held data (spec/operator.md#J2). Pure."""

from bookie.ports.admin import Contents
from bookie_operator.evidence import processes
from bookie_operator.model.status import Departure, LeavingStatus
from bookie_operator.model.values import format_time
from bookie_operator.plan.departure import state, stateful_sets
from bookie_operator.plan.departure.state import Next
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import Assessed, Stage


def never_held_data(one: Assessed) -> bool:
    """Return True when this bookie has no cookie, no registration, no mark on a claim, and never served, and nobody
    found contents on its volumes: nothing can be lost with it (spec/operator.md#J2). False also where nobody could
    look."""
    case = one.case
    if not case.is_listed or case.member is not None or one.has_lived or one.stage is Stage.HELD:
        return False
    if case.report is not None and (case.report.state.serves or case.report.cookie_present):
        return False
    if any(claim.marks is not None for claim in case.other_claims):
        return False
    if any(claim.contents_found for claim in stateful_sets.claims(case)):
        return False
    return all(
        not volume.is_initialised and (volume.report is None or volume.report.contents is Contents.EMPTY)
        for volume in case.volumes
    )


def step(seen: Observation, one: Assessed, stored: LeavingStatus, *, is_last: bool) -> Next | None:
    """Return what becomes of a bookie that never held data; None when it may have held some.

    Its pod goes first. Its claims go when a later pass finds no pod and still no cookie: a cookie comes before the
    first entry.
    """
    case = one.case
    if stored.never_lived and not case.is_listed:
        return Next(state.waits(stored, state.unlisted(seen)))
    if not never_held_data(one):
        return None
    if seen.record_problem or not seen.leadership.is_held or not is_last:
        return Next(state.waits(stored, seen.record_problem or "the bookies with higher numbers go first"))
    if not stored.never_lived:
        return Next(state.now(seen, Departure.RETIRING, never_lived=True))
    if case.is_rebuilt and (step := stateful_sets.removal(seen, case, door=None)) is not None:
        return Next(state.waits(stored, "its pod ends"), steps=(step,))
    had_no_pod = one.previous is not None and one.previous.pod_uid is None
    if case.pod is not None or not had_no_pod:
        return Next(state.waits(stored, "its pod ends"))
    if doubts := processes.doubts(case, one.processes):  # None too: then nobody knows whether a pod of it ran
        return Next(state.waits(stored, doubts[0]))
    claims = [volume.claim for volume in case.volumes if volume.claim is not None and volume.claim.is_labelled]
    if not claims:
        return Next(state.now(seen, Departure.FORGOTTEN, never_lived=True, forgotten_at=format_time(seen.now_ms)))
    return Next(state.waits(stored, ""), actions=stateful_sets.deletions(claims, "its bookie never held data"))
