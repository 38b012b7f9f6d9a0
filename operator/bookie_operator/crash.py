"""Test hook: the process dies right after its N-th write, as a power cut would have it. Off unless asked for.

`BOOKIE_OPERATOR_CRASH_AFTER=N` counts the writes of a heal (children, claim marks, status, grants), not lease renewals
and events. It ends the process once per N and `crash_dir` (a temporary directory that survives a container restart), so
that the restarted operator can be watched converging. Used by the end-to-end tests; never set in production.
"""

import logging
import os
from collections.abc import Callable
from pathlib import Path

logger = logging.getLogger(__name__)
EXIT_CODE = 137


class CrashPoint:
    def __init__(self, after: int, directory: str, die: Callable[[int], None] = os._exit) -> None:
        self._after = after
        self._marker = Path(directory or ".") / f"bookie-operator-crashed-after-{after}"
        self._die = die
        self._writes = 0

    def after_write(self, what: str) -> None:
        """Count one write that the API server or a bookie has acknowledged; if it is the N-th, end the process."""
        if self._after == 0:
            return
        self._writes += 1
        if self._writes == self._after and not self._marker.exists():
            self._marker.touch()
            logger.warning("crash hook strikes after write number=%d what=%s", self._writes, what)
            self._die(EXIT_CODE)
