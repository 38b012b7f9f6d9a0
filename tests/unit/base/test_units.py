"""Unit arithmetic."""

import pytest

from bookie.base import units


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * units.GIB, "5.0 GiB"), (2**40, "1.0 TiB")]
)
def test_sizes_read_well(size: int, text: str) -> None:
    assert units.format_bytes(size) == text
