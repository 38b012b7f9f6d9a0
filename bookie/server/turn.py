"""The turn of a bookie that is to be stopped: while it lasts the bookie refuses adds, and it ends by itself.

A reason of its own beside a mode set by hand and a full disk: when it ends, in whatever way, this bookie takes or
refuses adds exactly as if it had never begun (spec/operator.md#Q10). Times come in, nothing is awaited.
"""

from bookie.base import errors
from bookie.base.units import NS_PER_MS

# A roll-out renews it every few seconds. Longer than this no operator needs, and a bookie should not be read-only for.
TURN_MS_MAX = 3_600_000


class Turn:
    """`is_on`: adds are refused. `is_sealed`: also those of recoveries, which a read-only bookie takes."""

    def __init__(self) -> None:
        self.is_on = False
        self.is_sealed = False
        self._end_ns = 0

    def begin(self, now_ns: int, ttl_ms: int, *, is_sealed: bool) -> None:
        """Begin it, or renew it, for `ttl_ms` from now. Raises BadInput when that is no time for a turn."""
        if not 0 < ttl_ms <= TURN_MS_MAX:
            raise errors.BadInput(f"ttl_ms: a turn of {ttl_ms} ms; it lasts from 1 to {TURN_MS_MAX}")
        self.is_on, self.is_sealed, self._end_ns = True, is_sealed, now_ns + ttl_ms * NS_PER_MS

    def end(self) -> None:
        self.is_on = self.is_sealed = False

    def is_late(self, now_ns: int) -> bool:
        """Return True when it is on, and its time is over: nobody stopped this bookie."""
        return self.is_on and now_ns >= self._end_ns
