"""Makes the status of a BookieCluster from the plan of one pass."""

from collections.abc import Iterator
from typing import Any

from bookie.ports.admin import Contents, MountProof, RepairStatus, StorageReport
from bookie_operator.evidence.facts import BookieCase, VolumeCase
from bookie_operator.evidence.reasons import Finding
from bookie_operator.model import names
from bookie_operator.model.assignment import BookiePool
from bookie_operator.model.status import (
    CHANGED_MAX,
    HISTORY_MAX,
    NOBODY_LOOKED,
    BookieClusterStatus,
    BookieStatus,
    Budget,
    HistoryEntry,
    LedgerCounts,
    MetadataStatus,
    OperatorStatus,
    PoolStatus,
    RepairProgress,
    VolumeStatus,
    WrittenFormat,
)
from bookie_operator.model.values import format_time
from bookie_operator.plan import adding, claims, fencing, formats, revisions
from bookie_operator.plan.children import MetadataStep
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.plan.stages import Assessed, Stage
from bookie_operator.resources import common
from bookie_operator.status import autorecovery, conditions, growth, repairs, truth
from bookie_operator.status.sight import Sight
from bookie_operator.status.truth import Truth


def render(plan: FleetPlan) -> BookieClusterStatus:
    """Return the status after `plan`; equal to the stored one when nothing changed."""
    observation = plan.observation
    cluster = observation.cluster
    before, now = cluster.status, format_time(observation.now_ms)
    sight = Sight.of(plan)
    entries = [(one, _bookie(plan, one, now)) for one in plan.fleet]
    bookies = tuple(entry for one, entry in entries if one.case.is_desired)
    truths = conditions.of(plan)
    stalled = next(one for one in truths if one.type == "Stalled")
    return BookieClusterStatus(
        observed_generation=cluster.generation,
        operator=OperatorStatus(
            version=observation.operator_version,
            epoch=observation.leadership.epoch,
            leader=observation.leadership.term,
            owner=before.operator.owner,
        ),
        phase=_phase(truths),
        conditions=truth.dated(truths, before.conditions, cluster.generation, now),
        instance_id=before.instance_id or _instance_id(plan),
        metadata=_metadata(plan, sight, now),
        replicas=sum(one.case.pod is not None for one in plan.fleet),
        ready_replicas=sum(one.case.pod is not None and one.case.pod.is_ready for one in plan.fleet),
        writable_replicas=_counted(sight, sight.writable),
        limbo_bookies=_counted(
            sight,
            sum(
                one.stage in (Stage.LIMBO, Stage.REPAIRING)
                and one.case.repair is not None
                and one.case.repair.ledgers_limbo > 0
                for one in plan.fleet
            ),
        ),
        held_bookies=_counted(sight, len(sight.held)),
        unseen_bookies=len(sight.unlooked),
        selector=",".join(f"{key}={value}" for key, value in common.selector(cluster).items()),
        summary=_summary(sight),
        healing=_healing(entries),
        blocked_by=_blocked_by(plan, stalled),
        pools=tuple(_pools(plan)),
        added_volumes=tuple(sorted(adding.taken(observation))),
        budget=Budget(
            ack_quorum=cluster.spec.quorum.ack_quorum,
            tolerance=cluster.spec.tolerance,
            dataless=len(sight.dataless),
            unavailable=len(sight.away),
            unseen=len(sight.silent),
            effective_max_unavailable=plan.max_unavailable,
        ),
        rollout=plan.rollout.status,
        expansion=growth.status(plan),
        rebuild=plan.rebuild.status,
        eviction=plan.eviction.status,
        hibernation=plan.hibernation.status,
        taken_back=plan.taken_back,
        deletion=plan.deletion.status,
        autorecovery=autorecovery.status(plan),
        bookies=bookies,
        orphans=tuple(entry for one, entry in entries if not one.case.is_desired),
        history=_history(plan, now),
    )


def first(before: BookieClusterStatus, generation: int, now_ms: int) -> BookieClusterStatus:
    """Return the very first status of a new generation, written before any child: nothing may look healthy yet
    (spec/operator.md#K21)."""
    begun = Truth("Reconciling", True, "Bootstrapping", "the operator has seen this generation")
    known = {entry.type for entry in before.conditions}
    unseen = [
        one
        for one in conditions.unseen("the operator has not looked yet")
        if one.type not in known and one.type != begun.type
    ]
    return _said(before, generation, [begun, *unseen], now_ms)


