"""The verdict on one volume: the table of operators.md 3.3, row by row.

Only Healthy, Bootstrap and LostVolume let a program go on. MountMissing and Held wait for a person or for a change of
the facts; Unknown waits for the facts. The reasons are a closed list (docs/OPERATOR.md has one line for each).
"""

from dataclasses import dataclass
from enum import Enum

from bookie_operator.evidence.facts import Contents, Mount, Report, VolumeCase, VolumeReport


class Verdict(Enum):
    HEALTHY = "Healthy"
    BOOTSTRAP = "Bootstrap"
    LOST_VOLUME = "LostVolume"
    MOUNT_MISSING = "MountMissing"
    HELD = "Held"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    verdict: Verdict
    reason: str  # one CamelCase word, stable
    message: str  # one sentence: what, why, what to look at


def judge(case: VolumeCase, report: Report, *, pod_created_ms: int) -> Finding:
    """The verdict on `case`, given the report of the pod that runs on it now. Rule: operators.md 3.3."""
    volume = case.report
    if volume is None:
        return _finding(Verdict.UNKNOWN, "NotReported", case, "the bookie's report does not mention it")
    if case.claim is None:
        return _finding(Verdict.UNKNOWN, "ClaimMissing", case, f"claim {case.claim_name} does not exist (yet)")
    if (mount := _mount(case, volume)) is not None:
        return mount
    match volume.contents:
        case Contents.VALID:
            return _valid(case, volume, report)
        case Contents.EMPTY:
            return _empty(case, volume, report, pod_created_ms)
        case Contents.REGENERATING:
            return _regenerating(case, report)
        case Contents.STALE_CONTENTS:
            return _finding(
                Verdict.HELD, "StaleVolume", case, "it went back in time (restored, cloned or an old disk)", volume
            )
        case Contents.FOREIGN_CONTENTS:
            return _finding(Verdict.HELD, "ForeignVolume", case, "it belongs to another bookie or cluster", volume)
        case _:
            return _finding(Verdict.HELD, "UnknownContent", case, "it has files that are not ours", volume)


def _mount(case: VolumeCase, volume: VolumeReport) -> Finding | None:
    """A finding unless the mount is proven, or shared where the spec allows that."""
    match volume.mount:
        case Mount.PROVEN:
            return None
        case Mount.SHARED if case.shares_filesystem:
            return None
        case Mount.SHARED:
            return _finding(
                Verdict.MOUNT_MISSING,
                "SharedFilesystem",
                case,
                "it lies on the node's own disk and allowSharedFilesystem is not set",
                volume,
            )
        case Mount.MISSING:
            return _finding(Verdict.MOUNT_MISSING, "MountMissing", case, "it is not mounted", volume)
        case _:
            return _finding(Verdict.MOUNT_MISSING, "MountSuspect", case, "its mount could not be proven", volume)


def _valid(case: VolumeCase, volume: VolumeReport, report: Report) -> Finding:
    assert case.claim is not None
    if volume.sentinel is not None and volume.sentinel.bookie_id != report.bookie_id:
        return _finding(
            Verdict.HELD, "ForeignVolume", case, f"its sentinel names bookie {volume.sentinel.bookie_id}", volume
        )
    if report.metadata_reachable and not report.cookie_present:
        return _finding(Verdict.HELD, "CookieMissingInMetadata", case, "it has data, and the bookie's cookie is gone")
    marks = case.claim.marks
    if marks is not None and marks.incarnation > report.incarnation and report.metadata_reachable:
        return _finding(
            Verdict.HELD,
            "IncarnationWentBack",
            case,
            f"its claim knows incarnation {marks.incarnation}, the metadata store only {report.incarnation}",
        )
    if not case.is_initialised:
        return _finding(Verdict.HEALTHY, "Reattached", case, "valid on a claim without our mark: to be marked again")
    return _finding(Verdict.HEALTHY, "Valid", case, "valid")


