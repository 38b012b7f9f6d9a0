"""The position: it reads back, and what is none is refused in a sentence."""

import pytest

from bookie.base import errors
from bookie.base.ids import Incarnation
from bookie.metadata.position import Position, dump_position, load_position


def test_a_position_reads_back() -> None:
    position = Position("cluster", Incarnation(3), ((7, 4096), (2**40, 2**31)), ((0, 8192), (2**32 - 1, 2**40)))

    assert load_position(dump_position(position)) == position


def test_a_position_of_a_release_that_told_of_no_logs_reads_back() -> None:
    data = b'{"instance_id": "cluster", "incarnation": 3, "journals": [[7, 4096]]}'

    assert load_position(data) == Position("cluster", Incarnation(3), ((7, 4096),))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b'{"journals": [[1]], "instance_id": "", "incarnation": 1}',
        b'{"journals": [], "logs": [[1]], "instance_id": "", "incarnation": 1}',
    ],
)
def test_what_is_no_position_is_refused(data: bytes) -> None:
    with pytest.raises(errors.BadInput, match="position"):
        load_position(data)
