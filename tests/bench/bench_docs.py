"""docs/BENCHMARKS.md, its picture and the figures they are made of: written by the tool, never by hand.

`docs/benchmarks.json` keeps the last measured row of each load and the last series of each growth, with commit and
date; page and picture follow from it. Only `write` touches files.
"""

from __future__ import annotations

import datetime as dt
import json
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import bench_figures
import bench_plot
import bench_proc
from bench_loads import NAMES

DOCS = Path(__file__).resolve().parents[2] / "docs"
FIGURES, PAGE, PICTURE = "benchmarks.json", "BENCHMARKS.md", "benchmarks.svg"
SIDES = ("ours", "theirs")
GROWTH_NAMES = ("connections", "ledgers", "sizes", "bookies", "index", "starts")

METHOD = """\
Written by `make bench WRITE_DOCS=1` and `make bench-growth WRITE_DOCS=1`; do not edit. Figures are of one machine and \
one run; what travels are the ratios. Where the time goes, and what was tried: [SPEED.md](SPEED.md).

- Each load runs on one bookie of ours and on one official Java bookie 4.17.3 (1 GB heap, 1 GB direct memory, \
`DbLedgerStorage`) in the same run, round by round in turns; the ratio is the median of the rounds' ratios. Both keep \
their data on the same disk and sync the journal before every answer.
- One process with the official Java client, its throttle off, asks both; only in `client` our own client asks our \
side. Everything is on one machine, so client and bookie share its cores.
- Before the rounds both sides are warmed up until a Java process no longer gets faster. Ledgers to read are written, \
then the bookies are ended and started again; *warm*: the ledger was read once before; *cold*: never since, and the \
kernel's page cache is dropped before every round (what the host below a virtual machine caches is not ours to drop).
- CPU µs are of one operation, from the kernel's accounting: the bookie's over the whole load, work that was put off \
(flushes, compaction, garbage collection) included; the client's during its rounds. A read is of one entry; latencies \
of sequential reads are of a call for 100 entries.
- `adds-unjournaled` is about what the journal costs a bookie, so its figure is of the bookie's CPU alone: the \
client's part of an add is the larger one and the same on both sides.
- `restart`: three bookies have the load of `adds-three` at half of what the slower side takes. One is told to stop \
(SIGTERM), started again as soon as its process has ended, and serves again when clients are told of it and it takes \
an add. The client goes on with the other two meanwhile (`delayEnsembleChange`) and comes back to it by itself: with \
nobody to replace the bookie, both sides do the same work. Latencies are of the adds before, meanwhile and after.
- `adds-beside-compaction`: before each round 200 MB are written to fifty ledgers (among the bookie's CPU µs). Under \
load two thirds of these are deleted, and the load goes on until none of the logs that were full of them is left. Both \
sides have the same settings: garbage is looked for every second, logs of 32 MiB of which less than half is live are \
compacted, at 10 MB/s.
- `adds-beside-scrub`: both sides check 20,000 entries a second all the time. Theirs has `SortedLedgerStorage` there, \
as `DbLedgerStorage` has no check, and looks at the head of each entry; ours reads all bytes and checks them. \
`scrub-cost`: ours that scrubs beside ours that does not.
- Latencies at a pace count from when a call was due. Where the row is about a latency, the ratio is theirs to ours.
- A row holds if its ratio is at least the figure beside it, and for `adds-v3` and `adds-v2` if the p99 is not worse, \
for `adds-half` if the p99.9 is not worse.
"""


def stamp(found: dict[str, Any]) -> dict[str, Any]:
    """Return a row or series as it is kept: with commit and date, without the single rounds."""
    kept = dict(found)
    for side in SIDES:
        if isinstance(kept.get(side), dict):
            kept[side] = {name: value for name, value in kept[side].items() if name != "rounds"}
    return {**kept, "commit": _commit(), "date": dt.datetime.now(dt.UTC).date().isoformat()}


