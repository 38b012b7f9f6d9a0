"""docs/SIMULATION.md says of each guard of the model where its story is played, and which mutant goes red there."""

from __future__ import annotations

import re

import pytest

import mutants_support
from bookie.sim.model import guards

PAGE = mutants_support.ROOT / "docs" / "SIMULATION.md"
_ROW = re.compile(r"^\| `([a-z-]+)` \| (.+) \| (.+) \|$", re.MULTILINE)
_FILE = re.compile(r"\(\.\./(tests/[\w/]+\.py)\)")
_NAME = re.compile(r"`([a-z-]+)`")


def rows() -> dict[str, tuple[list[str], list[str]]]:
    """Guard -> the files of its story (none: nowhere), and the mutants."""
    section = PAGE.read_text(encoding="utf-8").partition("\n### The model's stories")[2].partition("\n## ")[0]
    found = {}
    for guard, where, mutant in _ROW.findall(section):
        files = _FILE.findall(where)
        found[guard] = (files, _NAME.findall(mutant) if files else [])
    return found


def test_the_page_has_every_guard_and_counts_those_whose_story_is_played() -> None:
    there = rows()

    assert list(there) == list(guards.GUARDS)
    played = sum(bool(files) for files, _ in there.values())
    assert f"Of the {len(there)} guards {played} are played so" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("guard", guards.GUARDS)
def test_the_mutant_of_a_guard_is_killed_where_its_story_is_played(guard: str) -> None:
    files, named = rows()[guard]
    known = {mutant.id: mutant for mutant in mutants_support.mutants()}

    for mutant in named:
        assert any(test.split("::")[0] in files for test in known[mutant].tests), mutant