def _empty(case: VolumeCase, volume: VolumeReport, report: Report, pod_created_ms: int) -> Finding:
    assert case.claim is not None
    if case.is_initialised:
        return _empty_but_initialised(case, volume)
    if not report.metadata_reachable:
        return _finding(Verdict.UNKNOWN, "MetadataUnreachable", case, "empty, and the metadata store cannot be asked")
    if not report.cookie_present:
        return _empty_without_cookie(case, report)
    if case.claim.is_terminating:
        return _finding(Verdict.HELD, "ClaimTerminating", case, "empty, and its claim is being deleted")
    if case.claim.created_ms > pod_created_ms:
        return _finding(Verdict.HELD, "ClaimNewerThanPod", case, "empty, and its claim is younger than the pod on it")
    if volume.mount is Mount.SHARED:
        return _shared_and_empty(case)
    return _finding(Verdict.LOST_VOLUME, "EmptyVolume", case, "empty on a new claim, under an existing cookie")


def _empty_but_initialised(case: VolumeCase, volume: VolumeReport) -> Finding:
    """The claim had data. Nothing but a person decides here (rows 9 to 11; localDiskReset: Auto comes later)."""
    if case.known_fsid in ("", volume.fsid):
        return _finding(
            Verdict.HELD,
            "WipedInPlace",
            case,
            "empty on the same file system: deleted or formatted by somebody",
            volume,
        )
    if case.is_local_disk:
        return _finding(Verdict.HELD, "ResetLocalDisk", case, "empty on a new file system of a local disk", volume)
    return _finding(
        Verdict.HELD, "EmptyButInitialized", case, "empty on another file system behind the same claim", volume
    )


def _empty_without_cookie(case: VolumeCase, report: Report) -> Finding:
    """No cookie is "new" only when no ledger and no record of ours names this bookie (bootstrap double check)."""
    if report.ledgers_naming_me > 0:
        return _finding(
            Verdict.HELD,
            "CookieMissingInMetadata",
            case,
            f"empty, no cookie, but {report.ledgers_naming_me} ledgers name this bookie: somebody deleted the cookie",
        )
    if case.recorded is not None and case.recorded.incarnation > 0:
        return _finding(
            Verdict.HELD,
            "CookieMissingInMetadata",
            case,
            f"empty, no cookie, but we saw incarnation {case.recorded.incarnation} of it: is this the right store?",
        )
    if report.ledgers_naming_me < 0:
        return _finding(Verdict.UNKNOWN, "LedgersNotCounted", case, "empty; the bookie has not read all ledgers yet")
    return _finding(Verdict.BOOTSTRAP, "NewVolume", case, "empty and new: no cookie, and no ledger names this bookie")


def _shared_and_empty(case: VolumeCase) -> Finding:
    """A directory on the node's disk proves nothing by being empty: the PersistentVolume must be another one."""
    if case.recorded is None or not case.recorded.pv_uid:
        return _finding(
            Verdict.HELD, "SharedVolumeUnproven", case, "empty on a shared disk, and the old volume was not recorded"
        )
    if case.pv is None:
        return _finding(
            Verdict.HELD, "SharedVolumeUnproven", case, "empty on a shared disk, and its PersistentVolume is unreadable"
        )
    if case.pv.uid == case.recorded.pv_uid:
        return _finding(
            Verdict.HELD, "SharedVolumeUnchanged", case, "empty on a shared disk, on the PersistentVolume it always had"
        )
    return _finding(
        Verdict.LOST_VOLUME,
        "EmptyVolume",
        case,
        f"empty on a new claim and a new PersistentVolume ({case.pv.uid} instead of {case.recorded.pv_uid})",
    )


def _regenerating(case: VolumeCase, report: Report) -> Finding:
    if not report.cookie_present:
        return _finding(Verdict.HELD, "CookieMissingInMetadata", case, "half regenerated, and the cookie is gone")
    return _finding(Verdict.LOST_VOLUME, "Regenerating", case, "a regeneration began here and was not finished")


def _finding(verdict: Verdict, reason: str, case: VolumeCase, what: str, volume: VolumeReport | None = None) -> Finding:
    detail = f" ({volume.reason})" if volume is not None and volume.reason else ""
    return Finding(verdict, reason, f"{case.role} volume {case.name}: {what}{detail}")
