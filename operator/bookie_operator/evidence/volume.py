"""Draws the conclusion on one volume: the table of docs/OPERATOR.md, row by row (spec/operator.md#V1 to V8).

Only Healthy, Bootstrap, LostVolume and Adding let a program go on. MountMissing and Held wait for a person or for a
change of the facts; Unknown waits for the facts. The text of each reason is in `reasons`.
"""

from bookie.ports.admin import Contents, MountProof, StorageReport, VolumeReport
from bookie_operator.evidence import reasons
from bookie_operator.evidence.facts import NodeFacts, VolumeCase
from bookie_operator.evidence.reasons import Finding

# The kubelet's name of the kind of volume, in the path of what it mounts.
EMPTY_DIR = "kubernetes.io~empty-dir"


def judge(case: VolumeCase, report: StorageReport, *, pod_created_ms: int, node: NodeFacts | None = None) -> Finding:
    """Return the conclusion on `case`, given the report of the pod that runs on it now. Rules: spec/operator.md#V1 to
    V10. `node`: that pod's; None when it was not read."""
    volume = case.report
    if volume is None:
        return _finding("NotReported", case)
    if case.claim is None:
        return _finding("ClaimMissing", case, case.claim_name)
    if case.is_ephemeral and not _is_of_pod(volume, case.claim.uid):
        return _finding("NotOfThePod", case, volume.why or f"it is {volume.mount.root or '?'}")
    if (mount := _mount(case, volume)) is not None:
        return mount
    match volume.contents:
        case Contents.VALID:
            return _valid(case, volume, report)
        case Contents.EMPTY:
            return _empty(case, volume, report, pod_created_ms, node)
        case Contents.REGENERATING:
            return _finding("Regenerating" if report.cookie_present else "CookieMissingInMetadata", case)
        case Contents.ADDED:
            return _added(case, volume, report)
        case Contents.STALE:
            return _stale(case, volume, report)
        case Contents.FOREIGN:
            return _finding("ForeignVolume", case, volume.why)
        case Contents.UNREADABLE:
            return _finding("UnreadableVolume", case, volume.why)
        case _:
            return _finding("UnknownContent", case, volume.why)


def _mount(case: VolumeCase, volume: VolumeReport) -> Finding | None:
    """Return a finding unless the mount is proven, or shared where the spec allows that."""
    match volume.mount.proof:
        case MountProof.PROVEN:
            return None
        case MountProof.SHARED if case.shares_filesystem:
            return None
        case MountProof.SHARED:
            return _finding("SharedFilesystem", case, volume.why)
        case MountProof.SILENT if volume.contents is Contents.UNREADABLE:
            return None  # it is mounted: what is on it nobody knows
        case MountProof.MISSING:
            return _finding("MountMissing", case, volume.why)
        case _:
            return _finding("MountSuspect", case, volume.why)


def _is_of_pod(volume: VolumeReport, pod_uid: str) -> bool:
    """Return True when the volume is an emptyDir that the kubelet made for this very pod (spec/operator.md#X8)."""
    return f"/pods/{pod_uid}/volumes/{EMPTY_DIR}/" in f"{volume.mount.root}/"


def _valid(case: VolumeCase, volume: VolumeReport, report: StorageReport) -> Finding:
    assert case.claim is not None
    if volume.sentinel is not None and volume.sentinel.bookie_id != report.bookie_id:
        return _finding("ForeignVolume", case, f"its sentinel names bookie {volume.sentinel.bookie_id}")
    if report.metadata_reachable and not report.cookie_present:
        return _finding("CookieMissingInMetadata", case, "the volume has data")
    marks = case.claim.marks
    if marks is not None and marks.incarnation > report.incarnation and report.metadata_reachable:
        known = f"the claim says {marks.incarnation}, the metadata store {report.incarnation}"
        return _finding("IncarnationWentBack", case, known)
    return _finding("Valid" if case.is_initialised else "Reattached", case)


def _added(case: VolumeCase, volume: VolumeReport, report: StorageReport) -> Finding:
    """Judge a volume that the bookie adds to those that it has (spec/operator.md#V13). Its own proofs are the cookies;
    the claim's mark is ours, and says by itself whether data was ever here."""
    if case.is_initialised:
        return _finding("EmptyButInitialized", case, volume.why)
    return _finding("AddedVolume" if report.cookie_present else "CookieMissingInMetadata", case)


def _stale(case: VolumeCase, volume: VolumeReport, report: StorageReport) -> Finding:
    """Judge a volume that went back in time (spec/operator.md#V11)."""
    doubt = _unproven_age(case, volume, report)
    if doubt:
        return _finding("StaleVolume", case, "; ".join(word for word in (volume.why, doubt) if word))
    return _finding("StaleVolumeGivenUp", case, volume.why)


def _unproven_age(case: VolumeCase, volume: VolumeReport, report: StorageReport) -> str:
    """Return why a volume that went back in time is not given up; "" when it is.

    The proof is outside the node: the metadata store knows a later life, or a later boot of the same life, than the
    volume's sentinel. A store that was itself set back proves nothing, and the claim's mark tells of that.
    """
    mark, claim = volume.sentinel, case.claim
    if not case.may_be_stale:
        return "bring the newer volume back, or set spec.repair.staleVolume to Repair"
    if claim is None or claim.is_terminating:
        return "somebody is deleting its claim"
    if not report.metadata_reachable or not report.cookie_present:
        return "the bookie has no cookie, or cannot ask the metadata store for it"
    if claim.marks is not None and claim.marks.incarnation > report.incarnation:
        return f"the claim says incarnation {claim.marks.incarnation}, the metadata store {report.incarnation}"
    if mark is None or mark.bookie_id != report.bookie_id:
        return "it has no sentinel of this bookie"
    if (mark.incarnation, mark.boot_epoch) >= (report.incarnation, report.boot_epoch):
        return "the metadata store does not know a later boot than the volume"
    return ""


