"""Reads files that a person or a setting named: settings, keys, passwords, dumps.

Never: waits for ever (for a pipe that nobody writes to), or takes all memory (for the image of a disk, named by
mistake).
"""

import errno
import os
import select
import time
from pathlib import Path

from bookie.base.units import MIB

# A hundred times the largest that is meant: a record of ZooKeeper, a store with every authority there is.
BYTES_MAX = 16 * MIB
# A command behind `<(…)` may have to ask somebody for a secret first.
PATIENCE_S = 10.0
_PIECE_BYTES = 64 * 1024


def read(path: str | Path) -> bytes:
    """Return the content of the file; of a pipe, what is written to it until its end. Blocks for PATIENCE_S at most.

    Raises OSError whose `strerror` is a reason for people, as Python does; also for what is longer than BYTES_MAX.
    """
    # Without O_NONBLOCK the open itself would wait for somebody who writes.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        end_s = time.monotonic() + PATIENCE_S
        found = bytearray()
        while piece := _piece(descriptor, end_s):
            found += piece
            if len(found) > BYTES_MAX:
                raise OSError(errno.EFBIG, f"it has more than {BYTES_MAX // MIB} MiB, so it is another kind of file")
        return bytes(found)
    finally:
        os.close(descriptor)


def _piece(descriptor: int, end_s: float) -> bytes:
    """Return the next bytes; none at the end. A pipe that nobody has opened to write yet has no end."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    if not waiting.poll(max(0.0, end_s - time.monotonic()) * 1000):
        raise OSError(errno.ETIMEDOUT, f"it is a pipe, and nobody wrote it to its end within {PATIENCE_S:g} s")
    return os.read(descriptor, _PIECE_BYTES)
