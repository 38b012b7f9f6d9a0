"""Which ledgers and which entries a query reads, decided from metadata alone."""

from dataclasses import replace

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.metadata.ledger import LedgerMetadata, new_ledger
from pyspark_bookkeeper import options, ranges, selection
from pyspark_bookkeeper.options import SourceOptions
from pyspark_bookkeeper.ranges import EVERYTHING, Range

URI = "zk+hierarchical://127.0.0.1:2181/ledgers"
SEVEN = LedgerId(7)


def given(**texts: str) -> SourceOptions:
    return options.parse({"metadataServiceUri": URI, **texts})


def metadata(*, password: bytes = b"", ctime_ms: int = 1_000, **custom: bytes) -> LedgerMetadata:
    new = new_ledger(
        ensemble_size=1,
        write_quorum=1,
        ack_quorum=1,
        bookies=(BookieId("a"),),
        password=password,
        custom=tuple(custom.items()),
    )
    return replace(new, ctime_ms=ctime_ms)


def test_ledgers_are_looked_at_by_what_names_them() -> None:
    assert selection.candidates(given(ledgers="5-10,20,8-12"), None) == (Range(5, 13), Range(20, 21))
    assert selection.candidates(given(), [LedgerId(3), LedgerId(4)]) == (Range(3, 5),)
    assert selection.candidates(given(), None) == EVERYTHING


def test_only_ledgers_named_alone_must_exist() -> None:
    assert list(selection.required(given(ledgers="1-10,20,30"), None)) == [20, 30]
    assert list(selection.required(given(), None)) == []
    assert list(selection.required(given(), [SEVEN])) == [7]


def test_every_pair_of_a_filter_must_hold() -> None:
    query = given(ledgerFilter="app=orders,env=prod")

    assert selection.is_selected(query, metadata(app=b"orders", env=b"prod", more=b"x"))
    assert not selection.is_selected(query, metadata(app=b"orders"))
    assert not selection.is_selected(query, metadata(app=b"orders", env=b"test"))


def test_a_ledger_as_old_as_the_timestamp_is_in() -> None:
    query = given(startingTimestamp="1000")

    assert selection.is_selected(query, metadata(ctime_ms=1_000))
    assert not selection.is_selected(query, metadata(ctime_ms=999))


def test_a_password_is_compared_as_raw_bytes() -> None:
    query = given(passwordFile="/run/secrets/orders")

    selection.admit(query, SEVEN, metadata(password=b"x"), b"x")
    with pytest.raises(errors.Unauthorized, match="ledger 7: the password in /run/secrets/orders is wrong"):
        selection.admit(query, SEVEN, metadata(password=b"x"), b"y")
    with pytest.raises(errors.Unauthorized, match="the environment variable ORDERS is wrong"):
        selection.admit(given(passwordEnv="ORDERS"), SEVEN, metadata(password=b"x"), b"y")
    with pytest.raises(errors.Unauthorized, match="ledger 7 has a password: name the file"):
        selection.admit(given(), SEVEN, metadata(password=b"x"), b"")


@pytest.mark.parametrize(
    ("texts", "last_confirmed", "span"),
    [
        ({}, 9, Range(0, 10)),
        ({}, -1, None),
        ({"startingOffsets": '{"7": 4}'}, 9, Range(4, 10)),
        ({"startingOffsets": '{"7": -2}'}, 9, Range(0, 10)),
        ({"startingOffsets": '{"8": 4}'}, 9, Range(0, 10)),
        ({"startingOffsets": '{"7": 10}'}, 9, None),
        ({"endingOffsets": '{"7": 4}'}, 9, Range(0, 4)),
        ({"endingOffsets": '{"7": -1}'}, 9, Range(0, 10)),
        ({"endingOffsets": '{"7": 0}'}, 9, None),
        ({"startingOffsets": '{"7": 6}', "endingOffsets": '{"7": 4}'}, 9, None),
        ({"endingOffsets": '{"7": 40}', "failOnDataLoss": "false"}, 9, Range(0, 10)),
        ({"startingOffsets": '{"7": 40}', "failOnDataLoss": "false"}, 9, None),
    ],
)
def test_offsets_say_where_reading_starts_and_ends(
    texts: dict[str, str], last_confirmed: int, span: Range | None
) -> None:
    assert selection.span(given(**texts), SEVEN, last_confirmed) == span


@pytest.mark.parametrize("name", ["startingOffsets", "endingOffsets"])
def test_an_offset_behind_what_is_confirmed_is_data_loss(name: str) -> None:
    with pytest.raises(errors.NoSuchEntry, match=f"ledger 7 is confirmed up to entry 9, {name} says 11: correct it"):
        selection.span(given(**{name: '{"7": 11}'}), SEVEN, 9)


def test_a_record_that_claims_more_entries_than_any_ledger_has_is_told_by_its_number() -> None:
    def ends_at(last: int) -> str:
        return selection.why_endless(metadata().closed(EntryId(last), 1))

    assert ends_at(ranges.ENTRIES_MAX - 1) == ""
    assert ends_at(ranges.ENTRIES_MAX).startswith(f"it claims entries up to {ranges.ENTRIES_MAX}")
    assert selection.why_endless(metadata()) == ""


def test_an_empty_password_is_one_too() -> None:
    with pytest.raises(errors.Unauthorized, match="ledger 7: the password in /run/secrets/orders is wrong"):
        selection.admit(given(passwordFile="/run/secrets/orders"), SEVEN, metadata(), b"guess")
    selection.admit(given(), SEVEN, metadata(), b"")
