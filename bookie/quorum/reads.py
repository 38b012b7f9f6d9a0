"""Reading one entry: which replica next, and what the answers together mean.

Rules: bp46 B8-B11, B16, B17; PendingReadOp.java, ReadOpBase.java; wire 10.4 step 6, 10.5. One positive answer is
enough and ends the read; the driver reports only what failed.

    negatives >= needed      -> ABSENT      (proof: needed = WQ for a reader, WQ-AQ+1 for recovery)
    every replica failed     -> UNDECIDED   (at least one unknown among them), with the most telling error
    otherwise                -> OPEN        (ask the next replica, or wait for one that was asked)
"""

import enum
from collections.abc import Sequence

from bookie.base import errors
from bookie.base.errors import Answer, BookieError


class Outcome(enum.Enum):
    OPEN = "open"
    ABSENT = "absent"
    UNDECIDED = "undecided"


class ReadPlan:
    """The way of one read through its replicas. `replicas` are slots in the order in which to ask them."""

    __slots__ = ("_error", "_failed", "_negative", "_negatives_needed", "_next", "_replicas", "negatives")

    def __init__(self, replicas: Sequence[int], *, negatives_needed: int) -> None:
        assert 1 <= negatives_needed <= len(replicas)
        self._replicas = replicas
        self._negatives_needed = negatives_needed
        self._next = 0
        self._failed = 0
        self.negatives = 0
        self._negative: BookieError | None = None
        self._error: BookieError | None = None

    def next_replica(self) -> int | None:
        """The next slot to ask, or None when all were asked."""
        if self._next == len(self._replicas):
            return None
        slot = self._replicas[self._next]
        self._next += 1
        return slot

    @property
    def outstanding(self) -> int:
        """How many replicas were asked and did not answer yet."""
        return self._next - self._failed

    def failed(self, error: BookieError) -> Outcome:
        """Count the answer of one replica that was asked."""
        assert self._failed < self._next, "more answers than questions"
        self._failed += 1
        if error.answer is Answer.NEGATIVE:
            self.negatives += 1
            self._negative = self._negative or error
        else:
            self._error = _more_telling(self._error, error)
        return self.outcome

    @property
    def outcome(self) -> Outcome:
        if self.negatives >= self._negatives_needed:
            return Outcome.ABSENT
        if self._failed == len(self._replicas):
            return Outcome.UNDECIDED
        return Outcome.OPEN

    @property
    def error(self) -> BookieError:
        """What to tell the caller: an explicit negative only if that is proven, else the first telling unknown
        (B10, B11; wire 10.5 step 3). Only when the outcome is not OPEN."""
        assert self.outcome is not Outcome.OPEN
        error = self._negative if self.outcome is Outcome.ABSENT else self._error
        assert error is not None
        return error


def _more_telling(first: BookieError | None, second: BookieError) -> BookieError:
    """The first error wins, but "unavailable" yields to anything that says more."""
    if first is None or (
        isinstance(first, errors.BookieUnavailable) and not isinstance(second, errors.BookieUnavailable)
    ):
        return second
    return first