def _empty(
    case: VolumeCase, volume: VolumeReport, report: StorageReport, pod_created_ms: int, node: NodeFacts | None
) -> Finding:
    assert case.claim is not None
    if case.is_initialised:
        return _empty_but_initialised(case, volume, report, node)
    if not report.metadata_reachable:
        return _finding("MetadataUnreachable", case)
    if not report.cookie_present:
        return _empty_without_cookie(case, report)
    if case.claim.is_terminating:
        return _finding("ClaimTerminating", case)
    if case.claim.created_ms > pod_created_ms:
        return _finding("ClaimNewerThanPod", case)
    if case.is_ephemeral:
        return _finding("EmptyWithNewPod", case)
    if volume.mount.proof is MountProof.SHARED:
        return _shared_and_empty(case)
    return _finding("EmptyVolume", case)


def _empty_but_initialised(
    case: VolumeCase, volume: VolumeReport, report: StorageReport, node: NodeFacts | None
) -> Finding:
    """Judge an empty volume whose claim had data. A person decides, but for a local disk that its machine emptied where
    the spec says so (spec/operator.md#V10)."""
    if case.known_fsid in ("", volume.mount.fsid):
        return _finding("WipedInPlace", case, volume.why)
    if not (case.is_local_disk or case.is_ephemeral):
        return _finding("EmptyButInitialized", case, volume.why)
    if doubt := _unproven_reset(case, volume, report, node):
        return _finding("ResetLocalDisk", case, doubt)
    return _finding("LocalDiskWasReset", case)


def _unproven_reset(case: VolumeCase, volume: VolumeReport, report: StorageReport, node: NodeFacts | None) -> str:
    """Return what is missing for the proof that its machine emptied this local disk; "" when nothing is.

    An instance store is empty after the machine was stopped, a host after it was made anew: never while the same kernel
    runs on. So another file system alone proves nothing: somebody may have formatted the disk, or swapped it.
    """
    was = case.recorded
    if not case.may_be_reset:
        return "if its data is lost, create a BookieOperation ConfirmLoss, or set spec.repair.localDiskReset to Auto"
    if case.claim is None or case.claim.is_terminating:
        return "somebody is deleting its claim"
    if not report.metadata_reachable or not report.cookie_present:
        return "the bookie has no cookie, or cannot ask the metadata store for it"
    if (volume.mount.proof is not MountProof.PROVEN and not case.is_ephemeral) or not volume.mount.fsid:
        return "its file system is not one of its own"
    if was is None or was.pvc_uid != case.claim.uid or not was.node_uid:
        return "nobody recorded on which machine it was"
    if node is None:
        return "the operator cannot read the pod's Node"
    if node.name != was.node and (not was.hostname or node.hostname != was.hostname):
        return f"its pod runs on {node.name}, and the disk was on {was.node}"
    # A Node object that was deleted and registered anew is another one under the same kernel.
    if node.uid != was.node_uid and not (was.boot_id and node.boot_id == was.boot_id):
        return ""
    if not was.boot_id or not node.boot_id:
        return f"nobody recorded in which boot of {node.name} it was"
    if node.boot_id == was.boot_id:
        return f"{node.name} has not booted since, so that a person formatted or swapped the disk"
    return ""


def _empty_without_cookie(case: VolumeCase, report: StorageReport) -> Finding:
    """Judge an empty volume without a cookie: it is "new" only when no ledger and no record of ours names this bookie
    (bootstrap double check)."""
    if report.ledgers_naming_me > 0:
        named = f"{report.ledgers_naming_me} ledgers name this bookie, so somebody deleted its cookie"
        return _finding("CookieMissingInMetadata", case, named)
    if case.recorded is not None and case.recorded.incarnation > 0:
        seen = f"the operator saw incarnation {case.recorded.incarnation}: is this the right metadata store?"
        return _finding("CookieMissingInMetadata", case, seen)
    return _finding("LedgersNotCounted" if report.ledgers_naming_me < 0 else "NewVolume", case)


def _shared_and_empty(case: VolumeCase) -> Finding:
    """Judge an empty directory on the node's disk: being empty proves nothing there; the PersistentVolume must be
    another one."""
    if case.recorded is None or not case.recorded.pv_uid:
        return _finding("SharedVolumeUnproven", case, "nobody recorded the old one")
    if case.pv is None:
        return _finding("SharedVolumeUnproven", case, "the operator cannot read the new one")
    if case.pv.uid == case.recorded.pv_uid:
        return _finding("SharedVolumeUnchanged", case)
    return _finding("EmptyVolume", case, f"PersistentVolume {case.pv.uid} instead of {case.recorded.pv_uid}")


def _finding(word: str, case: VolumeCase, detail: str = "") -> Finding:
    text = reasons.TABLE[word].text.format(volume=f"{case.role} volume {case.name}")
    return reasons.finding(word, f"{text} ({detail})" if detail else text)
