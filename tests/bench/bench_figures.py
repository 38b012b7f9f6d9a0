"""From rounds to rows: medians, paired ratios, what bounds a load, and the verdict. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench_loads import IDLE_RSS_MB_MAX, MEMORY, MEMORY_LEAST, Load

# From this share on, a core or all cores count as used up: the rest is the scheduler's and the sampling's.
FULL_SHARE = 0.85
OWN_SHARE_MIN = 0.7  # of all cores, client and bookies together: below it a full machine was full of others' work

# Of a side's figures, those that are the median of its rounds'.
MEDIANS = (
    "rate",
    "per_cpu_s",
    "per_bookie_cpu_s",
    "p50_ms",
    "p99_ms",
    "p999_ms",
    "hottest_share",
    "busy_share",
    "waiting_share",
    "beside_p99_ms",
    "back_s",
    "stop_s",
    "given_back_mb",
    "given_back_s",
    "scrubbed_per_s",
)


@dataclass(frozen=True, slots=True)
class Round:
    """One side's turn. Shares: of a core for the bookie's busiest thread, of all cores for `busy` and `waiting`."""

    operations: int
    elapsed_s: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    client_cpu_s: float
    bookie_cpu_s: float
    hottest_share: float = 0.0
    busy_share: float = 0.0
    waiting_share: float = 0.0
    disk_bytes: float = 0.0  # that the bookies had read from the disk itself
    beside_p99_ms: float = 0.0  # of the calls of the load beside, where there is one
    back_s: float = 0.0  # from the stop of a bookie until it served again
    stop_s: float = 0.0  # of it, until its process had ended
    given_back_mb: float = 0.0  # entry logs that compaction gave back, and how long after ledgers were deleted
    given_back_s: float = 0.0
    scrubbed_per_s: float = 0.0  # entries; official bookies do not tell

    @property
    def rate(self) -> float:
        """Operations a second."""
        return self.operations / self.elapsed_s

    @property
    def per_cpu_s(self) -> float:
        """Operations per CPU second of client and bookies together."""
        return self.operations / max(self.client_cpu_s + self.bookie_cpu_s, 1e-9)

    @property
    def per_bookie_cpu_s(self) -> float:
        """Operations per CPU second of the bookies alone."""
        return self.operations / max(self.bookie_cpu_s, 1e-9)


def summary(rounds: Sequence[Round]) -> dict[str, float]:
    """Return one side's figures: medians of rounds; CPU microseconds an operation over all rounds together."""
    operations = sum(one.operations for one in rounds)
    bookie_us = sum(one.bookie_cpu_s for one in rounds) * 1e6 / operations
    client_us = sum(one.client_cpu_s for one in rounds) * 1e6 / operations
    found = {name: float(statistics.median(getattr(one, name) for one in rounds)) for name in MEDIANS}
    found["disk_bytes"] = sum(one.disk_bytes for one in rounds) / operations
    return {**found, "bookie_us": bookie_us, "client_us": client_us}


def bound(side: dict[str, float], cores: int) -> str:
    """Return what keeps a side from being faster, by what was used up meanwhile."""
    bookie_us, client_us = side["bookie_us"], side["client_us"]
    own_share = (bookie_us + client_us) * side["rate"] / 1e6 / cores
    if side["busy_share"] >= FULL_SHARE and own_share < OWN_SHARE_MIN:
        return f"others: this load had {own_share:.0%} of the machine, and {side['busy_share']:.0%} were in use"
    if side["busy_share"] >= FULL_SHARE:
        share = bookie_us / max(bookie_us + client_us, 1e-9)
        return f"all {cores} cores: bookie {share:.0%}, client {1 - share:.0%} of their CPU"
    if side["hottest_share"] >= FULL_SHARE:
        return f"one thread of the bookie ({side['hottest_share']:.0%} of a core)"
    if side["waiting_share"] >= 0.1:
        return f"the disk (cores idle and waiting for it {side['waiting_share']:.0%} of the time)"
    return f"waiting for each other (busiest thread {side['hottest_share']:.0%}, machine {side['busy_share']:.0%})"


