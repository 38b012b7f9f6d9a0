"""Whether a bookie can come back with another program, and from it: formats on disk, compared before the bookie is
stopped (spec/operator.md#Q21).

Pure. Two bookies give the evidence, each of itself: the one that would be stopped, and one that serves with the image
that a pod of the former would be made of now. So nothing is known of an image that nobody runs yet, or that is of a
release that says nothing of its formats: such a step passes, and the bookie itself refuses what it cannot read.
"""

from collections.abc import Iterable, Iterator

from bookie.ports.admin import DiskFormat
from bookie_operator.plan import revisions
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import Assessed

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


def there(seen: Observation, fleet: tuple[Assessed, ...], one: Assessed) -> str:
    """Return why `one` would not start with its next program; "" = it would, or nobody knows."""
    for peer, mine, other in _compared(seen, fleet, one):
        if not other.reads(mine.writes):
            return (
                f"{one.case.name} has written {mine.name} format {mine.writes}, and {peer}, which runs the"
                f" image that it would come back with, reads {_range(other)}: it would not start; set spec.image to"
                f" a release that reads {mine.name} format {mine.writes}"
            )
    return ""


def back(seen: Observation, fleet: tuple[Assessed, ...], one: Assessed) -> str:
    """Return why `one` could not come back from its next program to the one that it runs; "" = it could, or nobody
    knows."""
    for peer, mine, other in _compared(seen, fleet, one):
        if not mine.reads(other.writes):
            return (
                f"{peer}, which runs the image that {one.case.name} would come back with, writes {other.name}"
                f" format {other.writes}, and {one.case.name} reads {_range(mine)} as it is: there is no way back"
            )
    return ""


def _compared(
    seen: Observation, fleet: tuple[Assessed, ...], one: Assessed
) -> Iterator[tuple[str, DiskFormat, DiskFormat]]:
    """Yield, of each kind that both name, the peer that speaks for the next program of `one`, what `one` says, and what
    the peer says."""
    peer = _peer(seen, fleet, one)
    if one.case.report is None or peer is None or peer.case.report is None:
        return
    others = {other.name: other for other in peer.case.report.formats}
    named = (mine for mine in one.case.report.formats if mine.name in others)
    yield from ((peer.case.name, mine, others[mine.name]) for mine in named)


def _peer(seen: Observation, fleet: tuple[Assessed, ...], one: Assessed) -> Assessed | None:
    """Return a bookie that serves with the image that a pod of `one` would be made of now. Of several the one whose
    pod was made last: a tag may name another image since. None where `one` comes back without what it has written."""
    image = revisions.next_image(seen, one.case) if not one.case.is_ephemeral else ""
    found = [
        peer
        for peer in fleet
        if image
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
