"""Entry log bytes: a record is exactly the entry that was written, or nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.base.ids import EntryId, LedgerId
from bookie.ports.disk import Buffer
from bookie.storage import location
from bookie.storage.entrylog import format as log_format

IDS = st.integers(min_value=0, max_value=2**63 - 1)


def record(body: bytes, *, log_id: int = 5, ledger_id: int = 3, entry_id: int = 4) -> bytes:
    return run([body], log_id=log_id, ledger_id=ledger_id, entry_id=entry_id)[0]


def run(
    bodies: list[bytes], *, log_id: int = 5, ledger_id: int = 3, entry_id: int = 4
) -> tuple[bytes, list[location.Location], int]:
    """The bytes of a run whose log begins with them, the locations it gives, and where it says that it ends."""
    buffers: list[Buffer] = []
    entry_ids = [EntryId(entry_id + number) for number in range(len(bodies))]
    places, end = log_format.pack_run(log_id, 0, LedgerId(ledger_id), entry_ids, bodies, buffers)
    return b"".join(buffers), [location.unpack(place) for place in places], end


def test_the_locations_of_a_run_are_where_its_records_are() -> None:
    bodies = [b"one", b"the second", b"3"]

    data, places, end = run(bodies)

    assert end == len(data)
    found = [log_format.unpack_record(data, place.offset, place.log_id) for place in places]
    assert [(one.entry_id, one.body, one.location) for one in found if one] == list(
        zip([4, 5, 6], bodies, places, strict=True)
    )


def is_record(data: bytes, *, log_id: int = 5, ledger_id: int = 3, entry_id: int = 4) -> bool:
    return log_format.is_record(data, log_id, LedgerId(ledger_id), EntryId(entry_id))


@given(log_id=st.integers(0, 2**32 - 1), ledger=IDS, entry=IDS, body=st.binary(min_size=1, max_size=300))
def test_a_record_round_trips(log_id: int, ledger: int, entry: int, body: bytes) -> None:
    data = record(body, log_id=log_id, ledger_id=ledger, entry_id=entry)

    found = log_format.unpack_record(b"before" + data + b"after", 6, log_id)

    assert is_record(data, log_id=log_id, ledger_id=ledger, entry_id=entry)
    assert found is not None
    assert (found.ledger_id, found.entry_id, found.body) == (ledger, entry, body)
    assert found.location == (log_id, 6, len(body))


def test_no_prefix_and_no_longer_run_of_bytes_is_the_record() -> None:
    data = record(b"the body")

    assert not any(is_record(data[:size]) for size in range(len(data)))
    assert not is_record(data + b"\0")


def test_a_flipped_bit_anywhere_is_no_record() -> None:
    data = record(b"the body")
    for bit in range(len(data) * 8):
        broken = bytearray(data)
        broken[bit // 8] ^= 1 << bit % 8
        assert not is_record(bytes(broken)), bit


@pytest.mark.parametrize("other", [{"log_id": 6}, {"ledger_id": 4}, {"entry_id": 5}])
def test_a_record_of_something_else_is_not_taken_for_this_one(other: dict[str, int]) -> None:
    assert not is_record(record(b"the body", **other))


@given(size=st.integers(0, 200), log_id=st.integers(0, 2**32 - 1))
def test_zeros_are_never_a_record(size: int, log_id: int) -> None:
    assert not is_record(bytes(size), log_id=log_id, ledger_id=0, entry_id=0)
    assert log_format.unpack_record(bytes(size), 0, log_id) is None


def test_a_header_is_of_its_log_and_whole() -> None:
    header = log_format.pack_header(5)

    assert log_format.is_header(header + b"rest", 5)
    assert not log_format.is_header(header, 6)
    assert not any(log_format.is_header(header[:size], 5) for size in range(len(header)))
    assert not log_format.is_header(bytes(len(header)), 0)
