"""Does something when a block of code takes longer than it should: its own thread may be blocked."""

import contextlib
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def after(seconds: float, act: Callable[[], object]) -> Iterator[None]:
    """Call `act` from another thread when the block takes longer."""
    acting = threading.Timer(seconds, act)
    acting.daemon = True
    acting.start()
    try:
        yield
    finally:
        acting.cancel()
