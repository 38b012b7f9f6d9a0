"""Writes sentinels and directory cookies on volumes, each replaced whole and durable on return.

The sentinel goes first on a fresh volume and last on a finished one: a volume without one is never taken for ours, and
one that says "regenerating" never for whole.
"""

from collections.abc import Collection

from bookie.integrity import sentinel
from bookie.integrity.inspection import Inspection
from bookie.integrity.volumes import COOKIE_FILE, ConfiguredVolume
from bookie.metadata import cookie
from bookie.metadata.cookie import IncarnationRecord
from bookie.ports.admin import Contents, Sentinel
from bookie.ports.disk import Disk, replace_durably
from bookie.storage import dirs


async def write_sentinels(
    disk: Disk,
    volumes: tuple[ConfiguredVolume, ...],
    seen: Inspection,
    record: IncarnationRecord,
    *,
    grant_id: str = "",
    only: Collection[str] | None = None,
) -> None:
    """Write a sentinel of `record`'s incarnation and boot to every volume, or `only` to those at these paths. With
    `grant_id` it says that the volume is being regenerated under that grant, or added; without, that it is whole."""
    for volume, report in zip(volumes, seen.volumes, strict=True):
        if only is not None and volume.path not in only:
            continue
        mark = Sentinel(
            instance_id=seen.identity.instance_id,
            bookie_id=seen.master.bookie_id,
            role=volume.role,
            volume=volume.name,
            incarnation=record.incarnation,
            boot_epoch=record.boot_epoch,
            fsid=report.mount.fsid,
            grant_id=grant_id,
        )
        await disk.make_dir(volume.path)
        await disk.sync_dir(volume.path.rsplit("/", 1)[0] or "/")
        await replace_durably(disk, sentinel.path(volume.path), sentinel.dump(mark))


def pending(seen: Inspection) -> tuple[str, ...]:
    """Return the paths of the volumes that are being added, now or since a boot that was cut off."""
    return tuple(
        report.path
        for report in seen.volumes
        if report.contents is Contents.ADDED
        or (report.sentinel is not None and report.sentinel.grant_id == sentinel.ADDING)
    )


async def write_cookies(disk: Disk, volumes: tuple[ConfiguredVolume, ...], seen: Inspection) -> None:
    """Write `current/VERSION` on every volume: the cookie's bytes as the metadata store holds them."""
    data = cookie.dump_cookie(seen.master)
    for volume in volumes:
        await disk.make_dir(dirs.current(volume.path))
        await disk.sync_dir(volume.path)
        await replace_durably(disk, f"{volume.path}/{COOKIE_FILE}", data)
