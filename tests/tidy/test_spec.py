"""Every citation of a rule leads to it, no rule's id stands without its page, and nobody cites what is not in the tree.

How to cite is told in docs/spec/README.md. Which rules nobody cites is printed, not judged: a page also has rules that
make the others understandable.
"""

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = {f"spec/{path.name}": path for path in sorted((DOCS / "spec").glob("*.md"))}
PAGES["CONFORMANCE.md"] = DOCS / "CONFORMANCE.md"
ANCHOR = re.compile(r'<a id="([A-Z]\d+[a-z]?)"></a>')
RULE = re.compile(r'^- <a id="([A-Z]\d+[a-z]?)"></a>\*\*\1\*\* ((?:.+\n)(?:  .+\n)*)', re.MULTILINE)
IDS = {name: ANCHOR.findall(path.read_text(encoding="utf-8")) for name, path in PAGES.items()}

# "spec/wire.md#W48 to W50, W66": what follows the first id is of the same page.
_MORE = r"(?:(?:,|\s+(?:# )?(?:to|and))\s+(?:# )?[A-Z]\d+[a-z]?\b)*"
CITATION = re.compile(rf"\b(spec/\w+\.md|CONFORMANCE\.md)#([A-Z]\d+[a-z]?\b{_MORE})")
LOCAL = re.compile(r"\]\((\w+\.md)?#([A-Z]\d+[a-z]?)\)")
BARE = re.compile(r"(?<![\w#'/.(\[-])(?<!(?<!\"\")\")\(?\b([A-Z]\d{1,2}[a-z]?)(?![\w\"'=(-]|\.\w)")
ELSEWHERE = re.compile(
    r"(?<![\w/-])(?:bp46|wire-protocol|operators|metadata|kopf|storage|spark|wire|architecture|scenarios)\.md\b"
    r"|\b(?:wire|metadata|bp46) \d+(?:\.\d+|,? step)|\bconventions, \d|\bbp46 B\d|\bseed 00\d"
)
# What looks like a rule's id and is none, by the file it stands in.
NO_RULES = {"bookie/wire/sasl.py": {"A1", "A2"}}


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [ROOT / line for line in listed.stdout.splitlines()]
    return [path for path in paths if path.exists() and "_pb2" not in path.name]


TEXTS = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in tracked("*.py", "*.proto", "*.yaml", "*.toml", "*.md", "Makefile")
}


def cited(text: str) -> Iterator[tuple[str, str]]:
    """(page, id) of every citation in `text`; of a range both ends and all between that the page has."""
    for page, ids in CITATION.findall(text):
        found = re.findall(r"(to )?([A-Z]\d+[a-z]?)", " ".join(ids.replace("# ", "").split()))
        for index, (is_end, name) in enumerate(found):
            yield page, name
            if is_end:
                first = found[index - 1][1]
                for number in range(int(first[1:]) + 1, int(name[1:])):
                    if f"{name[0]}{number}" in IDS.get(page, ()):
                        yield page, f"{name[0]}{number}"


def words_of(source: str) -> str:
    """The comments and docstrings of a Python file; a triple-quoted text in code counts as one."""
    out, inside = [], False
    for line in source.splitlines():
        quotes = line.count('"""')
        if inside or quotes:
            out.append(line)
            inside ^= quotes % 2 == 1
        elif (at := line.find("# ")) >= 0:
            out.append(line[at:])
    return "\n".join(out)


def test_an_id_stands_for_one_rule() -> None:
    counted = Counter(name for ids in IDS.values() for name in ids)

    assert not [name for name, times in counted.items() if times > 1]
    letters = [(letter, page) for page, ids in IDS.items() for letter in {name[0] for name in ids}]
    assert len({letter for letter, _ in letters}) == len(letters), "a letter belongs to one page"


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("spec/") and "README" not in page])
def test_every_rule_has_a_reason_and_a_source(page: str) -> None:
    text = PAGES[page].read_text(encoding="utf-8")
    rules = RULE.findall(text)

    assert [name for name, _ in rules] == IDS[page]
    assert not [name for name, body in rules if "*From:*" not in body or "*Why" not in body]


def test_every_citation_leads_to_its_rule(capsys: pytest.CaptureFixture[str]) -> None:
    everywhere = {(page, name): file for file, text in TEXTS.items() for page, name in cited(text)}
    local = {(file, page, name) for file in TEXTS if "docs/spec/" in file for page, name in LOCAL.findall(TEXTS[file])}

    wrong = [f"{file}: {page}#{name}" for (page, name), file in everywhere.items() if name not in IDS.get(page, ())]
    wrong += [
        f"{file}: {page}#{name}"
        for file, page, name in local
        if name not in IDS.get(f"spec/{page}" if page else file.removeprefix("docs/"), ())
    ]
    code = {(page, name) for file in TEXTS if not file.endswith(".md") for page, name in cited(TEXTS[file])}
    with capsys.disabled():
        for page, ids in IDS.items():
            unused = [name for name in ids if (page, name) not in code]
            if page.startswith("spec/") and unused:
                print(f"\n{page}: not cited by code or tests: {' '.join(unused)}", end="")
        print()
    assert not wrong


def test_no_citation_leads_out_of_the_tree() -> None:
    found = [
        f"{file}: {match.group()}"
        for file, text in TEXTS.items()
        if not file.startswith(("docs/spec/", "tests/tidy/test_spec.py"))
        for match in ELSEWHERE.finditer(text)
    ]

    assert not found, "cite a rule of docs/spec, or say the reason"


def test_no_rule_is_named_without_its_page() -> None:
    known = {name for ids in IDS.values() for name in ids}
    found = [
        f"{file}: {name}"
        for file, text in TEXTS.items()
        if file.endswith(".py") and file != "tests/tidy/test_spec.py"
        for name in BARE.findall(CITATION.sub("", words_of(text)))
        if name in known - NO_RULES.get(file, set())
    ]

    assert not found, "write spec/NAME.md#ID or CONFORMANCE.md#ID"
