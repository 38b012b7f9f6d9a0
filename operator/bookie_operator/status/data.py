"""Conditions about the data: Degraded, DataAtRisk, RepairInProgress, StorageHealthy, DeletionHeld.

A condition about something that nobody could look at is Unknown.
"""

from bookie.ports.admin import StorageReport
from bookie_operator.evidence.facts import LOOK_AGE_MS_MAX
from bookie_operator.evidence.reasons import Conclusion
from bookie_operator.plan import dependents, formats, volume_replacement
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.plan.stages import Assessed, Stage
from bookie_operator.status import repairs, truth
from bookie_operator.status.sight import Sight, is_heard, is_looked_at, unknown
from bookie_operator.status.truth import Truth


def degraded(sight: Sight) -> Truth:
    healing = [one.case.name for one in sight.every if one.has_loss or one.stage is Stage.LIMBO]
    if healing:
        return Truth("Degraded", True, "Repairing", f"these bookies may lack copies: {', '.join(healing)}")
    if sight.away:
        return Truth(
            "Degraded",
            True,
            "BookieDown",
            f"these bookies do not serve: {', '.join(_absent(one) for one in sight.away)}",
        )
    if why := sight.blindness():
        return unknown("Degraded", why)
    return Truth("Degraded", False, "FullRedundancy", f"the operator saw all {len(sight.desired)} bookies")


def _absent(one: Assessed) -> str:
    """Return the name of a bookie that is away, with the words of one that waits for its node."""
    return (
        f"{one.case.name} ({one.message})"
        if one.reason in ("NodeLost", "NodeDrained", "NodeNotReady", formats.UNREADABLE)
        else one.case.name
    )


def data_at_risk(plan: FleetPlan, sight: Sight) -> Truth:
    tolerance = plan.observation.cluster.spec.tolerance
    missing = len(sight.dataless) + len(sight.away)
    arithmetic = (
        f"{len(sight.dataless)} bookies are without data, {len(sight.away)} do not serve, {len(sight.silent)} were not"
        f" seen; the ack quorum survives {tolerance} without data"
    )
    if len(sight.dataless) > tolerance and dependents.is_breached(plan.observation, plan.fleet):
        return Truth("DataAtRisk", True, "AckQuorumBreached", arithmetic)
    if missing >= max(1, tolerance):
        return Truth("DataAtRisk", True, "AtTolerance", arithmetic)
    if why := sight.blindness():
        return unknown("DataAtRisk", f"{arithmetic}; {why}")
    return Truth("DataAtRisk", False, "WithinTolerance", arithmetic)


def repair_in_progress(plan: FleetPlan, sight: Sight) -> Truth:
    still = [told for one in sight.every if (told := repairs.standstill(one, plan.observation.now_ms))]
    if still:
        return Truth("RepairInProgress", True, "RepairNoProgress", truth.listed(still))
    for one in sight.every:
        if one.stage in (Stage.FENCING, Stage.STAMPING):
            return Truth("RepairInProgress", True, "Fencing", f"{one.case.name}: {one.message or one.reason}")
        if one.stage in (Stage.REPAIRING, Stage.LIMBO):
            return Truth("RepairInProgress", True, "Repairing", f"{one.case.name}: {one.message or one.reason}")
    leaving = [one.case.name for one in sight.every if one.stage is Stage.STOPPING and one.case.report is None]
    if why := sight.blindness() or (leaving and f"{', '.join(leaving)} stops and does not answer"):
        return unknown("RepairInProgress", why)
    return Truth("RepairInProgress", False, "Nothing", "")