def refused(
    before: BookieClusterStatus, generation: int, message: str, now_ms: int, reason: str = "SpecInvalid"
) -> BookieClusterStatus:
    """Return the status for a spec that the operator cannot use: nothing changes, and a sentence says why."""
    truths = (
        Truth("Ready", False, "HumanNeeded", message),
        Truth("Reconciling", False, reason, message),
        Truth("Stalled", True, reason, message),
    )
    return _blind(
        before, generation, truths, f"the operator does not look while it cannot use the spec: {message}", now_ms
    )


def forbidden(
    before: BookieClusterStatus, generation: int, reason: str, message: str, now_ms: int
) -> BookieClusterStatus:
    """Return the status for a pass in which the API server forbade a read, or refused what comes before all reads: the
    operator knows nothing any more. `reason`: of Stalled."""
    truths = (Truth("Stalled", True, reason, message),)
    return _blind(before, generation, truths, f"the operator could not look: {message}", now_ms)


def _blind(
    before: BookieClusterStatus, generation: int, truths: tuple[Truth, ...], why: str, now_ms: int
) -> BookieClusterStatus:
    """Return a status with `truths`, and "unknown" for all else: earlier observations and counts prove nothing now."""
    told = {one.type for one in truths}
    unseen = [one for one in conditions.unseen(why) if one.type not in told]
    counts = {"writable_replicas": None, "limbo_bookies": None, "held_bookies": None, "budget": None}
    reached = before.metadata.model_copy(update={"reachable": None}) if before.metadata is not None else None
    blank = before.model_copy(
        update={
            **counts,
            "unseen_bookies": len(before.bookies),
            # Other clusters wait for who asks; this one begins nothing until it can be seen again.
            "rollout": before.rollout and before.rollout.model_copy(update={"asks_for_turn": False}),
            "metadata": reached,
            "summary": f"{NOBODY_LOOKED}{len(before.bookies)}",
            "phase": "Stalled",
            "blocked_by": next(one.reason for one in truths if one.type == "Stalled"),
        }
    )
    return _said(blank, generation, [*truths, *unseen], now_ms)


def _said(before: BookieClusterStatus, generation: int, truths: list[Truth], now_ms: int) -> BookieClusterStatus:
    fresh = truth.dated(truths, before.conditions, generation, format_time(now_ms))
    every = {entry.type: entry for entry in (*before.conditions, *fresh)}
    return before.model_copy(update={"observed_generation": generation, "conditions": tuple(every.values())})


def _phase(truths: tuple[Truth, ...]) -> str:
    by_type = {one.type: one for one in truths}
    for kind, word in (("Stalled", "Stalled"), ("RepairInProgress", "Healing"), ("Reconciling", "Reconciling")):
        if by_type[kind].is_true:
            return word
    ready = by_type["Ready"]
    return "Serving" if ready.is_true else "Unknown" if ready.is_true is None else ready.reason


def _counted(sight: Sight, count: int) -> int | None:
    """Return a count of what was seen; None when no bookie was seen."""
    return None if sight.is_blind and not count else count


def _summary(sight: Sight) -> str:
    serving = f"{sum(one.stage.serves for one in sight.every)}/{len(sight.desired)}"
    return f"{serving} ({len(sight.silent)} not seen)" if sight.silent else serving


def _instance_id(plan: FleetPlan) -> str | None:
    """Return the instance id that all serving bookies name; None while they differ, or none serves."""
    seen = {
        one.case.report.instance_id
        for one in plan.fleet
        if one.stage.serves and one.case.report is not None and one.case.report.instance_id
    }
    return seen.pop() if len(seen) == 1 else None


def _metadata(plan: FleetPlan, sight: Sight, now: str) -> MetadataStatus:
    cluster = plan.observation.cluster
    before = cluster.status.metadata or MetadataStatus()
    if plan.metadata is not MetadataStep.READY:
        return before.model_copy(update={"reachable": sight.metadata})
    return MetadataStatus(
        initialized_at=before.initialized_at or now, uri=cluster.spec.metadata_service.uri, reachable=sight.metadata
    )


def _healing(entries: list[tuple[Assessed, BookieStatus]]) -> str | None:
    words = []
    for one, entry in entries:
        if one.stage is Stage.REPAIRING and entry.progress is not None:
            words.append(f"{one.case.name} {entry.progress.percent}%")
        elif one.has_loss or one.stage is Stage.LIMBO:
            words.append(f"{one.case.name} {one.stage.value}")
    return ", ".join(words) or None


def _blocked_by(plan: FleetPlan, stalled: Truth) -> str | None:
    for gates in plan.closed.values():
        if gates:
            return gates[0].name
    return stalled.reason if stalled.is_true else None


