"""How fast our bookie and client are, each load a ratio to the official Java bookie in the same run.

    python tests/bench/bench.py                       the whole table, a quarter of an hour (`make bench`)
    python tests/bench/bench.py --load adds-v3 --rounds 1 --seconds 4        a quick look at one load
    python tests/bench/bench.py growth                how cost grows (`make bench-growth`)
    ... --write-docs                                  and what was measured goes into docs/BENCHMARKS.md
    python tests/bench/bench.py --against COMMIT      our bookie now beside our bookie then (`make bench-against`)
    python tests/bench/bench.py --bare                what rows of adds could be at most: a loop that only answers

The same official Java client, its throttle off, asks both sides; journals are synced before every answer. The sides
take turns round by round, so that a machine whose speed drifts does not decide; the median of the rounds' ratios is the
figure. Exit code 1 names the rows below their least figure (`bench_loads`).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("", "tests/bench", "tests/support", "tests/cluster", "tools")]

import bench_docs  # noqa: E402
import bench_figures  # noqa: E402
import bench_growth  # noqa: E402
import bench_measure  # noqa: E402
import bench_proc  # noqa: E402
import bench_report  # noqa: E402
import java_support  # noqa: E402
import kube_talk  # noqa: E402
import native  # noqa: E402
from bench_loads import AGAINST, AGAINST_LEAST, BARE, LOADS, MEMORY, MEMORY_LEAST, NAMES, Load  # noqa: E402
from bench_sides import Sides  # noqa: E402

Found = Iterator[dict[str, Any]]


def run(
    loads: tuple[Load, ...], names: list[str], plan: bench_measure.Plan, folder: Path, before: Path | None
) -> Found:
    """Give the rows of those `loads` that are named, each as soon as it is measured. `before`: packages to compare with
    instead."""
    with Sides(folder, before) as sides:
        for load in loads:
            if load.name not in names:
                continue
            if load.cache == "cold" and not bench_proc.can_drop_page_cache():
                kube_talk.say(f"bench: {load.name} is left out: only root may drop the page cache")
                continue
            sides.make_room()
            yield bench_measure.measure(load, sides, plan)
        other, least = ("official", MEMORY_LEAST) if before is None else ("before", AGAINST_LEAST)
        ours, theirs = sides.started("ours"), sides.started(other)
        if MEMORY in names and ours is not None and theirs is not None:
            yield bench_figures.memory_row(ours.rss_most_mb, theirs.rss_most_mb, ours.idle_rss_mb, least)


def grow(names: list[str], seconds: float, folder: Path) -> Found:
    """Give the chosen series; each has a folder of its own, removed when it is over."""
    for series in (*bench_growth.SERIES, bench_growth.BOOKIES, bench_growth.INDEX, bench_growth.STARTS):
        if series.name in names:
            with tempfile.TemporaryDirectory(dir=folder) as own:
                if series is bench_growth.BOOKIES:
                    yield bench_growth.measure_bookies(Path(own), seconds)
                elif series is bench_growth.INDEX:
                    yield bench_growth.measure_index(Path(own), bench_growth.INDEX_SECONDS)
                elif series is bench_growth.STARTS:
                    yield bench_growth.measure_starts(Path(own), seconds)
                else:
                    yield bench_growth.measure(series, Path(own), seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", choices=("speed", "growth"), default="speed", help="default: speed")
    parser.add_argument("--load", action="append", choices=NAMES, help="only this row; may be given again")
    parser.add_argument("--series", action="append", choices=bench_growth.NAMES, help="of growth, only this one")
    parser.add_argument("--rounds", type=int, default=5, help="of speed, on each side")
    parser.add_argument("--seconds", type=float, default=4.0, help="length of a round, or of a point")
    parser.add_argument(
        "--against", metavar="COMMIT", help="beside our own bookie as it was then, not the official one"
    )
    parser.add_argument("--bare", action="store_true", help="a loop that only answers, in place of our bookie")
    parser.add_argument("--json", action="store_true", help="the figures as JSON on standard output")
    parser.add_argument("--sources", action="store_true", help="run the sources as they are, nothing compiled")
    parser.add_argument("--write-docs", action="store_true", help="what is measured goes into docs/BENCHMARKS.md")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # end what we started, remove what we wrote
    with tempfile.TemporaryDirectory(prefix="bookie-bench-") as name:
        if not arguments.sources:
            _as_shipped(Path(name) / "packages")
        if arguments.what == "growth":
            return _main_growth(arguments, Path(name))
        if (arguments.against is not None or arguments.bare) and arguments.write_docs:
            parser.error("--write-docs is of our bookie beside the official one; leave out --against and --bare")
        if arguments.against is not None and arguments.bare:
            parser.error("--bare is of adds beside the official bookie; leave out --against")
        return _main_speed(arguments, Path(name))


def _as_shipped(folder: Path) -> None:
    """Let every process of ours that is started from here run what the image runs: with the hot modules compiled."""
    with kube_talk.step("compiling the hot modules, as for the image"):
        native.copy_with_native(folder)
    os.environ |= {"PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1"}


def _as_it_was(commit: str, folder: Path) -> Path:
    """The packages of `commit`, hot modules compiled, in a folder of their own below `folder`; return it."""
    tree, packages = folder / "tree", folder / "packages-before"
    tree.mkdir()
    with kube_talk.step(f"compiling the hot modules of {commit}"):
        packed = subprocess.run(["git", "-C", str(ROOT), "archive", commit], check=True, stdout=subprocess.PIPE).stdout
        subprocess.run(["tar", "-x", "-C", str(tree)], input=packed, check=True)
        subprocess.run([sys.executable, str(tree / "tools" / "native.py"), str(packages)], check=True)
    return packages


def _main_growth(arguments: argparse.Namespace, folder: Path) -> int:
    found = []
    for series in grow(arguments.series or list(bench_growth.NAMES), arguments.seconds, folder):
        found.append(series)
        kube_talk.say(bench_report.series_table(series))
        if arguments.write_docs:
            bench_docs.write(series=[series])
    print(json.dumps(found) if arguments.json else "\n".join(map(bench_report.series_table, found)))
    return 0


def _main_speed(arguments: argparse.Namespace, folder: Path) -> int:
    try:
        java_support.ensure_java()
    except java_support.JavaMissing as missing:
        kube_talk.say(f"bench: {missing}")
        return 1
    plan = bench_measure.Plan(arguments.rounds, arguments.seconds)
    before = _as_it_was(arguments.against, folder) if arguments.against is not None else None
    rows = []
    loads = BARE if arguments.bare else LOADS if before is None else AGAINST
    for row in run(loads, arguments.load or list(NAMES), plan, folder, before):
        rows.append(row)
        kube_talk.say(bench_report.table([row]))
        if arguments.write_docs:
            bench_docs.write(rows=[row])
    print(json.dumps(rows) if arguments.json else bench_report.table(rows))
    below = [row["name"] for row in rows if row["problems"]]
    if below:
        kube_talk.say(f"bench: below the least figures: {', '.join(below)}")
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
