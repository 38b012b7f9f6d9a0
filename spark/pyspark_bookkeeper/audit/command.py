"""`python -m pyspark_bookkeeper audit`: is every replica there?

The summary, one JSON object, goes to stdout, everything said meanwhile to stderr, the rest to the folder of --output.
Exit codes: 0 whole (as far as it was looked at: `title` in the summary), 1 failed, 2 usage or bad input, 3 no such
ledger, 4 refused as unsafe, 5 damage is proven, 6 not known.
"""

import argparse
import dataclasses
import functools
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bookie.base import errors
from bookie.base.ids import LedgerId
from bookie.client.options import ClientOptions
from bookie.rpc import overtime
from pyspark_bookkeeper import client_settings, fleet, ranges, session
from pyspark_bookkeeper.audit import job, plan, report, sampling, summary
from pyspark_bookkeeper.audit.compare import UNEXPECTED
from pyspark_bookkeeper.audit.inspector import Rules
from pyspark_bookkeeper.audit.parts import Folder, write_whole
from pyspark_bookkeeper.audit.plan import AuditPlan
from pyspark_bookkeeper.options import ClusterConnection

UNSAFE = 4
FAIL_ON = [kind for kind in summary.ALL_KINDS if kind != UNEXPECTED]
# What was begun longer ago tells of another fleet than today's.
RESUME_MAX_H = 12
TIME_MAX_S = 24 * 60 * 60
# Who waits longer before a silent screen begins to doubt.
PATIENCE_S = 2.0
PROGRAM = "audit"
# The JVM only hands out tasks: a quick start is worth more to it than fast code. --conf goes above.
QUICK_CONF = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto",
    "spark.log.level": "ERROR",
}
Tell = Callable[[str], None]

_EPILOG = """
The folder of --output has afterwards: findings/ (Parquet; a table for Spark), summary.json, report.html. An audit that
was killed goes on where it was when it is started again with the same --output and the same options.
Exit codes: 0 every replica is there, as far as it was looked at; 1 failed; 2 usage; 3 a ledger of --ledgers does not
exist; 4 refused (the folder holds another audit); 5 damage is proven; 6 nothing is proven damaged, and something is not
known: it could not be seen, or nothing was looked at.
"""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = subparsers.add_parser(
        "audit", help="is every replica there?", description=__doc__, epilog=_EPILOG, formatter_class=raw
    )
    parser.add_argument(
        "--metadata-service-uri",
        required=True,
        metavar="URI",
        help="the metadata store of the fleet: zk+hierarchical://host:2181/ledgers",
    )
    parser.add_argument(
        "--client", action="append", default=[], metavar="NAME=VALUE",
        help="a setting of the client library, as the source's bookkeeper.client.NAME (tlsTrustStore, saslUser, "
        "metadataSettingsFile, ...); may be given again. Secrets are in files, on every executor",
    )  # fmt: skip
    parser.add_argument("--output", required=True, type=_folder, metavar="DIR", help="where findings and report go")
    parser.add_argument(
        "--again", action="store_true",
        help="forget the audit in DIR if it is finished or began over 12 hours ago (for an audit every night there)",
    )  # fmt: skip
    parser.add_argument("--ledgers", metavar="IDS", help='only these, as "1,5-9"')
    parser.add_argument(
        "--grace-s",
        type=float,
        default=60.0,
        help="leave ledgers alone that changed within so many seconds (default 60)",
    )
    parser.add_argument(
        "--second-look-s",
        type=float,
        default=2.0,
        help="look again at what was found after so many seconds (default 2)",
    )
    parser.add_argument(
        "--ask", choices=("all", "named"), default="all",
        help="ask all bookies about every ledger (finds forgotten copies), or only those it names (cheaper)",
    )  # fmt: skip
    parser.add_argument(
        "--read", choices=sampling.HOW, default=sampling.SAMPLE,
        help="which copies to read and verify: of each ledger and bookie one (sample, default), all, or none; what a "
        "bookie lists says nothing of the bytes",
    )  # fmt: skip
    parser.add_argument(
        "--fail-on", default=",".join(FAIL_ON), metavar="KINDS",
        help=f"kinds of findings that make exit code 5 or 6, of {', '.join(summary.ALL_KINDS)} (default: all but "
        "unexpected: copies that nobody asked for are what writers leave behind when they change ensembles or die)",
    )  # fmt: skip
    parser.add_argument(
        "--master", default="local[*]", help="the Spark master: local[*], k8s://https://... (default local[*])"
    )
    parser.add_argument(
        "--conf", action="append", default=[], metavar="KEY=VALUE", help="a setting of Spark; may be given again"
    )
    parser.add_argument("--unit-ledgers", type=int, default=plan.UNIT_LEDGERS, help="ledgers per task (default 500)")
    parser.add_argument(
        "--wave-units", type=int, help="tasks whose findings are committed together (default: 4 a slot)"
    )
    parser.set_defaults(run=run)


