"""`bookie workload`: the oracle as commands. `run` writes and remembers, `stop` ends it, `verify` reads all of it back.

The log is a folder of files, one per writer process, each appended and synced by its process alone. One process holds
the writers that live; another one is killed again and again, so that ledgers are left as crashes leave them.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from bookie import connect
from bookie.base import ids
from bookie.workload import check, files, survey, verify, writer
from bookie.workload.sample import Sample

SAMPLE_S = 1.0
STOP_FILE, STOPPED_FILE = "stop", "stopped"
STOP_TIMEOUT_S = 60.0
EXIT_OK, EXIT_FAILED, EXIT_NOT_FOUND = 0, 1, 3
# Shares of the rate: one ledger that lives as long as the run, short ones that are closed, left, or cut off by a kill.
SHARES = {"steady": 0.25, "closing": 0.35, "leaving": 0.2, "doomed": 0.2}
LIVING = ("steady", "closing", "leaving")


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register the noun and its verbs."""
    noun = subparsers.add_parser("workload", help="the oracle: writes, remembers, and proves that nothing is lost")
    verbs = noun.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="write until told to stop; one JSON sample a second on stdout")
    run.add_argument("--rate", type=float, default=200.0, help="entries per second, all writers together")
    run.add_argument("--entries-per-ledger", type=int, default=150, help="of the ledgers that are closed or left")
    run.add_argument("--kill-every-s", type=float, default=10.0, help="how often a writer is killed")
    run.add_argument("--stay", action="store_true", help="after `stop`, stay until SIGTERM (for a pod to verify in)")
    _common(run, run_workload)
    write = verbs.add_parser("write", help="one writer process of `run`")
    write.add_argument("--plans", required=True, help="comma list of steady, closing, leaving, doomed")
    write.add_argument("--rate", type=float, required=True)
    write.add_argument("--entries-per-ledger", type=int, required=True)
    _common(write, run_writers)
    stop = verbs.add_parser("stop", help="ask `run` on the same log to stop, wait until it has")
    _common(stop, run_stop, needs_uri=False)
    check_all = verbs.add_parser("verify", help="recover what was left, read back every acknowledged entry, compare")
    check_all.add_argument("--replicas-of", metavar="BOOKIE", help="also read each copy this bookie should hold")
    check_all.add_argument("--before-ms", type=int, help="with --replicas-of: entries acknowledged before this instant")
    check_all.add_argument("--json", action="store_true", help="the verdict as JSON")
    _common(check_all, run_verify)
    look = verbs.add_parser("survey", help="which ledgers name which bookie, and which are open on it, as JSON")
    _common(look, run_survey, needs_log=False)
    probe = verbs.add_parser("fenced", help="ask a bookie to take one more entry of ledgers that must be fenced there")
    probe.add_argument("--bookie", required=True)
    probe.add_argument("--ledgers", required=True, help="comma list of ledger ids")
    _common(probe, run_fenced, needs_log=False)


