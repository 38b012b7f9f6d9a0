"""Asks the system about a configured directory, or a port, before the bookie begins anything.

It makes and writes nothing, and releases at once each lock or port that it takes for a question. A disk error says
nothing about the settings: the boot judges it.
"""

import errno
import fcntl
import os
import socket
from dataclasses import dataclass

from bookie.ports.network import Address
from bookie.runtime import mounts
from bookie.runtime.network import EVERYWHERE, everywhere, refused

# What no mount and no mending of a disk makes a directory of.
_NEVER = (errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
# Windows into the kernel, where nobody keeps files (filesystems(5)).
_NO_DISK = (
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "efivarfs",
    "mqueue",
    "nsfs",
    "proc",
    "pstore",
    "securityfs",
    "sysfs",
    "tracefs",
)


@dataclass(frozen=True, slots=True)
class PathFacts:
    """What the system says about one path; the defaults are those of a directory with which nothing is wrong."""

    real: str  # links followed
    is_there: bool = True
    never: str = ""  # why it can be no directory, in the system's words
    above: str = ""  # the nearest directory that is there: itself, or the one to make it in
    leads_nowhere: str = ""  # the link in it whose target is not there
    no_disk: str = ""  # its file system, when that keeps no files, as proc
    is_read_only: bool = False  # its file system is mounted so
    denied: str = ""  # what of it this process may not write to
    is_held: bool = False  # another process has locked it


def look(path: str, *, inside: str, lock: str) -> PathFacts:
    """Look at the directory `path`; a bookie keeps its files in the directory `inside` there, with its `lock`."""
    real = os.path.realpath(path)
    try:
        is_there = _is_directory_there(path)
        _is_directory_there(f"{path}/{inside}")
    except OSError as error:
        never = os.strerror(error.errno) if error.errno in _NEVER else ""
        return PathFacts(real, is_there=False, never=never, denied=path if error.errno == errno.EACCES else "")
    above = path
    while not os.path.lexists(above):
        above = os.path.dirname(above.rstrip("/")) or "/"
    if not os.path.exists(above):
        return PathFacts(real, is_there=False, leads_nowhere=above)
    try:
        fstype, is_read_only = mounts.facts_of(above).fstype, bool(os.statvfs(above).f_flag & os.ST_RDONLY)
    except OSError:
        return PathFacts(real, is_there=is_there, above=above)
    ours = [name for name in (above, f"{path}/{inside}", f"{path}/{inside}/{lock}") if os.path.exists(name)]
    return PathFacts(
        real,
        is_there=is_there,
        above=above,
        no_disk=fstype if fstype in _NO_DISK else "",
        is_read_only=is_read_only,
        denied=next((name for name in ours if not _may_write(name)), ""),
        is_held=_is_held(f"{path}/{inside}/{lock}"),
    )


def _is_directory_there(path: str) -> bool:
    """Return whether the directory exists. Raises OSError when something else is there, or in the way."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    os.close(descriptor)
    return True


def _may_write(path: str) -> bool:
    wanted = os.R_OK | os.W_OK | (os.X_OK if os.path.isdir(path) else 0)
    return os.access(path, wanted, effective_ids=True)


def _is_held(path: str) -> bool:
    """Return whether another process holds the lock. Asks for a shared lock, so that two processes that ask at the same
    time do not hinder each other."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def why_not_to_listen(address: Address) -> str:
    """Return why this process cannot listen at `address` now, as one sentence; "" when it can, or when any free port
    will do."""
    if address.port == 0:
        return ""
    try:
        if address.host == EVERYWHERE:
            everywhere(address.port, has_ipv6=socket.has_dualstack_ipv6()).close()
            return ""
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, where in found:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as a server: after a restart, at once
                probe.bind(where)
    except OSError as error:
        return str(refused(address, error))
    return ""
