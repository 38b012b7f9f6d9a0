"""Adds a second on one bookie of ours beside one official Java bookie, in the same run, by the official Java client.

One bookie, v3, 1 KiB, journal synced before every answer, client throttle off. The two take turns round by round, so
that a machine whose speed drifts does not decide; the median of the rounds' ratios is the figure. `make bench`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "cluster")]

import java_fleet_support  # noqa: E402
import java_support  # noqa: E402
import kube_talk  # noqa: E402
import local_support  # noqa: E402

RATIO_MIN = 0.6  # of the official bookie's adds a second; issue 3, "Least figures"
IDLE_RSS_MB_MAX = 150  # the same
WARM_UP_ROUNDS = 4  # a Java process gets faster for its first twenty seconds; client and bookie are both one


@dataclass(frozen=True, slots=True)
class Round:
    adds_per_second: float
    p50_ms: float
    p99_ms: float


@dataclass(slots=True)
class Side:
    name: str
    client: java_support.JavaClient
    rounds: list[Round]

    def median(self, figure: str) -> float:
        return float(statistics.median(getattr(one, figure) for one in self.rounds))


def rss_mb(pid: int) -> float:
    """Return the resident memory of a process in MB (proc(5), VmRSS)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise ValueError(f"no VmRSS of {pid}")


@contextlib.contextmanager
def official(folder: Path) -> Iterator[Side]:
    with contextlib.ExitStack() as stack:
        uri = stack.enter_context(java_fleet_support.zookeeper(folder))
        stack.enter_context(java_fleet_support.bookies(uri, folder, 1, fast=True))
        yield Side("official Java", stack.enter_context(java_support.JavaClient(uri, folder / "c.log", fast=True)), [])


def measure(side: Side, arguments: argparse.Namespace) -> Round:
    answer = side.client.ask("bench", seconds=arguments.seconds, size=arguments.size, window=arguments.window)
    return Round(answer["adds_per_second"], answer["p50_us"] / 1000, answer["p99_us"] / 1000)


def run(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return the figures of a whole run."""
    with contextlib.ExitStack() as stack:
        with kube_talk.step("starting one bookie of ours and one official one"):
            (folder / "official").mkdir()
            theirs = stack.enter_context(official(folder / "official"))
            local = stack.enter_context(
                local_support.fleet(
                    folder / "ours", folder / "ours.log", bookies=1, arguments=["--journal-write-data", "true"]
                )
            )
            client = java_support.JavaClient(local.uri, folder / "client.log", fast=True)
            ours = Side("ours", stack.enter_context(client), [])
        idle_mb = rss_mb(local.bookies[0].pid)
        with kube_talk.step(f"warming up, then {arguments.rounds} rounds of {arguments.seconds:g} s each"):
            for number in range(WARM_UP_ROUNDS + arguments.rounds):
                for side in (ours, theirs):
                    one = measure(side, arguments)
                    if number >= WARM_UP_ROUNDS:
                        side.rounds.append(one)
        pairs = zip(ours.rounds, theirs.rounds, strict=True)
        ratios = [mine.adds_per_second / other.adds_per_second for mine, other in pairs]
        return {
            "ratio": statistics.median(ratios),
            "ratios": ratios,
            "idle_rss_mb": idle_mb,
            "loaded_rss_mb": rss_mb(local.bookies[0].pid),
            "sides": [
                {"name": side.name, "rounds": [asdict(one) for one in side.rounds], "median": asdict(medians(side))}
                for side in (ours, theirs)
            ],
        }


def medians(side: Side) -> Round:
    return Round(*(side.median(figure) for figure in Round.__slots__))


def table(figures: dict[str, Any], arguments: argparse.Namespace) -> str:
    """Return the figures for people: one line a round, then the medians."""
    ours, theirs = figures["sides"]
    lines = [
        f"one bookie, v3, {arguments.size} bytes, {arguments.window} adds in flight, journal synced, Java client",
        f"{'':10}{ours['name']:>14}{theirs['name']:>16}{'ratio':>8}",
    ]
    rounds = zip(ours["rounds"], theirs["rounds"], figures["ratios"], strict=True)
    for number, (mine, other, ratio) in enumerate(rounds, 1):
        adds = (mine["adds_per_second"], other["adds_per_second"])
        lines.append(f"{f'round {number}':10}{adds[0]:>10,.0f} a/s{adds[1]:>12,.0f} a/s{ratio:>8.2f}")
    mine, other = ours["median"], theirs["median"]
    adds = (mine["adds_per_second"], other["adds_per_second"])
    lines.append(f"{'median':10}{adds[0]:>10,.0f} a/s{adds[1]:>12,.0f} a/s{figures['ratio']:>8.2f}")
    for name, figure in (("half under", "p50_ms"), ("99 % under", "p99_ms")):
        lines.append(f"{name:10}{mine[figure]:>11,.1f} ms{other[figure]:>13,.1f} ms")
    lines.append(
        f"idle bookie of ours: {figures['idle_rss_mb']:.0f} MB resident, {figures['loaded_rss_mb']:.0f} MB after"
    )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a round")
    parser.add_argument("--size", type=int, default=1024, help="bytes of an entry")
    parser.add_argument("--window", type=int, default=1000, help="adds in flight")
    parser.add_argument("--json", action="store_true", help="the figures as JSON on standard output")
    arguments = parser.parse_args()
    try:
        java_support.ensure_java()
    except java_support.JavaMissing as missing:
        kube_talk.say(f"bench: {missing}")
        return 1
    with tempfile.TemporaryDirectory(prefix="bookie-bench-") as name:
        figures = run(arguments, Path(name))
    print(json.dumps(figures) if arguments.json else table(figures, arguments))
    if figures["ratio"] < RATIO_MIN or figures["idle_rss_mb"] > IDLE_RSS_MB_MAX:
        kube_talk.say(f"bench: below the least figures (ratio {RATIO_MIN}, idle {IDLE_RSS_MB_MAX} MB)")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
