"""Which logs go, which are rewritten, when, and on which disks not."""

import pytest

from bookie.base import errors
from bookie.base.units import HOUR_MS, NS_PER_MS
from bookie.ports.disk import Usage
from bookie.storage.collect import plan
from bookie.storage.collect.plan import Kind, LogUsage
from bookie.storage.collect_options import CompactionOptions, CompactionRule

HOUR_NS = HOUR_MS * NS_PER_MS
OPTIONS = CompactionOptions()
OFF = CompactionRule(0, 0)


def test_only_logs_without_any_ledger_that_is_here_are_dropped_as_they_are() -> None:
    logs = [LogUsage(4, 100, 0), LogUsage(2, 100, 1, ledgers=1), LogUsage(1, 0, 0)]
    logs.append(LogUsage(3, 100, 0, ledgers=1))  # nobody can read how much of it (`log_use.unpack`)

    assert plan.dead(logs) == [1, 4]


def test_the_emptiest_log_below_the_threshold_is_compacted_first() -> None:
    logs = [
        LogUsage(1, 100, 50, ledgers=1),
        LogUsage(2, 100, 19, ledgers=1),
        LogUsage(3, 100, 20, ledgers=1),
        LogUsage(4, 1000, 10, ledgers=1),
        LogUsage(5, 100, 0),
    ]

    assert [log.log_id for log in plan.candidates(logs, 0.2)] == [4, 2]
    assert [log.log_id for log in plan.candidates(logs, 0.8)] == [4, 2, 3, 1]


def test_a_kind_is_due_after_its_interval_and_major_wins() -> None:
    last = {Kind.MINOR: 0, Kind.MAJOR: 0}

    assert plan.due(last, HOUR_NS - 1, OPTIONS) is None
    assert plan.due(last, HOUR_NS, OPTIONS) is Kind.MINOR
    assert plan.due(last, 24 * HOUR_NS, OPTIONS) is Kind.MAJOR
    assert plan.due(last, 24 * HOUR_NS, CompactionOptions(major=OFF)) is Kind.MINOR
    assert plan.due(last, 24 * HOUR_NS, CompactionOptions(minor=OFF, major=OFF)) is None


def test_an_interval_is_counted_from_the_last_run_of_that_kind() -> None:
    last = {Kind.MINOR: 5 * HOUR_NS, Kind.MAJOR: 5 * HOUR_NS}

    assert plan.due(last, 6 * HOUR_NS - 1, OPTIONS) is None
    assert plan.due(last, 6 * HOUR_NS, OPTIONS) is Kind.MINOR
    assert plan.due(last | {Kind.MINOR: 6 * HOUR_NS}, 29 * HOUR_NS, OPTIONS) is Kind.MAJOR


def test_of_a_log_without_bytes_nothing_is_live() -> None:
    assert LogUsage(1, 0, 0, ledgers=1).share == 0


@pytest.mark.parametrize(
    ("kind", "free", "word"),
    [
        (Kind.MINOR, 25, "75% full"),
        (Kind.MINOR, 26, ""),
        (Kind.MAJOR, 50, "minor compaction only"),
        (Kind.MAJOR, 51, ""),
        (Kind.MINOR, 50, ""),
    ],
)
def test_a_disk_is_full_at_its_bound_already(kind: Kind, free: int, word: str) -> None:
    said = plan.refusal(kind, Usage(100, free), warn=0.5, full=0.75, is_forced=False, options=OPTIONS)

    assert (word in said, said == "") == (True, not word)


def test_what_may_be_forced_does_not_run_by_itself() -> None:
    options = CompactionOptions(minor=CompactionRule(0.2, 0), is_forced_allowed=True)

    said = plan.refusal(Kind.MINOR, Usage(100, 50), warn=0.9, full=0.95, is_forced=False, options=options)

    assert said == "minor compaction is switched off"


@pytest.mark.parametrize(
    ("total", "live", "free", "fits"),
    [
        (150, 100, 5_100, True),
        (150, 101, 5_100, False),  # the disk would be above its bound
        (200, 100, 400, True),  # above it already: a quarter of what is free, for as much again
        (199, 100, 400, False),
        (200, 100, 399, False),
        (400, 0, 0, True),
    ],
)
def test_copies_fit_up_to_the_bound_and_beyond_it_only_for_what_they_free(
    total: int, live: int, free: int, *, fits: bool
) -> None:
    assert plan.fits(LogUsage(1, total, live, ledgers=1), Usage(10_000, free), full=0.5) is fits


@pytest.mark.parametrize(
    ("used", "kind", "is_forced", "may"),
    [
        (0.5, Kind.MAJOR, False, True),
        (0.91, Kind.MAJOR, False, False),
        (0.91, Kind.MAJOR, True, True),
        (0.91, Kind.MINOR, False, True),
        (0.96, Kind.MINOR, False, False),
        (0.96, Kind.MINOR, True, False),
    ],
)
def test_low_space_stops_major_first_and_then_minor(used: float, kind: Kind, is_forced: bool, may: bool) -> None:
    disk = Usage(1000, round(1000 * (1 - used)))

    said = plan.refusal(kind, disk, warn=0.9, full=0.95, is_forced=is_forced, options=OPTIONS)

    assert (said == "") == may
    assert may or "full" in said


def test_what_is_asked_for_by_hand_goes_further_only_where_it_was_allowed() -> None:
    full = Usage(100, 1)
    may = CompactionOptions(minor=CompactionRule(0.2, 0), is_forced_allowed=True, is_forced_when_full=True)

    assert plan.refusal(Kind.MINOR, full, warn=0.9, full=0.95, is_forced=True, options=may) == ""
    on = CompactionOptions(is_forced_allowed=True, is_forced_when_full=True)
    assert "full" in plan.refusal(Kind.MINOR, full, warn=0.9, full=0.95, is_forced=False, options=on)
    for options in (
        CompactionOptions(minor=CompactionRule(0.2, 0)),
        CompactionOptions(minor=OFF, is_forced_allowed=True),
    ):
        said = plan.refusal(Kind.MINOR, Usage(100, 50), warn=0.9, full=0.95, is_forced=True, options=options)
        assert "switched off" in said


def test_copies_must_not_fill_the_disk_unless_they_free_much_more() -> None:
    plenty, little = Usage(10_000, 5_000), Usage(10_000, 520)
    mostly_dead, half_live = LogUsage(1, 1_000, 100, ledgers=1), LogUsage(2, 400, 300, ledgers=1)

    assert plan.fits(half_live, plenty, full=0.95)
    assert not plan.fits(half_live, little, full=0.95)
    assert plan.fits(mostly_dead, little, full=0.95)
    assert not plan.fits(mostly_dead, Usage(10_000, 120), full=0.95)


def test_options_that_contradict_each_other_are_refused_together() -> None:
    with pytest.raises(errors.BadInput) as caught:
        CompactionOptions(minor=CompactionRule(0.8, 10, time_max_ms=0), major=CompactionRule(0.8, 10), bytes_per_s=0)

    for name in ("minorCompactionThreshold", "minorCompactionInterval", "MaxTimeMillis", "compactionRateByBytes"):
        assert name in str(caught.value)
    with pytest.raises(errors.BadInput, match="majorCompactionThreshold is 1"):
        CompactionOptions(major=CompactionRule(1.0, 10))
