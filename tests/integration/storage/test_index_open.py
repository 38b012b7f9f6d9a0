"""What an index that cannot be opened is called, by a real RocksDB; and that a new one keeps its name."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bookie.base import errors
from bookie.ports.ordered_store import PutRow
from bookie.runtime.rocksdb import RocksStores
from story_support import in_a_loop

# Holds what argv names, as another bookie would, until its standard input ends.
HOLD = "import fcntl, sys\nwith open(sys.argv[1], 'rb+') as file:\n fcntl.lockf(file, fcntl.LOCK_EX)\n"
HOLD += " print('held', flush=True)\n sys.stdin.read()"


@contextlib.contextmanager
def held_elsewhere(directory: Path) -> Iterator[None]:
    command = [sys.executable, "-c", HOLD, str(directory / "LOCK")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield
        holder.communicate(b"")


async def write(directory: Path) -> None:
    """An index with something in it, closed in good order."""
    store = await RocksStores().open(str(directory))
    store.write([PutRow(b"%06d" % number, os.urandom(50)) for number in range(2000)])
    await store.flush()
    await store.close()


@in_a_loop
async def test_an_index_with_a_rotten_block_is_called_corrupt_and_not_open_elsewhere(*, tmp_path: Path) -> None:
    """RocksDB says "block checksum mismatch", which has "lock" in it: its bookie was said to run twice."""
    directory = tmp_path / "index"
    await write(directory)
    (table,) = directory.glob("*.sst")
    rotten = bytearray(table.read_bytes())
    rotten[-300] ^= 0xFF
    table.write_bytes(rotten)

    with pytest.raises(errors.CorruptFile, match=r"block checksum mismatch.*the index is corrupt"):
        await RocksStores().open(str(directory))


@in_a_loop
async def test_where_a_path_has_the_word_in_it_other_troubles_keep_their_names(*, tmp_path: Path) -> None:
    directory = tmp_path / "blocks" / "index"
    await write(directory)
    (directory / "LOCK").unlink()
    (directory / "LOCK").mkdir()

    with pytest.raises(errors.StorageFailed, match="Is a directory"):
        await RocksStores().open(str(directory))


@in_a_loop
async def test_an_index_that_is_open_is_not_opened_again_by_this_process_or_another(*, tmp_path: Path) -> None:
    directory = tmp_path / "index"
    store = await RocksStores().open(str(directory))
    elsewhere = "open in another process: one bookie per index"
    with pytest.raises(errors.RefusedToStart, match=elsewhere):
        await RocksStores().open(str(directory))
    await store.close()

    with held_elsewhere(directory), pytest.raises(errors.RefusedToStart, match=elsewhere):
        await RocksStores().open(str(directory))
    await (await RocksStores().open(str(directory))).close()


@in_a_loop
async def test_the_name_of_a_new_index_outlives_a_power_cut(*, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[str, bool]] = []
    directory, sync = tmp_path / "index", os.fsync

    def noted(fd: int) -> None:
        synced.append((os.readlink(f"/proc/self/fd/{fd}"), directory.is_dir()))
        sync(fd)

    monkeypatch.setattr(os, "fsync", noted)
    store = await RocksStores().open(str(directory))
    await store.close()

    assert (str(tmp_path), True) in synced
