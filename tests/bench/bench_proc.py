"""What the kernel says of processes and of the machine: CPU seconds, resident memory, the page cache (proc(5)).

Linux only. Nothing here may decide anything.
"""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
DROP_CACHES = Path("/proc/sys/vm/drop_caches")


def _cpu_s(stat: str) -> float:
    """Return user and system seconds of one `stat` line; the name in parentheses may hold anything."""
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


def cpu_s(pid: int) -> float:
    """Return the CPU seconds that a process has used, all threads, in steps of a clock tick (10 ms)."""
    return _cpu_s(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8"))


def children(pid: int) -> list[int]:
    """Return the processes that this one started and that still live."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that ended while we looked
            found += map(int, (task / "children").read_text().split())
    return found


def family_cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process, of all below it, and of those below it that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) * TICK_S + sum(map(family_cpu_s, children(pid)))
    except (FileNotFoundError, ProcessLookupError):  # it ended while we looked
        return 0.0


def thread_cpu_s(pids: Iterable[int]) -> dict[str, float]:
    """Return the CPU seconds of every thread of these processes, by thread id."""
    found: dict[str, float] = {}
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            try:
                found[task.name] = _cpu_s((task / "stat").read_text())
            except (FileNotFoundError, ProcessLookupError):  # a thread that ended while we looked
                continue
    return found


def rss_mb(pid: int) -> float:
    """Return the resident memory of a process in MB (VmRSS)."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise ValueError(f"no VmRSS of {pid}")


def read_bytes(pid: int) -> int:
    """Return the bytes that a process made the disk read (/proc/PID/io); the page cache's are not among them."""
    for line in Path(f"/proc/{pid}/io").read_text(encoding="utf-8").splitlines():
        if line.startswith("read_bytes:"):
            return int(line.split()[1])
    raise ValueError(f"no read_bytes of {pid}")


@dataclass(frozen=True, slots=True)
class Machine:
    """CPU seconds of all cores since boot; `waiting_s` are idle ones in which a disk was waited for."""

    total_s: float
    idle_s: float
    waiting_s: float


def machine() -> Machine:
    """Return the machine's CPU seconds so far (/proc/stat, first line)."""
    ticks = [int(word) for word in Path("/proc/stat").read_text(encoding="utf-8").splitlines()[0].split()[1:9]]
    return Machine(sum(ticks) * TICK_S, ticks[3] * TICK_S, ticks[4] * TICK_S)


@dataclass(frozen=True, slots=True)
class Sample:
    """An instant: the machine, and the threads of some processes."""

    at_s: float
    machine: Machine
    threads: dict[str, float]

    @classmethod
    def take(cls, pids: Iterable[int]) -> Self:
        return cls(time.monotonic(), machine(), thread_cpu_s(pids))

    def shares_until(self, later: Self) -> dict[str, float]:
        """Return what was used meanwhile: the busiest thread's share of a core, the machine's of all cores."""
        total_s = max(later.machine.total_s - self.machine.total_s, TICK_S)
        waiting_s = later.machine.waiting_s - self.machine.waiting_s
        idle_s = later.machine.idle_s - self.machine.idle_s
        used = [cpu_s - self.threads.get(name, 0.0) for name, cpu_s in later.threads.items()]
        return {
            "hottest_share": max(used, default=0.0) / max(later.at_s - self.at_s, TICK_S),
            "busy_share": 1 - (idle_s + waiting_s) / total_s,
            "waiting_share": waiting_s / total_s,
        }


def describe_machine() -> dict[str, str | int]:
    """Return what a reader needs to judge the figures: cores, memory, kernel, Python. No name of a host."""
    memory_kb = next(
        int(line.split()[1])
        for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        if line.startswith("MemTotal:")
    )
    models = [
        line for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if line.startswith("model name")
    ]
    return {
        "cores": os.cpu_count() or 0,
        "processor": models[0].partition(":")[2].strip() if models else platform.machine(),
        "memory_gb": round(memory_kb * 1024 / 1e9),
        "kernel": platform.release().partition("-")[0],
        "python": platform.python_version(),
    }


def can_drop_page_cache() -> bool:
    return os.access(DROP_CACHES, os.W_OK)


def drop_page_cache() -> None:
    """Write back what is dirty, then forget all clean pages, directories and inodes (needs root)."""
    os.sync()
    DROP_CACHES.write_text("3", encoding="utf-8")
