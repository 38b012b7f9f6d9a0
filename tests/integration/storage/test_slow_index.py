"""RocksDB's looks that wait for the disk: in threads, beside the loop, and over before the database closes."""

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from bookie.base import errors
from bookie.ports.ordered_store import PutRow
from bookie.runtime.rocksdb import RocksStore, RocksStores
from story_support import in_a_loop

KEY = b"key"
WAIT_S = 60.0


class Slow:
    """A database whose looks wait until `may_end` is set; everything else goes to it as it is."""

    def __init__(self, database: Any) -> None:
        self._database = database
        self.looks_in: set[int] = set()
        self.has_begun = asyncio.Event()
        self.may_end = threading.Event()
        self.was_closed_while_looking = False
        self._loop = asyncio.get_running_loop()
        self._looking = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def get(self, keys: Any) -> Any:
        self.looks_in.add(threading.get_ident())
        self._looking += 1
        self._loop.call_soon_threadsafe(self.has_begun.set)
        assert self.may_end.wait(WAIT_S), "nobody let the look end"
        self._looking -= 1
        return self._database.get(keys)

    def close(self) -> None:
        self.was_closed_while_looking = self._looking > 0
        self._database.close()


async def opened(folder: Path) -> tuple[RocksStore, Slow]:
    store = await RocksStores().open(str(folder / "index"))
    store.put_many([(KEY, b"row")])
    slow = Slow(store._database)
    store._database = slow  # type: ignore[assignment]
    return store, slow


@in_a_loop
async def test_the_loop_goes_on_while_a_thread_looks(*, tmp_path: Path) -> None:
    store, slow = await opened(tmp_path)
    warming = asyncio.create_task(store.warm([KEY]))
    await asyncio.wait_for(slow.has_begun.wait(), WAIT_S)
    assert not warming.done()
    assert threading.get_ident() not in slow.looks_in
    slow.may_end.set()
    await asyncio.wait_for(warming, WAIT_S)
    assert store.get(KEY) == b"row"
    await store.close()


@in_a_loop
async def test_it_closes_after_the_looks_that_began(*, tmp_path: Path) -> None:
    store, slow = await opened(tmp_path)
    warming = asyncio.create_task(store.warm([KEY]))
    await asyncio.wait_for(slow.has_begun.wait(), WAIT_S)
    threading.Timer(0.2, slow.may_end.set).start()
    await store.close()
    assert not slow.was_closed_while_looking
    await asyncio.wait_for(warming, WAIT_S)
    await store.warm([KEY])  # closed: nothing to look into, and no thread begins


@in_a_loop
async def test_a_database_that_is_stuck_is_not_opened_anew_under_a_look(*, tmp_path: Path) -> None:
    store, slow = await opened(tmp_path)
    warming = asyncio.create_task(store.warm([KEY]))
    await asyncio.wait_for(slow.has_begun.wait(), WAIT_S)
    store._is_stuck = True
    with pytest.raises(errors.OutOfResources):
        store.write([PutRow(b"other", b"row")])
    slow.may_end.set()
    await asyncio.wait_for(warming, WAIT_S)
    store.write([PutRow(b"other", b"row")])
    assert not slow.was_closed_while_looking
    assert store.get_many([KEY, b"other"]) == [b"row", b"row"]
    await store.close()


@in_a_loop
async def test_what_a_thread_cannot_read_is_told_to_who_looks_next(*, tmp_path: Path) -> None:
    store, slow = await opened(tmp_path)
    database = slow._database

    class Broken:
        def get(self, keys: Any) -> Any:
            raise Exception("IO error: No such device")

    store._database = Broken()  # type: ignore[assignment]
    await store.warm([KEY])
    with pytest.raises(errors.StorageFailed):
        store.get(KEY)
    store._database = database
    await store.close()


@pytest.mark.parametrize("is_many", [False, True])
@in_a_loop
async def test_looks_that_take_long_are_noticed(*, tmp_path: Path, is_many: bool) -> None:
    store, slow = await opened(tmp_path)
    database = slow._database

    class Late:
        def get(self, keys: Any) -> Any:
            time.sleep(0.001)  # a disk's: what is measured here
            return database.get(keys)

    store._database = Late()  # type: ignore[assignment]
    assert not store.is_slow()
    for _ in range(40):
        store.is_slow()
        if is_many:
            store.get_many([KEY, KEY])
        else:
            store.get(KEY)
    assert store.is_slow()
    store._database = database
    await store.close()
