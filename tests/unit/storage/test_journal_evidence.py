"""What the marks in the index prove of the journal: what they reached was durable; what lacks of it is damage."""

import pytest

from bookie.base import errors
from bookie.sim.node import ProcessEnd
from bookie.storage.store import EntryStore
from storage_support import Bench, put, run
from story_support import story


async def nothing(store: EntryStore) -> None:
    """A life in which nothing happens."""


def cut(bench: Bench, path: str, size: int) -> None:
    """A file system check, or a person, cut the file."""
    image = bench.image(path)
    del image.data[size:]
    image.durable[:] = image.data


def lagging() -> Bench:
    """Two ledger directories: ledgers 6, 8, ... live in the first, 7, 9, ... in the second."""
    return Bench(ledger_dirs=("/ledgers", "/index"), index_dirs=(), journal_file_bytes_max=12_288)


async def one_directory_lags(bench: Bench) -> None:
    """A life in which the first directory had no space for its checkpoint and the second had; ended by kill -9."""

    async def first(store: EntryStore) -> None:
        for entry_id in range(12):
            await bench.put_all(store, 6, [entry_id], payload=bytes(900))
        bench.fill("/ledgers")
        await bench.put_all(store, 7, [0])
        with pytest.raises(errors.DiskFull):
            await store.flush()
        bench.make_room("/ledgers")

    await bench.life(first, end=ProcessEnd.KILL)


@pytest.mark.parametrize("size", [0, 1, 30, 39, 4095])
@story(run)
async def test_a_file_that_a_mark_is_in_was_begun_whatever_is_left_of_it(bench: Bench, *, size: int) -> None:
    async def first(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(3))

    await bench.life(first, end=ProcessEnd.KILL)
    cut(bench, ".journal", size)

    for _ in range(2):
        with pytest.raises(errors.CorruptFile, match=r"0001\.journal"):
            await bench.life(nothing)
    await bench.life(nothing, accept_loss=True)


async def many_files(bench: Bench) -> None:
    """A life that ends by kill -9 before its first checkpoint, with entries in several files."""

    async def first(store: EntryStore) -> None:
        for entry_id in range(20):
            await bench.put_all(store, 7, [entry_id], payload=bytes(900))

    await bench.life(first, end=ProcessEnd.KILL)
    assert len(bench.paths(".journal")) >= 3


@story(run, lagging)
async def test_a_file_with_records_is_never_taken_for_one_that_was_not_begun(bench: Bench) -> None:
    await many_files(bench)
    last = bench.image(bench.paths(".journal")[-1])
    assert len(last.data) > 4096
    last.data[8] ^= 1
    last.durable[:] = last.data

    with pytest.raises(errors.CorruptFile, match="header at offset 0"):
        await bench.life(nothing)


@story(run, lagging)
async def test_the_first_file_is_missed_as_any_other(bench: Bench) -> None:
    await many_files(bench)
    first = bench.paths(".journal")[0]
    current = bench.node.image.volumes["/journal"].root.names["current"]
    del current.names[first.rpartition("/")[2]]  # type: ignore[union-attr]
    current.durable = dict(current.names)  # type: ignore[union-attr]

    with pytest.raises(errors.CorruptFile, match=r"0001\.journal is missing"):
        await bench.life(nothing)


@story(run, lagging)
async def test_a_file_that_took_the_name_of_another_is_refused(bench: Bench) -> None:
    await many_files(bench)
    names = bench.paths(".journal")
    one, other = bench.image(names[0]), bench.image(names[1])
    one.data[:], one.durable[:] = other.data, other.data

    with pytest.raises(errors.CorruptFile, match=r"0001\.journal: the header"):
        await bench.life(nothing)


@story(run, lagging)
async def test_a_file_in_the_middle_that_lost_its_last_block_is_seen_by_the_next_one(bench: Bench) -> None:
    """Each record that is left checks."""
    await many_files(bench)
    first = bench.paths(".journal")[0]
    cut(bench, first, len(bench.image(first).data) - 4096)

    with pytest.raises(errors.CorruptFile, match=r"0001\.journal: ends at"):
        await bench.life(nothing)


@story(run, lagging)
async def test_a_directory_that_lags_is_not_replayed_from_less_than_another_ones_mark_reached(bench: Bench) -> None:
    await one_directory_lags(bench)
    last = bench.paths(".journal")[-1]
    cut(bench, last, len(bench.image(last).data) - 32)

    with pytest.raises(errors.CorruptFile, match="reach"):
        await bench.life(nothing)
    await bench.life(nothing, accept_loss=True)


@story(run, lagging)
async def test_a_file_at_the_end_is_missed_when_another_directorys_mark_is_in_it(bench: Bench) -> None:
    await one_directory_lags(bench)
    names = bench.paths(".journal")
    current = bench.node.image.volumes["/journal"].root.names["current"]
    del current.names[names[-1].rpartition("/")[2]]  # type: ignore[union-attr]
    current.durable = dict(current.names)  # type: ignore[union-attr]

    with pytest.raises(errors.CorruptFile, match="is missing"):
        await bench.life(nothing)
    await bench.life(nothing, accept_loss=True)


@story(run, lagging)
async def test_a_directory_that_lags_gets_all_that_its_journal_has(bench: Bench) -> None:
    """The same life, undamaged."""
    await one_directory_lags(bench)

    async def after(store: EntryStore) -> None:
        assert await store.entry_ranges(6) == [(0, 11)]  # type: ignore[arg-type]
        outcome = put(store, 6, 12)
        await bench.settle(outcome)
        assert outcome.is_ok

    await bench.life(after)
