"""Combines the answers of one ensemble about the last add confirmed (LAC), with fencing and without.

Rules: spec/wire.md#W51, W52, W63; CONFORMANCE.md#B12 to B14.
This is stricter than Java in two ways: a reply with a bad digest is unknown (Java counts it as known), and the length
that comes with the greatest LAC is not taken for the ledger's length (see `quorum.recovery`).
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
        """`floor`: an entry known to be confirmed; `lac` never lies below it (CONFORMANCE.md#P30)."""
        self._coverage = Coverage(schedule)
        self._error: BookieError | None = None
        self.lac = floor

    def found(self, slot: int, lac: EntryId) -> None:
        """Count an answer: `slot` sent a verified entry or LAC record with this LAC."""
        self._coverage.answer(slot, Answer.POSITIVE)
        self.lac = max(self.lac, lac)

    def failed(self, slot: int, error: BookieError) -> None:
        """Count an error of `slot`. A negative is knowledge: the slot is fenced and has nothing (CONFORMANCE.md#B14).

        Unauthorized is unknown as well. The client compared the password with the metadata before it asked, so a bookie
        that refuses it got another key from a stranger (a bookie takes the key of the first request for a ledger).
        Java's client gives up at the first such bookie (ReadLastConfirmedOp.java), so a stranger can block a ledger.
        """
        self._coverage.answer(slot, error.answer)
        if error.answer is Answer.UNKNOWN and (self._error is None or isinstance(error, errors.Unauthorized)):
            self._error = error

    @property
    def is_covered(self) -> bool:
        """Return True when no ack quorum can have confirmed more than `lac`, or (fencing) can still take adds."""
        return self._coverage.is_covered

    @property
    def error(self) -> BookieError | None:
        """Return why no further answer can lead to coverage; None while one still can."""
        if not self._coverage.is_hopeless:
            return None
        if isinstance(self._error, errors.Unauthorized):
            return self._error
        cause = f": {self._error}" if self._error is not None else ""
        return errors.QuorumNotReached(
            f"too many bookies of the ensemble cannot say what they have{cause}; "
            "nothing was decided: try again when they are back"
        )
