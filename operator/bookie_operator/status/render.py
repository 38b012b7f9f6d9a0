"""The status of one pass."""

from typing import Any

from bookie_operator.evidence.facts import BookieCase, Contents, Mount, RepairFacts, VolumeCase
from bookie_operator.evidence.volume import Finding
from bookie_operator.model import names
from bookie_operator.model.status import (
    HISTORY_MAX,
    BookieClusterStatus,
    BookieStatus,
    Budget,
    Condition,
    HistoryEntry,
    LedgerCounts,
    MetadataStatus,
    OperatorStatus,
    PoolStatus,
    Progress,
    VolumeStatus,
)
from bookie_operator.model.values import format_time
from bookie_operator.plan import claims
from bookie_operator.plan.children import MetadataStep
from bookie_operator.plan.fleet import Plan
from bookie_operator.plan.stages import Assessed, Stage
from bookie_operator.resources import common
from bookie_operator.status import conditions


def render(plan: Plan) -> BookieClusterStatus:
    """What the status should be after `plan`; equal to the stored one when nothing changed."""
    observation = plan.observation
    cluster = observation.cluster
    before, now = cluster.status, format_time(observation.now_ms)
    counts = conditions.Counts.of(plan)
    bookies = tuple(_bookie(plan, one, now) for one in plan.fleet)
    truths = conditions.of(plan)
    stalled = next(truth for truth in truths if truth.type == "Stalled")
    return BookieClusterStatus(
        observed_generation=cluster.generation,
        operator=OperatorStatus(version=observation.operator_version, epoch=observation.leadership.epoch),
        phase=_phase(truths),
        conditions=conditions.dated(truths, before.conditions, cluster.generation, now),
        instance_id=before.instance_id or _instance_id(plan),
        metadata=_metadata(plan, now),
        replicas=sum(one.case.pod is not None for one in plan.fleet),
        ready_replicas=sum(one.case.pod is not None and one.case.pod.is_ready for one in plan.fleet),
        writable_replicas=counts.writable,
        limbo_bookies=sum(
            one.stage in (Stage.LIMBO, Stage.REPAIRING)
            and one.case.repair is not None
            and one.case.repair.ledgers_limbo > 0
            for one in plan.fleet
        ),
        held_bookies=len(counts.held),
        selector=",".join(f"{key}={value}" for key, value in common.selector(cluster).items()),
        summary=f"{sum(one.stage.serves for one in plan.fleet)}/{cluster.spec.replicas}",
        healing=_healing(plan, bookies),
        blocked_by=_blocked_by(plan, stalled),
        pools=tuple(_pools(plan)),
        budget=Budget(
            ack_quorum=cluster.spec.quorum.ack_quorum,
            tolerance=cluster.spec.tolerance,
            dataless=counts.dataless,
            unavailable=counts.unavailable,
            effective_max_unavailable=plan.max_unavailable,
        ),
        bookies=bookies,
        history=_history(plan, now),
    )


def first(before: BookieClusterStatus, generation: int, now_ms: int) -> BookieClusterStatus:
    """The very first write for a new generation, before any child: nothing may look healthy yet (operators.md 5.6)."""
    now = format_time(now_ms)
    truths = [
        conditions.Truth("Reconciling", True, "Bootstrapping", "the operator has seen this generation"),
        conditions.Truth("Stalled", False, "Progressing", ""),
    ]
    if before.condition("Ready") is None:
        truths.insert(0, conditions.Truth("Ready", False, "Bootstrapping", "not started yet"))
    replaced = {truth.type for truth in truths}
    kept = tuple(condition for condition in before.conditions if condition.type not in replaced)
    fresh = conditions.dated(tuple(truths), before.conditions, generation, now)
    return before.model_copy(update={"observed_generation": generation, "conditions": fresh + kept})


