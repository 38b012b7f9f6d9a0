"""Storage options: what cannot work is refused at once, all of it together."""

from typing import Any

import pytest

from bookie.base import errors
from bookie.base.units import GIB
from bookie.storage.collect_options import CompactionRule
from bookie.storage.options import StorageOptions
from bookie.storage.scrub_options import ScrubOptions
from storage_support import options


def test_every_problem_is_named_in_one_message() -> None:
    with pytest.raises(errors.BadInput) as caught:
        StorageOptions(journal_dirs=(), ledger_dirs=("relative", "relative"), index_dirs=("/i",), flush_interval_ms=0)

    text = str(caught.value)
    for part in ("no journal directory", "'relative'", "named twice", "1 index directories for 2", "flush_interval_ms"):
        assert part in text


@pytest.mark.parametrize("name", ["journal_file_bytes_max", "entry_log_bytes_max"])
def test_files_whose_offsets_would_not_fit_are_refused(name: str) -> None:
    with pytest.raises(errors.BadInput, match=name):
        options(**{name: 2 * GIB + 1})


def test_the_index_lives_with_the_ledgers_unless_told() -> None:
    assert options(index_dirs=()).index_dirs_used == ("/ledgers",)
    assert options().index_dirs_used == ("/index",)


def test_without_data_in_the_journal_checkpoints_are_closer() -> None:
    plain = options()

    assert options(journal_write_data=False).checkpoint_interval_ms < plain.checkpoint_interval_ms


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"index_dirs": ("/i", "/i2")}, "2 index directories for 1"),
        ({"disk_used_max": 0.9, "disk_used_again": 0.95}, "disk_used_again"),
        ({"disk_used_max": 1.0}, "disk_used_max"),
        ({"disk_used_again": 0.0}, "disk_used_again"),
        ({"disk_used_warn": 1.0}, "disk_used_warn"),
        ({"disk_used_warn": 0.0}, "disk_used_warn"),
    ],
)
def test_a_bound_at_which_nothing_or_everything_would_be_refused_is_refused(
    settings: dict[str, Any], part: str
) -> None:
    with pytest.raises(errors.BadInput, match=part):
        options(**settings)


def test_adds_are_refused_before_three_generations_are_in_memory() -> None:
    assert options(write_cache_bytes_max=1 << 20).pressure_bytes_max == 2 << 20


@pytest.mark.parametrize(
    ("threshold", "interval_ms", "is_on"), [(0.2, 1, True), (0.0, 1, False), (0.2, 0, False), (0.0, 0, False)]
)
def test_a_kind_of_compaction_without_a_share_or_an_interval_never_runs_by_itself(
    threshold: float, interval_ms: int, is_on: bool
) -> None:
    assert CompactionRule(threshold, interval_ms).is_on is is_on


@pytest.mark.parametrize(
    ("setting", "least", "words"),
    [
        ("interval_ms", 0, "localScrubInterval"),
        ("entries_per_s", 1, "localScrubRateLimit"),
        ("bytes_per_s", 1, "the scrub's bytes_per_s"),
    ],
)
def test_a_scrub_that_would_never_come_on_is_refused_by_the_name_of_its_setting(
    setting: str, least: int, words: str
) -> None:
    assert getattr(ScrubOptions(**{setting: least}), setting) == least
    with pytest.raises(errors.BadInput, match=f"{words} is {least - 1}, at least {least}"):
        ScrubOptions(**{setting: least - 1})


def test_a_scrub_goes_once_a_week_and_leaves_most_of_the_disk_to_the_clients() -> None:
    plain = ScrubOptions()

    assert (plain.interval_ms, plain.entries_per_s, plain.bytes_per_s) == (7 * 24 * 3_600_000, None, 8 << 20)
    assert ScrubOptions(entries_per_s=None, bytes_per_s=None).bytes_per_s is None, "as fast as the disk goes"
