"""Mount proof, check by check (spec/operator.md#K1)."""

from typing import Any

import pytest

import integrity_support as build
from bookie.integrity import mounts
from bookie.ports.admin import MountProof, MountReport

NODE_PATH = "/var/lib/kubelet/pods/uid-1/volumes/kubernetes.io~csi/pvc-1/mount"
EMPTY_DIR = "/var/lib/kubelet/pods/uid-1/volumes/kubernetes.io~empty-dir/journal"


def proof(*, shared_ok: bool = False, pod_uid: str = "uid-1", **changes: Any) -> MountReport:
    return mounts.prove(build.mount(**changes), checks=True, shared_ok=shared_ok, pod_uid=pod_uid)


def test_a_file_system_of_its_own_is_proven() -> None:
    assert proof().proof is MountProof.PROVEN


@pytest.mark.parametrize("shared_ok", [False, True])
@pytest.mark.parametrize(
    "changes",
    [
        {"exists": False},
        {"is_mount_point": False},
        {"root": NODE_PATH, "shares_node_disk": True},
        {"root": NODE_PATH.removeprefix("/var"), "shares_node_disk": True},
        {"root": NODE_PATH},
    ],
)
def test_nothing_mounted_is_missing_even_where_sharing_is_allowed(changes: dict[str, Any], shared_ok: bool) -> None:
    report = proof(shared_ok=shared_ok, **changes)

    assert report.proof is MountProof.MISSING
    assert "/data/journal" in report.reason


def test_the_nodes_own_disk_is_missing_unless_the_settings_allow_it() -> None:
    """A local volume whose disk was not mounted after a reboot looks like this (kubernetes#81737)."""
    on_node: dict[str, Any] = {"shares_node_disk": True, "root": "/var/local-path-provisioner/pvc-1"}

    assert proof(**on_node).proof is MountProof.MISSING
    assert "allowSharedFilesystem" in proof(**on_node).reason
    assert proof(shared_ok=True, **on_node).proof is MountProof.SHARED


def test_a_directory_of_another_file_system_is_suspect_unless_allowed() -> None:
    assert proof(root="/sub").proof is MountProof.SUSPECT
    assert proof(root="/sub", shared_ok=True).proof is MountProof.SHARED


SILENT: dict[str, Any] = {"is_silent": True, "fsid": "", "total_bytes": 0}


def test_a_mount_whose_disk_does_not_say_which_it_is_is_silent() -> None:
    """spec/operator.md#V14"""
    report = proof(**SILENT)

    assert report.proof is MountProof.SILENT
    assert "its disk does not answer" in report.reason


@pytest.mark.parametrize("shared_ok", [False, True])
@pytest.mark.parametrize(
    "changes",
    [
        {"exists": False},
        {"is_mount_point": False},
        {"root": NODE_PATH},
        {"root": EMPTY_DIR},
        {"shares_node_disk": True},
        {"root": "/sub"},
        {"fstype": "tmpfs"},
        {"fstype": ""},
    ],
)
def test_what_is_not_mounted_is_never_a_disk_that_does_not_answer(changes: dict[str, Any], shared_ok: bool) -> None:
    """Its data is where it was, and nobody may give it up for lost."""
    assert (
        proof(shared_ok=shared_ok, pod_uid="another", **SILENT, **changes).proof
        is proof(shared_ok=shared_ok, pod_uid="another", **changes).proof
    )


@pytest.mark.parametrize("fstype", ["tmpfs", "overlay", "nfs4", ""])
def test_a_file_system_that_forgets_or_is_unknown_is_suspect(fstype: str) -> None:
    assert proof(fstype=fstype).proof is MountProof.SUSPECT


def test_an_unreadable_file_system_id_is_suspect() -> None:
    assert proof(fsid="").proof is MountProof.SUSPECT


def test_an_empty_dir_counts_only_for_this_pod_and_only_where_allowed() -> None:
    assert proof(root=EMPTY_DIR, shared_ok=True).proof is MountProof.SHARED
    assert proof(root=EMPTY_DIR, shared_ok=True, pod_uid="uid-2").proof is MountProof.MISSING
    assert proof(root=EMPTY_DIR).proof is MountProof.MISSING


def test_without_kubelet_nothing_is_checked_and_the_facts_are_shown() -> None:
    report = mounts.prove(build.mount(is_mount_point=False), checks=False, shared_ok=False, pod_uid="")

    assert (report.proof, report.device, report.fsid) == (MountProof.UNCHECKED, "8:16", "fs-1")


def test_two_looks_that_differ_prove_nothing() -> None:
    assert mounts.unsettled(proof()).proof is MountProof.SUSPECT


def test_a_file_system_that_grows_between_two_looks_is_the_same_one() -> None:
    """spec/operator.md#X4: a volume that is enlarged under a bookie is never called lost, foreign or not mounted."""
    small, grown = proof(total_bytes=1 << 30), proof(total_bytes=1 << 31)

    assert mounts.settled(small, grown) == grown
    assert mounts.settled(small, grown).proof is MountProof.PROVEN


@pytest.mark.parametrize("change", [{"fsid": "else"}, {"device": "8:99"}, {"root": "/else"}, {"fstype": "xfs"}])
def test_anything_else_that_changes_between_two_looks_proves_nothing(change: dict[str, Any]) -> None:
    assert mounts.settled(proof(), proof(**change)).proof is MountProof.SUSPECT
