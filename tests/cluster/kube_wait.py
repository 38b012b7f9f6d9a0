"""Wait for a condition on the cluster, and say what was last seen when it does not come.

The condition is a function that returns a value once it holds and raises NotYet until then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import kube_errors
import kube_talk
import polling

POLL_S = 0.5

Seen = TypeVar("Seen")


class NotYet(Exception):
    """The condition does not hold; the message is what was seen instead."""


class NeverCame(kube_errors.ClusterError):
    """The condition did not hold in time; `last_seen` is what was seen last."""

    def __init__(self, what: str, *, timeout_s: float, last_seen: str) -> None:
        super().__init__(f"{what}: not within {timeout_s:.0f} s; last seen: {last_seen}")
        self.last_seen = last_seen


def wait_for(what: str, look: Callable[[], Seen], *, timeout_s: float) -> Seen:
    """Call `look` until it returns, and return that; raise NeverCame after `timeout_s`.

    A command that fails counts as not yet, since API servers restart and webhooks lag behind.
    """
    last: list[Exception] = []

    def attempt() -> tuple[Seen] | None:
        try:
            return (look(),)
        except (NotYet, kube_errors.CommandFailed) as error:
            last[:] = [error]
            return None

    with kube_talk.step(f"waiting: {what}"):
        found = polling.first(attempt, timeout_s=timeout_s, poll_s=POLL_S)
    if found is None:
        raise NeverCame(what, timeout_s=timeout_s, last_seen=str(last[0])) from last[0]
    return found[0]
