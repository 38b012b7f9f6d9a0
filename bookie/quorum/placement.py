"""Chooses bookies for an ensemble: spread over regions and zones, in the random order that the caller drew.

Rule: spec/metadata.md#M35 (every window of WQ consecutive slots should span as many zones as it can). A location is
`zone`, or `/region/zone` as in Java's topology mappings. Greedy: a free slot takes the first candidate, in draw order,
whose region and then zone is rarest among the slots that share a write set with it, then rarest in the whole ensemble.
Before all that counts the machine, of bookies that say that they share one (spec/metadata.md#M43): two copies of an
entry go to one machine only where no other has a bookie left.
Bookies must be distinct, locations only should be: with too few zones the spread is the best possible one; with too few
bookies the slot stays empty and the caller decides. `zones_min` makes locations a must (Java:
`enforceMinNumRacksPerWriteQuorum`): then a bookie without a location is never chosen.
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
    """A bookie that takes writes. `zone` is its location, "" when nobody knows it. `machine`: the one that it shares
    with other bookies, "" when it shares none."""

    bookie_id: BookieId
    zone: str = ""
    machine: str = ""

    @property
    def region(self) -> str:
        """Return the first part of a location of several, "" of one that has no parts."""
        parts = self.zone.strip("/").split("/")
        return parts[0] if len(parts) > 1 else ""


def choose(schedule: Schedule, candidates: Sequence[Candidate], *, zones_min: int = 1) -> tuple[BookieId, ...]:
    """Return a new ensemble from `candidates`, which come in draw order. Raises NotEnoughBookies."""
    candidates = _placed(candidates, zones_min)
    if len(candidates) < schedule.ensemble_size:
        raise errors.NotEnoughBookies(
            f"an ensemble of {schedule.ensemble_size} needs as many writable bookies, and there are "
            f"{len(candidates)}: start more bookies or ask for a smaller ensemble"
        )
    filled = _arrange(schedule, [None] * schedule.ensemble_size, candidates)
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
    machines: Mapping[BookieId, str] | None = None,
    zones_min: int = 1,
) -> dict[int, BookieId]:
    """Return new bookies for `slots` of `ensemble`; a slot for which no bookie is left is missing from the result.

    `candidates` come in draw order; `zones` has the locations of the bookies that stay, `machines` the
    machines of those that share one. Never chooses a member of the
    ensemble, failed ones included (spec/wire.md#W50): a bookie must not hold two copies of one entry.
    """
    kept: list[Candidate | None] = [
        None if slot in slots else Candidate(bookie_id, zones.get(bookie_id, ""), (machines or {}).get(bookie_id, ""))
        for slot, bookie_id in enumerate(ensemble)
    ]
    free = [candidate for candidate in _placed(candidates, zones_min) if candidate.bookie_id not in ensemble]
    filled = _arrange(schedule, kept, free)
    return {
        slot: found.bookie_id
        for slot in sorted(slots)
        if (found := filled[slot]) is not None and _spans(schedule, filled, slot, zones_min)
    }


def weighted(
    candidates: Sequence[Candidate], weights: Mapping[BookieId, int], draw: Callable[[int], int]
) -> list[Candidate]:
    """Return `candidates` in random order; each next one is drawn in proportion to its weight.

    `draw(n)` is a random number in 0..n-1. No bookie counts for more than `WEIGHT_MAX` times the median, so that an
    empty new bookie is not flooded. A bookie of unknown weight counts as the median (diskWeightBasedPlacementEnabled).
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
    """Return the candidates that may be chosen at all, each once."""
    return [candidate for candidate in dict.fromkeys(candidates) if candidate.zone or zones_min <= 1]


def _spans(schedule: Schedule, filled: Sequence[Candidate | None], slot: int, zones_min: int) -> bool:
    """True when every write set of `slot` that is full spans enough zones."""
    needed = min(zones_min, schedule.write_quorum)
    for write_set in schedule.write_sets:
        members = [member for other in write_set if (member := filled[other]) is not None]
        is_full = len(members) == len(write_set)
        if slot in write_set and is_full and len({member.zone for member in members}) < needed:
            return False
    return True


def _arrange(
    schedule: Schedule, slots: Sequence[Candidate | None], candidates: Sequence[Candidate]
) -> list[Candidate | None]:
    """Return `slots` filled. Where that puts two copies on one machine, try again with the machines first that have
    most bookies: the draw may have used up the others too early."""
    first = _fill(schedule, slots, candidates)
    if not _doubled(schedule, first):
        return first
    sizes = Counter(one.machine for one in candidates)
    second = _fill(schedule, slots, sorted(candidates, key=lambda one: -sizes[one.machine]))
    return min(first, second, key=lambda filled: _doubled(schedule, filled))


def _doubled(schedule: Schedule, filled: Sequence[Candidate | None]) -> int:
    """Return how many write sets have two members on one machine."""
    write_sets = ([filled[slot] for slot in write_set] for write_set in schedule.write_sets)
    machines = ([one.machine for one in members if one is not None and one.machine] for members in write_sets)
    return sum(len(set(one)) < len(one) for one in machines)


def _fill(
    schedule: Schedule, slots: Sequence[Candidate | None], candidates: Sequence[Candidate]
) -> list[Candidate | None]:
    filled = list(slots)
    free = list(candidates)
    for slot, holder in enumerate(filled):
        if holder is not None or not free:
            continue
        near = [filled[other] for other in _shares_write_set(schedule, slot)]
        best = min(free, key=_crowd([other for other in near if other], [other for other in filled if other]))
        filled[slot] = best
        free.remove(best)
    return filled


def _crowd(near: Sequence[Candidate], everywhere: Sequence[Candidate]) -> Callable[[Candidate], tuple[int, ...]]:
    """Return a function that says how crowded the place of a candidate is already; the first number counts most."""
    machines = Counter(other.machine for other in near if other.machine)
    counts = [
        Counter(other.region for other in near),
        Counter(other.zone for other in near),
        Counter(other.region for other in everywhere),
        Counter(other.zone for other in everywhere),
    ]

    def crowd(one: Candidate) -> tuple[int, ...]:
        places = (count[one.zone if index % 2 else one.region] for index, count in enumerate(counts))
        return (machines[one.machine], *places)

    return crowd


def _shares_write_set(schedule: Schedule, slot: int) -> list[int]:
    """Return the other slots that share a write set with `slot`, ascending."""
    return sorted({other for write_set in schedule.write_sets if slot in write_set for other in write_set} - {slot})
