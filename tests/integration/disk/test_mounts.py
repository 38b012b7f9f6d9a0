"""Mount facts: parsed from mountinfo, and asked of this machine."""

import asyncio
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
