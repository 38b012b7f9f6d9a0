"""Combining last-add-confirmed answers of one ensemble, with fencing and without.

Rules: bp46 7.1, B12, B13, B14; ReadLastConfirmedOp.java, PendingReadLacOp.java; wire 10.3, 10.4 step 4, 10.6.
Two differences to Java, both stricter: a reply with a bad digest is unknown (in Java it already counts as known), and
the length that travels with the greatest LAC is not trusted as the ledger's length (see `quorum.recovery`).
"""

from bookie.base import errors
from bookie.base.errors import Answer, BookieError
from bookie.base.ids import INVALID_ENTRY_ID, EntryId
from bookie.quorum.coverage import Coverage
from bookie.quorum.schedule import Schedule


class LacQuery:
    """One question to all slots of an ensemble. In: `found`, `failed`. Out: `is_covered`, `lac`, `error`."""

    __slots__ = ("_coverage", "_error", "lac")

    def __init__(self, schedule: Schedule, *, floor: EntryId = INVALID_ENTRY_ID) -> None:
        """`floor`: what is known to be confirmed already; the answer never lies below it (P30)."""
        self._coverage = Coverage(schedule)
        self._error: BookieError | None = None
        self.lac = floor

    def found(self, slot: int, lac: EntryId) -> None:
        """A verified entry or LAC record with this LAC came from `slot`."""
        self._coverage.answer(slot, Answer.POSITIVE)
        self.lac = max(self.lac, lac)

    def failed(self, slot: int, error: BookieError) -> None:
        """`slot` answered with an error. A negative is knowledge: it was fenced, and it has nothing (B14).

        Unauthorized ends the question: no answer of another bookie can make a wrong password right.
        """
        self._coverage.answer(slot, error.answer)
        if error.answer is Answer.UNKNOWN:
            is_final = isinstance(error, errors.Unauthorized) and not isinstance(self._error, errors.Unauthorized)
            if self._error is None or is_final:
                self._error = error

    @property
    def is_covered(self) -> bool:
        """True when no ack quorum can have confirmed more than `lac`, or (fencing) can still take adds."""
        return self._coverage.is_covered and not isinstance(self._error, errors.Unauthorized)

    @property
    def error(self) -> BookieError | None:
        """Why coverage can no longer be reached; None while it still can."""
        if isinstance(self._error, errors.Unauthorized):
            return self._error
        if not self._coverage.is_hopeless:
            return None
        cause = f": {self._error}" if self._error is not None else ""
        return errors.QuorumNotReached(
            f"too many bookies of the ensemble cannot say what they have{cause}; "
            "nothing was decided, try again when they are back"
        )
