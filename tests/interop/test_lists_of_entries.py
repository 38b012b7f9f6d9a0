"""Lists of entries in which repeated runs are one group, as our bookies write them, read by the official decoder."""

import random
import subprocess
from pathlib import Path

import pytest

import java_support
import wire_support

pytestmark = [pytest.mark.java, pytest.mark.slow]


def runs_of(entries: set[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for entry in sorted(entries):
        if runs and runs[-1][1] + 1 == entry:
            runs[-1] = (runs[-1][0], entry)
        else:
            runs.append((entry, entry))
    return runs


def test_the_official_decoder_finds_the_entries_that_we_wrote(folder: Path) -> None:
    drawn = random.Random("lists")
    striped = [{entry for entry in range(900) if (index - entry) % 5 < 3} for index in range(5)]
    damaged = [one - set(drawn.sample(sorted(one), 7)) for one in striped]
    arbitrary = [set(drawn.sample(range(300), count)) for count in (0, 1, 40, 150, 299)]
    sets = [*striped, *damaged, *arbitrary]
    lists = [wire_support.encode_runs(runs_of(one)).hex() for one in sets]

    argv = ["java", *java_support.SMALL_JVM, "-cp", java_support.class_path(), "Availability", *lists]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()
    assert told == [f"{len(one)}:{','.join(map(str, sorted(one)))}" for one in sets]
