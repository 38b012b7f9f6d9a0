"""The oracle reports each broken promise, and nothing while all are kept."""

import dataclasses

from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.metadata.ledger import LedgerMetadata, new_ledger
from bookie.sim.oracle import LIFE, Oracle

ME = LedgerId(7)
BOOKIES = tuple(BookieId(f"bookie-{number}") for number in range(3))


def opened() -> LedgerMetadata:
    return new_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2, bookies=BOOKIES, digest_type=3, password=b"")


class Court:
    """An oracle and what it reported."""

    def __init__(self) -> None:
        self.reports: list[str] = []
        self.oracle = Oracle(self.reports.append)
        self.oracle.metadata_changed(ME, opened())

    def acknowledge(self, *entries: int) -> None:
        for entry in entries:
            self.oracle.acknowledged(ME, EntryId(entry), b"%d" % entry)

    def close(self, last: int) -> None:
        self.oracle.metadata_changed(ME, opened().closed(EntryId(last), last + 1))

    @property
    def rules(self) -> list[str]:
        return [report.partition(":")[0] for report in self.reports]


def test_a_ledger_that_keeps_its_promises_is_not_reported() -> None:
    court = Court()
    court.acknowledge(0, 1, 2)
    court.oracle.confirmed(ME, EntryId(1), EntryId(0))
    court.oracle.read(ME, EntryId(1), b"1")
    court.close(3)

    court.oracle.verified(ME, {EntryId(entry): b"%d" % entry for entry in range(4)})

    assert court.reports == []


def test_a_length_that_is_not_that_of_the_entries_is_reported() -> None:
    court = Court()
    court.acknowledge(0, 1)
    court.close(1)

    court.oracle.verified(ME, {EntryId(0): b"0", EntryId(1): b"1 and more"})

    assert court.rules == ["S2", "S5"]


def test_a_close_before_an_acknowledged_entry_is_reported() -> None:
    court = Court()
    court.acknowledge(0, 1)

    court.close(0)

    assert court.rules == ["S1"]


def test_an_acknowledgement_after_the_end_is_reported() -> None:
    court = Court()
    court.close(0)

    court.acknowledge(1)

    assert court.rules == ["S1"]


def test_an_acknowledgement_after_the_end_of_a_deleted_ledger_is_nobodys_loss() -> None:
    court = Court()
    court.acknowledge(0)
    court.close(0)
    court.oracle.metadata_changed(ME, None)

    court.acknowledge(1)
    court.oracle.confirmed(ME, EntryId(1), EntryId(0))

    assert court.reports == []


def test_a_close_before_what_a_reader_was_told_is_reported() -> None:
    court = Court()
    court.oracle.confirmed(ME, EntryId(4), EntryId(-1))

    court.close(3)

    assert court.rules == ["S1"]


def test_other_bytes_than_acknowledged_are_reported() -> None:
    court = Court()
    court.acknowledge(0)

    court.oracle.read(ME, EntryId(0), b"other")

    assert court.rules == ["S2"]


def test_two_readers_with_different_bytes_are_reported() -> None:
    court = Court()
    court.oracle.read(ME, EntryId(0), b"one")

    court.oracle.read(ME, EntryId(0), b"two")

    assert court.rules == ["S3"]


def test_an_end_that_moves_is_reported() -> None:
    court = Court()
    court.close(3)

    court.close(4)

    assert court.rules == ["S4"]


def test_a_ledger_that_goes_back_from_recovery_to_open_is_reported() -> None:
    court = Court()
    court.oracle.metadata_changed(ME, opened().in_recovery())

    court.oracle.metadata_changed(ME, opened())

    assert court.rules == ["S4"]


def test_a_gap_and_a_lost_entry_at_the_end_are_reported() -> None:
    court = Court()
    court.acknowledge(0, 1, 2)
    court.oracle.read(ME, EntryId(1), b"1")
    court.close(2)

    court.oracle.verified(ME, {EntryId(0): b"0", EntryId(2): b"2"})

    assert court.rules == ["S5", "S2", "S3"]


def test_an_ensemble_change_under_an_acknowledged_entry_is_reported() -> None:
    court = Court()
    court.acknowledge(0, 1, 2)
    others = (*BOOKIES[:2], BookieId("bookie-9"))

    court.oracle.metadata_changed(ME, opened().with_ensemble(EntryId(3), others))
    assert court.rules == []
    court.oracle.metadata_changed(ME, opened().with_ensemble(EntryId(2), others))
    assert court.rules == ["S14"]


def test_a_readers_lac_that_goes_back_is_reported() -> None:
    court = Court()

    court.oracle.confirmed(ME, EntryId(2), EntryId(5))

    assert court.rules == ["LAC"]


def test_a_reader_that_was_told_that_a_confirmed_entry_is_not_there_is_reported() -> None:
    court = Court()

    court.oracle.denied(ME, "bookie-0 answered ENOENTRY")

    assert court.rules == ["DENIED"]


def anew(life: bytes) -> LedgerMetadata:
    return dataclasses.replace(opened(), password=LIFE + life)


def test_a_ledger_that_was_made_anew_has_promises_of_its_own() -> None:
    """Neither binds the other, whichever is told of later."""
    court = Court()
    court.acknowledge(0, 1, 2)
    court.close(2)
    court.oracle.metadata_changed(ME, None)

    court.oracle.metadata_changed(ME, anew(b"1"))
    court.oracle.acknowledged(ME, EntryId(0), b"other", LIFE + b"1")
    court.oracle.metadata_changed(ME, anew(b"1").closed(EntryId(0), 5))
    court.oracle.read(ME, EntryId(2), b"2")
    court.oracle.verified(ME, {EntryId(0): b"other"}, LIFE + b"1")

    assert court.reports == []
    assert court.oracle.history(ME).is_deleted
    assert not court.oracle.history(ME, LIFE + b"1").is_deleted


def test_what_a_ledger_that_was_made_anew_loses_is_reported() -> None:
    court = Court()
    court.oracle.metadata_changed(ME, None)
    court.oracle.metadata_changed(ME, anew(b"1"))
    court.oracle.acknowledged(ME, EntryId(0), b"first", LIFE + b"1")

    court.oracle.metadata_changed(ME, anew(b"1").closed(EntryId(-1), 0))
    assert court.rules == ["S1"]
    court.oracle.read(ME, EntryId(0), b"other", LIFE + b"1")
    assert court.rules == ["S1", "S5", "S2"]


def test_a_deletion_is_of_the_ledger_that_was_stored_last() -> None:
    court = Court()
    court.oracle.metadata_changed(ME, None)
    court.oracle.metadata_changed(ME, anew(b"1"))

    court.oracle.metadata_changed(ME, None)

    assert court.oracle.history(ME, LIFE + b"1").is_deleted
