"""The index on the real store: a row is read before it is written, so deletions must show."""

from pathlib import Path

import pytest

from bookie.base.ids import EntryId, LedgerId
from bookie.runtime.rocksdb import RocksStores
from bookie.storage import location
from bookie.storage.index import Index
from bookie.storage.run import Placed
from story_support import in_a_loop

LEDGER = LedgerId(7)


def put(index: Index, *entry_ids: int) -> None:
    ids, places = [EntryId(each) for each in entry_ids], [location.pack(1, each, 9) for each in entry_ids]
    index.put_entries(Placed([LEDGER] * len(ids), ids, places))


@pytest.mark.parametrize("is_first_flushed", [True, False])
@pytest.mark.parametrize("is_deletion_flushed", [True, False])
@in_a_loop
async def test_a_ledger_deleted_and_made_anew_has_nothing_of_its_first_life(
    *, tmp_path: Path, is_first_flushed: bool, is_deletion_flushed: bool
) -> None:
    index = Index(await RocksStores().open(str(tmp_path / "index")))
    put(index, *range(70))
    if is_first_flushed:
        await index.flush()

    index.forget(LEDGER)
    if is_deletion_flushed:
        await index.flush()
    put(index, 2, 40)

    assert [entry_id for entry_id, _ in index.locations(LEDGER)] == [2, 40]
    assert index.locate(LEDGER, EntryId(3)) is None
    assert index.last_entry(LEDGER) == 40
    await index.close()


@in_a_loop
async def test_entries_put_at_any_time_and_in_any_block_are_all_there_after_opening_again(*, tmp_path: Path) -> None:
    index = Index(await RocksStores().open(str(tmp_path / "index")))
    put(index, 0, 31, 32, 95)
    await index.flush()
    put(index, 1, 33, 64)
    await index.flush()
    await index.close()

    again = Index(await RocksStores().open(str(tmp_path / "index")))
    assert [(each, place.offset) for each, place in again.locations(LEDGER, EntryId(1), EntryId(64))] == [
        (1, 1),
        (31, 31),
        (32, 32),
        (33, 33),
        (64, 64),
    ]
    assert again.locate(LEDGER, EntryId(32)) is not None
    await again.close()
