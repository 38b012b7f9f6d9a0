"""What of a ledger must be copied when bookies leave (spec/metadata.md#M34)."""

from bookie.base.ids import BookieId, EntryId
from bookie.quorum.leaving import Fragment
from bookie.quorum.schedule import Schedule


def test_only_entries_that_a_leaving_bookie_holds_are_copied() -> None:
    """Another one may be lost, and must keep nobody from leaving."""
    owed = ((EntryId(0), EntryId(3)), (EntryId(6), EntryId(7)))
    fragment = Fragment(EntryId(0), EntryId(7), (BookieId("b1"),), (1,), owed)

    copies = dict(fragment.copies(Schedule(3, 2, 2), {1: BookieId("new")}))

    assert copies == {entry: ["new"] for entry in (0, 1, 3, 6, 7)}, "entry 2 is on slots 2 and 0"