def _folder(text: str) -> Path:
    """Return the folder. An empty word, as of a shell's variable that is not set, would be the working directory."""
    if not text:
        raise argparse.ArgumentTypeError("an empty word: name a folder")
    return Path(text)


def run(arguments: argparse.Namespace) -> int:
    """Audit; return the exit code."""
    tell = functools.partial(_tell, time.monotonic())
    fail_on = [kind.strip() for kind in arguments.fail_on.split(",")]
    if not set(fail_on) <= set(summary.ALL_KINDS):
        raise errors.BadInput(f"--fail-on {arguments.fail_on}: there are {', '.join(summary.ALL_KINDS)}")
    _check(arguments)
    folder = Folder(arguments.output)
    if folder.summary.exists() and not arguments.again:
        print(f"{PROGRAM}: {arguments.output} holds a finished audit: give another folder, or --again", file=sys.stderr)
        return UNSAFE
    connection = _connection(arguments)
    begun = None if folder.summary.exists() else folder.begun()
    if begun is not None and arguments.again and _age_h(begun) >= RESUME_MAX_H:
        tell(f"forgets the audit in {arguments.output}, begun {_age_h(begun):.0f} hours ago and never finished")
        begun = None
    if begun is not None and begun.uri != connection.uri:
        print(f"{PROGRAM}: {arguments.output} holds an audit of {begun.uri}: give another folder", file=sys.stderr)
        return UNSAFE
    if begun is not None and (other := plan.difference(begun, _options(arguments))):
        print(
            f"{PROGRAM}: {arguments.output} holds an audit that was begun with {other}, and is not finished: give the "
            "same options, or another folder",
            file=sys.stderr,
        )
        return UNSAFE
    try:
        planned = _audit(arguments, connection, folder, begun, tell)
    finally:
        fleet.close_all()
    return _conclude(folder, planned, fail_on, tell)


def _check(arguments: argparse.Namespace) -> None:
    """Raise BadInput for what would only be noticed in the middle of an audit."""
    for name, count in (("--unit-ledgers", arguments.unit_ledgers), ("--wave-units", arguments.wave_units)):
        if count is not None and count < 1:
            raise errors.BadInput(f"{name} {count}: at least 1 is wanted")
    for name, time_s in (("--grace-s", arguments.grace_s), ("--second-look-s", arguments.second_look_s)):
        if not 0 <= time_s <= TIME_MAX_S:  # nan is in no range
            raise errors.BadInput(f"{name} {time_s:g}: 0 to {TIME_MAX_S} seconds are wanted")
    if wrong := [text for text in arguments.conf if not text.partition("=")[0].strip() or "=" not in text]:
        raise errors.BadInput(f"--conf {wrong[0]}: KEY=VALUE is wanted")
    if arguments.ledgers is not None:
        try:
            plan.parse_ranges(arguments.ledgers)
        except errors.BadInput as error:
            raise errors.BadInput(f"--ledgers: {error}; without --ledgers all are audited") from None


def _options(arguments: argparse.Namespace) -> dict[str, str]:
    """The options that decide what the audit looks at, and how."""
    return {
        "--ledgers": "all" if arguments.ledgers is None else arguments.ledgers,
        "--grace-s": f"{arguments.grace_s:g}",
        "--second-look-s": f"{arguments.second_look_s:g}",
        "--ask": arguments.ask,
        "--read": arguments.read,
        "--unit-ledgers": str(arguments.unit_ledgers),
        "--wave-units": str(arguments.wave_units or "as many as there are slots"),
    }