def refused(before: BookieClusterStatus, generation: int, message: str, now_ms: int) -> BookieClusterStatus:
    """For a spec that cannot be used: everything stays as it is, and a sentence says why."""
    truths = (
        conditions.Truth("Ready", False, "HumanNeeded", message),
        conditions.Truth("Reconciling", False, "SpecInvalid", message),
        conditions.Truth("Stalled", True, "SpecInvalid", message),
    )
    kept = tuple(entry for entry in before.conditions if entry.type not in {truth.type for truth in truths})
    dated: tuple[Condition, ...] = conditions.dated(truths, before.conditions, generation, format_time(now_ms))
    return before.model_copy(
        update={"observed_generation": generation, "conditions": dated + kept, "blocked_by": "SpecInvalid"}
    )


def _phase(truths: tuple[conditions.Truth, ...]) -> str:
    by_type = {truth.type: truth for truth in truths}
    for kind, word in (("Stalled", "Stalled"), ("RepairInProgress", "Healing"), ("Reconciling", "Reconciling")):
        if by_type[kind].is_true:
            return word
    return "Serving" if by_type["Ready"].is_true else by_type["Ready"].reason


def _instance_id(plan: Plan) -> str | None:
    """Pinned from the first bookie that serves. Everyone must agree, or nothing is pinned."""
    seen = {
        one.case.report.instance_id
        for one in plan.fleet
        if one.stage.serves and one.case.report is not None and one.case.report.instance_id
    }
    return seen.pop() if len(seen) == 1 else None


def _metadata(plan: Plan, now: str) -> MetadataStatus:
    before = plan.observation.cluster.status.metadata
    reports = [one.case.report for one in plan.fleet if one.case.report is not None]
    initialized_at = before.initialized_at if before is not None else None
    if plan.metadata is MetadataStep.READY and initialized_at is None:
        initialized_at = now
    return MetadataStatus(
        initialized_at=initialized_at,
        reachable=any(report.metadata_reachable for report in reports) if reports else True,
    )


def _healing(plan: Plan, bookies: tuple[BookieStatus, ...]) -> str | None:
    words = []
    for one, entry in zip(plan.fleet, bookies, strict=True):
        if one.stage is Stage.REPAIRING and entry.progress is not None:
            words.append(f"{one.case.name} {entry.progress.percent}%")
        elif one.has_loss or one.stage is Stage.LIMBO:
            words.append(f"{one.case.name} {one.stage.value}")
    return ", ".join(words) or None


def _blocked_by(plan: Plan, stalled: conditions.Truth) -> str | None:
    for gates in plan.closed.values():
        if gates:
            return gates[0].name
    return stalled.reason if stalled.is_true else None


def _pools(plan: Plan) -> list[PoolStatus]:
    out = []
    for pool, zone, replicas in plan.observation.cluster.spec.pools():
        name = names.stateful_set(plan.observation.cluster.name, pool)
        live: dict[str, Any] = plan.observation.children.get(("StatefulSet", name)) or {}
        revision = (live.get("status") or {}).get("updateRevision") or ""
        pods = [one.case.pod for one in plan.fleet if one.case.pool == pool and one.case.pod is not None]
        out.append(
            PoolStatus(
                name=pool,
                zone=zone.name if zone is not None else None,
                stateful_set=name,
                desired=replicas,
                current=len(pods),
                ready=sum(pod.is_ready for pod in pods),
                updated=sum(bool(revision) and pod.revision == revision for pod in pods),
            )
        )
    return out


def _bookie(plan: Plan, one: Assessed, now: str) -> BookieStatus:
    case, before = one.case, one.previous
    report, repair = case.report, case.repair
    has_changed = before is None or before.state != one.stage.value
    return BookieStatus(
        name=case.name,
        bookie_id=case.bookie_id,
        pool=case.pool,
        zone=case.zone,
        node=case.pod.node or None if case.pod is not None else None,
        pod_uid=case.pod.uid if case.pod is not None else None,
        state=one.stage.value,
        verdict=one.evidence.verdict.value,
        reason=one.reason,
        message=one.message[:512],
        since=now if before is None or has_changed else before.since,
        incarnation=one.incarnation,
        boot_epoch=report.boot_epoch if report is not None else (before.boot_epoch if before is not None else 0),
        evidence=one.evidence.digest or None,
        volumes=tuple(_volume(one, index, volume) for index, volume in enumerate(case.volumes)),
        ledgers=_ledgers(repair),
        progress=_progress(case),
        suspicion=one.suspicion,
        gates=plan.closed.get(case.name, ()),
        grant=one.grant,
    )


