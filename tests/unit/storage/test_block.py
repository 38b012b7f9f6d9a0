"""Rows of the index: whatever was put is found, whatever was not is not, and damage is an error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.base.errors import CorruptFile
from bookie.base.ids import EntryId, LedgerId
from bookie.storage import block, location
from bookie.storage.index import Index, Placed
from bookie.storage.location import Location
from sim_support import Machine, on_machine

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


@given(SLOTS, st.data())
def test_a_row_of_another_length_is_damage_and_not_an_absent_entry(slots: dict[int, int], data: st.DataObject) -> None:
    row = pack(slots)
    size = data.draw(st.integers(0, len(row) + 5).filter(lambda size: size != len(row)))
    cut = (row + bytes(5))[:size]

    with pytest.raises(CorruptFile):
        block.find(cut, EntryId(FIRST))
    with pytest.raises(CorruptFile):
        list(block.locations_in(cut, EntryId(FIRST)))


# What a checkpoint puts: of some ledgers, and of each any entries, some of them again.
CHECKPOINTS = st.lists(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 70)), min_size=1), min_size=1, max_size=12)


@given(checkpoints=CHECKPOINTS, room=st.integers(0, 4), forgotten=st.lists(st.integers(0, 5), max_size=12))
def test_rows_of_the_index_are_whole_however_many_of_them_are_kept_in_memory(
    checkpoints: list[set[tuple[int, int]]], room: int, forgotten: list[int]
) -> None:
    async def story(machine: Machine) -> None:
        index = Index(await machine.begin().ordered_stores.open("/data/index"), tails_max=room)
        model: dict[tuple[int, int], Location] = {}
        for number, entries in enumerate(checkpoints):
            placed = {of: Location(number, place, 9) for place, of in enumerate(sorted(entries))}
            model |= placed
            index.put_entries(
                Placed(
                    [LedgerId(ledger) for ledger, _ in placed],
                    [EntryId(entry) for _, entry in placed],
                    [location.pack(*place) for place in placed.values()],
                )
            )
            for ledger in forgotten[number : number + 1]:
                index.forget(LedgerId(ledger), keep_row=False)
                model = {of: place for of, place in model.items() if of[0] != ledger}

            assert {(ledger, entry): place for ledger, entry, place in index.all_locations()} == model

    on_machine(story)


def kept(tails: block.Tails, ledger: int, entry: int) -> bool:
    """Put an entry of the ledger into a row of its own; return False when that row had to be looked up first."""
    of = [LedgerId(ledger)], [0, 1], block.keys([LedgerId(ledger)], [EntryId(entry)], [0, 1])
    _, unknown = tails.rows(*of)
    tails.keep(*of, [pack({0: 1})])
    return not unknown


def test_the_row_that_a_ledger_was_written_last_is_not_looked_up() -> None:
    tails = block.Tails(9)

    assert [kept(tails, 7, 0), kept(tails, 7, 1), kept(tails, 8, 1), kept(tails, 7, 31)] == [False, True, False, True]
    assert [kept(tails, 7, 32), kept(tails, 7, 0), kept(tails, 7, 0)] == [False, False, True]
    tails.forget(LedgerId(7))
    assert not kept(tails, 7, 0)


def test_ledgers_that_came_later_than_fit_are_kept_once_they_were_refused_often_enough() -> None:
    tails = block.Tails(1)

    assert [kept(tails, 1, 0), kept(tails, 1, 0), kept(tails, 2, 0), kept(tails, 1, 0)] == [False, True, False, True]
    assert not any(kept(tails, 2, 0) for _ in range(16))
    assert [kept(tails, 2, 0), kept(tails, 2, 0), kept(tails, 1, 0)] == [False, True, False]
