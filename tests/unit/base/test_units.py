"""Unit arithmetic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.base import units


@given(st.integers(0, 2**63), st.integers(1, 2**20))
def test_align_up_is_the_smallest_multiple_not_below(value: int, alignment: int) -> None:
    aligned = units.align_up(value, alignment)

    assert aligned % alignment == 0
    assert value <= aligned < value + alignment


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * units.GIB, "5.0 GiB"), (2**40, "1.0 TiB")]
)
def test_sizes_read_well(size: int, text: str) -> None:
    assert units.format_bytes(size) == text
