"""Requests of protocol version 3, read and written."""

from collections.abc import Callable
from typing import Any

from google.protobuf.message import DecodeError

from bookie.base import text
from bookie.base.errors import BadInput, Status
from bookie.base.ids import EntryId, LedgerId
from bookie.wire import codes, framing
from bookie.wire.codes import Operation
from bookie.wire.messages import (
    AddRequest,
    AddResponse,
    AuthRequest,
    BookieInfoRequest,
    BookieInfoResponse,
    Buffer,
    ErrorResponse,
    ForceRequest,
    ForceResponse,
    ListEntriesRequest,
    ListEntriesResponse,
    ReadLacRequest,
    ReadLacResponse,
    ReadRequest,
    ReadResponse,
    RefusedRequest,
    Request,
    Response,
    StartTlsRequest,
    UnknownRequest,
    WriteLacRequest,
    WriteLacResponse,
)
from bookie.wire.proto import bookkeeper_pb2 as proto
from bookie.wire.varint import varint

VERSION = 3

_parse_request = proto.Request.FromString


# ---- requests, read -------------------------------------------------------------------------------------------------


def unpack_request(view: Buffer) -> Request:
    """Return the request in one frame's payload; bytes fields are copies.

    Raises BadInput when it is not a whole Request: unknown operation numbers above 12 included, since a required
    enum field with an unknown value counts as missing (wire-protocol.md 2).
    """
    try:
        # The parser takes any buffer; its stub says bytes.
        message = _parse_request(view)  # type: ignore[arg-type]
    except DecodeError as error:
        raise BadInput(f"a frame that is no v3 request: {error}") from error
    header = message.header
    if header.operation == proto.ADD_ENTRY and header.version == VERSION:
        # Hot: no wrapper types, and no look for missing fields (as dear as parsing). An add that lacks its ids, its
        # body or all of itself reads as one whose body is not that entry: a bad request (wire-protocol.md 4.1).
        add = message.addRequest
        level = add.writeFlags
        if level & ~codes.WRITE_DEFERRED_SYNC:
            # A level that we do not know may promise more than we keep. Java looks at bit 0 only (WriteFlag.java).
            return RefusedRequest(header.txnId, VERSION, _refusal(message, Operation.ADD_ENTRY, Status.EBADREQ))
        return AddRequest(
            header.txnId,
            VERSION,
            add.ledgerId,  # type: ignore[arg-type]
            add.entryId,  # type: ignore[arg-type]
            add.masterKey,
            add.body,
            add.HasField("flag") and add.flag == codes.ADD_RECOVERY,
            level != 0,
            header.priority > 0,
        )
    return _unpack_rare_request(message)


def _unpack_rare_request(message: proto.Request) -> Request:
    if not message.IsInitialized():
        raise BadInput("a v3 request without a required field")
    header = message.header
    operation = Operation(header.operation)
    unpack = _UNPACK_REQUEST.get(operation)
    if unpack is None:
        return UnknownRequest(header.txnId, VERSION, operation)
    field, read = unpack
    if header.version != VERSION:
        return RefusedRequest(header.txnId, VERSION, _refusal(message, operation, Status.EBADVERSION))
    if operation is Operation.GET_BOOKIE_INFO or operation is Operation.START_TLS or message.HasField(field):
        return read(message)
    return RefusedRequest(header.txnId, VERSION, _refusal(message, operation, Status.EBADREQ))


def _unpack_read(message: proto.Request) -> ReadRequest:
    header, read = message.header, message.readRequest
    flag = read.flag if read.HasField("flag") else 0
    return ReadRequest(
        header.txnId,
        VERSION,
        LedgerId(read.ledgerId),
        EntryId(read.entryId),
        read.masterKey if read.HasField("masterKey") else None,
        flag == codes.READ_FENCE_LEDGER,
        read.previousLAC if read.HasField("previousLAC") else None,
        read.timeOut if read.HasField("timeOut") else None,
        flag == codes.READ_ENTRY_PIGGYBACK,
        header.priority > 0,
    )


