"""Choosing bookies for an ensemble: spread over zones, without the excluded ones, in a drawn order.

Rule: metadata 12 (rack-aware placement: every window of WQ consecutive slots should span as many zones as it can).
Greedy: a free slot takes the first candidate, in draw order, whose zone is rarest among the slots it shares a write
set with, then rarest in the whole ensemble. Zones are a wish, distinct bookies a must: with too few zones the spread
is as good as it gets; with too few bookies the slot stays empty and the caller decides.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.quorum.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Candidate:
    """A bookie that takes writes. `zone` is "" when it did not say."""

    bookie_id: BookieId
    zone: str = ""


def choose(schedule: Schedule, candidates: Sequence[Candidate]) -> tuple[BookieId, ...]:
    """A new ensemble from `candidates`, which come in draw order. Raises NotEnoughBookies."""
    if len(candidates) < schedule.ensemble_size:
        raise errors.NotEnoughBookies(
            f"an ensemble of {schedule.ensemble_size} needs as many writable bookies, and there are "
            f"{len(candidates)}: start more bookies or ask for a smaller ensemble"
        )
    filled = _fill(schedule, [None] * schedule.ensemble_size, candidates)
    return tuple(candidate.bookie_id for candidate in filled if candidate is not None)


def replace(
    schedule: Schedule,
    ensemble: Sequence[BookieId],
    slots: Sequence[int],
    candidates: Sequence[Candidate],
    *,
    zones: Mapping[BookieId, str],
) -> dict[int, BookieId]:
    """New bookies for `slots` of `ensemble`; slots for which none is left are missing from the result.

    `candidates` come in draw order, `zones` says where the bookies that stay are. Members of the ensemble, failed
    ones included, are never chosen (wire 10.2: no bookie twice in an ensemble).
    """
    kept: list[Candidate | None] = [
        None if slot in slots else Candidate(bookie_id, zones.get(bookie_id, ""))
        for slot, bookie_id in enumerate(ensemble)
    ]
    free = [candidate for candidate in candidates if candidate.bookie_id not in ensemble]
    filled = _fill(schedule, kept, free)
    return {slot: found.bookie_id for slot in sorted(slots) if (found := filled[slot]) is not None}


def _fill(
    schedule: Schedule, slots: Sequence[Candidate | None], candidates: Sequence[Candidate]
) -> list[Candidate | None]:
    filled = list(slots)
    free = list(dict.fromkeys(candidates))
    for slot, holder in enumerate(filled):
        if holder is not None or not free:
            continue
        near = [filled[other] for other in _shares_write_set(schedule, slot)]
        nearby = [other.zone for other in near if other is not None]
        everywhere = [other.zone for other in filled if other is not None]
        best = min(free, key=lambda free_one: (nearby.count(free_one.zone), everywhere.count(free_one.zone)))
        filled[slot] = best
        free.remove(best)
    return filled


def _shares_write_set(schedule: Schedule, slot: int) -> list[int]:
    """The other slots that appear in one write set with `slot`, ascending."""
    return sorted({other for write_set in schedule.write_sets if slot in write_set for other in write_set} - {slot})
