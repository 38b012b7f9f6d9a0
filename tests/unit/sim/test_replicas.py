"""Who takes another's place in a sealed segment without what it should hold is reported, at once or in the end."""

from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.metadata.ledger import LedgerMetadata, new_ledger
from bookie.sim.replicas import Replicas

ME = LedgerId(7)
B0, B1, B2, B3 = (BookieId(f"bookie-{number}") for number in range(4))


class Shelf:
    """What one bookie has of the ledger."""

    def __init__(self, *entries: int) -> None:
        self.entries = entries

    def has_entry(self, ledger_id: LedgerId, entry_id: EntryId) -> bool:
        return ledger_id == ME and entry_id in self.entries


class Court:
    """Replicas of one ledger of six entries on b0, b1 and b2, two of each, and what was reported."""

    def __init__(self) -> None:
        self.reports: list[str] = []
        self.shelves: dict[BookieId, Shelf] = {}
        self.replicas = Replicas(self.reports.append, self.shelves.get)
        opened = new_ledger(ensemble_size=3, write_quorum=2, ack_quorum=2, bookies=(B0, B1, B2))
        self.metadata = self.change(opened)

    def change(self, metadata: LedgerMetadata) -> LedgerMetadata:
        self.metadata = metadata
        self.replicas.metadata_changed(ME, metadata)
        return metadata

    def move(self) -> None:
        """b3 takes the place of b2: slot 2, hence entries 1, 2, 4 and 5."""
        self.change(self.metadata.replaced(EntryId(0), B2, B3))


def test_who_holds_what_it_should_is_not_reported() -> None:
    court = Court()
    court.change(court.metadata.closed(EntryId(5), 60))
    court.shelves[B3] = Shelf(1, 2, 4, 5)

    court.move()
    court.replicas.check_all()

    assert (court.reports, court.replicas.promised) == ([], 1)


def test_who_lacks_an_entry_is_reported_when_it_is_named() -> None:
    court = Court()
    court.change(court.metadata.closed(EntryId(5), 60))
    court.shelves[B3] = Shelf(1, 2, 5)

    court.move()

    assert court.reports == ["REPLICA: bookie-3 is named by ledger 7 and lacks entries [4] (1 of 4)"]


def test_who_does_not_run_when_it_is_named_is_looked_at_in_the_end() -> None:
    court = Court()
    court.change(court.metadata.closed(EntryId(5), 60))
    court.move()
    assert court.reports == []
    court.shelves[B3] = Shelf()

    court.replicas.check_all()

    assert court.reports == [
        "REPLICA: bookie-3 is named in the end by ledger 7 and lacks entries [1, 2, 4, 5] (4 of 4)"
    ]


def test_a_writer_that_changes_its_ensemble_promises_nothing_of_the_kind() -> None:
    court = Court()
    court.shelves[B3] = Shelf()

    court.change(court.metadata.with_ensemble(EntryId(3), (B0, B1, B3)))
    court.change(court.metadata.with_ensemble(EntryId(3), (B0, B3, B2)))
    court.change(court.metadata.closed(EntryId(5), 60))

    assert (court.reports, court.replicas.promised) == ([], 0)


def test_who_is_named_no_more_owes_nothing() -> None:
    court = Court()
    court.change(court.metadata.closed(EntryId(5), 60))
    court.move()
    court.change(court.metadata.replaced(EntryId(0), B3, B2))
    court.shelves |= {B2: Shelf(1, 2, 4, 5), B3: Shelf()}

    court.replicas.check_all()

    assert court.reports == []


def test_what_was_promised_of_a_deleted_ledger_is_not_owed_in_one_made_anew() -> None:
    court = Court()
    court.change(court.metadata.closed(EntryId(5), 60))
    court.shelves |= {B3: Shelf(1, 2, 4, 5)}
    court.move()
    court.replicas.metadata_changed(ME, None)
    court.shelves[B3] = Shelf()

    court.change(court.metadata.closed(EntryId(5), 60))
    court.replicas.check_all()

    assert court.reports == []