def _unpack_write_lac(message: proto.Request) -> WriteLacRequest:
    write = message.writeLacRequest
    return WriteLacRequest(
        message.header.txnId, VERSION, LedgerId(write.ledgerId), write.lac, write.masterKey, write.body
    )


def _unpack_auth(message: proto.Request) -> AuthRequest:
    auth = message.authRequest
    return AuthRequest(
        message.header.txnId, VERSION, text.checked(auth.authPluginName, "AUTH: the plugin"), auth.payload
    )


_UNPACK_REQUEST: dict[Operation, tuple[str, Callable[[proto.Request], Request]]] = {
    # Adds come here only when something is wrong with them.
    Operation.ADD_ENTRY: ("addRequest", lambda m: _never(m)),
    Operation.READ_ENTRY: ("readRequest", _unpack_read),
    Operation.AUTH: ("authRequest", _unpack_auth),
    Operation.WRITE_LAC: ("writeLacRequest", _unpack_write_lac),
    Operation.READ_LAC: (
        "readLacRequest",
        lambda m: ReadLacRequest(m.header.txnId, VERSION, LedgerId(m.readLacRequest.ledgerId)),
    ),
    Operation.GET_BOOKIE_INFO: (
        "getBookieInfoRequest",
        lambda m: BookieInfoRequest(m.header.txnId, VERSION, m.getBookieInfoRequest.requested),
    ),
    Operation.START_TLS: ("startTLSRequest", lambda m: StartTlsRequest(m.header.txnId, VERSION)),
    Operation.FORCE_LEDGER: (
        "forceLedgerRequest",
        lambda m: ForceRequest(m.header.txnId, VERSION, LedgerId(m.forceLedgerRequest.ledgerId)),
    ),
    Operation.GET_LIST_OF_ENTRIES_OF_LEDGER: (
        "getListOfEntriesOfLedgerRequest",
        lambda m: ListEntriesRequest(m.header.txnId, VERSION, LedgerId(m.getListOfEntriesOfLedgerRequest.ledgerId)),
    ),
}


def _never(message: proto.Request) -> Request:
    raise AssertionError(f"an add that was neither read nor refused: txn {message.header.txnId}")


def _refusal(message: proto.Request, operation: Operation, status: Status) -> Response:
    """The answer to a request that names a wrong version or has no sub-message; ids echo what is there, else 0."""
    txn = message.header.txnId
    match operation:
        case Operation.ADD_ENTRY:
            add = message.addRequest
            return AddResponse(txn, VERSION, status, LedgerId(add.ledgerId), EntryId(add.entryId))
        case Operation.READ_ENTRY:
            read = message.readRequest
            return ReadResponse(txn, VERSION, status, LedgerId(read.ledgerId), EntryId(read.entryId))
        case Operation.WRITE_LAC:
            return WriteLacResponse(txn, VERSION, status, LedgerId(message.writeLacRequest.ledgerId))
        case Operation.READ_LAC:
            return ReadLacResponse(txn, VERSION, status, LedgerId(message.readLacRequest.ledgerId))
        case Operation.FORCE_LEDGER:
            return ForceResponse(txn, VERSION, status, LedgerId(message.forceLedgerRequest.ledgerId))
        case Operation.GET_BOOKIE_INFO:
            return BookieInfoResponse(txn, VERSION, status)
        case Operation.GET_LIST_OF_ENTRIES_OF_LEDGER:
            listed = message.getListOfEntriesOfLedgerRequest
            return ListEntriesResponse(txn, VERSION, status, LedgerId(listed.ledgerId))
        case _:
            return ErrorResponse(txn, VERSION, operation, status)


# ---- requests, written ----------------------------------------------------------------------------------------------


def pack_request(request: Request) -> list[Buffer]:
    """Return `request` as one frame, prefix included; an add's body is borrowed."""
    if isinstance(request, AddRequest):
        return _pack_add(request)
    message = proto.Request()
    header = message.header
    header.version = proto.VERSION_THREE
    header.txnId = request.txn
    _PACK_REQUEST[type(request)](message, request)
    return framing.frame([message.SerializeToString()])


