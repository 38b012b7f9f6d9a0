"""The error tree, and the one table that ties it to the wire.

Three families (STYLE.md, 4): operating errors are subclasses of BookieError; bad input is one of them; programming
errors are asserts and never appear here. `answer` says how quorum rules must count an error (BP-46, "responses"):
an explicit negative is proof of absence, everything else that is not a positive is unknown.
"""

import copy
import enum
from typing import ClassVar, TypeVar


class Status(enum.IntEnum):
    """Status numbers of the v3 protocol (BookkeeperProtocol.proto, StatusCode), canonical in this code base."""

    EOK = 0
    ENOLEDGER = 402
    ENOENTRY = 403
    EBADREQ = 404
    EIO = 501
    EUA = 502
    EBADVERSION = 503
    EFENCED = 504
    EREADONLY = 505
    ETOOMANYREQUESTS = 506
    EUNKNOWNLEDGERSTATE = 507


class Answer(enum.Enum):
    """What one bookie's answer proves (spec/bp46.md#R1; CONFORMANCE.md#B4, B5)."""

    POSITIVE = "positive"
    NEGATIVE = "explicit negative"
    UNKNOWN = "unknown"


class BookieError(Exception):
    """Something expected went wrong. `status` goes on the wire; `retryable`: the same call may work later;
    `fatal`: the process (or the handle) that met it must stop."""

    status: ClassVar[Status] = Status.EIO
    answer: ClassVar[Answer] = Answer.UNKNOWN
    retryable: bool = False  # of the class, unless the handle that was called is dead: see `final`
    fatal: ClassVar[bool] = False


E = TypeVar("E", bound=BookieError)


def final(error: E) -> E:
    """`error` as a handle says it that it ended: whatever works later elsewhere, no call of this handle will."""
    if not error.retryable:
        return error
    said = copy.copy(error)  # others may hold the same one, and still be able to try again
    said.__cause__ = error.__cause__
    said.retryable = False
    return said


class BadInput(BookieError):
    """Bytes, metadata, settings or options that cannot be used. The text names the thing, why, and what to try."""

    status = Status.EBADREQ


# ---- what a bookie may answer ---------------------------------------------------------------------------------------


class NoSuchLedger(BookieError):
    status = Status.ENOLEDGER
    answer = Answer.NEGATIVE


class NoSuchEntry(BookieError):
    status = Status.ENOENTRY
    answer = Answer.NEGATIVE


class BadRequest(BadInput):
    status = Status.EBADREQ


class StorageFailed(BookieError):
    """The bookie could not do it; says nothing about whether the entry exists."""

    status = Status.EIO
    retryable = True


class Unauthorized(BookieError):
    """Wrong master key or password. Kills a writer: never answered for a passing fault."""

    status = Status.EUA


class BadVersion(BookieError):
    status = Status.EBADVERSION


class LedgerFenced(BookieError):
    """Somebody recovers this ledger. For a writer: the outcome of its pending adds is unknown (protocol, fencing)."""

    status = Status.EFENCED


class BookieReadOnly(BookieError):
    status = Status.EREADONLY


class TooManyRequests(BookieError):
    status = Status.ETOOMANYREQUESTS
    retryable = True


class UnknownLedgerState(BookieError):
    """The bookie may have lost entries of this ledger (limbo): it cannot say no."""

    status = Status.EUNKNOWNLEDGERSTATE
    retryable = True


BY_STATUS: dict[Status, type[BookieError]] = {
    cls.status: cls
    for cls in (
        NoSuchLedger,
        NoSuchEntry,
        BadRequest,
        StorageFailed,
        Unauthorized,
        BadVersion,
        LedgerFenced,
        BookieReadOnly,
        TooManyRequests,
        UnknownLedgerState,
    )
}
assert set(BY_STATUS) == set(Status) - {Status.EOK}


# ---- what a client may meet besides ---------------------------------------------------------------------------------


class BookieUnavailable(BookieError):
    """No connection, or it broke: the request may or may not have been done."""

    retryable = True


class ClientClosed(BookieUnavailable):
    """The client that this call is made through was closed: it does nothing any more."""

    retryable = False


class RequestTimedOut(BookieError):
    retryable = True


class DigestMismatch(BookieError):
    """An entry whose digest or ids are not what was asked for: one replica is bad. Never an explicit negative."""


class NotEnoughBookies(BookieError):
    retryable = True


class QuorumNotReached(BookieError):
    """Too many answers were unknown to decide. Nothing was decided; nothing was changed."""

    retryable = True


class LedgerClosed(BookieError):
    pass


class LedgerRecoveryFailed(BookieError):
    retryable = True


class LedgerMissing(BookieError):
    """The metadata store has no such ledger (as opposed to NoSuchLedger, one bookie's answer)."""


class LedgerExists(BookieError):
    pass


class NobodyAudits(BookieError):
    """Java's auto-recovery is not there, or switched off: what is asked of its auditor would be heard by nobody."""


# ---- the metadata store ---------------------------------------------------------------------------------------------


class MetadataError(BookieError):
    """The metadata store cannot be reached or answered with an error."""

    retryable = True


class OutcomeUnknown(MetadataError):
    """The answer was lost: the change may have happened. Read before acting again."""


class MetadataDenied(MetadataError):
    """The metadata store knows us and says no, or does not know us. Never a sign that something is missing there."""

    retryable = False


class NodeMissing(MetadataError):
    retryable = False


class NodeExists(MetadataError):
    retryable = False


class VersionConflict(MetadataError):
    retryable = False


class SessionLost(MetadataError):
    """Our session is gone, and with it our ephemeral nodes."""


# ---- the disk -------------------------------------------------------------------------------------------------------


class DiskFailed(StorageFailed):
    """A write or sync failed. After a failed sync nothing is known about what is on disk: the node stops."""

    fatal = True
    retryable = False


class DiskFull(StorageFailed):
    pass


class OutOfResources(StorageFailed):
    """The process, or its machine, is short of descriptors or memory: the disk is as it was, and so is what was to be
    written. It may be tried again."""


class PartitionFailed(StorageFailed):
    """One ledger directory takes no more writes; the others, the journal and what is in memory are as they were."""

    retryable = False


class FileMissing(StorageFailed):
    pass


class CorruptFile(StorageFailed):
    """Bytes on disk that do not check. The text names file, offset and what to do."""

    retryable = False


# ---- starting ------------------------------------------------------------------------------------------------------


class RefusedToStart(BookieError):
    """The process cannot start safely; one sentence says why and what to do."""

    fatal = True


class NoCluster(RefusedToStart):
    """Nothing at the root of the metadata service URI. What to do about it depends on who asks: a bookie with data is
    never told to make a cluster."""


class GrantRefused(BookieError):
    """A grant did not match what this bookie sees now. `reason` is a stable word for machines."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason
