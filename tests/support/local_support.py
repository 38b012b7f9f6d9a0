"""A fleet on this machine without Kubernetes: `bookie local` as a process, told what to do by its own command line.

Whoever starts a fleet ends it; a bookie of the fleet may be killed by its process id, and stays dead.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import children
import port_support
import wait_support
import zookeeper_support
from bookie.local import layout

START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 60.0
PORTS_APART = 10  # of two bookies of a fleet, as `bookie local --base-port` has it
BOOKIE = (sys.executable, "-m", "bookie")


@dataclasses.dataclass(frozen=True, slots=True)
class LocalBookie:
    """One bookie of the fleet, as `bookie local --json` tells it."""

    bookie_id: str
    port: int
    admin_port: int
    metrics_port: int
    pid: int
    journal: Path
    ledgers: Path
    index: Path
    facts: dict[str, Any]

    @property
    def admin(self) -> str:
        return f"127.0.0.1:{self.admin_port}"

    def logs(self) -> list[Path]:
        return [Path(self.facts["log"])]


@dataclasses.dataclass(frozen=True, slots=True)
class LocalFleet:
    data: Path
    uri: str
    bookies: tuple[LocalBookie, ...]
    process: subprocess.Popen[str]
    log: Path

    def logs(self) -> list[Path]:
        """What `bookie local` says, its ZooKeeper and each of its bookies."""
        return [self.log, *sorted((self.data / "logs").glob("*.log"))]


@contextlib.contextmanager
def fleet(data: Path, log: Path, *, bookies: int, arguments: Sequence[str] = ()) -> Iterator[LocalFleet]:
    """Run `bookie local` until the body ends. Raises AssertionError with the end of its log when it does not start.

    An error of the body tells how every log of the fleet ends.
    """
    environment = ("env", f"JAVA_TOOL_OPTIONS={zookeeper_support.UNSYNCED}")
    argv = [*environment, *BOOKIE, "local", "--bookies", str(bookies), "--data", str(data), "--json", *arguments]
    if not data.exists():  # else its bookies have their ports, which are their names
        argv += ["--base-port", str(port_support.free_block(PORTS_APART * bookies))]
        argv += ["--zk-port", str(port_support.free_port())]
    with log.open("ab") as talk:
        process = children.spawn(argv, stderr=talk)
    try:
        facts = json.loads(first_line(process, log))
        running = LocalFleet(data, facts["metadataServiceUri"], tuple(map(_bookie, facts["bookies"])), process, log)
        with children.explained(running.logs):
            yield running
    finally:
        children.end(process, timeout_s=STOP_TIMEOUT_S)


def first_line(process: subprocess.Popen[str], log: Path) -> str:
    """Return the first line that a program prints; its log tells why where none comes in time."""
    assert process.stdout is not None
    deadline_s = time.monotonic() + START_TIMEOUT_S
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if selector.select(deadline_s - time.monotonic()):
            line = process.stdout.readline()
            if line.strip():
                return line
    raise AssertionError(f"{process.args} told nothing; its log ends: {children.tail(log)}")


def _bookie(facts: dict[str, Any]) -> LocalBookie:
    return LocalBookie(
        bookie_id=facts["id"],
        port=facts["port"],
        admin_port=facts["adminPort"],
        metrics_port=facts["metricsPort"],
        pid=facts["pid"],
        journal=Path(facts["journal"]),
        ledgers=Path(facts["ledgers"]),
        index=Path(facts["index"]),
        facts=facts,
    )


def is_running(pid: int) -> bool:
    """False once its locks and ports are free, also before its parent has asked how it ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def kill(bookie: LocalBookie) -> None:
    """As if power had gone. It holds its directories until it is gone: a process that is in a sync ends after it."""
    _end(bookie, signal.SIGKILL)


def stop(bookie: LocalBookie) -> None:
    """In good order."""
    _end(bookie, signal.SIGTERM)


def _end(bookie: LocalBookie, number: signal.Signals) -> None:
    with children.explained(bookie.logs):
        end(bookie.pid, number)


def end(pid: int, number: signal.Signals = signal.SIGTERM) -> None:
    """Send a signal to a process of whoever started it, and wait until it has ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
    wait_support.wait_until(lambda: not is_running(pid), f"the end of process {pid}", timeout_s=START_TIMEOUT_S)


@contextlib.contextmanager
def again(
    bookie: LocalBookie, *, enter: Sequence[str] = (), until: str = "serving bookie_id="
) -> Iterator[subprocess.Popen[str]]:
    """Start a bookie that has ended from its settings file, until the body ends; its log has said `until`.

    `enter`: what goes before the command.
    """
    (log,) = bookie.logs()
    since_bytes = log.stat().st_size
    with log.open("ab") as talk:
        process = children.spawn([*enter, *BOOKIE, "serve", "--config", str(bookie.facts["config"])], stderr=talk)
    try:
        with children.explained(bookie.logs):
            _wait_said(process, log, until, since_bytes=since_bytes)
            yield process
    finally:
        children.end(process, timeout_s=STOP_TIMEOUT_S)


def _wait_said(process: subprocess.Popen[str], log: Path, text: str, *, since_bytes: int = 0) -> None:
    def has_said() -> bool:
        assert process.poll() is None, f"it ended with {process.returncode}"
        return text.encode() in log.read_bytes()[since_bytes:]

    wait_support.wait_until(has_said, f"{text!r} in {log}", timeout_s=START_TIMEOUT_S)


def plan_one(folder: Path) -> layout.LocalBookie:
    """Where one bookie keeps its things in `folder`, and its ports."""
    return layout.plan(folder, 1, port_support.free_block(PORTS_APART))[0]


class MortalBookie:
    """One bookie more in somebody's cluster, as a process of its own, to be killed."""

    def __init__(self, bookie: layout.LocalBookie, process: subprocess.Popen[str]) -> None:
        self.bookie_id = bookie.bookie_id
        self.admin = f"127.0.0.1:{bookie.admin_port}"
        self.log = bookie.log
        self._process = process

    def logs(self) -> list[Path]:
        return [self.log]

    def kill(self) -> None:
        """As if power had gone."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """In good order, so that nobody takes it for one to write to any more."""
        self._process.terminate()
        assert self._process.wait(timeout=STOP_TIMEOUT_S) == 0, children.tail(self.log)


@contextlib.contextmanager
def one_bookie(uri: str, folder: Path, *settings: str) -> Iterator[MortalBookie]:
    """Run a bookie at `uri` until the body ends, with more `name=value` lines; it is ready when this begins."""
    folder.mkdir(parents=True)
    bookie = plan_one(folder)
    bookie.log.parent.mkdir()
    layout.write_config(bookie, uri, journal_write_data=True, regeneration="gated")
    with bookie.config.open("a") as config:
        config.writelines(f"{line}\n" for line in settings)
    with bookie.log.open("ab") as talk:
        process = children.spawn([*BOOKIE, "serve", "--config", str(bookie.config)], stderr=talk)
    running = MortalBookie(bookie, process)
    try:
        with children.explained(running.logs):
            _wait_said(process, bookie.log, "serving bookie_id=")
            yield running
    finally:
        children.end(process, timeout_s=STOP_TIMEOUT_S)
