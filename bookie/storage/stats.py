"""Counters of the storage engine as plain attributes: the hot path pays an integer add. Never read to decide."""

GAUGES = frozenset(("cache_bytes", "scrub_bad"))  # what goes up and down; all else counts


class StorageStats:
    """All counts since start. Sizes in bytes, times in nanoseconds of the port's clock."""

    __slots__ = (
        "added_bytes",
        "adds",
        "cache_bytes",
        "cache_hits",
        "checkpoint_failures",
        "checkpoint_ns",
        "checkpoints",
        "compacted_bytes",
        "disk_reads",
        "entries_compacted",
        "entries_flushed",
        "entries_replayed",
        "fences",
        "journal_bytes",
        "journal_groups",
        "journal_records",
        "ledgers_deleted",
        "logs_compacted",
        "read_ahead_entries",
        "read_cache_hits",
        "reads",
        "replay_ns",
        "scrub_bad",
        "scrub_bytes",
        "scrub_entries",
        "scrub_passes",
    )

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, 0)

    # Declared for the type checker; set above.
    adds: int
    added_bytes: int
    cache_bytes: int
    cache_hits: int
    checkpoint_failures: int
    checkpoint_ns: int
    checkpoints: int
    compacted_bytes: int
    disk_reads: int
    entries_compacted: int
    entries_flushed: int
    entries_replayed: int
    fences: int
    journal_bytes: int
    journal_groups: int
    journal_records: int
    ledgers_deleted: int
    logs_compacted: int
    read_ahead_entries: int
    read_cache_hits: int
    reads: int
    replay_ns: int
    scrub_bad: int
    scrub_bytes: int
    scrub_entries: int
    scrub_passes: int

    def as_dict(self) -> dict[str, int]:
        """Every counter by name, for metrics."""
        return {name: getattr(self, name) for name in self.__slots__}
