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
    Buffer,
    ErrorResponse,
    ForceRequest,
    ListEntriesRequest,
    Outgoing,
    ReadLacRequest,
    ReadRequest,
    RefusedRequest,
    Request,
    StartTlsRequest,
    UnknownRequest,
    WriteLacRequest,
)
from bookie.wire.proto import bookkeeper_pb2 as proto
from bookie.wire.refusals import refusal
from bookie.wire.varint import varint

VERSION = 3

# A frame above this is looked at before it is parsed. Java's logging context is a few pairs.
_LARGE_BYTES = 64 * 1024
_FIELDS_MAX = 64
_VARINT, _DELIMITED = 0, 2

_parse_request = proto.Request.FromString


# ---- requests, read -------------------------------------------------------------------------------------------------


def unpack_request(view: Buffer) -> Request:
    """Return the request in one frame's payload; bytes fields are copies.

    Raises BadInput when it is not a whole Request: unknown operation numbers above 12 included, since a required
    enum field with an unknown value counts as missing (spec/wire.md#W5).
    """
    if len(view) > _LARGE_BYTES:
        _check_few_fields(view)
    try:
        # The parser takes any buffer; its stub says bytes.
        message = _parse_request(view)  # type: ignore[arg-type]
    except DecodeError as error:
        raise BadInput(f"a frame that is no v3 request: {error}") from error
    header = message.header
    if header.operation == proto.ADD_ENTRY and header.version == VERSION:
        # Hot: no wrapper types, and no look for missing fields (as dear as parsing). An add that lacks its ids, its
        # body or all of itself reads as one whose body is not that entry: a bad request (spec/wire.md#W14).
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


def _check_few_fields(view: Buffer) -> None:
    """Raises BadInput for a large frame of many fields: only an add is large, and that is one field of it. Five MiB of
    empty pairs of a request's context took the parser half a second and a hundred MiB."""
    offset = 0
    try:
        for _ in range(_FIELDS_MAX):
            tag, offset = _varint_at(view, offset)
            if tag & 7 == _DELIMITED:
                size, offset = _varint_at(view, offset)
                offset += size
            elif tag & 7 == _VARINT:
                _, offset = _varint_at(view, offset)
            else:
                return  # no field of a request is of such a type: the parser says what it is
            if offset >= len(view):
                return
    except IndexError:
        return  # cut: the parser says so
    raise BadInput(f"a v3 request of {len(view)} bytes with more than {_FIELDS_MAX} fields")


def _varint_at(view: Buffer, offset: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = view[offset]
        value |= (byte & 0x7F) << shift
        offset, shift = offset + 1, shift + 7
        if byte < 0x80 or shift > 63:
            return value, offset


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


def _refusal(message: proto.Request, operation: Operation, status: Status) -> Outgoing:
    """The answer to a request that names a wrong version or has no sub-message; ids echo what is there, else 0."""
    txn = message.header.txnId
    if operation is Operation.ADD_ENTRY:
        add = message.addRequest
        return AddResponse(txn, VERSION, status, LedgerId(add.ledgerId), EntryId(add.entryId))
    if operation in (Operation.AUTH, Operation.START_TLS):
        return ErrorResponse(txn, VERSION, operation, status)
    return refusal(_UNPACK_REQUEST[operation][1](message), status)


# ---- requests, written ----------------------------------------------------------------------------------------------


def pack_request(request: Request) -> list[Buffer]:
    """Return `request` as one frame, prefix included; an add's body is borrowed."""
    if isinstance(request, AddRequest):
        return _pack_add(request)
    message = proto.Request()
    header = message.header
    header.version = proto.VERSION_THREE
    header.txnId = request.txn
    if isinstance(request, UnknownRequest):
        header.operation = int(request.operation)  # type: ignore[assignment]  # the stub wants the enum wrapper
    else:
        operation, pack = _PACK_REQUEST[type(request)]
        header.operation = int(operation)  # type: ignore[assignment]
        pack(message, request)
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
    write = message.writeLacRequest
    write.ledgerId = request.ledger_id
    write.lac = request.lac
    write.masterKey = request.master_key
    write.body = bytes(request.body)


def _pack_read_lac(message: proto.Request, request: ReadLacRequest) -> None:
    message.readLacRequest.ledgerId = request.ledger_id


def _pack_force(message: proto.Request, request: ForceRequest) -> None:
    message.forceLedgerRequest.ledgerId = request.ledger_id


def _pack_list(message: proto.Request, request: ListEntriesRequest) -> None:
    message.getListOfEntriesOfLedgerRequest.ledgerId = request.ledger_id


def _pack_info(message: proto.Request, request: BookieInfoRequest) -> None:
    message.getBookieInfoRequest.requested = request.requested


def _pack_auth(message: proto.Request, request: AuthRequest) -> None:
    message.authRequest.authPluginName = request.plugin
    message.authRequest.payload = request.payload


def _pack_start_tls(message: proto.Request, request: StartTlsRequest) -> None:
    message.startTLSRequest.SetInParent()


_PACK_REQUEST: dict[type, tuple[Operation, Callable[[proto.Request, Any], None]]] = {
    ReadRequest: (Operation.READ_ENTRY, _pack_read),
    WriteLacRequest: (Operation.WRITE_LAC, _pack_write_lac),
    ReadLacRequest: (Operation.READ_LAC, _pack_read_lac),
    ForceRequest: (Operation.FORCE_LEDGER, _pack_force),
    ListEntriesRequest: (Operation.GET_LIST_OF_ENTRIES_OF_LEDGER, _pack_list),
    BookieInfoRequest: (Operation.GET_BOOKIE_INFO, _pack_info),
    AuthRequest: (Operation.AUTH, _pack_auth),
    StartTlsRequest: (Operation.START_TLS, _pack_start_tls),
}
