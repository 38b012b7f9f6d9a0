"""Marks claims with the life of the bookie whose data their volume holds (spec/operator.md#K18).

Only for volumes that the bookie itself proved valid while it serves: sentinel and metadata store name the same
incarnation, the report comes from the live pod, the claim is older than that pod.
"""

from collections.abc import Iterator

from bookie.ports.admin import Contents
from bookie_operator.evidence.facts import VolumeCase
from bookie_operator.evidence.reasons import Conclusion
from bookie_operator.model import names
from bookie_operator.model.status import VolumeRecord
from bookie_operator.plan.actions import MarkClaim
from bookie_operator.plan.stages import Assessed

# Of one that nobody can read nobody can say that it is empty.
_DATA = (Contents.VALID, Contents.STALE, Contents.FOREIGN, Contents.UNKNOWN, Contents.UNREADABLE)


def record(one: Assessed, volume: VolumeCase) -> VolumeRecord | None:
    """Return the record of `volume`: its identity now if it is proven valid, else the one we knew before."""
    if not _is_proven(one, volume):
        return volume.recorded
    assert volume.claim is not None
    assert volume.report is not None
    assert one.case.report is not None
    known = volume.recorded if volume.recorded is not None and volume.recorded.pvc_uid == volume.claim.uid else None
    pod, place = one.case.pod, {}
    node = one.case.nodes.get(pod.node) if pod is not None and (volume.is_local_disk or volume.is_ephemeral) else None
    if node is not None:
        place = {"node": node.name, "node_uid": node.uid, "hostname": node.hostname, "boot_id": node.boot_id}
    elif known is not None:
        place = {"node": known.node, "node_uid": known.node_uid, "hostname": known.hostname, "boot_id": known.boot_id}
    return VolumeRecord(
        pvc_uid=volume.claim.uid,
        pv_name=volume.claim.pv_name,
        pv_uid=volume.pv.uid if volume.pv is not None else (known.pv_uid if known is not None else ""),
        fsid=volume.report.mount.fsid,
        incarnation=one.case.report.incarnation,
        **place,
    )


def marks(one: Assessed) -> Iterator[MarkClaim]:
    """Return the annotations that are missing or outdated on the claims of one bookie."""
    for volume in one.case.volumes:
        entry = record(one, volume)
        if entry is None or not _is_proven(one, volume) or volume.is_ephemeral:
            continue  # of one that goes with its pod, our own record of that pod is the mark
        assert volume.claim is not None
        assert one.case.report is not None
        live = volume.claim.marks
        if (
            live is not None
            and live.incarnation == entry.incarnation
            and live.bookie_id == one.case.bookie_id
            and live.claim_uid == volume.claim.uid
            and live.pv_uid == entry.pv_uid
            and live.fsid == entry.fsid
        ):
            continue
        yield MarkClaim(
            volume.claim.name,
            volume.claim.uid,
            {
                names.MARK_INCARNATION: str(entry.incarnation),
                names.MARK_BOOKIE_ID: one.case.bookie_id,
                names.MARK_INSTANCE_ID: one.case.report.instance_id,
                names.MARK_FSID: entry.fsid,
                names.MARK_PV_UID: entry.pv_uid,
                names.MARK_CLAIM_UID: volume.claim.uid,
            },
        )


def contents(one: Assessed) -> Iterator[MarkClaim]:
    """Return the annotations for claims whose volumes have contents under a bookie that never lived: a backup, a disk
    that was used before. Its pod may go, and whoever looks then sees an empty word (spec/operator.md#J2)."""
    pod = one.case.pod
    if one.has_lived or pod is None:
        return
    for volume in one.case.volumes:
        claim, report = volume.claim, volume.report
        if claim is None or report is None or volume.is_ephemeral or claim.is_terminating:
            continue
        is_known = bool(claim.contents_found) or claim.marks is not None
        if report.contents in _DATA and not is_known and pod.created_ms >= claim.created_ms:
            found = {names.CONTENTS_FOUND: report.contents.value}
            yield MarkClaim(claim.name, claim.uid, found, names.CONTENTS_MANAGER)


def _is_proven(one: Assessed, volume: VolumeCase) -> bool:
    report, pod, claim = one.case.report, one.case.pod, volume.claim
    if not one.stage.serves or one.evidence.conclusion is not Conclusion.HEALTHY:
        return False
    if report is None or pod is None or claim is None or volume.report is None or volume.report.sentinel is None:
        return False
    return (
        volume.report.contents is Contents.VALID
        and volume.report.sentinel.incarnation == report.incarnation > 0
        and not claim.is_terminating
        and claim.created_ms <= pod.created_ms
    )
