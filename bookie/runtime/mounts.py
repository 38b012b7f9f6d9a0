"""Asks the kernel about the file system under a directory: statfs and /proc/self/mountinfo. Writes nothing.

mountinfo(5), fields: id, parent, major:minor, root, mount point, options, tags..., "-", type, source, super options.
"""

import errno
import os
import stat
from collections.abc import Callable
from typing import TypeVar

from bookie.base import errors
from bookie.ports.disk import Mount

# kubelet bind-mounts this file from the node's own disk into every container.
NODE_FILE = "/etc/hosts"
T = TypeVar("T")
# How a file system answers whose disk is dead: the last is EFSCORRUPTED's other name.
_SILENT = (errno.EIO, errno.EUCLEAN)


def _unescape(field: str) -> str:
    r"""Replace \ooo, by which mountinfo writes blanks and backslashes."""
    return field.encode().decode("unicode_escape") if "\\" in field else field


def parse(mountinfo: str) -> dict[str, tuple[str, str, str, str]]:
    """Return mount point -> (major:minor, root, type, source); of mounts stacked on one point the last, which is on
    top."""
    found: dict[str, tuple[str, str, str, str]] = {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, tail = before.split(" "), after.split(" ")
        if len(fields) < 6 or len(tail) < 2:
            raise errors.BadInput(f"/proc/self/mountinfo: cannot read {line!r}")
        found[_unescape(fields[4])] = (fields[2], _unescape(fields[3]), tail[0], _unescape(tail[1]))
    return found


def _is_directory(path: str) -> bool:
    """Return True also for a path of which the disk does not say: one that is gone would be told as such (XFS answers
    nothing about a file system that it has shut down; os.path.isdir calls that a "no")."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except OSError as error:
        return error.errno in _SILENT


def _answer(call: Callable[[str], T], path: str) -> T | None:
    """Return what `call` finds about `path`; None where its disk does not say. Raises OSError for all else."""
    try:
        return call(path)
    except OSError as error:
        if error.errno in _SILENT:
            return None
        raise


def _device_of(path: str) -> str:
    device = os.stat(path).st_dev
    return f"{os.major(device)}:{os.minor(device)}"


def facts_of(directory: str) -> Mount:
    """Return facts about `directory`, symbolic links resolved; if it does not exist, about its nearest existing
    parent."""
    exists = _is_directory(directory)
    real = os.path.realpath(directory)
    place = real
    while not _is_directory(place):
        place = os.path.dirname(place)
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        mounts = parse(file.read())
    point = place
    while point not in mounts and point != "/":
        point = os.path.dirname(point)
    device, root, fstype, source = mounts.get(point, ("", "", "", ""))
    # What the mount table says is so, whether the disk answers or not; without an id nothing is proven.
    facts = _answer(os.statvfs, place)
    own = _answer(_device_of, place) or device
    return Mount(
        path=directory,
        exists=exists,
        is_mount_point=point == real,
        device=device or own,
        fsid=f"{facts.f_fsid:x}" if facts is not None else "",
        fstype=fstype,
        root=root,
        source=source,
        total_bytes=facts.f_blocks * facts.f_frsize if facts is not None else 0,
        shares_node_disk=os.path.exists(NODE_FILE) and _answer(_device_of, NODE_FILE) == own,
        is_silent=facts is None,
    )
