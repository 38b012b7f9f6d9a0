"""Finds the segments of a ledger whose copies lie closer together than they need to. Pure.

A segment is misplaced when the bookies that take writes now could be chosen so that its write sets are on fewer
shared machines, or in more regions, or in more zones, in this order (spec/metadata.md#M51). So what no fleet could do
better is not found: two zones for three copies, one bookie alone in its zone. Never: a judgement on bookies that are
not registered, whose location nobody can tell.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.ids import BookieId, EntryId
from bookie.metadata.ledger import LedgerMetadata
from bookie.quorum import placement
from bookie.quorum.placement import Candidate
from bookie.quorum.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Misplaced:
    """A segment. `reason`: what is wrong with it, for a person."""

    first_entry: EntryId
    bookies: tuple[BookieId, ...]
    reason: str


@dataclass(frozen=True, order=True, slots=True)
class _Spread:
    """Of some write sets together; more is better. `apart`: write sets without two copies on one machine."""

    apart: int
    regions: int
    zones: int


class PlacementCheck:
    """`where`: every registered bookie. `writable`: those that take writes, by id."""

    def __init__(self, writable: Sequence[Candidate], where: Mapping[BookieId, Candidate]) -> None:
        self._writable = writable
        self._where = where
        self._best: dict[tuple[int, int], list[Candidate] | None] = {}  # by ensemble and write quorum

    def misplaced(self, metadata: LedgerMetadata) -> tuple[Misplaced, ...]:
        """Return the segments that could be placed better, in order."""
        size, quorum = metadata.ensemble_size, metadata.write_quorum
        best = self._best_for(size, quorum)
        found: list[Misplaced] = []
        if best is None:
            return ()
        for segment, first, last in metadata.segment_ranges():
            placed = [self._where.get(bookie_id) for bookie_id in segment.bookies]
            members = [each for each in placed if each is not None]
            count = size if last is None else min(size, last - first + 1)
            if len(members) < len(placed):
                continue
            write_sets = [Schedule(size, quorum, 1).write_set(EntryId(first + each)) for each in range(count)]
            now, possible = _spread(members, write_sets), _spread(best, write_sets)
            if now < possible:
                found.append(Misplaced(first, segment.bookies, _told(now, possible, count)))
        return tuple(found)

    def _best_for(self, size: int, quorum: int) -> list[Candidate] | None:
        """Return as good an ensemble as the fleet has; None: it has too few bookies."""
        if (size, quorum) not in self._best:
            try:
                chosen = placement.choose(Schedule(size, quorum, 1), self._writable)
            except errors.NotEnoughBookies:
                self._best[size, quorum] = None
            else:
                self._best[size, quorum] = [self._where[bookie_id] for bookie_id in chosen]
        return self._best[size, quorum]


def _spread(members: Sequence[Candidate], write_sets: Sequence[Sequence[int]]) -> _Spread:
    apart = regions = zones = 0
    for write_set in write_sets:
        copies = [members[slot] for slot in write_set]
        machines = [each.machine for each in copies if each.machine]
        apart += len(set(machines)) == len(machines)
        regions += len({each.region for each in copies})
        zones += len({each.zone for each in copies})
    return _Spread(apart, regions, zones)


def _told(now: _Spread, possible: _Spread, count: int) -> str:
    if now.apart < possible.apart:
        need = count - possible.apart
        return f"{count - now.apart} of {count} write sets have two copies on one machine, and {need} need to"
    what = "regions" if now.regions < possible.regions else "zones"
    seen, better = (getattr(each, what) / count for each in (now, possible))
    return f"an entry's copies are in {seen:.3g} {what} on average, and could be in {better:.3g}"
