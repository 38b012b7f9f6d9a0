"""docs/OPERATOR.md names every reason and gate that the operator can write; the charts ask for no wildcard."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bookie.ports.admin import HELD
from bookie.settings import values
from bookie_operator.evidence import reasons as table
from bookie_operator.model import names

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "operator" / "bookie_operator"
PAGE = (ROOT / "docs" / "OPERATOR.md").read_text(encoding="utf-8")

# Calls whose string argument at this place is a reason.
REASONS = {"_finding": 0, "finding": 0, "_nothing": 0, "Truth": 2, "Obstacle": 0}


def reasons() -> Iterator[str]:
    for path in [*PACKAGE.glob("evidence/*.py"), *PACKAGE.glob("status/*.py"), *PACKAGE.glob("plan/*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
                continue
            name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            if name in REASONS and len(node.args) > REASONS[name]:
                argument = node.args[REASONS[name]]
                choices = [argument.body, argument.orelse] if isinstance(argument, ast.IfExp) else [argument]
                yield from (
                    one.value for one in choices if isinstance(one, ast.Constant) and isinstance(one.value, str)
                )


def gates() -> set[str]:
    return set(re.findall(r'"(G\d+-\w+)"', (PACKAGE / "plan" / "gates.py").read_text(encoding="utf-8")))


def test_every_reason_is_documented() -> None:
    found = set(reasons())

    assert {"LostVolume", "EmptyVolume", "SpecInvalid", "PodMissing"} - found <= {"LostVolume"}
    assert [reason for reason in sorted(found) if not re.search(rf"\b{reason}\b", PAGE)] == []


def test_the_page_has_the_table_of_reasons_and_every_row_is_given_by_a_rule() -> None:
    assert f"\n{table.page()}\n" in PAGE, "run `make crds`"
    by_verdicts = {hold.reason for hold in HELD.values()}
    assert {word for word in table.TABLE if word not in by_verdicts} - set(reasons()) == set()


def test_a_setting_that_the_page_takes_as_an_example_means_something() -> None:
    named = set(re.findall(r"spec\.config\.(\w+)", PAGE))

    assert named
    assert named <= set(values.BY_NAME)


def test_every_gate_is_documented() -> None:
    assert len(gates()) == 11
    assert [gate for gate in sorted(gates()) if gate not in PAGE] == []


@pytest.mark.parametrize("template", ["_helpers.tpl", "rbac.yaml"])
def test_the_operator_asks_for_no_wildcard_and_no_exec_and_for_secrets_by_their_names(template: str) -> None:
    text = (ROOT / "charts" / "bookie-operator" / "templates" / template).read_text(encoding="utf-8")
    rules = "\n".join(
        line.split("#")[0] for line in text.splitlines() if re.match(r"\s*(- )?(apiGroups|resource|verbs)", line)
    )

    assert rules
    for word in ('"*"', "[*]", "exec", "webhook"):
        assert word not in rules, word
    published = f"{names.ADMIN_CERTIFICATES}, {names.DATA_CERTIFICATES}"
    named = {"_helpers.tpl": published, "rbac.yaml": names.ADMIN_AUTHORITIES}[template]
    # `create` by name too: server-side apply is authorized so, and a plain create is then refused.
    once = re.findall(r"resources: \[secrets\]\s+resourceNames: \[(.*)\]\n\s+verbs: \[(.*)\]", rules)
    assert once == [(named, "get, create, patch")]
    assert rules.count("secrets") == 1


def test_the_operator_may_take_away_nothing_that_holds_data() -> None:
    text = (ROOT / "charts" / "bookie-operator" / "templates" / "_helpers.tpl").read_text(encoding="utf-8")
    grants = re.findall(r"resources: \[([^]]*)\].*\n\s+verbs: \[([^]]*)\]", text)

    deletable = {name for names, verbs in grants if "delete" in verbs for name in names.split(", ")}

    assert len(grants) > 8
    # A pod: the roll-out ends one at a time, and its StatefulSet makes it anew. A StatefulSet: its pods stay, and the
    # next one adopts them (tests/simulation/operator/test_growth.py).
    # A claim: of a local disk whose node is gone (tests/simulation/operator/test_lost_node.py), and of a bookie that
    # left by proof or never held data (test_leaving.py). With its cluster a claim goes by Kubernetes' own garbage
    # collection, when that was said twice (test_deletion.py). A Deployment: of auto-recovery, which keeps nothing.
    assert deletable == {
        "configmaps",
        "deployments",
        "jobs",
        "persistentvolumeclaims",
        "poddisruptionbudgets",
        "pods",
        "statefulsets",
    }


def test_the_operator_may_not_write_a_spec() -> None:
    text = (ROOT / "charts" / "bookie-operator" / "templates" / "_helpers.tpl").read_text(encoding="utf-8")

    assert re.search(r"resources: \[bookieclusters\].*\n\s+verbs: \[get, list, watch\]", text)
    assert re.search(r"resources: \[bookieclusters/status\].*\n\s+verbs: \[patch\]", text)
    assert re.search(r"resources: \[bookieoperations\][^\n]*\n\s+verbs: \[list, watch\]", text)
    assert re.search(r"resources: \[bookieoperations/status\].*\n\s+verbs: \[patch\]", text)


def test_with_namespaces_named_the_chart_makes_roles_only() -> None:
    """By the text: what makes a ClusterRole stands under a condition that `watch.namespaces` closes."""
    templates = ROOT / "charts" / "bookie-operator" / "templates"
    text = (templates / "rbac.yaml").read_text(encoding="utf-8")
    helpers = (templates / "_helpers.tpl").read_text(encoding="utf-8")
    values = (ROOT / "charts" / "bookie-operator" / "values.yaml").read_text(encoding="utf-8")

    conditions: list[str] = []
    open_for: list[list[str]] = []
    for line in text.splitlines():
        if match := re.search(r"\{\{-? (if|range|with|else|end)\b(.*?)-?\}\}", line):
            word, rest = match.groups()
            if word == "end":
                conditions.pop()
            elif word == "else":
                conditions[-1] = f"not {conditions[-1]}"
            else:
                conditions.append(rest.strip())
        if line.startswith("kind: ClusterRole"):
            open_for.append(list(conditions))

    assert len(open_for) == 6
    for one in open_for:
        assert one in (
            ["not .Values.watch.namespaces"],
            ['include "bookie-operator.readsVolumes" .'],
            ['include "bookie-operator.readsNodes" .'],
        )
    assert values.count("read: null") == 2
    assert "else if not $values.watch.namespaces" in helpers
