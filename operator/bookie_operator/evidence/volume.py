"""The conclusion on one volume: the table of docs/OPERATOR.md, row by row (spec/operator.md#V1 to V8).

Only Healthy, Bootstrap and LostVolume let a program go on. MountMissing and Held wait for a person or for a change of
the facts; Unknown waits for the facts. The reasons are a closed list (docs/OPERATOR.md has one line for each).
"""

from dataclasses import dataclass
from enum import Enum

from bookie.ports.admin import Contents, MountProof, StorageReport, VolumeReport
from bookie_operator.evidence.facts import VolumeCase


class Conclusion(Enum):
    HEALTHY = "Healthy"
    BOOTSTRAP = "Bootstrap"
    LOST_VOLUME = "LostVolume"
    MOUNT_MISSING = "MountMissing"
    HELD = "Held"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    conclusion: Conclusion
    reason: str  # one CamelCase word, stable
    message: str  # one sentence: what, why, what to look at


def judge(case: VolumeCase, report: StorageReport, *, pod_created_ms: int) -> Finding:
    """The conclusion on `case`, given the report of the pod that runs on it now. Rules: spec/operator.md#V1 to V8."""
    volume = case.report
    if volume is None:
        return _finding(Conclusion.UNKNOWN, "NotReported", case, "the bookie's report does not mention it")
    if case.claim is None:
        return _finding(Conclusion.UNKNOWN, "ClaimMissing", case, f"claim {case.claim_name} does not exist (yet)")
    if (mount := _mount(case, volume)) is not None:
        return mount
    match volume.contents:
        case Contents.VALID:
            return _valid(case, volume, report)
        case Contents.EMPTY:
            return _empty(case, volume, report, pod_created_ms)
        case Contents.REGENERATING:
            return _regenerating(case, report)
        case Contents.STALE:
            return _finding(
                Conclusion.HELD, "StaleVolume", case, "it went back in time (restored, cloned or an old disk)", volume
            )
        case Contents.FOREIGN:
            return _finding(Conclusion.HELD, "ForeignVolume", case, "it belongs to another bookie or cluster", volume)
        case _:
            return _finding(Conclusion.HELD, "UnknownContent", case, "it has files that are not ours", volume)


def _mount(case: VolumeCase, volume: VolumeReport) -> Finding | None:
    """A finding unless the mount is proven, or shared where the spec allows that."""
    match volume.mount.proof:
        case MountProof.PROVEN:
            return None
        case MountProof.SHARED if case.shares_filesystem:
            return None
        case MountProof.SHARED:
            return _finding(
                Conclusion.MOUNT_MISSING,
                "SharedFilesystem",
                case,
                "it lies on the node's own disk and allowSharedFilesystem is not set",
                volume,
            )
        case MountProof.MISSING:
            return _finding(Conclusion.MOUNT_MISSING, "MountMissing", case, "it is not mounted", volume)
        case _:
            return _finding(Conclusion.MOUNT_MISSING, "MountSuspect", case, "its mount could not be proven", volume)


def _valid(case: VolumeCase, volume: VolumeReport, report: StorageReport) -> Finding:
    assert case.claim is not None
    if volume.sentinel is not None and volume.sentinel.bookie_id != report.bookie_id:
        return _finding(
            Conclusion.HELD, "ForeignVolume", case, f"its sentinel names bookie {volume.sentinel.bookie_id}", volume
        )
    if report.metadata_reachable and not report.cookie_present:
        return _finding(
            Conclusion.HELD, "CookieMissingInMetadata", case, "it has data, and the bookie's cookie is gone"
        )
    marks = case.claim.marks
    if marks is not None and marks.incarnation > report.incarnation and report.metadata_reachable:
        return _finding(
            Conclusion.HELD,
            "IncarnationWentBack",
            case,
            f"its claim knows incarnation {marks.incarnation}, the metadata store only {report.incarnation}",
        )
    if not case.is_initialised:
        return _finding(
            Conclusion.HEALTHY,
            "Reattached",
            case,
            "it is valid, and its claim has no mark of ours: the operator marks it again",
        )
    return _finding(Conclusion.HEALTHY, "Valid", case, "it is valid")


