"""Whether a bookie can come back with another program, and from it: formats on disk, compared before the bookie is
stopped (spec/operator.md#Q21).

Pure. Two bookies give the evidence, each of itself: the one that would be stopped, and one that serves with the image
that a pod of the former would be made of now. So nothing is known of an image that nobody runs yet, or that is of a
release that says nothing of its formats: such a step passes, and the bookie itself refuses what it cannot read.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from bookie.ports.admin import DiskFormat
from bookie_operator.plan import revisions
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import Assessed, Stage

UNREADABLE = "FormatUnreadable"  # of a bookie: its pod ends at once, for its program cannot read its volumes
_KINDS_MAX = 16  # of which a bookie may tell
_WITHOUT = "spec.rollout.onFailure is Rollback: set it to Halt to go on without a way back, or spec.image back"


def closed(seen: Observation, fleet: tuple[Assessed, ...], one: Assessed) -> Iterator[str]:
    """Yield why `one` must not be stopped in order to come back with what a pod of it would be made of now. While it
    goes back already, nothing is promised of a way from there."""
    if why := there(seen, fleet, one):
        yield why
    rules = seen.cluster.spec.rollout
    is_promised = rules.on_failure == "Rollback" and rules.strategy == "Automatic" and seen.cluster.said is None
    if is_promised and (why := back(seen, fleet, one)):
        yield f"{why}; {_WITHOUT}"


def told(seen: Observation, fleet: tuple[Assessed, ...], older: Iterable[Assessed]) -> str:
    """Return what a person should know of the first of `older` that cannot get its next program, or not come back from
    it, whether or not that closes a gate; "" = nothing."""
    found = (there(seen, fleet, one) or back(seen, fleet, one) for one in older)
    return next((why for why in found if why), "")


def elsewhere(seen: Observation, fleet: tuple[Assessed, ...], one: Assessed) -> str:
    """Return why `one` would not start if its pod ended now, or when this pass has applied what the spec says: who
    evicts it does not wait for the next one. "" = it would, or nobody knows."""
    said = "" if seen.cluster.spec.lifecycle.paused else seen.image
    return there(seen, fleet, one) or _refused(seen, fleet, one, said)


def there(seen: Observation, fleet: tuple[Assessed, ...], one: Assessed) -> str:
    """Return why `one` would not start with its next program; "" = it would, or nobody knows."""
    return _refused(seen, fleet, one, revisions.next_image(seen, one.case))


def worded(seen: Observation, fleet: tuple[Assessed, ...]) -> tuple[Assessed, ...]:
    """Return the fleet, in which each bookie that is down, and that its next program would not bring back, says so."""
    return tuple(_worded(seen, fleet, one) for one in fleet)


def _worded(seen: Observation, fleet: tuple[Assessed, ...], one: Assessed) -> Assessed:
    why = there(seen, fleet, one) if not one.stage.serves else ""
    if not why:
        return one
    has_it = revisions.image(seen, one.case) == revisions.next_image(seen, one.case)
    is_cause = has_it and one.stage in (Stage.MISSING, Stage.UNREACHABLE) and one.reason != "NodeNotReady"
    reason = UNREADABLE if is_cause else one.reason
    return replace(one, reason=reason, message=f"{why} ({one.message or one.reason})")


def written(one: Assessed) -> dict[str, int]:
    """Return, by kind, the formats that `one` has written on the volumes that it has: as it says while it serves, and
    then as it said last; {} = nobody knows. What begins and ends, and ends, has written nothing."""
    report = one.case.report
    if report is not None and report.state.serves:
        return {known.name: known.writes for known in report.formats[:_KINDS_MAX]}
    if one.previous is None or one.is_dataless:
        return {}
    had = {volume.name: volume.pvc_uid for volume in one.previous.volumes}
    has = {volume.name: volume.claim.uid for volume in one.case.volumes if volume.claim is not None}
    is_same = all(had.get(name) == uid for name, uid in has.items())
    return {known.name: known.format for known in one.previous.written} if is_same else {}


def _refused(seen: Observation, fleet: tuple[Assessed, ...], one: Assessed, image: str) -> str:
    peer = _peer(seen, fleet, one, image)
    if peer is None or peer.case.report is None:
        return ""
    mine = written(one)
    for other in peer.case.report.formats:
        if other.name in mine and not other.reads(mine[other.name]):
            wrote = f"{other.name} format {mine[other.name]}"
            return (
                f"{one.case.name} has written {wrote}, and {peer.case.name}, which runs the image that it would come"
                f" back with, reads {_range(other)}: it would not start; set spec.image to a release that reads {wrote}"
            )
    return ""


def back(seen: Observation, fleet: tuple[Assessed, ...], one: Assessed) -> str:
    """Return why `one` could not come back from its next program to the one that it runs; "" = it could, or nobody
    knows."""
    peer = _peer(seen, fleet, one, revisions.next_image(seen, one.case))
    if one.case.report is None or peer is None or peer.case.report is None:
        return ""
    written_by_peer = written(peer)
    for mine in one.case.report.formats:
        number = written_by_peer.get(mine.name)
        if number is not None and not mine.reads(number):
            return (
                f"{peer.case.name}, which runs the image that {one.case.name} would come back with, writes {mine.name}"
                f" format {number}, and {one.case.name} reads {_range(mine)} as it is: there is no way back"
            )
    return ""


def _peer(seen: Observation, fleet: tuple[Assessed, ...], one: Assessed, image: str) -> Assessed | None:
    """Return a bookie that serves with `image`, which `one` would come back with. Of several the one whose pod was made
    last: a tag may name another image since. None where `one` comes back without what it has written."""
    found = [
        peer
        for peer in fleet
        if image
        and not one.case.is_ephemeral
        and peer.case.name != one.case.name
        and revisions.image(seen, peer.case) == image
        and peer.case.report is not None
        and peer.case.report.state.serves
        and peer.case.report.formats
    ]
    return max(found, key=_made, default=None)


def _made(one: Assessed) -> tuple[int, str]:
    return (one.case.pod.created_ms if one.case.pod is not None else 0, one.case.name)


def _range(known: DiskFormat) -> str:
    only = known.reads_from == known.reads_to
    return f"only {known.reads_from}" if only else f"only {known.reads_from} to {known.reads_to}"
