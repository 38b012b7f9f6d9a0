"""StorageOptions: every setting of the storage engine, validated together. Reads no file and no environment."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from bookie.base import budgets, errors
from bookie.base.units import GIB, KIB, MIB
from bookie.storage.collect_options import BrakeOptions, CompactionOptions
from bookie.storage.scrub_options import ScrubOptions

WRITE_CACHE_BYTES_MAX = budgets.WRITE_CACHE_BYTES
READ_CACHE_BYTES_MAX = budgets.READ_CACHE_BYTES


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """Where a bookie keeps its data, and the bounds of what it holds in memory.

    Directories are the configured ones; everything lives in `current/` below each (`dirs`). Their number and order
    decide where a ledger lives (ledger id modulo count), so neither may change while data is there (`restart`).
    `index_dirs` empty means "the same as `ledger_dirs`"; otherwise the i-th index belongs to the i-th ledger dir.
    """

    journal_dirs: tuple[str, ...]
    ledger_dirs: tuple[str, ...]
    index_dirs: tuple[str, ...] = ()

    # False: entry data skips the journal (BP-46); keys, fences and explicit LACs do not.
    journal_write_data: bool = True
    # Where it is False: before an add is answered from memory its ledger is named in the journal, once a checkpoint. So
    # a crash puts only the ledgers in limbo of which entries were in memory (decisions/0025). Costs that sync.
    touch_unjournaled_ledgers: bool = False
    # A journal file is read whole at replay; 64 MiB keeps that, and the space held for one slow checkpoint, small.
    journal_file_bytes_max: int = 64 * MIB
    # One generation of the write cache, per ledger dir; there are two, so memory is bounded by twice this, and by
    # thrice under pressure (see `pressure_bytes_max`). Measured at 90,000 adds of 1 KiB a second: with 48 as fast as
    # with 64; with 16 to 32 a twentieth slower or none, but a checkpoint stops readers of sockets twice as often. At
    # 170,000: with 40 as fast as with 48.
    write_cache_bytes_max: int = WRITE_CACHE_BYTES_MAX
    # A checkpoint at least this often; bounds replay time.
    flush_interval_ms: int = 10_000
    # The same where the journal does not hold the data: bounds what a crash can lose and recovery must copy.
    unjournaled_flush_interval_ms: int = 1_000
    # An entry log is dropped or compacted whole: smaller reclaims sooner, larger keeps fewer files open.
    entry_log_bytes_max: int = 1 * GIB
    # Entries read, or read ahead, kept per ledger dir (dbStorage_readAheadCacheMaxSizeMb). 0: none, and no read-ahead.
    read_cache_bytes_max: int = READ_CACHE_BYTES_MAX
    # What one read fetches at most for somebody who reads in order (dbStorage_readAheadCacheBatchBytesSize).
    read_ahead_bytes_max: int = 256 * KIB
    # Idle ledgers' facts kept in memory; beyond it the least recently loaded are forgotten (they are in the index).
    ledgers_cached_max: int = 100_000
    # Ledgers whose facts wait for a checkpoint, each some hundred bytes; from half of it on a checkpoint begins at
    # once, beyond it new ledgers are refused.
    ledgers_dirty_max: int = 200_000
    # Read-only above the first share of a file system used, writable again below the second (diskUsageThreshold 0.95).
    disk_used_max: float = 0.95
    disk_used_again: float = 0.94
    # From here on only the cheaper kind of compaction runs (diskUsageWarnThreshold).
    disk_used_warn: float = 0.90
    compaction: CompactionOptions = field(default_factory=CompactionOptions)
    brake: BrakeOptions = field(default_factory=BrakeOptions)
    scrub: ScrubOptions = field(default_factory=ScrubOptions)

    def __post_init__(self) -> None:
        problems = list(self._problems())
        if problems:
            raise errors.BadInput("storage options: " + "; ".join(problems))

    def _problems(self) -> Iterator[str]:
        for name, dirs in (("journal", self.journal_dirs), ("ledger", self.ledger_dirs)):
            if not dirs:
                yield f"no {name} directory is given; name at least one"
        if self.index_dirs and len(self.index_dirs) != len(self.ledger_dirs):
            yield (
                f"{len(self.index_dirs)} index directories for {len(self.ledger_dirs)} ledger directories;"
                " give as many, or none"
            )
        groups = {"journal": self.journal_dirs, "ledger": self.ledger_dirs, "index": self.index_dirs}
        for name, dirs in groups.items():
            yield from (f"{name} directory {path!r} is not an absolute path" for path in dirs if path[:1] != "/")
            if len(set(dirs)) != len(dirs):
                yield f"a {name} directory is named twice"
        for name, value, least in (
            ("journal_file_bytes_max", self.journal_file_bytes_max, 4 * KIB),
            ("write_cache_bytes_max", self.write_cache_bytes_max, 4 * KIB),
            ("entry_log_bytes_max", self.entry_log_bytes_max, 4 * KIB),
            ("flush_interval_ms", self.flush_interval_ms, 1),
            ("unjournaled_flush_interval_ms", self.unjournaled_flush_interval_ms, 1),
            ("ledgers_cached_max", self.ledgers_cached_max, 1),
            ("ledgers_dirty_max", self.ledgers_dirty_max, 2),
            ("read_cache_bytes_max", self.read_cache_bytes_max, 0),
            ("read_ahead_bytes_max", self.read_ahead_bytes_max, 0),
        ):
            if value < least:
                yield f"{name} is {value}, at least {least}"
        # Offsets are 32 bits wide in a journal record and in a location.
        for name, value in (
            ("journal_file_bytes_max", self.journal_file_bytes_max),
            ("entry_log_bytes_max", self.entry_log_bytes_max),
        ):
            if value > 2 * GIB:
                yield f"{name} is {value}, at most {2 * GIB}"
        if not 0 < self.disk_used_again <= self.disk_used_max < 1:
            yield "disk_used_again and disk_used_max must satisfy 0 < again <= max < 1"
        if not 0 < self.disk_used_warn < 1:
            yield f"disk_used_warn is {self.disk_used_warn}, a share of a disk between 0 and 1"

    @property
    def index_dirs_used(self) -> tuple[str, ...]:
        """Return the index directory of each ledger directory."""
        return self.index_dirs or self.ledger_dirs

    @property
    def pressure_bytes_max(self) -> int:
        """Return the bytes in one generation above which adds are refused with TooManyRequests:
        the disk is too slow."""
        return 2 * self.write_cache_bytes_max

    @property
    def makes_touches(self) -> bool:
        """Return True when the journal names each ledger of which entries are in memory alone."""
        return self.touch_unjournaled_ledgers and not self.journal_write_data

    @property
    def checkpoint_interval_ms(self) -> int:
        return self.flush_interval_ms if self.journal_write_data else self.unjournaled_flush_interval_ms
