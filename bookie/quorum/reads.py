"""Decides the read of one entry: which replica to ask next, and what the answers together mean.

Rules: spec/wire.md#W54, W59; spec/bp46.md#R3; CONFORMANCE.md#B8 to B11, B16, B17. One positive answer is
enough and ends the read; the driver reports only what failed.

    negatives >= needed      -> ABSENT      (proof: needed = WQ for a reader, WQ-AQ+1 for recovery)
    every replica failed     -> UNDECIDED   (not all of them negative), with the most telling error
    otherwise                -> OPEN        (ask the next replica, or wait for one that was asked)

The error calls an entry damaged only when every replica gave an answer and none has it whole. A replica that could not
answer may have the entry whole, so that another read may succeed.
"""

import enum
from collections.abc import Sequence

from bookie.base import errors
from bookie.base.errors import Answer, BookieError


class ReadOutcome(enum.Enum):
    OPEN = "open"
    ABSENT = "absent"
    UNDECIDED = "undecided"


class ReadPlan:
    """Counts the answers to one read. `replicas` are slots in the order in which to ask them."""

    __slots__ = ("_damage", "_failed", "_negative", "_negatives_needed", "_next", "_replicas", "_unknown", "negatives")

    def __init__(self, replicas: Sequence[int], *, negatives_needed: int) -> None:
        assert 1 <= negatives_needed <= len(replicas)
        self._replicas = replicas
        self._negatives_needed = negatives_needed
        self._next = 0
        self._failed = 0
        self.negatives = 0
        self._negative: BookieError | None = None
        self._damage: BookieError | None = None
        self._unknown: BookieError | None = None

    def next_replica(self) -> int | None:
        """Return the next slot to ask, or None when all were asked."""
        if self._next == len(self._replicas):
            return None
        slot = self._replicas[self._next]
        self._next += 1
        return slot

    @property
    def outstanding(self) -> int:
        """Return how many replicas were asked and did not answer yet."""
        return self._next - self._failed

    def failed(self, error: BookieError) -> ReadOutcome:
        """Count the answer of one replica that was asked."""
        assert self._failed < self._next, "more answers than questions"
        self._failed += 1
        if error.answer is Answer.NEGATIVE:
            self.negatives += 1
            self._negative = self._negative or error
        elif isinstance(error, errors.DigestMismatch):
            self._damage = self._damage or error
        else:
            self._unknown = _more_telling(self._unknown, error)
        return self.outcome

    @property
    def outcome(self) -> ReadOutcome:
        if self.negatives >= self._negatives_needed:
            return ReadOutcome.ABSENT
        if self._failed == len(self._replicas):
            return ReadOutcome.UNDECIDED
        return ReadOutcome.OPEN

    @property
    def error(self) -> BookieError:
        """The error for the caller: an explicit negative or damage only if that is proven, else the first unknown that
        names a cause (spec/wire.md#W59; CONFORMANCE.md#B10, B11). Only when the outcome is not OPEN."""
        assert self.outcome is not ReadOutcome.OPEN
        if self.outcome is ReadOutcome.ABSENT:
            error = self._negative
        elif self._unknown is not None and self._damage is not None:
            error = type(self._unknown)(f"{self._unknown}; another replica is damaged: {self._damage}")
        else:
            error = self._unknown or self._damage
        assert error is not None
        return error


def _more_telling(first: BookieError | None, second: BookieError) -> BookieError:
    """Return the first error, or the second when the first is "unavailable" and the second says more."""
    if first is None or (
        isinstance(first, errors.BookieUnavailable) and not isinstance(second, errors.BookieUnavailable)
    ):
        return second
    return first
