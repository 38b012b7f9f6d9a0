"""Wait for a condition with a deadline: what tests do where others would sleep."""

from __future__ import annotations

from collections.abc import Callable

import polling

POLL_S = 0.05


def wait_until(is_true: Callable[[], bool], what: str, *, timeout_s: float) -> None:
    """Return once `is_true()` is; raise AssertionError naming `what` after `timeout_s`."""
    if polling.first(lambda: is_true() or None, timeout_s=timeout_s, poll_s=POLL_S) is None:
        raise AssertionError(f"waited {timeout_s:.0f} s for {what}")
