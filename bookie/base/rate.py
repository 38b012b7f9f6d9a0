"""Measures how fast bytes go, or anything that is counted, over the last seconds. The caller has the clock."""

from collections import deque

from bookie.base.units import NS_PER_S

# The rate is over this window, from samples this far apart.
_WINDOW_S = 5
_SAMPLE_NS = NS_PER_S // 4


class Rate:
    """Bytes per second of the last five seconds, or of `window_s`; 0 when nothing went in them."""

    def __init__(self, window_s: int = _WINDOW_S) -> None:
        self._window_ns = window_s * NS_PER_S
        self._total = 0
        self._samples: deque[tuple[int, int]] = deque()  # (when, bytes before that)

    def add(self, size: int, now_ns: int) -> None:
        """Count `size` bytes that went now."""
        if not self._samples or now_ns - self._samples[-1][0] >= _SAMPLE_NS:
            self._samples.append((now_ns, self._total))
        self._total += size

    def per_second(self, now_ns: int) -> float:
        while self._samples and now_ns - self._samples[0][0] > self._window_ns:
            self._samples.popleft()
        if not self._samples:
            return 0.0
        since_ns, total_then = self._samples[0]
        return (self._total - total_then) * NS_PER_S / max(now_ns - since_ns, _SAMPLE_NS)
