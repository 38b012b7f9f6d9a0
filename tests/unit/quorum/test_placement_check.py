"""Which segments lie closer together than they need to (spec/metadata.md#M51)."""

from collections.abc import Sequence

import pytest

from bookie.base.ids import BookieId, EntryId
from bookie.metadata.ledger import LedgerMetadata, new_ledger
from bookie.quorum.placement import Candidate
from bookie.quorum.placement_check import PlacementCheck


def fleet(*zones: str, machines: Sequence[str] = ()) -> list[Candidate]:
    """Bookies b0, b1, ... in these zones."""
    shared = [*machines, *[""] * (len(zones) - len(machines))]
    return [Candidate(BookieId(f"b{number}"), zone, shared[number]) for number, zone in enumerate(zones)]


def ledger(*numbers: int, quorum: int = 2, last: int = 99) -> LedgerMetadata:
    bookies = tuple(BookieId(f"b{number}") for number in numbers)
    made = new_ledger(ensemble_size=len(bookies), write_quorum=quorum, ack_quorum=quorum, bookies=bookies)
    return made.closed(EntryId(last), (last + 1) * 10)


def reasons(bookies: Sequence[Candidate], metadata: LedgerMetadata, *, read_only: Sequence[int] = ()) -> list[str]:
    writable = [each for number, each in enumerate(bookies) if number not in read_only]
    check = PlacementCheck(writable, {each.bookie_id: each for each in bookies})
    return [each.reason for each in check.misplaced(metadata)]


def test_two_copies_in_one_zone_of_two_are_found_and_spread_ones_are_not() -> None:
    bookies = fleet("a", "a", "b", "b")

    assert reasons(bookies, ledger(0, 1)) == ["an entry's copies are in 1 zones on average, and could be in 2"]
    assert reasons(bookies, ledger(0, 2)) == []


def test_what_no_fleet_could_do_better_is_not_found() -> None:
    assert reasons(fleet("a", "a", "a"), ledger(0, 1)) == []
    assert reasons(fleet("", "", ""), ledger(0, 1)) == []
    assert reasons(fleet("a", "a", "a", "b"), ledger(0, 3, 1, 2)) == [], "one bookie of its zone, in two of four sets"
    assert reasons(fleet("a", "a", "b"), ledger(0, 1, 2, quorum=3)) == []


def test_a_zone_whose_bookies_take_no_writes_makes_no_place() -> None:
    bookies = fleet("a", "a", "b")

    assert reasons(bookies, ledger(0, 1), read_only=[2]) == []
    assert reasons(bookies, ledger(0, 1)) != []


def test_regions_count_before_zones() -> None:
    bookies = fleet("/r/a", "/r/b", "/s/a")

    assert reasons(bookies, ledger(0, 1)) == ["an entry's copies are in 1 regions on average, and could be in 2"]


def test_machines_count_before_both() -> None:
    bookies = fleet("a", "b", "a", machines=("m", "m"))

    assert reasons(bookies, ledger(0, 1)) == ["2 of 2 write sets have two copies on one machine, and 0 need to"]


@pytest.mark.parametrize(("last", "found"), [(-1, 0), (0, 0), (1, 1)])
def test_only_write_sets_that_hold_entries_count(last: int, found: int) -> None:
    """Of four slots b a a b with two copies, entry 0 is on the first two and entry 1 on the second and third."""
    bookies = fleet("b", "a", "a", "b", "a", "b")

    assert len(reasons(bookies, ledger(0, 1, 2, 3, last=last))) == found


def test_a_segment_of_a_bookie_that_is_not_there_is_not_judged() -> None:
    bookies = fleet("a", "a", "b")
    check = PlacementCheck(bookies, {each.bookie_id: each for each in bookies})

    assert check.misplaced(ledger(0, 7)) == ()


def test_each_segment_is_judged_by_itself_also_one_without_an_end() -> None:
    bookies = fleet("a", "a", "b", "b")
    check = PlacementCheck(bookies, {each.bookie_id: each for each in bookies})
    made = new_ledger(ensemble_size=2, write_quorum=2, ack_quorum=2, bookies=(BookieId("b0"), BookieId("b2")))
    changed = made.with_ensemble(EntryId(10), (BookieId("b0"), BookieId("b1")))

    assert [(each.first_entry, each.bookies) for each in check.misplaced(changed)] == [(10, ("b0", "b1"))]


def test_write_sets_are_those_of_the_entries_that_the_segment_begins_with() -> None:
    """Entry 10 alone, in slots 2 and 3 of a b b b: these two are in one zone, slots 0 and 1 are not."""
    bookies = fleet("a", "b", "b", "b", "a", "a")
    check = PlacementCheck(bookies, {each.bookie_id: each for each in bookies})
    first, second = ([BookieId(f"b{number}") for number in numbers] for numbers in ((0, 1, 4, 2), (0, 1, 2, 3)))
    made = new_ledger(ensemble_size=4, write_quorum=2, ack_quorum=2, bookies=tuple(first))
    closed = made.with_ensemble(EntryId(10), tuple(second)).closed(EntryId(10), 110)

    assert [each.first_entry for each in check.misplaced(closed)] == [10]
