"""Lines of stdin for a command that writes them: each soon after it was typed, and Ctrl-C ends the wait for the next.

A thread of its own reads each piece, from the descriptor itself. Python waits at its end for the threads of
`asyncio.to_thread`, and for a lock of `sys.stdin`; for a daemon thread in read(2) it does not wait.
"""

import asyncio
import contextlib
import sys
import threading
from collections.abc import AsyncIterator

from bookie.base import errors
from bookie.runtime import given_file, streams
from bookie.wire.framing import FRAME_LIMIT_BYTES

# As much as is read at once, and the lines handed on at once: bounds what is read ahead of the ledger.
PIECE_BYTES = 256 * 1024
LINES = 500


def check_open() -> None:
    """Raise BadInput where stdin was closed before Python started, or cannot be read: there will be no lines."""
    if trouble := streams.stdin_trouble():
        raise errors.BadInput(f"stdin is {trouble}: give the lines with `< FILE` or through a pipe")


async def batches() -> AsyncIterator[list[bytes]]:
    """Yield the lines of stdin without their line ends, at most LINES at a time, until its end. A last line without a
    line end counts. Raises BadInput where stdin is closed or cannot be read, or has a line that no entry can be: one
    that never ends would take all memory."""
    check_open()
    rest = bytearray()
    while piece := await _piece():
        whole, end, begun = piece.rpartition(b"\n")
        if not end:
            rest += piece
            if len(rest) > FRAME_LIMIT_BYTES:
                raise errors.BadInput(
                    f"stdin has a line of more than {FRAME_LIMIT_BYTES} bytes, which fits no entry: each line is one"
                )
            continue
        lines = bytes(rest + whole).split(b"\n")
        rest = bytearray(begun)
        for first in range(0, len(lines), LINES):
            yield lines[first : first + LINES]
    if rest:
        yield [bytes(rest)]


async def _piece() -> bytes:
    """Return the next bytes of stdin, as soon as there are any; none at its end."""
    loop = asyncio.get_running_loop()
    read: asyncio.Future[bytes] = loop.create_future()

    def done(found: bytes | OSError) -> None:
        if read.cancelled():
            return
        if isinstance(found, bytes):
            read.set_result(found)
        else:
            read.set_exception(errors.BadInput(f"stdin cannot be read: {found.strerror}"))

    def work() -> None:
        found: bytes | OSError
        try:
            found = given_file.read_piece(sys.stdin.fileno(), PIECE_BYTES)
        except OSError as error:
            found = error
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits for it
            loop.call_soon_threadsafe(done, found)

    threading.Thread(target=work, name="stdin", daemon=True).start()
    return await read
