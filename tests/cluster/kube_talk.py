"""Talk to the person who waits: everything on stderr, and no step over two seconds in silence.

Standard output belongs to data (the kubeconfig path), so this module must never write there.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

QUIET_S = 2.0
"""How long a step may stay silent; the project's promise to a newcomer."""


def say(text: str) -> None:
    """Print one line on stderr."""
    print(text, file=sys.stderr, flush=True)


def next_report_s(elapsed_s: float) -> float:
    """Return the instant of the next report: close together at first, half a minute apart later."""
    for instant in (QUIET_S, 5.0, 10.0, 20.0, 30.0):
        if elapsed_s < instant:
            return instant
    return (elapsed_s // 30.0 + 1.0) * 30.0


@contextlib.contextmanager
def step(what: str) -> Iterator[None]:
    """Show `what` while the body runs, with elapsed seconds once it takes over two seconds.

    A thread does the reporting, because the body waits for other programs. Errors pass through.
    """
    started = time.monotonic()
    finished = threading.Event()
    reported = threading.Event()

    def report() -> None:
        while True:
            elapsed_s = time.monotonic() - started
            if finished.wait(next_report_s(elapsed_s) - elapsed_s):
                return
            reported.set()
            say(f"  ... {what} ({time.monotonic() - started:.0f} s)")

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    try:
        yield
    finally:
        finished.set()
        reporter.join()
        if reported.is_set() or time.monotonic() - started >= QUIET_S:
            say(f"  {what}: {time.monotonic() - started:.1f} s")
