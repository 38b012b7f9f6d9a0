"""Rows a second out of ledgers, by Spark on one core beside a plain loop of our own client, in the same run.

Three ways over the same closed ledger, taking turns: the client's loop, the source without Spark (the same plus
Arrow), and Spark's `noop` sink on `local[1]` (that plus planning, sockets and the JVM). A query that reads one entry
says what a query costs besides its rows. Wall clock, and CPU of whoever reads; the bookies run on the same machine and
are not counted. `make bench-spark`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "cluster")]

import bench_proc  # noqa: E402
import kube_talk  # noqa: E402
import local_support  # noqa: E402
import spark_ledgers  # noqa: E402
import spark_support  # noqa: E402
from bookie import blocking  # noqa: E402
from pyspark_bookkeeper import fleet as clients  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bookie.base.ids import LedgerId
    from bookie.blocking import BlockingClient

SIZES = (100, 1024, 10_240)
BYTES = 48_000_000  # of each ledger, at most ENTRIES entries
ENTRIES = 150_000


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one turn, in seconds. `python_s`, `jvm_s`: CPU of the reading side."""

    wall_s: float
    python_s: float
    jvm_s: float


@dataclass(frozen=True, slots=True)
class Figures:
    """Medians over the rounds, each column by itself."""

    size_bytes: int
    rows: int
    client: Cost
    source: Cost
    spark: Cost
    plan: Cost

    @property
    def steady(self) -> Cost:
        """Spark without what a query costs besides its rows."""
        return Cost(*(getattr(self.spark, name) - getattr(self.plan, name) for name in Cost.__slots__))

    @property
    def ratio(self) -> float:
        """Spark's rows a second, in steady state, beside the plain loop's."""
        return self.client.wall_s / self.steady.wall_s


class Clock:
    """CPU of this process, of Spark's JVM, and of the Python workers under it."""

    def __init__(self, jvm_pid: int) -> None:
        self._jvm_pid = jvm_pid

    def take(self, work: Callable[[], object]) -> Cost:
        begin = self._now()
        work()
        return Cost(*(after - before for before, after in zip(begin, self._now(), strict=True)))

    def _now(self) -> tuple[float, float, float]:
        jvm_s = bench_proc.cpu_s(self._jvm_pid)
        workers_s = sum(map(bench_proc.family_cpu_s, bench_proc.children(self._jvm_pid)))
        return time.perf_counter(), time.process_time() + workers_s, jvm_s


def measure(
    spark: SparkSession, uri: str, client: BlockingClient, ledger_id: LedgerId, size_bytes: int, rounds: int
) -> Figures:
    """Let the ways take turns `rounds` times, after one turn that nobody counts."""
    last = client.metadata(ledger_id).last_entry

    def loop() -> None:
        with client.open(ledger_id) as reader:
            assert sum(1 for _ in reader.read_stream(0, last)) == last + 1

    def source() -> None:
        assert sum(batch.num_rows for batch in spark_support.batches(uri, ledgers=str(ledger_id))) == last + 1

    def query(**options: str) -> Callable[[], None]:
        frame = spark.read.format("bookkeeper").options(
            metadataServiceUri=uri, ledgers=str(ledger_id), maxBytesPerPartition=str(1 << 40), **options
        )
        return lambda: frame.load().write.format("noop").mode("append").save()

    ways: dict[str, Callable[[], object]] = {
        "client": loop,
        "source": source,
        "spark": query(),
        "plan": query(endingOffsets=json.dumps({str(ledger_id): 1})),
    }
    clock = Clock(spark.sparkContext._gateway.proc.pid)  # type: ignore[union-attr]  # spark-submit becomes the JVM
    took: dict[str, list[Cost]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, work in ways.items():
            cost = clock.take(work)
            if number:
                took[name].append(cost)
    return Figures(size_bytes, last + 1, *(median(took[name]) for name in ("client", "source", "spark", "plan")))


def median(costs: list[Cost]) -> Cost:
    return Cost(*(statistics.median(getattr(cost, name) for cost in costs) for name in Cost.__slots__))


def run(arguments: argparse.Namespace, folder: Path) -> list[Figures]:
    with contextlib.ExitStack() as stack:
        with kube_talk.step("starting three bookies and Spark on one core"):
            fleet = stack.enter_context(local_support.fleet(folder / "data", folder / "log", bookies=3))
            stack.callback(clients.close_all)
            client = stack.enter_context(blocking.connect(fleet.uri))
            spark = stack.enter_context(
                spark_support.spark_session(folder, {"spark.driver.extraJavaOptions": ""}, cores=1)
            )
        found = []
        for size_bytes in SIZES:
            count = max(1, min(ENTRIES, BYTES // size_bytes) // arguments.divide)
            with kube_talk.step(f"{count:,} entries of {size_bytes:,} bytes, {arguments.rounds} rounds"):
                ledger_id = spark_ledgers.write(client, count, size_bytes=size_bytes, quorum=3)
                found.append(measure(spark, fleet.uri, client, ledger_id, size_bytes, arguments.rounds))
        return found


def table(found: list[Figures]) -> str:
    """The figures for people: rows a second by the wall clock, then where a row's CPU goes."""
    lines = [
        "reading a closed ledger, E=3 WQ=3, CRC32C, one core for the reader; medians",
        f"{'entry':>9}{'rows':>9}{'client':>13}{'Spark':>13}{'ratio':>7}   "
        f"{'CPU us a row: client, + Arrow, + Spark, + JVM':<46}{'a query besides':>16}",
    ]
    for one in found:
        cpu = (
            one.client.python_s,
            one.source.python_s - one.client.python_s,
            one.steady.python_s - one.source.python_s,
            one.steady.jvm_s,
        )
        shares = ", ".join(f"{part / one.rows * 1e6:.1f}" for part in cpu)
        lines.append(
            f"{one.size_bytes:>7} B{one.rows:>9,}{one.rows / one.client.wall_s:>9,.0f} r/s"
            f"{one.rows / one.steady.wall_s:>9,.0f} r/s{one.ratio:>7.2f}   {shares:<46}{one.plan.wall_s:>14.2f} s"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--divide", type=int, default=1, help="make the ledgers this many times smaller: a try")
    parser.add_argument("--json", action="store_true", help="the figures as JSON on standard output")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bookie-bench-") as name:
        found = run(arguments, Path(name))
    rows: list[dict[str, Any]] = [{**asdict(one), "ratio": one.ratio} for one in found]
    print(json.dumps(rows) if arguments.json else table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
