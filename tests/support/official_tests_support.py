"""BookKeeper's own tests, from its official `tests` jar, with processes of ours in the place of its Java objects.

Our classes of the same names stand before the official ones on the class path (`tests/interop/official_tests`); each
starts `replacement_child.py` against the ZooKeeper of the test. Bookies, clients and judgement are the official ones.
"""

from __future__ import annotations

import re
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import java_support
import kube_cache
import kube_shell

SOURCES = Path(__file__).parent.parent / "interop" / "official_tests"
CHILD = Path(__file__).parent / "replacement_child.py"
PAGE = Path(__file__).parent.parent.parent / "docs" / "JAVA-TESTS.md"
DEADLINE_S = 120.0
TEST_THREAD = "Time-limited test"  # where JUnit runs a method that has a limit, as all of these have
PACKAGE = "org.apache.bookkeeper."
KINDS = ("run", "nightly", "decision", "cannot", "open")
_ROW = re.compile(r"^\| `([\w.]+)` \| `(\w+)` \| (run|nightly|decision|cannot|open) \| (.*) \|$")


def rows(*kinds: str) -> list[str]:
    """Return the tests (replication.SomeTest#method) whose row of the page is of one of `kinds`."""
    found = (_ROW.match(line) for line in PAGE.read_text().splitlines())
    return [f"{row[1]}#{row[2]}" for row in found if row and row[3] in kinds]


def jars() -> Path:
    """Return the folder with the official tests and all that they need."""
    pom = SOURCES / "pom.xml"
    return kube_cache.entry("bookkeeper-tests-jars", kube_cache.key(pom), lambda made: java_support.fetch(pom, made))


def classes() -> Path:
    """Return the folder with our replacements, compiled."""
    return kube_cache.entry("bookkeeper-replacements", kube_cache.key(SOURCES), _compile)


def _compile(made: Path) -> None:
    java_support.compile_sources(sorted(SOURCES.rglob("*.java")), jars(), made)
    kube_shell.run("java", "-cp", f"{made}:{jars()}/*", "Patch", str(made))


class OfficialTests:
    """Plays official tests, those of one class in one JVM."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "official-tests.log"
        self._folder = folder
        self._process: java_support.JavaProcess | None = None
        self._class = ""

    def play(self, test: str, deadline_s: float = DEADLINE_S) -> str:
        """Run `test` (replication.ClassTest#method); return what it complains about, "" when it is green."""
        if self._class != test.partition("#")[0]:
            self._end()
        if self._process is None:
            self._process = self._start()
            self._class = test.partition("#")[0]
        killer = threading.Timer(deadline_s, self._process.give_up, [TEST_THREAD])
        killer.start()
        try:
            answer = self._process.ask("play", test=PACKAGE + test)
        except java_support.JudgeError as error:
            self._end()
            return f"no answer within {deadline_s} s: {error}"
        finally:
            killer.cancel()
        if answer["failures"] or answer["succeeded"] != 1:
            return f"{answer['succeeded']} succeeded. {answer['failures']}"
        return ""

    def _start(self) -> java_support.JavaProcess:
        flags = (
            "-Xmx1g",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            f"-Dlog4j2.configurationFile={java_support.SOURCES / 'log4j2.xml'}",
            f"-Djava.io.tmpdir={self._folder}",
            f"-Dreplacement.python={sys.executable}",
            f"-Dreplacement.child={CHILD}",
        )
        return java_support.JavaProcess("Play", {}, self.log, *flags, classes=f"{classes()}:{jars()}/*")

    def _end(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._end()
