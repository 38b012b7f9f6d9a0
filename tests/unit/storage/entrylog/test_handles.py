"""Handles of entry logs: a read under way keeps its own, and what is removed leaves none behind."""

import asyncio
from typing import Any

import pytest

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.storage.entrylog import logs
from bookie.storage.store import EntryStore
from storage_support import Bench, entry, run
from story_support import story

LEDGER, ENTRY = LedgerId(7), EntryId(1)


def is_open(bench: Bench, log_id: int) -> bool:
    disk: Any = bench.node.disk
    return any(file.path.endswith(f"{log_id:08x}.log") for file in disk.open_files)


@story(run, entry_log_bytes_max=4096)
async def test_a_read_under_way_ends_well_though_its_log_is_removed_and_its_handle_goes_with_it(bench: Bench) -> None:
    """A descriptor that was closed under it may be another file's by then."""

    async def work(store: EntryStore) -> None:
        (directory,) = store.partitions
        await bench.put_all(store, LEDGER, range(3), payload=bytes(2000))
        await store.flush()
        await bench.put_all(store, 8, [0])
        await store.flush()
        location = directory.index.locate(LEDGER, ENTRY)
        assert location is not None

        reads = [asyncio.ensure_future(directory.logs.read(location, LEDGER, ENTRY)) for _ in range(2)]
        await bench.simulation.loop.sleep_ns(1)
        await directory.logs.remove(location.log_id)

        for body in await asyncio.gather(*reads):
            assert bytes(body) == entry(LEDGER, ENTRY, payload=bytes(2000))
        assert not is_open(bench, location.log_id)

    await bench.life(work)


@story(run, entry_log_bytes_max=4096)
async def test_a_log_that_goes_while_it_is_opened_leaves_no_handle(bench: Bench) -> None:
    async def first(store: EntryStore) -> None:
        await bench.put_all(store, LEDGER, range(3), payload=bytes(2000))
        await store.flush()

    async def second(store: EntryStore) -> None:
        (directory,) = store.partitions
        location = directory.index.locate(LEDGER, ENTRY)
        assert location is not None

        reading = asyncio.ensure_future(directory.logs.read(location, LEDGER, ENTRY))
        while not is_open(bench, location.log_id):
            await bench.simulation.loop.sleep_ns(1)
        await directory.logs.remove(location.log_id)

        with pytest.raises(errors.CorruptFile, match="ask the index again"):
            await reading
        assert not is_open(bench, location.log_id)

    await bench.life(first)
    await bench.life(second)


@story(run, entry_log_bytes_max=4096)
async def test_no_handle_is_closed_that_is_written_or_read_however_few_may_be_open(
    bench: Bench, *, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "FILES_MAX", 0)

    async def first(store: EntryStore) -> None:
        for entry_id in range(3):  # a log each
            await bench.put_all(store, LEDGER, [entry_id], payload=bytes(4000))
            await store.flush()

    async def second(store: EntryStore) -> None:
        (directory,) = store.partitions
        await bench.put_all(store, 8, [0])
        await store.flush()
        places = [directory.index.locate(LEDGER, EntryId(entry_id)) for entry_id in range(3)]
        reads = [
            directory.logs.read(place, LEDGER, EntryId(entry_id)) for entry_id, place in enumerate(places) if place
        ]
        for entry_id, body in enumerate(await asyncio.gather(*reads)):
            assert bytes(body) == entry(LEDGER, entry_id, payload=bytes(4000))
        await bench.put_all(store, 8, [1])
        await store.flush()
        assert not store.failed_dirs

    await bench.life(first)
    await bench.life(second)
