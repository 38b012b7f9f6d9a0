"""Which entries of one ledger a bookie holds: the answer of GET_LIST_OF_ENTRIES_OF_LEDGER (spec/wire.md#W15).

    header, 64 bytes: version i32 (0), number of groups i32, 56 zero bytes
    group, 24 bytes:  firstSequenceStart i64, lastSequenceStart i64, sequenceSize i32, sequencePeriod i32

A group is a run of `sequenceSize` entries, repeated every `sequencePeriod` from the first to the last start; period 0
when there is one run. The shipped encoder writes one group per run, so that a striped replica of a million entries
would not fit into a frame; its decoder takes repeated runs as one group, which is what we write. We read both forms.
"""

import struct
import sys
from array import array
from collections.abc import Iterable

from bookie.base.errors import BadInput

Group = tuple[int, int, int, int]
"""firstSequenceStart, lastSequenceStart, sequenceSize, sequencePeriod."""

_HEADER = struct.Struct(">ii56x")
_GROUP = struct.Struct(">qqii")
_VERSION = 0
_SEQUENCE_SIZE_MAX = 2**31 - 1
_ID_END = 2**63
# 24 bytes can describe 2^63 runs; this many is beyond any ledger we can hold, and still only some hundred MB.
_RUNS_MAX = 1 << 22


class Encoder:
    """Encodes runs that come a few at a time. Holds the encoding so far, never the runs."""

    def __init__(self) -> None:
        self._data = bytearray(_HEADER.size)  # the header, and all groups but the last
        self._last: Group | None = None

    @property
    def size_bytes(self) -> int:
        """Return the size of the encoding of all runs added so far."""
        return len(self._data) + (_GROUP.size if self._last else 0)

    def add(self, runs: Iterable[tuple[int, int]]) -> None:
        """Add `runs`: pairs (first, last), inclusive, ascending, not touching each other nor those before."""
        for first, last in runs:
            assert first <= last
            while first <= last:
                size = min(last - first + 1, _SEQUENCE_SIZE_MAX)
                self._add_run(first, size)
                first += size

    def finish(self) -> bytes:
        """Return the encoding. Nothing may be added afterwards."""
        if self._last is not None:
            self._data += _GROUP.pack(*self._last)
            self._last = None
        _HEADER.pack_into(self._data, 0, _VERSION, (len(self._data) - _HEADER.size) // _GROUP.size)
        return bytes(self._data)

    def _add_run(self, first: int, size: int) -> None:
        """Add a run: to the last group where it continues that group's step, else as a group of its own."""
        if self._last is not None:
            start, last_start, known_size, period = self._last
            step = first - last_start
            if known_size == size and size < step <= _SEQUENCE_SIZE_MAX and period in (0, step):
                self._last = (start, first, size, step)
                return
            self._data += _GROUP.pack(*self._last)
        self._last = (first, first, size, 0)


def decode(data: bytes) -> list[tuple[int, int]]:
    """Return the runs in `data` as pairs (first, last), inclusive, ascending, merged where they touch.

    Raises BadInput for anything that is not such an encoding.
    """
    runs: list[tuple[int, int]] = []
    for first_start, last_start, size, period in decode_groups(data):
        starts = range(first_start, last_start + 1, period or 1)
        if len(runs) + len(starts) > _RUNS_MAX:
            raise BadInput(f"a list of entries has more than {_RUNS_MAX} runs, more than any bookie can hold")
        for start in starts:
            if runs and start == runs[-1][1] + 1:
                runs[-1] = (runs[-1][0], start + size - 1)
            else:
                runs.append((start, start + size - 1))
    return runs


def decode_groups(data: bytes) -> list[Group]:
    """Return the entries in `data` as groups, ascending, none reaching into the next; a group of one run has period 0.

    Runs that follow in the same step come as one group, however they were written. Raises BadInput.
    """
    if len(data) < _HEADER.size:
        raise BadInput(f"a list of entries of {len(data)} bytes cannot hold its header of {_HEADER.size}")
    version, count = _HEADER.unpack_from(data)
    if version != _VERSION or count < 0 or len(data) != _HEADER.size + count * _GROUP.size:
        raise BadInput(f"a list of entries: version {version}, {count} groups do not fit {len(data)} bytes")
    words = array("q", data[_HEADER.size :])
    if sys.byteorder == "little":
        words.byteswap()
    firsts, lasts, shapes = words[0::3], words[1::3], words[2::3]
    groups: list[Group] = []
    end, place = -1, 0
    while place < count:
        times = _same_step(firsts, lasts, shapes, place)
        _, last_start, size, period = _GROUP.unpack_from(data, _HEADER.size + (place + times - 1) * _GROUP.size)
        first_start = firsts[place]
        if times > 1:
            period = firsts[place + 1] - first_start
        _check(first_start, last_start, size, period, end)
        end = last_start + size - 1
        is_one_run = period in (0, size) or first_start == last_start
        span = last_start - first_start
        groups.append(
            (first_start, first_start, span + size, 0) if is_one_run else (first_start, last_start, size, period)
        )
        place += times
    return groups


def _check(first_start: int, last_start: int, size: int, period: int, end: int) -> None:
    span = last_start - first_start
    is_repeated = period >= size and span % period == 0 if period > 0 else span == 0
    if span < 0 or size <= 0 or not is_repeated:
        raise BadInput(f"a list of entries: group ({first_start}, {last_start}, {size}, {period}) is not legal")
    if first_start <= end:
        raise BadInput(f"a list of entries: the run at {first_start} does not follow the one that ends at {end}")


def _same_step(firsts: "array[int]", lasts: "array[int]", shapes: "array[int]", place: int) -> int:
    """Return how many groups from `place` on are single runs of one size in one step; at least 1.

    Compares arrays, doubling: a bookie that writes one group per run sends some hundred thousand of them.
    """
    if place + 1 >= len(firsts) or shapes[place] & 0xFFFFFFFF:
        return 1
    start, shape = firsts[place], shapes[place]
    step = firsts[place + 1] - start

    def is_one(times: int) -> bool:
        if start + times * step >= _ID_END:
            return False
        expected = array("q", range(start, start + times * step, step))
        found = firsts[place : place + times]
        return found == expected == lasts[place : place + times] and (
            shapes[place : place + times] == array("q", [shape]) * times
        )

    if step <= 0 or not is_one(2):
        return 1
    low, high = 2, len(firsts) - place + 1  # is_one(low), not is_one(high)
    while low * 2 < high and is_one(low * 2):
        low *= 2
    high = min(high, low * 2)
    while high - low > 1:
        middle = (low + high) // 2
        if is_one(middle):
            low = middle
        else:
            high = middle
    return low
