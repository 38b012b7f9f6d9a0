"""What a log holds of whom is never told as too little: by it a log is dropped whole."""

import struct

import pytest

from bookie.base import errors
from bookie.base.ids import LEDGER_ID_MAX, EntryId, LedgerId
from bookie.storage import log_use, run
from bookie.storage.log_use import Use
from bookie.storage.run import EntryBatch, Held, Placed

LOG = 5
OVERHEAD = 8


def held(size: int, first: int, last: int) -> Held:
    return size, EntryId(first), EntryId(last)


def batch(*entries: tuple[int, int, int]) -> EntryBatch:
    """Entries as (ledger, entry, size)."""
    return EntryBatch(
        [LedgerId(ledger) for ledger, _, _ in entries],
        [EntryId(entry) for _, entry, _ in entries],
        [bytes(size) for _, _, size in entries],
    )


@pytest.mark.parametrize("ledger_id", [0, 7, LEDGER_ID_MAX])
def test_every_ledger_of_a_log_is_within_its_bounds_and_none_of_another_log(ledger_id: int) -> None:
    start, end = log_use.bounds(LOG)
    key, _ = log_use.pair(LOG, (LedgerId(ledger_id), held(1, 0, 0)))

    assert start <= key < end
    assert log_use.ledger_of(key) == ledger_id
    for other in (LOG - 1, LOG + 1):
        strange, _ = log_use.pair(other, (LedgerId(ledger_id), held(1, 0, 0)))
        assert not start <= strange < end


def test_what_was_packed_is_unpacked() -> None:
    assert log_use.unpack(log_use.pair(LOG, (LedgerId(7), held(100, 3, 9)))) == (
        LOG,
        7,
        Use(100, EntryId(3), EntryId(9)),
    )


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (struct.pack(">Qqq", 100, 9, 3), 0),
        (struct.pack(">Qqq", 100, -1, 3), 0),
        (struct.pack(">Q", 100), 100),
        (b"", 0),
        (b"rot", 0),
        (struct.pack(">Qqq", 100, 3, 9) + b"\0", 0),
    ],
)
def test_a_value_that_makes_no_sense_stands_for_every_entry_of_its_ledger(value: bytes, size: int) -> None:
    """Taken for less, the log would be dropped with entries that nothing else has."""
    key, _ = log_use.pair(LOG, (LedgerId(7), held(1, 0, 0)))

    assert log_use.unpack((key, value)) == (LOG, 7, Use(size, EntryId(0), EntryId(LEDGER_ID_MAX)))


def test_a_key_that_names_no_ledger_is_damage() -> None:
    key, value = log_use.pair(LOG, (LedgerId(7), held(1, 0, 0)))
    for wrong in (key[:-1], key + b"\0"):
        with pytest.raises(errors.CorruptFile):
            log_use.unpack((wrong, value))


def test_what_a_log_holds_grows_by_each_batch_in_size_and_in_range() -> None:
    known: dict[LedgerId, Held] = {LedgerId(1): held(1_000, 4, 6), LedgerId(3): held(50, 0, 0)}
    before = dict(known)
    fresh: dict[LedgerId, Held] = {}

    run.count_use(batch((1, 3, 10), (1, 5, 20), (2, 7, 4), (2, 8, 30)), OVERHEAD, known, fresh)
    assert fresh == {1: held(1_000 + 10 + 20 + 2 * OVERHEAD, 3, 6), 2: held(4 + 30 + 2 * OVERHEAD, 7, 8)}

    run.count_use(batch((1, 9, 1), (2, 2, 2), (2, 4, 3)), OVERHEAD, known, fresh)
    assert fresh == {
        1: held(1_000 + 10 + 20 + 1 + 3 * OVERHEAD, 3, 9),
        2: held(4 + 30 + 2 + 3 + 4 * OVERHEAD, 2, 8),
    }
    assert known == before


def test_a_part_of_what_was_placed_is_that_part() -> None:
    placed = Placed([LedgerId(1)] * 3, [EntryId(number) for number in range(3)], [b"a", b"b", b"c"])

    assert run.part(placed, 0, 3) is placed
    assert run.part(placed, 0, 2) == Placed([LedgerId(1)] * 2, [EntryId(0), EntryId(1)], [b"a", b"b"])
    assert run.part(placed, 1, 3) == Placed([LedgerId(1)] * 2, [EntryId(1), EntryId(2)], [b"b", b"c"])
