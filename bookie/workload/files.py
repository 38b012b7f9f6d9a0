"""The oracle's log on disk: a folder with one append-only file for each writer process.

These are an application's files, not a bookie's: they lie outside the fleet, and no bookie reads them.
"""

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from bookie.workload import check, records

FLUSH_S = 0.05  # how long an acknowledgement may stay unrecorded; recorded ones are what is verified
SUFFIX = ".jsonl"


def wall_ms() -> int:
    """Return milliseconds since the epoch, for the records' times."""
    return time.time_ns() // 1_000_000


class FileLog:
    """An append-only file, synced every FLUSH_S. `append` only buffers: a record counts once it is on disk."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._lines: list[bytes] = []
        # A writer appends while another thread flushes: a line that went into a buffer taken meanwhile would be lost.
        self._buffered, self._flushing = threading.Lock(), threading.Lock()
        self._failure: OSError | None = None

    def append(self, record: records.Record) -> None:
        with self._buffered:
            if not self._lines:
                self._lines.append(records.dump_record(records.Time(wall_ms())))
            self._lines.append(records.dump_record(record))

    def flush(self) -> None:
        """Write and sync the buffered records. The last flush of a writer waits for one that is under way in a thread:
        its records are older, and a log that is read in another order says that a part of it is missing. Raises OSError
        from the first write that failed on: what came after a gap would be verified, and the gap never missed."""
        with self._flushing:
            if self._failure is not None:
                raise self._failure
            with self._buffered:  # for this alone: an append never waits for the disk
                lines, self._lines = self._lines, []
            if lines:
                try:
                    self._file.write(b"".join(lines))
                    self._file.flush()
                    os.fsync(self._file.fileno())
                except OSError as error:
                    self._failure = error
                    raise

    async def keep_flushing(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_S)
            await asyncio.to_thread(self.flush)


@dataclass(slots=True)
class LogFollower:
    """Reads what was added to the log's files since the last look; a torn line waits until it is whole."""

    folder: Path
    offsets: dict[Path, int] = field(default_factory=dict)

    def news(self) -> Iterator[records.Record]:
        for path in sorted(self.folder.glob(f"*{SUFFIX}")):
            with path.open("rb") as file:
                file.seek(self.offsets.get(path, 0))
                added = file.read()
            whole = added[: added.rfind(b"\n") + 1]
            self.offsets[path] = self.offsets.get(path, 0) + len(whole)
            yield from records.load_records(whole.splitlines(keepends=True))


def load_log(folder: Path) -> dict[int, check.AcknowledgedLedger]:
    """Return what all writers' logs in `folder` expect, by ledger; empty when there is no log."""
    ledgers: dict[int, check.AcknowledgedLedger] = {}
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        with path.open("rb") as file:
            ledgers.update(check.expectations(records.load_records(file)))
    return ledgers
