"""Sets of ids as ranges, against Python's own sets."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_bookkeeper import ranges
from pyspark_bookkeeper.ranges import ID_END, Range

PAIRS = st.lists(st.tuples(st.integers(-3, 30), st.integers(-3, 30)), max_size=6)


def members(found: ranges.Ranges) -> set[int]:
    return {one for each in found for one in each.ids}


@settings(deadline=None)
@given(PAIRS)
def test_a_union_holds_exactly_the_ids_of_its_parts_and_is_tidy(pairs: list[tuple[int, int]]) -> None:
    found = ranges.union(pairs)

    assert members(found) == {one for start, end in pairs for one in range(max(start, 0), end)}
    assert all(one.start < one.end for one in found)
    assert all(left.end < right.start for left, right in itertools.pairwise(found))


@settings(deadline=None)
@given(PAIRS)
def test_membership_and_size_agree_with_the_ids(pairs: list[tuple[int, int]]) -> None:
    found = ranges.union(pairs)

    assert [one for one in range(-1, 32) if ranges.contains(found, one)] == sorted(members(found))
    assert ranges.size(found) == len(members(found))


def test_everything_has_no_end_below_the_largest_id() -> None:
    assert ranges.contains(ranges.EVERYTHING, ID_END - 1)
    assert not ranges.contains(ranges.EVERYTHING, ID_END)
    assert ranges.union([(5, ID_END + 7)]) == (Range(5, ID_END),)
