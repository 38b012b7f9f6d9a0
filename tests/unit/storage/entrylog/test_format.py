"""Entry log bytes: a record is exactly the entry that was written, or nothing."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from bookie.base.ids import EntryId, LedgerId
from bookie.ports.disk import Buffer
from bookie.storage import location
from bookie.storage.entrylog import format as log_format
from bookie.storage.location import Location

IDS = st.integers(min_value=0, max_value=2**63 - 1)


def entry(payload: bytes, *, ledger_id: int = 3, entry_id: int = 4) -> bytes:
    """What a client sends: an entry that names itself."""
    return struct.pack(">qqq", ledger_id, entry_id, -1) + payload


def run(bodies: list[bytes], *, log_id: int = 5) -> tuple[bytes, list[Location], int]:
    """The bytes of a run whose log begins with them, the locations it gives, and where it says that it ends."""
    buffers: list[Buffer] = []
    places, end = log_format.pack_run(log_id, 0, bodies, buffers)
    return b"".join(buffers), [location.unpack(place) for place in places], end


def found_in(data: bytes, place: Location, *, ledger_id: int = 3, entry_id: int = 4) -> bytes | None:
    return log_format.body_of(data, place.offset, place, LedgerId(ledger_id), EntryId(entry_id))


def test_the_locations_of_a_run_are_where_its_records_are() -> None:
    bodies = [entry(payload, entry_id=4 + number) for number, payload in enumerate([b"one", b"the second", b""])]

    data, places, end = run(bodies)

    assert end == len(data)
    found = [log_format.unpack_record(data, place.offset, place.log_id) for place in places]
    assert [(one.entry_id, one.body, one.location) for one in found if one] == list(
        zip([4, 5, 6], bodies, places, strict=True)
    )
    assert [found_in(data, place, entry_id=4 + number) for number, place in enumerate(places)] == bodies


@given(log_id=st.integers(0, 2**32 - 1), ledger=IDS, entry_id=IDS, payload=st.binary(max_size=300))
def test_a_record_round_trips(log_id: int, ledger: int, entry_id: int, payload: bytes) -> None:
    body = entry(payload, ledger_id=ledger, entry_id=entry_id)
    data, (place,), _ = run([body], log_id=log_id)

    found = log_format.unpack_record(b"before" + data + b"after", 6, log_id)

    assert found_in(data, place, ledger_id=ledger, entry_id=entry_id) == body
    assert found is not None
    assert (found.ledger_id, found.entry_id, found.body) == (ledger, entry_id, body)
    assert found.location == (log_id, 6, len(body))


def test_no_part_of_a_record_is_the_record() -> None:
    data, (place,), _ = run([entry(b"the body")])

    assert not any(found_in(data[:size], place) for size in range(len(data)))
    for size in range(len(data) + 9):
        if size != place.size:
            assert found_in(data + b"\0" * 8, place._replace(size=size)) is None
    for start in range(1, 9):
        assert found_in(data + bytes(8), place._replace(offset=start)) is None


def test_a_flipped_bit_anywhere_is_no_record() -> None:
    data, (place,), _ = run([entry(b"the body")])
    for bit in range(len(data) * 8):
        broken = bytearray(data)
        broken[bit // 8] ^= 1 << bit % 8
        assert found_in(bytes(broken), place) is None, bit
        assert log_format.unpack_record(bytes(broken), 0, place.log_id) is None, bit


def test_a_record_of_something_else_is_not_taken_for_this_one() -> None:
    data, (place,), _ = run([entry(b"the body")])

    assert found_in(data, place) is not None
    assert found_in(data, place, ledger_id=4) is None
    assert found_in(data, place, entry_id=5) is None
    assert found_in(data, place._replace(log_id=6)) is None


@given(size=st.integers(0, 200), log_id=st.integers(0, 2**32 - 1))
def test_zeros_are_never_a_record(size: int, log_id: int) -> None:
    for claimed in (0, 16, max(0, size - 8)):
        assert found_in(bytes(size), Location(log_id, 0, claimed), ledger_id=0, entry_id=0) is None
    assert log_format.unpack_record(bytes(size), 0, log_id) is None


def test_a_header_is_of_its_log_and_whole() -> None:
    header = log_format.pack_header(5)

    assert log_format.is_header(header + b"rest", 5)
    assert not log_format.is_header(header, 6)
    assert not any(log_format.is_header(header[:size], 5) for size in range(len(header)))
    assert not log_format.is_header(bytes(len(header)), 0)


def test_the_bytes_on_the_disk_are_those_that_earlier_programs_of_this_format_wrote() -> None:
    """What is read and written alike wrongly round-trips; a log of last year is read all the same."""
    buffers: list[Buffer] = []
    log_format.pack_run(5, 4096, [entry(b"the body")], buffers)

    assert log_format.pack_header(5).hex() == "424b49454c4f47310000000200000005c9212cb0"
    assert b"".join(buffers)[:8].hex() == "38f1abfe00000020"
    assert len(log_format.pack_head_block(5)) == 4096
