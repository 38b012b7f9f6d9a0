"""Deferred sync: cursors against a set, the LAC against the words of BP-14 (CONFORMANCE.md#D19, D21, D22, D24)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bookie.base import errors
from bookie.base.ids import BootEpoch, EntryId, Incarnation, Life
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
    """CONFORMANCE.md#D19."""
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
    assert [entry for entry in range(max(entries, default=0) + 2) if entry in cursor] == sorted(entries)


def test_a_cursor_takes_what_is_confirmed_in_the_cluster_for_granted() -> None:
    """CONFORMANCE.md#D21."""
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
    """CONFORMANCE.md#D22: A, B and C have synced 1, 2 and 3."""
    assert synced.lac_of(Schedule(3, 3, ack_quorum), [EntryId(1), EntryId(2), EntryId(3)]) == lac


@settings(deadline=None)
@given(st.lists(st.integers(-1, 20), min_size=1, max_size=6), st.data())
def test_the_lac_is_the_greatest_entry_that_an_ack_quorum_has_on_disk(lasts: list[int], data: st.DataObject) -> None:
    """CONFORMANCE.md#D22 against brute force."""
    ack_quorum = data.draw(st.integers(1, len(lasts)))
    expected = max((entry for entry in range(21) if sum(last >= entry for last in lasts) >= ack_quorum), default=-1)

    found = synced.lac_of(Schedule(len(lasts), len(lasts), ack_quorum), [EntryId(last) for last in lasts])

    assert found == expected


def test_acks_alone_confirm_nothing_and_a_force_proves_what_was_acknowledged_before_it() -> None:
    """CONFORMANCE.md#D24; spec/wire.md#W69."""
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


def test_a_force_is_due_only_where_it_would_prove_more_of_what_is_wanted() -> None:
    syncing = Syncing(Schedule(3, 3, 2))
    assert not syncing.is_force_due(0, EntryId(5)), "nothing was acknowledged"
    syncing.acked(0, EntryId(0), EntryId(5))
    assert syncing.is_force_due(0, EntryId(5))

    syncing.forced(0, syncing.force_sent(0))

    assert not syncing.is_force_due(0, EntryId(9)), "all that was acknowledged is proven"
    syncing.acked(0, EntryId(6), EntryId(6))
    assert syncing.is_force_due(0, EntryId(9))
    assert not syncing.is_force_due(0, EntryId(5)), "what is wanted is proven"


def test_what_bookies_tell_by_themselves_moves_the_lac_too() -> None:
    """CONFORMANCE.md#D16."""
    syncing = Syncing(Schedule(3, 3, 2))

    assert not syncing.told(0, EntryId(7))
    assert syncing.told(2, EntryId(3))
    assert syncing.lac == 3


class Bookie:
    """One slot with a memory and a disk, and the writer's connection to it."""

    def __init__(self, syncing: Syncing, slot: int, *, says_its_life: bool) -> None:
        self.syncing = syncing
        self.slot = slot
        self.says_its_life = says_its_life
        self.incarnation, self.boot = 1, 1
        self.disk: set[int] = set()
        self.memory: set[int] = set()  # the disk included
        self.force: SyncCursor | None = None  # on its way
        self.is_met = True
        syncing.met(slot, self.life)

    @property
    def life(self) -> Life | None:
        return Life(Incarnation(self.incarnation), BootEpoch(self.boot)) if self.says_its_life else None

    def do(self, what: str, entry: int) -> None:
        """One thing that can happen to it."""
        if what in ("break", "crash", "lose"):
            self.is_met, self.force = False, None
            self.syncing.left(self.slot)
            if what == "lose":
                self.disk, self.incarnation = set(), self.incarnation + 1
            if what != "break":
                self.memory, self.boot = set(self.disk), self.boot + 1
        elif not self.is_met:
            self.syncing.met_again(self.slot, self.life)
            self.is_met = True
        elif what == "add":
            self.memory.update(range(entry + 1))
            self.syncing.acked(self.slot, EntryId(0), EntryId(entry))
        elif what == "send force":
            self.force = self.syncing.force_sent(self.slot)
        elif what == "sync" or self.force is None:
            self.disk |= self.memory
            self.syncing.told(self.slot, EntryId(prefix(self.disk)))
        else:
            self.disk |= self.memory
            self.syncing.forced(self.slot, self.force)
            self.force = None


happenings = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["add", "add", "send force", "answer", "sync", "break", "crash", "lose"]),
    ),
    min_size=20,
    max_size=60,
)


@settings(deadline=None, max_examples=100)
@given(st.integers(1, 3), st.booleans(), happenings)
def test_the_lac_never_moves_over_an_entry_that_no_ack_quorum_has_on_its_disks(
    ack_quorum: int, says_its_life: bool, story: list[tuple[int, str]]
) -> None:
    """CONFORMANCE.md#D3, spec/bp46.md#T17: whatever breaks, crashes and loses its disk, in whatever order."""
    syncing = Syncing(Schedule(3, 3, ack_quorum))
    bookies = [Bookie(syncing, slot, says_its_life=says_its_life) for slot in range(3)]

    for step, (slot, what) in enumerate(story):
        before = syncing.lac
        bookies[slot].do(what, step // 6)
        for confirmed in range(before + 1, syncing.lac + 1):
            assert sum(confirmed in bookie.disk for bookie in bookies) >= ack_quorum
        for bookie in bookies:
            known = {entry for entry in range(10) if not syncing.lacks(bookie.slot, EntryId(entry))}
            assert not bookie.is_met or all(entry <= syncing.lac or entry in bookie.memory for entry in known)


def test_the_lac_does_not_move_by_a_bookie_of_which_nobody_knows_what_it_still_has() -> None:
    life = Life(Incarnation(1), BootEpoch(4))
    syncing = Syncing(Schedule(3, 3, 2))
    for slot in range(3):
        syncing.met(slot, life)
    syncing.told(0, EntryId(4))
    syncing.left(0)

    assert not syncing.told(1, EntryId(7))
    assert syncing.met_again(0, life)
    assert syncing.lac == 4


def test_in_the_same_life_what_was_acknowledged_need_not_be_sent_again() -> None:
    life, next_boot = Life(Incarnation(1), BootEpoch(4)), Life(Incarnation(1), BootEpoch(5))
    syncing = Syncing(Schedule(3, 3, 2))
    syncing.met(0, life)
    syncing.acked(0, EntryId(0), EntryId(4))
    syncing.forced(0, syncing.force_sent(0))
    syncing.acked(0, EntryId(5), EntryId(9))

    syncing.left(0)
    assert syncing.met_again(0, life)
    assert not any(syncing.lacks(0, EntryId(entry)) for entry in range(10))
    syncing.left(0)
    assert not syncing.met_again(0, next_boot)
    assert [entry for entry in range(10) if syncing.lacks(0, EntryId(entry))] == [5, 6, 7, 8, 9]
    syncing.left(0)
    assert not syncing.met_again(0, None)
    assert all(syncing.lacks(0, EntryId(entry)) for entry in range(10))


def test_deferred_sync_is_refused_where_it_would_promise_nothing() -> None:
    """CONFORMANCE.md#D17, D23."""
    striped = synced.why_not_deferred(Schedule(4, 3, 2), protocol_version=3)
    old = synced.why_not_deferred(Schedule(3, 3, 2), protocol_version=2)

    assert isinstance(striped, errors.BadInput)
    assert isinstance(old, errors.BadInput)
    assert synced.why_not_deferred(Schedule(3, 3, 2), protocol_version=3) is None
