"""Every step of one bookie's repair, in order: `bookie integrity status --watch --json`, followed wherever it runs.

Phases of a small fleet are over in milliseconds, so looking now and then would miss them.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import children
from stage import Observation

RETRY_S = 0.5
STOP_TIMEOUT_S = 10.0


class Steps:
    """`argv` prints one JSON object a step; it is begun again until one says that the repair is done."""

    def __init__(self, argv: Sequence[str], talk: Path) -> None:
        self._argv, self._talk = list(argv), talk
        self._waiting: deque[dict[str, Any]] = deque()
        self._closing = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._reader = threading.Thread(target=self._read, name="steps", daemon=True)
        self._reader.start()

    @property
    def has_more(self) -> bool:
        """True when `next` has something new."""
        return bool(self._waiting)

    def next(self) -> dict[str, Any]:
        """Return the oldest step nobody has taken."""
        return self._waiting.popleft()

    def _read(self) -> None:
        while not self._closing.is_set():
            with self._talk.open("ab") as talk:
                self._process = children.spawn(self._argv, stderr=talk)
            assert self._process.stdout is not None
            for line in self._process.stdout:
                step: dict[str, Any] = json.loads(line)
                self._waiting.append(step)
                if step["done"] and step["phase"] == "done":
                    self._closing.set()
            children.end(self._process, timeout_s=STOP_TIMEOUT_S)
            self._closing.wait(RETRY_S)

    def close(self) -> None:
        self._closing.set()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
        self._reader.join(timeout=2 * STOP_TIMEOUT_S)


def observed(base: Observation, step: dict[str, Any]) -> Observation:
    """Return `base` with what `step` knows better, being of one moment."""
    return dataclasses.replace(
        base,
        state=step["state"],
        incarnation=step["incarnation"],
        phase=step["phase"],
        phase_one_ms=step["phaseOneMs"],
        ledgers_fenced=step["ledgersFenced"],
        ledgers_limbo=step["ledgersLimbo"],
        ledgers_pending=step["ledgersPending"],
        ledgers_done=step["ledgersDone"],
        entries_copied=step["entriesCopied"],
        bytes_copied=step["bytesCopied"],
        bytes_per_second=step["bytesPerSecond"],
        done=step["done"],
    )
