"""Whether ledgers that auto-recovery has marked speak against a stop. Pure.

Our own bookies say themselves what they lack (plan/filling.py, plan/stages.py). What bookies of others lack (of another
cluster in the same metadata store, or of Java) only an auditor notes: its marks stand in the metadata store, and a
bookie reads them for us (spec/operator.md#Q20, spec/metadata.md#M55). A fleet whose bookies are all of an older release
is not asked.

A mark goes when a worker has looked at its ledger. That may be never: nobody runs a worker, or the replica is lost for
good. So the gate has an end, which is told: `repair.peerGrace` after the first of the looks that found such marks one
after the other, as for bookies of others that are away. A look, and since when, are kept in the memory of this operator
process alone: whoever comes next waits anew.
"""

from dataclasses import dataclass, replace

from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model.values import format_time, parse_duration
from bookie_operator.plan.observation import MarksLook, Observation
from bookie_operator.plan.stages import Assessed

CAPABILITY = "marks"  # of bookies: they can be asked
# A look is made anew after this time, and says nothing after that.
_AGAIN_MS, _VALID_MS = 60_000, 180_000


@dataclass(frozen=True, slots=True)
class MarksQuestion:
    """Whom to ask which marked ledgers want one of the bookies `ids` not to be stopped."""

    reader: BookieCase
    ids: tuple[str, ...]


def to_ask(seen: Observation) -> MarksQuestion | None:
    """Return what to ask now; None when the last look is young enough, or nobody can say."""
    reader = _reader(seen)
    ids = tuple(sorted(case.bookie_id for case in seen.bookies if case.is_ours))
    if reader is None or not seen.leadership.is_held:
        return None
    if seen.marks is not None and seen.marks.asked == ids and seen.now_ms - seen.marks.ended_ms < _AGAIN_MS:
        return None
    return MarksQuestion(reader, ids)


def why_not(seen: Observation, one: Assessed) -> str:
    """Return why marks speak against a stop of `one`; "" when none does (spec/operator.md#Q20)."""
    if _reader(seen) is None:
        return ""  # an older release; and who cannot reach the store is no candidate (spec/operator.md#Q2)
    look = seen.marks
    is_valid = look is not None and seen.now_ms - look.began_ms <= _VALID_MS and one.case.bookie_id in look.asked
    if look is None or not is_valid:
        why = "nobody has looked lately which ledgers auto-recovery has marked"
        return why if seen.cluster.spec.autorecovery.enabled else ""
    end_ms = (look.since_ms or look.ended_ms) + parse_duration(seen.cluster.spec.repair.peer_grace)
    if is_over(seen, look):
        return ""
    until = f"the stop waits until they are mended, or until {format_time(end_ms)} (spec.repair.peerGrace)"
    if look.problem and seen.cluster.spec.autorecovery.enabled:
        return f"no bookie could look which ledgers auto-recovery has marked: {look.problem}; {until}"
    if found := look.held.get(one.case.bookie_id, ""):
        return f"auto-recovery has marked ledgers that might be undecidable without {one.case.name}: {found}; {until}"
    return ""


def is_over(seen: Observation, look: MarksLook) -> bool:
    """Return True when marks have been waited for long enough."""
    grace_ms = parse_duration(seen.cluster.spec.repair.peer_grace)
    return look.since_ms is not None and seen.now_ms >= look.since_ms + grace_ms


def following(before: MarksLook | None, found: MarksLook) -> MarksLook:
    """Return `found` with since when the looks up to it were not clear: it comes after `before`."""
    if not found.held and not found.problem:
        return found
    since_ms = before.since_ms if before is not None else None
    return replace(found, since_ms=found.ended_ms if since_ms is None else since_ms)


def _reader(seen: Observation) -> BookieCase | None:
    """Return a bookie that can look into the pinned metadata store, and knows the question."""
    expected = seen.cluster.spec.metadata_service.expected_instance_id or seen.cluster.status.instance_id
    able = [
        case
        for case in seen.bookies
        if case.can_look_into(expected) and case.report is not None and CAPABILITY in case.report.capabilities
    ]
    return min(able, key=lambda case: case.name, default=None)
