"""Runs the writer processes: one that lives as long as the run, and one that is killed again and again.

Each writer process appends to its own log file. The supervisor reads the logs, prints a sample a second, and decides
when to kill the doomed process; it must never write to a log.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

from bookie.base import errors
from bookie.base.groups import ungrouped
from bookie.client import Client
from bookie.workload import files, writer
from bookie.workload.sample import OracleSample

SAMPLE_S = 1.0
# A run holds a lock on the last of these as long as it lives.
STOP_FILE, STOPPED_FILE, RUN_FILE = "stop", "stopped", "run"
STOP_TIMEOUT_S = 60.0
# Shares of the rate: one ledger that lives as long as the run, short ones that are closed, left, or cut off by a kill.
SHARES = {"steady": 0.25, "closing": 0.35, "leaving": 0.2, "doomed": 0.2}
LIVING = ("steady", "closing", "leaving")


@dataclass(frozen=True, slots=True)
class WorkloadRun:
    """The options of a run; its writer processes get the same. `cluster`: flags that name the cluster and our
    identity."""

    cluster: tuple[str, ...]
    log: Path
    rate_per_s: float
    entries_per_ledger: int


async def write(run: WorkloadRun, plans: list[str], connect: Callable[[], AbstractAsyncContextManager[Client]]) -> None:
    """Write by the given plans until SIGTERM; then close the steady ledgers, and leave the others as they are."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    path = run.log / f"{plans[0]}-{files.wall_ms()}-{os.getpid()}{files.SUFFIX}"
    with path.open("xb") as file:
        log = files.FileLog(file)
        async with connect() as client:
            try:
                async with ungrouped(errors.BookieError), asyncio.TaskGroup() as group:
                    # In the group: entries whose acknowledgements nobody records are not verified, and not missed.
                    flusher = group.create_task(log.keep_flushing())
                    writers = []
                    for name in plans:
                        plan = writer.WriterPlan(
                            name, run.rate_per_s * SHARES[name], run.entries_per_ledger, os.getpid()
                        )
                        writers.append(group.create_task(writer.write(client, plan, log, stopping)))
                    await asyncio.wait(writers)
                    flusher.cancel()
            finally:
                log.flush()


class NoRun(errors.BookieError):
    """There is no run that could stop."""


@contextlib.contextmanager
def held(log: Path) -> Iterator[None]:
    """Be a run on this log, for `stop` to see. Runs may share a log; the lock ends with the process, however that
    ends."""
    with (log / RUN_FILE).open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield


def _has_run(log: Path) -> bool:
    try:
        with (log / RUN_FILE).open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def has_stopped(log: Path) -> bool | None:
    """Whether the run on this log has said that it stopped; None where no run is there that could say it."""
    has_run = _has_run(log)  # looked for first: a run says so before it ends
    return True if (log / STOPPED_FILE).exists() else False if has_run else None


def supervise(run: WorkloadRun, *, kill_every_s: float, stay: bool) -> bool:
    """Keep the writers going and kill the doomed one now and then, until told to stop. False when they ended by
    themselves. `stay`: return only at a signal, so that a pod can be asked to verify."""
    with held(run.log):
        return _supervise(run, kill_every_s=kill_every_s, stay=stay)


def _supervise(run: WorkloadRun, *, kill_every_s: float, stay: bool) -> bool:
    signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda caught, _: signals.append(caught))
    (run.log / STOPPED_FILE).unlink(missing_ok=True)  # of a run before: `stop` would take it for this one's
    follower, sample = files.LogFollower(run.log), OracleSample()
    living, doomed = _spawn(run, LIVING), _spawn(run, ("doomed",))
    kill_s = time.monotonic() + kill_every_s
    try:
        while not signals and not was_stopped(run.log):
            time.sleep(SAMPLE_S)
            _print_sample(sample, follower)
            if living.poll() is not None:
                return False
            has_written = sample.doomed_acknowledged > 0  # a writer that left nothing behind is no accident
            if (has_written and time.monotonic() > kill_s) or doomed.poll() is not None:
                _end(doomed, signal.SIGKILL)
                sample.killed, sample.doomed_acknowledged = sample.killed + 1, 0
                doomed, kill_s = _spawn(run, ("doomed",)), time.monotonic() + kill_every_s
    finally:
        _end(doomed, signal.SIGKILL)
        _end(living, signal.SIGTERM)
    sample.stopped = True
    _print_sample(sample, follower)
    (run.log / STOPPED_FILE).touch()
    while stay and not signals:
        time.sleep(SAMPLE_S)
    return True


def was_stopped(log: Path) -> bool:
    """Whether a run on this log was told to stop: another one would end before its first entry."""
    return (log / STOP_FILE).exists()


def stop(log: Path, *, tell: Callable[[str], None] = lambda _: None) -> bool:
    """Ask the run on this log to stop; True once its writers are gone and their logs are whole. `tell` gets what is
    waited for. Raises NoRun where no run is there, or it ended without a word: nobody would answer."""
    patience_s = 2 * STOP_TIMEOUT_S
    is_over = has_stopped(log)
    if is_over is None:
        raise NoRun(f"no run on {log} is there to be stopped")
    (log / STOP_FILE).touch()
    if not is_over:
        tell(f"the run on {log} is asked to stop; waiting until its writers have, {patience_s:g} s at most")
    deadline_s = time.monotonic() + patience_s
    while not (is_over := has_stopped(log)):
        if is_over is None:
            raise NoRun(f"the run on {log} ended, and did not say that it had stopped: it was killed, or failed")
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.1)
    return True


def _spawn(run: WorkloadRun, plans: tuple[str, ...]) -> "subprocess.Popen[bytes]":
    argv = [sys.executable, "-m", "bookie", "workload", "write", "--plans", ",".join(plans), "--log", str(run.log)]
    argv += [*run.cluster, "--rate", str(run.rate_per_s), "--entries-per-ledger", str(run.entries_per_ledger)]
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL)


def _end(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    """Send a child process the signal `number` and wait for its end; if it takes too long, kill it."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)
    try:
        process.wait(timeout=STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _print_sample(sample: OracleSample, follower: files.LogFollower) -> None:
    before, before_ms = sample.acknowledged, sample.wall_ms
    for record in follower.news():
        sample.count(record)
    sample.wall_ms = files.wall_ms()
    elapsed_s = max((sample.wall_ms - before_ms) / 1000, 0.001) if before_ms else SAMPLE_S
    sample.rate_per_s = round((sample.acknowledged - before) / elapsed_s, 1)
    print(json.dumps(asdict(sample)), flush=True)
