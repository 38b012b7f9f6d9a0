"""What docs/STYLE.md promises beyond imports: no `Any` among rules, no patching of our own functions."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RULES = (
    *("bookie/base", "bookie/quorum", "bookie/storage", "bookie/integrity"),
    *(f"operator/bookie_operator/{room}" for room in ("plan", "evidence", "certificates")),
)
OF_A_COROUTINE = "Coroutine[Any, Any, "  # what it yields and is sent: asyncio's business
# Tests that put something else in the place of a function of ours, and why. The list can only shrink.
PATCHED: dict[str, str] = {
    "tests/unit/cli/test_main.py": "a command that is refused, without a cluster",
    "tests/unit/operator/test_lease.py": "the wall clock of the lease, which is Kubernetes's own time",
    "tests/unit/server/test_collection.py": "a collection that fails, finds, or never ends, without a disk",
    "tests/unit/storage/collect/test_collector.py": "where the simulated store is cut: of the simulator",
}


def test_rules_and_storage_know_no_any() -> None:
    found = []
    for room in RULES:
        for path in sorted((ROOT / room).rglob("*.py")):
            text = path.read_text(encoding="utf-8").replace(OF_A_COROUTINE, "Coroutine[None, None, ")
            names = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name) and node.id == "Any"]
            found += [f"{path.relative_to(ROOT)}:{node.lineno}" for node in names]

    assert found == []


def test_no_function_of_ours_is_patched() -> None:
    patches = re.compile(r"monkeypatch\.setattr\(\s*(\"[\w.]+\"|\w+, \"\w+\"|[\w., \"]+?),")
    found = set()
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for (what,) in (match.groups() for match in patches.finditer(path.read_text(encoding="utf-8"))):
            name = re.split(r"[\".]", what.strip('"'))[-1]
            if not name.isupper() and not what.startswith("os,"):
                found.add(path.relative_to(ROOT).as_posix())

    assert sorted(found - PATCHED.keys()) == [], "give it a fake that passes the port suite"
    assert sorted(PATCHED.keys() - found) == [], "patched no more: take it off the list"
