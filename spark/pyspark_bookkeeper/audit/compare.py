"""Compares what the metadata promises of one ledger with what bookies say they hold, and gives the findings. Pure.

A bookie that does not know is never taken for one that does not have: its replicas are `unreachable`, with the reason,
and neither missing nor seen. A copy that is listed counts as there, unless reading it showed otherwise.
"""

import functools
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bookie.base import bitmaps, errors
from bookie.base.bitmaps import Group, Ranges
from bookie.base.ids import BookieId
from bookie.metadata.ledger import LedgerMetadata, Segment
from pyspark_bookkeeper.audit import risk
from pyspark_bookkeeper.ranges import ENTRIES_MAX

MISSING, CORRUPT, UNEXPECTED, UNREACHABLE = "missing", "corrupt", "unexpected", "unreachable"
KINDS = (MISSING, CORRUPT, UNEXPECTED, UNREACHABLE)


@dataclass(frozen=True, slots=True, order=True)
class ReplicaFinding:
    """Entries first..last of a ledger, `count` of them, on one bookie. Entries between them that are not counted either
    do not belong on this bookie, or are in another finding."""

    ledger: int
    bookie: str
    kind: str
    first: int
    last: int
    count: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A bookie's answer that proves nothing: not reached, in limbo, failed. `reason` is one sentence."""

    reason: str


Holding = Sequence[Group] | Unknown
"""What one bookie says it has of one ledger. An explicit "no such ledger" is the empty sequence."""


@dataclass(slots=True)
class Bytes:
    """The result of reading one bookie's copies: how many were read, and which were bad.

    `corrupt`: entries that the bookie lists and that are not what it gave. `unread`: entries that it lists and did not
    give; so are all from `unread_from` on. `why_...`: the reason of the last one.
    """

    read: int = 0
    corrupt: set[int] = field(default_factory=set)
    unread: set[int] = field(default_factory=set)
    unread_from: int | None = None
    why_corrupt: str = ""
    why_unread: str = ""

    def __bool__(self) -> bool:
        """Return True when there is a bad copy to report."""
        return bool(self.corrupt or self.unread or self.unread_from is not None)

    def masks(self, start: int, stop: int) -> tuple[int, int]:
        """Return (corrupt, unread) of start..stop-1 as bitmaps; bit 0 = `start`."""
        corrupt, unread = _mask(self.corrupt, start, stop), _mask(self.unread, start, stop)
        if self.unread_from is not None and self.unread_from < stop:
            low = max(self.unread_from - start, 0)
            unread |= bitmaps.ones(stop - start - low) << low
        return corrupt, unread & ~corrupt


def _mask(entries: set[int], start: int, stop: int) -> int:
    mask = 0
    for entry in entries:
        if start <= entry < stop:
            mask |= 1 << (entry - start)
    return mask


@dataclass(slots=True)
class Replica:
    """One bookie's share of one ledger, in entries."""

    expected: int = 0
    read: int = 0
    corrupt: Ranges = field(default_factory=Ranges)
    missing: Ranges = field(default_factory=Ranges)
    unexpected: Ranges = field(default_factory=Ranges)
    unreachable: Ranges = field(default_factory=Ranges)


@dataclass(slots=True)
class Comparison:
    """One ledger of `entries` entries. `replicas_min`: replicas seen of the entry that has the fewest;
    `survivors[zone]`: the same without the bookies of `zone`. An empty ledger lacks no replica. `lost`: entries that a
    person declared lost, of which nobody owes a copy (docs/spec/metadata.md#M57)."""

    entries: int
    replicas: dict[BookieId, Replica]
    reasons: dict[tuple[BookieId, str], str]  # by bookie and kind
    replicas_min: int
    survivors: dict[str, int]
    lost: int = 0

    @property
    def is_clean(self) -> bool:
        """Return True when there is nothing to report."""
        return not any(getattr(one, kind).count for one in self.replicas.values() for kind in KINDS)

    def is_unanswered(self, bookie: BookieId) -> bool:
        """Return True when the bookie owes no copy, and it is not known whether it has any nevertheless: no finding,
        as nothing that is promised is in doubt."""
        return not self.replicas[bookie].expected and bool(self.reasons.get((bookie, UNREACHABLE)))

    def findings(self, ledger: int) -> Iterator[ReplicaFinding]:
        """Return the findings, by bookie, kind and first entry."""
        for bookie, replica in sorted(self.replicas.items()):
            for kind in KINDS:
                reason = self.reasons.get((bookie, kind), "")
                for first, last, count in getattr(replica, kind).found:
                    yield ReplicaFinding(ledger, bookie, kind, first, last, count, reason)


