"""Wait for something with a deadline, and say what is seen meanwhile; the demo's only way to let time pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import kube_talk
import polling
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
    seen = ""
    report_s = kube_talk.next_report_s(0.0)

    def tell(elapsed_s: float) -> None:
        nonlocal seen, report_s
        seen = detail()
        if elapsed_s >= report_s:
            kube_talk.say(f"          ... {what} ({elapsed_s:.0f} s{'; ' + seen if seen else ''})")
            report_s = kube_talk.next_report_s(elapsed_s)

    found = polling.first(look, timeout_s=timeout_s, poll_s=poll_s, meanwhile=tell)
    if found is None:
        raise DemoFailed(f"waited {timeout_s:.0f} s for {what}" + (f"; last seen: {seen}" if seen else ""), look_at)
    return found
