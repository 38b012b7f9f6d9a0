"""Disks copied from a living bookie, which goes on acknowledging; then a process on the copy takes over its identity.

What the first one acknowledged after the copy, its successor cannot have. It must know that, by the position that the
first one told the metadata store, and never deny such an entry (INTEGRITY.md, volumes set back within one boot).
"""

import contextlib
import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import hostile_support
import local_support
import port_support
import wait_support
from bookie import blocking
from bookie.base.errors import Status
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.blocking import BlockingClient
from bookie.client import Client
from bookie.metadata import paths
from bookie.metadata.position import load_position
from bookie.ports.metadata_store import Stored, find
from bookie.wire.messages import ReadRequest
from local_support import LocalBookie, LocalFleet

pytestmark = pytest.mark.slow

ENTRY = bytes(100_000)
ROLLS_AFTER = 12  # entries: more than a journal file takes
UNKNOWN = Status.EUNKNOWNLEDGERSTATE


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[LocalFleet]:
    with local_support.fleet(tmp_path / "data", tmp_path / "fleet.log", bookies=1) as running:
        yield running


@contextlib.contextmanager
def first(bookie: LocalBookie) -> Iterator[int]:
    """The bookie, whose journal files are small, in a process that nobody else starts or ends; its id."""
    local_support.stop(bookie)
    with Path(bookie.facts["config"]).open("a", encoding="utf-8") as config:
        config.write("journalMaxSizeMB=1\n")
    with local_support.again(bookie) as process:
        try:
            yield process.pid
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)


def journal_told(client: BlockingClient, bookie: LocalBookie) -> int:
    """The newest journal file that the metadata store knows of; -1 before any."""

    async def look(client: Client) -> Stored | None:
        ledgers = client.shared.ledgers
        return await find(ledgers.store, paths.position(ledgers.root, BookieId(bookie.bookie_id)))

    stored = client.run(look)
    return -1 if stored is None else load_position(stored.data).journals[0][0]


def moved_away(bookie: LocalBookie) -> int:
    """Have the successor listen elsewhere, as on another machine: the first one, if it lives, has its ports. Return the
    port of the successor's data."""
    config, port = Path(bookie.facts["config"]), port_support.free_block(3)
    text = config.read_text(encoding="utf-8")
    for number, name in enumerate(("bookiePort", "adminPort", "metricsPort")):
        text = re.sub(rf"^{name}=.*$", f"{name}={port + number}", text, flags=re.MULTILINE)
    config.write_text(text, encoding="utf-8")
    return port


def answer(port: int, ledger: int, entry: int) -> Status:
    return hostile_support.ask(port, ReadRequest(1, 3, LedgerId(ledger), EntryId(entry))).status


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
def test_a_process_on_a_copy_denies_nothing_that_was_acknowledged_after_the_copy(
    fleet: LocalFleet, tmp_path: Path, end: signal.Signals
) -> None:
    (bookie,) = fleet.bookies
    home, copy = bookie.journal.parent, tmp_path / "copy"

    with first(bookie) as pid, blocking.connect(fleet.uri) as client:
        writers = [client.create(ensemble_size=1, write_quorum=1, ack_quorum=1)]
        before = {(writers[0].id, writers[0].append(ENTRY)) for _ in range(3)}
        in_copy = max(int(each.stem, 16) for each in (bookie.journal / "current").glob("*.journal"))
        shutil.copytree(home, copy)
        writers.append(client.create(ensemble_size=1, write_quorum=1, ack_quorum=1))
        after = {(writer.id, writer.append(ENTRY)) for _ in range(ROLLS_AFTER) for writer in writers}
        wait_support.wait_until(lambda: journal_told(client, bookie) > in_copy, "the next position", timeout_s=60)
        os.kill(pid, end)
        home.rename(tmp_path / "away")
        copy.rename(home)
        port = moved_away(bookie)
        with local_support.again(bookie):
            said = {one: answer(port, *one) for one in (*before, *after)}

    assert {said[one] for one in before} <= {Status.EOK, UNKNOWN}
    assert {said[one] for one in after} == {UNKNOWN}
