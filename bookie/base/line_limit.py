"""Limits how often a node logs a line that strangers can cause. Pure: the caller has the clock and logs the line."""

from bookie.base.units import NS_PER_S

# Of one kind: this many lines at once, then one per interval. All kinds together stay below some KiB a second.
BURST = 5
INTERVAL_NS = 10 * NS_PER_S
# Our code names the kinds, never a stranger. More than this many is a defect of ours: the rest share one name.
_KINDS_MAX = 256
_OTHERS = "others"


class LineLimit:
    """A token bucket for each kind of line, and a count of the lines that it kept back."""

    def __init__(self) -> None:
        self._free_at_ns: dict[str, int] = {}
        self._kept_back: dict[str, int] = {}

    def take(self, kind: str, now_ns: int) -> int | None:
        """Ask to log one line of `kind`. Return None for "not now", else how many lines were kept back before it."""
        if kind not in self._free_at_ns and len(self._free_at_ns) >= _KINDS_MAX:
            kind = _OTHERS
        earliest_ns = now_ns - (BURST - 1) * INTERVAL_NS
        free_at_ns = max(self._free_at_ns.get(kind, earliest_ns), earliest_ns)
        if free_at_ns > now_ns:
            self._kept_back[kind] = self._kept_back.get(kind, 0) + 1
            return None
        self._free_at_ns[kind] = free_at_ns + INTERVAL_NS
        return self._kept_back.pop(kind, 0)

    def due(self, now_ns: int) -> dict[str, int]:
        """Return how many lines were kept back, for each kind that may be logged now: a flood that is over is told."""
        due = {kind: count for kind, count in self._kept_back.items() if self._free_at_ns[kind] <= now_ns}
        for kind in due:
            self.take(kind, now_ns)
        return due
