"""Which entries of one ledger a bookie holds: the answer of GET_LIST_OF_ENTRIES_OF_LEDGER (wire-protocol.md, 4.2).

    header, 64 bytes: version i32 (0), number of groups i32, 56 zero bytes
    group, 24 bytes:  firstSequenceStart i64, lastSequenceStart i64, sequenceSize i32, sequencePeriod i32

A group is a run of `sequenceSize` entries, repeated every `sequencePeriod` from the first to the last start; period 0
when there is one run. We write one group per run, as the shipped encoder does; we read both forms.
"""

import struct
from collections.abc import Iterable

from bookie.base.errors import BadInput

Group = tuple[int, int, int, int]
"""firstSequenceStart, lastSequenceStart, sequenceSize, sequencePeriod."""

_HEADER = struct.Struct(">ii56x")
_GROUP = struct.Struct(">qqii")
_VERSION = 0
_SEQUENCE_SIZE_MAX = 2**31 - 1
# 24 bytes can describe 2^63 runs; this many is beyond any ledger we can hold, and still only some hundred MB.
_RUNS_MAX = 1 << 22


def encode_runs(runs: Iterable[tuple[int, int]]) -> bytes:
    """Return the encoding of `runs`: pairs (first, last), inclusive, ascending, not touching."""
    groups: list[bytes] = []
    for first, last in runs:
        assert first <= last
        while first <= last:
            size = min(last - first + 1, _SEQUENCE_SIZE_MAX)
            groups.append(_GROUP.pack(first, first, size, 0))
            first += size
    return _HEADER.pack(_VERSION, len(groups)) + b"".join(groups)


def decode(data: bytes) -> list[tuple[int, int]]:
    """Return the runs in `data` as pairs (first, last), inclusive, ascending, merged where they touch.

    Raises BadInput for anything that is not such an encoding.
    """
    runs: list[tuple[int, int]] = []
    for first_start, last_start, size, period in decode_groups(data):
        starts = range(first_start, last_start + 1, period or 1)
        if len(runs) + len(starts) > _RUNS_MAX:
            raise BadInput(f"a list of entries with more than {_RUNS_MAX} runs")
        for start in starts:
            if runs and start == runs[-1][1] + 1:
                runs[-1] = (runs[-1][0], start + size - 1)
            else:
                runs.append((start, start + size - 1))
    return runs


def decode_groups(data: bytes) -> list[Group]:
    """Return the groups in `data` as they stand, ascending, none reaching into the next.

    A striped replica is thousands of runs and may be one group. A group of one run has period 0. Raises BadInput.
    """
    if len(data) < _HEADER.size:
        raise BadInput(f"a list of entries of {len(data)} bytes cannot hold its header of {_HEADER.size}")
    version, count = _HEADER.unpack_from(data)
    if version != _VERSION or count < 0 or len(data) != _HEADER.size + count * _GROUP.size:
        raise BadInput(f"a list of entries: version {version}, {count} groups do not fit {len(data)} bytes")
    groups: list[Group] = []
    end = -1
    for first_start, last_start, size, period in _GROUP.iter_unpack(data[_HEADER.size :]):
        span = last_start - first_start
        is_repeated = period >= size and span % period == 0 if period > 0 else span == 0
        if span < 0 or size <= 0 or not is_repeated:
            raise BadInput(f"a list of entries: group ({first_start}, {last_start}, {size}, {period}) is not legal")
        if first_start <= end:
            raise BadInput(f"a list of entries: the run at {first_start} does not follow the one that ends at {end}")
        end = last_start + size - 1
        is_one_run = period in (0, size) or span == 0
        groups.append(
            (first_start, first_start, span + size, 0) if is_one_run else (first_start, last_start, size, period)
        )
    return groups
