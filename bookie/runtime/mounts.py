"""Asks the kernel about the file system under a directory: statfs and /proc/self/mountinfo. Writes nothing.

mountinfo(5), fields: id, parent, major:minor, root, mount point, options, tags..., "-", type, source, super options.
"""

import os

from bookie.base import errors
from bookie.ports.disk import Mount

# kubelet bind-mounts this file from the node's own disk into every container.
NODE_FILE = "/etc/hosts"


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


def _device_of(path: str) -> str:
    device = os.stat(path).st_dev
    return f"{os.major(device)}:{os.minor(device)}"


def facts_of(directory: str) -> Mount:
    """Return facts about `directory`, symbolic links resolved; if it does not exist, about its nearest existing
    parent."""
    exists = os.path.isdir(directory)
    real = os.path.realpath(directory)
    place = real
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        mounts = parse(file.read())
    point = place
    while point not in mounts and point != "/":
        point = os.path.dirname(point)
    device, root, fstype, source = mounts.get(point, (_device_of(place), "", "", ""))
    facts = os.statvfs(place)
    return Mount(
        path=directory,
        exists=exists,
        is_mount_point=point == real,
        device=device,
        fsid=f"{facts.f_fsid:x}",
        fstype=fstype,
        root=root,
        source=source,
        total_bytes=facts.f_blocks * facts.f_frsize,
        shares_node_disk=os.path.exists(NODE_FILE) and _device_of(NODE_FILE) == _device_of(place),
    )