def _pools(plan: FleetPlan) -> list[PoolStatus]:
    """Return every pool that the spec names or that had bookies; `desired` remembers how many ids each pool has."""
    observation, before = plan.observation, plan.observation.cluster.status
    had = {pool.name: BookiePool(pool.name, None, pool.desired, 0, is_in_spec=False) for pool in before.pools}
    every = {name: pool for name, pool in had.items() if pool.replicas} | {
        pool.name: pool for pool in observation.pools
    }
    out = []
    for name, pool in sorted(every.items()):
        stateful_set = names.stateful_set(observation.cluster.name, name)
        live: dict[str, Any] = observation.children.get(("StatefulSet", stateful_set)) or {}
        revision = (live.get("status") or {}).get("updateRevision") or ""
        pods = [one.case.pod for one in plan.fleet if one.case.pool == name and one.case.pod is not None]
        out.append(
            PoolStatus(
                name=name,
                zone=pool.zone.name if pool.zone is not None else None,
                stateful_set=stateful_set,
                desired=pool.replicas,
                wanted=pool.wanted,
                current=len(pods),
                ready=sum(pod.is_ready for pod in pods),
                updated=sum(bool(revision) and pod.revision == revision for pod in pods),
            )
        )
    return out


def _bookie(plan: FleetPlan, one: Assessed, now: str) -> BookieStatus:
    case, before = one.case, one.previous
    report, repair = case.report, case.repair
    has_changed = before is None or before.state != one.stage.value
    garbage_held = report.garbage_held_ledgers if report is not None else -1
    return BookieStatus(
        name=case.name,
        bookie_id=case.bookie_id,
        pool=case.pool,
        seen_in=tuple(_seen_in(case)) or ("Record",),
        zone=case.zone,
        node=case.pod.node or None if case.pod is not None else None,
        pod_uid=case.pod.uid if case.pod is not None else None,
        state=one.stage.value,
        verdict=one.evidence.conclusion.value,
        reason=one.reason,
        message=(one.message or _certificates_due(report))[:512],
        since=now if before is None or has_changed else before.since,
        away_since=format_time(one.away_since_ms) if one.away_since_ms is not None else None,
        incarnation=one.incarnation,
        counted=one.counted,
        has_lived=one.has_lived,
        boot_epoch=report.boot_epoch if report is not None else (before.boot_epoch if before is not None else 0),
        evidence=one.evidence.digest or None,
        volumes=tuple(_volume(plan, one, index, volume) for index, volume in enumerate(case.volumes)),
        ledgers=_ledgers(repair),
        progress=_progress(case, before, plan.observation.now_ms),
        suspicion=one.suspicion,
        lost_node=plan.lost_nodes.told.get(case.name),
        gates=plan.closed.get(case.name, ()),
        grant=one.grant,
        processes=one.processes,
        leaving=one.leaving,
        granted_by=_granted_by(one),
        restart_for=_restart_for(plan, one),
        taken_live=revisions.taken_live(plan.observation, one.case)[:CHANGED_MAX],
        written=tuple(WrittenFormat(name=name, format=number) for name, number in formats.written(one).items()),
        fenced=fencing.why_out(plan.observation, one) or None,
        garbage_held_ledgers=garbage_held if garbage_held >= 0 else None,
    )


def _certificates_due(report: StorageReport | None) -> str:
    """Return what a bookie that is well otherwise says of its certificates: it serves until nobody is let in."""
    return "; ".join(report.certificates_due) if report is not None else ""


def _restart_for(plan: FleetPlan, one: Assessed) -> tuple[str, ...]:
    is_older = one in revisions.older(plan.observation, (one,))
    return revisions.changes(plan.observation, one)[:CHANGED_MAX] if is_older else ()


def _granted_by(one: Assessed) -> str | None:
    """Return who allowed the bookie's present life; while the bookie does not answer, what the last status says."""
    if one.case.report is not None:
        return one.case.report.granted_by or None
    return one.previous.granted_by if one.previous is not None else None


def _seen_in(case: BookieCase) -> Iterator[str]:
    if case.is_desired:
        yield "Spec"
    if case.pod is not None:
        yield "Pod"
    if case.other_claims or any(volume.claim is not None and not volume.is_ephemeral for volume in case.volumes):
        yield "Claim"
    if case.member is not None and case.member.has_cookie:
        yield "Cookie"
    if case.member is not None and case.member.is_registered:
        yield "Registration"


