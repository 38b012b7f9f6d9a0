"""How often a line that strangers can cause may be said. Pure: the caller has the clock and says the line."""

from bookie.base.units import NS_PER_S

# Of one kind: this many at once, then one an interval. All kinds together stay below some KiB a second.
BURST = 5
INTERVAL_NS = 10 * NS_PER_S
# Kinds are named by our code, never by a stranger; this many is a defect of ours, and what is beyond shares one name.
_KINDS_MAX = 256
_OTHERS = "others"


class LineLimit:
    """A token bucket for each kind of line, and what it kept back."""

    def __init__(self) -> None:
        self._free_at_ns: dict[str, int] = {}
        self._kept_back: dict[str, int] = {}

    def take(self, kind: str, now_ns: int) -> int | None:
        """Ask for one line of `kind`: None means "not now"; else how many were kept back since the last one said."""
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
        """How many were kept back, by kind, where a line may be said now: for a flood that is over."""
        due = {kind: count for kind, count in self._kept_back.items() if self._free_at_ns[kind] <= now_ns}
        for kind in due:
            self.take(kind, now_ns)
        return due
