"""How long background work waits before its next piece, so that clients are not starved. The caller has a clock."""

from bookie.base.units import NS_PER_S

# A burst of this much may go at once: smaller makes many short waits, larger shows in the clients' latency.
_BURST_S = 0.1


class Throttle:
    """A token bucket of bytes, or entries, a second. `rate_per_s` None: no limit."""

    def __init__(self, rate_per_s: int | None) -> None:
        self._rate = rate_per_s
        self._free_at_ns = 0

    def take(self, size: int, now_ns: int) -> int:
        """Account for `size` of them; return the instant (ns) at which they may be used, `now_ns` or later."""
        if self._rate is None:
            return now_ns
        earliest_ns = now_ns - int(_BURST_S * NS_PER_S)
        self._free_at_ns = max(self._free_at_ns, earliest_ns) + size * NS_PER_S // self._rate
        return max(now_ns, self._free_at_ns)
