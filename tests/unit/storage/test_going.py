"""When an id is free again: once neither the index nor the journal would bring back what was deleted under it."""

from bookie.base.ids import LedgerId
from bookie.storage.going import Going

L, OTHER = LedgerId(7), LedgerId(8)


def checkpoint(going: Going) -> list[LedgerId]:
    going.rotate()
    return going.flushed()


def test_the_next_checkpoint_frees_what_was_deleted_before_it_began_and_nothing_else() -> None:
    going = Going()
    going.add(L, is_journaled=True)
    assert L in going

    going.rotate()
    going.add(OTHER, is_journaled=True)
    assert L in going, "it is not durable yet"

    assert going.flushed() == [L]
    assert (L in going, OTHER in going) == (False, True)
    assert checkpoint(going) == [OTHER]
    assert checkpoint(going) == []


def test_a_ledger_that_is_deleted_again_while_a_checkpoint_runs_is_freed_by_the_next() -> None:
    """What came under its id in between is in no index yet, and a crash would bring it back."""
    going = Going()
    going.add(L, is_journaled=True)
    going.rotate()
    going.add(L, is_journaled=True)

    assert going.flushed() == []
    assert L in going
    assert checkpoint(going) == [L]


def test_no_checkpoint_frees_an_id_before_the_journal_has_all_that_was_put_for_it() -> None:
    """Its mark is not past what arrives later, which a start would replay."""
    going = Going()
    going.add(L, is_journaled=False)

    assert checkpoint(going) == []
    assert L in going
    going.rotate()
    going.journal_has_all(L)  # after the mark of this one
    assert going.flushed() == []
    assert checkpoint(going) == [L]


def test_of_an_id_that_is_free_nothing_is_kept() -> None:
    going = Going()

    going.journal_has_all(L)

    assert L not in going
    assert checkpoint(going) == []
