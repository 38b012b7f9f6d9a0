"""What the benchmark sends and stores is what it says: frames that a bookie takes, entries that an index finds."""

from __future__ import annotations

import pytest

import bench_proc
import bench_swarm
from bench_swarm import Shape, Swarm
from bookie.wire import framing, v2
from bookie.wire.messages import AddRequest


def adds(swarm: Swarm, count: int) -> list[AddRequest]:
    frames = framing.FrameSplitter().feed(swarm.frames(count))
    requests = [v2.unpack_request(frame) for frame in frames]
    return [request for request in requests if isinstance(request, AddRequest)]


def test_a_swarm_adds_to_its_ledgers_in_turn_and_numbers_the_entries_of_each() -> None:
    made = adds(Swarm(Shape(connections=1, ledgers=3, size_bytes=10, ledger_first=100)), 7)

    assert [(add.ledger_id, add.entry_id) for add in made] == [
        (100, 0),
        (101, 0),
        (102, 0),
        (100, 1),
        (101, 1),
        (102, 1),
        (100, 2),
    ]
    assert {len(add.body) for add in made} == {32 + 4 + 10}, "ids, LAC and length; a digest; the payload"


def test_a_swarm_goes_on_where_it_stopped() -> None:
    swarm = Swarm(Shape(connections=1, ledgers=2, size_bytes=1, ledger_first=0))

    assert [add.entry_id for add in [*adds(swarm, 3), *adds(swarm, 3)]] == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("shape", "window"),
    [
        (Shape(1, 1, 1024, 0), 4000),
        (Shape(1000, 1, 1024, 0), 4),
        (Shape(1, 1, 1 << 20, 0), 16),
        (Shape(10_000, 1, 1 << 20, 0), 1),
    ],
)
def test_what_is_in_flight_is_bounded_by_count_and_bytes_over_all_connections(shape: Shape, window: int) -> None:
    assert shape.window == window


def test_an_add_that_is_refused_ends_the_swarm() -> None:
    swarm = Swarm(Shape(1, 1, 10, 5))
    swarm.is_sending = True

    fine, read_only = ((24, 2, 1, 0, 0, 5, 0), (24, 2, 1, 0, 104, 5, 1))
    counted = swarm.answers(bench_swarm._ANSWER.pack(*fine) + bench_swarm._ANSWER.pack(*read_only))

    assert counted == 2
    assert swarm.failure == "ledger 5 entry 1 was answered 104"
    assert not swarm.is_sending


def test_cpu_seconds_are_found_behind_a_name_with_spaces_and_parentheses() -> None:
    fields = ["S", *["0"] * 10, "150", "50", *["0"] * 30]

    assert bench_proc._cpu_s(f"12 (a (bad) name) {' '.join(fields)}") == pytest.approx(200 * bench_proc.TICK_S)