def _volume(plan: FleetPlan, one: Assessed, index: int, volume: VolumeCase) -> VolumeStatus:
    finding: Finding | None = one.evidence.volumes[index] if one.evidence.volumes else None
    mount = volume.report.mount.proof if volume.report is not None else MountProof.UNSPECIFIED
    contents = volume.report.contents if volume.report is not None else Contents.UNSPECIFIED
    return VolumeStatus(
        name=volume.name,
        role=volume.role,
        claim=volume.claim_name,
        pvc_uid=volume.claim.uid if volume.claim is not None else None,
        pv_name=volume.claim.pv_name or None if volume.claim is not None else None,
        pv_uid=volume.pv.uid if volume.pv is not None else None,
        mount=_word(mount.value) if volume.report is not None else None,
        contents=_word(contents.value) if volume.report is not None else None,
        verdict=finding.conclusion.value if finding is not None else None,
        reason=finding.reason if finding is not None else None,
        # Of a bookie that left, nobody expects anything: a new one of this name finds empty volumes.
        recorded=claims.record(one, volume) if one.stage is not Stage.RETIRED else None,
        **growth.of_volume(plan, volume),
    )


def _word(name: str) -> str:
    """Return a name in the status's spelling: PROVEN -> Proven; STALE_CONTENTS -> Stale."""
    return name.removesuffix("_CONTENTS").title().replace("_", "")


def _ledgers(repair: RepairStatus | None) -> LedgerCounts | None:
    if repair is None:
        return None
    return LedgerCounts(
        member=repair.ledgers_member,
        fenced=repair.ledgers_fenced,
        limbo=repair.ledgers_limbo,
        pending_repair=repair.ledgers_pending,
        done=repair.ledgers_done,
    )


def percent(repair: RepairStatus) -> int:
    """Return how far a repair is, 0..100; by entries when the bookie knows how many are missing, else by ledgers."""
    if repair.done:
        return 100
    if repair.entries_pending >= 0:
        done, rest = repair.entries_copied, repair.entries_pending
    else:
        done, rest = repair.ledgers_done, repair.ledgers_pending
    return min(99, 100 * done // (done + rest)) if done + rest > 0 else 0


def _progress(case: BookieCase, before: BookieStatus | None, now_ms: int) -> RepairProgress | None:
    repair = case.repair
    if repair is None or not repair.phase:
        return None
    return RepairProgress(
        phase=repair.phase,
        percent=percent(repair),
        entries=repair.entries_copied,
        bytes=repair.bytes_copied,
        bytes_per_second=int(repair.bytes_per_second),
        entries_pending=repair.entries_pending,
        phase_one_ms=repair.phase_one_ms,
        blocked_ledgers=len(repair.blocked),
        work=repairs.work(repair),
        moved_at=repairs.moved_at(before, repair, now_ms),
    )


def _history(plan: FleetPlan, now: str) -> tuple[HistoryEntry, ...]:
    """Return the history with the grants of this pass: new ones enter, ended ones are closed, the oldest fall out."""
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
                given_by=f"operator {grant.issued_by}",
                approval=grant.approval,
            )
        elif grant is not None and grant.approval is not None:
            entries[grant.id] = entries[grant.id].model_copy(update={"approval": grant.approval})
        if (by_hand := _given_elsewhere(one, now)) is not None and by_hand.grant_id not in entries:
            entries[by_hand.grant_id] = by_hand
        if before is not None and before.id in entries and (grant is None or grant.id != before.id):
            entries[before.id] = _closed(entries[before.id], one, now)
    newest = sorted(entries.values(), key=lambda entry: (entry.granted_at, entry.grant_id))
    return tuple(newest[-HISTORY_MAX:])


def _given_elsewhere(one: Assessed, now: str) -> HistoryEntry | None:
    """Return the history entry of a life that began since the last pass by a grant that no operator gave."""
    report, before = one.case.report, one.previous
    if report is None or before is None or not 0 < before.incarnation < report.incarnation or not report.granted_by:
        return None
    return HistoryEntry(
        grant_id=report.grant_id,
        bookie=one.case.name,
        incarnation=report.incarnation,
        profile="ByHand",
        granted_at=now,
        given_by=report.granted_by,
        finished_at=now,
        result="ByHand",
    )


def _closed(entry: HistoryEntry, one: Assessed, now: str) -> HistoryEntry:
    is_healed = one.stage in (Stage.SERVING, Stage.READ_ONLY) and one.incarnation >= entry.incarnation
    repair = one.case.repair or RepairStatus()
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
