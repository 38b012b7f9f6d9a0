"""docs/PROTOCOL.md leads from each rule to its code in one step: every file and every name in its table exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "PROTOCOL.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.split("## Frames")[0].splitlines() if re.match(r"\| (?!rule )", line)]
PLACE = re.compile(r"`([a-z_/0-9]+(?:\.py|\.proto|/))(?:: ([A-Za-z_.…]+))?`((?:, `[A-Za-z_.]+`(?!:))*)")


def names_in(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
            for inner in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    found.add(f"{node.name}.{inner.name}")
    return found


def test_the_table_has_a_row_for_each_rule() -> None:
    rules = [row.split("|")[1].strip() for row in ROWS]

    of_bookies = {f"W{number}" for number in (26, 27, 29, 31, 33, 34, 35, 36, 37)}
    assert of_bookies <= {match.group(1) for rule in rules if (match := re.match(r"\[(W\d+)\]", rule))}
    assert {"information on a bookie", "anything else"} <= set(rules)
    assert len(rules) > 25


@pytest.mark.parametrize("row", ROWS)
def test_every_place_in_the_table_exists(row: str) -> None:
    _, _, code, tests, _ = row.split("|")
    for cell, folder in ((code, "bookie"), (tests, "tests")):
        places = PLACE.findall(cell)
        assert places or "RECOVERY.md" in cell, cell
        for path, name, more in places:
            if cell is tests and "/" not in path:
                continue  # beside the one before it
            found = ROOT / folder / path
            assert found.exists(), found
            for wanted in [name, *re.findall(r"`([A-Za-z_.]+)`", more)]:
                if wanted and found.suffix == ".py" and not wanted.endswith(".py"):
                    known = names_in(found)
                    is_there = wanted in known or any(
                        one.startswith(wanted.rstrip("…")) for one in known if "…" in wanted
                    )
                    assert is_there, f"{found} has no {wanted}"
