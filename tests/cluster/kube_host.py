"""What this machine is and what is installed on it: packages, privileges, free disk.

Nothing here may know about containers or clusters.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import kube_cache
import kube_errors
import kube_shell
import kube_talk

CAP_SYS_RESOURCE = 24
"""Its bit in the capability masks (linux/capability.h)."""

BOOKIE_USED_MAX = 0.95
"""The default of diskUsageThreshold (bookie/settings/table.py)."""

BOOKIE_ROOM = 0.01
"""What a run of tests or a demo may write before it would get there, as a share: a few GB of a usual disk."""


def is_root() -> bool:
    """Tell whether we may install packages and start services."""
    return os.geteuid() == 0


def has_apt() -> bool:
    """Tell whether packages are installed by apt here (Debian and its children)."""
    return shutil.which("apt-get") is not None


def has_systemd() -> bool:
    """Tell whether systemd runs this machine (sd_booted(3))."""
    return Path("/run/systemd/system").is_dir()


def has_ipv6() -> bool:
    """Tell whether this machine's kernel has IPv6."""
    return Path("/proc/net/if_inet6").exists()


def lacks_capability(status: str, *, bit: int) -> bool:
    """Tell from the text of /proc/self/status whether capability `bit` can never be had here."""
    for line in status.splitlines():
        if line.startswith("CapBnd:"):
            return not (int(line.split()[1], 16) >> bit) & 1
    return False


def ensure_programs(packages: Sequence[str], *, programs: Sequence[str], wanted_for: str) -> None:
    """Install `packages` unless all `programs` are there already.

    Raises NoClusterHere, naming the programs, where installing is not ours to do.
    """
    missing = [program for program in programs if shutil.which(program, path=search_path()) is None]
    if not missing:
        return
    if not is_root() or not has_apt():
        raise kube_errors.NoClusterHere(
            f"{wanted_for} needs {', '.join(missing)}, which is not installed, and only root on"
            f" Debian can install it here; install {' '.join(packages)} and try again"
        )
    with kube_talk.step(f"installing {' '.join(packages)}"), kube_cache.lock("apt"):
        apt_install(packages)


def apt_install(packages: Sequence[str]) -> None:
    """Install Debian packages, mending dpkg and refreshing the lists when that fails at first.

    Never killed with us: a package half installed is worse than one installed for nothing.
    """
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages]
    try:
        kube_shell.run(*install, env=quiet, outlives_us=True)
    except kube_errors.CommandFailed:
        kube_shell.run("dpkg", "--configure", "-a", env=quiet, outlives_us=True)
        kube_shell.run("apt-get", "update", "-qq", env=quiet, outlives_us=True)
        kube_shell.run(*install, env=quiet, outlives_us=True)


def pip(*arguments: str | Path) -> None:
    """Run pip, installing it first where Python came without."""
    if not kube_shell.succeeds(sys.executable, "-m", "pip", "--version"):
        ensure_programs(["python3-pip"], programs=["pip3"], wanted_for="the Python registry")
    kube_shell.run(sys.executable, "-m", "pip", *arguments)


def search_path() -> str:
    """Return PATH with the system folders in it, where Debian keeps what only root runs."""
    path = os.environ.get("PATH", os.defpath)
    return os.pathsep.join([path, "/usr/local/sbin", "/usr/sbin", "/sbin"])


def ensure_disk_free(folder: Path, *, size_bytes_min: int) -> None:
    """Raise ClusterError, with both figures, when `folder`'s file system has too little left."""
    folder.mkdir(parents=True, exist_ok=True)
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < size_bytes_min:
        raise kube_errors.ClusterError(
            f"{folder} has {free_bytes / 1e9:.1f} GB free and this needs"
            f" {size_bytes_min / 1e9:.0f} GB; free some, or set XDG_CACHE_HOME to a larger disk"
        )


def ensure_bookies_may_write(folder: Path) -> None:
    """Raise ClusterError when `folder`'s file system is so full that bookies on it would take no writes."""
    usage = shutil.disk_usage(folder)
    if missing_bytes := missing_for_bookies(total_bytes=usage.total, free_bytes=usage.free):
        raise kube_errors.ClusterError(
            f"the disk of {folder} is {1 - usage.free / usage.total:.0%} full: bookies turn read-only above"
            f" {BOOKIE_USED_MAX:.0%} (diskUsageThreshold); free {missing_bytes / 1e9:.1f} GB"
        )


def missing_for_bookies(*, total_bytes: int, free_bytes: int) -> int:
    """Return how much must be freed before bookies on such a disk take writes for a while; 0: nothing."""
    return max(0, int(total_bytes * (1 - BOOKIE_USED_MAX + BOOKIE_ROOM)) - free_bytes)
