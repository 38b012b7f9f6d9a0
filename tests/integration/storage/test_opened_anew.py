"""An index that is opened anew for want of descriptors has all that was written, however many flushes there were."""

import asyncio
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from bookie.base import errors
from bookie.ports.ordered_store import PutRow
from bookie.runtime.rocksdb import RocksStore, RocksStores
from story_support import in_a_loop

WAIT_S = 60.0


class Short:
    """A database that cannot flush as it closes: only what a flush had written is on the disk then. Each flush waits
    until `may_end` is released for it."""

    def __init__(self, database: Any, folder: Path) -> None:
        self._database = database
        self._folder = folder
        self._saved = folder.with_name("saved")
        self._loop = asyncio.get_running_loop()
        self.has_begun = asyncio.Event()
        self.may_end = threading.Semaphore(0)
        self.was_closed_while_flushing = False
        self._is_flushing = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def flush(self, wait: bool) -> None:
        self._is_flushing = True
        self._database.flush(wait)
        shutil.rmtree(self._saved, ignore_errors=True)
        shutil.copytree(self._folder, self._saved)
        self._loop.call_soon_threadsafe(self.has_begun.set)
        assert self.may_end.acquire(timeout=WAIT_S), "nobody let the flush end"
        self._is_flushing = False

    def close(self) -> None:
        self.was_closed_while_flushing = self._is_flushing
        self._database.close()
        shutil.rmtree(self._folder)
        shutil.copytree(self._saved, self._folder)


async def two_flushes(folder: Path) -> tuple[RocksStore, Short, "asyncio.Task[None]"]:
    """Return a store with one row, of which one flush has ended; and another flush that began beside that one."""
    store = await RocksStores().open(str(folder / "index"))
    short = Short(store._database, folder / "index")
    store._database = short  # type: ignore[assignment]
    store.write([PutRow(b"before", b"row")])
    first, second = asyncio.create_task(store.flush()), asyncio.create_task(store.flush())
    await asyncio.wait_for(short.has_begun.wait(), WAIT_S)
    short.has_begun.clear()
    short.may_end.release()
    await asyncio.wait_for(first, WAIT_S)
    await asyncio.wait_for(short.has_begun.wait(), WAIT_S)
    return store, short, second


@in_a_loop
async def test_what_is_written_while_the_second_of_two_flushes_ends_is_there_afterwards(*, tmp_path: Path) -> None:
    store, short, second = await two_flushes(tmp_path)
    store.write([PutRow(b"between", b"row")])
    short.may_end.release()
    await asyncio.wait_for(second, WAIT_S)

    store._is_stuck = True
    store.write([PutRow(b"after", b"row")])

    assert store.get_many([b"before", b"between", b"after"]) == [b"row", b"row", b"row"]
    await store.close()


@in_a_loop
async def test_it_is_not_opened_anew_under_the_second_of_two_flushes(*, tmp_path: Path) -> None:
    store, short, second = await two_flushes(tmp_path)
    store._is_stuck = True
    with pytest.raises(errors.OutOfResources):
        store.write([PutRow(b"after", b"row")])
    short.may_end.release()
    await asyncio.wait_for(second, WAIT_S)

    store.write([PutRow(b"after", b"row")])

    assert not short.was_closed_while_flushing
    assert store.get_many([b"before", b"after"]) == [b"row", b"row"]
    await store.close()
