"""Files that others put into a bookie's directories under names like ours, and files that the disk does not remove."""

import logging
from typing import cast

import pytest

from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.ports.disk import Disk
from bookie.sim.node import ProcessEnd
from bookie.storage.entrylog import format as log_format
from bookie.storage.entrylog.logs import EntryLogs
from bookie.storage.store import EntryStore
from storage_support import Bench, entry, run
from story_support import story

LEDGER = LedgerId(7)


async def add(bench: Bench, name: str, data: bytes) -> None:
    """Put a file there, durably, while no bookie runs."""

    async def work() -> None:
        disk = bench.node.world.disk
        file = await disk.open(name, create=True)
        await file.append([data])
        await file.sync()
        await file.close()
        await disk.sync_dir(name.rsplit("/", 1)[0])

    await bench.look(work())


async def add_folder(bench: Bench, name: str) -> None:
    async def work() -> None:
        await bench.node.world.disk.make_dir(name)

    await bench.look(work())


async def writes(bench: Bench, *, entry_id: int) -> None:
    """A life that adds an entry, and one that finds it and all before it."""

    async def work(store: EntryStore) -> None:
        await bench.put_all(store, LEDGER, [entry_id])
        await store.flush()

    async def then(store: EntryStore) -> None:
        for number in range(entry_id + 1):
            assert await bench.read(store, LEDGER, number) == entry(LEDGER, number)

    await bench.life(work, end=ProcessEnd.POWER_CUT)
    await bench.life(then)
    assert not bench.failures


@pytest.mark.parametrize("data", [b"", b"litter", log_format.pack_head_block(5)])
@pytest.mark.parametrize("name", ["ffffffff.log", "fffffffe.log", "f0000001.log", "00020000.log"])
@story(run, entry_log_bytes_max=4096)
async def test_a_file_that_is_none_of_ours_does_not_say_which_logs_there_were(
    bench: Bench, *, name: str, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    await writes(bench, entry_id=0)
    await add(bench, f"/ledgers/current/{name}", data)
    with caplog.at_level(logging.ERROR):
        await writes(bench, entry_id=1)
    assert f"/ledgers/current/{name}" in caplog.text
    await writes(bench, entry_id=2)
    logs = sorted(path.rsplit("/", 1)[1] for path in bench.paths(".log"))
    assert logs[-1] == name, "it is left alone"
    assert all(path < "00000010.log" for path in logs[:-1])


@story(run)
async def test_a_whole_log_at_the_end_of_all_numbers_is_refused_by_its_name(bench: Bench) -> None:
    await writes(bench, entry_id=0)
    await add(bench, "/ledgers/current/ffffffff.log", log_format.pack_head_block(0xFFFF_FFFF))
    with pytest.raises(errors.RefusedToStart, match=r"/ledgers/current/ffffffff\.log.*move it away"):
        await writes(bench, entry_id=1)


@story(run)
async def test_a_log_of_ours_without_a_header_keeps_its_number(bench: Bench) -> None:
    """The power went before its header was durable, and after its name."""
    await writes(bench, entry_id=0)
    await add(bench, "/ledgers/current/00000009.log", b"")
    await writes(bench, entry_id=1)
    assert any(path.endswith("/0000000a.log") for path in bench.paths(".log"))


@story(run)
async def test_a_bookie_without_its_index_counts_on_from_the_logs_that_are_whole(bench: Bench) -> None:
    async def count(store: EntryStore) -> int:
        return store.partitions[0].writer.next_id

    await add_folder(bench, "/ledgers/current")
    await add(bench, "/ledgers/current/00100000.log", log_format.pack_head_block(0x100000))
    assert await bench.life(count) == 0x100001


@pytest.mark.parametrize(
    ("name", "data", "is_later"),
    [
        ("ffffffff.log", b"litter", False),
        ("ffffffff.log", log_format.pack_head_block(0xFFFF_FFFF), True),
        ("00010006.log", b"", False),
        ("00010005.log", b"", True),
    ],
)
@story(run)
async def test_a_file_that_is_none_of_ours_is_no_sign_that_a_log_was_collected(
    bench: Bench, *, name: str, data: bytes, is_later: bool
) -> None:
    """Else a volume that was set back would pass for one that is whole."""
    await add_folder(bench, "/ledgers/current")
    await add(bench, f"/ledgers/current/{name}", data)

    async def look() -> None:
        assert await EntryLogs(bench.node.world.disk, "/ledgers/current").reaches(6, 4096) == is_later

    await bench.look(look())


@pytest.mark.parametrize(
    "name",
    [
        "/ledgers/current/00000002.log",
        "/ledgers/current/FFFFFFFF.log",
        "/ledgers/current/fffffffff.log",
        "/ledgers/current/-0000001.log",
        "/journal/current/0000000000000000.journal",
        "/journal/current/FFFFFFFFFFFFFFFF.journal",
        "/journal/current/00000000000000001.journal",
    ],
)
@story(run)
async def test_a_folder_with_a_name_like_ours_stops_nobody(bench: Bench, *, name: str) -> None:
    await writes(bench, entry_id=0)
    await add_folder(bench, name)
    await writes(bench, entry_id=1)
    await writes(bench, entry_id=2)


@story(run)
async def test_a_strange_journal_file_is_named_by_the_start_that_it_prevents(bench: Bench) -> None:
    await writes(bench, entry_id=0)
    await add(bench, "/journal/current/ffffffffffffffff.journal", b"litter")
    with pytest.raises(errors.CorruptFile, match=r"is missing.*/journal/current/ffffffffffffffff\.journal is there"):
        await writes(bench, entry_id=1)


class StuckDisk:
    """A disk that removes no file."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def __getattr__(self, name: str) -> object:
        return getattr(self._disk, name)

    async def remove(self, path: str) -> None:
        raise errors.StorageFailed(f"{path}: remove: operation not permitted")


@story(run, entry_log_bytes_max=4096)
async def test_a_full_disk_that_removes_no_log_either_stops_nobody(bench: Bench) -> None:
    """What a checkpoint wrote in vain stays, and nothing points there."""

    async def work(store: EntryStore) -> None:
        (directory,) = store.partitions
        await bench.put_all(store, LEDGER, range(3), payload=bytes(3000))
        bench.fill("/ledgers", room=9000)
        disk = directory.logs.disk
        directory.logs.disk = cast(Disk, StuckDisk(disk))
        with pytest.raises(errors.DiskFull):
            await store.flush()
        assert store.is_read_only
        directory.logs.disk = disk
        bench.make_room("/ledgers")
        await store.flush()
        assert not store.is_read_only

    async def then(store: EntryStore) -> None:
        for number in range(3):
            assert await bench.read(store, LEDGER, number) == entry(LEDGER, number, payload=bytes(3000))
        assert await store.check_entry(LEDGER, EntryId(2))

    await bench.life(work, end=ProcessEnd.POWER_CUT)
    await bench.life(then)
    assert not bench.failures
