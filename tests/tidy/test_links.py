"""Every link of a page to a page, a file or a heading of this repository leads somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]*`", re.S | re.M)
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_ANCHOR = re.compile(r'<a id="([^"]+)">')
_HEADING = re.compile(r"^#+ +(.+?) *$", re.M)


def _anchors(page: Path) -> set[str]:
    """What GitHub makes of headings: lower case, blanks are dashes, of punctuation only - and _ stay."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    found = set(_ANCHOR.findall(text))
    for heading in _HEADING.findall(text):
        slug = re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", heading).lower()).replace(" ", "-")
        found.add(next(name for n in range(99) if (name := f"{slug}-{n}" if n else slug) not in found))
    return found


def _dead(page: Path) -> list[str]:
    dead = []
    for link in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if ":" in path:
            continue  # the world's pages are no business of a test
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in _anchors(target)):
            dead.append(link)
    return dead


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert not _dead(page)


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text('# A b, `c`\n[x](#a-b-c) [x](a.md#W1) <a id="W1"></a> [x](#no) [x](no.md) [x](https://x.y/z#no)\n')

    assert _dead(page) == ["#no", "no.md"]
