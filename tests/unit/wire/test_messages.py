"""Every message survives its own codec; every prefix of every message is refused or a message, never an accident."""

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.base.errors import BadInput, Status
from bookie.base.ids import EntryId, LedgerId
from bookie.wire import v2, v3
from bookie.wire.codes import Operation
from bookie.wire.messages import (
    AddRequest,
    AddResponse,
    AuthRequest,
    AuthResponse,
    BookieInfoRequest,
    BookieInfoResponse,
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
    StartTlsResponse,
    UnknownRequest,
    WriteLacRequest,
    WriteLacResponse,
)
from bookie.wire.proto import bookkeeper_pb2 as proto
from bookie.wire.session import ServerSession

LEDGER, ENTRY = LedgerId(2**40 + 3), EntryId(300)
KEY = bytes(range(20))

REQUESTS: list[Request] = [
    AddRequest(2**33, 3, LEDGER, ENTRY, KEY, b"x" * 300, is_recovery=True, is_deferred=True, is_high_priority=True),
    ReadRequest(9, 3, LEDGER, ENTRY, is_high_priority=True),
    ReadRequest(9, 3, LEDGER, EntryId(-1), previous_lac=-1),
    WriteLacRequest(10, 3, LEDGER, 299, KEY, b"lacbody"),
    ReadLacRequest(11, 3, LEDGER),
    ForceRequest(12, 3, LEDGER),
    ListEntriesRequest(13, 3, LEDGER),
    BookieInfoRequest(14, 3, 3),
    AuthRequest(15, 3, "sasl", b"token"),
    UnknownRequest(16, 3, Operation.RANGE_READ_ENTRY),
]
RESPONSES: list[Response] = [
    AddResponse(2**33, 3, Status.EUNKNOWNLEDGERSTATE, LEDGER, EntryId(-1)),
    ReadResponse(1, 3, Status.EOK, LEDGER, ENTRY, b"y" * 1000, max_lac=-1, lac_update_ms=1_700_000_000_000),
    ReadResponse(1, 3, Status.EOK, LEDGER, EntryId(-1), None, max_lac=5),
    WriteLacResponse(2, 3, Status.EREADONLY, LEDGER),
    ReadLacResponse(3, 3, Status.EOK, LEDGER, b"lac", b"last"),
    ReadLacResponse(3, 3, Status.ENOENTRY, LEDGER),
    ForceResponse(4, 3, Status.EOK, LEDGER),
    ListEntriesResponse(5, 3, Status.EOK, LEDGER, b"list"),
    BookieInfoResponse(6, 3, Status.EOK, 100, 50),
    BookieInfoResponse(6, 3, Status.EOK, incarnation=2, boot_epoch=0),
    AuthResponse(7, 3, Status.EOK, "plugin", b""),
    StartTlsResponse(8, 3, Status.EBADREQ),
    ErrorResponse(9, 3, Operation.BATCH_READ_ENTRY, Status.EBADREQ),
]


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_v3_request_survives_its_codec(request_: Request) -> None:
    packed = b"".join(v3.pack_request(request_))

    assert int.from_bytes(packed[:4], "big") == len(packed) - 4
    assert v3.unpack_request(packed[4:]) == request_


@pytest.mark.parametrize("response", RESPONSES)
def test_a_v3_response_survives_its_codec(response: Response) -> None:
    packed = b"".join(v3.pack_response(response))

    assert int.from_bytes(packed[:4], "big") == len(packed) - 4
    assert v3.unpack_response(packed[4:]) == response


@pytest.mark.parametrize("message", [*REQUESTS, *RESPONSES])
def test_every_prefix_of_a_v3_message_is_refused_or_read(message: Request | Response) -> None:
    unpack: Callable[[bytes], Request | Response]
    if isinstance(message, Request):
        packed, unpack = b"".join(v3.pack_request(message))[4:], v3.unpack_request
    else:
        packed, unpack = b"".join(v3.pack_response(message))[4:], v3.unpack_response

    for size in range(len(packed)):
        try:
            found: Request | Response = unpack(packed[:size])
        except BadInput:
            continue
        # Optional fields at the end may be cut off whole; then the message says less, and never something else.
        assert found.txn == message.txn
        assert found != message


