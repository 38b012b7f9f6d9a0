"""Reports every failure as one readable sentence, wherever in Spark it happened.

A Python task fails in a worker, Spark wraps its traceback into a Java exception, and py4j wraps that again: three pages
in which our sentence is one line. This module finds that line; and it has sentences for what Spark itself cannot do (no
Java, the wrong Python in its workers). Nothing here decides what to do about a failure.
"""

import contextlib
import re
import sys
from collections.abc import Iterator
from typing import TextIO

from bookie.base.errors import BookieError

# A BookieError at the end of a traceback: class, then the sentence, which is one line by our own rule.
_OURS = re.compile(r"^(?:[\w.]+: )*bookie\.base\.errors\.\w+: (.+)$", re.MULTILINE)

# What Spark says -> what it means. The first that matches tells; groups fill the braces.
_SPARK = (
    (
        r"JAVA_GATEWAY_EXITED|UnsupportedClassVersionError|JAVA_HOME is not set",
        "Spark did not start, since it found no Java 17 or newer: install one (Debian: apt-get install "
        "openjdk-17-jre-headless), or set JAVA_HOME to it; if Java is there, its own words are above",
    ),
    (
        r"PYTHON_VERSION_MISMATCH\][^\n]*?(\d+\.\d+)[^\n]*?(\d+\.\d+)",
        "the workers run Python {0} and the driver {1}: set PYSPARK_PYTHON to the same Python everywhere",
    ),
    (
        r"ModuleNotFoundError: No module named '(\w+)'",
        "the Python of Spark's workers lacks the module {0}: set PYSPARK_PYTHON to the Python in which "
        "bookie-ledger[spark] is installed, on every executor",
    ),
    (
        r"Cannot run program \"([^\"]+)\"",
        "Spark's workers cannot run {0}: set PYSPARK_PYTHON to a Python that is there on every executor",
    ),
    (
        r"Failed to find the data source: bookkeeper|DATA_SOURCE_NOT_FOUND\][^\n]*bookkeeper",
        "Spark does not know the source bookkeeper: the Python that PYSPARK_PYTHON names (without it: python3 on PATH) "
        "must have bookie-ledger[spark] installed, on the driver and on every executor",
    ),
)


def sentence(error: BaseException) -> str:
    """Return what went wrong in one sentence. For an error that is neither ours nor known: its class and its first
    line."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, BookieError):
            return _one_line(str(seen))
        seen = seen.__cause__ or seen.__context__
    text = str(error)
    if found := _OURS.findall(text):
        return str(found[-1]).strip()
    for pattern, meaning in _SPARK:
        if match := re.search(pattern, text):
            return meaning.format(*match.groups())
    return f"{type(error).__name__}: {_one_line(text)}"


@contextlib.contextmanager
def told(program: str, stream: TextIO | None = None) -> Iterator[None]:
    """End the program with exit code 1 and one sentence on stderr when the code of the `with` block fails.

    That is for errors of ours, of Spark and of py4j. Any other is a mistake in the program and keeps its traceback.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (BookieError, PySparkException, Py4JError) as error:
        print(f"{program}: {sentence(error)}", file=stream or sys.stderr)
        raise SystemExit(1) from None


def _one_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0].strip() if lines else "no reason was given"
