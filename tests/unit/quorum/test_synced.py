"""Deferred sync: cursors against a set, the LAC against the words of BP-14 (D19, D21, D22, D24)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bookie.base import errors
from bookie.base.ids import EntryId
from bookie.quorum import synced
from bookie.quorum.schedule import Schedule
from bookie.quorum.synced import SyncCursor, Syncing

runs = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 5)).map(lambda run: (run[0], run[0] + run[1])), max_size=20
)


def prefix(entries: set[int]) -> int:
    last = -1
    while last + 1 in entries:
        last += 1
    return last


@settings(deadline=None)
@given(runs, runs)
def test_a_cursor_is_the_contiguous_prefix_of_what_was_synced_in_any_order(
    order: list[tuple[int, int]], others: list[tuple[int, int]]
) -> None:
    """D19."""
    cursor, other = SyncCursor(), SyncCursor()
    entries: set[int] = set()

    for first, last in order:
        cursor.add(first, last)
        entries.update(range(first, last + 1))
        assert cursor.last == prefix(entries)
    for first, last in others:
        other.add(first, last)
        entries.update(range(first, last + 1))
    before = cursor.copy()
    cursor.add_all(other)

    assert cursor.last == prefix(entries)
    assert before.last <= cursor.last
    assert not any(first <= cursor.last + 1 for first in cursor._firsts)


def test_a_cursor_takes_what_is_confirmed_in_the_cluster_for_granted() -> None:
    """D21."""
    cursor = SyncCursor()
    cursor.add(7, 9)

    cursor.confirm(-1)
    assert cursor.last == -1
    cursor.confirm(4)
    assert cursor.last == 4
    cursor.confirm(6)
    assert cursor.last == 9


@pytest.mark.parametrize(("ack_quorum", "lac"), [(1, 3), (2, 2), (3, 1)])
def test_the_example_of_the_proposal(ack_quorum: int, lac: int) -> None:
    """D22: A, B and C have synced 1, 2 and 3."""
    assert synced.lac_of(Schedule(3, 3, ack_quorum), [EntryId(1), EntryId(2), EntryId(3)]) == lac


@settings(deadline=None)
@given(st.lists(st.integers(-1, 20), min_size=1, max_size=6), st.data())
def test_the_lac_is_the_greatest_entry_that_an_ack_quorum_has_on_disk(lasts: list[int], data: st.DataObject) -> None:
    """D22 against brute force."""
    ack_quorum = data.draw(st.integers(1, len(lasts)))
    expected = max((entry for entry in range(21) if sum(last >= entry for last in lasts) >= ack_quorum), default=-1)

    found = synced.lac_of(Schedule(len(lasts), len(lasts), ack_quorum), [EntryId(last) for last in lasts])

    assert found == expected


def test_acks_alone_confirm_nothing_and_a_force_proves_what_was_acknowledged_before_it() -> None:
    """D24; wire 7.8."""
    syncing = Syncing(Schedule(3, 3, 2))
    for slot in range(3):
        syncing.acked(slot, EntryId(0), EntryId(4))
    assert syncing.lac == -1

    proven = [syncing.force_sent(slot) for slot in range(3)]
    syncing.acked(0, EntryId(5), EntryId(9))
    syncing.acked(1, EntryId(5), EntryId(9))

    assert not syncing.forced(0, proven[0])
    assert syncing.forced(1, proven[1])
    assert syncing.lac == 4
    assert not syncing.forced(2, proven[2])


def test_what_bookies_tell_by_themselves_moves_the_lac_too() -> None:
    """D16."""
    syncing = Syncing(Schedule(3, 3, 2))

    assert not syncing.told(0, EntryId(7))
    assert syncing.told(2, EntryId(3))
    assert syncing.lac == 3


def test_deferred_sync_is_refused_where_it_would_promise_nothing() -> None:
    """D17, D23."""
    striped = synced.why_not_deferred(Schedule(4, 3, 2), protocol_version=3)
    old = synced.why_not_deferred(Schedule(3, 3, 2), protocol_version=2)

    assert isinstance(striped, errors.BadInput)
    assert isinstance(old, errors.BadInput)
    assert synced.why_not_deferred(Schedule(3, 3, 2), protocol_version=3) is None
