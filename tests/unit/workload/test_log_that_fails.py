"""A workload's log whose disk refuses a write: the run ends and says so. What is not recorded is not verified, and
nobody would miss it."""

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from bookie.client import Client
from bookie.workload import files, records, supervisor


class FullFile(io.FileIO):
    """A file on a disk that is full for one write, and has room again."""

    has_room = False

    def write(self, data: Any) -> int:
        if not self.has_room:
            self.has_room = True
            raise OSError(28, "No space left on device")
        return super().write(data)


class Folder:
    """A folder in which each new file is that file."""

    def __init__(self, file: FullFile) -> None:
        self._file = file

    def __truediv__(self, name: str) -> "Folder":
        return self

    def open(self, mode: str) -> FullFile:
        return self._file


class Acknowledging:
    """A client of a cluster with one ledger, which acknowledges each entry at once."""

    id = 7

    def __init__(self) -> None:
        self._count = 0

    async def create(self, **shape: Any) -> "Acknowledging":
        return self

    def append_nowait(self, entry: bytes) -> "asyncio.Future[int]":
        added: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        added.set_result(self._count)
        self._count += 1
        return added


def test_nothing_is_written_behind_a_gap(tmp_path: Path) -> None:
    file = FullFile(tmp_path / "log", "xb")
    log = files.FileLog(cast(Any, file))
    log.append(records.Create(7, "steady", 1))
    with pytest.raises(OSError, match="No space"):
        log.flush()
    log.append(records.Create(8, "steady", 1))

    with pytest.raises(OSError, match="No space"):
        log.flush()

    file.close()
    assert (tmp_path / "log").read_bytes() == b""


def test_a_run_whose_log_cannot_be_written_ends_and_says_so(tmp_path: Path) -> None:
    """Its writers went on for as long as it ran, nobody recorded what was acknowledged, and it ended well."""
    run = supervisor.WorkloadRun((), cast(Any, Folder(FullFile(tmp_path / "log", "xb"))), 100.0, 10)

    @contextlib.asynccontextmanager
    async def connect() -> AsyncIterator[Client]:
        yield cast(Client, Acknowledging())

    async def story() -> None:
        async with asyncio.timeout(5) as bound:
            with pytest.raises(OSError, match="No space"):
                await supervisor.write(run, ["steady"], connect)
        assert not bound.expired(), "it ended by itself"

    asyncio.run(story())
