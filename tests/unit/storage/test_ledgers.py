"""Facts of a ledger: the row round trips, bad rows are refused, and refusals have the right reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.storage import ledgers
from bookie.storage.ledgers import FENCED, LIMBO, STATE_LOST, Ledger
from storage_support import KEY, OTHER_KEY, explicit_lac


@given(
    flags=st.integers(0, 7),
    epoch=st.integers(0, 2**64 - 1),
    lac=st.integers(-1, 2**63 - 1),
    key=st.binary(max_size=40),
    explicit=st.one_of(st.none(), st.binary(min_size=16, max_size=40)),
)
def test_a_row_round_trips(flags: int, epoch: int, lac: int, key: bytes, explicit: bytes | None) -> None:
    ledger = Ledger(LedgerId(9), key)
    ledger.flags, ledger.limbo_epoch, ledger.lac, ledger.explicit_lac = flags, epoch, EntryId(lac), explicit

    found = ledgers.unpack_row(LedgerId(9), ledger.pack())

    assert found.facts() == ledger.facts()
    assert found.flags == flags


def test_no_prefix_of_a_row_is_a_row() -> None:
    ledger = Ledger(LedgerId(9), KEY)
    ledger.explicit_lac = explicit_lac(9, 4)
    row = ledger.pack()

    for size in range(len(row)):
        with pytest.raises(errors.CorruptFile, match="ledger 9"):
            ledgers.unpack_row(LedgerId(9), row[:size])


@pytest.mark.parametrize(("offset", "value"), [(0, 0), (1, 8), (1, 255)])
def test_a_row_of_an_unknown_version_or_with_unknown_flags_is_refused(offset: int, value: int) -> None:
    row = bytearray(Ledger(LedgerId(9), KEY).pack())
    row[offset] = value

    with pytest.raises(errors.CorruptFile):
        ledgers.unpack_row(LedgerId(9), bytes(row))


@pytest.mark.parametrize(
    ("flags", "refusal"),
    [
        (0, None),
        (FENCED, errors.LedgerFenced),
        (STATE_LOST, errors.UnknownLedgerState),
        (LIMBO, errors.UnknownLedgerState),
        (STATE_LOST | LIMBO, errors.UnknownLedgerState),
        (FENCED | STATE_LOST | LIMBO, errors.LedgerFenced),
    ],
)
def test_a_normal_add_is_refused_for_the_reason_there_is(flags: int, refusal: type | None) -> None:
    ledger = Ledger(LedgerId(9), KEY)
    ledger.flags = flags

    found = ledger.refusal()

    assert (type(found) if found else None) == refusal


def test_a_ledger_fenced_by_a_recovery_did_not_just_lose_its_state() -> None:
    ledger = Ledger(LedgerId(9), KEY)
    ledger.flags = STATE_LOST

    assert (ledger.facts().is_fenced, ledger.facts().is_state_lost) == (True, True)
    ledger.flags |= FENCED
    assert (ledger.facts().is_fenced, ledger.facts().is_state_lost) == (True, False)


def test_any_key_is_welcome_until_one_is_known() -> None:
    assert Ledger(LedgerId(9)).allows(KEY)
    assert Ledger(LedgerId(9), KEY).allows(KEY)
    assert not Ledger(LedgerId(9), KEY).allows(OTHER_KEY)
    assert not Ledger(LedgerId(9), KEY).allows(b"")


def test_an_explicit_lac_never_goes_back() -> None:
    ledger = Ledger(LedgerId(9), KEY)
    ledger.take_lac(explicit_lac(9, 5))

    ledger.take_lac(explicit_lac(9, 3))

    assert ledger.explicit_lac == explicit_lac(9, 5)
    assert ledger.lac == 5
