"""The last landed commit (`tests/bench/landed`), with which a run compares what this checkout has."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class UnknownCommit(Exception):
    """The commit is not in this clone, as in one without history."""


def commit() -> str:
    """Return it. Raises UnknownCommit."""
    found = (ROOT / "tests" / "bench" / "landed").read_text().strip()
    known = subprocess.run(
        ["git", "-C", ROOT, "cat-file", "-e", f"{found}^{{commit}}"], capture_output=True, check=False
    )
    if known.returncode:
        raise UnknownCommit(f"commit {found[:12]} is not in this clone (git fetch --unshallow)")
    return found
