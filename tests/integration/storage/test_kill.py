"""kill -9 of a real process under load on a real disk: nothing that it had acknowledged is missing afterwards."""

import asyncio
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

import storage_child
from bookie.base.ids import EntryId, LedgerId
from bookie.runtime.world import open_world
from bookie.storage import restart
from wait_support import wait_until

ROOT = Path(__file__).resolve().parents[3]
ROUNDS = 3
LINES_PER_ROUND = 1500


def run_until_killed(directory: Path, log: Path, round_: int, *, journal_data: bool) -> None:
    """Start the child, let it acknowledge a while, and compact in the last round; kill it without warning."""
    before = count_lines(log)
    first_log = directory / "ledgers" / "current" / "00000000.log"
    child = subprocess.Popen(
        [sys.executable, storage_child.__file__, str(directory), str(log), str(round_), str(int(journal_data))],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'support'}", "PATH": "/usr/bin:/bin"},
        stderr=subprocess.PIPE,
    )
    try:
        wait_until(
            lambda: (
                child.poll() is not None
                or (
                    count_lines(log) - before >= LINES_PER_ROUND + 211 * round_
                    and (round_ < ROUNDS or not first_log.exists())
                )
            ),
            "acknowledged entries, and a log that was compacted away",
            timeout_s=180,
        )
        assert child.poll() is None, child.communicate()[1].decode()
    finally:
        child.kill()
        child.communicate()


def count_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


async def check(directory: Path, lines: list[list[str]], *, journal_data: bool) -> None:
    """Open what the child left and compare it with the child's own log, twice: a restart changes nothing."""
    # Without data in the journal an entry is promised only once a flush that covers it has returned.
    last_flush = {int(words[1]): number for number, words in enumerate(lines) if words[0] == "flushed"}
    for _ in range(2):
        async with open_world() as world:
            options = storage_child.options_in(str(directory), journal_data=journal_data)
            store = await restart.open_store(options, world, fail=lambda error: pytest.fail(str(error)))
            checked = 0
            for number, words in enumerate(lines):
                match words:
                    case ["entry", ledger, entry, crc] if journal_data or number < last_flush.get(
                        int(ledger) // 100, -1
                    ):
                        body = await store.read(LedgerId(int(ledger)), EntryId(int(entry)))
                        assert zlib.crc32(body) == int(crc), words
                        checked += 1
                    case ["fence", ledger]:
                        facts = store.facts(LedgerId(int(ledger)))
                        assert facts is not None, words
                        assert facts.is_fenced, words
            assert checked > 500
            assert await store.close()


@pytest.mark.slow
@pytest.mark.parametrize("journal_data", [True, False], ids=["journaled", "unjournaled"])
def test_nothing_acknowledged_is_missing_after_kills_under_load(tmp_path: Path, journal_data: bool) -> None:
    log = tmp_path / "acknowledged"
    for round_ in range(1, ROUNDS + 1):
        run_until_killed(tmp_path / "data", log, round_, journal_data=journal_data)
        lines = [line.split() for line in log.read_text().splitlines()]
        asyncio.run(check(tmp_path / "data", lines, journal_data=journal_data))
