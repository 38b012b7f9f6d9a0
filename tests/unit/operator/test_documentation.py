"""docs/OPERATOR.md names every reason and gate that the operator can write; the charts ask for no wildcard."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "operator" / "bookie_operator"
PAGE = (ROOT / "docs" / "OPERATOR.md").read_text(encoding="utf-8")

# Calls whose string argument at this place is a reason.
REASONS = {"_finding": 1, "Finding": 1, "_nothing": 0, "Truth": 2, "Obstacle": 0}


def reasons() -> Iterator[str]:
    for path in [*PACKAGE.glob("evidence/*.py"), *PACKAGE.glob("status/*.py"), *PACKAGE.glob("plan/*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
                continue
            name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            if name in REASONS and len(node.args) > REASONS[name]:
                argument = node.args[REASONS[name]]
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.value


def gates() -> set[str]:
    return set(re.findall(r'"(G\d+-\w+)"', (PACKAGE / "plan" / "gates.py").read_text(encoding="utf-8")))


def test_every_reason_is_documented() -> None:
    found = set(reasons())

    assert {"LostVolume", "EmptyVolume", "SpecInvalid", "PodMissing"} - found <= {"LostVolume"}
    assert [reason for reason in sorted(found) if not re.search(rf"\b{reason}\b", PAGE)] == []


def test_every_gate_is_documented() -> None:
    assert len(gates()) == 10
    assert [gate for gate in sorted(gates()) if gate not in PAGE] == []


@pytest.mark.parametrize("template", ["_helpers.tpl", "rbac.yaml"])
def test_the_operator_asks_for_no_wildcard_no_secret_and_no_exec(template: str) -> None:
    text = (ROOT / "charts" / "bookie-operator" / "templates" / template).read_text(encoding="utf-8")
    rules = "\n".join(
        line.split("#")[0] for line in text.splitlines() if re.match(r"\s*(- )?(apiGroups|resources|verbs)", line)
    )

    assert rules
    for word in ('"*"', "[*]", "secrets", "exec", "webhook", "delete"):
        assert word not in rules, word


def test_the_operator_may_not_write_a_spec() -> None:
    text = (ROOT / "charts" / "bookie-operator" / "templates" / "_helpers.tpl").read_text(encoding="utf-8")

    assert re.search(r"resources: \[bookieclusters\]\n\s+verbs: \[get, list, watch\]", text)
    assert re.search(r"resources: \[bookieclusters/status\]\n\s+verbs: \[patch\]", text)
