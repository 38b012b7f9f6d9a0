"""Counts surplus: ledgers with entries here although their closed records name this bookie nowhere.

A repair or an ensemble change that named others left it, or a repair that was cut. Nothing is deleted because of it: a
repairer copies first and names us afterwards, so what looks like surplus may be the copy that is about to count
(docs/decisions/0024-surplus-is-counted-and-kept.md).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.metadata import serde
from bookie.ports.metrics import Sample


def is_surplus(record: bytes, me: BookieId) -> bool:
    """Return True when `record` is of a closed ledger that `me` is nowhere in; False when it cannot be read."""
    if me.encode() in record:
        return False  # nearly always; a name that only contains ours is counted short
    try:
        metadata = serde.load_ledger(record)
    except errors.BadInput:
        return False
    return metadata.is_closed and not metadata.names(me)


@dataclass(slots=True)
class Surplus:
    """The number of the run that goes on, and that of the last complete one."""

    _now: int = 0
    _last: int | None = None

    def begin(self) -> None:
        self._now = 0

    def found(self) -> None:
        self._now += 1

    def end(self) -> bool:
        """Take over the number of a run that is complete. Return True when it is news."""
        was, self._last = self._last, self._now
        return self._last != (was or 0)

    @property
    def ledgers(self) -> int | None:
        """Return the number of the last complete run; None before the first."""
        return self._last

    def samples(self) -> Iterator[Sample]:
        if self._last is not None:  # nobody has looked yet: no number is better than a zero
            text = "Closed ledgers with entries here whose records do not name this bookie; kept."
            yield Sample("bookie_gc_surplus_ledgers", "gauge", text, self._last)
