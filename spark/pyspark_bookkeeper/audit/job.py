"""Turns a plan into parts: in waves of units, each unit a Spark task, each wave committed before the next begins.

A task asks bookies and compares; only findings and figures go to the JVM and the driver, never entries and never lists
of them. A killed audit repeats at most the wave that it was in.
"""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from bookie.base.ids import BookieId
from pyspark_bookkeeper import fleet, ranges
from pyspark_bookkeeper.audit import plan
from pyspark_bookkeeper.audit.compare import MISSING, UNREACHABLE
from pyspark_bookkeeper.audit.inspector import LedgerInspector, Rules, UnitResult
from pyspark_bookkeeper.audit.parts import Folder
from pyspark_bookkeeper.audit.plan import AuditPlan, Unit
from pyspark_bookkeeper.options import ClusterConnection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RunWave = Callable[[Sequence[Unit]], Sequence[UnitResult]]


def run(planned: AuditPlan, folder: Folder, run_wave: RunWave, tell: Callable[[str], None]) -> None:
    """Run the waves that have no file yet. Raises the error of a task, as Spark wraps it."""
    waves = planned.waves()
    todo = [number for number in range(len(waves)) if not folder.has_wave(number)]
    if len(todo) < len(waves):
        tell(f"goes on where it was: {len(waves) - len(todo)} of {len(waves)} parts are there")
    began_s, ledgers, findings = time.monotonic(), 0, 0
    total = sum(_count(waves[number]) for number in todo)
    for number in todo:
        results = run_wave(waves[number])
        folder.write_wave(number, results)
        ledgers += _count(waves[number])
        findings += sum(one.kind in (MISSING, UNREACHABLE) for result in results for one in result.findings)
        rate = ledgers / max(time.monotonic() - began_s, 1e-3)
        left_s = (total - ledgers) / rate
        tell(f"{ledgers} of {total} ledgers, {findings} findings, {rate:.0f} ledgers/s, {left_s:.0f} s to go")


def on_spark(spark: "SparkSession", connection: ClusterConnection, planned: AuditPlan) -> RunWave:
    """Return a function that runs a wave as one Spark job with one task per unit."""
    context = spark.sparkContext
    task = functools.partial(audit_unit, connection, planned.zones, planned.rules)

    def run_wave(units: Sequence[Unit]) -> Sequence[UnitResult]:
        results: list[UnitResult] = context.parallelize(units, len(units)).map(task).collect()
        return results

    return run_wave


def audit_unit(connection: ClusterConnection, zones: Mapping[BookieId, str], rules: Rules, unit: Unit) -> UnitResult:
    """Audit one unit in a task, with the client of its process."""
    ledger_ids = plan.parse_ids(unit[1])
    return fleet.client(connection).run(lambda client: LedgerInspector(client, zones, rules).audit(ledger_ids))


def _count(units: Sequence[Unit]) -> int:
    return sum(ranges.size(plan.parse_ranges(text)) for _, text in units)
