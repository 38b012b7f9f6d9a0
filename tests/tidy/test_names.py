"""One word, one thing; and who calls itself pure is held to it (docs/STYLE.md, "Names"; docs/ARCHITECTURE.md)."""

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Public class names that stand in two places, and why. The list can only shrink: a name that is single again leaves it.
TWICE: dict[str, str] = {}


def product() -> Iterator[tuple[Path, ast.Module]]:
    for package in ("bookie", "operator/bookie_operator", "spark/pyspark_bookkeeper"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if not path.name.endswith(("_pb2.py", "_pb2_grpc.py")):
                yield path.relative_to(ROOT), ast.parse(path.read_text(encoding="utf-8"))


def test_a_public_class_name_stands_in_one_place() -> None:
    places = defaultdict(list)
    for path, tree in product():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{path}:{node.lineno}")

    twice = {name: where for name, where in places.items() if len(where) > 1}

    assert {name: where for name, where in twice.items() if name not in TWICE} == {}, "give the newer one its own noun"
    assert sorted(TWICE.keys() - twice.keys()) == [], "single again: take them off the list"


def test_whoever_says_pure_is_held_to_it_by_contract_6() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (pure,) = (contract["source_modules"] for contract in contracts if contract["name"].startswith("6. "))

    loose = []
    for path, tree in product():
        module = path.with_suffix("").as_posix().removesuffix("/__init__").replace("/", ".")
        module = module.removeprefix("operator.").removeprefix("spark.")
        says_so = re.search(r"\b[Pp]ure\b(?! but for|\))", ast.get_docstring(tree) or "")
        if says_so and not any(f"{module}.".startswith(f"{covered}.") for covered in pure):
            loose.append(module)

    assert loose == []