def _pack_add(request: AddRequest) -> list[Buffer]:
    body = request.body
    head = b"\x08%b\x10%b\x1a%b%b\x22%b" % (
        varint(request.ledger_id),
        varint(request.entry_id),
        varint(len(request.master_key)),
        request.master_key,
        varint(len(body)),
    )
    tail = b""
    if request.is_deferred:
        tail += b"\x28\x01"
    if request.is_recovery:
        tail += b"\xa0\x06\x01"
    sub_size = len(head) + len(body) + len(tail)
    header = b"\x08\x03\x10\x02\x18" + varint(request.txn)
    if request.is_high_priority:
        header += b"\x20\x64"
    start = b"\x0a%c%b\xaa\x06%b%b" % (len(header), header, varint(sub_size), head)
    size = len(start) + len(body) + len(tail)
    buffers: list[Buffer] = [size.to_bytes(framing.PREFIX_SIZE, "big") + start, body]
    if tail:
        buffers.append(tail)
    return buffers


def _pack_read(message: proto.Request, request: ReadRequest) -> None:
    message.header.operation = proto.READ_ENTRY
    if request.is_high_priority:
        message.header.priority = codes.PRIORITY_HIGH
    read = message.readRequest
    read.ledgerId = request.ledger_id
    read.entryId = request.entry_id
    if request.master_key is not None:
        read.masterKey = request.master_key
    if request.previous_lac is not None:
        read.previousLAC = request.previous_lac
    if request.timeout_ms is not None:
        read.timeOut = request.timeout_ms
    assert not (request.is_fencing and request.is_piggyback), "v3 has one flag, not a set"
    if request.is_fencing:
        read.flag = proto.ReadRequest.FENCE_LEDGER
    elif request.is_piggyback:
        read.flag = proto.ReadRequest.ENTRY_PIGGYBACK


def _pack_write_lac(message: proto.Request, request: WriteLacRequest) -> None:
    message.header.operation = proto.WRITE_LAC
    write = message.writeLacRequest
    write.ledgerId = request.ledger_id
    write.lac = request.lac
    write.masterKey = request.master_key
    write.body = bytes(request.body)


def _pack_read_lac(message: proto.Request, request: ReadLacRequest) -> None:
    message.header.operation = proto.READ_LAC
    message.readLacRequest.ledgerId = request.ledger_id


def _pack_force(message: proto.Request, request: ForceRequest) -> None:
    message.header.operation = proto.FORCE_LEDGER
    message.forceLedgerRequest.ledgerId = request.ledger_id


def _pack_list(message: proto.Request, request: ListEntriesRequest) -> None:
    message.header.operation = proto.GET_LIST_OF_ENTRIES_OF_LEDGER
    message.getListOfEntriesOfLedgerRequest.ledgerId = request.ledger_id


def _pack_info(message: proto.Request, request: BookieInfoRequest) -> None:
    message.header.operation = proto.GET_BOOKIE_INFO
    message.getBookieInfoRequest.requested = request.requested


def _pack_auth(message: proto.Request, request: AuthRequest) -> None:
    message.header.operation = proto.AUTH
    message.authRequest.authPluginName = request.plugin
    message.authRequest.payload = request.payload


def _pack_start_tls(message: proto.Request, request: StartTlsRequest) -> None:
    message.header.operation = proto.START_TLS
    message.startTLSRequest.SetInParent()


def _pack_unknown(message: proto.Request, request: UnknownRequest) -> None:
    message.header.operation = int(request.operation)  # type: ignore[assignment]  # the stub wants the enum wrapper


_PACK_REQUEST: dict[type, Callable[[proto.Request, Any], None]] = {
    ReadRequest: _pack_read,
    WriteLacRequest: _pack_write_lac,
    ReadLacRequest: _pack_read_lac,
    ForceRequest: _pack_force,
    ListEntriesRequest: _pack_list,
    BookieInfoRequest: _pack_info,
    AuthRequest: _pack_auth,
    StartTlsRequest: _pack_start_tls,
    UnknownRequest: _pack_unknown,
}
