"""docs/CONFORMANCE.md and the tree: every row once, every named test there and run, and the rows of each kind."""

import re
from collections import Counter

import pytest

import conformance_page
import proofs_support
from pages_support import ROOT

PAGE = (ROOT / "docs" / "CONFORMANCE.md").read_text(encoding="utf-8")
ROWS = {"O": 35, "P": 33, "D": 24, "A": 5, "B": 51}
ROW = re.compile(r"^\| (?:<a id=\"\w+\"></a>)?([OPDAB]\d+) \| (.+) \| (.+) \|$", re.MULTILINE)
NOT_YET, OTHERWISE = "Not yet", "Otherwise"


def rows_that_say(word: str) -> list[str]:
    return [match.group(1) for match in ROW.finditer(PAGE) if word in match.group(3)]


def test_every_row_is_there_exactly_once_and_is_of_one_kind() -> None:
    found = Counter(match.group(1) for match in ROW.finditer(PAGE))
    still_open, otherwise = rows_that_say(NOT_YET), rows_that_say(OTHERWISE)

    assert not set(still_open) & set(otherwise), "a row is of one kind"
    assert found == {f"{letter}{number}": 1 for letter, count in ROWS.items() for number in range(1, count + 1)}


@pytest.mark.parametrize("row", [match.groups() for match in ROW.finditer(PAGE)], ids=lambda row: row[0])
def test_a_row_names_tests_that_run_or_says_what_is_missing_or_otherwise(row: tuple[str, str, str]) -> None:
    _, demand, proof = row
    named = proofs_support.named_in(proof)

    assert demand
    assert named or NOT_YET in proof or OTHERWISE in proof


def test_the_table_of_kinds_is_what_the_list_of_mutants_says(capsys: pytest.CaptureFixture[str]) -> None:
    counts = ", ".join(f"{len(rows)} {kind}" for kind, rows in conformance_page.kinds(PAGE).items())

    with capsys.disabled():
        print(f"\nconformance: {counts}")
    assert conformance_page.with_table(PAGE) == PAGE, "run `.venv/bin/python tools/conformance_page.py`"
