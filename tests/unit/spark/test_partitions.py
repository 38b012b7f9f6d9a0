"""Who reads what: nothing lost, nothing twice, nothing above the limits (docs/PIPELINE.md, "Partitions")."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bookie.base import errors
from bookie.base.ids import BookieId, LedgerId
from bookie.base.units import KIB, MIB
from pyspark_bookkeeper import partitions
from pyspark_bookkeeper.partitions import Limits, Piece


def piece(ledger_id: int, entries: int, *, entry_bytes: int = 1 * KIB, bookie: str = "a", start: int = 0) -> Piece:
    return Piece(
        LedgerId(ledger_id), start, start + entries, start + entries - 1, 0, entries * entry_bytes, BookieId(bookie)
    )


def limits(*, bytes_max: int = 1 * MIB, entries_max: int | None = None, at_least: int = 1) -> Limits:
    return Limits(bytes_max, entries_max, at_least)


PIECES = st.lists(st.tuples(st.integers(1, 600), st.integers(0, 4 * KIB), st.sampled_from("abc")), max_size=12).map(
    lambda drawn: [
        piece(number, entries, entry_bytes=size, bookie=bookie) for number, (entries, size, bookie) in enumerate(drawn)
    ]
)


@settings(deadline=None)  # a loaded machine is no defect
@given(PIECES, st.integers(1, 20), st.sampled_from([None, 10, 100]))
def test_every_entry_is_read_once_and_no_limit_is_exceeded(
    pieces: list[Piece], at_least: int, entries_max: int | None
) -> None:
    of = limits(bytes_max=128 * KIB, entries_max=entries_max, at_least=at_least)

    planned = partitions.plan(pieces, of)

    read = Counter((one.ledger_id, entry) for part in planned for one in part for entry in range(one.start, one.end))
    assert set(read.values()) <= {1}
    assert len(read) == sum(one.entries for one in pieces)
    assert all(part for part in planned)
    if entries_max is not None:
        assert max((sum(one.entries for one in part) for part in planned), default=0) <= entries_max
    for part in planned:
        assert sum(map(of.load, part)) <= 1.0 or len(part) == 1


def test_a_huge_ledger_is_split_into_equal_ranges() -> None:
    planned = partitions.plan([piece(1, 10_000)], limits(bytes_max=1 * MIB))

    sizes = sorted(one.entries for part in planned for one in part)
    assert len(planned) == 10
    assert sizes[-1] - sizes[0] <= 1
    assert all(one.size_bytes <= 1 * MIB for part in planned for one in part)


def test_small_ledgers_share_a_task() -> None:
    planned = partitions.plan([piece(number, 10) for number in range(1_000)], limits(bytes_max=128 * MIB))

    assert len(planned) == 1


def test_the_heaviest_task_is_close_to_the_lightest() -> None:
    pieces = [piece(number, 1 + number * number % 977) for number in range(300)]

    planned = partitions.plan(pieces, limits(bytes_max=4 * MIB, at_least=8))

    loads = [sum(map(limits().load, part)) for part in planned]
    assert max(loads) < 1.1 * min(loads)


def test_a_wish_for_many_partitions_is_granted_where_entries_suffice() -> None:
    assert len(partitions.plan([piece(1, 1_000)], limits(at_least=16))) == 16
    assert len(partitions.plan([piece(1, 3)], limits(at_least=16))) == 3
    assert partitions.plan([], limits(at_least=16)) == []


@settings(deadline=None)
@given(PIECES, st.integers(1, 4_000), st.sampled_from([128 * KIB, 128 * MIB, 1 << 34]))
def test_a_wish_for_partitions_is_granted_whatever_the_sizes(
    pieces: list[Piece], at_least: int, bytes_max: int
) -> None:
    """Shares below a millionth of a partition were rounded, and heavy ledgers of few entries took others' shares."""
    planned = partitions.plan(pieces, limits(bytes_max=bytes_max, at_least=at_least))

    assert len(planned) >= min(at_least, sum(one.entries for one in pieces))


@pytest.mark.parametrize(
    "of", [limits(at_least=10**18), limits(entries_max=1), limits(bytes_max=1)], ids=["wish", "entries", "bytes"]
)
def test_more_tasks_than_a_driver_holds_are_refused_with_the_ledger_that_makes_them(of: Limits) -> None:
    with pytest.raises(errors.BadInput, match=r"would be \d{10,} tasks, \d{10,} for ledger 7 alone.*: raise"):
        partitions.plan([piece(6, 1), piece(7, 1 << 36)], of)


def test_neighbouring_tasks_begin_with_different_bookies() -> None:
    pieces = [piece(number, 900, bookie="ab"[number // 4]) for number in range(8)]

    planned = partitions.plan(pieces, limits())

    assert [part[0].bookie_id for part in planned] == list("abababab")


def test_tiny_entries_weigh_more_than_their_bytes() -> None:
    planned = partitions.plan([piece(1, 10 * KIB, entry_bytes=1)], limits(bytes_max=1 * MIB))

    assert len(planned) == 10


def test_thousands_of_ledgers_are_planned_whole() -> None:
    pieces = [piece(number, 1 + number % 1_000) for number in range(10_000)]

    planned = partitions.plan(pieces, limits(bytes_max=128 * MIB))

    assert sum(one.entries for part in planned for one in part) == sum(one.entries for one in pieces)
