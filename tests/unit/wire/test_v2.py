"""What v2 frames of every kind, whole or broken, are taken for (spec/wire.md#W7; rows with [V] were seen of Java)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.base.errors import BadInput, Status
from bookie.base.ids import EntryId, LedgerId
from bookie.wire import codes, session, v2
from bookie.wire.messages import (
    AddRequest,
    AddResponse,
    AddRun,
    AddRunResponse,
    AuthRequest,
    AuthResponse,
    BatchReadRequest,
    BatchReadResponse,
    Buffer,
    Incoming,
    ReadRequest,
    ReadResponse,
    RefusedRequest,
    Request,
    Response,
)

LEDGER, ENTRY, LAST = LedgerId(7), EntryId(1), EntryId(-1)
KEY = bytes(range(20))
IDS = "0000000000000007 0000000000000001"
BODY = bytes.fromhex(f"{IDS} 0000000000000000 0000000000000008") + b"payload"

ids = st.integers(min_value=-(2**63), max_value=2**63 - 1)
versions = st.sampled_from([0, 1, 2])


def receive(text: str) -> list[Incoming]:
    frame = bytes.fromhex(text)
    return session.ServerSession().receive(len(frame).to_bytes(4, "big") + frame)


def packed(response: AddRunResponse | Response) -> str:
    """The frame in hex, without its prefix."""
    whole = b"".join(session.pack_response(response))
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    return whole[4:].hex()


def compact(text: str) -> str:
    return text.replace(" ", "")


def test_answers_echo_the_version_of_the_request() -> None:
    for head, answered in (("00000002", "00000002"), ("01020000", "01020000"), ("02020000", "02020000")):
        (request,) = receive(f"{head} {IDS}")

        assert isinstance(request, ReadRequest)
        answer = packed(ReadResponse(0, request.version, Status.ENOENTRY, LEDGER, ENTRY))
        assert answer == compact(f"{answered} 00000002 {IDS}")


@pytest.mark.parametrize(("head", "answered"), [("00000001", "00000001"), ("01010000", "01010000")])
def test_adds_of_old_versions_are_answered_in_them(head: str, answered: str) -> None:
    (run,) = receive(head + KEY.hex() + BODY.hex())

    assert isinstance(run, AddRun)
    assert (run.ledger_id, run.entry_ids, run.bodies) == (LEDGER, [ENTRY], [BODY])
    assert packed(AddRunResponse(run.version, Status.EOK, run)) == compact(f"{answered} 00000000 {IDS}")


def test_adds_of_different_versions_are_answered_each_in_its_own() -> None:
    body = KEY + BODY
    frames = [bytes.fromhex(head) + body for head in ("02010000", "01010000", "02010000", "00000001")]
    runs = session.ServerSession().receive(b"".join(len(one).to_bytes(4, "big") + one for one in frames))

    answers = b"".join(
        b"".join(session.pack_response(AddRunResponse(run.version, Status.EOK, run)))
        for run in runs
        if isinstance(run, AddRun)
    )

    assert [answers[at + 4 : at + 8].hex() for at in range(0, len(answers), 28)] == [
        "02010000",
        "01010000",
        "02010000",
        "00000001",
    ]


@pytest.mark.parametrize("version", [3, 10, 255])
@pytest.mark.parametrize("opcode", [1, 2, 7])
def test_a_later_version_is_answered_ebadversion_and_echoed(version: int, opcode: int) -> None:
    rest = {1: KEY.hex() + BODY.hex(), 2: IDS, 7: f"{IDS} 000000000000002a 0000000a 0000000000100000"}[opcode]
    if version == codes.V3_FIRST_BYTE:
        started = session.ServerSession()
        started.receive(bytes.fromhex("00000014 02020000" + IDS))  # on a v2 connection it is no v3 frame
        frame = bytes.fromhex(f"{version:02x}{opcode:02x}0000{rest}")
        (request,) = started.receive(len(frame).to_bytes(4, "big") + frame)
    else:
        (request,) = receive(f"{version:02x}{opcode:02x}0000 {rest}")

    assert isinstance(request, RefusedRequest)
    assert packed(request.response).startswith(compact(f"{version:02x}{opcode:02x}0000 00000067 {IDS}"))


def test_flags_nobody_knows_are_no_flags() -> None:
    (read,) = receive(f"0202fff8 {IDS}")
    (run,) = receive("0201fff9" + KEY.hex() + BODY.hex())

    assert read == ReadRequest(0, 2, LEDGER, ENTRY)
    assert isinstance(run, AddRun)
    assert (run.is_recovery, run.is_deferred, run.is_high_priority) == (False, False, False)


def test_flags_combine() -> None:
    (read,) = receive(f"02020005 {IDS} {KEY.hex()}")
    (run,) = receive("02010006" + KEY.hex() + BODY.hex())

    assert read == ReadRequest(0, 2, LEDGER, ENTRY, KEY, is_fencing=True, is_high_priority=True)
    assert isinstance(run, AddRun)
    assert (run.is_recovery, run.is_high_priority) == (True, True)


def test_a_fencing_read_of_an_old_version_has_no_key() -> None:
    (read,) = receive(f"01020001 {IDS} {KEY.hex()}")

    assert read == ReadRequest(0, 1, LEDGER, ENTRY, None, is_fencing=True)


@pytest.mark.parametrize(
    ("what", "frame"),
    [
        ("not even a header", "020200"),
        ("opcode READ_LAC", f"02040000 {IDS}"),
        ("opcode WRITE_LAC", f"02050000 {IDS}"),
        ("opcode GET_BOOKIE_INFO", f"02060000 {IDS}"),
        ("opcode 0", f"02000000 {IDS}"),
        ("opcode 8", f"02080000 {IDS}"),
        ("an add with 15 bytes of entry", "02010000" + KEY.hex() + BODY[:15].hex()),
        ("an add without its key", "02010000" + KEY[:19].hex()),
        ("a read without its entry id", "02020000 0000000000000007"),
        ("a fencing read with 19 bytes of key", f"02020001 {IDS} {KEY[:19].hex()}"),
        ("a batch read without its size", f"02070000 {IDS} 000000000000002a 0000000a"),
        ("AUTH that is no message", "02030000 ffffff"),
        ("AUTH with a plugin that is no text", "02030000 0a0473 61ff6c 1200"),
        ("AUTH without its payload", "02030000 0a0473 61736c"),
    ],
)
def test_what_java_closes_the_connection_for_is_no_request(what: str, frame: str) -> None:
    with pytest.raises(BadInput, match="v2"):
        receive(frame)


def test_the_opcode_of_version_0_is_no_flag() -> None:
    """All four bytes are the opcode: the bits of 7 would fence the ledger."""
    (batch,) = receive(f"00000007 {IDS} 000000000000002a 0000000a 0000000000000400")

    assert batch == BatchReadRequest(0x2A, 0, LEDGER, ENTRY, 10, 1024)


def test_a_batch_answer_that_ends_within_an_entry_is_refused() -> None:
    whole = joined(v2.pack_response(BatchReadResponse(5, 2, Status.EOK, LEDGER, ENTRY, (b"first", b"second"))))[4:]

    for cut in (1, len(b"second")):
        with pytest.raises(BadInput, match="ends within an entry"):
            v2.unpack_response(memoryview(whole)[:-cut])


@pytest.mark.parametrize(
    "request_",
    [
        AddRequest(0, 2, LEDGER, ENTRY, KEY, BODY, is_deferred=True),
        ReadRequest(0, 2, LEDGER, LAST, previous_lac=3, timeout_ms=1000, is_piggyback=True),
    ],
)
def test_what_v2_cannot_carry_is_not_sent_as_something_else(request_: Request) -> None:
    """A deferred add would be acknowledged as a durable one, and a long poll answered as a read."""
    with pytest.raises(BadInput, match="use version 3"):
        v2.pack_request(request_)


@pytest.mark.parametrize("status", [status for status in Status if status])
def test_every_status_has_a_code_that_java_s_v2_clients_know(status: Status) -> None:
    answer = v2.pack_response(AddResponse(0, 2, status, LEDGER, ENTRY))

    code = int.from_bytes(b"".join(answer)[8:12], "big")
    assert code in (1, 2, 100, 101, 102, 103, 104, 105, 106)  # PerChannelBookieClient's mapper throws on others


requests = st.one_of(
    st.builds(
        AddRequest,
        st.just(0),
        st.just(2),
        st.just(LEDGER),
        st.just(ENTRY),
        st.binary(min_size=20, max_size=20),
        st.binary(max_size=50).map(lambda payload: BODY + payload),
        is_recovery=st.booleans(),
        is_high_priority=st.booleans(),
    ),
    st.builds(ReadRequest, st.just(0), st.just(2), ids, ids, is_high_priority=st.booleans()),
    st.builds(
        ReadRequest, st.just(0), st.just(2), ids, ids, st.just(KEY), st.just(True), is_high_priority=st.booleans()
    ),
    st.builds(
        BatchReadRequest,
        ids,
        st.just(2),
        ids,
        ids,
        st.integers(min_value=-(2**31), max_value=2**31 - 1),
        ids,
        st.just(KEY),
        st.just(True),
    ),
    st.builds(AuthRequest, st.just(0), st.just(2), st.text(max_size=10), st.binary(max_size=20)),
)
statuses = st.sampled_from([status for status in Status if status is not Status.EUNKNOWNLEDGERSTATE])
responses = st.one_of(
    st.builds(AddResponse, st.just(0), versions, statuses, ids, ids),
    st.builds(ReadResponse, st.just(0), versions, st.just(Status.EOK), ids, ids, st.binary(max_size=50)),
    st.builds(ReadResponse, st.just(0), versions, statuses.filter(bool), ids, ids),
    st.builds(
        BatchReadResponse,
        ids,
        versions,
        st.just(Status.EOK),
        ids,
        ids,
        st.lists(st.binary(max_size=20), max_size=4).map(tuple),
    ),
    st.builds(AuthResponse, st.just(0), versions, st.just(Status.EOK), st.text(max_size=10), st.binary(max_size=9)),
)


@given(requests)
def test_every_request_survives_its_codec(request_: Request) -> None:
    whole = joined(v2.pack_request(request_))

    assert v2.unpack_request(memoryview(whole)[4:]) == request_


@given(responses)
def test_every_response_survives_its_codec(response: Response) -> None:
    whole = joined(v2.pack_response(response))

    assert v2.unpack_response(memoryview(whole)[4:]) == response


@given(requests, st.data())
def test_a_torn_request_is_refused_or_a_shorter_one(request_: Request, data: st.DataObject) -> None:
    whole = joined(v2.pack_request(request_))[4:]
    cut = whole[: data.draw(st.integers(min_value=0, max_value=len(whole) - 1))]

    try:
        found = v2.unpack_request(memoryview(cut))
    except BadInput:
        return
    assert type(found) is type(request_)  # an add's payload or a token is whatever came


def joined(buffers: list[Buffer]) -> bytes:
    return b"".join(buffers)
