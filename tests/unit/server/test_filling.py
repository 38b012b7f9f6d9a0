"""When a bookie looks for copies of bad entries: at once for news, once an hour at most, then ever more seldom."""

from __future__ import annotations

from typing import Any

from bookie.base.units import NS_PER_S
from bookie.server.filling import Filling

HOUR = 3600


class Situation:
    """A bookie's clock and store, and the filling that looks at them once a second."""

    def __init__(self, *, by_itself: bool = True) -> None:
        self.now_s = 0
        self.found = 0
        self.count = 0
        self.is_read_only = False
        self.writes_refused = 0
        everything: Any = self
        self.bad_entries = everything
        self.filling = Filling(everything, everything, everything, everything, after_boot=by_itself)
        self.filling._asked.clear()  # the run after the boot

    def __len__(self) -> int:
        return self.count

    def monotonic_ns(self) -> int:
        return self.now_s * NS_PER_S

    def finds(self, count: int) -> None:
        self.found += count
        self.count += count

    def asked_within(self, seconds: int) -> list[int]:
        """Let time pass; return after how many seconds each run was asked for. A run takes no time, mends nothing."""
        asked = []
        began_s = self.now_s
        for second in range(0, seconds, 60):
            self.now_s = began_s + second
            self.filling.look()
            if self.filling._asked.is_set():
                asked.append(second)
                self.filling._asked.clear()
        self.now_s = began_s + seconds
        return asked


def test_without_a_bad_entry_nothing_is_asked_for() -> None:
    assert Situation().asked_within(30 * HOUR) == []


def test_a_find_is_looked_for_at_once_and_what_stays_bad_ever_more_seldom() -> None:
    bookie = Situation()
    bookie.finds(1)
    hours = [second // HOUR for second in bookie.asked_within(100 * HOUR)]
    assert hours == [0, 1, 3, 7, 15, 31, 55, 79]  # a day at most


def test_a_disk_that_rots_on_costs_a_run_an_hour_and_news_end_the_long_pauses() -> None:
    bookie = Situation()
    bookie.finds(1)
    bookie.asked_within(20 * HOUR)  # the next is due 31 hours after the first
    bookie.finds(1)
    assert bookie.asked_within(60) == [0]
    bookie.finds(1)
    assert bookie.asked_within(2 * HOUR) == [HOUR - 60, 2 * HOUR - 60]


def test_what_was_mended_is_no_longer_asked_for() -> None:
    bookie = Situation()
    bookie.finds(3)
    assert bookie.asked_within(60) == [0]
    bookie.count = 0
    assert bookie.asked_within(30 * HOUR) == []


def test_a_bookie_that_is_told_to_fill_nothing_by_itself_does_not() -> None:
    bookie = Situation(by_itself=False)
    bookie.finds(1)
    assert bookie.asked_within(30 * HOUR) == []
