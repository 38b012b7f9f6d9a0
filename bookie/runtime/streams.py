"""The standard streams of a command: closed, on a full disk, or read by somebody who went away; and Ctrl-C.

What a command did must not depend on them, and what it could not say must not be lost without a word.
"""

import contextlib
import errno
import fcntl
import io
import os
import select
import sys
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from bookie.base import asserts
from bookie.base.errors import BookieError
from bookie.runtime import given_file

FAILED, USAGE = 1, 2
# What shells say of a program that SIGINT (2) ended: 128 + 2.
INTERRUPTED = 130
# A log that nobody reads must not hold a bookie for ever.
_STDERR_PATIENCE_MS = 1_000
# Enough for what a command made and only its output names; not a dump.
_TOLD_BYTES_MAX = 1024


# How /dev/null stands for a standard stream that is closed. Input gives nothing and output takes nothing, each in an
# error; what is said on stderr is lost, for there is nowhere to say so.
_HELD = (os.O_WRONLY, os.O_RDONLY, os.O_RDWR)


class OutputFailed(BookieError):
    """Standard output takes no more."""


class _Out(io.FileIO):
    """Standard output. The first write that fails raises OutputFailed, or BrokenPipeError, and is the last: what comes
    after it goes nowhere, so that no flush fails again."""

    not_taken = b""

    def write(self, data: "bytes | memoryview | bytearray", /) -> int:  # type: ignore[override]
        try:
            return _patiently(super().write, data, self.fileno())
        except OSError as error:
            _to_nowhere(self.fileno())
            if isinstance(error, BrokenPipeError):
                raise
            self.not_taken = bytes(data)
            reason = "it is closed, or open only for reading" if error.errno == errno.EBADF else error.strerror
            raise OutputFailed(f"standard output takes no more: {reason}") from None


class _Err(io.FileIO):
    """Standard error. What it does not take is dropped: there is nowhere to say so."""

    def write(self, data: "bytes | memoryview | bytearray", /) -> int:  # type: ignore[override]
        with contextlib.suppress(OSError):
            return _patiently(super().write, data, self.fileno(), patience_ms=_STDERR_PATIENCE_MS)
        return len(data)


def _patiently(
    write: Callable[[Any], int | None],
    data: "bytes | memoryview | bytearray",
    number: int,
    *,
    patience_ms: int | None = None,
) -> int:
    """Write; wait for room in a pipe that somebody who shares it has made non-blocking (Node.js and ssh do): Python has
    no way of its own to write to such a one, and what was printed would be lost with a traceback. Raises
    BlockingIOError when the patience is over."""
    while (taken := write(data)) is None:
        waiting = select.poll()
        waiting.register(number, select.POLLOUT)
        if not waiting.poll(patience_ms):
            raise BlockingIOError(errno.EAGAIN, "nobody reads")
    return taken


def stdin_trouble() -> str:
    """Return why nothing can be read from standard input, as the end of "it is ..."; "" when something may be."""
    if sys.stdin is None:  # it was closed before Python started
        return "closed"
    is_for_writing = fcntl.fcntl(sys.stdin.fileno(), fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY
    return "open only for writing" if is_for_writing else ""


def read_stdin() -> bytes:
    """Return what standard input has until its end, however long its writer takes. Raises OSError whose `strerror` is a
    reason for people."""
    if trouble := stdin_trouble():
        raise OSError(errno.EBADF, f"it is {trouble}")
    return given_file.read_open(sys.stdin.fileno())


@contextlib.contextmanager
def guarded(program: str) -> Iterator[None]:
    """Run a program's body with asserts on and safe standard streams: each program of ours begins here.

    When standard output fails, what it did not take is told on stderr, and the program ends with code 1; without a word
    where its reader went away, as `| head` does. Ctrl-C ends it with code 130 and one line.
    """
    if reason := asserts.why_off():
        print(f"{program}: {reason}", file=sys.stderr)
        raise SystemExit(USAGE)
    _hold_closed()
    before = sys.stdout, sys.stderr
    # Streams that somebody else put there (a test) are theirs to look after.
    out = _Out(1, "wb", closefd=False) if sys.stdout is sys.__stdout__ else None
    if out is not None:
        sys.stdout = _text(out, sys.stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(_Err(2, "wb", closefd=False), sys.stderr)
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        raise SystemExit(FAILED) from None
    except KeyboardInterrupt:
        print(f"{program}: interrupted", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None
    except OutputFailed as error:
        print(f"{program}: {error}", file=sys.stderr)
        raise SystemExit(FAILED) from None
    finally:
        if out is not None and out.not_taken:
            _tell(program, out.not_taken)
        sys.stderr.flush()
        sys.stdout, sys.stderr = before


def _text(raw: io.FileIO, like: TextIO | None) -> io.TextIOWrapper:
    """Return a text stream over `raw` with the encoding of the stream that it replaces; None: that was closed. What the
    encoding cannot write is escaped: no name that somebody chose may end a command in the middle of its output."""
    is_line_by_line = raw.isatty() or isinstance(raw, _Err)
    encoding, errors = (like.encoding, like.errors) if like is not None else ("utf-8", "backslashreplace")
    errors = "backslashreplace" if errors == "strict" else errors
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors, line_buffering=is_line_by_line)


def _tell(program: str, not_taken: bytes) -> None:
    text = not_taken[:_TOLD_BYTES_MAX].decode(errors="backslashreplace").rstrip("\n")
    more = len(not_taken) - _TOLD_BYTES_MAX
    print(f"{program}: it did not take:\n{text}{f' … and {more} bytes more' if more > 0 else ''}", file=sys.stderr)


def _hold_closed() -> None:
    """Open /dev/null where a standard stream is closed. Else a socket or a file of ours takes its number: libuv aborts
    when it closes one of these, and what C code says on stderr could land in a file with data."""
    for number in range(len(_HELD)):
        try:
            os.fstat(number)
        except OSError:
            taken = os.open(os.devnull, _HELD[number])  # the lowest that is free
            assert taken == number


def _to_nowhere(number: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)
