"""Why a bookie must not begin to leave, or lose its pod, now (spec/operator.md#J4, J11). Pure."""

from collections.abc import Iterator

from bookie_operator.model.status import LeavingStatus
from bookie_operator.model.values import format_time, parse_duration, parse_time
from bookie_operator.plan import filling, rebuild, room, turns
from bookie_operator.plan.departure import state, stateful_sets
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import Assessed, Stage
from bookie_operator.plan.turns import Work


def of(seen: Observation, fleet: tuple[Assessed, ...], one: Assessed) -> Iterator[str]:
    """Return what keeps a bookie from beginning to leave, and from losing its pod (spec/operator.md#J4)."""
    report, expected = one.case.report, seen.cluster.status.instance_id
    if seen.cluster.spec.lifecycle.paused:
        yield "spec.lifecycle.paused is true"
    if not seen.leadership.is_held:
        yield "this operator does not hold the lease"
    if seen.record_problem:
        yield seen.record_problem
    if report is not None and report.operator_epoch_seen > seen.leadership.epoch:
        yield f"{one.case.name} has seen a newer operator (epoch {report.operator_epoch_seen})"
    if report is not None and expected is not None and report.instance_id != expected:
        yield f"{one.case.name} is in metadata store {report.instance_id or '?'}, expected {expected}"
    if not one.case.is_listed:
        yield state.unlisted(seen)
    if taken := turns.in_the_way(seen, fleet, Work.DEPARTURE, one.case.name):
        yield taken
    for other in fleet:
        if other.is_dataless:
            yield f"{other.case.name} is without its data, and heals first"
        elif other.stage is Stage.LIMBO:
            yield f"{other.case.name} repairs itself first"
    if one.case.is_rebuilt:
        yield from stateful_sets.needs_its_set(fleet, one)


def to_begin(seen: Observation, fleet: tuple[Assessed, ...], one: Assessed) -> Iterator[str]:
    """Return why a bookie must not begin to leave: those that stay have to be enough, and a fleet that is to sleep
    does so first."""
    case = one.case
    if seen.cluster.spec.lifecycle.hibernate or seen.cluster.status.hibernation is not None:
        yield "the fleet hibernates, or is about to (spec.lifecycle.hibernate)"
    if one.stage not in (Stage.SERVING, Stage.READ_ONLY):
        yield f"{case.name} is {one.stage.value} ({one.message or one.reason}), and only a bookie that serves can leave"
        if found := [claim.name for claim in stateful_sets.claims(case) if claim.contents_found and not claim.marks]:
            yield f"it never lived, and there are contents on {', '.join(found)}: delete what nobody needs by hand"
    elif case.pod is not None and not case.pod.has_certificates:
        yield f"pod {case.name} is of a release without TLS on the admin port: delete it by hand"
    ensemble = seen.cluster.spec.quorum.ensemble_size
    stay = [other.case for other in fleet if other.case.name != case.name and other.case.is_ours]
    writable = sum(other.member is not None and other.member.is_writable for other in stay)
    if case.is_listed and writable < ensemble:
        yield f"{writable} other bookies take writes, and an ensemble needs {ensemble}"
    elif why := room.lacks(seen, fleet, one):
        yield why
    if case.is_rebuilt:
        live, _ = stateful_sets.set_of(seen, case.pool)
        if live is None or not rebuild.is_template_of(seen.cluster.spec.of(case.pool), live):
            yield f"the StatefulSet of {case.name} is made anew with the claim templates of the spec"
        yield from _unproven_before(fleet, one)


def _unproven_before(fleet: tuple[Assessed, ...], one: Assessed) -> Iterator[str]:
    """Return why the bookie that was rebuilt last, or any other, is not in full service: nobody comes after it
    (spec/operator.md#X7)."""
    for other in fleet:
        if not other.case.is_desired or other.case.is_leaving:
            continue
        is_writable = other.case.member is not None and other.case.member.is_writable
        is_ready = other.case.pod is not None and other.case.pod.is_ready
        if other.stage is not Stage.SERVING or not is_writable or not is_ready:
            yield f"{other.case.name} is {other.stage.value} ({other.message or other.reason}), and must take writes"
        elif why := filling.lacks(other):
            yield why


def why_not_empty(seen: Observation, one: Assessed) -> str:
    """Return what keeps ledgers on a bookie that drains."""
    drain = one.case.drain
    assert drain is not None
    words = [drain.error] if drain.error else []
    if drain.blocked_count:
        first = f"ledger {drain.blocked[0].ledger_id}: {drain.blocked[0].reason}" if drain.blocked else ""
        words.append(f"{drain.blocked_count} ledgers cannot be moved now, {first}")
    if drain.open_ledgers and seen.cluster.spec.scale_down.open_ledgers == "Wait":
        words.append(
            f"{drain.open_ledgers} ledgers are open: wait for their writers, or set spec.scaleDown.openLedgers: Recover"
        )
    return "; ".join(words)


def why_unproven(seen: Observation, stored: LeavingStatus) -> str:
    """Return what the proof of an empty bookie waits for."""
    last = stored.looks[-1] if stored.looks else None
    if last is None:
        return "another bookie looks which ledgers name it"
    if not last.is_clean:
        return state.unclean(last)
    due = format_time(parse_time(last.at) + parse_duration(seen.cluster.spec.scale_down.proof_interval))
    return f"{last.by} found no ledger that names it; another bookie looks at {due}"
