"""The command blocks of the pages, so that tests run them as printed."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
SHELL = ("sh", "bash")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: on which page (path from the root), under which heading, the how-manieth there, its text."""

    page: str
    heading: str
    number: int
    language: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.page}: {self.heading}" + (f" ({self.number})" if self.number > 1 else "")


def pages() -> list[str]:
    """Every page that a user may follow: the root's and those of docs/."""
    found = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").glob("*.md"))]
    return [str(path.relative_to(ROOT)) for path in sorted(found)]


def blocks(page: str) -> list[Block]:
    """All fenced blocks of a page, in order. A `#` inside a block is no heading."""
    text = (ROOT / page).read_text(encoding="utf-8")
    without = _BLOCK.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), text)
    headings = [(match.start(), match.group(1)) for match in _HEADING.finditer(without)]
    found: list[Block] = []
    for match in _BLOCK.finditer(text):
        heading = next((title for start, title in reversed(headings) if start < match.start()), "")
        number = 1 + sum(block.heading == heading for block in found)
        found.append(Block(page, heading, number, match.group(1), match.group(2)))
    return found


def block(page: str, heading: str, number: int = 1) -> Block:
    """One of them. Raises AssertionError naming what there is."""
    there = blocks(page)
    for one in there:
        if (one.heading, one.number) == (heading, number):
            return one
    raise AssertionError(f"{page} has no block {number} under {heading!r}; there are: {[one.name for one in there]}")


def manifests() -> list[tuple[str, str]]:
    """Every manifest that a user finds here, by its name: the files of `examples/`, the blocks of the pages.

    A block that is a part of a spec stands in the spec of the example.
    """
    examples = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples").glob("*.yaml"))}
    found = list(examples.items())
    for one in (block for page in pages() for block in blocks(page) if block.language == "yaml"):
        part = yaml.safe_load(one.text)
        if "kind" in part:
            found.append((one.name, one.text))
        else:
            whole = yaml.safe_load(examples["bookiecluster.yaml"])
            found.append((one.name, yaml.safe_dump(whole | {"spec": whole["spec"] | part})))
    return found


def run(text: str, *, timeout_s: float, environment: Mapping[str, str] | None = None) -> str:
    """Run lines as a person would paste them into a shell at the project's root; return what they print.

    Raises AssertionError with the whole talk when one of them fails.
    """
    told = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert told.returncode == 0, f"exit code {told.returncode}:\n{text}\n--- printed:\n{told.stdout[-8000:]}"
    return told.stdout
