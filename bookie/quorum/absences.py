"""Decides since when a bookie is away, and from when on it counts as lost. Pure.

A restart is no loss: whoever copies a bookie's data elsewhere at its first silence moves the whole cluster about at
each rolling restart. So each bookie has its own time, and a bookie that came back begins anew. Java's auditor audits at
once when two are away (Auditor.java); here the second one waits for its own delay. Rules: spec/metadata.md#M45, M46.
"""

from collections.abc import Collection, Iterable

from bookie.base.ids import BookieId


class Absences:
    """Since when each bookie is away, as this process saw it: a new process begins to count at its first look."""

    def __init__(self) -> None:
        self._since_ns: dict[BookieId, int] = {}

    def seen(self, known: Iterable[BookieId], present: Collection[BookieId], now_ns: int) -> list[BookieId]:
        """Note who is registered of the bookies that are `known`. Return those that came back."""
        returned = sorted(each for each in self._since_ns if each in present)
        for each in returned:
            del self._since_ns[each]
        for each in known:
            if each not in present:
                self._since_ns.setdefault(each, now_ns)
        return returned

    def away_ns(self, bookie_id: BookieId, now_ns: int) -> int:
        """Return how long the bookie is away; 0 for one that is present or was never asked about."""
        return now_ns - self._since_ns.get(bookie_id, now_ns)

    def lost(self, now_ns: int, *, delay_ns: int) -> frozenset[BookieId]:
        """Return the bookies that are away for `delay_ns` or longer."""
        return frozenset(each for each, since_ns in self._since_ns.items() if now_ns - since_ns >= delay_ns)

    def next_loss_ns(self, now_ns: int, *, delay_ns: int) -> int | None:
        """Return when the next bookie will count as lost; None while nobody else is away."""
        due = [since_ns + delay_ns for since_ns in self._since_ns.values() if now_ns - since_ns < delay_ns]
        return min(due, default=None)


def is_believable(present: Collection[BookieId], known: Collection[BookieId]) -> bool:
    """Return False when so many bookies are away at once that it looks like a trouble of the metadata store or of the
    network, not like lost disks: after an outage of the store every registration is gone for a moment, and whoever
    believed it would move the whole cluster. At least half of those with a cookie must be there (spec/metadata.md#M46).
    """
    return 2 * sum(each in present for each in known) >= len(known)
