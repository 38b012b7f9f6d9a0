"""tests/mutants/list and the tree: what a mutant replaces stands there once, and its tests are there."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import proofs_support
from mutants_support import ROOT, Mutant, mutants
from pages_support import ROOT as PAGES

RULES = "\n".join(
    path.read_text(encoding="utf-8")
    for path in [PAGES / "docs" / "CONFORMANCE.md", *(PAGES / "docs/spec").glob("*.md")]
)


def test_every_mutant_has_its_own_name_and_makes_its_own_change() -> None:
    names = Counter(mutant.id for mutant in mutants())
    changes = Counter((mutant.file, mutant.old, mutant.new) for mutant in mutants())

    assert [name for name, count in names.items() if count > 1] == []
    assert [change[0] for change, count in changes.items() if count > 1] == []
    assert [mutant.id for mutant in mutants() if mutant.old == mutant.new] == []


def test_no_mutant_has_a_name_that_is_not_there(tmp_path: Path) -> None:
    """It would die of that, whatever its tests look at."""
    for mutant in mutants():
        path = tmp_path / mutant.id / mutant.file
        path.parent.mkdir(parents=True)
        path.write_text(mutant.apply((ROOT / mutant.file).read_text(encoding="utf-8")), encoding="utf-8")

    words = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--select", "F821,F823"]
    found = subprocess.run([*words, "--output-format", "concise", tmp_path], capture_output=True, text=True)

    assert found.stdout.strip() == "All checks passed!", found.stdout + found.stderr


@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.id)
def test_a_mutant_applies_and_names_tests_that_are_there(mutant: Mutant) -> None:
    mutated = mutant.apply((ROOT / mutant.file).read_text(encoding="utf-8"))
    named = [proofs_support.named_in(f"`{test}`") for test in mutant.tests]

    if mutant.file.endswith(".py"):
        compile(mutated, mutant.file, "exec")
    assert bool(named) is not bool(mutant.equal), "a mutant has tests that must go red, or the reason why none can"
    assert mutant.what
    for rule in mutant.rules:
        assert f'<a id="{rule}"></a>' in RULES, f"{mutant.id}: no page has the rule {rule}"
