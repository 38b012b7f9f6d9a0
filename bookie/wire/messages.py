"""Requests and responses, as records shared by both protocol versions.

`txn` correlates a response with its request on one connection (v3: the header's txnId; v2: made up by the session).
`version` is the encoding, 2 or 3. Bodies borrow or own their bytes as the codec says. Records of the hot path: slots,
not frozen (STYLE.md, 12).
"""

from dataclasses import dataclass, field

from bookie.base.errors import Status
from bookie.base.ids import BootEpoch, EntryId, Incarnation, LedgerId, Life
from bookie.wire.codes import Operation

Buffer = bytes | bytearray | memoryview
READS_MAX = 64  # in one ReadRun
ADDS_MAX = 2048  # in one AddRun or AddMix: they take the loop some milliseconds
REQUESTS_MAX = 128  # unpacked in one go, a run counted as one: they too take some milliseconds


@dataclass(slots=True)
class AddRequest:
    """Store `body`, a whole entry envelope (`wire.entry`), under the given ids."""

    txn: int
    version: int
    ledger_id: LedgerId
    entry_id: EntryId
    master_key: bytes = field(repr=False)
    body: Buffer
    is_recovery: bool = False
    is_deferred: bool = False
    is_high_priority: bool = False


@dataclass(slots=True)
class AddRun:
    """Adds of one ledger that came together and differ only in entry and body, as a busy writer sends them.

    A bookie's session makes runs of adds, so that the work per add is a few operations on columns. The three columns
    have the same length and the order of arrival. No read came between two adds of a run.
    """

    version: int
    ledger_id: LedgerId
    master_key: bytes = field(repr=False)
    is_recovery: bool
    is_deferred: bool
    is_high_priority: bool
    txns: list[int]
    entry_ids: list[EntryId]
    bodies: list[bytes]


@dataclass(slots=True)
class AddMix:
    """Plain adds (no flags) of many ledgers that came together, as a client with many open ledgers sends them.

    A chunk begins a run with its first ledger; what comes of other ledgers is the mix, so that a ledger has its adds in
    one of the two. The five columns have the same length and the order of arrival. No read came in between.
    """

    version: int
    ledger_ids: list[LedgerId]
    master_keys: list[bytes] = field(repr=False)
    txns: list[int]
    entry_ids: list[EntryId]
    bodies: list[bytes]


@dataclass(slots=True)
class ReadRequest:
    """`entry_id` -1 is the highest stored entry. `previous_lac` set (and not fencing): a long poll of `timeout_ms`."""

    txn: int
    version: int
    ledger_id: LedgerId
    entry_id: EntryId
    master_key: bytes | None = field(default=None, repr=False)
    is_fencing: bool = False
    previous_lac: int | None = None
    timeout_ms: int | None = None
    is_piggyback: bool = False
    is_high_priority: bool = False


@dataclass(slots=True)
class ReadRun:
    """Plain reads (no fence, no long poll) of one ledger that came together.

    The columns have the same length and the order of arrival. At most `READS_MAX`, since answers may have any size.
    """

    version: int
    ledger_id: LedgerId
    txns: list[int]
    entry_ids: list[EntryId]


@dataclass(slots=True)
class BatchReadRequest:
    """v2 only: consecutive entries from `entry_id`; `count_max` <= 0 is no limit on the count."""

    txn: int
    version: int
    ledger_id: LedgerId
    entry_id: EntryId
    count_max: int
    size_max: int
    master_key: bytes | None = field(default=None, repr=False)
    is_fencing: bool = False
    is_high_priority: bool = False


@dataclass(slots=True)
class WriteLacRequest:
    """Store an explicit LAC. `body` counts (`wire.digest`, LAC body); `lac` is for information only."""

    txn: int
    version: int
    ledger_id: LedgerId
    lac: int
    master_key: bytes = field(repr=False)
    body: Buffer


@dataclass(slots=True)
class ReadLacRequest:
    txn: int
    version: int
    ledger_id: LedgerId


@dataclass(slots=True)
class ForceRequest:
    txn: int
    version: int
    ledger_id: LedgerId


@dataclass(slots=True)
class ListEntriesRequest:
    txn: int
    version: int
    ledger_id: LedgerId


@dataclass(slots=True)
class BookieInfoRequest:
    """`requested` is a bit set of `codes.INFO_*`."""

    txn: int
    version: int
    requested: int


@dataclass(slots=True)
class AuthRequest:
    txn: int
    version: int
    plugin: str
    payload: bytes


