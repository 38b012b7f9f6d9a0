"""Transitions and questions of ledger metadata (spec/metadata.md#M16; spec/bp46.md#S4, S6, S14; CONFORMANCE.md#P5 to
P8, P19)."""

import dataclasses
from typing import Any

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId, EntryId
from bookie.metadata import ledger
from bookie.metadata.ledger import LedgerMetadata, LedgerState, Segment


def bookies(*names: str) -> tuple[BookieId, ...]:
    return tuple(BookieId(name) for name in names)


def made(*names: str, write: int = 3, ack: int = 2) -> LedgerMetadata:
    names = names or ("b1", "b2", "b3")
    return ledger.new_ledger(
        ensemble_size=len(names), write_quorum=write, ack_quorum=ack, bookies=bookies(*names), ctoken=5
    )


@pytest.mark.parametrize(("write", "ack"), [(4, 2), (3, 4), (3, 0), (0, 0)])
def test_quorums_that_do_not_fit_are_refused_before_anything_is_written(write: int, ack: int) -> None:
    with pytest.raises(errors.BadInput, match="ensemble >= write quorum"):
        made(write=write, ack=ack)


def test_a_bookie_cannot_stand_twice_in_one_ensemble() -> None:
    with pytest.raises(errors.BadInput, match="twice"):
        made("b1", "b2", "b1")


def test_entries_are_striped_round_robin_over_the_ensemble() -> None:
    striped = made("b0", "b1", "b2", "b3")

    assert striped.write_set(EntryId(0)) == bookies("b0", "b1", "b2")
    assert striped.write_set(EntryId(2)) == bookies("b2", "b3", "b0")
    assert striped.write_set(EntryId(5)) == bookies("b1", "b2", "b3")


def test_the_stripes_of_a_later_segment_go_on_where_they_would_have_been() -> None:
    """CONFORMANCE.md#P7: the entry's own number counts, not its place in the segment."""
    changed = made("b0", "b1", "b2", "b3").with_ensemble(EntryId(5), bookies("b4", "b1", "b2", "b3"))

    assert changed.write_set(EntryId(5)) == bookies("b1", "b2", "b3")
    assert changed.write_set(EntryId(8)) == bookies("b4", "b1", "b2")


def test_exactly_one_segment_holds_each_entry() -> None:
    changed = made().with_ensemble(EntryId(12), bookies("b4", "b2", "b3"))

    assert changed.segment_of(EntryId(11)).bookies == bookies("b1", "b2", "b3")
    assert changed.segment_of(EntryId(12)).bookies == bookies("b4", "b2", "b3")
    assert [(first, last) for _, first, last in changed.segment_ranges()] == [(0, 11), (12, None)]


def test_an_ensemble_change_at_the_first_entry_of_the_last_segment_replaces_it() -> None:
    changed = made().with_ensemble(EntryId(0), bookies("b4", "b2", "b3"))

    assert [segment.bookies for segment in changed.segments] == [bookies("b4", "b2", "b3")]
    assert changed.ctoken == 0


def test_an_ensemble_change_below_the_last_segment_is_refused() -> None:
    with pytest.raises(errors.BadInput, match="before the last segment"):
        made().with_ensemble(EntryId(5), bookies("b4", "b2", "b3")).with_ensemble(EntryId(4), bookies("b1", "b2", "b3"))


def test_closed_is_final() -> None:
    closed = made().closed(EntryId(9), 100)

    with pytest.raises(errors.BadInput, match="closed"):
        closed.in_recovery()
    with pytest.raises(errors.BadInput, match="closed"):
        closed.with_ensemble(EntryId(10), bookies("b4", "b2", "b3"))
    with pytest.raises(errors.BadInput, match="closed"):
        closed.closed(EntryId(8), 100)
    assert closed.closed(EntryId(9), 100) is closed


@pytest.mark.parametrize(("last_entry", "length"), [(-2, 0), (0, -1)])
def test_a_ledger_cannot_end_before_its_beginning(last_entry: int, length: int) -> None:
    with pytest.raises(errors.BadInput, match=f"cannot close at entry {last_entry} with length {length}"):
        made().closed(EntryId(last_entry), length)


def test_recovery_begins_once_and_may_be_continued() -> None:
    recovering = made().in_recovery()

    assert recovering.state is LedgerState.IN_RECOVERY
    assert recovering.in_recovery() is recovering
    assert recovering.closed(EntryId(-1), 0).last_entry == -1


def test_re_replication_replaces_one_bookie_in_one_segment_of_a_closed_ledger() -> None:
    closed = made().with_ensemble(EntryId(4), bookies("b4", "b2", "b3")).closed(EntryId(9), 100)

    moved = closed.replaced(EntryId(0), BookieId("b2"), BookieId("b7"))

    assert [segment.bookies for segment in moved.segments] == [bookies("b1", "b7", "b3"), bookies("b4", "b2", "b3")]
    with pytest.raises(errors.BadInput):
        closed.replaced(EntryId(0), BookieId("b2"), BookieId("b3"))
    with pytest.raises(errors.BadInput):
        closed.replaced(EntryId(1), BookieId("b2"), BookieId("b7"))


def test_naming_a_bookie_anywhere_differs_from_naming_it_last() -> None:
    changed = made().with_ensemble(EntryId(4), bookies("b4", "b2", "b3"))

    assert changed.names(BookieId("b1"))
    assert not changed.last_segment_names(BookieId("b1"))
    assert not changed.names(BookieId("b9"))


def test_metadata_without_an_ensemble_is_bad_input() -> None:
    with pytest.raises(errors.BadInput, match="no ensemble"):
        dataclasses.replace(made(), segments=())


@pytest.mark.parametrize(
    "other",
    [
        {"ensemble_size": 4, "segments": (Segment(EntryId(0), bookies("b1", "b2", "b3", "b4")),)},
        {"write_quorum": 2},
        {"ack_quorum": 1},
        {"digest_type": 1},
        {"password": b"other"},
        {"ctime_ms": 6},
    ],
)
def test_a_record_that_differs_in_what_never_changes_is_another_ledgers(other: dict[str, Any]) -> None:
    known = dataclasses.replace(made(), ctime_ms=5)

    assert known.was_replaced_by(dataclasses.replace(known, **other))


def test_a_record_that_changed_as_records_do_is_the_same_ledgers() -> None:
    """Also where its writer, who made it, does not know the time that the store gave it."""
    known = dataclasses.replace(made(), ctime_ms=5)
    later = known.with_ensemble(EntryId(4), bookies("b4", "b2", "b3")).with_custom("a", b"b").closed(EntryId(9), 90)

    assert not known.was_replaced_by(later)
    assert not made().was_replaced_by(later)
