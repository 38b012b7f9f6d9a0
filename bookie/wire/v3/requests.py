"""Unpacks and packs the requests of protocol version 3."""

from collections.abc import Callable
from typing import Any

from google.protobuf.message import DecodeError

from bookie.base import text
from bookie.base.errors import BadInput, Status
from bookie.base.ids import EntryId, LedgerId
from bookie.base.varint import varint
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

VERSION = 3

# A frame above this size is checked before it is parsed. Java's logging context is a few pairs.
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
        raise BadInput(f"a frame is not a v3 request: {error}") from error
    header = message.header
    if header.operation == proto.ADD_ENTRY and header.version == VERSION:
        # Hot: no wrapper types, and no check for missing fields (as dear as parsing). An add that lacks its ids, its
        # body or everything reads as an add whose body is another entry: a bad request (spec/wire.md#W14).
        add = message.addRequest
        level = add.writeFlags
        if level & ~codes.WRITE_DEFERRED_SYNC:
            # An unknown level may promise more than we keep, so we refuse. Java looks at bit 0 only (WriteFlag.java).
            return _refused(message, Operation.ADD_ENTRY, Status.EBADREQ)
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
    """Refuse a large frame of many fields: only adds are large, and by one field. The parser needed half a second and
    a hundred MiB for five MiB of empty pairs in a request's context. Raises BadInput."""
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
                return  # no field of a request has such a type: the parser refuses it
            if offset >= len(view):
                return
    except IndexError:
        return  # the frame is cut: the parser refuses it
    raise BadInput(f"a v3 request of {len(view)} bytes has more than {_FIELDS_MAX} fields, more than any client sends")


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
        raise BadInput("a v3 request lacks a required field: the connection is closed")
    header = message.header
    operation = Operation(header.operation)
    if operation not in _UNPACK_REQUEST:
        return UnknownRequest(header.txnId, VERSION, operation)
    field, unpack = _UNPACK_REQUEST[operation]
    if header.version != VERSION:
        return _refused(message, operation, Status.EBADVERSION)
    if operation is Operation.GET_BOOKIE_INFO or operation is Operation.START_TLS or message.HasField(field):
        return unpack(header, getattr(message, field))
    return _refused(message, operation, Status.EBADREQ)


# Given the header and the operation's own part of a request.
_Unpack = Callable[[Any, Any], Request]


def _unpack_add(header: Any, add: Any) -> Request:
    raise AssertionError(f"an add was neither read nor refused: txn {header.txnId}")


def _unpack_read(header: Any, read: Any) -> ReadRequest:
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


def _unpack_write_lac(header: Any, write: Any) -> WriteLacRequest:
    return WriteLacRequest(header.txnId, VERSION, LedgerId(write.ledgerId), write.lac, write.masterKey, write.body)


def _unpack_auth(header: Any, auth: Any) -> AuthRequest:
    return AuthRequest(header.txnId, VERSION, text.checked(auth.authPluginName, "AUTH: the plugin"), auth.payload)


def _ledger_alone(kind: Callable[[int, int, LedgerId], Request]) -> _Unpack:
    """Return the parser for requests that carry a ledger id and no other field."""
    return lambda header, part: kind(header.txnId, VERSION, LedgerId(part.ledgerId))


_UNPACK_REQUEST: dict[Operation, tuple[str, _Unpack]] = {
    Operation.ADD_ENTRY: ("addRequest", _unpack_add),
    Operation.READ_ENTRY: ("readRequest", _unpack_read),
    Operation.AUTH: ("authRequest", _unpack_auth),
    Operation.WRITE_LAC: ("writeLacRequest", _unpack_write_lac),
    Operation.READ_LAC: ("readLacRequest", _ledger_alone(ReadLacRequest)),
    Operation.GET_BOOKIE_INFO: (
        "getBookieInfoRequest",
        lambda header, info: BookieInfoRequest(header.txnId, VERSION, info.requested),
    ),
    Operation.START_TLS: ("startTLSRequest", lambda header, _: StartTlsRequest(header.txnId, VERSION)),
    Operation.FORCE_LEDGER: ("forceLedgerRequest", _ledger_alone(ForceRequest)),
    Operation.GET_LIST_OF_ENTRIES_OF_LEDGER: ("getListOfEntriesOfLedgerRequest", _ledger_alone(ListEntriesRequest)),
}


def _refused(message: proto.Request, operation: Operation, status: Status) -> RefusedRequest:
    """Return a request that the bookie answers with `status` whatever it holds.
    Its ids are echoed, 0 where they lack."""
    txn = message.header.txnId
    if operation is Operation.ADD_ENTRY:
        add = message.addRequest
        answer: Outgoing = AddResponse(txn, VERSION, status, LedgerId(add.ledgerId), EntryId(add.entryId))
    elif operation in (Operation.AUTH, Operation.START_TLS):
        answer = ErrorResponse(txn, VERSION, operation, status)
    else:
        field, unpack = _UNPACK_REQUEST[operation]
        answer = refusal(unpack(message.header, getattr(message, field)), status)
    return RefusedRequest(txn, VERSION, answer)


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
        if isinstance(request, ReadRequest) and request.is_high_priority:
            header.priority = codes.PRIORITY_HIGH
        pack(getattr(message, _UNPACK_REQUEST[operation][0]), request)
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


def _pack_read(read: Any, request: ReadRequest) -> None:
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
        read.flag = codes.READ_FENCE_LEDGER
    elif request.is_piggyback:
        read.flag = codes.READ_ENTRY_PIGGYBACK


def _pack_write_lac(write: Any, request: WriteLacRequest) -> None:
    write.ledgerId = request.ledger_id
    write.lac = request.lac
    write.masterKey = request.master_key
    write.body = bytes(request.body)


def _pack_ledger_alone(part: Any, request: ReadLacRequest | ForceRequest | ListEntriesRequest) -> None:
    part.ledgerId = request.ledger_id


def _pack_info(info: Any, request: BookieInfoRequest) -> None:
    info.requested = request.requested


def _pack_auth(auth: Any, request: AuthRequest) -> None:
    auth.authPluginName = request.plugin
    auth.payload = request.payload


# Given the operation's own part of the request, to be filled in.
_PACK_REQUEST: dict[type, tuple[Operation, Callable[[Any, Any], None]]] = {
    ReadRequest: (Operation.READ_ENTRY, _pack_read),
    WriteLacRequest: (Operation.WRITE_LAC, _pack_write_lac),
    ReadLacRequest: (Operation.READ_LAC, _pack_ledger_alone),
    ForceRequest: (Operation.FORCE_LEDGER, _pack_ledger_alone),
    ListEntriesRequest: (Operation.GET_LIST_OF_ENTRIES_OF_LEDGER, _pack_ledger_alone),
    BookieInfoRequest: (Operation.GET_BOOKIE_INFO, _pack_info),
    AuthRequest: (Operation.AUTH, _pack_auth),
    StartTlsRequest: (Operation.START_TLS, lambda part, _: part.SetInParent()),
}
