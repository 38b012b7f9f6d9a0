"""Counters of the storage engine as plain attributes: the hot path pays an integer add. Never read to decide."""

import dataclasses

# What goes up and down; all else counts.
GAUGES = frozenset(("cache_bytes", "journal_files_stuck", "scrub_bad", "scrub_given_up"))


@dataclasses.dataclass(slots=True, eq=False)
class StorageStats:
    """All counts since start. Sizes in bytes, times in nanoseconds of the port's clock."""

    added_bytes: int = 0
    adds: int = 0
    cache_bytes: int = 0
    cache_hits: int = 0
    checkpoint_failures: int = 0
    checkpoint_ns: int = 0
    checkpoints: int = 0
    compacted_bytes: int = 0
    disk_reads: int = 0
    entries_compacted: int = 0
    entries_flushed: int = 0
    entries_replayed: int = 0
    fences: int = 0
    journal_bytes: int = 0
    journal_files_stuck: int = 0  # that no restart needs, and the disk does not remove
    journal_groups: int = 0
    journal_records: int = 0
    ledgers_deleted: int = 0
    ledgers_given_up: int = 0
    logs_compacted: int = 0
    read_ahead_entries: int = 0
    read_cache_hits: int = 0
    reads: int = 0
    replay_ns: int = 0
    scrub_bad: int = 0
    scrub_bytes: int = 0
    scrub_entries: int = 0
    scrub_given_up: int = 0  # 1 when the last pass did not look at all entries
    scrub_passes: int = 0
    touches: int = 0  # put into the journal
    touches_replayed: int = 0  # each put its ledger in limbo

    def as_dict(self) -> dict[str, int]:
        """Return every counter by name, for metrics."""
        return dataclasses.asdict(self)
