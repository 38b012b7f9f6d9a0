"""Every test that a page names as a proof is there."""

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"tests/[\w/]+\.py(?:::\w+)?")


@functools.cache
def names_in(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize(
    "page", ["CHANGELOG.md", "docs/THREATS.md", "docs/INTEGRITY.md", "docs/RECOVERY.md", "docs/SECURITY.md"]
)
def test_every_test_that_a_page_names_is_there(page: str) -> None:
    missing = []
    for named in dict.fromkeys(NAMED.findall((ROOT / page).read_text(encoding="utf-8"))):
        path, _, name = named.partition("::")
        if not (ROOT / path).exists() or (name and name not in names_in(ROOT / path)):
            missing.append(named)

    assert not missing, f"{page} names tests that are not there: {missing}"
