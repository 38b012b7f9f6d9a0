"""Makes the error answer to any request: of its operation, with its ids, in its version (spec/wire.md#W13)."""

from collections.abc import Callable
from typing import Any

from bookie.base.errors import BadInput, Status
from bookie.wire.codes import VERSION_THREE, Operation
from bookie.wire.messages import (
    AddMix,
    AddRequest,
    AddResponse,
    AddRun,
    AddRunResponse,
    AuthRequest,
    BatchReadRequest,
    BatchReadResponse,
    BookieInfoRequest,
    BookieInfoResponse,
    ErrorResponse,
    ForceRequest,
    ForceResponse,
    Incoming,
    ListEntriesRequest,
    ListEntriesResponse,
    Outgoing,
    ReadLacRequest,
    ReadLacResponse,
    ReadRequest,
    ReadResponse,
    ReadRun,
    ReadRunResponse,
    RefusedRequest,
    StartTlsRequest,
    StartTlsResponse,
    UnknownRequest,
    WriteLacRequest,
    WriteLacResponse,
)


def refusal(request: Incoming, status: Status) -> Outgoing:
    """Return the answer `status` to `request`. Raises BadInput where v2 has none: the bookie then closes the
    connection."""
    if request.version != VERSION_THREE and isinstance(request, AuthRequest):
        raise BadInput("v2 has no error answer to AUTH: the connection is closed")
    return _ANSWERS[type(request)](request, status)


_ANSWERS: dict[type, Callable[[Any, Status], Outgoing]] = {
    AddRequest: lambda r, status: AddResponse(r.txn, r.version, status, r.ledger_id, r.entry_id),
    AddRun: lambda r, status: AddRunResponse(r.version, status, r),
    AddMix: lambda r, status: AddRunResponse(r.version, status, r),
    ReadRequest: lambda r, status: ReadResponse(r.txn, r.version, status, r.ledger_id, r.entry_id),
    ReadRun: lambda r, status: ReadRunResponse(r.version, status, r.ledger_id, r.txns, r.entry_ids, []),
    BatchReadRequest: lambda r, status: BatchReadResponse(r.txn, r.version, status, r.ledger_id, r.entry_id),
    WriteLacRequest: lambda r, status: WriteLacResponse(r.txn, r.version, status, r.ledger_id),
    ReadLacRequest: lambda r, status: ReadLacResponse(r.txn, r.version, status, r.ledger_id),
    ForceRequest: lambda r, status: ForceResponse(r.txn, r.version, status, r.ledger_id),
    ListEntriesRequest: lambda r, status: ListEntriesResponse(r.txn, r.version, status, r.ledger_id),
    BookieInfoRequest: lambda r, status: BookieInfoResponse(r.txn, r.version, status),
    AuthRequest: lambda r, status: ErrorResponse(r.txn, r.version, Operation.AUTH, status),
    StartTlsRequest: lambda r, status: StartTlsResponse(r.txn, r.version, status),
    UnknownRequest: lambda r, status: ErrorResponse(r.txn, r.version, r.operation, status),
    RefusedRequest: lambda r, status: r.response,
}
