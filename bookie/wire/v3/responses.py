"""Unpacks and packs the responses of protocol version 3.

Every answer carries its operation's sub-message, on errors too, and the same status outside and inside
(spec/wire.md#W13). Only an `ErrorResponse` is a header alone.
"""

from collections.abc import Callable
from typing import Any

from google.protobuf.message import DecodeError

from bookie.base import text
from bookie.base.errors import BadInput, Status
from bookie.base.ids import EntryId, LedgerId
from bookie.base.varint import varint
from bookie.wire import framing
from bookie.wire.codes import Operation
from bookie.wire.messages import (
    AddResponse,
    AuthResponse,
    BookieInfoResponse,
    Buffer,
    ErrorResponse,
    ForceResponse,
    ListEntriesResponse,
    ReadLacResponse,
    ReadResponse,
    Response,
    StartTlsResponse,
    WriteLacResponse,
)
from bookie.wire.proto import bookkeeper_pb2 as proto
from bookie.wire.v3.requests import VERSION

_STATUS = {int(status): status for status in Status}
_STATUS_VARINT = {status: varint(status) for status in Status}
_AUTH = Operation.AUTH  # a constant of the module is found faster than a member of an enum
_parse = proto.Response.FromString


# ---- read -----------------------------------------------------------------------------------------------------------


def unpack_response(view: Buffer) -> Response:
    """Return the response in one frame's payload; bytes fields are copies.

    The status is the outer one, or the inner where the outer is EOK (client side of Java: `*Completion.java`). An
    answer without its sub-message comes back as an ErrorResponse. Raises BadInput when it is not a whole Response.
    """
    try:
        message = _parse(view)  # type: ignore[arg-type]  # the parser takes any buffer; its stub says bytes
    except DecodeError as error:
        raise BadInput(f"a frame is not a v3 response: {error}") from error
    header = message.header
    status = _STATUS[message.status]
    add = message.addResponse
    # Hot, and twice as fast as a check of all required fields. A missing status would read as EOK, so its presence is
    # always checked; `addResponse` is there when its status is.
    if header.operation == proto.ADD_ENTRY and message.HasField("status") and add.HasField("status"):
        return AddResponse(
            header.txnId,
            VERSION,
            status or _STATUS[add.status],
            LedgerId(add.ledgerId),
            EntryId(add.entryId),
            add.lastAddSynced if add.HasField("lastAddSynced") else None,
        )
    if not message.IsInitialized():
        raise BadInput("a v3 response lacks a required field: the connection is closed")
    operation = Operation(header.operation)
    found = _UNPACK.get(operation)
    if found is None or not message.HasField(found[0]):
        if operation is Operation.START_TLS:
            return StartTlsResponse(header.txnId, VERSION, status)
        # A header that says EOK without the operation's part proves nothing.
        return ErrorResponse(header.txnId, VERSION, operation, status or Status.EBADREQ)
    field, unpack = found
    part = getattr(message, field)
    if not status and operation is not _AUTH:  # AUTH has one message for both ways, without a status
        status = _STATUS[part.status]
    return unpack(header.txnId, status, part)


# Given the transaction id, the status and the operation's own part of a response.
_Unpack = Callable[[int, Status, Any], Response]


def _unpack_read(txn: int, status: Status, read: Any) -> Response:
    return ReadResponse(
        txn,
        VERSION,
        status,
        LedgerId(read.ledgerId),
        EntryId(read.entryId),
        read.body if read.HasField("body") else None,
        read.maxLAC if read.HasField("maxLAC") else None,
        read.lacUpdateTimestamp if read.HasField("lacUpdateTimestamp") else None,
    )


def _unpack_auth(txn: int, status: Status, auth: Any) -> Response:
    return AuthResponse(txn, VERSION, status, text.checked(auth.authPluginName, "AUTH: the plugin"), auth.payload)


def _unpack_read_lac(txn: int, status: Status, read: Any) -> Response:
    return ReadLacResponse(
        txn,
        VERSION,
        status,
        LedgerId(read.ledgerId),
        read.lacBody if read.HasField("lacBody") else None,
        read.lastEntryBody if read.HasField("lastEntryBody") else None,
    )


def _unpack_info(txn: int, status: Status, info: Any) -> Response:
    return BookieInfoResponse(
        txn,
        VERSION,
        status,
        info.totalDiskCapacity if info.HasField("totalDiskCapacity") else None,
        info.freeDiskSpace if info.HasField("freeDiskSpace") else None,
        info.incarnation if info.HasField("incarnation") else None,
        info.bootEpoch if info.HasField("bootEpoch") else None,
    )


def _unpack_list(txn: int, status: Status, listed: Any) -> Response:
    has_list = listed.HasField("availabilityOfEntriesOfLedger")
    availability = listed.availabilityOfEntriesOfLedger if has_list else None
    return ListEntriesResponse(txn, VERSION, status, LedgerId(listed.ledgerId), availability)


def _ledger_alone(kind: Callable[[int, int, Status, LedgerId], Response]) -> _Unpack:
    """Return the parser for responses that carry a ledger id and no other field."""
    return lambda txn, status, part: kind(txn, VERSION, status, LedgerId(part.ledgerId))


_UNPACK: dict[Operation, tuple[str, _Unpack]] = {
    Operation.READ_ENTRY: ("readResponse", _unpack_read),
    Operation.AUTH: ("authResponse", _unpack_auth),
    Operation.WRITE_LAC: ("writeLacResponse", _ledger_alone(WriteLacResponse)),
    Operation.READ_LAC: ("readLacResponse", _unpack_read_lac),
    Operation.GET_BOOKIE_INFO: ("getBookieInfoResponse", _unpack_info),
    Operation.FORCE_LEDGER: ("forceLedgerResponse", _ledger_alone(ForceResponse)),
    Operation.GET_LIST_OF_ENTRIES_OF_LEDGER: ("getListOfEntriesOfLedgerResponse", _unpack_list),
}


