"""Calls that stand in the operator's source are covered by its rules; what a story cannot reach is seen here.

The other direction, and the calls that name no kind: tests/simulation/operator/test_rights.py.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from bookie_operator import watch
from bookie_operator.gateways.kube import RESOURCES
from bookie_operator.model import names
from rights_support import VERBS, Right, declared, resource

PACKAGE = Path(__file__).resolve().parents[3] / "operator" / "bookie_operator"


def written() -> Iterator[Right]:
    """(verb, resource) of each call `kube.VERB("Kind", ...)` in the source."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
                continue
            kind = node.args[0]
            word = kind.value if isinstance(kind, ast.Constant) else ast.unparse(kind)
            word = names.KIND if word == "names.KIND" else word
            if node.func.attr in VERBS and word in RESOURCES:
                yield VERBS[node.func.attr], resource(str(word))


def watched() -> set[Right]:
    """What kopf asks for: it lists and watches, and reads no object alone."""
    kinds = [f"{group}/{plural}" for group, _, plural in watch.CHILDREN] + [
        resource(kind) for kind in (names.KIND, names.OPERATION_KIND)
    ]
    return {(verb, kind) for kind in kinds for verb in ("list", "watch")}


def test_every_call_that_names_its_kind_and_every_watch_is_allowed() -> None:
    bare = {(verb, one.partition(":")[0]) for verb, one in declared()}
    calls = set(written())

    assert len(calls) >= 10, calls
    assert calls | watched() <= bare, "add to charts/bookie-operator/templates/_helpers.tpl, with the reason"


def test_who_is_watched_is_all_that_may_be_watched() -> None:
    assert {right for right in declared() if right[0] == "watch"} == {one for one in watched() if one[0] == "watch"}


def test_every_rule_says_why() -> None:
    assert [right for right, why in declared().items() if not why] == []
