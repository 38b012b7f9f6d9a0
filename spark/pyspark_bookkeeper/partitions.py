"""Decides which entries one task reads: huge ledgers split, small ones packed, tasks of different bookies side by side.
Pure.

A task costs 20 to 90 ms before it reads a byte, so never one per ledger; and the slowest task ends the job, so no task
is much larger than the others.
"""

import heapq
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from bookie.base import errors
from bookie.base.ids import BookieId, LedgerId
from bookie.base.units import KIB, div_ceil

# What reading costs besides its bytes, in bytes that take as long: an entry's own round, and the opening of a ledger.
ENTRY_COST_BYTES = 1 * KIB
LEDGER_COST_BYTES = 32 * KIB
# Row numbers alone are cheap: a partition of them is not limited by bytes but by this.
IDS_PER_PARTITION = 1 << 24
# A driver holds all of them at once, and so does Spark: some 500 bytes each.
PARTITIONS_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Piece:
    """Entries of one ledger from `start` up to, not including, `end`, all known to be confirmed.

    `size_bytes` is an estimate of their payload; `bookie_id` holds the first of them.
    """

    ledger_id: LedgerId
    start: int
    end: int
    last_confirmed: int
    ctime_ms: int
    size_bytes: int
    bookie_id: BookieId

    @property
    def entries(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of a partition. One entry may exceed `bytes_max`; there are `partitions_min` if entries suffice."""

    bytes_max: int
    entries_max: int | None
    partitions_min: int

    def load(self, piece: Piece) -> float:
        """Return the part of a partition that `piece` fills: the sum within one partition is at most 1."""
        work = max(piece.size_bytes, piece.entries * ENTRY_COST_BYTES) + LEDGER_COST_BYTES
        load = work / (self.bytes_max + LEDGER_COST_BYTES)
        return load if self.entries_max is None else max(load, piece.entries / self.entries_max)


def plan(pieces: Iterable[Piece], limits: Limits) -> list[tuple[Piece, ...]]:
    """Return partitions that together hold every entry of `pieces` once, each in order of ledger and entry.

    Tasks start in the order of the list: neighbours begin with different bookies.
    """
    whole = list(pieces)
    chunks = [
        chunk for piece, parts in zip(whole, _parts(whole, limits), strict=True) for chunk in _split(piece, parts)
    ]
    packed = _packed(chunks, limits)
    ordered = [tuple(sorted(bin_, key=lambda piece: (piece.ledger_id, piece.start))) for bin_ in packed]
    return _interleaved(ordered)


def _parts(pieces: Sequence[Piece], limits: Limits) -> list[int]:
    """Return in how many parts each piece is read, so that none is over-full and there are `partitions_min`, if entries
    suffice. Raises BadInput for more parts than a driver can hold."""
    wanted = min(limits.partitions_min, sum(piece.entries for piece in pieces))
    loads = list(map(limits.load, pieces))
    share = min(1.0, sum(loads) / limits.partitions_min)
    while True:
        parts = [
            min(piece.entries, max(1, math.ceil(load / share - 1e-6)))
            for piece, load in zip(pieces, loads, strict=True)
        ]
        split = sum(count for count in parts if count > 1)
        if split > PARTITIONS_MAX:
            most, first = max((count, piece.ledger_id) for count, piece in zip(parts, pieces, strict=True))
            raise errors.BadInput(
                f"the query would be {split} tasks, {most} for ledger {first} alone, and {PARTITIONS_MAX} are the most:"
                " raise maxBytesPerPartition or maxEntriesPerPartition, lower minPartitions, or name fewer ledgers"
            )
        if sum(parts) >= wanted:
            return parts
        share /= 2  # some have fewer entries than their part of the wish


def _split(piece: Piece, parts: int) -> list[Piece]:
    """Return `piece` in so many equal parts."""
    if parts == 1:
        return [piece]  # as most are
    bounds = [piece.start + piece.entries * number // parts for number in range(parts + 1)]
    return [
        replace(piece, start=start, end=end, size_bytes=piece.size_bytes * (end - start) // piece.entries)
        for start, end in itertools.pairwise(bounds)
    ]


def _packed(chunks: Sequence[Piece], limits: Limits) -> list[list[Piece]]:
    """Put the chunks into bins, the largest first, each into the emptiest bin (Graham's rule: at most a third above the
    best); add bins until none is over-full."""
    loads = sorted(((limits.load(chunk), chunk) for chunk in chunks), key=lambda pair: -pair[0])
    count = min(len(chunks), max(limits.partitions_min, int(sum(load for load, _ in loads)) + 1))
    while count > 0:
        bins: list[list[Piece]] = [[] for _ in range(count)]
        emptiest = [(0.0, number) for number in range(count)]
        for load, chunk in loads:
            filled, number = emptiest[0]
            bins[number].append(chunk)
            heapq.heapreplace(emptiest, (filled + load, number))
        if count == len(chunks) or max(emptiest)[0] <= 1.0:
            return [bin_ for bin_ in bins if bin_]
        count = min(len(chunks), count + div_ceil(count, 10))
    return []


def _interleaved(bins: Sequence[tuple[Piece, ...]]) -> list[tuple[Piece, ...]]:
    """Return the bins in turn: one bin of each bookie, then the next of each."""
    queues: dict[BookieId, list[tuple[Piece, ...]]] = {}
    for bin_ in sorted(bins, key=lambda pieces: (pieces[0].ledger_id, pieces[0].start)):
        queues.setdefault(bin_[0].bookie_id, []).append(bin_)
    rounds = itertools.zip_longest(*(queues[bookie_id] for bookie_id in sorted(queues)))
    return [bin_ for one_of_each in rounds for bin_ in one_of_each if bin_ is not None]
