"""No import circle anywhere: not between modules as they load, nor through an import in a function or for types only.

Every import statement counts as an arrow, wherever it stands, from the module that has it to the module that it names.
(A contract cannot ask this: contracts of layers look between the rooms that they name, and hide what is inside.)
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (ROOT / "bookie", ROOT / "operator" / "bookie_operator", ROOT / "spark" / "pyspark_bookkeeper")
Arrows = dict[str, set[str]]


def modules() -> dict[str, Path]:
    """Every module by its name; a package is called as its folder is."""
    found: dict[str, Path] = {}
    for source in SOURCES:
        for path in sorted(source.rglob("*.py")):
            parts = path.relative_to(source.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(text: str, known: dict[str, Path]) -> Iterator[str]:
    """The modules among `known` that `text` names in any import statement."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            for alias in node.names:
                member = f"{node.module}.{alias.name}"
                name = member if member in known else node.module
                if name in known:
                    yield name


def circles(arrows: Arrows) -> list[list[str]]:
    """One circle of each group of modules that reach each other; none when arrows lead one way."""
    done: set[str] = set()
    found: list[list[str]] = []

    def walk(name: str, way: list[str]) -> None:
        if name in way:
            found.append([*way[way.index(name) :], name])
        elif name not in done:
            for other in sorted(arrows[name]):
                walk(other, [*way, name])
            done.add(name)

    for name in sorted(arrows):
        walk(name, [])
    return found


def test_no_import_circle_anywhere() -> None:
    known = modules()
    arrows = {name: set(imported(path.read_text(encoding="utf-8"), known)) - {name} for name, path in known.items()}

    assert sum(map(len, arrows.values())) > 1_000, "the tree was not found"
    assert not circles(arrows), "\n".join(" -> ".join(circle) for circle in circles(arrows))


def test_a_circle_is_seen_wherever_its_imports_stand() -> None:
    known = {name: Path() for name in ("a", "a.b", "a.c", "a.d")}
    texts = {
        "a": "",
        "a.b": "from a import c",
        "a.c": "def late():\n    import a.d",
        "a.d": "if TYPE_CHECKING:\n    from a.b import Thing",
    }
    arrows = {name: set(imported(text, known)) for name, text in texts.items()}

    assert circles(arrows) == [["a.b", "a.c", "a.d", "a.b"]]
    assert not circles(arrows | {"a.d": set()})