def _empty(case: VolumeCase, volume: VolumeReport, report: StorageReport, pod_created_ms: int) -> Finding:
    assert case.claim is not None
    if case.is_initialised:
        return _empty_but_initialised(case, volume)
    if not report.metadata_reachable:
        return _finding(
            Conclusion.UNKNOWN, "MetadataUnreachable", case, "it is empty, and the bookie cannot ask the metadata store"
        )
    if not report.cookie_present:
        return _empty_without_cookie(case, report)
    if case.claim.is_terminating:
        return _finding(Conclusion.HELD, "ClaimTerminating", case, "it is empty, and its claim is being deleted")
    if case.claim.created_ms > pod_created_ms:
        return _finding(
            Conclusion.HELD, "ClaimNewerThanPod", case, "it is empty, and its claim is younger than the pod on it"
        )
    if volume.mount.proof is MountProof.SHARED:
        return _shared_and_empty(case)
    return _finding(
        Conclusion.LOST_VOLUME, "EmptyVolume", case, "it is empty on a new claim, and the bookie has a cookie"
    )


def _empty_but_initialised(case: VolumeCase, volume: VolumeReport) -> Finding:
    """The claim had data. Nothing but a person decides here (rows 9 to 11; localDiskReset: Auto comes later)."""
    if case.known_fsid in ("", volume.mount.fsid):
        return _finding(
            Conclusion.HELD,
            "WipedInPlace",
            case,
            "it is empty on the same file system: somebody deleted or formatted it",
            volume,
        )
    if case.is_local_disk:
        return _finding(
            Conclusion.HELD, "ResetLocalDisk", case, "it is empty on a new file system of a local disk", volume
        )
    return _finding(
        Conclusion.HELD, "EmptyButInitialized", case, "it is empty on another file system behind the same claim", volume
    )


def _empty_without_cookie(case: VolumeCase, report: StorageReport) -> Finding:
    """No cookie is "new" only when no ledger and no record of ours names this bookie (bootstrap double check)."""
    if report.ledgers_naming_me > 0:
        return _finding(
            Conclusion.HELD,
            "CookieMissingInMetadata",
            case,
            f"it is empty, and {report.ledgers_naming_me} ledgers name this bookie: somebody deleted its cookie",
        )
    if case.recorded is not None and case.recorded.incarnation > 0:
        return _finding(
            Conclusion.HELD,
            "CookieMissingInMetadata",
            case,
            f"it is empty and has no cookie, and we saw incarnation {case.recorded.incarnation}: is this the store?",
        )
    if report.ledgers_naming_me < 0:
        return _finding(
            Conclusion.UNKNOWN, "LedgersNotCounted", case, "it is empty, and the bookie has not read all ledgers yet"
        )
    return _finding(
        Conclusion.BOOTSTRAP, "NewVolume", case, "it is empty and new: no cookie, and no ledger names this bookie"
    )


def _shared_and_empty(case: VolumeCase) -> Finding:
    """A directory on the node's disk proves nothing by being empty: the PersistentVolume must be another one."""
    if case.recorded is None or not case.recorded.pv_uid:
        return _finding(
            Conclusion.HELD,
            "SharedVolumeUnproven",
            case,
            "it is empty on a shared disk, and nobody recorded the old volume",
        )
    if case.pv is None:
        return _finding(
            Conclusion.HELD,
            "SharedVolumeUnproven",
            case,
            "it is empty on a shared disk, and the operator cannot read its PersistentVolume",
        )
    if case.pv.uid == case.recorded.pv_uid:
        return _finding(
            Conclusion.HELD,
            "SharedVolumeUnchanged",
            case,
            "it is empty on a shared disk, on the PersistentVolume it always had",
        )
    return _finding(
        Conclusion.LOST_VOLUME,
        "EmptyVolume",
        case,
        f"it is empty on a new claim and a new PersistentVolume ({case.pv.uid} instead of {case.recorded.pv_uid})",
    )


def _regenerating(case: VolumeCase, report: StorageReport) -> Finding:
    if not report.cookie_present:
        return _finding(
            Conclusion.HELD, "CookieMissingInMetadata", case, "it is half regenerated, and the cookie is gone"
        )
    return _finding(Conclusion.LOST_VOLUME, "Regenerating", case, "a regeneration began here and was not finished")


def _finding(
    conclusion: Conclusion, reason: str, case: VolumeCase, what: str, volume: VolumeReport | None = None
) -> Finding:
    detail = f" ({volume.why})" if volume is not None and volume.why else ""
    return Finding(conclusion, reason, f"{case.role} volume {case.name}: {what}{detail}")
