"""Reads a second of one storage engine: sequential and random, from a cold page cache and from a warm one.

The store alone, on the running machine's disk, without network or protocol: what the engine costs and what bounds it.
`measure` is what `make bench` may call; as a command it prints a table (`--json` for machines).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import struct
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bookie.base.ids import EntryId, LedgerId  # noqa: E402
from bookie.base.units import MIB  # noqa: E402
from bookie.runtime.loop import run  # noqa: E402
from bookie.runtime.world import open_world  # noqa: E402
from bookie.storage import restart  # noqa: E402
from bookie.storage.options import StorageOptions  # noqa: E402
from bookie.storage.store import EntryStore  # noqa: E402

KEY = b"k" * 20
Want = tuple[LedgerId, EntryId]


@dataclass(frozen=True)
class Shape:
    """What is stored, and how many readers ask at once."""

    ledgers: int = 50
    entries: int = 4_000  # of each ledger
    size: int = 1024
    readers: int = 64
    seconds: float = 3.0


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    reads_per_second: float
    cpu_us_per_read: float


def options_in(folder: Path) -> StorageOptions:
    return StorageOptions(journal_dirs=(f"{folder}/journal",), ledger_dirs=(f"{folder}/ledgers",))


async def fill(folder: Path, shape: Shape) -> None:
    """Entries of all ledgers in turn, as concurrent writers send them; several checkpoints."""
    payload = random.Random(1).randbytes(shape.size)
    async with open_world() as world:
        store = await restart.open_store(options_in(folder), world, fail=_fail)
        for entry_id in range(shape.entries):
            for ledger_id in range(shape.ledgers):
                body = struct.pack(">qqqq", ledger_id, entry_id, entry_id - 1, shape.size) + payload
                store.add_copied(LedgerId(ledger_id), EntryId(entry_id), body, KEY)
            if entry_id * shape.ledgers * (shape.size + 200) % (32 * MIB) < shape.ledgers * (shape.size + 200):
                await store.flush()
        await store.flush()
        await store.close()


def _fail(error: BaseException) -> None:
    raise SystemExit(str(error))


def forget_pages(folder: Path) -> None:
    """Let the kernel drop what it holds of these files (clean pages only, hence the sync)."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            fd = os.open(path, os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


async def _read(store: EntryStore, ledger_id: LedgerId, entry_id: EntryId) -> None:
    """As the server does it: at once if that is possible, else wait for the disk."""
    body = store.read_nowait(ledger_id, entry_id)
    if body is None:
        await store.read(ledger_id, entry_id)


async def _timed(name: str, shape: Shape, workers: Sequence[Callable[[], Awaitable[int]]]) -> Figure:
    began, cpu = time.perf_counter(), time.process_time()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_call(worker)) for worker in workers]
    count = sum(task.result() for task in tasks)
    elapsed, burnt = time.perf_counter() - began, time.process_time() - cpu
    return Figure(name, count / elapsed, burnt / count * 1e6)


async def _call(worker: Callable[[], Awaitable[int]]) -> int:
    return await worker()


def _random_worker(store: EntryStore, shape: Shape, seed: int, until: float) -> Callable[[], Awaitable[int]]:
    async def work() -> int:
        draw, count = random.Random(seed), 0
        while time.perf_counter() < until:
            await _read(store, LedgerId(draw.randrange(shape.ledgers)), EntryId(draw.randrange(shape.entries)))
            count += 1
            if count % 16 == 0:
                await asyncio.sleep(0)
        return count

    return work


def _sequential_worker(store: EntryStore, ledgers: Sequence[int], shape: Shape) -> Callable[[], Awaitable[int]]:
    """One client that reads whole ledgers, 16 entries asked for at a time."""

    async def work() -> int:
        count = 0
        for ledger_id in ledgers:
            for start in range(0, shape.entries, 16):
                wanted = range(start, min(start + 16, shape.entries))
                missing = [
                    entry_id for entry_id in wanted if store.read_nowait(LedgerId(ledger_id), EntryId(entry_id)) is None
                ]
                await asyncio.gather(*(store.read(LedgerId(ledger_id), EntryId(entry_id)) for entry_id in missing))
                count += len(wanted)
                await asyncio.sleep(0)
        return count

    return work


async def _life(folder: Path, shape: Shape, name: str, *, is_cold: bool, clients: int) -> list[Figure]:
    if is_cold:
        forget_pages(folder)
    async with open_world() as world:
        store = await restart.open_store(options_in(folder), world, fail=_fail)
        if name == "random":
            until = time.perf_counter() + shape.seconds
            workers = [_random_worker(store, shape, seed, until) for seed in range(shape.readers)]
        else:
            shares = [range(shape.ledgers)[number::clients] for number in range(clients)]
            workers = [_sequential_worker(store, share, shape) for share in shares]
        figure = await _timed(f"{name}, {'cold' if is_cold else 'warm'}", shape, workers)
        await store.abandon()
    return [figure]


def measure(folder: Path, shape: Shape) -> list[Figure]:
    """The four figures, on files made below `folder`."""
    run(fill(folder, shape))
    figures: list[Figure] = []
    for name in ("random", "sequential"):
        for is_cold in (True, False):
            figures += run(_life(folder, shape, name, is_cold=is_cold, clients=4))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", default=None, help="on the disk to be measured; default: the temporary directory")
    parser.add_argument("--ledgers", type=int, default=Shape.ledgers)
    parser.add_argument("--entries", type=int, default=Shape.entries)
    parser.add_argument("--size", type=int, default=Shape.size)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    shape = Shape(arguments.ledgers, arguments.entries, arguments.size)
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="bookie-reads-") as name:
        figures = measure(Path(name), shape)
    if arguments.json:
        print(json.dumps([asdict(figure) for figure in figures]))
        return
    for figure in figures:
        print(f"{figure.name:20} {figure.reads_per_second:10,.0f} reads/s {figure.cpu_us_per_read:8.1f} us CPU each")


if __name__ == "__main__":
    main()
