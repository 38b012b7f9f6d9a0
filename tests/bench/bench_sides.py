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
import urllib.request
from collections.abc import Iterator, Mapping
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
from bookie.settings import table
from bookie.storage import dirs

ANSWER_TIMEOUT_S = 180.0
METRICS_TIMEOUT_S = 30.0
# What one load may write on both sides. Bookies of both kinds take no writes on a disk that is used to 95 %.
LOAD_BYTES_MAX = 20 << 30
DISK_SHARE_MAX = 0.95


@dataclass(frozen=True, slots=True)
class Kind:
    """What the bookies of a side are. `settings` by Java's names; `own` are those that Java does not have."""

    bookies: int = 1
    is_official: bool = False
    journal_write_data: bool = True
    settings: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)
    storage: str = java_fleet_support.DB_STORAGE  # of official ones
    is_bare: bool = False  # no bookie at all (`bench_bare`)


# Garbage is looked for every second, logs of which less than half is live are compacted at once, at a rate that lasts
# for some seconds. Small logs, and soon on the disk, so that a round has some of them.
COMPACTING = {
    "gcWaitTime": "1000",
    "minorCompactionInterval": "1",
    "minorCompactionThreshold": "0.5",
    "majorCompactionInterval": "0",
    "majorCompactionThreshold": "0",
    "isThrottleByBytes": "true",
    "compactionRateByBytes": "10000000",
    "logSizeLimit": str(32 << 20),
    "flushInterval": "2000",
}
# The next pass begins at once, and checks so many entries a second. Ours has a limit of bytes besides, 8 MiB a second.
SCRUBBING = {"localScrubInterval": "1", "localScrubRateLimit": "20000"}
# A busy machine is no dead bookie: the official ones and the clients have it too. `bookie local` has 6 s.
PATIENT = {"zkTimeout": "30000"}
_OURS = {
    "ours": Kind(),
    "ours-unjournaled": Kind(journal_write_data=False),
    "ours-three": Kind(bookies=3),
    "ours-compacting": Kind(settings=COMPACTING, own={"gcDailyShareMax": "1"}),
    "ours-scrubbing": Kind(settings=SCRUBBING, own={"scrubRateBytesPerSecond": "none"}),
}
KINDS: dict[str, Kind] = {
    **_OURS,
    "official": Kind(is_official=True),
    "official-unjournaled": Kind(is_official=True, settings={"journalWriteData": "false"}),
    "official-three": Kind(bookies=3, is_official=True),
    "official-compacting": Kind(is_official=True, settings=COMPACTING),
    # Its DbLedgerStorage has no check: `localScrubInterval` finds nothing to do there.
    "official-scrubbing": Kind(is_official=True, settings=SCRUBBING, storage=java_fleet_support.SORTED_STORAGE),
    "bare": Kind(is_bare=True),
    # Ours, as it was at another commit (`--against`).
    **{name.replace("ours", "before"): kind for name, kind in _OURS.items()},
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
    local: list[local_support.LocalBookie] = field(default_factory=list)  # ours
    gone_cpu_s: float = 0.0  # of processes that were ended by `stop_last`
    gone_read_bytes: int = 0
    running: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    @property
    def kind(self) -> Kind:
        return KINDS[self.name]

    @property
    def is_official(self) -> bool:
        return self.kind.is_official

    def start(self) -> None:
        """Start the bookies on what is in their folder, or on nothing."""
        kind = self.kind
        self.pids = []
        if kind.is_bare:
            self.pids.append(self.running.enter_context(_bare(self.uri, self.folder)).pid)
        elif kind.is_official:
            self.ports = self.ports or port_support.free_ports(kind.bookies)
            official = java_fleet_support.bookies(
                self.uri,
                self.folder,
                kind.bookies,
                fast=True,
                ports=self.ports,
                started=self.pids,
                storage=kind.storage,
                settings=kind.settings,
            )
            self.running.enter_context(official)
        else:
            told = ["--metadata-service-uri", self.uri, "--journal-write-data", str(kind.journal_write_data).lower()]
            log = self.folder / "local.log"
            fleet = local_support.fleet(self.folder / "fleet", log, bookies=kind.bookies, arguments=told)
            with _running(self.packages, {**PATIENT, **kind.settings, **kind.own}):
                self.local = list(self.running.enter_context(fleet).bookies)
            self.pids = [bookie.pid for bookie in self.local]
            self.ports = [bookie.port for bookie in self.local]
        self.idle_rss_mb = self.idle_rss_mb or max(map(bench_proc.rss_mb, self.pids))

    def stop_last(self) -> None:
        """End the last bookie in good order; the others go on. What it uses from the signal on is not counted."""
        pid = self.pids[-1]
        self.gone_cpu_s += bench_proc.cpu_s(pid)
        self.gone_read_bytes += bench_proc.read_bytes(pid)
        local_support.end(pid)

    def start_last(self) -> None:
        """Start the last bookie again, which has ended; nobody waits until it serves. A Java process is cold then."""
        self.warmed.clear()
        if self.is_official:
            settings = java_fleet_support.settings_of(self.folder, self.ports[-1])
            self.pids[-1] = self.running.enter_context(java_fleet_support.again(settings, fast=True)).pid
            return
        again = local_support.again(self.local[-1], until="")
        with _running(self.packages, {**PATIENT, **self.kind.settings, **self.kind.own}):
            self.pids[-1] = self.running.enter_context(again).pid

    def restart(self) -> None:
        """End the bookies as one does, so that they flush, and start them again: nothing is in their caches."""
        self.note_memory()
        self.running.close()
        self.start()

    def note_memory(self) -> None:
        """Remember the resident memory of now, if it is the most so far."""
        self.rss_most_mb = max(self.rss_most_mb, *map(bench_proc.rss_mb, self.pids))

    def entry_logs(self) -> dict[Path, int]:
        """Return the sizes of the entry logs of all bookies, in bytes, in the order in which they were begun."""
        if self.is_official:
            folders = [self.folder / f"java-bookie-{port}" / "ledgers" / "current" for port in self.ports]
        else:
            folders = [Path(dirs.current(str(bookie.ledgers))) for bookie in self.local]
        found: dict[Path, int] = {}
        for folder in folders:
            for path in sorted(folder.glob("*.log"), key=lambda path: int(path.stem, 16)):
                with contextlib.suppress(FileNotFoundError):  # it was given back while we looked
                    found[path] = path.stat().st_size
        return found

    def entries_scrubbed(self) -> int:
        """Return how many entries our bookies have scrubbed since they were started; official ones do not tell: 0."""
        return sum(_scrubbed(bookie.metrics_port) for bookie in self.local)

    def cpu_s(self) -> float:
        return self.gone_cpu_s + sum(map(bench_proc.cpu_s, self.pids))

    def read_bytes(self) -> int:
        return self.gone_read_bytes + sum(map(bench_proc.read_bytes, self.pids))


@contextlib.contextmanager
def _bare(uri: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A program that answers adds and does nothing else, until the body ends."""
    hosts, _, root = uri.partition("://")[2].partition("/")
    script = Path(__file__).parent / "bench_bare.py"
    with (folder / "bare.log").open("ab") as complaints:
        (port,) = port_support.free_ports(1)
        words = [sys.executable, str(script), hosts, f"/{root}", str(port)]
        process = children.spawn(words, stderr=complaints)
    try:
        local_support.first_line(process, folder / "bare.log")
        yield process
    finally:
        children.end(process, timeout_s=10)


def _scrubbed(metrics_port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics", timeout=METRICS_TIMEOUT_S) as answer:
        return counted(answer.read().decode(), "bookie_storage_scrub_entries_total")


def counted(metrics: str, name: str) -> int:
    """Return a counter's value in the text that a bookie's metrics port gives."""
    (value,) = (line.split()[1] for line in metrics.splitlines() if line.startswith(f"{name} "))
    return int(float(value))


@contextlib.contextmanager
def _running(packages: Path | None, settings: Mapping[str, str]) -> Iterator[None]:
    """Let what is started meanwhile run `packages`, and find these settings in its environment."""
    variables = {table.BY_NAME[name].variable: value for name, value in settings.items()}
    if packages is not None:
        variables |= {"PYTHONPATH": str(packages), "PYTHONSAFEPATH": "1"}
    kept = {name: os.environ.get(name) for name in variables}
    os.environ |= variables
    try:
        yield
    finally:
        for name, value in kept.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


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
            if side.is_official or side.kind.is_bare:
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
            with _running(side.packages, {}):
                client = OwnClient(side.uri, self._folder / f"{side.name}-client.log")
            self._of_sides.callback(client.close)
            self._clients[side.name] = client
        return self._clients[side.name]