# ---- written --------------------------------------------------------------------------------------------------------


def pack_response(response: Response) -> list[Buffer]:
    """Return `response` as one frame, prefix included; the body of a read is borrowed."""
    if isinstance(response, AddResponse) and response.last_synced is None:
        return [_pack_add(response)]
    if isinstance(response, ReadResponse):
        return _pack_read(response)
    message = proto.Response()
    header = message.header
    header.version = proto.VERSION_THREE
    header.txnId = response.txn
    message.status = int(response.status)  # type: ignore[assignment]  # the stub wants the enum wrapper
    if isinstance(response, ErrorResponse):
        header.operation = int(response.operation)  # type: ignore[assignment]
    else:
        operation, pack = _PACK[type(response)]
        header.operation = int(operation)  # type: ignore[assignment]
        pack(message, response)
    return framing.frame([message.SerializeToString()])


def _pack_add(response: AddResponse) -> bytes:
    status = _STATUS_VARINT[response.status]
    txn, ledger, entry = varint(response.txn), varint(response.ledger_id), varint(response.entry_id)
    sub_size = 3 + len(status) + len(ledger) + len(entry)
    size = 11 + len(txn) + len(status) + sub_size  # never more than 60 bytes: lengths are one byte each
    return b"\x00\x00\x00%c\x0a%c\x08\x03\x10\x02\x18%b\x10%b\xaa\x06%c\x08%b\x10%b\x18%b" % (
        size,
        5 + len(txn),
        txn,
        status,
        sub_size,
        status,
        ledger,
        entry,
    )


def _pack_read(response: ReadResponse) -> list[Buffer]:
    status = _STATUS_VARINT[response.status]
    body = response.body
    sub = b"\x08%b\x10%b\x18%b" % (status, varint(response.ledger_id), varint(response.entry_id))
    tail = b""
    body_size = 0
    if body is not None:
        body_size = len(body)
        sub += b"\x22" + varint(body_size)
    if response.max_lac is not None:
        tail += b"\x28" + varint(response.max_lac)
    if response.lac_update_ms is not None:
        tail += b"\x30" + varint(response.lac_update_ms)
    txn = varint(response.txn)
    sub_size = varint(len(sub) + body_size + len(tail))
    head = b"\x0a%c\x08\x03\x10\x01\x18%b\x10%b\xa2\x06%b%b" % (len(txn) + 5, txn, status, sub_size, sub)
    size = len(head) + body_size + len(tail)
    start = size.to_bytes(framing.PREFIX_SIZE, "big") + head
    if body is None:
        return [start + tail]
    return [start, body, tail] if tail else [start, body]


def _pack_synced_add(message: proto.Response, response: AddResponse) -> None:
    _pack_ledger(message.addResponse, response)
    message.addResponse.entryId = response.entry_id
    if response.last_synced is not None:
        message.addResponse.lastAddSynced = response.last_synced


def _pack_ledger(
    part: Any, response: AddResponse | WriteLacResponse | ReadLacResponse | ForceResponse | ListEntriesResponse
) -> None:
    part.status = int(response.status)
    part.ledgerId = response.ledger_id


def _pack_read_lac(message: proto.Response, response: ReadLacResponse) -> None:
    read = message.readLacResponse
    _pack_ledger(read, response)
    if response.lac_body is not None:
        read.lacBody = bytes(response.lac_body)
    if response.last_entry_body is not None:
        read.lastEntryBody = bytes(response.last_entry_body)


def _pack_list(message: proto.Response, response: ListEntriesResponse) -> None:
    listed = message.getListOfEntriesOfLedgerResponse
    _pack_ledger(listed, response)
    if response.availability is not None:
        listed.availabilityOfEntriesOfLedger = response.availability


def _pack_info(message: proto.Response, response: BookieInfoResponse) -> None:
    info = message.getBookieInfoResponse
    info.status = message.status
    if response.total_bytes is not None:
        info.totalDiskCapacity = response.total_bytes
    if response.free_bytes is not None:
        info.freeDiskSpace = response.free_bytes
    if response.incarnation is not None:
        info.incarnation = response.incarnation
    if response.boot_epoch is not None:
        info.bootEpoch = response.boot_epoch


def _pack_auth(message: proto.Response, response: AuthResponse) -> None:
    message.authResponse.authPluginName = response.plugin
    message.authResponse.payload = response.payload


def _pack_start_tls(message: proto.Response, response: StartTlsResponse) -> None:
    if response.status is Status.EOK:
        message.startTLSResponse.SetInParent()


_PACK: dict[type, tuple[Operation, Callable[[proto.Response, Any], None]]] = {
    AddResponse: (Operation.ADD_ENTRY, _pack_synced_add),
    WriteLacResponse: (Operation.WRITE_LAC, lambda m, response: _pack_ledger(m.writeLacResponse, response)),
    ReadLacResponse: (Operation.READ_LAC, _pack_read_lac),
    ForceResponse: (Operation.FORCE_LEDGER, lambda m, response: _pack_ledger(m.forceLedgerResponse, response)),
    ListEntriesResponse: (Operation.GET_LIST_OF_ENTRIES_OF_LEDGER, _pack_list),
    BookieInfoResponse: (Operation.GET_BOOKIE_INFO, _pack_info),
    AuthResponse: (Operation.AUTH, _pack_auth),
    StartTlsResponse: (Operation.START_TLS, _pack_start_tls),
}
