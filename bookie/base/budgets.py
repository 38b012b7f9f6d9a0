"""What strangers may make a bookie hold, and how much memory a bookie needs for that and for its caches. Pure.

The operator derives a pod's memory limit from `memory_need_bytes`, so every bound that is bytes is named here.
"""

from dataclasses import dataclass
from typing import Final

from bookie.base.units import KIB, MIB

# An interpreter with gRPC, RocksDB and a metadata session, idle.
PROCESS_BYTES: Final = 144 * MIB
# RocksDB's block cache and memtables, for each ledger directory (`runtime.rocksdb`).
INDEX_BYTES: Final = 64 * MIB
# One generation of the write cache; there are two, and thrice as much under pressure (`storage.options`).
WRITE_CACHE_BYTES: Final = 40 * MIB
WRITE_CACHE_GENERATIONS: Final = 3
READ_CACHE_BYTES: Final = 64 * MIB
# What one journal directory holds back while a group is written, beside the bodies, which the write cache has.
JOURNAL_BYTES: Final = 64 * MIB
FRAME_BYTES: Final = 5 * MIB
# Of one list of entries, for each byte that write caches hold: ids, thrice while they are sorted, of entries that cost
# 184 bytes at least.
_LIST_IDS: Final = 3 * 8 / 184
# What the C library keeps of what was given back, in pieces between others that live.
_FRAGMENTS: Final = 1.2


@dataclass(frozen=True, slots=True)
class Budgets:
    """Bounds over all clients of one bookie; what each client may have of it is in `server/`.

    `connections`: of the data port. `unfinished_bytes`: frames that have begun. `unsent_bytes`: answers that their
    clients have not taken. `in_flight_bytes`: adds that are not durable yet, and as much that was read from sockets and
    waits for them. `reads`: from the disk, together, each of one frame at most. `lists`: of entries, made together.
    `facts_bytes`: keys, fences, LACs, long polls and cursors that are in memory.
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
    """Return the bytes of memory that a bookie needs, whatever its clients do: the least limit of a container.

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
