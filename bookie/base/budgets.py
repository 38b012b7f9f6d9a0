"""Bounds what strangers may make a bookie hold, and computes the memory that a bookie needs. Pure.

The operator derives a pod's memory limit from `memory_need_bytes`, so every bound that is bytes is named here.
"""

from dataclasses import dataclass
from typing import Final

from bookie.base.units import KIB, MIB

# An interpreter with gRPC, RocksDB and a metadata session, idle.
PROCESS_BYTES: Final = 144 * MIB
# For each ledger directory: RocksDB's block cache and memtables (`runtime.rocksdb`), 40 MiB, and the rows that the
# index keeps (`storage.index`), at most 20.
INDEX_BYTES: Final = 64 * MIB
# One generation of the write cache; there are two, and thrice as much under pressure (`storage.options`).
WRITE_CACHE_BYTES: Final = 40 * MIB
WRITE_CACHE_GENERATIONS: Final = 3
READ_CACHE_BYTES: Final = 64 * MIB
# What one journal directory holds back while a group is written, beside the bodies, which the write cache has.
JOURNAL_BYTES: Final = 64 * MIB
FRAME_BYTES: Final = 5 * MIB
# Bytes that one list of entries needs for each byte in the write caches: ids of 8 bytes, held three times while they
# are sorted, and an entry takes at least 184 bytes of a write cache.
_LIST_IDS: Final = 3 * 8 / 184
# The C library cannot give all freed memory back to the system: fragments between live pieces add a fifth.
_FRAGMENTS: Final = 1.2


@dataclass(frozen=True, slots=True)
class Budgets:
    """Bounds over all clients of one bookie; `server/` bounds the share of each client.

    `connections`: to the data port. `unfinished_bytes`: frames of which only a part has arrived. `unsent_bytes`:
    answers that their clients have not read yet. `in_flight_bytes`: adds that are not durable yet; as many bytes again
    may wait, read from sockets. `reads`: disk reads that run at once, each of at most one frame. `lists`: lists of
    entries that are made at once. `facts_bytes`: keys, fences, LACs, long polls and cursors in memory.
    """

    connections: int = 4096
    connection_bytes: int = 24 * KIB
    unfinished_bytes: int = 64 * MIB
    unsent_bytes: int = 128 * MIB
    in_flight_bytes: int = 64 * MIB
    reads: int = 32
    lists: int = 2
    facts_bytes: int = 256 * MIB


def memory_need_bytes(
    *,
    ledger_dirs: int = 1,
    journal_dirs: int = 1,
    write_cache_bytes: int = WRITE_CACHE_BYTES,
    read_cache_bytes: int = READ_CACHE_BYTES,
    frame_bytes_max: int = FRAME_BYTES,
    budgets: Budgets | None = None,
) -> int:
    """Return the bytes of memory that a bookie needs, whatever its clients do: the smallest safe container limit.

    `write_cache_bytes`: of one generation, for each ledger directory; `read_cache_bytes`: for each ledger directory.
    """
    bounds = budgets or Budgets()
    each_directory = INDEX_BYTES + WRITE_CACHE_GENERATIONS * write_cache_bytes + read_cache_bytes
    each_list = 2 * frame_bytes_max + int(_LIST_IDS * WRITE_CACHE_GENERATIONS * write_cache_bytes)  # in parts, joined
    strangers = (
        bounds.connections * bounds.connection_bytes
        + 2 * bounds.unfinished_bytes  # whole, it is joined beside its pieces
        + bounds.unsent_bytes
        + 2 * bounds.in_flight_bytes  # what was taken in, and what was read ahead
        + bounds.reads * frame_bytes_max
        + bounds.lists * each_list
        + bounds.facts_bytes
    )
    return int(_FRAGMENTS * (PROCESS_BYTES + ledger_dirs * each_directory + journal_dirs * JOURNAL_BYTES + strangers))
