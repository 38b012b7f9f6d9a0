"""Which tests stand next to what somebody changed since the last commit: `make check` runs all of those."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The unit tests of a package have its name.
_MIRRORS = (
    ("bookie/", "tests/unit/"),
    ("operator/bookie_operator/", "tests/unit/operator/"),
    ("spark/pyspark_bookkeeper/", "tests/unit/spark/"),
)


def nearest() -> tuple[str, ...]:
    """Return how the names of those tests begin; none outside a checkout."""
    return tuple(sorted({beside(path) for path in _changed()}))


def beside(path: str) -> str:
    """Return the file of tests that `path` is, or the folder of the unit tests of its package."""
    for source, tests in _MIRRORS:
        if path.startswith(source):
            return f"{tests}{path.removeprefix(source)}".rpartition("/")[0] + "/"
    return path


def _changed() -> list[str]:
    """Return the files that differ from the last commit, new ones too."""
    asked = (["diff", "--name-only", "-z", "HEAD"], ["ls-files", "--others", "--exclude-standard", "-z"])
    found = [subprocess.run(["git", *one], cwd=ROOT, capture_output=True, text=True, check=False) for one in asked]
    return [path for one in found if one.returncode == 0 for path in one.stdout.split("\0") if path]
