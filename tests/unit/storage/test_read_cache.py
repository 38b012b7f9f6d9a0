"""The read cache keeps to its bound and forgets what moved; readers in order are told from others."""

from bookie.base.ids import EntryId, LedgerId
from bookie.base.units import KIB
from bookie.storage.read_cache import (
    ENTRY_OVERHEAD_BYTES,
    GAP_MAX,
    READERS_MAX,
    SEGMENTS,
    WINDOW_BYTES_MIN,
    ReadCache,
    SequentialReaders,
)

LEDGER = LedgerId(7)


def filled(size_bytes_max: int, count: int, size: int = 1000) -> ReadCache:
    cache = ReadCache(size_bytes_max)
    for entry_id in range(count):
        cache.put(LEDGER, EntryId(entry_id), bytes([entry_id % 256]) * size)
    return cache


def kept(cache: ReadCache, count: int) -> list[int]:
    return [number for number in range(count) if cache.get(LEDGER, EntryId(number)) is not None]


def test_what_moves_is_told_to_reads_under_way_although_nothing_is_cached_yet() -> None:
    cache = ReadCache(SEGMENTS * 5_000)
    epoch = cache.epoch

    cache.forget({LEDGER: [EntryId(0)]})
    moved = cache.epoch
    cache.drop(LEDGER)

    assert len({epoch, moved, cache.epoch}) == 3


def test_what_fits_stays_whole() -> None:
    cache = filled(SEGMENTS * 5_000, 50)

    assert kept(cache, 50) == list(range(50))
    assert cache.size_bytes == 50 * (1000 + ENTRY_OVERHEAD_BYTES)


def test_the_newest_entries_stay_and_the_bound_holds() -> None:
    cache = ReadCache(100_000)
    for entry_id in range(1000):
        cache.put(LEDGER, EntryId(entry_id), bytes(1000))
        assert cache.size_bytes <= 100_000

    found = kept(cache, 1000)

    assert found == list(range(found[0], 1000))
    assert len(found) >= 70


def test_an_entry_larger_than_a_segment_is_not_kept() -> None:
    cache = filled(SEGMENTS * 5_000, 5)

    cache.put(LEDGER, EntryId(77), bytes(5_001 - ENTRY_OVERHEAD_BYTES))

    assert kept(cache, 100) == [0, 1, 2, 3, 4]
    assert kept(filled(0, 3), 3) == []


def test_forgotten_entries_and_dropped_ledgers_are_gone_and_may_come_again() -> None:
    cache = filled(SEGMENTS * 5_000, 12)
    before = cache.epoch

    cache.forget({LEDGER: [EntryId(2), EntryId(10), EntryId(99)], LedgerId(99): [EntryId(0)]})
    assert kept(cache, 12) == [0, 1, 3, 4, 5, 6, 7, 8, 9, 11]
    cache.put(LEDGER, EntryId(2), b"other")
    assert cache.get(LEDGER, EntryId(2)) == b"other"
    cache.put(LedgerId(8), EntryId(0), b"other")
    cache.drop(LEDGER)
    assert kept(cache, 12) == []
    assert cache.get(LedgerId(8), EntryId(0)) == b"other"
    assert cache.epoch > before + 1
    for entry_id in range(1000):  # the segments of what is gone already go without a trace
        cache.put(LEDGER, EntryId(entry_id), bytes(1000))
    assert cache.get(LedgerId(8), EntryId(0)) is None
    assert cache.size_bytes <= SEGMENTS * 5_000


def test_a_reader_in_order_gets_a_growing_window_and_a_jump_ends_it() -> None:
    readers = SequentialReaders(100 * KIB)
    windows, entry_id = [], 0
    for _ in range(6):
        windows.append(readers.window(LEDGER, EntryId(entry_id)))
        entry_id += 10
        readers.moved(LEDGER, EntryId(entry_id - 1), windows[-1])

    assert windows == [0, WINDOW_BYTES_MIN, 32 * KIB, 64 * KIB, 100 * KIB, 100 * KIB]
    assert readers.window(LEDGER, EntryId(entry_id + GAP_MAX)) == 100 * KIB  # every n-th entry of a striped ledger
    assert readers.window(LEDGER, EntryId(entry_id + GAP_MAX + 1)) == 0
    assert readers.window(LEDGER, EntryId(entry_id - 1)) == 0
    assert SequentialReaders(0).window(LEDGER, EntryId(0)) == 0


def test_readers_of_many_ledgers_are_remembered_up_to_a_bound() -> None:
    readers = SequentialReaders(100 * KIB)
    for ledger_id in range(READERS_MAX + 1):
        readers.moved(LedgerId(ledger_id), EntryId(4), 0)

    assert readers.window(LedgerId(0), EntryId(5)) == 0
    assert readers.window(LedgerId(1), EntryId(5)) == WINDOW_BYTES_MIN


def test_of_many_readers_the_one_that_reads_on_is_remembered() -> None:
    readers = SequentialReaders(100 * KIB)
    for ledger_id in range(READERS_MAX):
        readers.moved(LedgerId(ledger_id), EntryId(4), 0)
    readers.moved(LedgerId(1), EntryId(5), 0)
    for ledger_id in range(READERS_MAX, READERS_MAX + 2):
        readers.moved(LedgerId(ledger_id), EntryId(4), 0)

    assert readers.window(LedgerId(1), EntryId(6)) == WINDOW_BYTES_MIN
    assert [readers.window(LedgerId(ledger_id), EntryId(5)) for ledger_id in (0, 2)] == [0, 0]
