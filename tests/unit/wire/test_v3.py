"""Version 3 under any values: every message survives its codec and a bookie's session, in any chunks."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.base.errors import BadInput, Status
from bookie.base.ids import EntryId, LedgerId
from bookie.wire import session, v3
from bookie.wire.messages import (
    AddRequest,
    AddResponse,
    AddRun,
    AuthRequest,
    AuthResponse,
    BookieInfoRequest,
    BookieInfoResponse,
    ForceRequest,
    ForceResponse,
    ListEntriesRequest,
    ListEntriesResponse,
    ReadLacRequest,
    ReadLacResponse,
    ReadRequest,
    ReadResponse,
    ReadRun,
    Request,
    Response,
    StartTlsRequest,
    WriteLacRequest,
    WriteLacResponse,
)

ids = st.integers(min_value=-(2**63), max_value=2**63 - 1)
txns = st.integers(min_value=0, max_value=2**64 - 1)
bodies = st.binary(max_size=60)
three = st.just(3)
bools = st.booleans()
maybe_ids = st.none() | ids

requests = st.one_of(
    st.builds(AddRequest, txns, three, ids, ids, st.binary(max_size=30), bodies, bools, bools, bools),
    # The fence flag and the piggyback flag are one field: never both.
    st.builds(
        ReadRequest, txns, three, ids, ids, st.none() | bodies, bools, maybe_ids, maybe_ids, st.just(False), bools
    ),
    st.builds(ReadRequest, txns, three, ids, ids, st.none(), st.just(False), maybe_ids, maybe_ids, bools, bools),
    st.builds(WriteLacRequest, txns, three, ids, ids, bodies, bodies),
    st.builds(ReadLacRequest, txns, three, ids),
    st.builds(ForceRequest, txns, three, ids),
    st.builds(ListEntriesRequest, txns, three, ids),
    st.builds(BookieInfoRequest, txns, three, ids),
    st.builds(AuthRequest, txns, three, st.text(max_size=10), bodies),
    st.builds(StartTlsRequest, txns, three),
)
statuses = st.sampled_from(Status)
maybe_bodies = st.none() | bodies
counts = st.none() | st.integers(min_value=0, max_value=2**63 - 1)
responses = st.one_of(
    st.builds(AddResponse, txns, three, statuses, ids, ids),
    st.builds(ReadResponse, txns, three, statuses, ids, ids, maybe_bodies, maybe_ids, maybe_ids),
    st.builds(WriteLacResponse, txns, three, statuses, ids),
    st.builds(ReadLacResponse, txns, three, statuses, ids, maybe_bodies, maybe_bodies),
    st.builds(ForceResponse, txns, three, statuses, ids),
    st.builds(ListEntriesResponse, txns, three, statuses, ids, maybe_bodies),
    st.builds(BookieInfoResponse, txns, three, statuses, counts, counts, counts, counts),
    st.builds(AuthResponse, txns, three, st.just(Status.EOK), st.text(max_size=10), bodies),
)


@given(requests)
def test_every_request_survives_its_codec(request_: Request) -> None:
    assert v3.unpack_request(b"".join(v3.pack_request(request_))[4:]) == request_


@given(responses)
def test_every_response_survives_its_codec(response: Response) -> None:
    assert v3.unpack_response(b"".join(v3.pack_response(response))[4:]) == response


@given(st.lists(requests, max_size=6), st.data())
def test_a_session_hands_out_every_request_whatever_the_chunks(sent: list[Request], data: st.DataObject) -> None:
    stream = b"".join(b"".join(v3.pack_request(request)) for request in sent)
    server = session.ServerSession()
    seen: list[int] = []
    while stream:
        size = data.draw(st.integers(min_value=1, max_value=len(stream)))
        for one in server.receive(stream[:size]):
            seen += one.txns if isinstance(one, AddRun | ReadRun) else [one.txn]
        stream = stream[size:]

    assert sorted(seen) == sorted(request.txn for request in sent)
    assert server.is_between_frames


@given(requests, st.data())
def test_a_damaged_request_is_refused_or_another_request(request_: Request, data: st.DataObject) -> None:
    frame = bytearray(b"".join(v3.pack_request(request_))[4:])
    frame[data.draw(st.integers(min_value=0, max_value=len(frame) - 1))] ^= data.draw(
        st.integers(min_value=1, max_value=255)
    )

    try:
        session.ServerSession().receive(len(frame).to_bytes(4, "big") + frame)
    except BadInput:
        return


@pytest.mark.parametrize("unit", [b"\xc2\x0c\x00", b"\xc2\x0c\x04\x0a\x00\x12\x00", b"\xf8\x7f\x00"])
def test_a_large_frame_of_many_fields_is_refused_before_it_is_parsed(unit: bytes) -> None:
    """Half a second of the loop and a hundred MiB for five MiB of empty pairs."""
    frame = b"\x0a\x06\x08\x03\x10\x01\x18\x05" + unit * (100_000 // len(unit))

    with pytest.raises(BadInput, match="more than 64 fields"):
        v3.unpack_request(memoryview(frame))


class Counted(bytes):
    """A frame that counts the bytes looked at one by one."""

    looked_at = 0

    def __getitem__(self, place: Any) -> Any:
        self.looked_at += 1
        return super().__getitem__(place)


def test_a_number_that_does_not_end_is_not_followed_through_a_large_frame() -> None:
    """It grows with each byte: five MiB of them held the loop for minutes."""
    frame = Counted(b"\xff" * 100_000)

    with pytest.raises(BadInput):
        v3.unpack_request(frame)
    assert frame.looked_at < 100


def test_a_large_add_with_a_context_of_java_s_is_read() -> None:
    add = AddRequest(1, 3, LedgerId(7), EntryId(0), bytes(20), bytes(200_000), is_recovery=True)
    frame = b"".join(v3.pack_request(add))[4:] + b"\xc2\x0c\x06\x0a\x01k\x12\x01v" * 8

    found = v3.unpack_request(memoryview(frame))

    assert isinstance(found, AddRequest)
    assert (found.entry_id, len(found.body), found.is_recovery) == (0, 200_000, True)
