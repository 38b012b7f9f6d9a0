"""How fast an edit goes from bookie to bookie: who must have run with it, and for how long, before the next one
(spec/operator.md#Q15). Pure. The roll-out asks, and so does what replaces a roll-out where a stop loses data
(plan/ephemeral.py)."""

from collections.abc import Iterable, Iterator

from bookie_operator.model.values import format_time
from bookie_operator.plan import revisions
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import Assessed

_FIRST_BOOT = 1


def behind(seen: Observation, fleet: tuple[Assessed, ...]) -> list[Assessed]:
    """Return the bookies whose pods are older than what the user says of them, zone by zone."""
    return [one for one in revisions.older(seen, fleet) if revisions.changes(seen, one)]


def soak(seen: Observation, peers: Iterable[Assessed]) -> Iterator[str]:
    """Yield who has not been ready for long enough: nobody else is stopped meanwhile."""
    seconds = seen.cluster.spec.rollout.soak_seconds
    for one in peers:
        since_ms = one.case.pod.ready_since_ms if one.case.pod is not None else None
        if since_ms is not None and seen.now_ms < since_ms + seconds * 1_000:
            since = format_time(since_ms)
            yield f"{one.case.name} has been ready since {since}, and spec.rollout.soakSeconds is {seconds}"


def canary(seen: Observation, fleet: tuple[Assessed, ...], candidate: Assessed) -> Iterator[str]:
    """Yield why nobody comes after the first `count` bookies yet (spec/operator.md#Q15). A candidate that takes nothing
    new, which a person wants stopped, is not concerned."""
    wanted, older = seen.cluster.spec.rollout.canary, behind(seen, fleet)
    if not wanted.count or candidate not in older:
        return
    updated = [one for one in fleet if one.case.is_desired and one.case.pod is not None and one not in older]
    updated = [one for one in updated if not _is_newcomer(one)]
    since_ms = sorted(one.case.pod.ready_since_ms or seen.now_ms for one in updated if one.case.pod is not None)
    if len(since_ms) < wanted.count:
        return
    end_ms = since_ms[wanted.count - 1] + wanted.soak_seconds * 1_000
    if seen.now_ms < end_ms:
        yield (
            f"spec.rollout.canary: {wanted.count} of {len(older) + len(updated)} bookies run what the spec says first,"
            f" alone until {format_time(end_ms)}"
        )


def _is_newcomer(one: Assessed) -> bool:
    """Return True for a bookie that began its first life with it: it is new for another reason, and holds next to
    nothing, so that it shows nothing. Where volumes go with the pod all that have it are in their first boot."""
    report = one.case.report
    return report is not None and report.boot_epoch <= _FIRST_BOOT and not one.case.is_ephemeral
