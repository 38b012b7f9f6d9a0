"""A command whose standard streams are full, closed or left says so, and its work stays done."""

import os
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

from bookie.cli import main

COMMANDS = {
    "bookie": [sys.executable, "-m", "bookie"],
    "bookie-operator": [sys.executable, "-m", "bookie_operator"],
}


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("bookie", ["settings", "show", "--json"]),
        ("bookie", ["--help"]),
        ("bookie-operator", ["crds"]),
    ],
)
def test_a_full_disk_under_standard_output_is_one_line_and_code_1(program: str, words: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*COMMANDS[program], *words], stdout=full, stderr=PIPE, timeout=120, check=False)

    told = done.stderr.decode()
    assert done.returncode == main.FAILED, told
    assert told.startswith(f"{program}: standard output takes no more: No space left on device\n"), told
    assert "Traceback" not in told
    assert "Exception ignored" not in told


def test_what_a_full_disk_did_not_take_is_told_on_stderr() -> None:
    """The id of a ledger that was made stands nowhere else."""
    script = "from bookie.runtime import streams\nwith streams.guarded('bookie'):\n    print(4711)"
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([sys.executable, "-c", script], stdout=full, stderr=PIPE, timeout=120, check=False)

    assert done.stderr.decode().endswith("bookie: it did not take:\n4711\n"), done
    assert done.returncode == main.FAILED


def test_a_reader_that_went_away_ends_a_command_without_a_word() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*COMMANDS["bookie"], "--help"], stdout=writer, stderr=PIPE, timeout=120, check=False)
    os.close(writer)

    assert (done.returncode, done.stderr) == (main.FAILED, b"")


def test_a_full_disk_under_standard_error_changes_nothing() -> None:
    with Path("/dev/full").open("wb") as full:
        words = [*COMMANDS["bookie"], "ledger", "show", "no-number"]
        done = subprocess.run(words, stdout=PIPE, stderr=full, timeout=120, check=False)

    assert done.returncode == main.USAGE, done
