"""Wait for something with a deadline, and say what is seen meanwhile; the demo's only way to let time pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import kube_talk
from stage import DemoFailed

T = TypeVar("T")
POLL_S = 0.25


def wait_for(
    what: str,
    look: Callable[[], T | None],
    *,
    timeout_s: float,
    look_at: str,
    detail: Callable[[], str] = lambda: "",
    poll_s: float = POLL_S,
) -> T:
    """Return the first result of `look` that is not None. Raises DemoFailed, naming `what`, after `timeout_s`."""
    started_s = time.monotonic()
    report_s = kube_talk.next_report_s(0.0)
    while True:
        found = look()
        if found is not None:
            return found
        elapsed_s = time.monotonic() - started_s
        seen = detail()
        if elapsed_s > timeout_s:
            raise DemoFailed(f"waited {timeout_s:.0f} s for {what}" + (f"; last seen: {seen}" if seen else ""), look_at)
        if elapsed_s >= report_s:
            kube_talk.say(f"          ... {what} ({elapsed_s:.0f} s{'; ' + seen if seen else ''})")
            report_s = kube_talk.next_report_s(elapsed_s)
        time.sleep(poll_s)
