"""Wait for a condition with a deadline: what tests do where others would sleep."""

from __future__ import annotations

import time
from collections.abc import Callable

POLL_S = 0.05


def wait_until(is_true: Callable[[], bool], what: str, *, timeout_s: float) -> None:
    """Return once `is_true()` is; raise AssertionError naming `what` after `timeout_s`."""
    deadline_s = time.monotonic() + timeout_s
    while not is_true():
        if time.monotonic() > deadline_s:
            raise AssertionError(f"waited {timeout_s:.0f} s for {what}")
        time.sleep(POLL_S)
