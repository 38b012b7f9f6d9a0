"""Look again and again until something is there or time is up: the one loop behind every wait outside the product.

Who waits says what for, and how a wait that was in vain is told: `wait_support` (tests), `kube_wait` (the cluster) and
`waiting` (the demo).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Seen = TypeVar("Seen")


def first(
    look: Callable[[], Seen | None],
    *,
    timeout_s: float,
    poll_s: float,
    meanwhile: Callable[[float], None] = lambda elapsed_s: None,
) -> Seen | None:
    """Return the first result of `look` that is not None, or None after `timeout_s`; the last look is at the end.

    `meanwhile` hears after each look in vain how many seconds have passed.
    """
    began_s = time.monotonic()
    while True:
        elapsed_s = time.monotonic() - began_s
        found = look()
        if found is not None or elapsed_s > timeout_s:
            return found
        meanwhile(elapsed_s)
        time.sleep(poll_s)
