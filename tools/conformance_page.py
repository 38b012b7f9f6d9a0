"""Writes into docs/CONFORMANCE.md which rows are proven by a mutant that a named test kills (`make mutants`).

python tools/conformance_page.py
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

import mutants_support  # noqa: E402

PAGE = ROOT / "docs" / "CONFORMANCE.md"
ROW = re.compile(r"^\| (?:<a id=\"\w+\"></a>)?([OPDAB]\d+) \| (.+) \| (.+) \|$", re.MULTILINE)
TEST = re.compile(r"`(tests/[a-z_0-9/]+\.py::test_[a-z_0-9]+)`")
BEGIN, END = "<!-- begin: kinds, written by tools/conformance_page.py -->\n", "\n<!-- end: kinds -->"


def kinds(text: str) -> dict[str, list[str]]:
    """Return the rows of the page `text` by kind: "proven" (a named test kills a mutant of the row), "otherwise" (the
    row says what is done instead, and why), "open" (no mutant that a named test kills, or something is missing)."""
    killers: dict[str, set[str]] = {}
    for mutant in mutants_support.mutants():
        for rule in mutant.rules:
            killers.setdefault(rule, set()).update(mutant.tests)
    found: dict[str, list[str]] = {"proven": [], "otherwise": [], "open": []}
    for row, _, proof in ROW.findall(text):
        if "Otherwise" in proof:
            kind = "otherwise"
        elif "Not yet" not in proof and killers.get(row, set()) & set(TEST.findall(proof)):
            kind = "proven"
        else:
            kind = "open"
        found[kind].append(row)
    return found


def table(text: str) -> str:
    """Return the rows of each kind as a table."""
    lines = ["| kind | rows | which |", "|---|---|---|"]
    for kind, rows in kinds(text).items():
        lines.append(f"| {kind} | {len(rows)} | {' '.join(rows)} |")
    return "\n".join(lines)


def with_table(text: str) -> str:
    """Return the page `text` with its table made anew. Raises ValueError when a mark is missing."""
    return text[: text.index(BEGIN) + len(BEGIN)] + table(text) + text[text.index(END) :]


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
