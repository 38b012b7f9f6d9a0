"""The index alone, as large as asked: what a look-up costs, what it holds in memory and on disk. A program of its own.

    python bench_index.py FOLDER SECONDS ENTRIES_MAX      a JSON line at every power of ten

Entries come as checkpoints bring them: a thousand ledgers that grow side by side, some entries of each at a time.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # not by itself where the compiled copy must come first (PYTHONSAFEPATH)

import bench_proc
from bookie.base.ids import EntryId, LedgerId
from bookie.runtime import loop
from bookie.runtime.rocksdb import RocksStores
from bookie.storage import location
from bookie.storage.index import Index
from bookie.storage.run import Placed

LEDGERS = 1_000
ENTRIES_AT_ONCE = 64  # of each ledger: a write cache of 64 MiB full of 1 KiB entries
LOOKUPS = 20_000
RECORD_SIZE = 1100
LOG_BYTES = 1 << 30


def grow(index: Index, entries: int, entries_max: int) -> int:
    """Add one checkpoint's worth behind `entries`; return how many there are now."""
    first = entries // LEDGERS
    count = min(ENTRIES_AT_ONCE, entries_max // LEDGERS - first)
    ids = [EntryId(entry) for entry in range(first, first + count)]
    for ledger in range(LEDGERS):
        ledger_ids = [LedgerId(ledger)] * count
        start = (entries + ledger * count) * RECORD_SIZE
        places = [start + place * RECORD_SIZE for place in range(count)]
        locations = [location.pack(place // LOG_BYTES, place % LOG_BYTES, RECORD_SIZE) for place in places]
        index.put_entries(Placed(ledger_ids, ids, locations))
    return entries + LEDGERS * count


def lookup_us(index: Index, each: int, *, is_there: bool) -> float:
    """Return microseconds a look-up of random entries, of ledgers that have `each`; or of ones beyond their ends."""
    draw = random.Random(each)
    wanted = [(LedgerId(draw.randrange(LEDGERS)), EntryId(draw.randrange(each))) for _ in range(LOOKUPS)]
    if not is_there:
        wanted = [(ledger, EntryId(entry + 10 * each + 1000)) for ledger, entry in wanted]
    began_s = time.perf_counter()
    found = sum(index.locate(ledger, entry) is not None for ledger, entry in wanted)
    elapsed_s = time.perf_counter() - began_s
    assert found == (LOOKUPS if is_there else 0), f"{found} of {LOOKUPS} were found"
    return elapsed_s * 1e6 / LOOKUPS


async def run(folder: Path, seconds: float, entries_max: int) -> None:
    index = Index(await RocksStores().open(str(folder)))
    began_s = time.perf_counter()
    entries, milestone, put_s = 0, 10_000, 0.0
    while entries < entries_max and time.perf_counter() - began_s < seconds:
        batch_began_s = time.perf_counter()
        entries = grow(index, entries, min(milestone, entries_max))
        await index.flush()
        put_s += time.perf_counter() - batch_began_s
        if entries >= milestone:
            milestone *= 10
            tell(index, folder, entries, put_s)
    if entries * 10 != milestone:
        tell(index, folder, entries, put_s)
    await index.close()


def tell(index: Index, folder: Path, entries: int, put_s: float) -> None:
    each = entries // LEDGERS
    read_bytes = bench_proc.read_bytes(os.getpid())
    point = {
        "x": entries,
        "hit_us": lookup_us(index, each, is_there=True),
        "miss_us": lookup_us(index, each, is_there=False),
        "put_us": put_s * 1e6 / entries,
        "memory_mb": bench_proc.rss_mb(os.getpid()),
        "disk_mb": sum(path.stat().st_size for path in folder.iterdir() if path.is_file()) / 1e6,
    }
    # Hits and misses together; what the page cache holds is no read.
    point["read_bytes"] = (bench_proc.read_bytes(os.getpid()) - read_bytes) / (2 * LOOKUPS)
    print(json.dumps(point), flush=True)


if __name__ == "__main__":
    loop.run(run(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])))
