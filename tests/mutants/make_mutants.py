"""Breaks one rule after the other on purpose, and looks whether the tests that prove it go red (`make mutants`).

python tests/mutants/make_mutants.py [WORD ...] [--changed COMMIT] [--jobs N] [--timeout S] [--json]

WORD: a mutant's id, a rule (its id alone), a file or a folder; none: the whole list. Each mutant is made in a private
copy of the source tree, never in the checkout. First all tests named must be green without any mutation. Exit code 0:
every mutant was killed; 1: one survived or could not be judged; 2: usage.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import mutants_support
from mutants_support import ROOT, DoesNotApply, Mutant

TIMEOUT_S = 120
# All tests named, once, without a mutation.
BASELINE_TIMEOUT_S = 1800
COPIED = ("bookie", "operator", "spark", "tests", "tools", "demo", "docs", "charts", "crds", "examples")
PASSED, FAILED = 0, 1  # exit codes of pytest
# What is drawn is the same in every run; hypothesis's examples are pinned by the profile "mutants" (tests/conftest.py).
# No bytecode: of two mutants of one size, written within one second, Python would take them for one.
PINNED = {"PYTHONHASHSEED": "0", "SIM_SEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
_PYTEST = (
    *(sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=line"),
    *("-p", "no:cacheprovider", "--hypothesis-profile=mutants"),
)
_RED = re.compile(r"^(?:FAILED|ERROR) (\S+?\.py)::(\w+)(?:.* - (.*))?$", re.MULTILINE)
# What the mutant itself stumbles over: that a text with a wrong name in it does not run proves nothing of a rule.
_OWN_FAULT = re.compile(
    r"(?:NameError|UnboundLocalError|ImportError|ModuleNotFoundError|SyntaxError|IndentationError)\b"
)

KILLED, TIMED_OUT, SURVIVED, EQUAL = "killed", "killed (timeout)", "SURVIVED", "equal"
NOT_APPLIED, BROKEN, DIED = "DOES NOT APPLY", "CANNOT RUN", "DIED BY ITSELF"
GOOD = (KILLED, TIMED_OUT, EQUAL)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one mutant. `green`: the named tests that did not notice it; `why`: what a person should read."""

    mutant: Mutant
    word: str
    seconds: float
    green: tuple[str, ...] = ()
    why: str = ""

    def facts(self) -> dict[str, object]:
        mutant = self.mutant
        return {
            "id": mutant.id,
            "rules": mutant.rules,
            "file": mutant.file,
            "what": mutant.what,
            "outcome": self.word,
            "green": self.green,
            "why": self.why or mutant.equal,
            "seconds": round(self.seconds, 1),
        }


@dataclass(frozen=True, slots=True)
class Run:
    """One run of pytest: its exit code (None: it took too long), the tests that went red, the end of its output.
    `died`: of the red tests those that only met a name or a module that is not there, each with the words."""

    code: int | None
    red: frozenset[str]
    tail: str
    died: Mapping[str, str]


