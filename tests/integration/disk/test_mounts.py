"""Mount facts: parsed from mountinfo, and asked of this machine."""

import asyncio
import errno
import functools
import os
from pathlib import Path

import pytest

from bookie.base import errors
from bookie.runtime import mounts
from bookie.runtime.disk import SystemDisk

MOUNTINFO = r"""22 1 252:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 8:16 /pvc-1 /data/journal rw - ext4 /dev/sdb rw
31 22 8:32 / /data/with\040blank rw master:2 - xfs /dev/sdc rw
32 22 0:45 / /data/journal rw - tmpfs tmpfs rw
"""


def test_every_mount_point_has_its_facts_and_the_topmost_mount_counts() -> None:
    assert mounts.parse(MOUNTINFO) == {
        "/": ("252:0", "/", "ext4", "/dev/vda"),
        "/data/journal": ("0:45", "/", "tmpfs", "tmpfs"),
        "/data/with blank": ("8:32", "/", "xfs", "/dev/sdc"),
    }


def test_a_line_that_is_not_mountinfo_is_refused() -> None:
    with pytest.raises(errors.BadInput, match="cannot read"):
        mounts.parse("nonsense")


def test_a_plain_folder_is_no_mount_point_and_the_root_is(tmp_path: Path) -> None:
    async def facts(path: str) -> object:
        disk = SystemDisk()
        try:
            found = await disk.mount(path)
            return found.exists, found.is_mount_point, bool(found.device), bool(found.fsid), found.total_bytes > 0
        finally:
            disk.close()

    assert asyncio.run(facts(str(tmp_path))) == (True, False, True, True, True)
    assert asyncio.run(facts(str(tmp_path / "not" / "there"))) == (False, False, True, True, True)
    assert asyncio.run(facts("/")) == (True, True, True, True, True)
    assert not (tmp_path / "not").exists()


def test_a_link_has_the_facts_of_what_it_leads_to(tmp_path: Path) -> None:
    """A volume is often named by a link; taken for itself it would be a folder of the disk on which the link is."""
    (tmp_path / "link").symlink_to("/proc")

    facts = mounts.facts_of(str(tmp_path / "link"))

    assert (facts.path, facts.exists, facts.is_mount_point) == (str(tmp_path / "link"), True, True)
    assert facts.fstype == "proc"
    below = mounts.facts_of(str(tmp_path / "link" / "self"))
    assert (below.exists, below.is_mount_point, below.fstype) == (True, False, "proc")


@pytest.mark.parametrize("calls", [("stat",), ("statvfs",), ("stat", "statvfs")])
@pytest.mark.parametrize("error", [errno.EIO, errno.EUCLEAN])
def test_a_volume_whose_disk_does_not_answer_is_where_the_mount_table_says(
    calls: tuple[str, ...], error: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec/operator.md#V14; /proc stands for the volume, as it is mounted everywhere."""

    real = {"stat": os.stat, "statvfs": os.statvfs}

    def asked(call: str, path: str) -> object:
        if path == "/proc":
            raise OSError(error, os.strerror(error))
        return real[call](path)

    whole = mounts.facts_of("/proc")
    with monkeypatch.context() as patched:
        for call in calls:
            patched.setattr(os, call, functools.partial(asked, call))
        facts = mounts.facts_of("/proc")

    assert (facts.exists, facts.is_mount_point, facts.fstype, facts.root) == (True, True, "proc", whole.root)
    is_silent = "statvfs" in calls
    assert (facts.device, facts.fsid) == (whole.device, "" if is_silent else whole.fsid)
    assert (facts.is_silent, whole.is_silent) == (is_silent, False)
    assert (facts.total_bytes, facts.shares_node_disk) == (0 if is_silent else whole.total_bytes, False)


def test_an_error_that_is_no_disks_ends_the_look(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(os, "statvfs", denied)
        with pytest.raises(PermissionError):
            mounts.facts_of("/proc")


def test_a_folder_on_the_disk_of_the_node_is_told_from_a_volume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a bookie writes there goes with its pod."""
    of_the_node = tmp_path / "hosts"
    monkeypatch.setattr(mounts, "NODE_FILE", str(of_the_node))
    assert not mounts.facts_of(str(tmp_path)).shares_node_disk, "nobody knows the disk of the node"

    of_the_node.write_text("")

    assert mounts.facts_of(str(tmp_path)).shares_node_disk
    assert mounts.facts_of(str(tmp_path / "not" / "there")).shares_node_disk
    assert not mounts.facts_of("/proc").shares_node_disk

    def silent(_: str) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, "statvfs", silent)
        facts = mounts.facts_of(str(tmp_path))
    assert (facts.is_silent, facts.shares_node_disk) == (True, True), "a disk that is silent is still the node's"