def _volume(one: Assessed, index: int, volume: VolumeCase) -> VolumeStatus:
    finding: Finding | None = one.evidence.volumes[index] if one.evidence.volumes else None
    mount = volume.report.mount if volume.report is not None else Mount.PROOF_UNSPECIFIED
    contents = volume.report.contents if volume.report is not None else Contents.CONTENTS_UNSPECIFIED
    return VolumeStatus(
        name=volume.name,
        role=volume.role,
        claim=volume.claim_name,
        pvc_uid=volume.claim.uid if volume.claim is not None else None,
        pv_name=volume.claim.pv_name or None if volume.claim is not None else None,
        pv_uid=volume.pv.uid if volume.pv is not None else None,
        mount=_word(mount.name) if volume.report is not None else None,
        contents=_word(contents.name) if volume.report is not None else None,
        verdict=finding.verdict.value if finding is not None else None,
        reason=finding.reason if finding is not None else None,
        recorded=claims.record(one, volume),
    )


def _word(name: str) -> str:
    """PROVEN -> Proven; STALE_CONTENTS -> Stale."""
    return name.removesuffix("_CONTENTS").title().replace("_", "")


def _ledgers(repair: RepairFacts | None) -> LedgerCounts | None:
    if repair is None:
        return None
    return LedgerCounts(
        member=repair.ledgers_member,
        fenced=repair.ledgers_fenced,
        limbo=repair.ledgers_limbo,
        pending_repair=repair.ledgers_pending,
        done=repair.ledgers_done,
    )


def percent(repair: RepairFacts) -> int:
    """How far a repair is, 0..100; by entries when the bookie knows how many are missing, else by ledgers."""
    if repair.done:
        return 100
    if repair.entries_pending >= 0:
        done, rest = repair.entries_copied, repair.entries_pending
    else:
        done, rest = repair.ledgers_done, repair.ledgers_pending
    return min(99, 100 * done // (done + rest)) if done + rest > 0 else 0


def _progress(case: BookieCase) -> Progress | None:
    repair = case.repair
    if repair is None or not repair.phase:
        return None
    return Progress(
        phase=repair.phase,
        percent=percent(repair),
        entries=repair.entries_copied,
        bytes=repair.bytes_copied,
        bytes_per_second=int(repair.bytes_per_second),
        entries_pending=repair.entries_pending,
        phase_one_ms=repair.phase_one_ms,
        blocked_ledgers=repair.blocked,
    )


def _history(plan: Plan, now: str) -> tuple[HistoryEntry, ...]:
    """Grants enter when they are issued and are closed when their record goes; the oldest finished ones fall out."""
    entries = {entry.grant_id: entry for entry in plan.observation.cluster.status.history}
    for one in plan.fleet:
        grant, before = one.grant, one.previous.grant if one.previous is not None else None
        if grant is not None and grant.id not in entries:
            entries[grant.id] = HistoryEntry(
                grant_id=grant.id,
                bookie=one.case.name,
                incarnation=grant.new_incarnation,
                profile=grant.profile,
                granted_at=grant.issued_at,
            )
        if before is not None and before.id in entries and (grant is None or grant.id != before.id):
            entries[before.id] = _closed(entries[before.id], one, now)
    newest = sorted(entries.values(), key=lambda entry: (entry.granted_at, entry.grant_id))
    return tuple(newest[-HISTORY_MAX:])


def _closed(entry: HistoryEntry, one: Assessed, now: str) -> HistoryEntry:
    is_healed = one.stage in (Stage.SERVING, Stage.READ_ONLY) and one.incarnation >= entry.incarnation
    repair = one.case.repair or RepairFacts()
    return entry.model_copy(
        update={
            "finished_at": now,
            "result": "Healed" if is_healed else "Void",
            "ledgers": repair.ledgers_done,
            "entries": repair.entries_copied,
            "bytes": repair.bytes_copied,
            "phase_one_ms": repair.phase_one_ms,
        }
    )
