"""ARCHITECTURE.md and HACKING.md lead somewhere: the files that they name are there, and so are the names in them."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("docs/ARCHITECTURE.md", "docs/HACKING.md")
# A path, and perhaps a name in it: `bookie/storage/store.py: fence`. NAME in capitals stands for any.
NAMED = re.compile(r"`((?:[\w.-]+/)*[\w-]+\.(?:py|proto|md|toml|yaml)|(?:[\w.-]+/)+)(?:: (\w+))?`")
PACKAGES = (
    "",
    "bookie/",
    "operator/bookie_operator/",
    "spark/pyspark_bookkeeper/",
    "tests/",
    "docs/",
    "bookie/storage/",
)


def places() -> list[tuple[str, str, str, str]]:
    """(page, path, name in it, folder of the path before it in the same paragraph)."""
    found = []
    for page in PAGES:
        for paragraph in re.split(r"\n\n|\n\|", (ROOT / page).read_text(encoding="utf-8")):
            folder = ""
            for path, name in NAMED.findall(paragraph):
                found.append((page, path, name, folder))
                if "/" in path and (exact := resolved(path, folder)) is not None:
                    folder = f"{(exact if exact.is_dir() else exact.parent).relative_to(ROOT).as_posix()}/"
    return found


def resolved(path: str, folder: str) -> Path | None:
    return next((ROOT / base / path for base in (folder, *PACKAGES) if (ROOT / base / path).exists()), None)


@pytest.mark.parametrize(("page", "path", "name", "folder"), places())
def test_a_place_on_the_map_is_there(page: str, path: str, name: str, folder: str) -> None:
    if "NOUN" in path or "NAME" in path:
        return
    exact = resolved(path, folder)

    assert exact is not None, f"{page} names {path}"
    if name:
        text = exact.read_text(encoding="utf-8")
        assert re.search(rf"\b(?:def|class) {name}\b|^{name}\b", text, re.MULTILINE), f"{page}: no {name} in {path}"


def test_the_pages_name_places() -> None:
    assert len(places()) > 150
