"""Computes how many replicas an entry has left, in all and without one zone. Pure."""

from collections.abc import Collection, Iterable, Mapping

from bookie.base.ids import BookieId

NO_ZONE = ""
"""The zone of bookies that have none, or are not registered: as if one failure took them all."""


def fewest(holders: Iterable[int], entries: int, most: int) -> int:
    """Return how many of the bitmaps `holders` cover the entry of `entries` that is covered least; at most `most`.

    Counts in unary, all entries at once: level k holds the entries that k holders cover. `entries` is not empty.
    """
    assert entries
    levels = [entries] + [0] * most
    for holder in holders:
        for level in range(most, 0, -1):
            levels[level] |= levels[level - 1] & holder
    return max(level for level, covered in enumerate(levels) if covered == entries)


def outside(zone: str, seen: Mapping[BookieId, int], zones: Mapping[BookieId, str]) -> Collection[int]:
    """Return the bitmaps of the bookies that are not in `zone`."""
    return [mask for bookie, mask in seen.items() if zones.get(bookie, NO_ZONE) != zone]
