"""Maintenance windows by the clock: what opens when, what never opens, what clocks that change do
(spec/operator.md#H3)."""

from datetime import datetime

import pytest

from bookie.base.errors import BadInput
from bookie_operator.model import schedule
from bookie_operator.model.values import format_time

HOUR_MS = 3_600_000
BERLIN = "Europe/Berlin"


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1_000)


def next_of(text: str, now: str, zone: str = "Etc/UTC") -> str:
    found = schedule.parse(text, zone, HOUR_MS).next_start_ms(at(now))
    assert found is not None
    return format_time(found)


@pytest.mark.parametrize(
    ("text", "now", "wanted"),
    [
        ("0 2 * * *", "2026-11-23T01:00:00Z", "2026-11-23T02:00:00Z"),
        ("0 2 * * *", "2026-11-23T02:00:00Z", "2026-11-24T02:00:00Z"),
        ("0 2 * * SAT", "2026-11-23T01:00:00Z", "2026-11-28T02:00:00Z"),  # the 23rd is a Monday
        ("0 2 * * 6,0", "2026-11-28T03:00:00Z", "2026-11-29T02:00:00Z"),
        ("0 2 * * 7", "2026-11-23T01:00:00Z", "2026-11-29T02:00:00Z"),
        ("0 2 * * mon-fri", "2026-11-27T03:00:00Z", "2026-11-30T02:00:00Z"),
        ("*/20 * * * *", "2026-11-23T01:05:00Z", "2026-11-23T01:20:00Z"),
        ("5/20 * * * *", "2026-11-23T01:30:00Z", "2026-11-23T01:45:00Z"),
        ("30 22-23 31 12 *", "2026-11-23T01:00:00Z", "2026-12-31T22:30:00Z"),
        ("0 0 1 jan *", "2026-11-23T01:00:00Z", "2027-01-01T00:00:00Z"),
        ("0 0 29 2 *", "2026-11-23T01:00:00Z", "2028-02-29T00:00:00Z"),
        ("0 0 29 2 *", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"),  # 2100 is no leap year
        ("0 0 1 * MON", "2026-11-24T00:00:00Z", "2026-11-30T00:00:00Z"),  # either day suffices
        ("0 0 1 * MON", "2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z"),
        ("0 0 */2 * MON", "2026-11-24T00:00:00Z", "2026-12-07T00:00:00Z"),  # a star restricts nothing: both must fit
        ("0 0 1 * */3", "2026-11-24T00:00:00Z", "2027-05-01T00:00:00Z"),  # Sunday, Wednesday, Saturday
        ("1-9/4,58 * * * *", "2026-11-23T01:01:00Z", "2026-11-23T01:05:00Z"),
        ("1-9/4,58 * * * *", "2026-11-23T01:09:00Z", "2026-11-23T01:58:00Z"),
        ("1-9/4,58 * * * *", "2026-11-23T01:58:00Z", "2026-11-23T02:01:00Z"),
        ("59 23 31 dec 0-7", "2026-11-23T01:00:00Z", "2026-12-01T23:59:00Z"),  # all named: still a restriction
        ("0 0 1 1 *", "2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z"),
    ],
)
def test_the_next_window_begins_when_its_schedule_says(text: str, now: str, wanted: str) -> None:
    assert next_of(text, now) == wanted


@pytest.mark.parametrize(
    ("text", "now", "wanted"),
    [
        # 2026-03-29, 02:00 becomes 03:00: 02:30 is left out on that day, and opens at no other hour of it.
        ("30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z"),
        ("0 3 * * *", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"),
        # 2026-10-25, 03:00 becomes 02:00: 02:30 is there twice.
        ("30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"),
        ("30 2 * * *", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"),
        ("30 2 * * *", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"),
    ],
)
def test_clocks_that_are_put_forward_or_back(text: str, now: str, wanted: str) -> None:
    assert next_of(text, now, BERLIN) == wanted


@pytest.mark.parametrize(
    ("now", "hours", "is_open"),
    [
        ("2026-11-28T01:59:59Z", 4, False),
        ("2026-11-28T02:00:00Z", 4, True),
        ("2026-11-28T05:59:59Z", 4, True),
        ("2026-11-28T06:00:00Z", 4, False),
        ("2026-11-30T01:00:00Z", 72, True),  # begun on Saturday, still open on Monday
        ("2026-12-01T02:00:00Z", 72, False),
        ("2026-12-05T01:59:00Z", 168, True),  # a week: always
    ],
)
def test_a_window_is_open_for_its_duration(now: str, hours: int, is_open: bool) -> None:
    found = schedule.parse("0 2 * * SAT", "Etc/UTC", hours * HOUR_MS).last_start_ms(at(now))

    assert (found is not None) == is_open


def test_the_last_of_several_windows_of_a_day_is_the_open_one_and_the_next_comes_after_it() -> None:
    found = schedule.parse("0,30 2,4 * * *", "Etc/UTC", HOUR_MS)
    now_ms = at("2026-11-23T02:45:00Z")

    assert found.last_start_ms(now_ms) == at("2026-11-23T02:30:00Z")
    assert found.last_start_ms(at("2026-11-23T03:15:00Z")) == at("2026-11-23T02:30:00Z")
    assert found.next_start_ms(now_ms) == at("2026-11-23T04:00:00Z")
    assert found.last_start_ms(at("2026-11-23T03:30:00Z")) is None


@pytest.mark.parametrize("days", [1, 2, 3])
def test_a_window_of_whole_days_is_open_to_its_last_minute(days: int) -> None:
    """By the clock of a place that is ahead, its last minute is on one local day more."""
    found = schedule.parse("59 23 1 * *", "Pacific/Kiritimati", days * 24 * HOUR_MS)
    begun_ms = at("2026-11-01T09:59:00Z")
    end_ms = begun_ms + days * 24 * HOUR_MS

    assert found.last_start_ms(begun_ms - 1) is None
    assert found.last_start_ms(begun_ms) == begun_ms
    assert found.last_start_ms(end_ms - 1) == begun_ms
    assert found.last_start_ms(end_ms) is None


@pytest.mark.parametrize(
    ("now", "is_open"),
    [("2026-11-28T23:30:00Z", True), ("2026-11-29T02:59:59Z", True), ("2026-11-29T03:00:00Z", False)],
)
def test_a_window_goes_on_after_midnight(now: str, *, is_open: bool) -> None:
    found = schedule.parse("0 23 * * SAT", "Etc/UTC", 4 * HOUR_MS).last_start_ms(at(now))

    assert found == (at("2026-11-28T23:00:00Z") if is_open else None)


def test_the_next_window_is_the_earliest_of_all_schedules() -> None:
    both = [schedule.parse(f"0 {hour} * * *", "Etc/UTC", HOUR_MS) for hour in (5, 3)]

    assert schedule.next_fit_ms(both, at("2026-11-23T02:50:00Z")) == at("2026-11-23T03:00:00Z")
    assert schedule.next_fit_ms(both, at("2026-11-23T03:00:00Z")) == at("2026-11-23T05:00:00Z")
    assert schedule.next_fit_ms([], 0) is None


def test_windows_are_followed_no_further_than_is_asked_for_and_the_longest_one_counts() -> None:
    both = [schedule.parse("0 2 * * *", "Etc/UTC", HOUR_MS), schedule.parse("0 3 * * *", "Etc/UTC", HOUR_MS)]
    now_ms = at("2026-11-23T02:50:00Z")

    assert schedule.open_until_ms(both, now_ms, HOUR_MS // 6) == at("2026-11-23T03:00:00Z")
    assert schedule.open_until_ms(both, now_ms, HOUR_MS // 6 + 1) == at("2026-11-23T04:00:00Z")
    long = schedule.parse("30 2 * * *", "Etc/UTC", 2 * HOUR_MS)
    assert schedule.open_until_ms([long, both[0]], now_ms, 1) == at("2026-11-23T04:30:00Z")
    assert schedule.open_until_ms([], now_ms, HOUR_MS) is None


def test_a_duration_passes_whatever_the_clocks_do() -> None:
    summer = schedule.parse("0 1 * * *", BERLIN, 2 * HOUR_MS)  # 00:00Z to 02:00Z; local 01:00 to 04:00

    assert summer.last_start_ms(at("2026-03-29T01:59:00Z")) == at("2026-03-29T00:00:00Z")
    assert summer.last_start_ms(at("2026-03-29T02:00:00Z")) is None


def test_windows_that_touch_are_one() -> None:
    both = [schedule.parse("0 2 * * *", "Etc/UTC", HOUR_MS), schedule.parse("0 3 * * *", "Etc/UTC", HOUR_MS)]
    now_ms = at("2026-11-23T02:50:00Z")

    assert schedule.open_until_ms(both, now_ms, HOUR_MS) == at("2026-11-23T04:00:00Z")
    assert schedule.open_until_ms(both[:1], now_ms, HOUR_MS) == at("2026-11-23T03:00:00Z")
    assert schedule.open_until_ms(both, at("2026-11-23T04:00:00Z"), HOUR_MS) is None


@pytest.mark.parametrize(
    ("text", "zone", "word"),
    [
        ("0 0 30 2 *", "Etc/UTC", "never fits"),
        ("0 0 31 4,6,9,11 *", "Etc/UTC", "never fits"),
        ("0 2 * *", "Etc/UTC", "4 fields"),
        ("60 2 * * *", "Etc/UTC", "between 0 and 59"),
        ("0 24 * * *", "Etc/UTC", "between 0 and 23"),
        ("0 2 0 * *", "Etc/UTC", "between 1 and 31"),
        ("0 2 * 13 *", "Etc/UTC", "between 1 and 12"),
        ("0 2 * * 8", "Etc/UTC", "between 0 and 7"),
        ("0 2 * * FUNDAY", "Etc/UTC", "between 0 and 7"),
        ("0 2 * * SAT-MON", "Etc/UTC", "lower number first"),
        ("*/0 2 * * *", "Etc/UTC", "step over 0"),
        ("*-5 2 * * *", "Etc/UTC", "begins with a number"),
        ("0 2,, * * *", "Etc/UTC", "not usable"),
        ("0 2 L * *", "Etc/UTC", "between 1 and 31"),
        ("0 2 jan * *", "Etc/UTC", "between 1 and 31"),
        ("0 2 * mon *", "Etc/UTC", "between 1 and 12"),
        ("0 2 * * jan", "Etc/UTC", "between 0 and 7"),
        ("0 2 * 0 *", "Etc/UTC", "between 1 and 12"),
        ("0 2 32 * *", "Etc/UTC", "between 1 and 31"),
        ("005 2 * * *", "Etc/UTC", "between 0 and 59"),
        ("0 2 * * * *", "Etc/UTC", "6 fields"),
        ("9-1 2 * * *", "Etc/UTC", "lower number first"),
        ("0 ² * * *", "Etc/UTC", "not usable"),
        ("0 2 * * *", "Mars/Olympus", "not known"),
        ("0 2 * * *", "Europe", "Europe/Berlin"),
        ("0 2 * * *", "../etc/passwd", "not usable"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_to_try(text: str, zone: str, word: str) -> None:
    with pytest.raises(BadInput, match=word):
        schedule.parse(text, zone, HOUR_MS)
