"""Mount proof: decides by the kernel's facts about a directory whether the configured volume is really there. Pure.

The naive test ("a mount point, and not the root's device") is useless inside a pod: where a volume is missing, kubelet
bind-mounts the empty host directory, which is a mount point too. Rule: spec/operator.md#K1.
"""

import dataclasses
import re

from bookie.ports.admin import MountProof, MountReport
from bookie.ports.disk import Mount

# Of a file system of its own. tmpfs and overlay forget.
FILE_SYSTEMS = ("ext4", "ext3", "xfs", "btrfs", "zfs")
_KUBELET_OWN = re.compile(r"/pods/([^/]+)/volumes/([^/]+)/")
_EMPTY_DIR = "kubernetes.io~empty-dir"


def prove(mount: Mount, *, checks: bool, shared_ok: bool, pod_uid: str) -> MountReport:
    """Return the report on one volume. `checks` False: there is no kubelet here. `shared_ok`:
    may lie on the node's disk."""
    proof, reason = _judge(mount, shared_ok=shared_ok, pod_uid=pod_uid) if checks else (MountProof.UNCHECKED, "")
    if not checks and not mount.exists:
        reason = "the directory does not exist yet"
    return MountReport(
        proof=proof,
        is_mount_point=mount.is_mount_point,
        device=mount.device,
        fsid=mount.fsid,
        fstype=mount.fstype,
        root=mount.root,
        source=mount.source,
        total_bytes=mount.total_bytes,
        shares_node_disk=mount.shares_node_disk,
        reason=reason,
    )


def settled(first: MountReport, second: MountReport) -> MountReport:
    """Return the report of two looks (spec/operator.md#K2). When they differ they prove nothing; but a file system that
    grows between them is the same one (spec/operator.md#X4)."""
    if dataclasses.replace(first, total_bytes=second.total_bytes) == second:
        return second
    return unsettled(second)


def unsettled(report: MountReport) -> MountReport:
    """Return the report when two looks differ: they prove nothing."""
    return MountReport(MountProof.SUSPECT, reason=f"{report.root or 'the mount'} changed between two looks")


def _judge(mount: Mount, *, shared_ok: bool, pod_uid: str) -> tuple[MountProof, str]:
    if not mount.exists:
        return MountProof.MISSING, f"{mount.path} does not exist"
    if not mount.is_mount_point:
        return MountProof.MISSING, f"{mount.path} is not a mount point: nothing is mounted there"
    kubelet = _KUBELET_OWN.search(mount.root)
    if kubelet is not None:
        if shared_ok and kubelet.groups() == (pod_uid, _EMPTY_DIR):
            return MountProof.SHARED, f"{mount.path} lives and dies with this pod (emptyDir), as the settings allow"
        return MountProof.MISSING, f"{mount.path} is kubelet's own directory {mount.root}: the volume is not mounted"
    if mount.shares_node_disk:
        if shared_ok:
            return MountProof.SHARED, f"{mount.path} is {mount.root} on the node's disk, as the settings allow"
        return MountProof.MISSING, (
            f"{mount.path} is {mount.root} on the node's own disk: the volume is not mounted there "
            "(or allowSharedFilesystem is missing)"
        )
    if mount.root != "/":
        if shared_ok:
            return MountProof.SHARED, f"{mount.path} is {mount.root} of a shared file system, as the settings allow"
        return MountProof.SUSPECT, f"{mount.path} is {mount.root} of a file system, not a file system of its own"
    if mount.fstype not in FILE_SYSTEMS:
        return (
            MountProof.SUSPECT,
            f"{mount.path} has file system {mount.fstype!r}, not one of {', '.join(FILE_SYSTEMS)}",
        )
    if mount.is_silent:
        # Last of all: what is not mounted, or is another's, is told by the table of mounts, which needs no disk.
        return MountProof.SILENT, f"{mount.path} is mounted, and its disk does not answer (statfs)"
    if not mount.fsid:
        return MountProof.SUSPECT, f"{mount.path}: the kernel gives no file system id"
    return MountProof.PROVEN, ""
