"""docs/CONFORMANCE.md and the tree: every row once, every named test there and run, and the rows of each kind."""

import ast
import functools
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "CONFORMANCE.md").read_text(encoding="utf-8")
ROWS = {"O": 35, "P": 33, "D": 24, "A": 5, "B": 51}
ROW = re.compile(r"^\| (?:<a id=\"\w+\"></a>)?([OPDAB]\d+) \| (.+) \| (.+) \|$", re.MULTILINE)
TEST = re.compile(r"`(tests/[a-z_0-9/]+\.py)::(test_[a-z_0-9]+)`")
NOT_YET, OTHERWISE = "Not yet", "Otherwise"


@functools.cache
def named_tests(path: str) -> dict[str, bool]:
    """The tests of a file, each with whether it runs: not if it is marked to be skipped or to fail."""
    found: dict[str, bool] = {}
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            marks = " ".join(ast.unparse(decorator) for decorator in node.decorator_list)
            found[node.name] = not re.search(r"\bmark\.(skip|xfail)", marks)
    return found


def rows_that_say(word: str) -> list[str]:
    return [match.group(1) for match in ROW.finditer(PAGE) if word in match.group(3)]


def test_every_row_is_there_exactly_once_and_is_of_one_kind(capsys: pytest.CaptureFixture[str]) -> None:
    found = Counter(match.group(1) for match in ROW.finditer(PAGE))
    still_open, otherwise = rows_that_say(NOT_YET), rows_that_say(OTHERWISE)

    with capsys.disabled():
        proven = found.total() - len(still_open) - len(otherwise)
        kinds = f"otherwise: {' '.join(otherwise) or 'none'}; open: {' '.join(still_open) or 'none'}"
        print(f"\nconformance: {proven} rows proven; {kinds}")
    assert not set(still_open) & set(otherwise), "a row is of one kind"
    assert found == {f"{letter}{number}": 1 for letter, count in ROWS.items() for number in range(1, count + 1)}


@pytest.mark.parametrize("row", [match.groups() for match in ROW.finditer(PAGE)], ids=lambda row: row[0])
def test_a_row_names_tests_that_run_or_says_what_is_missing_or_otherwise(row: tuple[str, str, str]) -> None:
    _, demand, proof = row
    named = TEST.findall(proof)

    assert demand
    assert named or NOT_YET in proof or OTHERWISE in proof
    assert proof.count("::") == len(named), "a test is named as `tests/path.py::test_name`"
    for path, name in named:
        assert (ROOT / path).exists(), path
        assert named_tests(path).get(name), f"{path} has no {name} that runs"
