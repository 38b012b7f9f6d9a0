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
    """Something expected went wrong. `status` goes on the wire. `retryable`: the same call may work later.
    `fatal`: the process or handle that meets the error must stop."""

    status: ClassVar[Status] = Status.EIO
    answer: ClassVar[Answer] = Answer.UNKNOWN
    retryable: bool = False  # of the class, unless the handle that was called is dead: see `final`
    fatal: ClassVar[bool] = False


E = TypeVar("E", bound=BookieError)


def final(error: E) -> E:
    """Return `error` as a handle that has ended raises it: not retryable, since no later call of this handle works."""
    if not error.retryable:
        return error
    said = copy.copy(error)  # other handles may hold the same object, and they may try again
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
    """A request has a field that no bookie can serve."""


class StorageFailed(BookieError):
    """The bookie could not do what was asked. This says nothing about whether the entry exists."""

    retryable = True


class Unauthorized(BookieError):
    """The master key or the password is wrong. Writers end at this error: no bookie answers it for a passing fault."""

    status = Status.EUA


class WrongPassword(Unauthorized):
    """The password is not that of the ledger's metadata: no bookie was asked."""


class BadVersion(BookieError):
    status = Status.EBADVERSION


class LedgerFenced(BookieError):
    """Another client recovers this ledger. A writer does not know the outcome of its pending adds."""

    status = Status.EFENCED


class BookieReadOnly(BookieError):
    status = Status.EREADONLY


class TooManyRequests(BookieError):
    status = Status.ETOOMANYREQUESTS
    retryable = True


class UnknownLedgerState(BookieError):
    """The bookie may have lost entries of this ledger (limbo), so it cannot deny that an entry exists."""

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
    """There is no connection to the bookie, or it broke: the bookie may or may not have done what was asked."""

    retryable = True


class ClientClosed(BookieUnavailable):
    """The application closed the client through which this call was made."""

    retryable = False


class RequestTimedOut(BookieError):
    retryable = True


class DigestMismatch(BookieError):
    """A replica sent an entry with a wrong digest or other ids: that replica is bad. Never an explicit negative."""


class NotEnoughBookies(BookieError):
    retryable = True


class QuorumNotReached(BookieError):
    """Too many bookies could not say what they have. The client decided nothing and changed nothing."""

    retryable = True


class LedgerClosed(BookieError):
    """The ledger has its end: nobody can append to it any more."""


class LedgerRecoveryFailed(BookieError):
    retryable = True


class LedgerMissing(BookieError):
    """The metadata store has no such ledger (as opposed to NoSuchLedger, one bookie's answer)."""


class LedgerExists(BookieError):
    """Another ledger has the id that the caller chose."""


class NobodyAudits(BookieError):
    """Java's auto-recovery does not run or is switched off, so no auditor would act on the request."""


# ---- the metadata store ---------------------------------------------------------------------------------------------


class MetadataError(BookieError):
    """The metadata store cannot be reached or answered with an error."""

    retryable = True


class OutcomeUnknown(MetadataError):
    """The answer was lost: the change may have happened. Read before acting again."""


class MetadataDenied(MetadataError):
    """The metadata store refuses us: it does not know us, or does not allow the call. This never proves that something
    is missing there."""

    retryable = False


class NodeMissing(MetadataError):
    retryable = False


class BookieUnknown(NodeMissing):
    """The cluster shows no sign of this bookie: its id may be mistyped."""


class NodeExists(MetadataError):
    retryable = False


class VersionConflict(MetadataError):
    retryable = False


class SessionLost(MetadataError):
    """Our session is gone, and with it our ephemeral nodes."""


# What one record alone may cause, by its bytes or by who may read it. Whoever goes through many keeps it to that one,
# which is not known then, or it would keep all others from being looked at. A store that gives no answer is another
# matter: it ends the look.
UNREADABLE = (BadInput, MetadataDenied)


# ---- the disk -------------------------------------------------------------------------------------------------------


class DiskFailed(StorageFailed):
    """A write or sync failed. After a failed sync nothing is known about what is on disk: the node stops."""

    fatal = True
    retryable = False


class DiskFull(StorageFailed):
    """The file system has no space left. Nothing that was synced is lost, and the caller may try again."""


class OutOfResources(StorageFailed):
    """The process or its machine is short of descriptors or memory. The disk did not change; the caller may try
    again."""


class PartitionFailed(StorageFailed):
    """One ledger directory takes no more writes. The other directories, the journal and the memory are unharmed."""

    retryable = False


class FileMissing(StorageFailed):
    """There is no file of this name."""


class CorruptFile(StorageFailed):
    """A file holds bytes that fail their check. The text names the file, the offset and what to do."""

    retryable = False


# What helps where a bookie cannot do without what is damaged (docs/INTEGRITY.md, "A volume that is damaged").
TREAT_AS_LOST = (
    "treat this volume as lost: move all that is in it away (in Kubernetes: delete its claim, then the pod) and start"
    " this bookie again; it waits for its grant, and copies what the volume had from other bookies"
)


# ---- starting ------------------------------------------------------------------------------------------------------


class RefusedToStart(BookieError):
    """The process cannot start safely; one sentence says why and what to do."""

    fatal = True


class NoCluster(RefusedToStart):
    """The metadata store has nothing at the root of the service URI. Each caller words its own advice: a bookie that
    has data must never be told to make a cluster."""


class GrantRefused(BookieError):
    """A grant does not match what this bookie sees now. `reason` is a stable word for machines."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason
