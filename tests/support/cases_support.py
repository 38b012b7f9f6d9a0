"""Cases as text: what is told, a line `----`, what is answered; an empty line ends a step. `#` begins a remark.

A file is one story: its steps go, in order, to one teller. `REWRITE=1` writes into the file what is answered now; the
test is red all the same, so that nobody takes what was written for what was read.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

LINE = "----"

# Is given the lines of one step, remarks left out; returns the lines of the answer, none of them empty.
Tell = Callable[[Sequence[str]], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Step:
    """`told` has its remarks. A paragraph that is all remarks is a step without answer."""

    told: tuple[str, ...]
    answer: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        return [line for line in self.told if not line.startswith("#")]


def parse(text: str) -> list[Step]:
    """Split a story into its steps. Raises ValueError for one that has something told, and no line `----`."""
    return list(_steps(text))


def _steps(text: str) -> Iterator[Step]:
    for paragraph in text.strip().split("\n\n"):
        lines = tuple(paragraph.strip("\n").split("\n"))
        place = lines.index(LINE) if LINE in lines else len(lines)
        step = Step(lines[:place], lines[place + 1 :])
        if bool(step.words) != (LINE in lines):
            raise ValueError(f"a step is told lines, {LINE}, and its answer; this is not one: {paragraph!r}")
        yield step


def dump(steps: Sequence[Step]) -> str:
    paragraphs = ["\n".join((*step.told, *((LINE, *step.answer) if step.words else ()))) for step in steps]
    return "\n\n".join(paragraphs) + "\n"


def check(path: Path, tell: Tell) -> None:
    """Tell the story at `path`, and compare what is answered with what stands there."""
    steps = parse(path.read_text(encoding="utf-8"))
    now = [Step(step.told, tuple(tell(step.words)) if step.words else ()) for step in steps]
    assert all(line for step in now for line in step.answer), "an empty line would end the step"
    if os.environ.get("REWRITE") and now != steps:
        path.write_text(dump(now), encoding="utf-8")
        raise AssertionError(f"{path.name} was rewritten: read what changed, then run it without REWRITE")
    assert dump(now) == dump(steps)


def stories(folder: Path) -> list[Path]:
    """Return the stories of a folder, in order. Raises AssertionError when there is none."""
    found = sorted(folder.glob("*.txt"))
    assert found, f"no story in {folder}"
    return found
