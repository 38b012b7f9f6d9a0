"""How long our bookie takes to stop and to start: by open ledgers, with a journal to replay, with many logs.

A start lasts from the process's first instruction until the bookie says that it serves. Of each point the bookie is
killed when it has taken a load: what its journal has is replayed (as long as its log says), and the start waits until
the metadata store has given up the session of the dead process. Then it is ended in good order and started once more.
The logs of the last point are generated: their bytes are holes in files, their rows are in the index as a fleet's life
leaves them.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bench_proc
import bench_swarm
import kube_talk
import local_support
from bench_swarm import Shape
from bookie.base.ids import EntryId, LedgerId
from bookie.base.units import GIB, KIB
from bookie.runtime import loop
from bookie.runtime.rocksdb import RocksStores
from bookie.storage import dirs, location
from bookie.storage.entrylog import format as log_format
from bookie.storage.entrylog import logs
from bookie.storage.index import Index
from bookie.storage.run import Placed

LEDGER_FIRST = 1 << 40  # far from ids that a cluster gives
GENERATED_ENTRY_BYTES = 10 * KIB
REPLAYED = re.compile(r"journal replayed entries=\d+ ms=(\d+)")
GENERATED_FIRST = 1 << 20  # of each ledger: far behind what was written


@dataclass(frozen=True, slots=True)
class Point:
    """`logs_gib`: of generated entry logs, beside what is written."""

    ledgers: int
    logs_gib: int = 0


POINTS = (Point(1), Point(1000), Point(10_000), Point(100_000), Point(100_000, logs_gib=100))
TITLE = "seconds from a process's first instruction to a bookie that serves, by number of ledgers"
FOLLOWING = (
    "the metadata store's time-out of a session, for which a start after a kill waits; of entry logs a start reads the"
    " heads alone, and of ledgers nothing that it has not to replay"
)


def measure(folder: Path, seconds: float) -> Iterator[dict[str, Any]]:
    """Give a point after the other, each of a bookie of its own that took adds for `seconds` before."""
    for number, point in enumerate(POINTS):
        with kube_talk.step(f"starts: {point.ledgers:,} ledgers, {point.logs_gib} GiB of generated logs"):
            yield _measure(folder / str(number), point, seconds)


def _measure(folder: Path, point: Point, seconds: float) -> dict[str, Any]:
    folder.mkdir()
    fleet = local_support.fleet(
        folder / "fleet", folder / "local.log", bookies=1, arguments=["--journal-write-data", "true"]
    )
    with fleet as local:
        (bookie,) = local.bookies
        loop.run(_write(bookie.port, Shape(1, point.ledgers, KIB, LEDGER_FIRST), seconds))
        local_support.kill(bookie)
        journal_mb = _size_mb(bookie.journal)
        with _Started(bookie) as after_kill:
            told = REPLAYED.findall(bookie.logs()[0].read_text())
        if point.logs_gib:
            first = _generate_logs(Path(dirs.current(str(bookie.ledgers))), point)
            loop.run(_generate_rows(f"{dirs.current(str(bookie.index))}/{dirs.INDEX}", point, first))
        with _Started(bookie) as started:
            memory_mb = bench_proc.rss_mb(started.process.pid)
    return {
        "x": point.ledgers,
        "logs_gib": point.logs_gib,
        "journal_mb": journal_mb,
        "replay_s": int(told[-1]) / 1000 if told else 0.0,
        "after_kill_s": after_kill.start_s,
        "stop_s": after_kill.stop_s,
        "start_s": started.start_s,
        "start_cpu_s": started.cpu_s,
        "memory_mb": memory_mb,
        "bound": "one thread's CPU" if started.cpu_s > 0.7 * started.start_s else "waiting: disk and metadata store",
    }


async def _write(port: int, shape: Shape, seconds: float) -> None:
    running = await bench_swarm.connect(port, shape)
    try:
        await running.send(seconds=seconds, adds_min=shape.ledgers)
    finally:
        running.close()


class _Started:
    """A start and the orderly stop after it, both timed."""

    def __init__(self, bookie: local_support.LocalBookie) -> None:
        self._bookie = bookie
        self.process: subprocess.Popen[str]
        self.start_s = self.stop_s = self.cpu_s = 0.0

    def __enter__(self) -> _Started:
        self._again = local_support.again(self._bookie)
        began_s = time.monotonic()
        self.process = self._again.__enter__()
        self.start_s = time.monotonic() - began_s
        self.cpu_s = bench_proc.cpu_s(self.process.pid)
        return self

    def __exit__(self, *error: object) -> None:
        began_s = time.monotonic()
        self._again.__exit__(None, None, None)
        self.stop_s = time.monotonic() - began_s


def _size_mb(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def _generate_logs(directory: Path, point: Point) -> int:
    """Give the bookie, which is down, so many more logs, all holes; return the first one's id."""
    first = 1 + max(int(path.stem, 16) for path in directory.glob(f"*{logs.SUFFIX}"))
    for log_id in range(first, first + point.logs_gib):
        with Path(logs.path_of(str(directory), log_id)).open("xb") as file:
            file.write(log_format.pack_head_block(log_id))
            file.truncate(GIB)
    return first


async def _generate_rows(directory: str, point: Point, first: int) -> None:
    """Put entries of every ledger into the index, so many that they fill the logs from `first` on."""
    record, start = GENERATED_ENTRY_BYTES + log_format.RECORD_HEAD_SIZE, len(log_format.pack_head_block(0))
    in_log = (GIB - start) // record
    each = in_log * point.logs_gib // point.ledgers  # entries of a ledger
    ids = range(GENERATED_FIRST, GENERATED_FIRST + each)
    index = Index(await RocksStores().open(directory))
    for ledger in range(point.ledgers):
        ledger_id = LedgerId(LEDGER_FIRST + ledger)
        places = [divmod(ledger * each + number, in_log) for number in range(each)]
        packed = [location.pack(first + log, start + at * record, GENERATED_ENTRY_BYTES) for log, at in places]
        index.put_entries(Placed([ledger_id] * each, [EntryId(entry) for entry in ids], packed))
        held = (each * record, EntryId(ids[0]), EntryId(ids[-1]))
        for log in {log for log, _ in places}:
            index.put_use(first + log, [(ledger_id, held)])
    await index.flush()
    await index.close()