def storage_healthy(sight: Sight) -> Truth:
    for one in sight.every:
        if one.evidence.conclusion in (Conclusion.HELD, Conclusion.MOUNT_MISSING):
            finding = one.evidence.finding
            return Truth("StorageHealthy", False, finding.reason, f"{one.case.name}: {finding.message}")
        if one.has_loss:
            return Truth("StorageHealthy", False, "LostVolume", f"{one.case.name}: {one.message or one.reason}")
    for one in sight.every:
        report = one.case.report if one.evidence.digest else None
        if report is not None and report.directories_failed:
            failed = f"{', '.join(report.directories_failed)} of {one.case.name} failed and takes no writes"
            how = f"mend the disk, then delete the pod; if it is lost, {_replacement(one, report)}"
            return Truth("StorageHealthy", False, "DirectoryFailed", f"{failed}: {how}")
        if report is not None and report.quarantined_count:
            told = f"{one.case.name} cannot judge {report.quarantined_count} ledgers and answers for none of them"
            return Truth(
                "StorageHealthy", False, "LedgersQuarantined", f"{told}: `bookie node show` in its pod says why"
            )
    unproven = [one for one in sight.every if not _is_proven(one)]
    if unproven:
        told = truth.listed(f"{one.case.name}: {_unproven(one)}" for one in unproven)
        return unknown(
            "StorageHealthy", f"the volumes of {len(unproven)} of {len(sight.every)} bookies are not proven: {told}"
        )
    ours, minutes = sum(one.case.is_ours for one in sight.every), LOOK_AGE_MS_MAX // 60_000
    return Truth("StorageHealthy", True, "Proven", f"{ours} bookies looked at their volumes within {minutes} minutes")


def _replacement(one: Assessed, report: StorageReport) -> str:
    """Return what has the failed volumes replaced: an operation, behind the gates; and the one command that does it
    without, as the claims go when their pod does, and both come back anew. Until then the bookie serves what its other
    disks have."""
    failed = volume_replacement.failed_volumes(report)
    claims = [volume.claim_name for volume in one.case.volumes if volume.name in failed]
    if one.case.is_ephemeral:
        return "a BookieOperation Replace: the bookie is drained, and begins anew in another pod"
    pvcs = " ".join(f"pvc/{name}" for name in claims) or "the claims of the failed volumes"
    asked = f"a BookieOperation ReplaceVolume of {', '.join(sorted(failed)) or 'it'}"
    by_hand = f"`kubectl delete --wait=false {pvcs} pod/{one.case.name}`"
    return f"{asked}, or without its gates {by_hand}: the bookie copies what they had"


def deletion_held(sight: Sight) -> Truth:
    """Report the brake on mass deletion (decision 0014): a bookie keeps ledgers that the metadata store no longer
    has."""
    reports = [(one, one.case.report) for one in sight.every if is_heard(one) and one.case.report]
    held = [
        f"{one.case.name} keeps {report.garbage_held_ledgers}"
        for one, report in reports
        if report.garbage_held_ledgers > 0
    ]
    if held:
        return Truth(
            "DeletionHeld",
            True,
            "MassDeletionHeld",
            f"{truth.listed(held)} ledgers that the metadata store no longer has, because more are gone than may go in"
            " a day. If they should exist, restore the metadata store; if somebody deleted them, `bookie node"
            " release-garbage` in each of these pods lets them go",
        )
    heard = {one.case.name for one, report in reports if report.garbage_held_ledgers >= 0}
    asked = [*sight.desired, *(one for one, _ in reports if one not in sight.desired)]
    unlooked = [one.case.name for one in asked if one.case.name not in heard]
    if why := sight.blindness() or (
        unlooked and f"{', '.join(unlooked)} did not look for deleted ledgers yet, or cannot tell"
    ):
        return unknown("DeletionHeld", why)
    return Truth("DeletionHeld", False, "NothingHeld", "")


def _is_proven(one: Assessed) -> bool:
    """Return True when the bookie's volumes are proven valid, by a look of late, and for a bookie that another party
    runs: the operator cannot judge it."""
    return (one.evidence.conclusion is Conclusion.HEALTHY and is_looked_at(one)) or not one.case.is_ours


def _unproven(one: Assessed) -> str:
    report = one.case.report
    if report is not None and report.inspection_age_ms > LOOK_AGE_MS_MAX:
        return f"the bookie last looked {report.inspection_age_ms // 60_000} minutes ago"
    return one.message or one.reason
