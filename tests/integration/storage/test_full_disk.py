"""A real index on a real volume that fills up: the bookie turns read-only, loses nothing, and comes back by itself.

In a mount namespace of its own, where anybody may mount a small file system in memory.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import storage_child
from bookie.base import errors
from bookie.base.ids import EntryId, LedgerId
from bookie.base.units import KIB, MIB
from bookie.runtime.world import open_world
from bookie.storage import restart
from bookie.storage.options import StorageOptions
from bookie.storage.store import EntryStore
from storage_support import Outcome, entry, put

ROOT = Path(__file__).resolve().parents[3]
# RocksDB resumes once it sees 8 MiB free; the filler gives much more than that back.
VOLUME_BYTES = 64 * MIB
IN_NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]


def options_in(folder: str, index: str) -> StorageOptions:
    plain = storage_child.options_in(folder)
    return StorageOptions(
        journal_dirs=plain.journal_dirs,
        ledger_dirs=plain.ledger_dirs,
        index_dirs=(index,),
        flush_interval_ms=500,
        # Out of the way: what is asked here is what RocksDB does, not the thresholds that come before it.
        disk_used_max=0.99999,
        disk_used_again=0.99998,
    )


@pytest.mark.slow
def test_an_index_without_space_makes_the_bookie_read_only_until_there_is_some(tmp_path: Path) -> None:
    if shutil.which("unshare") is None or subprocess.run([*IN_NAMESPACE, "true"], check=False).returncode:
        pytest.skip("no mount namespaces here")
    (tmp_path / "index").mkdir()
    script = (
        f"mount -t tmpfs -o size={VOLUME_BYTES} tmpfs {tmp_path}/index && exec {sys.executable} {__file__} {tmp_path}"
    )

    result = subprocess.run(
        [*IN_NAMESPACE, "sh", "-c", script],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'support'}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines() == ["read-only", "writable again", "all there"], result.stderr


async def _live(folder: str) -> None:
    options = options_in(folder, f"{folder}/index")
    async with open_world() as world:
        store = await restart.open_store(options, world, fail=lambda error: sys.exit(f"the node stops: {error}"))
        count = await _fill(store, Path(folder) / "index" / "filler")
        print("read-only")
        assert isinstance(put_failure(store, count), errors.BookieReadOnly)
        # The look at the volume may see it full a moment before RocksDB's write has failed.
        await _until(lambda: store.stats.checkpoint_failures > 0, "the failure of a checkpoint")
        await _check(store, count)
        (Path(folder) / "index" / "filler").unlink()
        await _until(lambda: not store.is_read_only, "writable again")
        outcome = put(store, 1, count)
        await outcome.wait()
        assert outcome.is_ok
        await store.flush()
        print("writable again")
        assert await store.close()
        store = await restart.open_store(options, world, fail=lambda error: sys.exit(f"the node stops: {error}"))
        assert store.stats.entries_replayed == 0
        await _check(store, count + 1)
        await store.close()
        print("all there")


async def _fill(store: EntryStore, filler: Path) -> int:
    """Take all but a little of the index's volume, then write until the bookie is read-only; how many were acked."""
    await store.flush()
    facts = os.statvfs(filler.parent)
    filler.write_bytes(bytes(facts.f_bavail * facts.f_frsize - 60 * KIB))  # noqa: ASYNC240
    count, deadline = 0, time.monotonic() + 60
    while not store.is_read_only:
        assert time.monotonic() < deadline, "never read-only"
        outcomes: list[Outcome] = []
        try:
            for _ in range(200):
                outcomes.append(put(store, 1, count + len(outcomes)))
        except errors.BookieReadOnly:
            pass
        for outcome in outcomes:
            await outcome.wait()
            assert outcome.is_ok
        count += len(outcomes)
        await asyncio.sleep(0.01)
    return count


def put_failure(store: EntryStore, entry_id: int) -> Exception | None:
    try:
        put(store, 1, entry_id)
    except errors.BookieError as error:
        return error
    return None


async def _check(store: EntryStore, count: int) -> None:
    for entry_id in range(0, count, 7):
        body = store.read_nowait(LedgerId(1), EntryId(entry_id))
        if body is None:
            body = await store.read(LedgerId(1), EntryId(entry_id))
        assert bytes(body) == entry(1, entry_id)


async def _until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"not {what} within 60 s"
        await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(_live(sys.argv[1]))
