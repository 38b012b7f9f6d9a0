"""Decides which maintenance leases are valid: who is away on purpose, and for how long at most. Pure.

A lease lasts its seconds, by two clocks: ours from when this process first saw it, and the wall clock from when the
store says that it was written. The first to end ends it. So no clock that is wrong, and no auditor that is started
again and again, keeps a lost bookie from being repaired for long. Rule: spec/metadata.md#M50.
"""

from collections.abc import Mapping

from bookie.base.ids import BookieId
from bookie.base.units import NS_PER_S
from bookie.metadata.maintenance import StoredLease

# Our wall clock may be so far ahead of the store's before a lease ends early. Early costs a mark, which is a hint.
SKEW_MS_MAX = 30_000


class Leases:
    """The leases that one process knows of."""

    def __init__(self) -> None:
        self._known: dict[BookieId, tuple[StoredLease, int]] = {}  # and when it was first seen, in ns

    def seen(self, found: Mapping[BookieId, StoredLease], now_ns: int) -> None:
        """Note what stands in the store. One that was written anew begins anew."""
        self._known = {
            bookie_id: self._known[bookie_id] if self._is_known(bookie_id, stored) else (stored, now_ns)
            for bookie_id, stored in found.items()
        }

    def _is_known(self, bookie_id: BookieId, stored: StoredLease) -> bool:
        return bookie_id in self._known and self._known[bookie_id][0] == stored

    def valid(self, now_ns: int, wall_ms: int) -> frozenset[BookieId]:
        """Return the bookies whose lease has not ended."""
        return frozenset(
            bookie_id
            for bookie_id, (stored, since_ns) in self._known.items()
            if now_ns - since_ns < stored.lease.seconds * NS_PER_S and wall_ms < stored.until_ms + SKEW_MS_MAX
        )
