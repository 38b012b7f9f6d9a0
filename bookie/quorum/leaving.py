"""Decides which entries must stand on other bookies before the metadata may stop naming bookies that leave. Pure.

Rules: spec/metadata.md#M20, M34; spec/bp46.md#S9; CONFORMANCE.md#P7. Never: a copy of a fragment without an end, since
nobody knows yet which entries it has.
"""

import itertools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from bookie.base.ids import BookieId, EntryId, IdRange
from bookie.metadata.ledger import LedgerMetadata, LedgerState
from bookie.quorum.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Fragment:
    """A segment that has an end and names bookies that leave. `first` and `last` inclusive; `last` < `first`: empty.

    `slots`: the places of the leaving bookies in the ensemble, ascending. `owed`: the ranges of it that others must
    hold: all but what was declared lost (spec/metadata.md#M57).
    """

    first: EntryId
    last: EntryId
    bookies: tuple[BookieId, ...]
    slots: tuple[int, ...]
    owed: tuple[IdRange, ...]

    def copies(
        self, schedule: Schedule, replacements: Mapping[int, BookieId]
    ) -> Iterator[tuple[EntryId, list[BookieId]]]:
        """Yield each entry that new bookies (slot to bookie) must hold, ascending, with those bookies."""
        for number in itertools.chain.from_iterable(range(first, last + 1) for first, last in self.owed):
            entry_id = EntryId(number)
            targets = [replacements[slot] for slot in schedule.write_set(entry_id) if slot in replacements]
            if targets:
                yield entry_id, targets


def must_end_first(metadata: LedgerMetadata, leaving: Collection[BookieId]) -> bool:
    """Return True when the ledger must be closed before anybody can tell what the leaving bookies hold.

    This includes every ledger in recovery: a recovery writes the bookies that it brought in only when it closes the
    ledger.
    """
    if metadata.is_closed:
        return False
    ends_with_them = any(bookie_id in leaving for bookie_id in metadata.last_segment.bookies)
    return ends_with_them or metadata.state is LedgerState.IN_RECOVERY


def fragments(metadata: LedgerMetadata, leaving: Collection[BookieId]) -> Iterator[Fragment]:
    """Yield the fragments that have an end and name any of the leaving bookies, ascending."""
    owed: dict[EntryId, list[IdRange]] = {}
    for segment, first, last in metadata.owed_ranges():
        if last is not None:
            owed.setdefault(segment.first_entry, []).append((first, last))
    for segment, first, last in metadata.segment_ranges():
        slots = tuple(slot for slot, bookie_id in enumerate(segment.bookies) if bookie_id in leaving)
        if slots and last is not None:
            yield Fragment(first, last, segment.bookies, slots, tuple(owed.get(first, ())))


def is_named(metadata: LedgerMetadata, leaving: Collection[BookieId]) -> bool:
    """Return True when any segment names any of the leaving bookies."""
    return any(bookie_id in leaving for segment in metadata.segments for bookie_id in segment.bookies)


def replaced(
    metadata: LedgerMetadata, fragment: Fragment, replacements: Mapping[int, BookieId]
) -> LedgerMetadata | None:
    """Return `metadata` with the new bookies in the fragment's slots; None when the fragment's ensemble or end is not
    what was copied: also the end, since a ledger that was deleted and made anew may have the same bookies and none."""
    copied = fragment.first, fragment.last, fragment.bookies
    if not any((first, last, segment.bookies) == copied for segment, first, last in metadata.segment_ranges()):
        return None
    for slot, bookie_id in sorted(replacements.items()):
        metadata = metadata.replaced(fragment.first, fragment.bookies[slot], bookie_id)
    return metadata


def depends_on(metadata: LedgerMetadata, bookies: Collection[BookieId]) -> bool:
    """Return True when an acknowledged entry of the ledger may be on these bookies alone: some write set that holds
    entries has as many of them as the ack quorum (spec/metadata.md#M54).

    A ledger IN_RECOVERY always counts: where its recovery puts entries it says only when it closes it
    (spec/wire.md#W55).
    """
    if metadata.state is LedgerState.IN_RECOVERY:
        return True
    return any(sum(one in bookies for one in members) >= metadata.ack_quorum for members in _write_sets(metadata))


def is_undecidable_without(metadata: LedgerMetadata, bookie_id: BookieId, missing: Collection[BookieId]) -> bool:
    """Return True when a read or a recovery of the ledger might be undecidable while `bookie_id` is away too: some
    write set that holds entries has it and one of the `missing`, and of both together as many as the ack quorum
    (spec/metadata.md#M55). As `depends_on`, a ledger IN_RECOVERY always counts."""
    others = [one for one in missing if one != bookie_id]
    if not others:
        return False
    if metadata.state is LedgerState.IN_RECOVERY:
        return True
    away = (bookie_id, *others)
    for members in _write_sets(metadata):
        out = sum(one in away for one in members)
        if bookie_id in members and out > 1 and out >= metadata.ack_quorum:
            return True
    return False


def _write_sets(metadata: LedgerMetadata) -> Iterator[list[BookieId]]:
    """Yield the bookies of each write set that holds entries, or may, some of them twice."""
    schedule = Schedule(metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum)
    for segment, first, last in metadata.segment_ranges():
        end = first + schedule.ensemble_size if last is None else min(last + 1, first + schedule.ensemble_size)
        for number in range(first, end):
            yield [segment.bookies[slot] for slot in schedule.write_set(EntryId(number))]