def _age_h(begun: AuditPlan) -> float:
    return (time.time_ns() / 1_000_000 - begun.started_ms) / 3_600_000


def _audit(
    arguments: argparse.Namespace, connection: ClusterConnection, folder: Folder, begun: AuditPlan | None, tell: Tell
) -> AuditPlan:
    # What is wrong with the address is told before Java starts.
    planned = begun or _planned(arguments, connection, tell)
    conf = {**QUICK_CONF, **dict(pair.partition("=")[::2] for pair in arguments.conf)}
    with session.open_session("bookie audit", master=arguments.master, conf=conf) as spark:
        slots = spark.sparkContext.defaultParallelism
        tell(f"Spark {spark.version} is up on {arguments.master} with {slots} slots")
        if begun is None:
            wave_units = arguments.wave_units or plan.WAVE_UNITS_PER_SLOT * slots
            planned = dataclasses.replace(planned, wave_units=wave_units)
            folder.forget()
            folder.begin(planned)
        tell(f"{planned.ledgers} ledgers on {len(planned.zones)} bookies, in {len(planned.units)} tasks")
        job.run(planned, folder, job.on_spark(spark, connection, planned), tell)
    return planned


def _connection(arguments: argparse.Namespace) -> ClusterConnection:
    """Return the connection that the arguments name. Raises BadInput."""
    if wrong := [text for text in arguments.client if "=" not in text]:
        raise errors.BadInput(f"--client {wrong[0]}: NAME=VALUE is wanted")
    given = dict(text.split("=", 1) for text in arguments.client)
    try:
        client = client_settings.parse(given)
    except ValueError as error:
        raise errors.BadInput(f"--client: {error}") from None
    client_settings.check(arguments.metadata_service_uri, client)
    return ClusterConnection(arguments.metadata_service_uri, client)


def _planned(arguments: argparse.Namespace, connection: ClusterConnection, tell: Tell) -> AuditPlan:
    """Return the plan without the size of its waves, which follows from the slots of the Spark session."""
    started_ms = time.time_ns() // 1_000_000
    session_ms = dict(connection.client).get("session_timeout_ms", ClientOptions(connection.uri).session_timeout_ms)
    waits = f"waiting for the metadata store at {connection.uri}, {session_ms / 1000:g} s at most"
    with overtime.after(PATIENCE_S, lambda: tell(waits)):
        client = fleet.client(connection)
    ids: list[LedgerId] = list(client.ledgers())
    if arguments.ledgers is not None:
        wanted = plan.parse_ranges(arguments.ledgers)
        ids = [ledger_id for ledger_id in ids if ranges.contains(wanted, ledger_id)]
        there = frozenset(ids)
        if lacking := [one.start for one in wanted if one.is_one and one.start not in there]:
            raise errors.LedgerMissing(f"--ledgers {arguments.ledgers}: there is no ledger {lacking[0]}")
    return plan.make(
        uri=connection.uri,
        started_ms=started_ms,
        options=_options(arguments),
        rules=Rules(
            grace_ms=round(arguments.grace_s * 1000),
            second_look_ms=round(arguments.second_look_s * 1000),
            asks_all=arguments.ask == "all",
            reads=arguments.read,
        ),
        zones={record.bookie_id: record.zone for record in fleet.bookies(connection)},
        known=fleet.known_bookies(connection),
        ledger_ids=ids,
        unit_ledgers=arguments.unit_ledgers,
        wave_units=1,
    )


def _conclude(folder: Folder, planned: AuditPlan, fail_on: Sequence[str], tell: Tell) -> int:
    findings, figures = folder.read(len(planned.waves()))
    told = summary.summarize(planned, findings, figures, finished_ms=time.time_ns() // 1_000_000)
    told["exitCode"], told["failOn"] = summary.exit_code(told, fail_on), list(fail_on)
    text = json.dumps(told)
    with folder.writing():
        write_whole(folder.report, report.page(told, where=str(folder.findings)).encode())
        write_whole(folder.summary, text.encode())
    tell(summary.sentence(told))
    tell(f"the report: {folder.report}")
    print(text, flush=True)
    return int(told["exitCode"])


def _tell(began_s: float, text: str) -> None:
    print(f"{PROGRAM}: {time.monotonic() - began_s:6.1f} s  {text}", file=sys.stderr, flush=True)
