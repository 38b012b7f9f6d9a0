"""The stage without Kubernetes: `bookie local`, processes in place of pods, a person in place of the operator.

It ends everything it started, whatever happens: what it leaves is logs under var/demo and the page.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import admin_client
import children
import kube_host
import local_support
from audit import LocalAudit
from bookie.base.errors import BookieError
from bookie.base.units import format_bytes
from bookie.ports.admin import VolumeReport
from kube_errors import ClusterError
from kube_talk import step
from oracle import Oracle
from stage import DemoFailed, Loss, LostVolume, Observation, Proof
from steps import Steps, observed
from timeline import Timeline
from waiting import wait_for

BOOKIES = 4  # one more than an ensemble, so that writers can change ensembles while one is gone
RATE_PER_S = 300
KILL_EVERY_S = 2
# How long a silent writer is taken for a living one before its ledger is recovered: short, to fit into a minute.
PATIENCE = ("--open-ledger-rereplication-grace-period", "8000")
STOP_TIMEOUT_S = 30.0
GRANT_TIMEOUT_S = 30.0


class LocalStage:
    title = "(without Kubernetes)"
    poll_s = 0.1

    def __init__(self, logs: Path, *, why: str) -> None:
        self.not_shown = (
            f"Not shown, because {why}: pods, claims, zones, and the operator that proves the loss and grants;"
            " here a person read the report and gave the grant by a command."
        )
        self._logs = logs
        self._data = logs / "fleet"
        self._stack = contextlib.ExitStack()
        self._fleet: local_support.LocalFleet | None = None
        self._timeline: Timeline | None = None
        self._steps: Steps | None = None
        self._step: dict[str, Any] | None = None
        self._seen = Observation()
        self._granted = False

    def start(self, timeline: Timeline) -> None:
        self._timeline = timeline
        _ensure_java()
        shutil.rmtree(self._data, ignore_errors=True)  # of a run before; its processes ended with it
        arguments = ["--journal-write-data", "false"]
        with step(f"starting ZooKeeper and {BOOKIES} bookies"):
            try:
                self._fleet = self._stack.enter_context(
                    local_support.fleet(self._data, self._logs / "fleet.log", bookies=BOOKIES, arguments=arguments)
                )
            except AssertionError as error:
                raise DemoFailed(str(error), str(self._logs / "fleet.log")) from None
        timeline.tell("step", f"{BOOKIES} bookies serve without a journal for entries; metadata at {self._fleet.uri}")

    @property
    def fleet(self) -> local_support.LocalFleet:
        assert self._fleet is not None, "start() comes first"
        return self._fleet

    def bookie_ids(self) -> Sequence[str]:
        return [bookie.bookie_id for bookie in self.fleet.bookies]

    def start_workload(self) -> Oracle:
        log = self._logs / "oracle"
        shutil.rmtree(log, ignore_errors=True)
        log.mkdir(parents=True)
        uri = self.fleet.uri
        command = [*local_support.BOOKIE, "workload"]
        pace = ["--rate", str(RATE_PER_S), "--kill-every-s", str(KILL_EVERY_S)]
        follow = [*command, "run", "--metadata-service-uri", uri, "--log", str(log), *pace]
        return Oracle(follow, command, uri=uri, log=str(log), talk=self._logs / "oracle.log")

    # ---- the accident ------------------------------------------------------------------------------------------------

    def destroy(self, bookie_id: str) -> Loss:
        """Kill the process at once, empty its directories, start it again by its own settings."""
        bookie = self._bookie(bookie_id)
        wall_ms = time.time_ns() // 1_000_000
        os.kill(bookie.pid, signal.SIGKILL)
        wait_for(f"the end of {bookie_id}", lambda: _is_gone(bookie.pid) or None, timeout_s=10.0, look_at="ps")
        volumes = []
        for role, path in (("journal", bookie.journal), ("ledgers", bookie.ledgers), ("index", bookie.index)):
            volumes.append(LostVolume(path.name, role, str(path), _size_bytes(path)))
            for child in path.iterdir():
                shutil.rmtree(child) if child.is_dir() else child.unlink()
        self._restart(bookie)
        return Loss(bookie_id, wall_ms, tuple(volumes))

    def _restart(self, bookie: local_support.LocalBookie) -> None:
        log = self._logs / f"{bookie.bookie_id.replace(':', '-')}.log"
        argv = [*local_support.BOOKIE, "serve", "--config", str(bookie.facts["config"]), *PATIENCE]
        with log.open("ab") as talk:
            process = children.spawn(argv, stderr=talk, stdout=subprocess.DEVNULL)
        self._stack.callback(children.end, process, timeout_s=STOP_TIMEOUT_S)
        watch = [*local_support.BOOKIE, "integrity", "status", "--watch", "--json", "--admin", bookie.admin]
        self._steps = Steps(watch, self._logs / "steps.log")
        self._stack.callback(self._steps.close)

    def watch(self, bookie_id: str) -> Observation:
        assert self._steps is not None
        if self._steps.has_more:
            self._step = self._steps.next()
        if not self._steps.has_more:  # a backlog of steps is told first; the report would be ahead of it
            with contextlib.suppress(BookieError):
                self._seen = admin_client.observation(admin_client.report(self._bookie(bookie_id).admin))
        return self._seen if self._step is None else observed(self._seen, self._step)

    def decide(self, bookie_id: str, seen: Observation) -> None:
        """A person reads the report, looks whether the data port is closed, and grants: once."""
        if seen.state != "WAITING_GRANT" or self._granted:
            return
        self._granted = True
        assert self._timeline is not None
        bookie = self._bookie(bookie_id)
        try:
            report = admin_client.report(bookie.admin, fresh=True)
        except BookieError as error:
            raise DemoFailed(f"no storage report from {bookie_id}: {error}", str(self._logs)) from None
        for volume in report.volumes:
            self._timeline.tell("state", f"  report: {volume.name} ({volume.role}) {_words(volume)}")
        with socket.socket() as probe:
            is_open = probe.connect_ex(("127.0.0.1", bookie.port)) == 0
        if is_open:
            raise DemoFailed(f"{bookie_id} takes connections while it waits for a grant", str(self._logs))
        cookie = f"cookie version {report.cookie_version}, incarnation {report.incarnation}"
        self._timeline.tell("state", f"  report: {cookie}, data port closed (connection refused)")
        self._grant(bookie)

    def _grant(self, bookie: local_support.LocalBookie) -> None:
        assert self._timeline is not None
        words = ["integrity", "grant", "--admin", bookie.admin, "--yes"]
        self._timeline.tell("operator", f"a person decides: bookie {' '.join(words)}")
        done = subprocess.run(
            [*local_support.BOOKIE, *words], capture_output=True, text=True, timeout=GRANT_TIMEOUT_S, check=False
        )
        if done.returncode != 0:
            raise DemoFailed(f"the grant was refused: {(done.stderr or done.stdout).strip()}", str(self._logs))

    # ---- the end -----------------------------------------------------------------------------------------------------

    def prepare_audit(self) -> None:
        """Return at once: `start` made sure of Java, and Spark is installed with this checkout."""

    def begin_audit(self, name: str) -> LocalAudit:
        audit = LocalAudit(self.fleet.uri, self._logs / f"audit-{name}")
        self._stack.callback(audit.close)
        return audit

    def final_proofs(self, bookie_id: str, loss: Loss) -> list[Proof]:
        try:
            report = admin_client.report(self._bookie(bookie_id).admin, fresh=True)
        except BookieError as error:
            return [Proof("the bookie answers at the end", False, str(error))]
        lives = {volume.name: volume.sentinel.incarnation if volume.sentinel else 0 for volume in report.volumes}
        stamped = {f"{name}={incarnation}" for name, incarnation in lives.items()}
        right = report.incarnation > 1 and set(lives.values()) == {report.incarnation}
        seen = f"metadata says {report.incarnation}, volumes say {', '.join(sorted(stamped))}"
        return [
            Proof("the bookie's new incarnation is in the metadata and on its volumes", right, seen),
            self._all_serve(),
        ]

    def _all_serve(self) -> Proof:
        closed = []
        for bookie in self.fleet.bookies:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", bookie.port)) != 0:
                    closed.append(bookie.bookie_id)
        seen = f"{len(self.fleet.bookies) - len(closed)} of {len(self.fleet.bookies)} data ports open"
        return Proof("every bookie serves", not closed, seen)

    def diagnose(self) -> str:
        return str(self._logs)

    def close(self, *, keep: bool) -> str:
        with step("ending the fleet"):
            self._stack.close()
        return ""

    def _bookie(self, bookie_id: str) -> local_support.LocalBookie:
        return next(bookie for bookie in self.fleet.bookies if bookie.bookie_id == bookie_id)


def _ensure_java() -> None:
    """Install Java, which ZooKeeper needs, where it is missing and we may."""
    if os.environ.get("JAVA_HOME"):
        return
    try:
        kube_host.ensure_programs(["openjdk-17-jre-headless"], programs=["java"], wanted_for="ZooKeeper")
    except ClusterError as error:
        raise DemoFailed(str(error), "the package registry") from None


def _is_gone(pid: int) -> bool:
    """Tell whether a process has ended; one that waits to be reaped by its parent has (proc(5), state Z)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return True
    return stat.rpartition(")")[2].split()[0] in ("Z", "X")


def _size_bytes(folder: Path) -> int:
    """Return what the files in `folder` take on disk (preallocated files count by their blocks)."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def _words(volume: VolumeReport) -> str:
    mount = volume.mount
    return f"{volume.contents.value}, mount {mount.proof.value}, {format_bytes(mount.total_bytes)} file system"
