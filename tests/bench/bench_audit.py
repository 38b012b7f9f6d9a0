"""Ledgers a second that the audit compares, beside an entry-level anti-join of the same data in the same Spark session.

Both start from what bookies say: the audit from their lists of entries as they send them, the join from the same lists
as rows (ledger, entry, bookie) in Parquet, which nobody would have to read first. Both must find the same lost entries.
A third figure is the whole way, over the wire to three bookies on this machine, with the metadata read twice or more.
`make bench-spark`.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "cluster")]

import kube_talk  # noqa: E402
import local_support  # noqa: E402
import spark_support  # noqa: E402
import wire_support  # noqa: E402
from bookie import blocking  # noqa: E402
from bookie.base.ids import BookieId, EntryId, LedgerId  # noqa: E402
from bookie.client import Client  # noqa: E402
from bookie.metadata.ledger import LedgerMetadata, LedgerState, Segment  # noqa: E402
from bookie.wire import availability  # noqa: E402
from pyspark_bookkeeper import fleet as clients  # noqa: E402
from pyspark_bookkeeper.audit import compare, inspector  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RATIO_MIN = 300  # of the join's ledgers a second
BOOKIES = tuple(BookieId(f"bookie-{number}") for number in range(3))
ZONES = dict(zip(BOOKIES, ("a", "b", "c"), strict=True))
WRITE_QUORUM = 2
LOST_EVERY = 50  # each so-manyth ledger lacks one entry on one bookie
LOST_ENTRY = 7
WIRE_LEDGERS = 1_000
TASKS = 8


@dataclass(frozen=True, slots=True)
class Figures:
    """Per second, medians over the rounds; `entries` of each ledger."""

    entries: int
    audit_per_s: float
    join_per_s: float
    wire_per_s: float

    @property
    def ratio(self) -> float:
        return self.audit_per_s / self.join_per_s


def metadata_of(entries: int) -> LedgerMetadata:
    segment = Segment(EntryId(0), BOOKIES)
    return LedgerMetadata(3, WRITE_QUORUM, 2, (segment,), LedgerState.CLOSED, EntryId(entries - 1), 0)


def replies(entries: int, *, lost: bool) -> dict[BookieId, bytes]:
    """What the bookies of a ledger answer."""
    metadata = metadata_of(entries)
    held: dict[BookieId, list[tuple[int, int]]] = {bookie: [] for bookie in BOOKIES}
    for entry in range(entries):
        for bookie in metadata.write_set(EntryId(entry)):
            if lost and entry == LOST_ENTRY and bookie == metadata.write_set(EntryId(entry))[0]:
                continue
            runs = held[bookie]
            if runs and runs[-1][1] + 1 == entry:
                runs[-1] = (runs[-1][0], entry)
            else:
                runs.append((entry, entry))
    return {bookie: wire_support.encode_runs(runs) for bookie, runs in held.items()}


def compared(
    entries: int, whole: dict[BookieId, bytes], damaged: dict[BookieId, bytes], ids: Iterable[int]
) -> Iterator[int]:
    """A task of the audit without its network: from replies to findings."""
    for ledger in ids:
        told = damaged if ledger % LOST_EVERY == 0 else whole
        holdings = {bookie: availability.decode_groups(data) for bookie, data in told.items()}
        comparison = compare.compare(metadata_of(entries), entries, holdings, ZONES, is_final=True)
        yield from (one.count for one in comparison.findings(ledger) if one.kind == compare.MISSING)


def rows(spark: SparkSession, ledgers: int, entries: int) -> DataFrame:
    """What the metadata promises, entry by entry: entry e is on the bookies e and e + 1, mod 3."""
    ids = spark.range(ledgers * entries).selectExpr(f"id div {entries} as ledger", f"id % {entries} as entry")
    return ids.selectExpr("ledger", "entry", "explode(array(entry % 3, (entry + 1) % 3)) as bookie")


def seconds(work: Callable[[], int], expected: int, rounds: int) -> float:
    """The median, after one round that nobody counts."""
    took = []
    for number in range(rounds + 1):
        begin = time.perf_counter()
        found = work()
        if number:
            took.append(time.perf_counter() - begin)
        assert found == expected, f"{found} lost entries were found, {expected} were lost"
    return statistics.median(took)


def audit_per_s(spark: SparkSession, ledgers: int, entries: int, rounds: int) -> float:
    whole, damaged = replies(entries, lost=False), replies(entries, lost=True)
    task = functools.partial(compared, entries, whole, damaged)
    ids = spark.sparkContext.parallelize(range(ledgers), TASKS)
    return ledgers / seconds(lambda: sum(ids.mapPartitions(task).collect()), -(-ledgers // LOST_EVERY), rounds)


def join_per_s(spark: SparkSession, folder: Path, ledgers: int, entries: int, rounds: int) -> float:
    promised, held = str(folder / "promised"), str(folder / "held")
    expected = rows(spark, ledgers, entries)
    expected.write.parquet(promised)
    lost = f"ledger % {LOST_EVERY} = 0 and entry = {LOST_ENTRY} and bookie = {LOST_ENTRY % 3}"
    expected.where(f"not ({lost})").write.parquet(held)

    def join() -> int:
        left, right = spark.read.parquet(promised), spark.read.parquet(held)
        return left.join(right, ["ledger", "entry", "bookie"], "left_anti").count()

    return ledgers / seconds(join, -(-ledgers // LOST_EVERY), rounds)


def wire_per_s(folder: Path, rounds: int) -> float:
    """One client, no Spark: what one task does."""

    async def write(client: Client) -> list[LedgerId]:
        ids = []
        for _ in range(WIRE_LEDGERS):
            async with await client.create(write_quorum=2) as writer:
                await writer.append_many([b"payload"] * 5)
            ids.append(writer.id)
        return ids

    with (
        local_support.fleet(folder / "data", folder / "log", bookies=3) as fleet,
        blocking.connect(fleet.uri) as client,
    ):
        ids = client.run(write)
        zones = {record.bookie_id: record.zone for record in client.run(lambda one: one.admin.bookies())}
        rules = inspector.Rules(grace_ms=0)

        def audit() -> int:
            return len(client.run(lambda one: inspector.LedgerInspector(one, zones, rules).audit(ids)).findings)

        return WIRE_LEDGERS / seconds(audit, 0, rounds)


def run(arguments: argparse.Namespace, folder: Path) -> Figures:
    entries = arguments.entries
    with contextlib.ExitStack() as stack:
        stack.callback(clients.close_all)
        with kube_talk.step("the whole way, to three bookies"):
            wire = wire_per_s(folder, arguments.rounds)
        with kube_talk.step("starting Spark"):
            spark = stack.enter_context(spark_support.spark_session(folder))
        with kube_talk.step("the audit"):
            audit = audit_per_s(spark, arguments.audit_ledgers, entries, arguments.rounds)
        with kube_talk.step("the anti-join"):
            join = join_per_s(spark, folder, arguments.join_ledgers, entries, arguments.rounds)
    return Figures(entries, audit, join, wire)


def main() -> int:
    """Print the figures; exit code 1 when the ratio is less than it must be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--entries", type=int, default=10_000, help="of each ledger")
    parser.add_argument("--audit-ledgers", type=int, default=50_000)
    parser.add_argument("--join-ledgers", type=int, default=100)
    parser.add_argument("--json", action="store_true", help="the figures as JSON on standard output")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bookie-bench-") as name:
        found = run(arguments, Path(name))
    if arguments.json:
        print(json.dumps({**asdict(found), "ratio": found.ratio}))
    else:
        print(f"audit of ledgers of {found.entries:,} entries, E=3 WQ=2, two cores, medians")
        print(f"  compared as bitmaps      {found.audit_per_s:>10,.0f} ledgers/s")
        print(f"  compared as rows         {found.join_per_s:>10,.0f} ledgers/s   {found.ratio:,.0f} times fewer")
        print(
            f"  asked over the wire      {found.wire_per_s:>10,.0f} ledgers/s   one client, one core of three bookies"
        )
    return 0 if found.ratio >= RATIO_MIN else 1


if __name__ == "__main__":
    sys.exit(main())
