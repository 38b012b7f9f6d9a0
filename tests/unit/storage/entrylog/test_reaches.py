"""Does a ledger directory still have the log that it had? Asked after flushes, kills and collections."""

import pytest

from bookie.sim.node import ProcessEnd
from bookie.storage.entrylog.logs import EntryLogs
from bookie.storage.store import EntryStore
from storage_support import Bench, run
from story_support import story

BLOCK = 4096


async def reached(bench: Bench, log_id: int, size_bytes: int) -> bool:
    return await EntryLogs(bench.node.world.disk, "/ledgers/current").reaches(log_id, size_bytes)


@story(run)
async def test_what_is_told_of_logs_is_what_a_checkpoint_has_synced(bench: Bench) -> None:
    told: list[tuple[int, int]] = []

    async def work(store: EntryStore) -> None:
        assert store.logged == ((0, 0),)
        await bench.put_all(store, 7, [0])
        assert store.logged == ((0, 0),)
        await store.flush()
        told.extend(store.logged)
        await bench.put_all(store, 7, [1])
        assert store.logged == (told[0],)

    async def look() -> None:
        ((log_id, size_bytes),) = told
        assert size_bytes > 0
        assert await reached(bench, log_id, size_bytes)
        assert not await reached(bench, log_id, size_bytes + 1)
        assert not await reached(bench, log_id + 1, 1)

    await bench.life(work, end=ProcessEnd.KILL)
    await bench.look(look())


@story(run)
async def test_bytes_that_are_not_synced_are_not_told(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        writer = store.partitions[0].writer
        writer.begin()
        await writer.append([b"body"])
        assert writer.synced == (0, 0)
        await writer.sync()
        assert writer.synced == (0, 2 * BLOCK)

    await bench.life(work, end=ProcessEnd.KILL)


@pytest.mark.parametrize("is_newer_there", [True, False])
@story(run, entry_log_bytes_max=8192)
async def test_a_log_that_is_gone_was_collected_only_where_a_later_one_is(
    bench: Bench, *, is_newer_there: bool
) -> None:
    told: list[tuple[int, int]] = []

    async def work(store: EntryStore) -> None:
        for number in range(4):
            await bench.put_all(store, 7, range(10 * number, 10 * number + 10))
            await store.flush()
            told.extend(store.logged)

    async def look() -> None:
        disk = bench.node.world.disk
        for log_id in {log_id for log_id, _ in told[: 2 if is_newer_there else 4]}:
            await EntryLogs(disk, "/ledgers/current").remove(log_id)
        assert await reached(bench, *told[0]) == is_newer_there

    await bench.life(work)
    assert told[0][0] < told[1][0] < told[2][0]
    await bench.look(look())


@story(run)
async def test_a_log_that_cannot_be_opened_counts_as_there(bench: Bench) -> None:
    """Its reads fail, and that is told; a bookie whose volumes went back in time waits for a person."""
    told: list[tuple[int, int]] = []

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, 7, range(10))
        await store.flush()
        told.extend(store.logged)

    async def look() -> None:
        assert await reached(bench, *told[0])

    await bench.life(work)
    bench.rot(".log", 3)
    await bench.look(look())
