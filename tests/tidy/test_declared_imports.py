"""What the packages import, pyproject.toml declares, for the extra that ships the importing package."""

import ast
import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OURS = {"bookie", "bookie_operator", "pyspark_bookkeeper"}
# Which extra a package's code may count on, beside the dependencies of all.
EXTRAS = {"bookie": "bookie", "operator/bookie_operator": "operator", "spark/pyspark_bookkeeper": "spark"}
GENERATED = re.compile(r"_pb2(_grpc)?\.py$")


def _name(requirement: str) -> str:
    return re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module.partition(".")[0]


@pytest.mark.parametrize("package", EXTRAS)
def test_every_import_is_declared(package: str) -> None:
    extra = PROJECT["optional-dependencies"][EXTRAS[package]]
    declared = {_name(requirement) for requirement in (*PROJECT["dependencies"], *extra)}
    distributions = importlib.metadata.packages_distributions()
    missing = []
    for path in sorted((ROOT / package).rglob("*.py")):
        for line, module in _imports(path):
            if module in OURS or module in sys.stdlib_module_names or GENERATED.search(path.name):
                continue
            names = {name.lower().replace("_", "-") for name in distributions.get(module, [f"{module}?"])}
            if not names & declared:
                missing.append(f"{path.relative_to(ROOT)}:{line} imports {module}, of {' or '.join(sorted(names))}")
    assert not missing, "declare it in pyproject.toml:\n" + "\n".join(missing)
