"""How our bookie's cost grows: with connections, open ledgers, the size of entries, the size of the index; its starts.
And what more bookies on one host bring.

Each is a series of points; a point's CPU is the bookies' alone. Bounded in time and disk: one bookie for each series
(and one fleet for each number of them), its data removed when it is over.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bench_figures
import bench_proc
import bench_starts
import bench_swarm
import children
import kube_talk
import local_support
from bench_swarm import IN_FLIGHT_MAX, Shape
from bookie.runtime import loop

INDEX_ENTRIES_MAX = 100_000_000
INDEX_SECONDS = 600.0
LEDGER_FIRST = 1 << 40  # far from ids that a cluster gives
KIB = 1024


@dataclass(frozen=True, slots=True)
class Series:
    """One thing that grows. `following`: the bound that comes after the one that was measured, in one sentence."""

    name: str
    title: str
    x: str
    shapes: tuple[Shape, ...]
    following: str


def _shape(connections: int = 1, ledgers: int = 1, size_bytes: int = KIB) -> Shape:
    return Shape(connections, ledgers, size_bytes, LEDGER_FIRST)


SERIES = (
    Series(
        "connections",
        "adds of 1 KiB, 4,000 in flight, by number of connections",
        "connections",
        tuple(_shape(connections=count, ledgers=count) for count in (1, 10, 100, 1000)),
        "the process's limit of open files, then memory for each connection's buffers",
    ),
    Series(
        "ledgers",
        "adds of 1 KiB, 4,000 in flight, on ledgers in turn, by number of ledgers",
        "open ledgers",
        tuple(_shape(ledgers=count) for count in (1, 10, 100, 1000, 10_000, 100_000)),
        "memory for the ledgers' facts, of which the storage keeps 100,000 and reads the others from the index",
    ),
    Series(
        "sizes",
        "adds by size of an entry, at most 4,000 and 16 MiB in flight",
        "bytes of an entry",
        tuple(_shape(size_bytes=size) for size in (10, 100, KIB, 10 * KIB, 100 * KIB, 1 << 20)),
        "the frame's limit of 5 MiB; for large entries a disk that syncs more bytes a second",
    ),
)
BOOKIES = Series(
    "bookies",
    "adds of 1 KiB, 4,000 in flight, on 1,000 ledgers in turn, by number of bookies of one host that have a share each",
    "bookies",
    tuple(Shape(1, 1000 // count, KIB, LEDGER_FIRST, IN_FLIGHT_MAX // count) for count in (1, 2, 4)),
    "the cores, of which the client has its part, and the disk, which syncs one journal for each bookie",
)
INDEX = Series(
    "index",
    "the index alone: look-ups of random entries in 1,000 ledgers, by number of entries",
    "entries in the index",
    (),
    "the block cache of 16 MiB: from where the index no longer fits the page cache, every look-up reads the disk",
)
STARTS = Series("starts", bench_starts.TITLE, "ledgers", (), bench_starts.FOLLOWING)
NAMES = (*(series.name for series in SERIES), BOOKIES.name, INDEX.name, STARTS.name)


def measure(series: Series, folder: Path, seconds: float) -> dict[str, Any]:
    """Return a series with its points, measured on one bookie that lives as long as the series."""
    points = []
    fleet = local_support.fleet(
        folder / "fleet", folder / "local.log", bookies=1, arguments=["--journal-write-data", "true"]
    )
    with fleet as local:
        for number, shape in enumerate(series.shapes):
            x = {"connections": shape.connections, "ledgers": shape.ledgers, "sizes": shape.size_bytes}[series.name]
            fresh = Shape(shape.connections, shape.ledgers, shape.size_bytes, shape.ledger_first + (number << 24))
            with kube_talk.step(f"{series.name}: {x:,} {series.x}"):
                points.append({"x": x, **loop.run(_point(local.bookies, fresh, seconds))})
    return _described(series, points)


def measure_bookies(folder: Path, seconds: float) -> dict[str, Any]:
    """Return the series of bookies on one host, each number of them a fleet of its own."""
    points = []
    for shape in BOOKIES.shapes:
        count = 1000 // shape.ledgers
        own, log = folder / f"fleet-{count}", folder / f"local-{count}.log"
        fleet = local_support.fleet(own, log, bookies=count, arguments=["--journal-write-data", "true"])
        with kube_talk.step(f"{BOOKIES.name}: {count}"), fleet as local:
            points.append({"x": count, **loop.run(_point(local.bookies, shape, seconds))})
        shutil.rmtree(own)
    return _described(BOOKIES, points)


async def _point(bookies: Sequence[local_support.LocalBookie], shape: Shape, seconds: float) -> dict[str, Any]:
    """Return a point, of as many swarms of that shape as there are bookies."""
    pids = [bookie.pid for bookie in bookies]
    running = [await bench_swarm.connect(bookie.port, shape) for bookie in bookies]
    try:
        opened = (one.send(seconds=min(1.0, seconds), adds_min=shape.ledgers) for one in running)
        await asyncio.gather(*opened)  # every ledger is open then
        before, used_s = bench_proc.Sample.take(pids), sum(map(bench_proc.cpu_s, pids))
        client_s = time.process_time()
        sent = await asyncio.gather(*(one.send(seconds=seconds) for one in running))
        round_ = bench_figures.Round(
            operations=sum(adds for adds, _ in sent),
            elapsed_s=max(elapsed_s for _, elapsed_s in sent),
            p50_ms=0.0,
            p99_ms=0.0,
            p999_ms=0.0,
            client_cpu_s=time.process_time() - client_s,
            bookie_cpu_s=sum(map(bench_proc.cpu_s, pids)) - used_s,
            **before.shares_until(bench_proc.Sample.take(pids)),
        )
        figures = bench_figures.summary([round_])
        return {
            "rate": figures["rate"],
            "mb_per_s": figures["rate"] * shape.size_bytes / 1e6,
            "bookie_us": figures["bookie_us"],
            "memory_mb": sum(map(bench_proc.rss_mb, pids)),
            "bound": bench_figures.bound(figures, os.cpu_count() or 1),
        }
    finally:
        for one in running:
            one.close()


def measure_index(folder: Path, seconds: float) -> dict[str, Any]:
    """Return the series of the index, as far as it got in `seconds`."""
    with kube_talk.step(f"index: up to {INDEX_ENTRIES_MAX:,} entries or {seconds:.0f} s"):
        points = [{**point, "bound": _index_bound(point)} for point in _index_points(folder, seconds)]
    return _described(INDEX, points)


def measure_starts(folder: Path, seconds: float) -> dict[str, Any]:
    """Return the series of starts."""
    return _described(STARTS, list(bench_starts.measure(folder, seconds)))


def _index_points(folder: Path, seconds: float) -> Iterator[dict[str, Any]]:
    (folder / "index").mkdir()
    script = Path(__file__).parent / "bench_index.py"
    argv = [sys.executable, str(script), str(folder / "index"), str(seconds), str(INDEX_ENTRIES_MAX)]
    with (folder / "index.log").open("ab") as talk:
        process = children.spawn(argv, stderr=talk)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            point = json.loads(line)
            kube_talk.say(f"  index: {point['x']:,} entries, {point['hit_us']:.1f} µs a look-up")
            yield point
        code = process.wait()
        if code != 0:
            raise AssertionError(f"{script.name} ended with {code}; it said: {children.tail(folder / 'index.log')}")
    finally:
        children.end(process, timeout_s=10)


def _index_bound(point: dict[str, Any]) -> str:
    if point["read_bytes"] < 1:
        return "one thread's CPU (no look-up read the disk)"
    return f"the disk: {point['read_bytes']:,.0f} bytes read from it a look-up"


def _described(series: Series, points: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": series.name,
        "title": series.title,
        "x": series.x,
        "points": points,
        "next": series.following,
    }
