"""`bookie workload`: the oracle as commands. `run` writes and remembers, `stop` ends it, `verify` reads all of it back.

The log is a folder of files, one per writer process, each appended and synced by its process alone. One process holds
the writers that live; another one is killed again and again, so that ledgers are left as crashes leave them.
"""

import argparse
import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path

from bookie import connect
from bookie.base import ids
from bookie.workload import check, files, supervisor, survey, verify

EXIT_OK, EXIT_FAILED, EXIT_NOT_FOUND = 0, 1, 3


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


def run_workload(arguments: argparse.Namespace) -> int:
    """Write and kill, a sample a second on stdout."""
    if supervisor.supervise(_run_of(arguments), kill_every_s=arguments.kill_every_s, stay=arguments.stay):
        return EXIT_OK
    print("bookie workload: the writers ended by themselves; their last words are above", file=sys.stderr)
    return EXIT_FAILED


def run_writers(arguments: argparse.Namespace) -> int:
    """Be one writer process."""
    asyncio.run(supervisor.write(_run_of(arguments), arguments.plans.split(",")))
    return EXIT_OK


def _run_of(arguments: argparse.Namespace) -> supervisor.Run:
    return supervisor.Run(arguments.metadata_service_uri, arguments.log, arguments.rate, arguments.entries_per_ledger)


def run_stop(arguments: argparse.Namespace) -> int:
    """Ask the run on this log to stop and wait until it has."""
    if supervisor.stop(arguments.log):
        return EXIT_OK
    print(f"bookie workload: no run on {arguments.log} has stopped; is one there?", file=sys.stderr)
    return EXIT_FAILED


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
