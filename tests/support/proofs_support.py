"""The tests that a page names as proofs, as the tree has them."""

import ast
import functools
import re

from pages_support import ROOT

TEST = re.compile(r"`(tests/[a-z_0-9/]+\.py)::(test_[a-z_0-9]+)`")


@functools.cache
def named_tests(path: str) -> dict[str, bool]:
    """The tests of a file, each with whether it runs: not if it is marked to be skipped or to fail."""
    found: dict[str, bool] = {}
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            marks = " ".join(ast.unparse(decorator) for decorator in node.decorator_list)
            found[node.name] = not re.search(r"\bmark\.(skip|xfail)", marks)
    return found


def named_in(proof: str) -> list[tuple[str, str]]:
    """The (path, name) of every test in `proof`; fails when one is not there, does not run, or is named otherwise."""
    named: list[tuple[str, str]] = TEST.findall(proof)
    assert proof.count("::") == len(named), "a test is named as `tests/path.py::test_name`"
    for path, name in named:
        assert (ROOT / path).exists(), path
        assert named_tests(path).get(name), f"{path} has no {name} that runs"
    return named
