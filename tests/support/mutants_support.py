"""The list of mutants: rules broken on purpose, one at a time, each with the tests that must go red.

One file of tests/mutants/list has the mutants of one area, as TOML tables:

    [[mutant]]
    id = "lac-of-the-header"              # unique, words with hyphens
    rules = ["P17"]                       # rows of docs/CONFORMANCE.md, or ids of docs/spec; may be empty
    what = "The header carries ..."       # what the broken code does, one sentence
    file = "bookie/client/write/appender.py"
    old = '''...'''                       # stands exactly once in the file
    new = '''...'''
    tests = ["tests/unit/...py::test_x"]  # each of them must go red, in one of its cases at least
    equal = "..."                         # instead of tests: why no test can see the difference
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIST = ROOT / "tests" / "mutants" / "list"


class BadEntry(Exception):
    """An entry of the list names what cannot be judged."""


class DoesNotApply(Exception):
    """The old text of a mutant does not stand exactly once in its file."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mutation of one file, see above."""

    id: str
    what: str
    file: str
    old: str
    new: str
    rules: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    equal: str = ""

    def apply(self, text: str) -> str:
        """Return `text`, of the file, with the mutation. Raises DoesNotApply."""
        count = text.count(self.old)
        if count != 1:
            raise DoesNotApply(f"{self.id}: its old text stands {count} times in {self.file}, not once")
        return text.replace(self.old, self.new)


def parse(text: str) -> list[Mutant]:
    """Return the mutants of one file of the list. Raises BadEntry."""
    found = [
        Mutant(**{**entry, "rules": tuple(entry.get("rules", ())), "tests": tuple(entry.get("tests", ()))})
        for entry in tomllib.loads(text)["mutant"]
    ]
    for mutant in found:
        for test in mutant.tests:
            if "[" in test:
                raise BadEntry(
                    f"{mutant.id}: {test} names one case of a test, and would stand as green whatever happens: name the"
                    f" test, {test.split('[')[0]}"
                )
    return found


@functools.cache
def mutants() -> tuple[Mutant, ...]:
    """Return the whole list."""
    return tuple(mutant for path in sorted(LIST.glob("*.toml")) for mutant in parse(path.read_text(encoding="utf-8")))


def selected(
    all_of_them: Sequence[Mutant], *, only: Sequence[str] = (), files: Sequence[str] | None = None
) -> list[Mutant]:
    """Return the mutants that one of the words of `only` names (an id, a rule, a file or the folder of one; none: all),
    and whose file or tests are among `files`, if given."""
    return [
        mutant
        for mutant in all_of_them
        if (not only or any(_is_named(mutant, word) for word in only))
        and (files is None or not {mutant.file, *(test.split("::")[0] for test in mutant.tests)}.isdisjoint(files))
    ]


def _is_named(mutant: Mutant, word: str) -> bool:
    folder = word.rstrip("/") + "/"
    return word in (mutant.id, mutant.file, *mutant.rules) or mutant.file.startswith(folder)
