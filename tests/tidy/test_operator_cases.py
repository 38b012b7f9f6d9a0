"""docs/OPERATOR-CASES.md and the tree: every verdict, gate and failure case once; every named test there and run."""

import re
from collections import Counter

import pytest

import proofs_support
from pages_support import ROOT

PAGE = (ROOT / "docs" / "OPERATOR-CASES.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| ([LTF]\d+) \| (.+) \| (.+) \| (.+) \|$", re.MULTILINE)
ROWS = {"L": 16, "T": 11, "F": 43}
NOT_YET = "Not yet"


def test_every_case_is_there_exactly_once(capsys: pytest.CaptureFixture[str]) -> None:
    found = Counter(match.group(1) for match in ROW.finditer(PAGE))
    said = [match.group(3) for match in ROW.finditer(PAGE)]
    kinds = {word: sum(one.startswith(word) for one in said) for word in ("Partly", NOT_YET, "Otherwise")}

    with capsys.disabled():
        held = len(said) - sum(kinds.values())
        print(f"\noperator: of {len(said)} cases {held} are proven; " + ", ".join(f"{n} {w}" for w, n in kinds.items()))
    assert found == {f"{letter}{number}": 1 for letter, count in ROWS.items() for number in range(1, count + 1)}


@pytest.mark.parametrize("row", [match.groups() for match in ROW.finditer(PAGE)], ids=lambda row: row[0])
def test_a_case_names_tests_that_run_or_is_not_there_yet(row: tuple[str, str, str, str]) -> None:
    _, case, what, proof = row

    assert case
    assert bool(proofs_support.named_in(proof)) != what.startswith(NOT_YET)
