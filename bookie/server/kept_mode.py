"""Keeps a read-only mode set by hand beyond the process: a marker on the ledger directories
(persistBookieStatusEnabled).

    <ledger dir>/current/READ_ONLY      it is there while somebody wants this bookie read-only

Java notes the mode with the time and believes the newest; wall clocks are no judge here. Any marker counts, so a power
cut while they come or go leaves the bookie read-only, which harms nobody and is seen. A full disk is no reason to make
one: that mode comes and goes by itself.
"""

from collections.abc import Sequence

from bookie.ports import disk as disk_port
from bookie.ports.disk import Disk

MARKER = "current/READ_ONLY"
_TEXT = b"read-only by hand; `bookie node writable` ends it\n"


async def is_kept_read_only(disk: Disk, ledger_dirs: Sequence[str]) -> bool:
    for directory in ledger_dirs:
        if await disk.exists(_path(directory)):
            return True
    return False


async def keep(disk: Disk, ledger_dirs: Sequence[str], *, read_only: bool) -> None:
    """Make the mode durable. Raises StorageFailed."""
    for directory in ledger_dirs:
        path = _path(directory)
        if read_only:
            await disk_port.replace_durably(disk, path, _TEXT)
        elif await disk.exists(path):
            await disk.remove(path)
            await disk.sync_dir(path.rsplit("/", 1)[0])


def _path(directory: str) -> str:
    return f"{directory.rstrip('/')}/{MARKER}"
