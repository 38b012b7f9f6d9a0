"""The short way for "add done" against the parser, which is the plain version of it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from bookie.base.errors import Status
from bookie.base.ids import EntryId, LedgerId
from bookie.client import acks
from bookie.wire import v3
from bookie.wire.messages import AddResponse, ReadResponse, Response

ids = st.integers(0, 2**63 - 1)


def frame(response: Response) -> memoryview:
    return memoryview(b"".join(v3.pack_response(response)))[4:]


def test_the_worked_hex_of_the_reference_is_recognised() -> None:
    """Wire 14: v3 add response."""
    assert acks.plain_ack_txn(memoryview(bytes.fromhex("0a060803100218011000aa0606080010071801"))) == 1


@settings(deadline=None)
@given(st.integers(1, 2**64 - 1), ids, ids)
def test_a_done_add_has_the_transaction_that_the_parser_reads(txn: int, ledger: int, entry: int) -> None:
    done = frame(AddResponse(txn, 3, Status.EOK, LedgerId(ledger), EntryId(entry)))

    assert acks.plain_ack_txn(done) in (txn, acks.NOT_PLAIN)
    if txn < 2**42:
        assert acks.plain_ack_txn(done) == txn == v3.unpack_response(done).txn


@settings(deadline=None)
@given(st.sampled_from(sorted(set(Status) - {Status.EOK})), ids)
def test_an_add_that_failed_is_never_taken_for_done(status: Status, txn: int) -> None:
    assert acks.plain_ack_txn(frame(AddResponse(txn, 3, status, LedgerId(1), EntryId(2)))) == acks.NOT_PLAIN


def test_any_other_answer_and_any_prefix_is_left_to_the_parser() -> None:
    read = frame(ReadResponse(5, 3, Status.EOK, LedgerId(1), EntryId(2), b"x"))
    done = frame(AddResponse(5, 3, Status.EOK, LedgerId(1), EntryId(2)))

    assert acks.plain_ack_txn(read) == acks.NOT_PLAIN
    assert all(acks.plain_ack_txn(done[:size]) == acks.NOT_PLAIN for size in range(len(done)))


@settings(deadline=None)
@given(st.integers(0, 16), st.integers(0, 255))
def test_whatever_byte_of_header_and_status_is_changed_what_is_still_accepted_is_a_done_add(at: int, byte: int) -> None:
    done = bytearray(frame(AddResponse(300, 3, Status.EOK, LedgerId(7), EntryId(1000))))
    done[at] = byte

    txn = acks.plain_ack_txn(memoryview(bytes(done)))

    if txn != acks.NOT_PLAIN:
        parsed = v3.unpack_response(bytes(done))
        assert isinstance(parsed, AddResponse)
        assert (parsed.txn, parsed.status) == (txn, Status.EOK)


@settings(deadline=None)
@given(st.binary(max_size=70))
def test_noise_never_fails_the_short_way(noise: bytes) -> None:
    acks.plain_ack_txn(memoryview(noise))
