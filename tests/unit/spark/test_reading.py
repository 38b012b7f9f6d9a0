"""What a query does where an entry cannot be read: a reader that fails as it is told stands for the client."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import pytest

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.client import Entry
from bookie.metadata import lost_entries
from bookie.metadata.ledger import LedgerMetadata, new_ledger
from pyspark_bookkeeper import options, reading, schema
from pyspark_bookkeeper.partitions import Piece

URI = "zk+hierarchical://127.0.0.1:1/ledgers"
COLUMNS = "entry_id,value,error"
SEVEN = LedgerId(7)
UNKNOWN = errors.QuorumNotReached("too many bookies are away")
DENIED = errors.NoSuchEntry("every replica denies it")
ROT = errors.DigestMismatch("no replica matches its digest")


class Fleet:
    """Ledger 7, as a task's client meets it. `wrong`: what the read of an entry raises, by its id."""

    def __init__(self, wrong: Mapping[int, BookieError], *, is_deleted: bool = False) -> None:
        self.metadata_of_seven: LedgerMetadata = new_ledger(
            ensemble_size=1, write_quorum=1, ack_quorum=1, bookies=(BookieId("a"),)
        ).closed(EntryId(9), 10)
        self.opened: list[tuple[LedgerId, EntryId]] = []
        self._wrong = wrong
        self._is_deleted = is_deleted

    def metadata(self, ledger_id: LedgerId) -> LedgerMetadata:
        if self._is_deleted:
            raise errors.LedgerMissing(f"ledger {ledger_id} does not exist")
        return self.metadata_of_seven

    def open_no_recovery(self, ledger_id: LedgerId, *, administrative: bool, confirmed: EntryId) -> Reader:
        assert administrative
        self.opened.append((ledger_id, confirmed))
        return Reader(self.metadata_of_seven, self._wrong)


class Reader(contextlib.AbstractContextManager[object]):
    def __init__(self, metadata: LedgerMetadata, wrong: Mapping[int, BookieError]) -> None:
        self.metadata = metadata
        self._wrong = wrong

    def __exit__(self, *what: object) -> None:
        """Nothing is open."""

    def read_batches(self, first: int, last: int, *, count_max: int, bytes_max: int) -> Iterator[list[Entry]]:
        for number in range(first, last + 1):
            if number in self._wrong:
                raise self._wrong[number]
            yield [Entry(EntryId(number), b"%d" % number, number + 1)]


def read(fleet: Fleet, start: int = 0, end: int = 6, **texts: str) -> list[tuple[int, bytes | None, str | None]]:
    """The rows of entries `start` up to, not including, `end` of ledger 7."""
    given = options.parse({"metadataServiceUri": URI, "columns": COLUMNS, **texts})
    piece = Piece(SEVEN, start, end, 9, 0, 0, BookieId("a"))
    rows = reading.read_entries(fleet, (piece,), schema.arrow_schema(schema.of(given)), given)  # type: ignore[arg-type]
    return [tuple(row.values()) for batch in rows for row in batch.to_pylist()]  # type: ignore[misc]


def row(number: int) -> tuple[int, bytes, None]:
    return number, b"%d" % number, None


def test_a_ledger_is_read_up_to_what_was_confirmed_when_it_was_planned() -> None:
    fleet = Fleet({})

    assert read(fleet, 2, 5) == [row(2), row(3), row(4)]
    assert fleet.opened == [(SEVEN, 9)]


@pytest.mark.parametrize("texts", [{}, {"failOnDataLoss": "false"}, {"failOnDataLoss": "false", "onCorrupt": "skip"}])
def test_what_nobody_can_tell_now_ends_the_query_whatever_its_options_leave_out(texts: dict[str, str]) -> None:
    """It is no loss: the entry may be there when its bookies are back."""
    with pytest.raises(errors.QuorumNotReached, match="ledger 7 entry 3 cannot be read now: too many bookies"):
        read(Fleet({3: UNKNOWN}), **texts)


def test_an_entry_that_every_replica_denies_ends_the_query_or_is_left_out_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(errors.NoSuchEntry, match="ledger 7 entry 3 was acknowledged, and every replica denies"):
        read(Fleet({3: DENIED}))

    assert read(Fleet({3: DENIED, 5: DENIED}), failOnDataLoss="false") == [row(0), row(1), row(2), row(4)]
    assert "2 entries are left out" in caplog.text
    assert "ledger 7 entry 3: every replica denies having it" in caplog.text


def test_an_entry_that_was_declared_lost_is_told_with_who_did() -> None:
    fleet = Fleet({3: DENIED})
    act = lost_entries.Act("ann", "burnt", 1, (BookieId("a"),), ((EntryId(3), EntryId(3)),))
    fleet.metadata_of_seven = fleet.metadata_of_seven.with_custom(lost_entries.KEY, lost_entries.dump([act]))

    with pytest.raises(errors.NoSuchEntry, match="ledger 7 entry 3 was acknowledged, and declared lost by ann: burnt"):
        read(fleet)


def test_an_entry_that_is_damaged_everywhere_ends_the_query_or_is_left_out_or_is_a_row(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(errors.DigestMismatch, match="ledger 7 entry 3 is corrupt on every replica"):
        read(Fleet({3: ROT}), failOnDataLoss="false")

    assert read(Fleet({3: ROT}), 2, 5, onCorrupt="emit") == [row(2), (3, None, str(ROT)), row(4)]
    assert caplog.text == ""
    assert read(Fleet({3: ROT}), 2, 5, onCorrupt="skip") == [row(2), row(4)]
    assert "1 entries are left out" in caplog.text


def test_what_is_left_of_a_ledger_that_was_deleted_ends_the_query_or_is_left_out_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(errors.LedgerMissing, match="ledger 7 was deleted after the query was planned"):
        read(Fleet({3: UNKNOWN}, is_deleted=True))

    assert read(Fleet({3: UNKNOWN}, is_deleted=True), failOnDataLoss="false") == [row(0), row(1), row(2)]
    assert "3 entries are left out" in caplog.text
