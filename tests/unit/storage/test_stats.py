"""Counters of the storage engine: every one is shown, and what goes up and down is no counter."""

import dataclasses

from bookie.storage.stats import GAUGES, StorageStats


def test_every_counter_is_shown_by_its_name_with_what_it_counted() -> None:
    stats = StorageStats()
    names = [field.name for field in dataclasses.fields(stats)]
    for number, name in enumerate(names):
        assert getattr(stats, name) == 0, name
        setattr(stats, name, number)

    assert stats.as_dict() == {name: number for number, name in enumerate(names)}


def test_what_goes_down_again_is_told_as_a_gauge() -> None:
    """As a counter each fall would be taken for a restart, and the alerts on bad entries would count them twice."""
    assert {"cache_bytes", "journal_files_stuck", "scrub_bad", "scrub_given_up"} == GAUGES
    assert StorageStats().as_dict().keys() >= GAUGES
