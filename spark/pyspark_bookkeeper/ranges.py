"""Sets of ids as half-open ranges: what options name, what a task reads. Pure."""

import bisect
from collections.abc import Iterable
from typing import NamedTuple

from bookie.base.ids import LEDGER_ID_MAX

# Beyond every ledger id and every entry id.
ID_END = LEDGER_ID_MAX + 1

ENTRIES_MAX = 1 << 36
"""The longest ledger that is read or audited: a record that claims more is wrong, and its plan would never end."""


class Range(NamedTuple):
    """Ids from `start` up to, not including, `end`; `start` < `end`."""

    start: int
    end: int

    @property
    def is_one(self) -> bool:
        return self.end - self.start == 1

    @property
    def ids(self) -> range:
        return range(self.start, self.end)


# Ascending, neither touching nor overlapping.
Ranges = tuple[Range, ...]

EVERYTHING: Ranges = (Range(0, ID_END),)


def union(found: Iterable[tuple[int, int]]) -> Ranges:
    """Return the ids in any of `found`, which may overlap, touch, be empty or come in any order; ids below 0 are
    dropped."""
    merged: list[Range] = []
    for start, end in sorted((max(start, 0), min(end, ID_END)) for start, end in found):
        if start >= end:
            continue
        if merged and start <= merged[-1].end:
            merged[-1] = Range(merged[-1].start, max(merged[-1].end, end))
        else:
            merged.append(Range(start, end))
    return tuple(merged)


def of_ids(ids: Iterable[int]) -> Ranges:
    return union((one, one + 1) for one in ids)


def size(found: Ranges) -> int:
    """Return how many ids `found` has."""
    return sum(one.end - one.start for one in found)


def contains(found: Ranges, one: int) -> bool:
    behind = bisect.bisect_right(found, one, key=lambda each: each.start)
    return behind > 0 and one < found[behind - 1].end
