"""A process that writes to an EntryStore on the real disk until it is killed, and keeps its own log of what was
acknowledged: one line per entry or fence, written with one write(2) *after* the completion ran.

    python storage_child.py DIRECTORY ACKNOWLEDGED_LOG ROUND JOURNAL_DATA(0|1)

Lines: "entry LEDGER ENTRY CRC32", "fence LEDGER", "flushed ROUND" (a flush covered every entry line of this
round before it).
"""

import asyncio
import os
import sys
import zlib

from bookie.base.errors import BookieError
from bookie.base.ids import EntryId, LedgerId
from bookie.ports import World
from bookie.runtime.world import open_world
from bookie.storage import restart
from bookie.storage.collect.compactor import Compactor
from bookie.storage.collect.plan import Kind
from bookie.storage.collect_options import CompactionOptions, CompactionRule
from bookie.storage.options import StorageOptions
from bookie.storage.store import EntryStore
from storage_support import KEY, entry

LEDGERS = 4
WINDOW = 400


def options_in(directory: str, *, journal_data: bool = True) -> StorageOptions:
    """Small files, so that rolls, rotations, trims and compactions happen within a second. How full this machine's
    disk is does not count: no test of the engine is about that of others."""
    return StorageOptions(
        journal_dirs=(f"{directory}/journal",),
        ledger_dirs=(f"{directory}/ledgers",),
        index_dirs=(f"{directory}/index",),
        journal_write_data=journal_data,
        journal_file_bytes_max=512 * 1024,
        write_cache_bytes_max=2 * 1024 * 1024,
        entry_log_bytes_max=4 * 1024 * 1024,
        flush_interval_ms=300,
        unjournaled_flush_interval_ms=300,
        disk_used_max=0.99999,
        disk_used_again=0.99998,
        disk_used_warn=0.99998,
    )


def payload_of(ledger_id: int, entry_id: int) -> bytes:
    """Bytes that only this entry has."""
    return (b"%d/%d " % (ledger_id, entry_id)) * (1 + entry_id % 90)


class Writer:
    def __init__(self, store: EntryStore, log: int, round_: int) -> None:
        self.store, self.log, self.round = store, log, round_
        self.in_flight = 0
        self.space = asyncio.Event()

    def add(self, ledger_id: int, entry_id: int) -> None:
        body = entry(ledger_id, entry_id, payload=payload_of(ledger_id, entry_id))
        line = b"entry %d %d %d\n" % (ledger_id, entry_id, zlib.crc32(body))

        def done(error: BookieError | None) -> None:
            assert error is None, error
            os.write(self.log, line)
            self.in_flight -= 1
            if self.in_flight < WINDOW:
                self.space.set()

        self.in_flight += 1
        self.store.add(LedgerId(ledger_id), [EntryId(entry_id)], [body], KEY, is_recovery=False, done=done)

    def fence(self, ledger_id: int) -> None:
        def done(error: BookieError | None) -> None:
            assert error is None, error
            os.write(self.log, b"fence %d\n" % ledger_id)

        self.store.fence(LedgerId(ledger_id), KEY, done)

    async def run(self) -> None:
        """For ever: ledgers of this round grow; now and then a ledger of its own is fenced, or all is flushed."""
        entry_id = 0
        while True:
            for number in range(LEDGERS):
                self.add(self.round * 100 + number, entry_id)
            entry_id += 1
            if entry_id % 50 == 0:
                self.fence(self.round * 100_000 + entry_id)
            if entry_id % 100 == 0:
                await self.store.flush()
                os.write(self.log, b"flushed %d\n" % self.round)
            if self.in_flight >= WINDOW:
                self.space.clear()
                await self.space.wait()
            await self.store.room()


async def rewrite(store: EntryStore, world: World) -> None:
    """For ever: move every entry of a finished log to a new one, so that kills find compaction at work. A log without
    garbage counts, too: its header of 20 bytes is more than a millionth of it."""
    options = CompactionOptions(entries_per_s=None, major=CompactionRule(0.999_999, 100_000_000))
    compactor = Compactor(store, options, world.clock)
    while True:
        await compactor.compact(Kind.MAJOR)
        await asyncio.sleep(0.02)


async def main() -> None:
    directory, log_path, round_, journal_data = sys.argv[1:]
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    async with open_world() as world:
        options = options_in(directory, journal_data=journal_data == "1")
        store = await restart.open_store(options, world, fail=lambda error: sys.exit(f"stopped: {error}"))
        async with asyncio.TaskGroup() as group:
            group.create_task(rewrite(store, world))
            group.create_task(Writer(store, log, int(round_)).run())


if __name__ == "__main__":
    asyncio.run(main())
