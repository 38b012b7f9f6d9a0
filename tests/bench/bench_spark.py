"""Rows a second out of ledgers, by Spark on one core beside a plain loop of our own client, in the same run.

Three ways over the same closed ledger, taking turns: the client's loop, the source without Spark (that is the loop plus
Arrow), and Spark's `noop` sink on `local[1]` (that plus planning, sockets and the JVM). Their differences say where the
time goes. The fleet runs on the same machine, so all three wait for the same bookies. `make bench-spark`.
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
class Figures:
    """Seconds are medians over the rounds. `plan_s`: what a Spark query costs that reads one entry."""

    size_bytes: int
    rows: int
    client_s: float
    source_s: float
    spark_s: float
    plan_s: float

    @property
    def ratio(self) -> float:
        """Spark's rows a second, in steady state, beside the plain loop's."""
        return self.client_s / (self.spark_s - self.plan_s)


def seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


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

    ways = {
        "client": loop,
        "source": source,
        "spark": query(),
        "plan": query(endingOffsets=json.dumps({str(ledger_id): 1})),
    }
    took: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, work in ways.items():
            one = seconds(work)
            if number:
                took[name].append(one)
    return Figures(
        size_bytes, last + 1, *(statistics.median(took[name]) for name in ("client", "source", "spark", "plan"))
    )


def run(arguments: argparse.Namespace, folder: Path) -> list[Figures]:
    with contextlib.ExitStack() as stack:
        with kube_talk.step("starting three bookies and Spark on one core"):
            fleet = stack.enter_context(local_support.fleet(folder / "data", folder / "log", bookies=3))
            stack.callback(clients.close_all)
            client = stack.enter_context(blocking.connect(fleet.uri))
            spark = stack.enter_context(spark_support.spark_session(folder, cores=1))
        found = []
        for size_bytes in SIZES:
            count = max(1, min(ENTRIES, BYTES // size_bytes) // arguments.divide)
            with kube_talk.step(f"{count:,} entries of {size_bytes:,} bytes, {arguments.rounds} rounds"):
                ledger_id = spark_ledgers.write(client, count, size_bytes=size_bytes, quorum=3)
                found.append(measure(spark, fleet.uri, client, ledger_id, size_bytes, arguments.rounds))
        return found


def table(found: list[Figures]) -> str:
    """The figures for people."""
    lines = [
        "reading a closed ledger, E=3 WQ=3, CRC32C, one core for the reader, medians",
        f"{'entry':>9}{'rows':>9}{'client':>13}{'Spark':>13}{'ratio':>7}"
        f"   {'us a row: client + Arrow + Spark':<34}{'a query besides':>16}",
    ]
    for one in found:
        steady_s = one.spark_s - one.plan_s
        parts = (one.client_s, one.source_s - one.client_s, steady_s - one.source_s)
        shares = " + ".join(f"{part / one.rows * 1e6:.1f}" for part in parts)
        lines.append(
            f"{one.size_bytes:>7} B{one.rows:>9,}{one.rows / one.client_s:>9,.0f} r/s{one.rows / steady_s:>9,.0f} r/s"
            f"{one.ratio:>7.2f}   {shares:<34}{one.plan_s:>14.2f} s"
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