def _common(parser: argparse.ArgumentParser, run: object, *, needs_uri: bool = True, needs_log: bool = True) -> None:
    if needs_uri:
        parser.add_argument("--metadata-service-uri", required=True)
    if needs_log:
        parser.add_argument("--log", type=Path, required=True, help="the folder of the oracle's log")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the verb that was given; return the exit code."""
    code: int = arguments.run(arguments)
    return code


# ---- one writer process ---------------------------------------------------------------------------------------------


def run_writers(arguments: argparse.Namespace) -> int:
    """Write by the given plans until SIGTERM; steady ledgers are closed then, the others are where they are."""
    asyncio.run(_write(arguments))
    return EXIT_OK


async def _write(arguments: argparse.Namespace) -> None:
    plans = arguments.plans.split(",")
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    path = arguments.log / f"{plans[0]}-{files.wall_ms()}-{os.getpid()}{files.SUFFIX}"
    with path.open("xb") as file:
        log = files.FileLog(file)
        async with connect.connect(arguments.metadata_service_uri) as client:
            flusher = asyncio.ensure_future(log.keep_flushing())
            try:
                async with asyncio.TaskGroup() as group:
                    for name in plans:
                        plan = writer.Plan(
                            name, arguments.rate * SHARES[name], arguments.entries_per_ledger, os.getpid()
                        )
                        group.create_task(writer.write(client, plan, log, stopping))
            finally:
                flusher.cancel()
                await asyncio.gather(flusher, return_exceptions=True)
                log.flush()


# ---- the run --------------------------------------------------------------------------------------------------------


def run_workload(arguments: argparse.Namespace) -> int:
    """Keep the writers going, kill the doomed one now and then, print a sample a second, until told to stop."""
    arguments.log.mkdir(parents=True, exist_ok=True)
    signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda caught, _: signals.append(caught))
    follower, sample = files.LogFollower(arguments.log), Sample()
    living, doomed = _spawn(arguments, LIVING), _spawn(arguments, ("doomed",))
    kill_s = time.monotonic() + arguments.kill_every_s
    try:
        while not signals and not (arguments.log / STOP_FILE).exists():
            time.sleep(SAMPLE_S)
            _print_sample(sample, follower)
            if living.poll() is not None:
                print(f"bookie workload: the writers ended by themselves ({living.returncode})", file=sys.stderr)
                return EXIT_FAILED
            has_written = sample.doomed_acknowledged > 0  # a writer that left nothing behind is no accident
            if (has_written and time.monotonic() > kill_s) or doomed.poll() is not None:
                _end(doomed, signal.SIGKILL)
                sample.killed, sample.doomed_acknowledged = sample.killed + 1, 0
                doomed, kill_s = _spawn(arguments, ("doomed",)), time.monotonic() + arguments.kill_every_s
    finally:
        _end(doomed, signal.SIGKILL)
        _end(living, signal.SIGTERM)
    sample.stopped = True
    _print_sample(sample, follower)
    (arguments.log / STOPPED_FILE).touch()
    while arguments.stay and not signals:
        time.sleep(SAMPLE_S)
    return EXIT_OK


def _spawn(arguments: argparse.Namespace, plans: tuple[str, ...]) -> "subprocess.Popen[bytes]":
    argv = [sys.executable, "-m", "bookie", "workload", "write", "--plans", ",".join(plans), "--log", arguments.log]
    argv += ["--metadata-service-uri", arguments.metadata_service_uri, "--rate", str(arguments.rate)]
    return subprocess.Popen(
        [*argv, "--entries-per-ledger", str(arguments.entries_per_ledger)], stdin=subprocess.DEVNULL
    )


def _end(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    """Signal a child of ours and wait for its end; a polite signal is followed by a kill after a while."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)
    try:
        process.wait(timeout=STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _print_sample(sample: Sample, follower: files.LogFollower) -> None:
    before, before_ms = sample.acknowledged, sample.wall_ms
    for record in follower.news():
        sample.count(record)
    sample.wall_ms = files.wall_ms()
    elapsed_s = max((sample.wall_ms - before_ms) / 1000, 0.001) if before_ms else SAMPLE_S
    sample.rate_per_s = round((sample.acknowledged - before) / elapsed_s, 1)
    print(json.dumps(asdict(sample)), flush=True)


def run_stop(arguments: argparse.Namespace) -> int:
    """Ask the run on this log to stop; return once its writers are gone and their logs are whole."""
    (arguments.log / STOP_FILE).touch()
    deadline_s = time.monotonic() + 2 * STOP_TIMEOUT_S
    while not (arguments.log / STOPPED_FILE).exists():
        if time.monotonic() > deadline_s:
            print(f"bookie workload: no run on {arguments.log} has stopped; is one there?", file=sys.stderr)
            return EXIT_FAILED
        time.sleep(0.1)
    return EXIT_OK


# ---- the proof ------------------------------------------------------------------------------------------------------


def run_verify(arguments: argparse.Namespace) -> int:
    """Read back all that was acknowledged; print the verdict. Exit 0 when nothing is lost."""
    ledgers = files.load_log(arguments.log)
    if not ledgers:
        print(f"bookie workload: {arguments.log} holds no log of a run", file=sys.stderr)
        return EXIT_NOT_FOUND
    verdict = asyncio.run(_verify(arguments, ledgers))
    if arguments.json:
        print(json.dumps({**asdict(verdict), "clean": verdict.is_clean}))
    else:
        print(f"acknowledged={verdict.acknowledged} verified={verdict.verified} lost={verdict.lost}")
        for problem in verdict.problems:
            print(f"  {problem}")
    return EXIT_OK if verdict.is_clean else EXIT_FAILED


async def _verify(arguments: argparse.Namespace, ledgers: dict[int, check.Expected]) -> check.Verdict:
    def report(done: int) -> None:
        print(f"verified {done} of {len(ledgers)} ledgers", file=sys.stderr, flush=True)

    replicas = None
    if arguments.replicas_of:
        replicas = verify.Replicas(arguments.replicas_of, arguments.before_ms or files.wall_ms())
    async with connect.connect(arguments.metadata_service_uri) as client:
        return await verify.verify(client, list(ledgers.values()), replicas=replicas, report=report)


def run_survey(arguments: argparse.Namespace) -> int:
    """Print what each bookie is named by."""

    async def ask() -> dict[str, survey.Named]:
        async with connect.connect(arguments.metadata_service_uri) as client:
            return await survey.survey(client)

    named = asyncio.run(ask())
    print(json.dumps({"bookies": {bookie_id: asdict(one) for bookie_id, one in sorted(named.items())}}))
    return EXIT_OK


def run_fenced(arguments: argparse.Namespace) -> int:
    """Print how many of the ledgers refuse an add on the bookie. Exit 0 when all that should do."""
    ledgers = [ids.parse_ledger_id(text) for text in arguments.ledgers.split(",") if text]

    async def ask() -> survey.Fences:
        async with connect.connect(arguments.metadata_service_uri) as client:
            return await survey.probe_fences(client, ids.parse_bookie_id(arguments.bookie), ledgers)

    found = asyncio.run(ask())
    print(json.dumps(asdict(found)))
    return EXIT_FAILED if found.unfenced or found.unknown else EXIT_OK
