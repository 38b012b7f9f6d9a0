"""Decides what one ledger needs so that every bookie it names holds its share. Pure.

First choice: fill in place, i.e. copy what a named bookie lacks to that very bookie. It changes no metadata, and it
works when there are no more bookies than the ensemble has (BookKeeper issue 3905: Java never does). Only a bookie that
is lost is replaced. Rules: spec/metadata.md#M44, M47.

What has no end yet is left alone: nobody knows which entries it has (`quorum.leaving`). Never: an entry taken for
missing because a bookie could not say. Whoever may have lost entries repairs itself first, with its own marks (limbo),
and is waited for.
"""

import enum
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bookie.base.ids import BookieId, EntryId
from bookie.metadata.ledger import LedgerMetadata, Segment
from bookie.quorum import leaving
from bookie.quorum.shares import Group, Share


class Standing(enum.Enum):
    """What is known of one bookie."""

    PRESENT = "present"  # registered, writable or read-only
    AWAY = "away"  # not for long yet: it may be restarted
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Holding:
    """What one bookie says that it holds of one ledger. `groups` None: it did not say, for this `reason`; with groups
    too, `reason` tells what it did not say. `damaged`: entries that were read, and of which it gave no good copy.
    `in_limbo`: it did not say because it may have lost entries of this ledger."""

    groups: Sequence[Group] | None
    reason: str = ""
    damaged: Collection[EntryId] = ()
    in_limbo: bool = False


@dataclass(frozen=True, slots=True)
class Shortage:
    """So many entries of sealed segments are missing on one bookie; `first` is the lowest of them. `damaged`: so many
    of them it has, and gave no good copy when they were read; the others of its share were not read."""

    bookie_id: BookieId
    count: int
    first: EntryId
    damaged: int = 0


@dataclass(frozen=True, slots=True)
class Mending:
    """What one ledger needs. `fills`: to be copied to bookies that are named. `lost`: named bookies that must be
    replaced. `must_end`: before that the ledger must be closed. `waits`: what nobody can judge now, and why."""

    fills: tuple[Shortage, ...] = ()
    lost: tuple[BookieId, ...] = ()
    must_end: bool = False
    waits: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """True when every named bookie is there and holds its share of what has an end."""
        return not (self.fills or self.lost or self.must_end or self.waits)

    @property
    def missing(self) -> tuple[BookieId, ...]:
        """Return the bookies whose replicas are known to be missing."""
        return tuple(dict.fromkeys([*self.lost, *(each.bookie_id for each in self.fills)]))


def named(metadata: LedgerMetadata) -> list[BookieId]:
    """Return every bookie that the ledger names, each once, in order of its first segment."""
    return list(dict.fromkeys(bookie_id for segment in metadata.segments for bookie_id in segment.bookies))


def judge(
    metadata: LedgerMetadata, standings: Mapping[BookieId, Standing], holdings: Mapping[BookieId, Holding]
) -> Mending:
    """Return what the ledger needs. `standings`: of every bookie that it names. `holdings`: of those that are present;
    one without any was not asked, and is not judged."""
    lost = tuple(each for each in named(metadata) if standings[each] is Standing.LOST)
    fills: list[Shortage] = []
    waits: list[str] = []
    for bookie_id in named(metadata):
        if standings[bookie_id] is Standing.AWAY:
            waits.append(f"bookie {bookie_id} is away, not long enough yet to count as lost, or under maintenance")
        elif standings[bookie_id] is Standing.PRESENT and bookie_id in holdings:
            held = holdings[bookie_id]
            if held.reason:
                waits.append(f"bookie {bookie_id} does not say what it holds: {held.reason}")
            shortage = shortage_of(metadata, bookie_id, held)
            fills += [] if shortage is None else [shortage]
    return Mending(tuple(fills), lost, bool(lost) and leaving.must_end_first(metadata, lost), tuple(waits))


def shortage_of(metadata: LedgerMetadata, bookie_id: BookieId, held: Holding) -> Shortage | None:
    """Return what the bookie is known to lack of the segments that have an end; None when nothing is."""
    count, lowest = len(held.damaged), list(held.damaged)
    groups = held.groups
    is_sought = True
    for share, first, last in _shares(metadata, bookie_id):
        if groups is None:
            break
        lacking = share.count(first, last)
        if lacking and groups:
            lacking -= share.count_held(groups, first, last)
        if lacking and is_sought:
            absent = share.first_absent(groups, first, last)
            assert absent is not None, "entries are missing, and none is the first"
            lowest.append(absent)
            is_sought = False  # the ranges ascend
        count += lacking
    return Shortage(bookie_id, count, min(lowest), len(held.damaged)) if lowest else None


def ends_of(metadata: LedgerMetadata, bookie_id: BookieId, groups: Sequence[Group] | None) -> list[EntryId]:
    """Return the lowest and the highest entry of the bookie's share of each segment that has an end: those of them that
    it lists, where it gives a list."""
    ends: dict[EntryId, list[EntryId]] = {}  # by segment: what was declared lost cuts it into many ranges
    for segment, first, last in metadata.owed_ranges():
        if last is not None and bookie_id in segment.bookies:
            share = Share(metadata.ensemble_size, metadata.write_quorum, segment.bookies.index(bookie_id))
            found = share.ends(first, last)
            if found:
                lowest = ends.get(segment.first_entry, found)[0]
                ends[segment.first_entry] = list(dict.fromkeys([lowest, found[-1]]))
    return [
        entry_id
        for known in ends.values()
        for entry_id in known
        if groups is None or Share(1, 1, 0).count_held(groups, entry_id, entry_id)
    ]


def share_size(metadata: LedgerMetadata, bookie_id: BookieId) -> int:
    """Return how many entries of the segments that have an end the bookie should hold."""
    return sum(share.count(first, last) for share, first, last in _shares(metadata, bookie_id))


def missing_entries(metadata: LedgerMetadata, bookie_id: BookieId, groups: Sequence[Group]) -> Iterator[EntryId]:
    """Yield the entries of the segments that have an end which the bookie lacks, ascending."""
    for share, first, last in _shares(metadata, bookie_id):
        begin = first
        while (absent := share.first_absent(groups, begin, last)) is not None:
            yield absent
            begin = EntryId(absent + 1)


def _shares(metadata: LedgerMetadata, bookie_id: BookieId) -> Iterator[tuple[Share, EntryId, EntryId]]:
    of: Segment | None = None
    share: Share | None = None  # made once: what was declared lost cuts one segment into thousands of ranges
    for segment, first, last in metadata.owed_ranges():
        if segment is not of:
            of, share = segment, None
            if bookie_id in segment.bookies:
                share = Share(metadata.ensemble_size, metadata.write_quorum, segment.bookies.index(bookie_id))
        if last is not None and share is not None:
            yield share, first, last


def standings_of(
    bookies: Collection[BookieId], present: Collection[BookieId], lost: Collection[BookieId]
) -> dict[BookieId, Standing]:
    """Return the standing of each bookie. One that is registered again is present, whatever was thought before."""
    return {
        each: Standing.PRESENT if each in present else Standing.LOST if each in lost else Standing.AWAY
        for each in bookies
    }
