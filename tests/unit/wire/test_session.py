"""Sessions: version detection and matching (spec/wire.md#W4, W43)."""

import pytest

from bookie.base.errors import BadInput, Status
from bookie.base.ids import EntryId, LedgerId
from bookie.wire import v2, v3
from bookie.wire.messages import (
    ADDS_MAX,
    REQUESTS_MAX,
    AddRequest,
    AddResponse,
    AddRun,
    ReadLacRequest,
    ReadRequest,
    ReadResponse,
)
from bookie.wire.session import ServerSession
from client_session import ClientSession

LEDGER = LedgerId(7)


def read(version: int, entry_id: int = 0) -> ReadRequest:
    return ReadRequest(0, version, LEDGER, EntryId(entry_id))


def packed(request: ReadRequest) -> bytes:
    return b"".join(v3.pack_request(request) if request.version == 3 else v2.pack_request(request))


def test_v3_then_v2_on_one_connection_works() -> None:
    session = ServerSession()

    found = session.receive(packed(read(3)) + packed(read(2)) + packed(read(2)))

    assert [request.version for request in found] == [3, 2, 2]


def test_after_a_v2_frame_a_v3_frame_closes_the_connection() -> None:
    session = ServerSession()
    session.receive(packed(read(2)))

    with pytest.raises(BadInput):
        session.receive(packed(read(3)))


def test_a_client_gets_its_tokens_back_in_any_order() -> None:
    client: ClientSession[str] = ClientSession()
    first, second = read(3, 1), read(3, 2)
    client.send(first, "first")
    client.send(second, "second")
    answers = [ReadResponse(txn, 3, Status.ENOENTRY, LEDGER, EntryId(0)) for txn in (second.txn, first.txn)]

    found = client.receive(b"".join(b"".join(v3.pack_response(answer)) for answer in answers))

    assert [token for token, _ in found] == ["second", "first"]
    assert client.waiting == 0


def test_an_answer_to_nobody_is_dropped() -> None:
    client: ClientSession[str] = ClientSession()
    request = read(3)
    client.send(request, "late")
    assert client.abandon(request.txn) == "late"

    answer = ReadResponse(request.txn, 3, Status.ENOENTRY, LEDGER, EntryId(0))

    assert client.receive(b"".join(v3.pack_response(answer))) == []


def test_v2_answers_are_matched_by_ids_and_opcode_oldest_first() -> None:
    client: ClientSession[str] = ClientSession(version=2)
    client.send(read(2, 1), "first read of 1")
    client.send(AddRequest(0, 2, LEDGER, EntryId(1), bytes(20), bytes(32)), "add of 1")
    client.send(read(2, 1), "second read of 1")
    answer = b"".join(v2.pack_response(ReadResponse(0, 2, Status.ENOENTRY, LEDGER, EntryId(1))))
    added = b"".join(v2.pack_response(AddResponse(0, 2, Status.EOK, LEDGER, EntryId(1))))

    found = client.receive(answer + added + answer + answer)

    assert [token for token, _ in found] == ["first read of 1", "add of 1", "second read of 1"]


def test_when_the_connection_breaks_all_waiting_requests_are_given_back_in_order() -> None:
    client: ClientSession[int] = ClientSession()
    for number in range(3):
        client.send(read(3, number), number)

    assert client.abandon_all() == [0, 1, 2]
    assert client.waiting == 0


def test_a_chunk_of_tiny_requests_comes_out_in_parts_nothing_lost_and_in_order() -> None:
    """One chunk of 60,000 of them held the loop for seconds."""
    session = ServerSession()
    count = 10 * REQUESTS_MAX + 7
    data = b"".join(b"".join(v3.pack_request(ReadLacRequest(one, 3, LedgerId(one)))) for one in range(count))
    cut = len(data) - 5

    parts = [session.receive(data[:cut])]
    while session.has_more:
        assert not session.is_between_frames
        parts.append(session.receive_more())
    parts.append(session.receive(data[cut:]))

    assert max(map(len, parts)) <= REQUESTS_MAX
    assert [request.ledger_id for part in parts for request in part] == list(range(count))
    assert session.is_between_frames


@pytest.mark.parametrize("is_recovery", [False, True])
@pytest.mark.parametrize("version", [2, 3])
def test_no_run_of_adds_is_longer_than_some_milliseconds_of_work(version: int, is_recovery: bool) -> None:
    session = ServerSession()
    pack = v3.pack_request if version == 3 else v2.pack_request
    count = 2 * ADDS_MAX + 3
    bodies = [LEDGER.to_bytes(8, "big") + number.to_bytes(8, "big") + bytes(16) for number in range(count)]
    adds = [AddRequest(0, version, LEDGER, EntryId(one), bytes(20), bodies[one], is_recovery) for one in range(count)]
    data = b"".join(b"".join(pack(request)) for request in adds)

    found = session.receive(data)
    while session.has_more:
        found += session.receive_more()

    assert all(isinstance(run, AddRun) and len(run.txns) <= ADDS_MAX for run in found)
    assert [entry_id for run in found if isinstance(run, AddRun) for entry_id in run.entry_ids] == list(range(count))