class Copy:
    """A private copy of the source tree, in which one mutant after the other is made."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Python takes a compiled module for current by its time and size: each version of a file gets its own time.
        self._times = itertools.count(1_000_000_000)
        names = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
            text=True,
        ).stdout.split("\0")
        for name in names:
            source = ROOT / name
            if name and source.is_file() and (name.split("/")[0] in COPIED or "/" not in name):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, folder / name)
        if (ROOT / ".venv").exists():
            (folder / ".venv").symlink_to(ROOT / ".venv")

    @contextmanager
    def mutated(self, mutant: Mutant) -> Iterator[None]:
        """Make the mutant for the time of the block. Raises DoesNotApply."""
        path = self._folder / mutant.file
        before = path.read_text(encoding="utf-8")
        self._write(path, mutant.apply(before))
        try:
            yield
        finally:
            self._write(path, before)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        stamp = next(self._times)
        os.utime(path, (stamp, stamp))

    def run(self, tests: Sequence[str], timeout_s: float) -> Run:
        """Run the tests, in a process group of its own that ends with this call."""
        paths = os.pathsep.join(str(self._folder / each) for each in (".", "operator", "spark"))
        process = subprocess.Popen(
            [*_PYTEST, *tests],
            cwd=self._folder,
            env={**os.environ, **PINNED, "PYTHONPATH": paths, "COLUMNS": "1000"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            text, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            _end_group(process)
            text, _ = process.communicate()
            return Run(None, frozenset(), text[-2000:], {})
        finally:
            _end_group(process)  # what a test left behind
        red = [(f"{path}::{name}", why) for path, name, why in _RED.findall(text)]
        failed = frozenset(test for test, why in red if not _OWN_FAULT.match(why))
        died = {test: why for test, why in red if test not in failed}
        return Run(process.returncode, frozenset(test for test, _ in red), text[-2000:], died)


def _end_group(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def judged(mutant: Mutant, copy: Copy, timeout_s: float) -> Outcome:
    """Make one mutant, run the tests that must notice it, and say what happened."""
    began = time.monotonic()
    try:
        with copy.mutated(mutant):
            run = None if mutant.equal else copy.run(mutant.tests, timeout_s)
    except DoesNotApply as error:
        return Outcome(mutant, NOT_APPLIED, 0, why=str(error))
    seconds = time.monotonic() - began
    if run is None:
        return Outcome(mutant, EQUAL, seconds)
    if run.code is None:
        return Outcome(mutant, TIMED_OUT, seconds)
    if run.code not in (PASSED, FAILED):
        return Outcome(mutant, BROKEN, seconds, why=run.tail)
    green = tuple(test for test in mutant.tests if test not in run.red)
    if not green and any(test in run.died for test in mutant.tests):
        return Outcome(
            mutant, DIED, seconds, why="\n".join(sorted(f"{test} - {why}" for test, why in run.died.items()))
        )
    return Outcome(mutant, SURVIVED if green else KILLED, seconds, green)


def outcomes(mutants: Sequence[Mutant], *, jobs: int, timeout_s: float) -> Iterator[Outcome]:
    """Judge the mutants, `jobs` at a time, and yield each outcome when it is there."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(jobs) as pool:
        free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for number in range(jobs):
            place = Path(folder, str(number))
            place.mkdir()
            free.put(Copy(place))
        stopped = threading.Event()

        def judge(mutant: Mutant) -> Outcome | None:
            if stopped.is_set():
                return None
            copy = free.get()
            try:
                return judged(mutant, copy, timeout_s)
            finally:
                free.put(copy)

        try:
            for done in as_completed([pool.submit(judge, mutant) for mutant in mutants]):
                if (outcome := done.result()) is not None:
                    yield outcome
        finally:
            stopped.set()


def red_before(mutants: Iterable[Mutant]) -> str:
    """Run all tests named without a mutation; return what is wrong with them, "" when all are green."""
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    if not tests:
        return ""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        run = Copy(Path(folder)).run(tests, BASELINE_TIMEOUT_S)
    return "" if run.code == PASSED else run.tail or "no answer in time"


def changed_since(commit: str) -> list[str]:
    """Return the files, as paths from the root, that differ from `commit`."""
    words = ["git", "diff", "--name-only", commit]
    return subprocess.run(words, cwd=ROOT, capture_output=True, check=True, text=True).stdout.split()


def _told(outcome: Outcome) -> str:
    mutant = outcome.mutant
    line = f"{outcome.word:17}{outcome.seconds:6.1f} s  {' '.join(mutant.rules):12} {mutant.id}: {mutant.what}"
    lines = [line, *(f"{'':17}green: {test}" for test in outcome.green)]
    if outcome.why:
        lines.append(outcome.why)
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Break rules on purpose and see their tests go red.")
    parser.add_argument("words", nargs="*", metavar="WORD", help="an id, a rule, a file or a folder; none: all")
    parser.add_argument("--changed", metavar="COMMIT", help="only mutants whose file or tests differ from COMMIT")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S, metavar="S", help="for the tests of one mutant")
    parser.add_argument("--json", action="store_true", help="the outcomes as JSON on stdout, talk on stderr")
    parser.add_argument("--no-baseline", action="store_true", help="trust that the tests are green without a mutation")
    asked = parser.parse_args(arguments)
    files = None if asked.changed is None else changed_since(asked.changed)
    chosen = mutants_support.selected(mutants_support.mutants(), only=asked.words, files=files)
    if not chosen and asked.changed is None:
        parser.error(f"no mutant is named {' or '.join(asked.words)}")
    talk = sys.stderr if asked.json else sys.stdout
    if not asked.no_baseline and (wrong := red_before(chosen)):
        print(f"tests that are red without any mutation prove nothing:\n{wrong}", file=talk)
        return 1
    found: list[Outcome] = []
    for outcome in outcomes(chosen, jobs=asked.jobs, timeout_s=asked.timeout):
        found.append(outcome)
        print(f"[{len(found)}/{len(chosen)}] {_told(outcome)}", file=talk, flush=True)
    if asked.json:
        print(json.dumps([outcome.facts() for outcome in found], indent=2))
    counts = Counter(outcome.word for outcome in found)
    print(f"{len(found)} mutants: " + ", ".join(f"{count} {word}" for word, count in counts.items()), file=talk)
    return 0 if all(outcome.word in GOOD for outcome in found) else 1


if __name__ == "__main__":
    sys.exit(main())
