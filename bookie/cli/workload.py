"""`bookie workload`: the oracle as commands. `run` writes entries and records acknowledgements, `stop` ends the run,
`verify` reads all recorded entries back.

The log is a folder of files, one per writer process, each appended and synced by its process alone. One process holds
the writers that live as long as the run; another one is killed again and again, so that some ledgers end as a crash
leaves them.
"""

import argparse
import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict
from pathlib import Path

from bookie.base import errors, ids
from bookie.base.ids import BookieId, LedgerId
from bookie.cli import output, where
from bookie.client import Client
from bookie.metadata import paths
from bookie.workload import check, files, supervisor, survey, verify

# An application's, not the short one of a question: the metadata store may be away for a while.
_SESSION_MS = 30_000
# Of entries a second, entries a ledger and seconds: what is more was not meant.
_MOST = 10**9
_MS_MAX = 2**63 - 1
EXIT_OK, EXIT_FAILED, EXIT_NOT_FOUND = 0, 1, 3


def add_verbs(noun: argparse.ArgumentParser) -> None:
    verbs = noun.add_subparsers(dest="verb", required=True)
    run = output.add_verb(verbs, "run", "write entries until `stop`, and print one JSON sample a second")
    run.add_argument("--rate", type=float, default=200.0, help="entries per second of all writers together (200)")
    run.add_argument(
        "--entries-per-ledger",
        type=output.whole,
        default=150,
        help="entries per ledger for the writers that start a new ledger after so many (plans closing, leaving) (150)",
    )
    run.add_argument("--kill-every-s", type=float, default=10.0, help="kill a writer every so many seconds (10)")
    run.add_argument(
        "--stay", action="store_true", help="after `stop`, wait for SIGTERM, so that a pod stays for `verify`"
    )
    run.add_argument("--json", action="store_true", help="as it is without this")
    _common(run, run_workload)
    write = output.add_verb(verbs, "write", "be one writer process of `run`; `run` starts these by itself")
    write.add_argument("--plans", required=True, help="steady, closing, leaving, doomed: one or more, with commas")
    write.add_argument("--rate", type=float, required=True, help="as for `run`")
    write.add_argument("--entries-per-ledger", type=output.whole, required=True, help="as for `run`")
    _common(write, run_writers)
    stop = output.add_verb(verbs, "stop", "ask the `run` on this log to stop, and wait until it has")
    output.add_json(stop)
    _common(stop, run_stop, needs_uri=False)
    check_all = output.add_verb(
        verbs, "verify", "recover the ledgers that were left open, read every acknowledged entry back and compare it"
    )
    output.add_bookie(check_all, "--replicas-of", "also read each copy that this bookie should hold")
    check_all.add_argument(
        "--before-ms",
        type=output.within("--before-ms", 0, _MS_MAX),
        help="with --replicas-of: only entries acknowledged before this time (ms since 1970)",
    )
    check_all.add_argument("--json", action="store_true", help="the verdict as JSON")
    _common(check_all, run_verify)
    look = output.add_verb(verbs, "survey", "print as JSON which ledgers name which bookie, and which of them are open")
    look.add_argument("--json", action="store_true", help="as it is without this")
    _common(look, run_survey, needs_log=False)
    probe = output.add_verb(
        verbs,
        "fenced",
        "ask a bookie to add to ledgers that are fenced there an entry that it should have; it must refuse each (where"
        " nobody gives such an entry, one far beyond the ledger's end, which stays if it is taken)",
    )
    output.add_bookie(probe, "--bookie", required=True)
    probe.add_argument("--ledgers", required=True, help="ledger ids, with commas")
    probe.add_argument("--json", action="store_true", help="as it is without this")
    _common(probe, run_fenced, needs_log=False)


def _common(parser: argparse.ArgumentParser, run: object, *, needs_uri: bool = True, needs_log: bool = True) -> None:
    if needs_uri:
        where.add_cluster(parser)
    if needs_log:
        parser.add_argument("--log", type=Path, required=True, help="the folder in which the oracle keeps its log")
    parser.set_defaults(run=run)


