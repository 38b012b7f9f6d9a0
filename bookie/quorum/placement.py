"""Choosing bookies for an ensemble: spread over regions and zones, without the excluded ones, in a drawn order.

Rule: spec/metadata.md#M35 (every window of WQ consecutive slots should span as many zones as
it can). A location is `zone`, or `/region/zone` as Java's topology mappings say it. Greedy: a free slot takes the first
candidate, in draw order, whose region and then zone is rarest among the slots it shares a write set with, then rarest
in the whole ensemble. Locations are a wish, distinct bookies a must: with too few zones the spread is as good as it
gets; with too few bookies the slot stays empty and the caller decides. `zones_min` makes it a must (Java:
`enforceMinNumRacksPerWriteQuorum`): a bookie that says no location is then never chosen.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.quorum.schedule import Schedule

WEIGHT_MAX = 3  # bookieMaxWeightMultipleForWeightBasedPlacement


@dataclass(frozen=True, slots=True)
class Candidate:
    """A bookie that takes writes. `zone` is its location, "" when it did not say."""

    bookie_id: BookieId
    zone: str = ""

    @property
    def region(self) -> str:
        """The first part of a location of several, "" of one that has no parts."""
        parts = self.zone.strip("/").split("/")
        return parts[0] if len(parts) > 1 else ""


def choose(schedule: Schedule, candidates: Sequence[Candidate], *, zones_min: int = 1) -> tuple[BookieId, ...]:
    """A new ensemble from `candidates`, which come in draw order. Raises NotEnoughBookies."""
    candidates = _placed(candidates, zones_min)
    if len(candidates) < schedule.ensemble_size:
        raise errors.NotEnoughBookies(
            f"an ensemble of {schedule.ensemble_size} needs as many writable bookies, and there are "
            f"{len(candidates)}: start more bookies or ask for a smaller ensemble"
        )
    filled = _fill(schedule, [None] * schedule.ensemble_size, candidates)
    if not all(_spans(schedule, filled, slot, zones_min) for slot in range(schedule.ensemble_size)):
        zones = len({candidate.zone for candidate in candidates})
        raise errors.NotEnoughBookies(
            f"every entry must be in {min(zones_min, schedule.write_quorum)} zones at least, and the {len(candidates)} "
            f"writable bookies of known zone are in {zones}: start bookies elsewhere or ask for fewer zones"
        )
    return tuple(candidate.bookie_id for candidate in filled if candidate is not None)


def replace(
    schedule: Schedule,
    ensemble: Sequence[BookieId],
    slots: Sequence[int],
    candidates: Sequence[Candidate],
    *,
    zones: Mapping[BookieId, str],
    zones_min: int = 1,
) -> dict[int, BookieId]:
    """New bookies for `slots` of `ensemble`; slots for which none is left are missing from the result.

    `candidates` come in draw order, `zones` says where the bookies that stay are. Members of the ensemble, failed
    ones included, are never chosen (spec/wire.md#W50).
    """
    kept: list[Candidate | None] = [
        None if slot in slots else Candidate(bookie_id, zones.get(bookie_id, ""))
        for slot, bookie_id in enumerate(ensemble)
    ]
    free = [candidate for candidate in _placed(candidates, zones_min) if candidate.bookie_id not in ensemble]
    filled = _fill(schedule, kept, free)
    return {
        slot: found.bookie_id
        for slot in sorted(slots)
        if (found := filled[slot]) is not None and _spans(schedule, filled, slot, zones_min)
    }


def weighted(
    candidates: Sequence[Candidate], weights: Mapping[BookieId, int], draw: Callable[[int], int]
) -> list[Candidate]:
    """`candidates` in random order, the heavier ones sooner on the average: each next one is drawn in proportion.

    `draw(n)` is a random number in 0..n-1. Nobody counts for more than `WEIGHT_MAX` times the median, so that an empty
    new bookie is not flooded; a bookie of unknown weight counts as the median (diskWeightBasedPlacementEnabled).
    """
    known = sorted(weights[c.bookie_id] for c in candidates if c.bookie_id in weights)
    median = max(1, known[len(known) // 2]) if known else 1
    left = [(c, max(1, min(weights.get(c.bookie_id, median), median * WEIGHT_MAX))) for c in candidates]
    order: list[Candidate] = []
    while left:
        at = draw(sum(weight for _, weight in left))
        for place, (candidate, weight) in enumerate(left):
            at -= weight
            if at < 0:
                order.append(candidate)
                del left[place]
                break
    return order


def _placed(candidates: Sequence[Candidate], zones_min: int) -> Sequence[Candidate]:
    """Those that may be chosen at all."""
    return candidates if zones_min <= 1 else [candidate for candidate in candidates if candidate.zone]


def _spans(schedule: Schedule, filled: Sequence[Candidate | None], slot: int, zones_min: int) -> bool:
    """True when every write set of `slot` that is full spans enough zones."""
    needed = min(zones_min, schedule.write_quorum)
    for write_set in schedule.write_sets:
        members = [member for other in write_set if (member := filled[other]) is not None]
        is_full = len(members) == len(write_set)
        if slot in write_set and is_full and len({member.zone for member in members}) < needed:
            return False
    return True


def _fill(
    schedule: Schedule, slots: Sequence[Candidate | None], candidates: Sequence[Candidate]
) -> list[Candidate | None]:
    filled = list(slots)
    free = list(dict.fromkeys(candidates))
    for slot, holder in enumerate(filled):
        if holder is not None or not free:
            continue
        near = [filled[other] for other in _shares_write_set(schedule, slot)]
        best = min(free, key=_crowd([other for other in near if other], [other for other in filled if other]))
        filled[slot] = best
        free.remove(best)
    return filled


def _crowd(near: Sequence[Candidate], everywhere: Sequence[Candidate]) -> Callable[[Candidate], tuple[int, ...]]:
    """How crowded it already is where a candidate is; the first number counts most."""
    counts = [
        Counter(other.region for other in near),
        Counter(other.zone for other in near),
        Counter(other.region for other in everywhere),
        Counter(other.zone for other in everywhere),
    ]

    def crowd(one: Candidate) -> tuple[int, ...]:
        return tuple(count[one.zone if index % 2 else one.region] for index, count in enumerate(counts))

    return crowd


def _shares_write_set(schedule: Schedule, slot: int) -> list[int]:
    """The other slots that appear in one write set with `slot`, ascending."""
    return sorted({other for write_set in schedule.write_sets if slot in write_set for other in write_set} - {slot})
