"""`python -m pyspark_bookkeeper audit`: is every replica there?

The summary, one JSON object, goes to stdout, everything said meanwhile to stderr, the rest to the folder of --output.
Exit codes: 0 clean, 1 failed, 2 usage or bad input, 4 refused as unsafe, 5 findings.
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
from pyspark_bookkeeper import fleet, ranges, session
from pyspark_bookkeeper.audit import job, plan, report, summary
from pyspark_bookkeeper.audit.compare import KINDS, MISSING, UNREACHABLE
from pyspark_bookkeeper.audit.inspector import Rules
from pyspark_bookkeeper.audit.parts import Folder, write_whole
from pyspark_bookkeeper.audit.plan import Plan
from pyspark_bookkeeper.options import Connection

CLEAN, FAILED, USAGE, UNSAFE, FINDINGS = 0, 1, 2, 4, 5
PROGRAM = "audit"
# The JVM only hands out tasks: a quick start is worth more to it than fast code. --conf goes above.
QUICK_CONF = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto",
    "spark.log.level": "ERROR",
}
Tell = Callable[[str], None]

_EPILOG = """
The folder of --output has afterwards: findings/ (Parquet; a table for Spark), summary.json, report.html. An audit that
was killed goes on where it was when it is started again with the same --output.
Exit codes: 0 clean, 1 failed, 2 usage, 4 refused (the folder holds another audit), 5 something was found.
"""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = subparsers.add_parser(
        "audit", help="is every replica there?", description=__doc__, epilog=_EPILOG, formatter_class=raw
    )
    parser.add_argument(
        "--metadata-service-uri", required=True, metavar="URI", help="of the fleet: zk+hierarchical://host:2181/ledgers"
    )
    parser.add_argument("--output", required=True, type=Path, metavar="DIR", help="where findings and report go")
    parser.add_argument("--again", action="store_true", help="DIR holds a finished audit: forget it, audit anew")
    parser.add_argument("--ledgers", metavar="IDS", help='only these, as "1,5-9"')
    parser.add_argument(
        "--grace-s", type=float, default=60.0, help="ledgers that changed within it are left alone (default 60)"
    )
    parser.add_argument(
        "--second-look-s", type=float, default=2.0, help="what is found is looked at again after so long (default 2)"
    )
    parser.add_argument(
        "--ask", choices=("all", "named"), default="all",
        help="all bookies about every ledger (finds forgotten copies), or those it names (cheaper in a large fleet)",
    )  # fmt: skip
    parser.add_argument(
        "--fail-on", default=f"{MISSING},{UNREACHABLE}", metavar="KINDS",
        help=f"kinds of findings that make exit code 5, of {', '.join(KINDS)} (default: missing,unreachable; copies "
        "that nobody asked for are what writers leave behind when they change ensembles or die)",
    )  # fmt: skip
    parser.add_argument("--master", default="local[*]", help="of Spark: local[*], k8s://https://... (default local[*])")
    parser.add_argument(
        "--conf", action="append", default=[], metavar="KEY=VALUE", help="a setting of Spark; may be given again"
    )
    parser.add_argument("--unit-ledgers", type=int, default=plan.UNIT_LEDGERS, help="ledgers per task (default 500)")
    parser.add_argument(
        "--wave-units", type=int, help="tasks whose findings are committed together (default: 4 a slot)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Audit; return the exit code."""
    tell = functools.partial(_tell, time.monotonic())
    fail_on = [kind.strip() for kind in arguments.fail_on.split(",")]
    if not set(fail_on) <= set(KINDS):
        raise errors.BadInput(f"--fail-on {arguments.fail_on}: there are {', '.join(KINDS)}")
    if (
        min(arguments.unit_ledgers, arguments.wave_units or 1) < 1
        or min(arguments.grace_s, arguments.second_look_s) < 0
    ):
        raise errors.BadInput("--unit-ledgers and --wave-units are at least 1, times are not negative")
    if arguments.ledgers:
        plan.parse_ranges(arguments.ledgers)
    folder = Folder(arguments.output)
    if folder.summary.exists() and not arguments.again:
        print(f"{PROGRAM}: {arguments.output} holds a finished audit: give another folder, or --again", file=sys.stderr)
        return UNSAFE
    connection = Connection(arguments.metadata_service_uri)
    begun = None if arguments.again else folder.begun()
    if begun is not None and begun.uri != connection.uri:
        print(f"{PROGRAM}: {arguments.output} holds an audit of {begun.uri}: give another folder", file=sys.stderr)
        return UNSAFE
    try:
        planned = _audit(arguments, connection, folder, begun, tell)
    finally:
        fleet.close_all()
    return _conclude(folder, planned, fail_on, tell)


def _audit(
    arguments: argparse.Namespace, connection: Connection, folder: Folder, begun: Plan | None, tell: Tell
) -> Plan:
    planned = begun or _planned(arguments, connection)  # what is wrong with the address is told before Java starts
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


def _planned(arguments: argparse.Namespace, connection: Connection) -> Plan:
    """The plan, but for the size of its waves, which is Spark's to say."""
    started_ms = time.time_ns() // 1_000_000
    ids: list[LedgerId] = list(fleet.ledger_ids(connection))
    if arguments.ledgers:
        wanted = plan.parse_ranges(arguments.ledgers)
        ids = [ledger_id for ledger_id in ids if ranges.contains(wanted, ledger_id)]
        there = frozenset(ids)
        if lacking := [one.start for one in wanted if one.is_one and one.start not in there]:
            raise errors.LedgerMissing(f"--ledgers {arguments.ledgers}: there is no ledger {lacking[0]}")
    return plan.make(
        uri=connection.uri,
        started_ms=started_ms,
        rules=Rules(
            grace_ms=round(arguments.grace_s * 1000),
            second_look_ms=round(arguments.second_look_s * 1000),
            asks_all=arguments.ask == "all",
        ),
        zones={record.bookie_id: record.zone for record in fleet.bookies(connection)},
        known=fleet.known_bookies(connection),
        ledger_ids=ids,
        unit_ledgers=arguments.unit_ledgers,
        wave_units=1,
    )


def _conclude(folder: Folder, planned: Plan, fail_on: Sequence[str], tell: Tell) -> int:
    findings, figures = folder.read(len(planned.waves()))
    told = summary.summarize(planned, findings, figures, finished_ms=time.time_ns() // 1_000_000)
    is_clean = told["clean"] = summary.is_clean(told, fail_on)
    write_whole(folder.report, report.page(told, is_clean=is_clean, where=str(folder.findings)).encode())
    text = json.dumps(told)
    write_whole(folder.summary, text.encode())
    tell(summary.sentence(told))
    tell(f"the report: {folder.report}")
    print(text, flush=True)
    return CLEAN if is_clean else FINDINGS


def _tell(began_s: float, text: str) -> None:
    print(f"{PROGRAM}: {time.monotonic() - began_s:6.1f} s  {text}", file=sys.stderr, flush=True)