def run_workload(arguments: argparse.Namespace) -> int:
    """Run the writer processes and kill one now and then; print a sample a second on stdout."""
    check_orders(arguments)
    output.make_folder(arguments.log)
    if supervisor.was_stopped(arguments.log) and not arguments.stay:  # a pod that starts again stays to be asked
        raise errors.BadInput(
            f"the run on {arguments.log} was told to stop, so that this one would write nothing: name another folder,"
            f" or remove {arguments.log / supervisor.STOP_FILE} to go on with that log"
        )
    with _log_of(arguments):
        is_done = supervisor.supervise(run_of(arguments), kill_every_s=arguments.kill_every_s, stay=arguments.stay)
    if is_done:
        return EXIT_OK
    output.tell("bookie workload: the writers ended before `stop`; the reason is in the lines above")
    return EXIT_FAILED


def run_writers(arguments: argparse.Namespace) -> int:
    """Be one writer process."""
    check_orders(arguments)
    if not output.is_folder(arguments.log):
        raise errors.BadInput(f"there is no folder {arguments.log}: `bookie workload run --log` makes it")
    with _log_of(arguments):
        asyncio.run(supervisor.write(run_of(arguments), arguments.plans.split(","), lambda: _client(arguments)))
    return EXIT_OK


@contextlib.contextmanager
def _log_of(arguments: argparse.Namespace) -> Iterator[None]:
    """Tell of a log that cannot be written: a full disk, one that takes no writes."""
    try:
        yield
    except OSError as error:
        raise errors.StorageFailed(
            f"nothing can be written to the log in {arguments.log}: {error.strerror or error}: make room there, or name"
            " another --log"
        ) from error


def check_orders(arguments: argparse.Namespace) -> None:
    """Raise BadInput for orders by which nobody can write: the writers would end one after the other, or never begin,
    while samples of a run are printed."""
    _file_of(arguments)
    paths.parse_uri(where.uri_of(arguments))
    for flag, least in (("rate", 0), ("entries_per_ledger", 0), ("kill_every_s", 0)):
        value = getattr(arguments, flag, 1)
        if not least < value < _MOST:
            raise errors.BadInput(
                f"--{flag.replace('_', '-')} is {value:g}: it must be more than {least} and less than {_MOST:g}"
            )
    unknown = set(getattr(arguments, "plans", "steady").split(",")) - set(supervisor.SHARES)
    if unknown:
        raise errors.BadInput(f"--plans names {', '.join(sorted(unknown))}: there are {', '.join(supervisor.SHARES)}")


def _file_of(arguments: argparse.Namespace) -> str:
    """Return the settings file by a name that other processes can read, "" where none is named. Raises BadInput."""
    path = Path(arguments.config or "")
    if arguments.config and path.exists() and not path.resolve().is_file():
        raise errors.BadInput(
            f"--config {path} is no file that each writer, a process of its own, can read again: write the settings to"
            " a file and name that"
        )
    return str(path.resolve()) if arguments.config else ""


def run_of(arguments: argparse.Namespace) -> supervisor.WorkloadRun:
    cluster = ["--metadata-service-uri", where.uri_of(arguments)]
    cluster += ["--config", _file_of(arguments)] if arguments.config else []
    return supervisor.WorkloadRun(tuple(cluster), arguments.log, arguments.rate, arguments.entries_per_ledger)


def _client(arguments: argparse.Namespace) -> AbstractAsyncContextManager[Client]:
    return where.client(arguments, session_ms=_SESSION_MS)


def run_stop(arguments: argparse.Namespace) -> int:
    """Ask the run on this log to stop, and wait until it has stopped."""
    if not output.is_folder(arguments.log):
        output.tell(f"bookie workload: there is no folder {arguments.log}: name the one that `run --log` had")
        return EXIT_NOT_FOUND
    try:
        with _log_of(arguments):
            had_stopped = supervisor.has_stopped(arguments.log)
            is_stopped = supervisor.stop(arguments.log, tell=lambda text: output.tell(f"bookie workload: {text}"))
    except supervisor.NoRun as none:
        output.tell(f"bookie workload: {none}: name the folder that `run --log` has, on the machine where it runs")
        return EXIT_NOT_FOUND
    if is_stopped:
        said = "had stopped before" if had_stopped else "has stopped"
        output.say(arguments, {"log": str(arguments.log), "stopped": True}, f"the run on {arguments.log} {said}")
        return EXIT_OK
    output.tell(f"bookie workload: the run on {arguments.log} is still there: ask again, or look at what it says")
    return EXIT_FAILED