@dataclass(slots=True)
class StartTlsRequest:
    txn: int
    version: int


@dataclass(slots=True)
class UnknownRequest:
    """An operation that has a number but no implementation (v3: 3, 4 and 12). The answer is EBADREQ, header only."""

    txn: int
    version: int
    operation: Operation


@dataclass(slots=True)
class RefusedRequest:
    """A readable request that no bookie can serve (wrong header version, missing sub-message), with its answer."""

    txn: int
    version: int
    response: "Outgoing"


@dataclass(slots=True)
class AddResponse:
    """`last_synced`: the bookie has the ledger on disk up to this entry (BP-14); v3, in answers to deferred adds."""

    txn: int
    version: int
    status: Status
    ledger_id: LedgerId
    entry_id: EntryId
    last_synced: int | None = None


@dataclass(slots=True)
class AddRunResponse:
    """One status for every add of a run or mix: as many answers on the wire as it has adds."""

    version: int
    status: Status
    run: AddRun | AddMix
    last_synced: int | None = None


@dataclass(slots=True)
class ReadResponse:
    """`entry_id` echoes the request, -1 included; only a long poll that brings an entry answers with its real id."""

    txn: int
    version: int
    status: Status
    ledger_id: LedgerId
    entry_id: EntryId
    body: Buffer | None = None
    max_lac: int | None = None
    lac_update_ms: int | None = None


@dataclass(slots=True)
class ReadRunResponse:
    """Answers to plain reads of one ledger, one on the wire for each txn. `bodies`: one for each when `status` is EOK,
    else none. `max_lac`: for v3 only; None: not known."""

    version: int
    status: Status
    ledger_id: LedgerId
    txns: list[int]
    entry_ids: list[EntryId]
    bodies: list[Buffer]
    max_lac: int | None = None


@dataclass(slots=True)
class BatchReadResponse:
    txn: int
    version: int
    status: Status
    ledger_id: LedgerId
    entry_id: EntryId
    bodies: tuple[Buffer, ...] = ()


@dataclass(slots=True)
class WriteLacResponse:
    txn: int
    version: int
    status: Status
    ledger_id: LedgerId


@dataclass(slots=True)
class ReadLacResponse:
    txn: int
    version: int
    status: Status
    ledger_id: LedgerId
    lac_body: Buffer | None = None
    last_entry_body: Buffer | None = None


@dataclass(slots=True)
class ForceResponse:
    txn: int
    version: int
    status: Status
    ledger_id: LedgerId


@dataclass(slots=True)
class ListEntriesResponse:
    """`availability` in the form of `wire.availability`."""

    txn: int
    version: int
    status: Status
    ledger_id: LedgerId
    availability: bytes | None = None


@dataclass(slots=True)
class BookieInfoResponse:
    """`incarnation` and `boot_epoch`: only our bookies send them, and only when asked for `codes.INFO_LIFE`."""

    txn: int
    version: int
    status: Status
    total_bytes: int | None = None
    free_bytes: int | None = None
    incarnation: int | None = None
    boot_epoch: int | None = None

    @property
    def life(self) -> Life | None:
        """Return the life of the bookie that answers; None: the bookie does not say."""
        if self.incarnation is None or self.boot_epoch is None:
            return None
        return Life(Incarnation(self.incarnation), BootEpoch(self.boot_epoch))


@dataclass(slots=True)
class AuthResponse:
    txn: int
    version: int
    status: Status
    plugin: str
    payload: bytes


@dataclass(slots=True)
class StartTlsResponse:
    txn: int
    version: int
    status: Status


@dataclass(slots=True)
class ErrorResponse:
    """A status with nothing but the header."""

    txn: int
    version: int
    operation: Operation
    status: Status


Request = (
    AddRequest
    | ReadRequest
    | BatchReadRequest
    | WriteLacRequest
    | ReadLacRequest
    | ForceRequest
    | ListEntriesRequest
    | BookieInfoRequest
    | AuthRequest
    | StartTlsRequest
    | UnknownRequest
    | RefusedRequest
)
Response = (
    AddResponse
    | ReadResponse
    | BatchReadResponse
    | WriteLacResponse
    | ReadLacResponse
    | ForceResponse
    | ListEntriesResponse
    | BookieInfoResponse
    | AuthResponse
    | StartTlsResponse
    | ErrorResponse
)

# A bookie's session hands these out and takes these back: adds and plain reads come in runs.
Incoming = Request | AddRun | AddMix | ReadRun
Outgoing = Response | AddRunResponse | ReadRunResponse
