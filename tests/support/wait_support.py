"""Wait for a condition with a deadline: what tests do where others would sleep."""

from __future__ import annotations

import os
from collections.abc import Callable

import polling

POLL_S = 0.05


def wait_until(is_true: Callable[[], bool], what: str, *, timeout_s: float) -> None:
    """Return once `is_true()` is; raise AssertionError naming `what` after `timeout_s`."""
    if polling.first(lambda: is_true() or None, timeout_s=timeout_s, poll_s=POLL_S) is None:
        raise AssertionError(f"waited {timeout_s:.0f} s for {what}")


def patient(seconds: float) -> float:
    """What `seconds` of a machine with nothing else to do are on this one now, by the load of its last minute.

    For bounds of how long something may take; no bound is needed where one waits for what comes in the end.
    """
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