def row(load: Load, ours: Sequence[Round], theirs: Sequence[Round], cores: int) -> dict[str, Any]:
    """Return one row: figures of both sides, the ratio of each pair of rounds, their median, and what is below."""
    figure = load.figure
    pairs = list(zip(ours, theirs, strict=True))
    better = pairs if load.latency is None else [(other, mine) for mine, other in pairs]
    ratios = [getattr(one, figure) / getattr(another, figure) for one, another in better]
    mine, other = summary(ours), summary(theirs)
    found: dict[str, Any] = {
        "name": load.name,
        "title": load.title,
        "unit": load.unit,
        "figure": figure,
        "least": load.least,
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "p99_ratio": statistics.median(one.p99_ms / another.p99_ms for one, another in pairs),
        "p99_most": load.p99_most,
        "p999_ratio": statistics.median(one.p999_ms / another.p999_ms for one, another in pairs),
        "p999_most": load.p999_most,
        "ours": {"side": load.ours, **mine, "bound": bound(mine, cores), "rounds": [asdict(one) for one in ours]},
        "theirs": {
            "side": load.theirs,
            **other,
            "bound": bound(other, cores),
            "rounds": [asdict(one) for one in theirs],
        },
    }
    if load.has_own_client:
        found["client_ratio"] = other["client_us"] / max(mine["client_us"], 1e-9)
    return {**found, "problems": problems(found)}


def told(found: dict[str, Any], side: str) -> str:
    """Return one side's figure of a row, with its unit."""
    figure, unit = found["figure"], found["unit"]
    value = found[side][figure]
    if figure == "per_cpu_s":
        return f"{value:,.0f} {unit}/CPU s"
    if figure == "per_bookie_cpu_s":
        return f"{value:,.0f} {unit}/CPU s of the bookie"
    if figure.endswith("_ms"):
        return f"{value:.1f} ms"
    return f"{value:.1f} s" if figure.endswith("_s") else f"{value:,.0f} {unit}/s"


def beside(side: dict[str, Any]) -> str:
    """Return in words what else a side did during its rounds; "" where it did nothing else."""
    words = []
    if side.get("back_s"):
        words.append(f"a bookie away for {side['back_s']:.1f} s, {side['stop_s']:.1f} of them to stop")
    if side.get("given_back_mb"):
        words.append(f"{side['given_back_mb']:,.0f} MB of logs given back in {side['given_back_s']:.1f} s")
    if side.get("scrubbed_per_s"):
        words.append(f"{side['scrubbed_per_s']:,.0f} entries scrubbed a second")
        words.append(f"{side['disk_bytes'] * side['rate'] / 1e6:.0f} MB/s read from the disk")
    if side.get("beside_p99_ms"):
        words.append(f"p99 of the load beside {side['beside_p99_ms']:.1f} ms")
    return "; ".join(words)


def problems(found: dict[str, Any]) -> list[str]:
    """Return in words what of a row is below the least figures; nothing when it holds."""
    wrong = []
    if found["ratio"] < found["least"]:
        wrong.append(f"ratio {found['ratio']:.2f}, least {found['least']:g}")
    for name in ("p99", "p999"):
        most = found.get(f"{name}_most")
        if most is not None and found[f"{name}_ratio"] > most:
            wrong.append(f"{name} is {found[f'{name}_ratio']:.2f} times theirs, most {most:g}")
    if found.get("idle_mb", 0.0) > IDLE_RSS_MB_MAX:
        wrong.append(f"idle {found['idle_mb']:.0f} MB, most {IDLE_RSS_MB_MAX:g}")
    return wrong


def memory_row(ours_mb: float, theirs_mb: float, idle_mb: float, least: float = MEMORY_LEAST) -> dict[str, Any]:
    """Return the row of resident memory after the run, in MB; `idle_mb`: ours when it had just started."""
    found: dict[str, Any] = {
        "name": MEMORY,
        "title": "resident memory of a bookie, the most seen after a load: theirs to ours",
        "unit": "MB",
        "least": least,
        "ratio": theirs_mb / ours_mb,
        "ours_mb": ours_mb,
        "theirs_mb": theirs_mb,
        "idle_mb": idle_mb,
    }
    return {**found, "problems": problems(found)}
