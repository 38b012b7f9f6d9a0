"""Decides which entry logs are dropped, which are compacted, and when. Pure.

A log whose ledgers are all gone is dropped whole. A log of which little is live is compacted: its live entries are
written anew and it is dropped then. Both only for logs that are never written again.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from bookie.base.units import NS_PER_MS
from bookie.ports.disk import Usage
from bookie.storage.collect_options import CompactionOptions, CompactionRule


class Kind(enum.Enum):
    """The two kinds of compaction."""

    MINOR = "minor"
    MAJOR = "major"


@dataclass(frozen=True, slots=True)
class LogUsage:
    """The size of one log, and the bytes in it of ledgers that still exist (an upper bound)."""

    log_id: int
    total_bytes: int
    live_bytes: int
    ledgers: int = 0  # that are here; 0: nothing in the log is live

    @property
    def share(self) -> float:
        return self.live_bytes / self.total_bytes if self.total_bytes else 0.0


def dead(logs: Iterable[LogUsage]) -> list[int]:
    """Return the ids of logs that can be dropped without copying, ascending.

    A log without any recorded ledger holds only what a crash left before its checkpoint was durable: nothing points
    into it.
    """
    return sorted(log.log_id for log in logs if not log.ledgers)


def candidates(logs: Iterable[LogUsage], threshold: float) -> list[LogUsage]:
    """Return the logs worth compacting, first those that cost least and free most."""
    return sorted(
        (log for log in logs if log.ledgers and log.share < threshold), key=lambda log: (log.share, log.log_id)
    )


def rule_of(kind: Kind, options: CompactionOptions) -> CompactionRule:
    return options.minor if kind is Kind.MINOR else options.major


def due(last_ns: dict[Kind, int], now_ns: int, options: CompactionOptions) -> Kind | None:
    """Return which kind is due, None for none. A major run looks at the minor's logs too, so it counts for both."""
    for kind in (Kind.MAJOR, Kind.MINOR):
        rule = rule_of(kind, options)
        if rule.is_on and now_ns - last_ns[kind] >= rule.interval_ms * NS_PER_MS:
            return kind
    return None


def refusal(kind: Kind, disk: Usage, *, warn: float, full: float, is_forced: bool, options: CompactionOptions) -> str:
    """Return why a run of `kind` must not begin, "" when it may. Copies need space before the old log's is freed."""
    rule = rule_of(kind, options)
    if not rule.is_on and not (is_forced and options.is_forced_allowed and rule.threshold > 0):
        return f"{kind.value} compaction is switched off"
    used = disk.used_share
    if used >= full and not (is_forced and options.is_forced_when_full):
        return f"the ledger disk is {used:.0%} full"
    if used >= warn and kind is Kind.MAJOR and not is_forced:
        return f"the ledger disk is {used:.0%} full: minor compaction only"
    return ""


def fits(log: LogUsage, disk: Usage, *, full: float) -> bool:
    """True when the copies of a log's live entries leave the disk below `full`, or, on a disk that is full already, at
    most a quarter of what is free is spent to free more than that."""
    below = disk.free_bytes - log.live_bytes >= (1 - full) * disk.total_bytes
    frees = log.live_bytes * 2 <= log.total_bytes and log.live_bytes * 4 <= disk.free_bytes
    return below or frees