def compare(
    metadata: LedgerMetadata,
    end: int,
    holdings: Mapping[BookieId, Holding],
    zones: Mapping[BookieId, str],
    *,
    is_final: bool,
    read: Mapping[BookieId, Bytes] | None = None,
    window: int = bitmaps.WINDOW,
) -> Comparison:
    """Compare entries 0..end-1 of a ledger; `is_final`: there are no others, so what is held beyond is unexpected.

    `end` is last entry + 1 of a closed ledger, LAC + 1 of an open one: nothing above that may be judged. `holdings` has
    every bookie that the metadata names; others may be in it. `read`: what came of reading copies that are listed.
    Raises BadInput for ids that cannot be.
    """
    groups = [group for held in holdings.values() if not isinstance(held, Unknown) for group in held]
    held_end = max((group[1] + group[2] for group in groups), default=0)
    stop = max(end, held_end) if is_final else end
    check_end(stop)
    whole = metadata.write_quorum
    result = Comparison(
        entries=end,
        replicas={bookie: Replica() for bookie in holdings},
        reasons={(b, UNREACHABLE): held.reason for b, held in holdings.items() if isinstance(held, Unknown)},
        replicas_min=whole,
        survivors=dict.fromkeys(sorted({zones.get(b, risk.NO_ZONE) for b in holdings if metadata.names(b)}), whole),
        lost=sum(min(last, end - 1) - first + 1 for first, last in metadata.lost_runs() if first < end),
    )
    read = read or {}
    for bookie, found in read.items():
        result.replicas[bookie].read = found.read
        result.reasons[bookie, CORRUPT] = found.why_corrupt
        result.reasons[bookie, UNREACHABLE] = found.why_unread
    for start in range(0, stop, window):
        _window(result, metadata, holdings, read, zones, start, min(start + window, stop))
    return result


def check_end(end: int) -> None:
    """Raise BadInput for more than ENTRIES_MAX entries."""
    if end > ENTRIES_MAX:
        raise errors.BadInput(f"entry {end - 1} is beyond {ENTRIES_MAX}: the ledger's record or a bookie's is wrong")


def _window(
    result: Comparison,
    metadata: LedgerMetadata,
    holdings: Mapping[BookieId, Holding],
    read: Mapping[BookieId, Bytes],
    zones: Mapping[BookieId, str],
    start: int,
    stop: int,
) -> None:
    end = min(stop, result.entries)
    wanted = expected(metadata, start, end)
    seen: dict[BookieId, int] = {}
    for bookie, held in holdings.items():
        replica, should = result.replicas[bookie], wanted.get(bookie, 0)
        replica.expected += should.bit_count()
        if isinstance(held, Unknown):
            replica.unreachable.add(should, should, start)
            seen[bookie] = 0
        else:
            has = bitmaps.drawn(held, start, stop)
            replica.missing.add(should & ~has if has != should else 0, should, start)
            replica.unexpected.add(has & ~should if has != should else 0, has, start)
            seen[bookie] = should & has
            if found := read.get(bookie):
                corrupt, unread = found.masks(start, stop)
                replica.corrupt.add(should & has & corrupt, should, start)
                replica.unreachable.add(should & has & unread, should, start)
                seen[bookie] &= ~(corrupt | unread)
    if start >= end:
        return
    if any(seen[bookie] != should for bookie, should in wanted.items()):
        owed = functools.reduce(operator.or_, wanted.values(), 0)
        _weigh(result, metadata, seen, owed, zones)
        return
    for _, first, last in _pieces(metadata, start, end):
        # Stripes repeat, so one round of a whole segment is as good as all of it.
        count = min(last - first + 1, metadata.ensemble_size)
        _weigh(result, metadata, expected(metadata, first, first + count), bitmaps.ones(count), zones)


def _weigh(
    result: Comparison, metadata: LedgerMetadata, seen: dict[BookieId, int], entries: int, zones: Mapping[BookieId, str]
) -> None:
    whole = metadata.write_quorum
    result.replicas_min = min(result.replicas_min, risk.fewest(seen.values(), entries, whole))
    for zone, least in result.survivors.items():
        result.survivors[zone] = min(least, risk.fewest(risk.outside(zone, seen, zones), entries, whole))


def expected(metadata: LedgerMetadata, start: int, end: int) -> dict[BookieId, int]:
    """Return which entries of start..end-1 each bookie of the ledger must hold (bit 0 = `start`)."""
    wanted: dict[BookieId, int] = {}
    for segment, first, last in _pieces(metadata, start, end):
        for index, bookie in enumerate(segment.bookies):
            mask = bitmaps.striped(metadata.ensemble_size, metadata.write_quorum, index, first, last)
            wanted[bookie] = wanted.get(bookie, 0) | mask << (first - start)
    return wanted


def _pieces(metadata: LedgerMetadata, start: int, end: int) -> Iterator[tuple[Segment, int, int]]:
    """Yield the parts of segments that lie in start..end-1, with their first and last entries."""
    for segment, first, last in metadata.owed_ranges():
        low, high = max(first, start), end - 1 if last is None else min(last, end - 1)
        if low <= high:
            yield segment, low, high
