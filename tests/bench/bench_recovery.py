"""How long a lost bookie's copies take to be on others: our auto-recovery beside the official: `make bench-recovery`.

Each round makes a fleet of four of our bookies anew, writes closed ledgers of three copies, kills one bookie, whose
disks go with it, and lets one side work alone once the session of the dead one has ended. Sides take turns. A round
ends when no record names the dead bookie any more. Both begin at once and compare nothing else meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "cluster")]

import bench_proc  # noqa: E402
import children  # noqa: E402
import java_support  # noqa: E402
import kube_talk  # noqa: E402
import local_support  # noqa: E402
from bookie import connect  # noqa: E402
from bookie.base import errors  # noqa: E402
from bookie.base.ids import BookieId, LedgerId  # noqa: E402
from bookie.client import Client  # noqa: E402
from java_operator_support import JavaOperator  # noqa: E402

OURS, OFFICIAL = "ours", "official"
WRITERS = 32
BATCH_BYTES = 1 << 20
SESSION_TIMEOUT_S = 120.0
LEAST = 1.0  # official seconds by our seconds


@dataclass(frozen=True, slots=True)
class Load:
    """What is written. `size` in bytes of an entry."""

    ledgers: int
    entries: int
    size: int


@dataclass(frozen=True, slots=True)
class Round:
    """What one side needed. `cpu_s`: of the process that does auto-recovery, `bookies_cpu_s`: of the bookies."""

    side: str
    ledgers: int
    seconds: float
    cpu_s: float
    bookies_cpu_s: float


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--ledgers", type=int, default=2_000, help="closed ledgers (2000)")
    parser.add_argument("--entries", type=int, default=3, help="entries of each (3)")
    parser.add_argument("--size", type=int, default=1_024, help="bytes of an entry (1024)")
    parser.add_argument("--rounds", type=int, default=2, help="of each side (2)")
    parser.add_argument("--timeout", type=float, default=3_600.0, metavar="S", help="of one round's repair (3600)")
    parser.add_argument("--json", action="store_true", help="the rounds as JSON on stdout, talk on stderr")
    options = parser.parse_args()
    java_support.ensure_java()
    load = Load(options.ledgers, options.entries, options.size)
    rounds = []
    for number in range(2 * options.rounds):
        side = (OURS, OFFICIAL)[(number + number // 2) % 2]  # neither is always the first of a pair
        rounds.append(_round(side, load, options.timeout))
        print(_line(rounds[-1], load), file=sys.stderr, flush=True)
    ratio = _median(rounds, OFFICIAL) / _median(rounds, OURS)
    if options.json:
        print(json.dumps({"load": asdict(load), "ratio": round(ratio, 2), "rounds": [asdict(one) for one in rounds]}))
    print(f"{OFFICIAL} seconds by {OURS}: {ratio:.2f} (least {LEAST})", file=sys.stderr)
    return 0 if ratio >= LEAST else 1


def _line(one: Round, load: Load) -> str:
    speed, mb = one.ledgers / one.seconds, one.ledgers * load.entries * load.size / 1e6
    return (
        f"{one.side:>8}: {one.ledgers:,} ledgers in {one.seconds:.1f} s, {speed:,.1f} a second,"
        f" {mb:,.0f} MB at {mb / one.seconds:,.1f} MB/s;"
        f" CPU {one.cpu_s:.1f} s, of the bookies {one.bookies_cpu_s:.1f} s"
    )


def _median(rounds: list[Round], side: str) -> float:
    return statistics.median(one.seconds for one in rounds if one.side == side)


def _round(side: str, load: Load, timeout_s: float) -> Round:
    with tempfile.TemporaryDirectory(prefix="bench-recovery-") as folder:
        home = Path(folder)
        with local_support.fleet(home / "fleet", home / "fleet.log", bookies=4) as fleet:
            with kube_talk.step(f"writing {load.ledgers:,} ledgers"):
                written = asyncio.run(_write(fleet.uri, load))
            # Whoever is lost, one ledger at least names him, also where there is one alone.
            dead = next(each for each in fleet.bookies if each.bookie_id in min(written.items())[1])
            lost = BookieId(dead.bookie_id)
            to_move = [ledger_id for ledger_id, bookies in written.items() if lost in bookies]
            local_support.kill(dead)
            for lost_disk in (dead.journal, dead.ledgers, dead.index):
                shutil.rmtree(lost_disk, ignore_errors=True)
            asyncio.run(_wait_for_its_session(fleet.uri, lost))
            alive = [bookie.pid for bookie in fleet.bookies if bookie is not dead]
            before_s = sum(map(bench_proc.cpu_s, alive))
            begun_s = time.monotonic()
            with _recovery(side, fleet.uri, home) as pid:
                idle_s = bench_proc.family_cpu_s(pid)
                with kube_talk.step(f"{side} auto-recovery of {len(to_move):,} ledgers"):
                    asyncio.run(_wait_until_moved(fleet.uri, lost, to_move, timeout_s))
                seconds, cpu_s = time.monotonic() - begun_s, bench_proc.family_cpu_s(pid) - idle_s
                return Round(side, len(to_move), seconds, cpu_s, sum(map(bench_proc.cpu_s, alive)) - before_s)


async def _write(uri: str, load: Load) -> dict[LedgerId, tuple[BookieId, ...]]:
    """Write the ledgers; return the bookies of each."""
    written: dict[LedgerId, tuple[BookieId, ...]] = {}
    left = iter(range(load.ledgers))
    a_batch = max(1, BATCH_BYTES // load.size)

    async def writer(client: Client) -> None:
        for _ in left:
            async with await client.create() as ledger:
                for first in range(0, load.entries, a_batch):
                    await ledger.append_many([bytes(load.size)] * min(a_batch, load.entries - first))
            written[ledger.id] = ledger.metadata.last_segment.bookies

    async with connect.connect(uri) as client, asyncio.TaskGroup() as group:
        for _ in range(min(WRITERS, load.ledgers)):
            group.create_task(writer(client))
    return written


async def _wait_for_its_session(uri: str, lost: BookieId) -> None:
    async with connect.connect(uri) as client, asyncio.timeout(SESSION_TIMEOUT_S):
        while lost in [record.bookie_id for record in await client.admin.bookies()]:  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.2)


@contextlib.contextmanager
def _recovery(side: str, uri: str, home: Path) -> Iterator[int]:
    """Run one auto-recovery, of both parts in one process, without a delay; yield its process id."""
    if side == OFFICIAL:
        with JavaOperator(uri, home / "java.log") as official:
            official.start_recovery()
            yield official.pid
        return
    argv = [*local_support.BOOKIE, "autorecovery", "run", "--metadata-service-uri", uri, "--loss-delay", "0"]
    with (home / "ours.log").open("ab") as talk:
        process = children.spawn([*argv, "--check-interval", "0"], stderr=talk)
    try:
        yield process.pid
    finally:
        children.end(process, timeout_s=60.0)


async def _wait_until_moved(uri: str, lost: BookieId, ledgers: list[LedgerId], timeout_s: float) -> None:
    """Wait until no record names the bookie. Each record is read once, and again while it is the one waited for."""
    async with connect.connect(uri) as client, asyncio.timeout(timeout_s):
        for ledger_id in ledgers:
            while await _names(client, ledger_id, lost):  # noqa: ASYNC110 - another process changes it
                await asyncio.sleep(0.1)


async def _names(client: Client, ledger_id: LedgerId, lost: BookieId) -> bool:
    with contextlib.suppress(errors.MetadataError):
        return (await client.metadata(ledger_id)).names(lost)
    return False


if __name__ == "__main__":
    sys.exit(main())
