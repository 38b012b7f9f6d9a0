"""The engine on the real disk and the real index: one life after the other, and what another process may not do."""

import asyncio
import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

import storage_child
from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.runtime.world import open_world
from bookie.storage import inspect, restart
from bookie.storage.options import StorageOptions
from bookie.storage.shapes import Shape
from bookie.storage.store import EntryStore
from storage_support import KEY, Outcome, entry, put

ROOT = Path(__file__).resolve().parents[3]


def unexpected(error: errors.BookieError) -> None:
    pytest.fail(str(error))


async def settled(*outcomes: Outcome) -> None:
    for outcome in outcomes:
        await outcome.wait()


def test_entries_facts_and_runs_come_back_from_disk(tmp_path: Path) -> None:
    options = storage_child.options_in(str(tmp_path))

    async def first() -> None:
        async with open_world() as world:
            store = await restart.open_store(options, world, fail=unexpected)
            outcomes = [put(store, ledger, number) for number in range(3000) for ledger in (1, 2)]
            fence = Outcome()
            store.fence(LedgerId(2), KEY, fence)
            await settled(*outcomes, fence)
            await store.protect([(LedgerId(3), True, True, None)], epoch=5)
            assert await store.close()

    async def second() -> None:
        async with open_world() as world:
            store = await restart.open_store(options, world, fail=unexpected)
            assert store.stats.entries_replayed == 0
            for number in range(0, 3000, 7):
                body = store.read_nowait(LedgerId(1), EntryId(number))
                if body is None:
                    body = await store.read(LedgerId(1), EntryId(number))
                assert bytes(body) == entry(1, number)
            assert await store.entry_ranges(LedgerId(2)) == [(0, 2999)]
            facts = store.facts(LedgerId(2))
            assert facts is not None
            assert facts.is_fenced
            assert [ledger async for ledger in store.ledgers()] == [1, 2, 3]
            assert store.health.usage.total_bytes > 0
            await store.close()

    asyncio.run(first())
    asyncio.run(second())


def test_a_directory_is_added_in_the_real_index(tmp_path: Path) -> None:
    def options(count: int) -> StorageOptions:
        ledger_dirs = tuple(str(tmp_path / f"ledgers-{number}") for number in range(count))
        plain = storage_child.options_in(str(tmp_path))
        return dataclasses.replace(plain, ledger_dirs=ledger_dirs, index_dirs=())

    async def put_all(store: EntryStore, ledger_ids: range) -> None:
        await settled(*(put(store, ledger, number) for number in range(40) for ledger in ledger_ids))

    async def check(store: EntryStore, ledger_ids: range) -> None:
        for ledger in ledger_ids:
            assert await store.entry_ranges(LedgerId(ledger)) == [(0, 39)]
            assert bytes(await store.read(LedgerId(ledger), EntryId(33))) == entry(ledger, 33)

    async def old() -> None:
        async with open_world() as world:
            store = await restart.open_store(options(2), world, fail=unexpected)
            await put_all(store, range(4))
            await store.doubt_below(20, epoch=3)
            await store.settle([], rest=0)
            await store.flush()
            await put_all(store, range(4, 6))
            await store.abandon()  # the last two are in the journal alone

    async def grown() -> None:
        async with open_world() as world:
            store = await restart.open_store(options(3), world, fail=unexpected, must_exist=True, grow_from=2)
            await check(store, range(6))
            await put_all(store, range(6, 9))
            await store.abandon()

    async def later() -> None:
        async with open_world() as world:
            store = await restart.open_store(options(3), world, fail=unexpected, must_exist=True)
            await check(store, range(9))
            assert store.has_doubt_of(3)
            await store.flush()
            found = [[ledger async for ledger in part.table.walk()] for part in store.partitions]
            assert found == [[0, 2, 4, 6], [1, 3, 5, 7], [8]]
            await store.close()
            for number in range(3):
                async with inspect.open_index(world.ordered_stores, str(tmp_path / f"ledgers-{number}")) as view:
                    assert view.history() == (Shape(0, 2), Shape(6, 3))

    asyncio.run(old())
    asyncio.run(grown())
    asyncio.run(later())


def test_another_process_on_the_same_directories_is_refused(tmp_path: Path) -> None:
    options = storage_child.options_in(str(tmp_path))
    script = (
        "import asyncio, sys, storage_child\n"
        "from bookie.runtime.world import open_world\n"
        "from bookie.storage import restart\n"
        "async def main():\n"
        "    async with open_world() as world:\n"
        "        await restart.open_store(storage_child.options_in(sys.argv[1]), world, fail=print)\n"
        "asyncio.run(main())\n"
    )

    async def story() -> subprocess.CompletedProcess[str]:
        async with open_world() as world:
            store = await restart.open_store(options, world, fail=unexpected)
            result = await asyncio.to_thread(
                subprocess.run,
                [sys.executable, "-c", script, str(tmp_path)],
                capture_output=True,
                text=True,
                check=False,
                env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'support'}", "PATH": "/usr/bin:/bin"},
            )
            await store.close()
            return result

    result = asyncio.run(story())

    assert result.returncode != 0
    assert "RefusedToStart" in result.stderr
    assert "journal/current/LOCK" in result.stderr


def test_a_flipped_bit_on_disk_is_an_error_and_never_an_answer(tmp_path: Path) -> None:
    options = storage_child.options_in(str(tmp_path))

    async def write() -> None:
        async with open_world() as world:
            store = await restart.open_store(options, world, fail=unexpected)
            await settled(put(store, 1, 0), put(store, 1, 1))
            assert await store.close()

    async def read() -> None:
        async with open_world() as world:
            store = await restart.open_store(options, world, fail=unexpected)
            with pytest.raises(errors.CorruptFile, match=r"00000000\.log"):
                await store.read(LedgerId(1), EntryId(1))
            assert bytes(await store.read(LedgerId(1), EntryId(0))) == entry(1, 0)
            await store.close()

    asyncio.run(write())
    log = tmp_path / "ledgers" / "current" / "00000000.log"
    data = bytearray(log.read_bytes())
    data[data.rindex(entry(1, 1)) + len(entry(1, 1)) - 1] ^= 1
    log.write_bytes(data)
    asyncio.run(read())


def test_looking_into_a_stopped_bookie_changes_no_byte(tmp_path: Path) -> None:
    options = storage_child.options_in(str(tmp_path))

    async def write() -> None:
        async with open_world() as world:
            store = await restart.open_store(options, world, fail=unexpected)
            await settled(*(put(store, 1, number) for number in range(100)))
            assert await store.close()

    async def look() -> None:
        async with open_world() as world:
            (log_id,) = await inspect.log_ids(world.disk, options.ledger_dirs[0])
            logged = [found async for found in inspect.log_entries(world.disk, options.ledger_dirs[0], log_id)]
            async with inspect.open_index(world.ordered_stores, options.index_dirs_used[0]) as index:
                assert [ledger_id for ledger_id, _ in index.ledgers()] == [1]
                assert [one[1] for one in index.entries(LedgerId(1))] == list(range(100))
            assert len(logged) == 100
            for file_id in await inspect.journal_ids(world.disk, options.journal_dirs[0]):
                records = inspect.journal_records(world.disk, options.journal_dirs[0], file_id, is_last=True)
                assert not [found async for found in records if isinstance(found, inspect.Damage)]

    def contents() -> dict[str, tuple[int, bytes]]:
        files = (path for path in sorted(tmp_path.rglob("*")) if path.is_file())
        return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}

    asyncio.run(write())
    before = contents()
    asyncio.run(look())

    assert contents() == before
