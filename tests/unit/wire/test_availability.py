"""Lists of entries: any set of entries, however written, and nothing that is none."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wire_support
from bookie.base.errors import BadInput
from bookie.wire import availability

GROUP = struct.Struct(">qqii")

ids = st.one_of(
    st.sets(st.integers(0, 120)),
    st.builds(lambda size, gap, n, at: {at + r * (size + gap) + i for r in range(n) for i in range(size)},
              st.integers(1, 4), st.integers(1, 4), st.integers(1, 30), st.integers(0, 50)),
)  # fmt: skip


def runs_of(entries: set[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for entry in sorted(entries):
        if runs and runs[-1][1] + 1 == entry:
            runs[-1] = (runs[-1][0], entry)
        else:
            runs.append((entry, entry))
    return runs


def as_shipped(runs: list[tuple[int, int]]) -> bytes:
    """One group per run, as Java's encoder writes them."""
    groups = b"".join(GROUP.pack(first, first, last - first + 1, 0) for first, last in runs)
    return struct.pack(">ii56x", 0, len(runs)) + groups


def encoded(*groups: tuple[int, int, int, int]) -> bytes:
    return struct.pack(">ii56x", 0, len(groups)) + b"".join(GROUP.pack(*group) for group in groups)


@settings(deadline=None)
@given(ids)
def test_any_set_of_entries_survives_in_both_forms(entries: set[int]) -> None:
    runs = runs_of(entries)

    for data in (wire_support.encode_runs(runs), as_shipped(runs)):
        assert availability.decode(data) == runs
        groups = availability.decode_groups(data)
        drawn = [start + i for first, last, size, step in groups for start in range(first, last + 1, step or 1)
                 for i in range(size)]  # fmt: skip
        assert drawn == sorted(entries)


@pytest.mark.parametrize("index", range(3))
def test_a_striped_replica_is_at_most_three_groups_however_long_it_is(index: int) -> None:
    runs = runs_of({entry for entry in range(30_000) if (index - entry) % 3 < 2})

    assert len(availability.decode_groups(as_shipped(runs))) <= 3
    assert len(wire_support.encode_runs(runs)) <= 64 + 3 * 24


@settings(deadline=None)
@given(ids, st.data())
def test_one_entry_less_is_seen_in_both_forms(entries: set[int], data: st.DataObject) -> None:
    if not entries:
        return
    fewer = entries - {data.draw(st.sampled_from(sorted(entries)))}

    for write in (wire_support.encode_runs, as_shipped):
        assert availability.decode(write(runs_of(fewer))) == runs_of(fewer) != runs_of(entries)


@pytest.mark.parametrize(
    "groups",
    [
        [(-1, -1, 1, 0)],  # before the first entry
        [(0, 0, 0, 0)],  # nothing
        [(0, 0, -1, 0)],
        [(5, 4, 1, 1)],  # backwards
        [(0, 7, 2, 3)],  # ends between two steps
        [(0, 6, 4, 3)],  # runs into its own next
        [(0, 6, 1, -3)],
        [(0, 3, 1, 0)],  # repeated, and does not say how often
        [(5, 5, 1, 0), (5, 5, 1, 0)],  # twice the same
        [(5, 5, 3, 0), (7, 7, 3, 0)],  # overlapping
        [(9, 9, 1, 0), (5, 5, 1, 0)],  # descending
        [(0, 0, 2, 0), (3, 3, 2, 0), (6, 9, 2, 0)],  # steps, the last of which is none
    ],
)
def test_what_is_no_list_is_refused(groups: list[tuple[int, int, int, int]]) -> None:
    with pytest.raises(BadInput):
        availability.decode_groups(encoded(*groups))


@pytest.mark.parametrize("count", [-1, 0, 1, 3])
def test_a_list_that_is_longer_or_shorter_than_it_says_is_refused(count: int) -> None:
    """What a wrong number of groups hides would be taken for entries that the bookie does not have."""
    data = struct.pack(">ii56x", 0, count) + encoded((0, 0, 1, 0), (5, 5, 1, 0))[64:]

    with pytest.raises(BadInput):
        availability.decode_groups(data)


def test_runs_too_far_apart_for_one_step_are_written_apart() -> None:
    runs = [(0, 0), (2**31, 2**31), (2**32, 2**32)]

    assert availability.decode(wire_support.encode_runs(runs)) == runs


def test_a_run_longer_than_one_group_can_say_is_written_whole() -> None:
    runs = [(3, 2**32 + 5)]

    assert availability.decode(wire_support.encode_runs(runs)) == runs


def test_steps_that_would_pass_the_last_id_are_no_error_of_ours() -> None:
    end = 2**63

    with pytest.raises(BadInput):
        availability.decode(encoded((end - 4, end - 4, 1, 0), (end - 2, end - 2, 1, 0), *[(0, 0, 1, 0)] * 6))


def test_a_list_of_more_runs_than_a_bookie_can_hold_is_refused() -> None:
    """Twenty-four bytes that take all memory of whoever asked."""
    with pytest.raises(BadInput, match="more than any bookie can hold"):
        availability.decode(encoded((0, 2 * (1 << 22), 1, 2)))


def test_the_last_entries_there_can_be_are_read() -> None:
    end = 2**63

    assert availability.decode(encoded((end - 4, end - 4, 1, 0), (end - 2, end - 2, 1, 0))) == [
        (end - 4, end - 4),
        (end - 2, end - 2),
    ]
