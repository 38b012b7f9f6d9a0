"""What is compared: a side is a cluster of one or three bookies, ours or official, beside one ZooKeeper for all.

Bookies can be started anew on the data they had. Whoever makes the `Sides` ends everything by leaving the context.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import bench_proc
import children
import java_fleet_support
import java_support
import kube_talk
import local_support
import port_support

ANSWER_TIMEOUT_S = 180.0
# What one load may write on both sides. Bookies of both kinds take no writes on a disk that is used to 95 %.
LOAD_BYTES_MAX = 20 << 30
DISK_SHARE_MAX = 0.95
# Name of a side -> bookies, and for ours what `bookie local` is told; None: official.
KINDS: dict[str, tuple[int, tuple[str, ...] | None]] = {
    "ours": (1, ("--journal-write-data", "true")),
    "official": (1, None),
    "ours-unjournaled": (1, ("--journal-write-data", "false")),
    "ours-three": (3, ("--journal-write-data", "true")),
    "official-three": (3, None),
    "before": (1, ("--journal-write-data", "true")),  # ours, as it was at another commit (`--against`)
    "before-three": (3, ("--journal-write-data", "true")),
}


@dataclass(slots=True)
class Side:
    """One cluster. `pids` are its bookies'; `ledgers` are closed ones to read, by use (`bench_loads`)."""

    name: str
    uri: str
    folder: Path
    pids: list[int] = field(default_factory=list)
    idle_rss_mb: float = 0.0
    rss_most_mb: float = 0.0  # of one bookie, among the looks after loads
    ledgers: dict[str, list[int]] = field(default_factory=dict)
    warmed: set[str] = field(default_factory=set)
    ports: list[int] = field(default_factory=list)
    packages: Path | None = None  # the packages that its bookies run; None: this tree's
    running: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def start(self) -> None:
        """Start the bookies on what is in their folder, or on nothing."""
        count, arguments = KINDS[self.name]
        self.pids = []
        if arguments is None:
            self.ports = self.ports or port_support.free_ports(count)
            self.running.enter_context(
                java_fleet_support.bookies(self.uri, self.folder, count, fast=True, ports=self.ports, started=self.pids)
            )
        else:
            told = ["--metadata-service-uri", self.uri, *arguments]
            log = self.folder / "local.log"
            fleet = local_support.fleet(self.folder / "fleet", log, bookies=count, arguments=told)
            with _running(self.packages):
                self.pids = [bookie.pid for bookie in self.running.enter_context(fleet).bookies]
        self.idle_rss_mb = self.idle_rss_mb or max(map(bench_proc.rss_mb, self.pids))

    @property
    def is_official(self) -> bool:
        return KINDS[self.name][1] is None

    def restart(self) -> None:
        """End the bookies as one does, so that they flush, and start them again: nothing is in their caches."""
        self.note_memory()
        self.running.close()
        self.start()

    def note_memory(self) -> None:
        """Remember the resident memory of now, if it is the most so far."""
        self.rss_most_mb = max(self.rss_most_mb, *map(bench_proc.rss_mb, self.pids))

    def cpu_s(self) -> float:
        return sum(map(bench_proc.cpu_s, self.pids))


@contextlib.contextmanager
def _running(packages: Path | None) -> Iterator[None]:
    """Let what is started meanwhile run `packages`."""
    kept = os.environ.get("PYTHONPATH")
    try:
        if packages is not None:
            os.environ |= {"PYTHONPATH": str(packages), "PYTHONSAFEPATH": "1"}
        yield
    finally:
        if packages is not None:
            os.environ.pop("PYTHONPATH") if kept is None else os.environ.update(PYTHONPATH=kept)


class OwnClient:
    """Our client in a process of its own (`bench_own_client`), asked as `JavaClient` is."""

    def __init__(self, uri: str, log: Path) -> None:
        script = Path(__file__).parent / "bench_own_client.py"
        self._log = log
        with log.open("ab") as complaints:
            self._process = children.spawn([sys.executable, str(script), uri], stderr=complaints, stdin=subprocess.PIPE)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, operation: str, **arguments: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"op": operation, **arguments}) + "\n")
        self._process.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            line = self._process.stdout.readline() if selector.select(ANSWER_TIMEOUT_S) else ""
        if not line:
            raise AssertionError(f"our client did not answer; its log ends: {children.tail(self._log)}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        children.end(self._process, timeout_s=10)


class Sides:
    """All sides of a run, each started when it is first wanted; one Java client process for all of them."""

    def __init__(self, folder: Path, before: Path | None = None) -> None:
        self._folder = folder
        self._before = before
        self._stack = contextlib.ExitStack()
        self._of_sides = contextlib.ExitStack()
        self._sides: dict[str, Side] = {}
        self._ended: dict[str, Side] = {}
        self._clients: dict[str, OwnClient] = {}
        self._made = 0

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._uri = stack.enter_context(java_fleet_support.zookeeper(self._folder))
            client = java_support.JavaClient(self._uri, self._folder / "java-client.log", fast=True)
            self.java = stack.enter_context(client)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        with self._stack, self._of_sides:
            pass

    def make_room(self) -> None:
        """End all sides and remove what they wrote when the disk could not hold another load: the next one begins with
        new clusters, and with cold compilers, which are warmed up again."""
        disk = shutil.disk_usage(self._folder)
        if disk.free - (1 - DISK_SHARE_MAX) * disk.total > LOAD_BYTES_MAX:
            return
        with kube_talk.step("removing what the loads wrote: the disk is too full for the next one"):
            self._of_sides.close()
            for side in self._sides.values():
                shutil.rmtree(side.folder)
            self._ended |= self._sides
            self._sides, self._clients = {}, {}

    def side(self, name: str) -> Side:
        if name not in self._sides:
            self._made += 1
            folder = self._folder / f"{name}-{self._made}"
            folder.mkdir()
            packages = self._before if name.startswith("before") else None
            side = Side(name, self._uri.rpartition("/")[0] + f"/{folder.name}", folder, packages=packages)
            if name in self._ended:
                side.idle_rss_mb, side.rss_most_mb = self._ended[name].idle_rss_mb, self._ended[name].rss_most_mb
            if side.is_official:
                told = java_support.shell(side.uri, folder, "initnewcluster")
                assert "Successfully initiated cluster" in told, told
            side.start()
            self._of_sides.callback(side.running.close)
            self._sides[name] = side
        return self._sides[name]

    def started(self, name: str) -> Side | None:
        return self._sides.get(name) or self._ended.get(name)

    def own_client(self, side: Side) -> OwnClient:
        if side.name not in self._clients:
            with _running(side.packages):
                client = OwnClient(side.uri, self._folder / f"{side.name}-client.log")
            self._of_sides.callback(client.close)
            self._clients[side.name] = client
        return self._clients[side.name]
