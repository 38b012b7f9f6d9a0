"""Feeds a command through a pipe that is non-blocking, as ssh and Node.js leave one that they share."""

import fcntl
import os
import subprocess
import sys
import termios
from collections.abc import Sequence
from subprocess import PIPE

import wait_support

PATIENCE_S = 60.0


def feed(command: Sequence[str], pieces: Sequence[bytes]) -> tuple[bytes, bytes]:
    """Run `command` with a non-blocking stdin; give it each piece only when it has taken the one before, so that it
    asks for more while there is none. Return its output and its errors."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with subprocess.Popen(command, stdin=reading, stdout=PIPE, stderr=PIPE) as running:
        os.close(reading)
        try:
            for piece in pieces:
                os.write(writing, piece)
                wait_support.wait_until(
                    lambda: not _left(writing) or running.poll() is not None,
                    "a reader of each piece",
                    timeout_s=PATIENCE_S,
                )
        except BrokenPipeError:
            pass  # it ended: what it said is the reason
        finally:
            os.close(writing)
        return running.communicate(timeout=PATIENCE_S)


def _left(writing: int) -> int:
    found = bytearray(4)
    fcntl.ioctl(writing, termios.FIONREAD, found)
    return int.from_bytes(found, sys.byteorder)