@given(st.binary(max_size=80))
def test_no_bytes_make_a_codec_stumble(data: bytes) -> None:
    view = memoryview(data)
    for unpack in (v3.unpack_request, v3.unpack_response, v2.unpack_request, v2.unpack_response):
        with contextlib.suppress(BadInput):
            unpack(view)


@given(
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**63 - 1),
    st.integers(-1, 2**63 - 1),
    st.binary(max_size=200),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_the_hand_written_add_is_what_protobuf_would_write(
    txn: int, ledger_id: int, entry_id: int, body: bytes, is_recovery: bool, is_deferred: bool, is_urgent: bool
) -> None:
    plain = proto.Request()
    plain.header.version, plain.header.operation, plain.header.txnId = proto.VERSION_THREE, proto.ADD_ENTRY, txn
    add = plain.addRequest
    add.ledgerId, add.entryId, add.masterKey, add.body = ledger_id, entry_id, KEY, body
    if is_urgent:
        plain.header.priority = 100
    if is_recovery:
        add.flag = proto.AddRequest.RECOVERY_ADD
    if is_deferred:
        add.writeFlags = 1

    request = AddRequest(txn, 3, LedgerId(ledger_id), EntryId(entry_id), KEY, body, is_recovery, is_deferred, is_urgent)

    assert b"".join(v3.pack_request(request))[4:] == plain.SerializeToString(deterministic=True)


@given(
    st.integers(0, 2**64 - 1),
    st.sampled_from(Status),
    st.integers(0, 2**63 - 1),
    st.integers(-1, 2**63 - 1),
    st.none() | st.binary(max_size=300),
    st.none() | st.integers(-1, 2**63 - 1),
    st.none() | st.integers(0, 2**63 - 1),
)
def test_hand_written_answers_are_what_protobuf_would_write(
    txn: int,
    status: Status,
    ledger_id: int,
    entry_id: int,
    body: bytes | None,
    max_lac: int | None,
    lac_update_ms: int | None,
) -> None:
    ids = {"status": int(status), "ledgerId": ledger_id, "entryId": entry_id}
    optional = {"body": body, "maxLAC": max_lac, "lacUpdateTimestamp": lac_update_ms}
    read = proto.Response(
        header={"version": 3, "operation": 1, "txnId": txn},
        status=proto.StatusCode.Name(int(status)),
        readResponse={**ids, **{name: value for name, value in optional.items() if value is not None}},
    )
    add = proto.Response(
        header={"version": 3, "operation": 2, "txnId": txn}, status=proto.StatusCode.Name(int(status)), addResponse=ids
    )
    ledger, entry = LedgerId(ledger_id), EntryId(entry_id)

    packed_read = v3.pack_response(ReadResponse(txn, 3, status, ledger, entry, body, max_lac, lac_update_ms))
    packed_add = v3.pack_response(AddResponse(txn, 3, status, ledger, entry))

    assert b"".join(packed_read)[4:] == read.SerializeToString(deterministic=True)
    assert b"".join(packed_add)[4:] == add.SerializeToString(deterministic=True)


