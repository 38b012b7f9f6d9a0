"""The audit as the demo sees it: a question that takes a while, and its answer, the audit's JSON summary."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import children
from stage import DemoFailed

FOUND, UNKNOWN = 5, 6  # exit codes of an audit that found damage, or could not see all; 0 is whole, others no answer
STOP_TIMEOUT_S = 20.0
# Ledgers of the demo are seconds old; copies on their way are told from missing ones by the second look.
SETTINGS = ("--grace-s=0", "--second-look-s=2")


class LocalAudit:
    """A process on this machine."""

    def __init__(self, uri: str, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._log = folder / "audit.log"
        words = ["audit", "--metadata-service-uri", uri, "--output", str(folder), *SETTINGS]
        with self._log.open("ab") as talk:
            self._process = children.spawn([sys.executable, "-m", "pyspark_bookkeeper", *words], stderr=talk)

    def answer(self) -> dict[str, Any] | None:
        if self._process.poll() is None:
            return None
        assert self._process.stdout is not None
        return parsed(self._process.stdout.read(), self._process.returncode, str(self._log))

    def close(self) -> None:
        if self._process.poll() is None:
            children.end(self._process, timeout_s=STOP_TIMEOUT_S)


def parsed(told: str, code: int, look_at: str) -> dict[str, Any]:
    """Return the summary in what an audit wrote; it is one line among others where streams are mixed."""
    lines = [line for line in told.splitlines() if line.startswith("{")]
    if code not in (0, FOUND, UNKNOWN) or not lines:
        raise DemoFailed(f"the audit ended with exit code {code} and no summary", look_at)
    summary: dict[str, Any] = json.loads(lines[-1])
    return summary