def _commit() -> str:
    """Return what was measured; "unknown" where the tree is no checkout."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=DOCS, capture_output=True, text=True, check=False).stdout.strip()

    changes = "+changes" if git("status", "--porcelain", "--", "../bookie") else ""
    return (git("rev-parse", "--short", "HEAD") or "unknown") + changes


def merged(old: Sequence[dict[str, Any]], new: Iterable[dict[str, Any]], order: Sequence[str]) -> list[dict[str, Any]]:
    """Return `old` with the `new` ones of the same name in their place, in `order`."""
    found = {one["name"]: one for one in [*old, *new]}
    return [found[name] for name in order if name in found]


def write(*, rows: Iterable[dict[str, Any]] = (), series: Iterable[dict[str, Any]] = (), docs: Path = DOCS) -> None:
    """Keep what was measured now, and write page and picture anew."""
    path = docs / FIGURES
    kept = json.loads(path.read_text()) if path.exists() else {}
    kept = {
        "machine": bench_proc.describe_machine(),
        "rows": merged(kept.get("rows", []), map(stamp, rows), NAMES),
        "series": merged(kept.get("series", []), map(stamp, series), GROWTH_NAMES),
    }
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    (docs / PAGE).write_text(page(kept))
    (docs / PICTURE).write_text(bench_plot.plot(kept["rows"], kept["series"]))


def page(kept: dict[str, Any]) -> str:
    """Return the page."""
    machine = kept["machine"]
    text = ["# Benchmarks", "", METHOD, f"![ratios and growth]({PICTURE})", ""]
    text.append(
        f"Machine: {machine['cores']} cores ({machine['processor']}), {machine['memory_gb']} GB, Linux"
        f" {machine['kernel']}, Python {machine['python']}."
    )
    text += [f"Measured {when}: {', '.join(names)}." for when, names in _measured(kept)]
    if kept["rows"]:
        text += ["", *_speed(kept["rows"])]
    for one in kept["series"]:
        text += ["", *_growth(one)]
    return "\n".join(text) + "\n"


def _measured(kept: dict[str, Any]) -> list[tuple[str, list[str]]]:
    found: dict[str, list[str]] = {}
    for one in [*kept["rows"], *kept["series"]]:
        found.setdefault(f"{one['date']} at commit {one['commit']}", []).append(f"`{one['name']}`")
    return list(found.items())


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {' | '.join(line)} |" for line in lines)]


def _speed(rows: Sequence[dict[str, Any]]) -> list[str]:
    head = (
        "load",
        "what",
        "ratio",
        "least",
        "holds",
        "ours",
        "theirs",
        "p50 ms",
        "p99 ms",
        "p99.9 ms",
        "bookie µs",
        "client µs",
    )
    text = ["## Ratios", "", "Pairs are ours / theirs.", ""]
    text += _table(head, (_speed_cells(row) for row in rows))
    text += ["", "### What bounds each", ""]
    bounds = [(f"`{row['name']}`", *(_bound(row, side) for side in SIDES)) for row in rows if "ours_mb" not in row]
    return text + _table(("load", "ours", "theirs"), bounds)


def _bound(row: dict[str, Any], side: str) -> str:
    """Return what bounds a side, and what else it did; of reads also what they cost the disk: it shows that cold ones
    were cold."""
    found = row[side]
    disk = f"; {found['disk_bytes']:,.0f} bytes from the disk a read" if row["unit"] == "reads" else ""
    aside = bench_figures.beside(found)
    return f"{found['bound']}{disk}{'; ' if aside else ''}{aside}"


def _speed_cells(row: dict[str, Any]) -> list[str]:
    start = [f"`{row['name']}`", row["title"], f"**{row['ratio']:.2f}**", f"{row['least']:g}"]
    start.append("yes" if not row["problems"] else f"no: {'; '.join(row['problems'])}")
    if "ours_mb" in row:
        ours = f"{row['ours_mb']:.0f} MB ({row['idle_mb']:.0f} when it had just started)"
        return [*start, ours, f"{row['theirs_mb']:.0f} MB", "", "", "", "", ""]
    ours, theirs = row["ours"], row["theirs"]
    names = ("p50_ms", "p99_ms", "p999_ms", "bookie_us", "client_us")
    pairs = [f"{ours[name]:.1f} / {theirs[name]:.1f}" if name in ours else "" for name in names]
    return [*start, *(bench_figures.told(row, side) for side in SIDES), *pairs]


def _growth(one: dict[str, Any]) -> list[str]:
    head: tuple[str, ...]
    names: tuple[str, ...]
    text = [f"## Growth: {one['x']}", "", f"{one['title'][0].upper()}{one['title'][1:]}.", ""]
    if one["name"] == "index":
        head = (one["x"], "look-up µs", "of a missing entry µs", "put µs", "memory MB", "disk MB", "bound by")
        names = ("hit_us", "miss_us", "put_us", "memory_mb", "disk_mb")
    elif one["name"] == "starts":
        head = (
            one["x"],
            "GiB of logs (generated)",
            "journal MB",
            "replayed in s",
            "start after a kill s",
            "orderly stop s",
            "start s",
            "its CPU s",
            "memory MB",
            "bound by",
        )
        names = ("logs_gib", "journal_mb", "replay_s", "after_kill_s", "stop_s", "start_s", "start_cpu_s", "memory_mb")
    else:
        head = (one["x"], "adds/s", "MB/s", "bookie's CPU µs an add", "memory MB", "bound by")
        names = ("rate", "mb_per_s", "bookie_us", "memory_mb")
    lines = [[f"{p['x']:,}", *(number(p[name]) for name in names), p["bound"]] for p in one["points"]]
    return [*text, *_table(head, lines), "", f"The next bound: {one['next']}."]


def number(value: float) -> str:
    """Return a figure with as many digits as it deserves."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
