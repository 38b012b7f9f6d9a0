"""Options of compaction and of the brake on deletion (names and defaults are Java's where Java has them)."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from bookie.base import errors
from bookie.base.units import HOUR_MS


@dataclass(frozen=True, slots=True)
class CompactionRule:
    """One kind of compaction: logs of which less than `threshold` is live, at most every `interval_ms`.

    `threshold` or `interval_ms` 0: never by itself. `time_max_ms` None: a run takes as long as it takes.
    """

    threshold: float
    interval_ms: int
    time_max_ms: int | None = None

    @property
    def is_on(self) -> bool:
        return self.threshold > 0 and self.interval_ms > 0


@dataclass(frozen=True, slots=True)
class CompactionOptions:
    """Minor: cheap and often. Major: worth its copies only now and then (minorCompaction*, majorCompaction*)."""

    minor: CompactionRule = field(default_factory=lambda: CompactionRule(0.2, HOUR_MS))
    major: CompactionRule = field(default_factory=lambda: CompactionRule(0.8, 24 * HOUR_MS))
    # What is copied, per second; None: not limited by it (isThrottleByBytes chooses which of the two Java looks at).
    bytes_per_s: int | None = None
    entries_per_s: int | None = 1000
    # A run asked for by hand goes ahead although that kind is switched off (forceAllowCompaction).
    is_forced_allowed: bool = False
    # A run asked for by hand goes ahead although the disk is full (isForceGCAllowWhenNoSpace).
    is_forced_when_full: bool = False

    def __post_init__(self) -> None:
        problems = list(self._problems())
        if problems:
            raise errors.BadInput("compaction options: " + "; ".join(problems))

    def _problems(self) -> Iterator[str]:
        for name, rule in (("minor", self.minor), ("major", self.major)):
            if not 0 <= rule.threshold < 1:
                yield f"{name}CompactionThreshold is {rule.threshold}, a share of a log: 0 (off) or more, less than 1"
            if rule.time_max_ms is not None and rule.time_max_ms < 1:
                yield f"{name}CompactionMaxTimeMillis is {rule.time_max_ms}, at least 1, or none"
        if self.minor.is_on and self.major.is_on:
            if self.minor.threshold >= self.major.threshold:
                yield "minorCompactionThreshold must be less than majorCompactionThreshold"
            if self.minor.interval_ms >= self.major.interval_ms:
                yield "minorCompactionInterval must be less than majorCompactionInterval"
        for name, rate in (
            ("compactionRateByBytes", self.bytes_per_s),
            ("compactionRateByEntries", self.entries_per_s),
        ):
            if rate is not None and rate < 1:
                yield f"{name} is {rate}, at least 1"


@dataclass(frozen=True, slots=True)
class BrakeOptions:
    """What a bookie forgets in a day without a person (`brake`)."""

    # Of its ledgers, and of their bytes. A fleet that deletes more every day says so; 1: no brake.
    share_max: float = 0.1
    # So many pass a day whatever their share: a small bookie's everyday.
    ledgers_min: int = 10

    def __post_init__(self) -> None:
        if not 0 <= self.share_max <= 1:
            raise errors.BadInput(f"gcDailyShareMax is {self.share_max}, a share between 0 and 1; 1: no brake")
        if self.ledgers_min < 0:
            raise errors.BadInput(f"gcDailyLedgersMin is {self.ledgers_min}, at least 0")