def test_a_header_of_another_version_is_answered_ebadversion_with_its_ids() -> None:
    message = proto.Request(
        header={"version": 2, "operation": 2, "txnId": 5},
        addRequest={"ledgerId": 7, "entryId": 1, "masterKey": KEY, "body": b"b"},
    )

    request = v3.unpack_request(message.SerializeToString())

    assert request == RefusedRequest(5, 3, AddResponse(5, 3, Status.EBADVERSION, LedgerId(7), EntryId(1)))


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (ReadRequest(9, 3, LEDGER, ENTRY), ReadResponse(9, 3, Status.EBADVERSION, LEDGER, ENTRY)),
        (WriteLacRequest(10, 3, LEDGER, 299, KEY, b""), WriteLacResponse(10, 3, Status.EBADVERSION, LEDGER)),
        (ReadLacRequest(11, 3, LEDGER), ReadLacResponse(11, 3, Status.EBADVERSION, LEDGER)),
        (ForceRequest(12, 3, LEDGER), ForceResponse(12, 3, Status.EBADVERSION, LEDGER)),
        (ListEntriesRequest(13, 3, LEDGER), ListEntriesResponse(13, 3, Status.EBADVERSION, LEDGER)),
        (BookieInfoRequest(14, 3, 3), BookieInfoResponse(14, 3, Status.EBADVERSION)),
        (AuthRequest(15, 3, "sasl", b""), ErrorResponse(15, 3, Operation.AUTH, Status.EBADVERSION)),
    ],
)
def test_each_request_of_another_version_is_answered_as_itself(request_: Request, answer: Response) -> None:
    message = proto.Request.FromString(b"".join(v3.pack_request(request_))[4:])
    message.header.version = proto.VERSION_TWO

    assert v3.unpack_request(message.SerializeToString()) == RefusedRequest(request_.txn, 3, answer)


def test_a_request_without_its_sub_message_is_answered_ebadreq() -> None:
    message = proto.Request(header={"version": 3, "operation": 1, "txnId": 5})

    request = v3.unpack_request(message.SerializeToString())

    assert request == RefusedRequest(5, 3, ReadResponse(5, 3, Status.EBADREQ, LedgerId(0), EntryId(0)))


def test_an_operation_above_twelve_is_no_request_at_all() -> None:
    with pytest.raises(BadInput):
        v3.unpack_request(bytes.fromhex("0a060803100d1801"))


@pytest.mark.parametrize("level", [2, 3, 1 << 20, -1])
def test_an_add_of_a_durability_level_that_is_not_known_is_refused(level: int) -> None:
    """CONFORMANCE.md#D15: whatever it promises, it is not ours to promise. No Java client sends one; Java's bookie
    looks at bit 0."""
    message = proto.Request()
    message.header.version, message.header.operation, message.header.txnId = proto.VERSION_THREE, proto.ADD_ENTRY, 5
    add = message.addRequest
    add.ledgerId, add.entryId, add.masterKey, add.body, add.writeFlags = LEDGER, ENTRY, KEY, b"x" * 40, level

    frame = message.SerializeToString()
    refused = RefusedRequest(5, 3, AddResponse(5, 3, Status.EBADREQ, LEDGER, ENTRY))

    assert v3.unpack_request(frame) == refused
    assert ServerSession().receive(len(frame).to_bytes(4, "big") + frame) == [refused]


def test_an_unknown_flag_of_a_read_is_no_flag() -> None:
    read = bytes.fromhex("0807 1001 a00607")

    request = v3.unpack_request(bytes.fromhex("0a06080310011801 a206") + bytes([len(read)]) + read)

    assert request == ReadRequest(1, 3, LedgerId(7), EntryId(1))


def test_the_inner_status_counts_where_the_outer_one_is_ok() -> None:
    message = proto.Response(
        header={"version": 3, "operation": 2, "txnId": 5},
        status=proto.EOK,
        addResponse={"status": 504, "ledgerId": 7, "entryId": 1},
    )

    assert v3.unpack_response(message.SerializeToString()) == AddResponse(5, 3, Status.EFENCED, LedgerId(7), EntryId(1))


def test_a_plugin_that_is_no_text_is_refused_both_ways() -> None:
    """The parser hands out bytes for it, which no answer could repeat."""
    request = b"".join(v3.pack_request(AuthRequest(15, 3, "sasl", b"token")))[4:]
    response = b"".join(v3.pack_response(AuthResponse(7, 3, Status.EOK, "sasl", b"")))[4:]

    for unpack, message in ((v3.unpack_request, request), (v3.unpack_response, response)):
        with pytest.raises(BadInput, match="is not text"):
            unpack(message.replace(b"sasl", b"sas\xff"))
