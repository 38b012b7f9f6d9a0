"""A process that runs out of descriptors has healthy disks: it waits, answers "not now", and loses nothing."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import descriptors_child

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("journal_data", [True, False])
def test_a_store_without_descriptors_takes_no_disk_for_failed_and_loses_nothing(
    tmp_path: Path, journal_data: bool
) -> None:
    child = subprocess.run(
        [sys.executable, descriptors_child.__file__, str(tmp_path), str(int(journal_data))],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'support'}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    found: dict[str, Any] = json.loads(child.stdout)

    count = descriptors_child.COUNT + descriptors_child.BACKLOG
    assert found["failures"] == []
    assert found["flushed"] in ("OutOfResources", "TimeoutError"), found  # else there was no shortage
    assert "short of descriptors" in child.stderr
    assert set(found["reads"]) <= {"read", "OutOfResources"}
    assert set(found["refused"]) <= {"TooManyRequests"}
    assert found["failed"] == []
    assert (found["later"], found["was_clean"]) == (True, True)
    assert found["acknowledged"] == count - bool(found["refused"]) * (count - found["acknowledged"])
    assert found["runs"][-1][1] == count
    assert sum(last - first + 1 for first, last in found["runs"]) == found["acknowledged"] + 1
