"""Reads files that a person or a setting named: settings, keys, passwords, dumps.

Never: waits for ever (for a pipe that nobody writes to), or takes all memory (for the image of a disk, named by
mistake).
"""

import errno
import os
import select
import time
from pathlib import Path

from bookie.base.units import KIB, MIB

# A hundred times the largest that is meant: a record of ZooKeeper, a store with every authority there is.
BYTES_MAX = 16 * MIB
# A command behind `<(…)` may have to ask somebody for a secret first.
PATIENCE_S = 10.0
_PIECE_BYTES = 64 * 1024


def read(path: str | Path, *, bytes_max: int = BYTES_MAX) -> bytes:
    """Return the content of the file; of a pipe, what is written to it until its end. Blocks for PATIENCE_S at most.

    Raises OSError whose `strerror` is a reason for people, as Python does; also for what is longer than `bytes_max`.
    """
    # Without O_NONBLOCK the open itself would wait for somebody who writes.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        return read_open(descriptor, bytes_max=bytes_max, end_s=time.monotonic() + PATIENCE_S)
    finally:
        os.close(descriptor)


def read_open(descriptor: int, *, bytes_max: int = BYTES_MAX, end_s: float | None = None) -> bytes:
    """Return what an open file has until its end; blocks until then, or until the monotonic instant `end_s`. Raises
    OSError as `read` does."""
    found = bytearray()
    while piece := read_piece(descriptor, _PIECE_BYTES, end_s=end_s):
        found += piece
        if len(found) > bytes_max:
            limit = f"{bytes_max // MIB} MiB" if bytes_max >= MIB else f"{bytes_max // KIB} KiB"
            raise OSError(errno.EFBIG, f"it has more than {limit}, so it is another kind of file")
    return bytes(found)


def read_piece(descriptor: int, bytes_max: int, *, end_s: float | None = None) -> bytes:
    """Return the next bytes as soon as there are any; none at the end. Also of a pipe that somebody who shares it has
    made non-blocking, as ssh and Node.js do. A pipe that nobody has opened to write yet has no end."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    while True:
        if not waiting.poll(None if end_s is None else max(0.0, end_s - time.monotonic()) * 1000):
            raise OSError(errno.ETIMEDOUT, f"it is a pipe, and nobody wrote it to its end within {PATIENCE_S:g} s")
        try:
            return os.read(descriptor, bytes_max)
        except BlockingIOError:
            continue  # another process that shares the pipe was faster