# ---- the proof ------------------------------------------------------------------------------------------------------


async def run_verify(arguments: argparse.Namespace) -> int:
    """Read back all acknowledged entries; print the verdict. Exit 0 when all came back, 1 when something is lost, 6
    when something could not be read, or nothing was acknowledged."""
    if arguments.before_ms is not None and not arguments.replicas_of:
        raise errors.BadInput("--before-ms is of copies, and none are looked at one by one: add --replicas-of BOOKIE")
    if output.is_there(arguments.log) and not arguments.log.is_dir():
        raise errors.BadInput(f"{arguments.log} is no folder: name the one that `run --log` had")
    if output.is_there(arguments.log) and not os.access(arguments.log, os.R_OK | os.X_OK):
        raise errors.BadInput(f"{arguments.log} cannot be read: run this as the user whose it is")
    try:
        ledgers = files.load_log(arguments.log)
    except OSError as unread:
        raise errors.BadInput(f"the log in {arguments.log} cannot be read: {unread.strerror or unread}") from unread
    if not ledgers:
        output.tell(f"bookie workload: {arguments.log} holds no log of a run: name the folder that `run --log` had")
        return EXIT_NOT_FOUND
    verdict = await _verify(arguments, ledgers)
    if arguments.json:
        print(json.dumps({**asdict(verdict), "clean": verdict.is_clean, "outcome": verdict.outcome}))
    else:
        counts = f"acknowledged={verdict.acknowledged} verified={verdict.verified} lost={verdict.lost}"
        print(f"{verdict.outcome}: {counts} unknown={verdict.unknown + verdict.replicas_unknown}")
        for problem in verdict.problems:
            print(f"  {problem}")
    return output.EXIT_OF[verdict.outcome]


async def _verify(arguments: argparse.Namespace, ledgers: dict[int, check.AcknowledgedLedger]) -> check.CheckResult:
    def report(done: int) -> None:
        print(f"verified {done} of {len(ledgers)} ledgers", file=sys.stderr, flush=True)

    replicas = None
    if arguments.replicas_of:
        replicas = verify.ReplicaCheck(arguments.replicas_of, arguments.before_ms or files.wall_ms())
    async with _client(arguments) as client:
        return await verify.verify(client, list(ledgers.values()), replicas=replicas, report=report)


async def run_survey(arguments: argparse.Namespace) -> int:
    """Print which ledgers name each bookie."""
    async with _client(arguments) as client:
        named = await survey.survey(client)
    print(json.dumps({"bookies": {bookie_id: asdict(one) for bookie_id, one in sorted(named.items())}}))
    return EXIT_OK


async def run_fenced(arguments: argparse.Namespace) -> int:
    """Print how many of the ledgers refuse an add on the bookie. Exit 0 when every ledger that should refuse does, 6
    when the bookie was asked about none."""
    ledgers = [ids.parse_ledger_id(text) for text in arguments.ledgers.split(",") if text]
    async with _client(arguments) as client:
        found = await probe(client, arguments.bookie, ledgers)
    print(json.dumps(asdict(found)))
    code = fences_code(found)
    if found.unfenced:
        output.tell(
            f"{arguments.bookie} took an entry of ledgers {', '.join(map(str, found.unfenced))}: nothing protects them"
            " there; `bookie ledger recover LEDGER` fences one that nobody is to write to any more"
        )
    if code == output.EXIT_OF[output.NOT_KNOWN]:
        output.tell(
            f"not known: {arguments.bookie} was asked about no ledger: none was named whose last segment has it"
        )
    return code


async def probe(client: Client, bookie_id: BookieId, ledgers: Sequence[LedgerId]) -> survey.Fences:
    """Ask the bookie to take an entry of each ledger."""
    with output.told_if_slow(f"the bookies of {len(ledgers)} ledgers"):
        return await survey.probe_fences(client, bookie_id, ledgers)


def fences_code(found: survey.Fences) -> int:
    """Return the exit code for what a bookie answered. A ledger that it no longer has says nothing about it."""
    if found.unfenced or found.unknown:
        return EXIT_FAILED
    return EXIT_OK if found.fenced or found.refused else output.EXIT_OF[output.NOT_KNOWN]
