"""Slows background work down, so that it does not starve clients. The caller has the clock and waits."""

from typing import Generic, TypeVar

from bookie.base.units import NS_PER_S

Key = TypeVar("Key")

# Work of this many seconds may go at once. A smaller burst makes many short waits, a larger one clients notice.
_BURST_S = 0.1


class Throttle:
    """A token bucket of bytes, or of entries, per second. `rate_per_s` None: no limit."""

    def __init__(self, rate_per_s: int | None) -> None:
        self._rate = rate_per_s
        self._free_at_ns = 0

    def set_rate(self, rate_per_s: int | None) -> None:
        """Let what is taken from now on go at another rate; what was taken before has its instant already."""
        self._rate = rate_per_s

    def take(self, size: int, now_ns: int) -> int:
        """Take `size` tokens. Return the instant (ns) at which the caller may go on, `now_ns` or later."""
        if self._rate is None:
            return now_ns
        earliest_ns = now_ns - int(_BURST_S * NS_PER_S)
        self._free_at_ns = max(self._free_at_ns, earliest_ns) + size * NS_PER_S // self._rate
        return max(now_ns, self._free_at_ns)


class Throttles(Generic[Key]):
    """The same rate for each of many receivers by itself: one that is slow, or has had its share, holds up no other."""

    def __init__(self, rate_per_s: int | None) -> None:
        self._rate = rate_per_s
        self._of: dict[Key, Throttle] = {}

    def set_rate(self, rate_per_s: int | None) -> None:
        """As of a Throttle, for every receiver."""
        self._rate = rate_per_s
        for each in self._of.values():
            each.set_rate(rate_per_s)

    def take(self, key: Key, size: int, now_ns: int) -> int:
        """Take `size` tokens of the receiver `key`. Return the instant (ns) at which the caller may go on."""
        if key not in self._of:
            self._of[key] = Throttle(self._rate)
        return self._of[key].take(size, now_ns)
