"""An index whose blocks rotted. The bookie does not start, says what to do, and who does exactly that has it back with
all it had: the volume counts as lost."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import local_support
from bookie import blocking
from local_support import LocalFleet

pytestmark = pytest.mark.slow

ENTRIES = [b"entry %d " % number + b"-" * 100 for number in range(500)]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    folder = tmp_path_factory.mktemp("fleet")
    with local_support.fleet(folder / "data", folder / "fleet.log", bookies=3) as running:
        yield running


def rot(index: Path) -> None:
    """Flip a bit in every few KiB of what RocksDB keeps its rows in."""
    tables = sorted(index.glob("current/index/*.sst"))
    assert tables
    for table in tables:
        data = bytearray(table.read_bytes())
        for offset in range(len(data) // 16, len(data) * 3 // 4, 2_048):
            data[offset] ^= 4
        table.write_bytes(data)


def run(fleet: LocalFleet, *words: str) -> subprocess.CompletedProcess[bytes]:
    command = [*local_support.BOOKIE, *words, "--admin", fleet.bookies[0].admin]
    return subprocess.run(command, capture_output=True, timeout=120, check=False)


def test_a_bookie_whose_index_rotted_is_back_when_its_volume_was_emptied_as_the_log_says(
    fleet: LocalFleet, tmp_path: Path
) -> None:
    bookie = fleet.bookies[0]
    with blocking.connect(fleet.uri) as client:
        ledgers = []
        for _ in range(3):
            with client.create(ensemble_size=3, write_quorum=3, ack_quorum=3) as writer:
                for entry in ENTRIES:
                    writer.append(entry)
                ledgers.append(writer.id)
    local_support.stop(bookie)
    rot(bookie.index)

    done = subprocess.run(
        [*local_support.BOOKIE, "serve", "--config", bookie.facts["config"]],
        capture_output=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 1, done
    told = done.stderr.decode().strip().splitlines()[-1]
    found = re.search(r"^bookie: (\S+)/current/index: .*Corruption.*; treat this volume as lost: move all", told)
    assert found is not None, told
    assert Path(found[1]) == bookie.index
    kept = tmp_path / "kept"
    kept.mkdir()
    for each in bookie.index.iterdir():
        each.rename(kept / each.name)

    with local_support.again(bookie, until="boot waits for a person verdict=LOST"):
        report = json.loads(run(fleet, "integrity", "report", "--json").stdout)
        assert report["verdict"] == "LOST", report
        granted = run(fleet, "integrity", "grant", "--yes", "--wait")
        assert granted.returncode == 0, granted
        for ledger_id in ledgers:
            words = ["ledger", "read", str(ledger_id), "--bookie", bookie.bookie_id]
            command = [*local_support.BOOKIE, *words, "--metadata-service-uri", fleet.uri]
            read = subprocess.run(command, capture_output=True, timeout=120, check=True)
            assert read.stdout.splitlines() == ENTRIES
