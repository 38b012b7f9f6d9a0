"""docs/OPERATOR-ROWS.md and the tree: every row once, every named test there and run, and the rows of each kind."""

import re
from collections import Counter

import pytest

import proofs_support
from pages_support import ROOT

PAGE = (ROOT / "docs" / "OPERATOR-ROWS.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (R\d+) \| (.+) \| (.+) \|$", re.MULTILINE)
ROWS = 90
PARTLY, NOT_YET = "Partly: ", "Not yet"


def kind(proof: str) -> str:
    if proof.startswith(NOT_YET):
        return "not yet"
    return "partly" if proof.startswith(PARTLY) else "holds"


def test_every_row_is_there_exactly_once(capsys: pytest.CaptureFixture[str]) -> None:
    found = Counter(match.group(1) for match in ROW.finditer(PAGE))
    kinds = Counter(kind(match.group(3)) for match in ROW.finditer(PAGE))

    with capsys.disabled():
        print(f"\noperator: of {ROWS} rows {kinds['holds']} hold, {kinds['partly']} partly, {kinds['not yet']} not yet")
    assert found == {f"R{number}": 1 for number in range(1, ROWS + 1)}


@pytest.mark.parametrize("row", [match.groups() for match in ROW.finditer(PAGE)], ids=lambda row: row[0])
def test_a_row_names_tests_that_run_or_says_what_is_missing(row: tuple[str, str, str]) -> None:
    _, what, proof = row
    named = proofs_support.named_in(proof)

    assert what
    assert bool(named) == (kind(proof) != "not yet")
    assert not re.search(r"\bnot\b", proof) or kind(proof) != "holds", "what is missing makes a row Partly"
