"""Whether ledgers that auto-recovery has marked speak against a stop. Pure.

Our own bookies say themselves what they lack (plan/filling.py, plan/stages.py). What bookies of others lack (of another
cluster in the same metadata store, or of Java) only an auditor notes: its marks stand in the metadata store, and a
bookie reads them for us (spec/operator.md#Q20, spec/metadata.md#M55). A fleet whose bookies are all of an older release
is not asked.

A mark goes when a worker has looked at its ledger. That may be never: nobody runs a worker, or the replica is lost for
good. So the gate has an end, which is told: each bookie waits for each ledger `repair.peerGrace` long, as for bookies
of others that are away, and as long again for an answer where none comes. Only time that looks saw counts: of the
time between two looks no more than a look is good for. A look, and how long was waited, are kept in the memory of this
operator process alone: whoever comes next waits anew.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model.values import format_time, parse_duration
from bookie_operator.plan.observation import MarksLook, Observation
from bookie_operator.plan.stages import Assessed

CAPABILITY = "marks"  # of bookies: they can be asked
# A look is made anew after this time, and says nothing after that.
_AGAIN_MS, VALID_MS = 60_000, 180_000
_LEDGERS_SHOWN_MAX = 3
# So many ledgers of a bookie a look lists at the most, those with the lowest ids (bookie/client/repair/marked.py).
LISTED_MAX = 100
# Of each bookie: how many ledgers that a full list pushed out are remembered, with how long they were waited for.
_PUSHED_OUT_MAX = 1_000


@dataclass(frozen=True, slots=True)
class MarksQuestion:
    """Whom to ask which marked ledgers want one of the bookies `ids` not to be stopped."""

    reader: BookieCase
    ids: tuple[str, ...]


def to_ask(seen: Observation) -> MarksQuestion | None:
    """Return what to ask now; None when the last look is young enough, or nobody can say."""
    readers = seen.readers(CAPABILITY)
    ids = tuple(sorted(case.bookie_id for case in seen.bookies if case.is_ours))
    if not readers or not seen.leadership.is_held:
        return None
    look = seen.marks
    # A look from after now: the clock was set back, and how old it is nobody knows.
    if look is not None and look.asked == ids and 0 <= seen.now_ms - look.ended_ms < _AGAIN_MS:
        return None
    before = look.reader if look is not None and look.problem else ""
    return MarksQuestion(next((one for one in readers if one.name > before), readers[0]), ids)


def why_not(seen: Observation, one: Assessed) -> str:
    """Return why marks speak against a stop of `one`; "" when none does (spec/operator.md#Q20)."""
    if not seen.readers(CAPABILITY):
        return ""  # an older release; and who cannot reach the store is no candidate (spec/operator.md#Q2)
    look, bookie_id = seen.marks, one.case.bookie_id
    if look is None or not 0 <= seen.now_ms - look.began_ms <= VALID_MS or bookie_id not in look.asked:
        why = "nobody has looked lately which ledgers auto-recovery has marked"
        return why if seen.cluster.spec.autorecovery.enabled else ""
    if look.problem:
        until = _until(seen, look, look.unanswered_ms) if seen.cluster.spec.autorecovery.enabled else ""
        why = f"no bookie could look which ledgers auto-recovery has marked: {look.problem}"
        return f"{why}; {until}" if until else ""
    ends = {
        ledger_id: until
        for ledger_id in look.held.get(bookie_id, ())
        if (until := _until(seen, look, look.waited_ms.get((bookie_id, ledger_id), 0)))
    }
    if not ends:
        return ""
    shown = sorted(ends)[:_LEDGERS_SHOWN_MAX]
    found = "; ".join(f"ledger {ledger_id}: {look.held[bookie_id][ledger_id]}" for ledger_id in shown)
    why = f"auto-recovery has marked ledgers that might be undecidable without {one.case.name}: {found}"
    return f"{why}; {max(ends.values())}"


def following(before: MarksLook | None, found: MarksLook) -> MarksLook:
    """Return `found`, which comes after `before`, with how long has been waited for what it found."""
    passed_ms = min(max(found.ended_ms - before.ended_ms, 0), VALID_MS) if before is not None else 0
    known = before.waited_ms if before is not None else {}
    if found.problem:
        unanswered_ms = before.unanswered_ms + passed_ms if before is not None and before.problem else 0
        return replace(found, waited_ms=known, unanswered_ms=unanswered_ms)
    each = [(bookie_id, ledger_id) for bookie_id, ledgers in found.held.items() for ledger_id in ledgers]
    waited_ms = {one: known[one] + passed_ms if one in known else 0 for one in each}
    return replace(found, waited_ms=dict(_pushed_out(known, found)) | waited_ms)


def _pushed_out(known: Mapping[tuple[str, int], int], found: MarksLook) -> Iterator[tuple[tuple[str, int], int]]:
    """Yield how long ledgers have been waited for that `found` does not list and that may be marked all the same: its
    list is full of lower ids. Where such come and go, what comes back into the list would be waited for anew, for
    ever."""
    last = {bookie_id: max(listed) for bookie_id, listed in found.held.items() if len(listed) >= LISTED_MAX}
    for bookie_id, highest in last.items():
        out = sorted(ledger_id for one, ledger_id in known if one == bookie_id and ledger_id > highest)
        yield from (((bookie_id, one), known[bookie_id, one]) for one in out[:_PUSHED_OUT_MAX])


def _until(seen: Observation, look: MarksLook, waited_ms: int) -> str:
    """Return until when the gate is closed, with `waited_ms` of its time over when `look` ended; "" when it is open."""
    end_ms = look.ended_ms + parse_duration(seen.cluster.spec.repair.peer_grace) - waited_ms
    if seen.now_ms >= end_ms:
        return ""
    return f"the stop waits until they are mended, or until {format_time(end_ms)} (spec.repair.peerGrace)"
