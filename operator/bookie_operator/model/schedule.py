"""Maintenance windows: when one is open, until when, and when the next opens. Pure.

A schedule has the five fields of cron, as a Kubernetes CronJob writes them: minute, hour, day of month, month, day of
week; each `*`, a number, a range `1-5`, a step `*/2` or `1-9/2`, or a list of these; months and days also by their
English names of three letters, 7 is Sunday too. Where both days are restricted, either suffices (as in every cron).

A window begins at each minute whose local time fits, and lasts so long as its clock-independent duration. So where
clocks are put forward, a time that does not exist begins no window on that day; where they are put back, one that
exists twice begins two (spec/operator.md#H3).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from bookie.base.errors import BadInput
from bookie_operator.model import shapes

# A 29th of February is eight years from the next where a century is no leap year; what fits no day until then never
# does.
_DAYS_MAX = 8 * 366 + 1
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day of month", 1, 31), ("month", 1, 12), ("day of week", 0, 7))
_PART = re.compile(r"(\*|[a-z0-9]+)(?:-([a-z0-9]+))?(?:/([0-9]+))?")
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class WindowSchedule:
    """When windows of one kind begin. `either_day`: both days are restricted, so that one of them suffices."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # 0: Sunday
    either_day: bool
    zone: ZoneInfo
    duration_ms: int

    def last_start_ms(self, now_ms: int) -> int | None:
        """Return when the last window began that is open at `now_ms`; None while none is."""
        today = self._local(now_ms)
        for days in range(int(timedelta(milliseconds=self.duration_ms) / _DAY) + 2):
            begun = [start for start in self._starts(today - days * _DAY) if start <= now_ms]
            if begun:
                return max(begun) if now_ms < max(begun) + self.duration_ms else None
        return None

    def next_start_ms(self, now_ms: int) -> int | None:
        """Return when the next window after `now_ms` begins; None when none ever does."""
        today = self._local(now_ms)
        for days in range(_DAYS_MAX):
            coming = [start for start in self._starts(today + days * _DAY) if start > now_ms]
            if coming:
                return min(coming)
        return None

    def _local(self, wall_ms: int) -> date:
        return datetime.fromtimestamp(wall_ms // 1_000, self.zone).date()

    def _starts(self, day: date) -> Iterator[int]:
        """Yield every start on a local day, in milliseconds since the epoch; in no order."""
        if day.month not in self.months or not self._fits_day(day):
            return
        for hour in self.hours:
            for minute in self.minutes:
                for fold in (0, 1):
                    local = datetime(day.year, day.month, day.day, hour, minute, tzinfo=self.zone, fold=fold)
                    instant = local.astimezone(UTC)
                    # A time in the gap of a clock that is put forward does not come back as it was.
                    if instant.astimezone(self.zone).replace(tzinfo=None) == local.replace(tzinfo=None):
                        yield int(instant.timestamp()) * 1_000

    def _fits_day(self, day: date) -> bool:
        in_month, in_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return in_month or in_week if self.either_day else in_month and in_week


def parse(text: str, zone: str, duration_ms: int) -> WindowSchedule:
    """Return the schedule in `text`, by the clock of `zone`. Raises BadInput for one that cannot be read, a time zone
    that this machine does not have, and a schedule that never fits."""
    parts = text.lower().split()
    if len(parts) != len(_FIELDS):
        raise BadInput(f"schedule {text!r} has {len(parts)} fields: write minute, hour, day, month and day of week")
    values = [_values(part, *field) for part, field in zip(parts, _FIELDS, strict=True)]
    schedule = WindowSchedule(
        values[0],
        values[1],
        values[2],
        values[3],
        frozenset(number % 7 for number in values[4]),
        not parts[2].startswith("*") and not parts[4].startswith("*"),
        _zone(zone),
        duration_ms,
    )
    if schedule.next_start_ms(0) is None:
        raise BadInput(f"schedule {text!r} never fits: no month of it has such a day")
    return schedule


def open_until_ms(schedules: Sequence[WindowSchedule], now_ms: int, need_ms: int) -> int | None:
    """Return until when windows are open without a break, but looked no further than `need_ms` from now; None while
    none is open."""
    end_ms = now_ms
    while end_ms < now_ms + need_ms:
        ends = [start + one.duration_ms for one in schedules if (start := one.last_start_ms(end_ms)) is not None]
        if not ends:
            break
        end_ms = max(ends)
    return end_ms if end_ms > now_ms else None


def next_fit_ms(schedules: Sequence[WindowSchedule], now_ms: int) -> int | None:
    """Return when the next window begins; None when there is none."""
    coming = [start for one in schedules if (start := one.next_start_ms(now_ms)) is not None]
    return min(coming, default=None)


def _zone(name: str) -> ZoneInfo:
    if not re.fullmatch(shapes.TIME_ZONE.pattern, name):
        raise BadInput(f"time zone {name!r} is not usable: write a name such as Europe/Berlin or Etc/UTC")
    try:
        return ZoneInfo(name)
    except (OSError, ValueError):  # a missing one is a KeyError in the library, and an OSError where it is a directory
        raise BadInput(f"time zone {name!r} is a directory or no zone: write a name such as Europe/Berlin") from None
    except KeyError:
        raise BadInput(f"time zone {name!r} is not known here: write a name such as Europe/Berlin") from None


def _values(text: str, name: str, least: int, most: int) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise BadInput(f"{name} {part!r} of a schedule is not usable: write *, 5, 1-5, */2 or a list of these")
        first, last, step = match.groups()
        if first == "*":
            start, end = least, most
            if last is not None:
                raise BadInput(f"{name} {part!r} of a schedule is not usable: a range begins with a number")
        else:
            start = _number(first, name, least, most)
            end = _number(last, name, least, most) if last is not None else (most if step is not None else start)
        if start > end or (step is not None and int(step) == 0):
            raise BadInput(f"{name} {part!r} of a schedule is empty: write the lower number first, and a step over 0")
        found |= set(range(start, end + 1, int(step or 1)))
    return frozenset(found)


def _number(text: str, name: str, least: int, most: int) -> int:
    named = {"month": {word: 1 + at for at, word in enumerate(_MONTHS)}, "day of week": dict(_named_days())}
    number = named.get(name, {}).get(text)
    if number is None and text.isascii() and text.isdigit() and len(text) <= 2:
        number = int(text)
    if number is None or not least <= number <= most:
        raise BadInput(f"{name} {text!r} of a schedule is not between {least} and {most}")
    return number


def _named_days() -> Iterator[tuple[str, int]]:
    return ((word, at) for at, word in enumerate(_WEEKDAYS))
