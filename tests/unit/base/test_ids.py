"""Bookie and ledger ids: what is accepted, and what the refusal says."""

import pytest

from bookie.base import errors, ids


@pytest.mark.parametrize("text", ["10.0.0.1:3181", "data.ledgers-eu.zone-a.0", "a_b", "...", ".a"])
def test_usable_bookie_ids_are_kept_as_they_are(text: str) -> None:
    assert ids.parse_bookie_id(text) == text


@pytest.mark.parametrize("text", ["", "a/b", "a,b", "a b", "a+b", "readonly", "ReadOnly", ".", ".."])
def test_an_unusable_bookie_id_is_named_in_the_refusal(text: str) -> None:
    with pytest.raises(errors.BadInput) as refusal:
        ids.parse_bookie_id(text)

    assert repr(text) in str(refusal.value)


@pytest.mark.parametrize("text", ["", "-1", "1.5", "0x10", str(2**63), "١", "²", "9" * 5000])
def test_what_is_not_a_ledger_id_is_refused(text: str) -> None:
    with pytest.raises(errors.BadInput, match="not a number between"):
        ids.parse_ledger_id(text)


def test_the_largest_ledger_id_is_accepted() -> None:
    assert ids.parse_ledger_id(str(2**63 - 1)) == ids.LEDGER_ID_MAX


def test_leading_zeros_are_no_part_of_a_number() -> None:
    assert [ids.parse_ledger_id(text) for text in ("0", "000", "0" * 30 + "7")] == [0, 0, 7]
