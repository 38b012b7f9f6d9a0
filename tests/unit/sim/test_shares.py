"""Each commit runs a share of the lives of a fleet, fewer of the slow ones: none is left out for ever, and no other
test is. `make check` runs a share of all, and all that stands beside a change."""

import os
import subprocess
import sys
from pathlib import Path

import changes_support
import seeds_support

ROOT = Path(__file__).parents[3]
# With slow tests; and without.
FILES = (
    "tests/simulation/operator/test_fencing.py",
    "tests/simulation/test_expiry.py",
    "tests/unit/base/test_errors.py",
)


def test_a_share_is_one_in_so_many_and_each_name_has_its_turn() -> None:
    names = [f"tests/simulation/operator/test_a.py::test[{number}]" for number in range(400)]
    seeds = [1000 * number for number in range(200)]  # as those of commits are

    drawn = {seed: {name for name in names if seeds_support.is_drawn(name, 4, seed)} for seed in seeds}

    assert all(60 <= len(one) <= 140 for one in drawn.values())
    assert all(20 <= sum(name in one for one in drawn.values()) <= 80 for name in names)


def collected(*options: str) -> set[str]:
    """Return the tests that a run with these options has."""
    words = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *options, *FILES]
    plain = os.environ | {"SIM_SEED": "7", "PYTEST_ADDOPTS": ""}  # whoever runs us wordily reads other lines
    done = subprocess.run(words, cwd=ROOT, env=plain, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return {line for line in done.stdout.splitlines() if "::" in line}


def test_only_slow_simulations_are_drawn() -> None:
    every, drawn = collected(), collected("--slow-share=1000000")
    slow = collected("-m", "slow")

    assert slow
    assert drawn == every - slow


def test_of_the_quick_ones_only_lives_under_the_operator_are_drawn() -> None:
    every, drawn = collected(), collected("--lives-share=1000000")
    lives = {one for one in every if one.startswith("tests/simulation/operator/")} - collected("-m", "slow")

    assert lives
    assert drawn == every - lives


def test_a_check_has_all_tidy_tests_and_else_what_was_drawn_or_stands_beside_a_change() -> None:
    tidy = ("tests/tidy/test_names.py",)
    every, drawn = collected(*tidy), collected("--share=1000000", *tidy)
    always = tuple(changes_support.nearest())  # of whoever runs this, who may be in the middle of a change

    assert drawn == {one for one in every if one.startswith((*tidy, *always))}


def test_all_tests_beside_a_change_are_run() -> None:
    assert changes_support.beside("bookie/storage/entrylog/logs.py") == "tests/unit/storage/entrylog/"
    assert changes_support.beside("operator/bookie_operator/plan/gates.py") == "tests/unit/operator/plan/"
    assert changes_support.beside("operator/bookie_operator/watch.py") == "tests/unit/operator/"
    assert changes_support.beside("spark/pyspark_bookkeeper/audit/job.py") == "tests/unit/spark/audit/"
    assert changes_support.beside("tests/simulation/test_swarm.py") == "tests/simulation/test_swarm.py"
