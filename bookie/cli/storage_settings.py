"""Turns settings into StorageOptions: directories, sizes, thresholds, compaction and scrub by Java's names."""

from bookie.base.units import MIB
from bookie.settings.values import Settings
from bookie.storage.collect_options import BrakeOptions, CompactionOptions, CompactionRule
from bookie.storage.options import READ_CACHE_BYTES_MAX, WRITE_CACHE_BYTES_MAX, StorageOptions
from bookie.storage.scrub_options import ScrubOptions

# A journal file is read whole at replay; Java's default of 2 GiB would be 2 GiB of memory then. A smaller file changes
# nothing for anybody.
JOURNAL_FILE_MIB_MAX = 256
# Java's diskUsageWarnThreshold.
_WARN_SHARE = 0.90
# Writable again this much below the share that made it read-only: a disk at the limit must not flap.
_AGAIN_BELOW = 0.01
_MS_PER_S = 1000
_WRITE_CACHE_GENERATIONS = 2  # one fills, one is written


def storage_options(
    settings: Settings, compaction: CompactionOptions, brake: BrakeOptions, scrub: ScrubOptions
) -> StorageOptions:
    """Return the StorageOptions that the settings mean. Raises BadInput."""
    threshold = settings.fraction("diskUsageThreshold")
    assert threshold is not None
    return StorageOptions(
        journal_dirs=settings.names("journalDirectories"),
        ledger_dirs=settings.names("ledgerDirectories"),
        index_dirs=settings.names("indexDirectories"),
        journal_write_data=settings.is_true("journalWriteData"),
        touch_unjournaled_ledgers=settings.is_true("touchUnjournaledLedgers"),
        journal_file_bytes_max=settings.number("journalMaxSizeMB") * MIB,
        read_cache_bytes_max=_share(settings, "dbStorage_readAheadCacheMaxSizeMb", 1, READ_CACHE_BYTES_MAX),
        write_cache_bytes_max=_share(
            settings, "dbStorage_writeCacheMaxSizeMb", _WRITE_CACHE_GENERATIONS, WRITE_CACHE_BYTES_MAX
        ),
        entry_log_bytes_max=settings.number("logSizeLimit"),
        flush_interval_ms=settings.number("flushInterval"),
        disk_used_max=threshold,
        disk_used_again=settings.fraction("diskUsageLwmThreshold") or max(threshold - _AGAIN_BELOW, threshold / 2),
        disk_used_warn=settings.fraction("diskUsageWarnThreshold") or min(_WARN_SHARE, threshold),
        compaction=compaction,
        brake=brake,
        scrub=scrub,
    )


def _share(settings: Settings, key: str, parts: int, default_bytes: int) -> int:
    """Return the bytes for one of `parts` of one ledger directory, `default_bytes` if the setting is absent. The
    setting is for all directories together, as in Java: a node of eight disks must not take eight times the memory that
    it was given."""
    total_mib = settings.optional(key)
    if total_mib is None:
        return default_bytes
    return total_mib * MIB // (parts * max(1, len(settings.names("ledgerDirectories"))))


def scrub_options(settings: Settings) -> ScrubOptions:
    """Return the scrub's options. Raises BadInput."""
    return ScrubOptions(
        interval_ms=settings.number("localScrubInterval") * _MS_PER_S,
        entries_per_s=settings.optional("localScrubRateLimit"),
        bytes_per_s=settings.optional("scrubRateBytesPerSecond"),
    )


def brake_options(settings: Settings) -> BrakeOptions:
    """Return the options of the brake on deletion. Raises BadInput."""
    share = settings.fraction("gcDailyShareMax")
    assert share is not None
    return BrakeOptions(share_max=share, ledgers_min=settings.number("gcDailyLedgersMin"))


def compaction_options(settings: Settings) -> CompactionOptions:
    """Return the compaction's options. Raises BadInput."""
    by_bytes = settings.is_true("isThrottleByBytes")
    return CompactionOptions(
        minor=_rule(settings, "minor"),
        major=_rule(settings, "major"),
        bytes_per_s=settings.number("compactionRateByBytes") if by_bytes else None,
        entries_per_s=None if by_bytes else settings.number("compactionRateByEntries"),
        is_forced_allowed=settings.is_true("forceAllowCompaction"),
        is_forced_when_full=settings.is_true("isForceGCAllowWhenNoSpace"),
    )


def _rule(settings: Settings, kind: str) -> CompactionRule:
    """Return the rule of one kind of compaction. Java switches a kind off by a threshold or an interval of 0 or less,
    and a limit by -1."""
    time_max_ms = settings.number(f"{kind}CompactionMaxTimeMillis")
    return CompactionRule(
        threshold=max(0.0, settings.fraction(f"{kind}CompactionThreshold") or 0.0),
        interval_ms=max(0, settings.number(f"{kind}CompactionInterval")) * _MS_PER_S,
        time_max_ms=time_max_ms if time_max_ms > 0 else None,
    )
