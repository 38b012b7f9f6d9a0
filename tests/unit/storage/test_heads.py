"""What a bookie reads of an entry: whose it is, and what its writer knew to be confirmed."""

import struct

import pytest

from bookie.base import errors
from bookie.base.ids import LEDGER_ID_MAX, EntryId, LedgerId
from bookie.storage import heads, limits

L = LedgerId(7)


def head(entry_id: int, lac: int, *, ledger_id: int = L) -> bytes:
    return struct.pack(">qqq", ledger_id, entry_id, lac)


def lac_of(*bodies: bytes, first: int = 5) -> int:
    return heads.check(L, [EntryId(first + number) for number in range(len(bodies))], bodies)


def test_the_highest_of_what_their_writer_knew_counts_wherever_it_stands() -> None:
    assert lac_of(head(5, 1), head(6, 4), head(7, 3)) == 4
    assert lac_of(head(5, -1)) == -1
    assert lac_of() == -1


@pytest.mark.parametrize("lac", [5, 6, 2**63 - 1])
def test_what_no_writer_can_have_known_confirms_nothing(lac: int) -> None:
    """An entry cannot confirm itself, nor a later one: readers would be let read what nobody acknowledged."""
    assert lac_of(head(5, lac)) == -1
    assert lac_of(head(5, 3), head(6, max(lac, 6))) == 3


@pytest.mark.parametrize(
    ("ledger_id", "entry_id", "body"),
    [
        (7, 5, head(6, -1)),
        (7, 5, head(5, -1, ledger_id=8)),
        (7, -1, head(-1, -1)),
        (-7, 5, head(5, -1, ledger_id=-7)),
        (7, 5, head(5, -1)[:-1]),
        (7, 5, b""),
    ],
)
def test_an_entry_that_is_not_what_it_is_sent_as_is_refused(ledger_id: int, entry_id: int, body: bytes) -> None:
    with pytest.raises(errors.BadRequest):
        heads.check(LedgerId(ledger_id), [EntryId(entry_id)], [body])


def test_an_entry_without_an_id_is_a_defect_and_is_not_taken_unchecked() -> None:
    with pytest.raises(ValueError, match="longer"):
        heads.check(L, [EntryId(5)], [head(5, -1), head(6, -1)])


def test_what_just_fits_is_taken_and_one_more_is_not() -> None:
    limits.check_master_key(L, bytes(limits.MASTER_KEY_BYTES_MAX))
    limits.check_explicit_lac(L, limits.EXPLICIT_LAC_BYTES_MAX)
    limits.check_add(L, limits.ADD_BYTES_MAX)
    limits.check_mark(LedgerId(0), None, 0)
    limits.check_mark(LedgerId(LEDGER_ID_MAX), bytes(limits.MASTER_KEY_BYTES_MAX), limits.LIMBO_EPOCH_MAX)

    with pytest.raises(errors.BadRequest):
        limits.check_master_key(L, bytes(limits.MASTER_KEY_BYTES_MAX + 1))
    with pytest.raises(errors.BadRequest):
        limits.check_explicit_lac(L, limits.EXPLICIT_LAC_BYTES_MAX + 1)
    with pytest.raises(errors.BadRequest):
        limits.check_add(L, limits.ADD_BYTES_MAX + 1)


@pytest.mark.parametrize(
    ("ledger_id", "key", "epoch"),
    [
        (-1, b"", 1),
        (LEDGER_ID_MAX + 1, b"", 1),
        (7, b"", -1),
        (7, b"", limits.LIMBO_EPOCH_MAX + 1),
        (7, bytes(limits.MASTER_KEY_BYTES_MAX + 1), 1),
    ],
)
def test_a_mark_that_fits_into_no_row_is_refused(ledger_id: int, key: bytes, epoch: int) -> None:
    with pytest.raises(errors.BadRequest):
        limits.check_mark(LedgerId(ledger_id), key, epoch)
