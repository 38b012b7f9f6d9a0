"""Combining last-add-confirmed answers of one ensemble, with fencing and without.

Rules: spec/wire.md#W51, W52, W63; CONFORMANCE.md#B12 to B14.
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
        """`floor`: what is known to be confirmed already; the answer never lies below it (CONFORMANCE.md#P30)."""
        self._coverage = Coverage(schedule)
        self._error: BookieError | None = None
        self.lac = floor

    def found(self, slot: int, lac: EntryId) -> None:
        """A verified entry or LAC record with this LAC came from `slot`."""
        self._coverage.answer(slot, Answer.POSITIVE)
        self.lac = max(self.lac, lac)

    def failed(self, slot: int, error: BookieError) -> None:
        """`slot` answered with an error. A negative is knowledge: it was fenced, and it has nothing
        (CONFORMANCE.md#B14).

        Unauthorized is unknown as well: the password was held against the metadata before anybody was asked, so a
        bookie that refuses it was told another key by a stranger (BookKeeper lets the first who speaks set it). Java's
        client gives up at the first such bookie (ReadLastConfirmedOp.java), and the stranger has taken the ledger away.
        """
        self._coverage.answer(slot, error.answer)
        if error.answer is Answer.UNKNOWN and (self._error is None or isinstance(error, errors.Unauthorized)):
            self._error = error

    @property
    def is_covered(self) -> bool:
        """True when no ack quorum can have confirmed more than `lac`, or (fencing) can still take adds."""
        return self._coverage.is_covered

    @property
    def error(self) -> BookieError | None:
        """Why coverage can no longer be reached; None while it still can."""
        if not self._coverage.is_hopeless:
            return None
        if isinstance(self._error, errors.Unauthorized):
            return self._error
        cause = f": {self._error}" if self._error is not None else ""
        return errors.QuorumNotReached(
            f"too many bookies of the ensemble cannot say what they have{cause}; "
            "nothing was decided, try again when they are back"
        )
