"""Rows of the index: whatever was put is found, whatever was not is not, and damage is an error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.base.errors import CorruptFile
from bookie.base.ids import EntryId, LedgerId
from bookie.storage import block, location
from bookie.storage.location import Location

FIRST = 7 * block.COUNT
SLOTS = st.dictionaries(st.integers(0, block.COUNT - 1), st.integers(0, 2**32 - 1), min_size=1)


def pack(slots: dict[int, int], row: bytes | None = None) -> bytes:
    ordered = sorted(slots)
    return block.pack(
        [EntryId(FIRST + slot) for slot in ordered], [location.pack(slots[slot], slot, 9) for slot in ordered], row
    )


@given(st.lists(SLOTS, min_size=1, max_size=5))
def test_the_newest_place_of_every_entry_is_found_and_no_other(puts: list[dict[int, int]]) -> None:
    row: bytes | None = None
    model: dict[int, int] = {}
    for slots in puts:
        row = pack(slots, row)
        model.update(slots)

    assert row is not None
    found = {slot: block.find(row, EntryId(FIRST + slot)) for slot in range(block.COUNT)}
    assert found == {slot: Location(model[slot], slot, 9) if slot in model else None for slot in range(block.COUNT)}
    listed = [(EntryId(FIRST + slot), Location(model[slot], slot, 9)) for slot in sorted(model)]
    assert list(block.locations_in(row, EntryId(FIRST))) == listed
    assert block.last_in(row, EntryId(FIRST)) == listed[-1][0]


@given(st.sets(st.tuples(st.integers(0, 3), st.integers(0, 99)), min_size=1))
def test_a_block_begins_where_the_ledger_or_the_number_of_the_block_changes(entries: set[tuple[int, int]]) -> None:
    ordered = sorted(entries)
    blocks = [(ledger_id, entry_id // block.COUNT) for ledger_id, entry_id in ordered]

    found = block.bounds([LedgerId(each) for each, _ in ordered], [EntryId(each) for _, each in ordered])

    starts = [place for place, each in enumerate(blocks) if place == 0 or each != blocks[place - 1]]
    assert found == [*starts, len(blocks)]


@given(SLOTS, st.integers(0, block.COUNT - 1))
def test_one_entry_that_comes_before_or_after_what_is_there_is_found_at_its_own_place(
    slots: dict[int, int], slot: int
) -> None:
    one = EntryId(FIRST + slot)

    (row,) = block.pack_all([one], [location.pack(5, slot, 9)], [0, 1], [pack(slots)])

    assert row == pack(slots | {slot: 5})


def test_a_row_of_no_entry_is_damage_and_not_an_absent_entry() -> None:
    with pytest.raises(CorruptFile):
        block.find(bytes(4), EntryId(FIRST))
    with pytest.raises(CorruptFile):
        block.last_in(bytes(4), EntryId(FIRST))


@given(SLOTS, st.data())
def test_a_row_of_another_length_is_damage_and_not_an_absent_entry(slots: dict[int, int], data: st.DataObject) -> None:
    row = pack(slots)
    size = data.draw(st.integers(0, len(row) + 5).filter(lambda size: size != len(row)))
    cut = (row + bytes(5))[:size]

    with pytest.raises(CorruptFile):
        block.find(cut, EntryId(FIRST))
    with pytest.raises(CorruptFile):
        list(block.locations_in(cut, EntryId(FIRST)))


def test_the_layout_is_that_of_the_indexes_that_are_there() -> None:
    """Another one reads every index of before as other entries, or as none."""
    row = pack({1: 0x0A, 31: 0x0B})

    assert row.hex() == "80000002" + "0000000a0000000100000009" + "0000000b0000001f00000009"
    assert block.KEY.pack(b"E", 7, 2).hex() == "45" + "0000000000000007" + "0000000000000002"


def test_entries_of_several_ledgers_go_into_the_rows_of_their_blocks_under_their_keys() -> None:
    whole = range(block.COUNT)
    entries = [*((1, entry_id) for entry_id in whole), (1, 32), (2, 37), (2, 38), (2, 64), (3, 64), (4, 74)]
    ledger_ids = [LedgerId(ledger_id) for ledger_id, _ in entries]
    entry_ids = [EntryId(entry_id) for _, entry_id in entries]
    locations = [location.pack(5, entry_id, 9) for _, entry_id in entries]

    bounds = block.bounds(ledger_ids, entry_ids)

    assert bounds == [0, 32, 33, 35, 36, 37, 38]
    assert block.keys(ledger_ids, entry_ids, bounds) == [
        block.KEY.pack(b"E", ledger_id, number)
        for ledger_id, number in [(1, 0), (1, 1), (2, 1), (2, 2), (3, 2), (4, 2)]
    ]
    assert block.partly(bounds) == [1, 2, 3, 4, 5], "of the first, nothing else can be in the index"
    was = block.pack([EntryId(33), EntryId(40)], [location.pack(4, 33, 9), location.pack(4, 40, 9)], None)
    rows = block.pack_all(entry_ids, locations, bounds, [pack({3: 4}), None, was, None, was, was])
    found = [list(block.locations_in(row, EntryId(0))) for row in rows]
    new = [Location(5, entry_id, 9) for entry_id in entry_ids]
    old = {1: Location(4, 33, 9), 8: Location(4, 40, 9)}
    assert found == [
        [(slot, new[slot]) for slot in whole],
        [(0, new[32])],
        [(1, old[1]), (5, new[33]), (6, new[34]), (8, old[8])],
        [(0, new[35])],
        [(0, new[36]), (1, old[1]), (8, old[8])],
        [(1, old[1]), (8, old[8]), (10, new[37])],
    ]
