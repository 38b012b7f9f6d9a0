"""The metadata change of an ensemble change (spec/wire.md#W50; spec/bp46.md#S14; CONFORMANCE.md#P19, P20)."""

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId, EntryId
from bookie.metadata.ledger import LedgerMetadata, new_ledger
from bookie.quorum import ensemble

A, B, C, D, E = (BookieId(name) for name in "abcde")


def ledger() -> LedgerMetadata:
    return new_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2, bookies=(A, B, C))


def test_the_new_segment_begins_after_the_last_add_confirmed() -> None:
    """CONFORMANCE.md#P19; the example of the replication protocol, "Ensembles"."""
    changed = ensemble.changed(ledger(), EntryId(11), {0: D})

    assert [(segment.first_entry, segment.bookies) for segment in changed.segments] == [
        (0, (A, B, C)),
        (12, (D, B, C)),
    ]


def test_a_segment_in_which_nothing_was_confirmed_is_replaced_in_place() -> None:
    once = ensemble.changed(ledger(), EntryId(11), {0: D})

    twice = ensemble.changed(once, EntryId(11), {2: E})

    assert [segment.bookies for segment in twice.segments] == [(A, B, C), (D, B, E)]


def test_a_bookie_that_somebody_else_replaced_needs_no_second_replacement() -> None:
    changed = ensemble.changed(ledger(), EntryId(-1), {0: D})

    assert ensemble.still_failed(changed, {0: A, 1: B}) == {1: B}


def test_a_writer_that_finds_its_ledger_in_recovery_or_closed_is_told_which() -> None:
    """CONFORMANCE.md#P20."""
    assert ensemble.why_not_open(ledger()) is None
    assert isinstance(ensemble.why_not_open(ledger().in_recovery()), errors.LedgerFenced)
    assert isinstance(ensemble.why_not_open(ledger().closed(EntryId(3), 9)), errors.LedgerClosed)


def test_a_lac_that_went_back_is_a_defect_of_ours() -> None:
    changed = ensemble.changed(ledger(), EntryId(11), {0: D})

    with pytest.raises(AssertionError, match="LAC went back"):
        ensemble.changed(changed, EntryId(5), {1: E})
