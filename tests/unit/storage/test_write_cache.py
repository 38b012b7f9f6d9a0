"""One generation of the write cache."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.base.ids import EntryId, LedgerId
from bookie.storage import run
from bookie.storage.write_cache import ENTRY_OVERHEAD_BYTES, LEDGER_OVERHEAD_BYTES, CacheGeneration

ENTRIES = st.dictionaries(
    st.tuples(st.integers(0, 9), st.integers(0, 99)), st.binary(min_size=1, max_size=50), max_size=60
)


def filled(entries: dict[tuple[int, int], bytes]) -> CacheGeneration:
    generation = CacheGeneration()
    for (ledger_id, entry_id), body in entries.items():
        generation.put(LedgerId(ledger_id), EntryId(entry_id), body)
    return generation


@given(entries=ENTRIES, size=st.integers(1, 2000))
def test_batches_hold_everything_once_in_order(entries: dict[tuple[int, int], bytes], size: int) -> None:
    batches = list(filled(entries).batches(size))

    flat = [one for batch in batches for one in zip(*batch, strict=True)]
    assert flat == [(ledger, entry, body) for (ledger, entry), body in sorted(entries.items())]
    # Every batch but the last is full, and no longer than the entry that filled it.
    for batch in batches[:-1]:
        sizes = [len(body) + ENTRY_OVERHEAD_BYTES for body in batch.bodies]
        assert sum(sizes) >= size > sum(sizes[:-1])


def test_the_second_copy_of_an_entry_replaces_the_first() -> None:
    generation = filled({(1, 2): b"old"})
    generation.put(LedgerId(1), EntryId(2), b"new")

    assert generation.get(LedgerId(1), EntryId(2)) == b"new"
    assert list(generation.ledgers[LedgerId(1)]) == [2]


def test_a_ledger_dropped_between_batches_is_not_written() -> None:
    generation = filled({(ledger, 0): b"x" for ledger in range(3)})
    batches = generation.batches(1)

    first = next(batches)
    generation.drop(LedgerId(1))

    assert first == ([0], [0], [b"x"])
    assert list(batches) == [([2], [0], [b"x"])]


def test_a_generation_of_which_every_ledger_was_deleted_takes_no_room() -> None:
    generation = filled({(1, 0): b"x", (1, 1): b"x", (2, 0): b"x"})

    generation.drop(LedgerId(1))
    assert generation.size_bytes > 0
    generation.drop(LedgerId(2))
    assert generation.size_bytes == 0
    generation.drop(LedgerId(3))
    assert generation.size_bytes == 0


@given(entries=ENTRIES, known=ENTRIES, size=st.integers(1, 2000))
def test_the_use_of_a_log_is_what_was_known_and_what_its_batches_have_of_each_ledger(
    entries: dict[tuple[int, int], bytes], known: dict[tuple[int, int], bytes], size: int
) -> None:
    before: dict[LedgerId, run.Held] = {}
    for batch in filled(known).batches(1 << 20):
        run.count_use(batch, 8, {}, before)
    kept = dict(before)

    fresh: dict[LedgerId, run.Held] = {}
    for batch in filled(entries).batches(size):
        run.count_use(batch, 8, before, fresh)

    assert before == kept
    assert sorted(fresh) == sorted({ledger for ledger, _ in entries})
    for ledger, (size_bytes, first, last) in fresh.items():
        mine = [(entry, body) for each in (entries, known) for (of, entry), body in each.items() if of == ledger]
        assert (first, last) == (min(mine)[0], max(mine)[0])
        assert size_bytes == sum(len(body) + 8 for _, body in mine)


def test_what_a_generation_takes_of_the_memory_is_counted_with_what_is_around_the_bytes() -> None:
    """Many ledgers of one tiny entry are mostly that: counted by their bytes they would take the memory ten times."""
    by_one, by_run = CacheGeneration(), CacheGeneration()
    for ledger_id in range(3):
        for entry_id in range(2):
            by_one.put(LedgerId(ledger_id), EntryId(entry_id), b"four")
        by_run.put_run(LedgerId(ledger_id), [EntryId(0), EntryId(1)], [b"four", b"four"], 8)

    assert by_one.size_bytes == by_run.size_bytes == 3 * LEDGER_OVERHEAD_BYTES + 6 * (4 + ENTRY_OVERHEAD_BYTES)
    assert by_one.ledgers == by_run.ledgers
    assert by_one.is_scattered
    by_one.put(LedgerId(0), EntryId(9), bytes(100_000))
    assert not by_one.is_scattered


def test_an_entry_without_an_id_is_a_defect_and_is_not_left_out() -> None:
    with pytest.raises(ValueError, match="longer"):
        CacheGeneration().put_run(LedgerId(1), [EntryId(0)], [b"a", b"b"], 2)
