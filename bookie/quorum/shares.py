"""Computes which entries one slot of an ensemble holds, in the same time for a range of any length. Pure.

A record may name any last entry up to 2^63 - 1, and a bookie may claim to hold any range. So this module never counts
or compares entries one by one.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import NamedTuple

from bookie.base.ids import EntryId

Group = tuple[int, int, int, int]
"""First start, last start, size, period (0: one run); as `BookieClient.list_groups` gives them, ascending."""


@dataclass(frozen=True, slots=True)
class Share:
    """The entries e with (index - e) mod size < quorum: those whose write set contains the slot `index`
    (CONFORMANCE.md#P7). In other words `quorum` neighbours out of every `size` entries."""

    size: int
    quorum: int
    index: int

    def count(self, first: int, last: int) -> int:
        """Return how many of first..last are in the share; 0 when `last` lies before `first`."""
        return self._below(last + 1) - self._below(first) if last >= first else 0

    def entries(self, first: int, last: int) -> Iterator[EntryId]:
        """Yield the entries of first..last that are in the share, ascending."""
        number = first
        while number <= last:
            place = (number - self._start) % self.size
            if place < self.quorum:
                yield EntryId(number)
                number += 1
            else:
                number += self.size - place

    def ends(self, first: int, last: int) -> list[EntryId]:
        """Return the lowest and the highest entry of first..last that are in the share; one if they are the same, none
        if there is none."""
        lowest = next(self.entries(first, last), None)
        if lowest is None:
            return []
        highest = next(number for number in range(last, first - 1, -1) if self.count(number, number))
        return list(dict.fromkeys([lowest, EntryId(highest)]))

    def count_held(self, groups: Sequence[Group], first: int, last: int) -> int:
        """Return how many entries of the share in first..last are in `groups`."""
        return sum(self._count_in(group, first, last) for group in _touching(groups, first, last))

    def first_absent(self, groups: Sequence[Group], first: int, last: int) -> EntryId | None:
        """Return the lowest entry of the share in first..last that is not in `groups`, None when all are."""
        low = first
        for group in _touching(groups, first, last):
            end = min(last, group[1] + group[2] - 1)
            if self.count(low, end) > self._count_in(group, low, end):
                return self._lowest_absent(group, low, end)
            low = end + 1
        return next(self.entries(low, last), None)

    def _lowest_absent(self, group: Group, low: int, high: int) -> EntryId:
        first = low
        while low < high:  # halve the range; an entry of first..high is always absent
            middle = (low + high) // 2
            if self.count(first, middle) > self._count_in(group, first, middle):
                high = middle
            else:
                low = middle + 1
        return EntryId(low)

    def _count_in(self, group: Group, first: int, last: int) -> int:
        start, last_start, size, period = group
        if not period:
            return self.count(max(first, start), min(last, start + size - 1))
        low = max(0, (first - start) // period)  # the first and the last run that may reach into the range
        high = (min(last, last_start) - start) // period
        if high < low:
            return 0
        if high - low < 2 * self.size:
            runs = (start + number * period for number in range(low, high + 1))
            return sum(self.count(max(first, run), min(last, run + size - 1)) for run in runs)
        # Only the outermost two can be cut; of the others, each of `turn` neighbours gives what it gives again later.
        edges = (start + low * period, start + high * period)
        count = sum(self.count(max(first, run), min(last, run + size - 1)) for run in edges)
        turn = self.size // gcd(self.size, period)
        for number in range(low + 1, low + 1 + turn):
            run = start + number * period
            count += self.count(run, run + size - 1) * ((high - 1 - number) // turn + 1)
        return count

    @property
    def _start(self) -> int:
        return self.index - self.quorum + 1

    def _below(self, end: int) -> int:
        """Return how many entries of the share lie before `end`, counted from a fixed origin."""
        turns, place = divmod(end - self._start, self.size)
        return turns * self.quorum + min(place, self.quorum)


def _touching(groups: Sequence[Group], first: int, last: int) -> Sequence[Group]:
    low = bisect_left(groups, first, key=lambda group: group[1] + group[2] - 1)
    return groups[low : bisect_right(groups, last, key=lambda group: group[0])]


class Stretch(NamedTuple):
    """The entries of a share in first..last. A tuple: a ledger may be cut into millions of them."""

    share: Share
    first: EntryId
    last: EntryId

    @property
    def size(self) -> int:
        return self.share.count(self.first, self.last)


def entries_from(stretches: Sequence[Stretch], begin: EntryId) -> Iterator[EntryId]:
    """Yield the entries of ascending stretches from `begin` on."""
    for number in range(bisect_left(stretches, begin, key=lambda one: one.last), len(stretches)):
        one = stretches[number]
        yield from one.share.entries(max(one.first, begin), one.last)
