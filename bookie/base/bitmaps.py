"""Sets of entry ids as integers: bit 0 is the first entry of a window. Pure.

A striped replica of a million entries is one group of the protocol's list of entries, and becomes a bitmap by doubling:
comparing two of them costs microseconds, where a join of entries would cost seconds.
"""

import re
from collections.abc import Sequence

WINDOW = 1 << 22
"""Entries compared at once: the bitmaps of one bookie take half a megabyte, however long the ledger is."""

RANGES_MAX = 10_000
"""How many ranges of one bookie and ledger are told apart; the last one counts whatever lies behind it."""

_FEW_GROUPS = 32  # as integers; more of them are drawn into a byte string first, which costs the same for each
_ONES = re.compile("1+")

Group = tuple[int, int, int, int]
"""first start, last start, size, period (0: one run); ids, ascending, as `BookieClient.list_groups` gives them."""
Range = tuple[int, int, int]
"""first, last (both inclusive), count of members."""


def ones(count: int) -> int:
    return (1 << count) - 1


def repeated(pattern: int, period: int, count: int) -> int:
    """Return `pattern` at bits 0, period, 2 * period, ...: `count` times, by doubling."""
    result = done = 0
    size = 1
    while count:
        if count & 1:
            result |= pattern << (done * period)
            done += size
        count >>= 1
        if count:
            pattern |= pattern << (size * period)
            size *= 2
    return result


def striped(size: int, quorum: int, index: int, first: int, last: int) -> int:
    """Return the entries of first..last (bit 0 = `first`) that the bookie at `index` of an ensemble of `size` holds.

    Entry e goes to the bookies e, e + 1, ..., e + quorum - 1, all mod `size` (CONFORMANCE.md#P7): to `index` iff
    (index - e) mod size < quorum.
    """
    count = last - first + 1
    if count <= 0:
        return 0
    if quorum == size:
        return ones(count)
    pattern = sum(1 << bit for bit in range(size) if (index - first - bit) % size < quorum)
    return repeated(pattern, size, -(-count // size)) & ones(count)


def drawn(groups: Sequence[Group], start: int, end: int) -> int:
    """Return the entries of `groups` in the window start..end (half-open)."""
    inside = [group for group in groups if group[0] < end and _end(group) > start]
    if len(inside) > _FEW_GROUPS:
        return _drawn_as_text(inside, start, end)
    mask = 0
    for first, last_start, size, period in inside:
        if period:
            skipped = max((start - first - size) // period + 1, 0)  # runs that end before the window
            first += skipped * period
            count = (min(last_start, end - 1) - first) // period + 1
            runs = repeated(ones(size), period, count)
        else:
            cut = max(start - first, 0)
            first, size = first + cut, min(size - cut, end - first - cut)
            runs = ones(size)
        mask |= runs << (first - start) if first >= start else runs >> (start - first)
    return mask & ones(end - start)


def _end(group: Group) -> int:
    return group[1] + group[2]


def _drawn_as_text(groups: Sequence[Group], start: int, end: int) -> int:
    text = bytearray(b"0") * (end - start)
    for first, last_start, size, period in groups:
        for run in range(first, last_start + 1, period or 1):
            low, high = max(run, start), min(run + size, end)
            if low < high:
                text[low - start : high - start] = b"1" * (high - low)
    text.reverse()
    return int(text.decode("ascii"), 2)


class Ranges:
    """The members of a set as ranges. Two members are in one range when the universe has no entry between them that the
    set lacks. So a striped replica that is missing as a whole is one range, not thousands."""

    def __init__(self) -> None:
        self.found: list[Range] = []
        self.count = 0
        self._goes_on = False  # the last range touches the end of what was seen

    def add(self, members: int, universe: int, start: int) -> None:
        """Take the next window, bit 0 = entry `start`. Windows come in ascending order; members are in the universe."""
        if not members:
            self._goes_on = self._goes_on and not universe
            return
        self.count += members.bit_count()
        bounds = format(universe & ~members, "b")[::-1]
        behind = 0
        for run in _ONES.finditer(format(members, "b")[::-1]):
            first, end = run.span()
            is_apart = bounds.find("1", behind, first) >= 0
            goes_on = bool(self.found) and not is_apart and (behind > 0 or self._goes_on)
            if goes_on or len(self.found) == RANGES_MAX:
                known = self.found[-1]
                self.found[-1] = (known[0], start + end - 1, known[2] + end - first)
            else:
                self.found.append((start + first, start + end - 1, end - first))
            behind = end
        self._goes_on = bounds.find("1", behind) < 0
