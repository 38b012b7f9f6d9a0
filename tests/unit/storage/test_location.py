"""Locations: 12 bytes, and only 12 bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.base import errors
from bookie.storage import location

U32 = st.integers(min_value=0, max_value=2**32 - 1)


@given(log_id=U32, offset=U32, size=U32)
def test_a_location_round_trips(log_id: int, offset: int, size: int) -> None:
    packed = location.pack(log_id, offset, size)

    assert len(packed) == location.SIZE
    assert location.unpack(packed) == (log_id, offset, size)


@pytest.mark.parametrize("size", [0, 11, 13])
def test_another_size_is_corrupt(size: int) -> None:
    with pytest.raises(errors.CorruptFile, match=str(size)):
        location.unpack(bytes(size))


def test_the_layout_is_that_of_the_indexes_that_are_there() -> None:
    """Log, offset, size, each of four bytes, big-endian: another one reads every index of before as other entries."""
    packed = bytes.fromhex("000000010000020304050607")

    assert location.pack(1, 0x203, 0x4050607) == packed
    found = location.unpack(packed)
    assert (found.log_id, found.offset, found.size) == (1, 0x203, 0x4050607)
