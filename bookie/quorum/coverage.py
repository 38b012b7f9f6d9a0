"""Decides when answers from an ensemble are enough: no ack quorum may hide among the bookies that did not answer.

Rules: spec/wire.md#W51; spec/bp46.md#R2, S15; CONFORMANCE.md#B6, B7. In each write set fewer than AQ members are
unknown, i.e. at least WQ-AQ+1 are known.
"""

import enum

from bookie.base.errors import Answer
from bookie.quorum.schedule import Schedule


class Fact(enum.Enum):
    """What one slot has answered. SILENT may still change; the others are final."""

    SILENT = "silent"
    KNOWN = "known"  # positive or explicit negative
    UNKNOWN = "unknown"  # an error that proves nothing


class Coverage:
    """Collects one final fact per slot of one ensemble."""

    __slots__ = ("_facts", "_schedule")

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._facts = [Fact.SILENT] * schedule.ensemble_size

    def answer(self, slot: int, answer: Answer) -> None:
        """Note what an answer of `slot` proves. KNOWN stays KNOWN; UNKNOWN may still become KNOWN."""
        if self._facts[slot] is not Fact.KNOWN:
            self._facts[slot] = Fact.UNKNOWN if answer is Answer.UNKNOWN else Fact.KNOWN

    @property
    def is_covered(self) -> bool:
        """True when every write set has fewer than AQ members that are not known (CONFORMANCE.md#B7, B12)."""
        return self._fewer_than_ack_quorum(Fact.SILENT, Fact.UNKNOWN)

    @property
    def is_hopeless(self) -> bool:
        """True when no further answer can lead to coverage: some write set has AQ unknown members
        (CONFORMANCE.md#B13)."""
        return not self._fewer_than_ack_quorum(Fact.UNKNOWN)

    def _fewer_than_ack_quorum(self, *facts: Fact) -> bool:
        return all(
            sum(self._facts[slot] in facts for slot in write_set) < self._schedule.ack_quorum
            for write_set in self._schedule.write_sets
        )
