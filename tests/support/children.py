"""Processes of ours that end with us, even when we are killed: nothing is left behind to hold ports and folders.

When a test fails, what its processes said last stands below its error: `explained` for what runs inside a `with`, and
`tests/conftest.py` for fixtures, whose values are `Logged`.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Protocol, runtime_checkable

PR_SET_PDEATHSIG = 1  # prctl(2): the signal this process gets when its parent dies
_LIBC = ctypes.CDLL(None)


def _end_with_parent() -> None:
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def spawn(
    argv: Sequence[str], *, stderr: IO[bytes], stdout: int = subprocess.PIPE, stdin: int = subprocess.DEVNULL
) -> subprocess.Popen[str]:
    """Start `argv` in a session of its own, so that a Ctrl-C meant for us does not reach it; we end it in our order.

    To be called from the main thread: the kernel looks at the thread that started the child.
    """
    return subprocess.Popen(
        list(argv),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        text=True,
        start_new_session=True,
        preexec_fn=_end_with_parent,
    )


def end(process: subprocess.Popen[str], *, timeout_s: float) -> None:
    """Ask a process to end, insist after `timeout_s`, and close its pipe."""
    process.terminate()
    try:
        process.wait(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def tail(path: Path, size: int = 3000) -> str:
    """Return the end of a log."""
    return path.read_text(encoding="utf-8", errors="replace")[-size:] if path.exists() else ""


@runtime_checkable
class Logged(Protocol):
    """Something whose processes write logs."""

    def logs(self) -> Iterable[Path]:
        """The logs there are by now."""


def explain(error: BaseException, logs: Iterable[Path]) -> None:
    """Add the end of each log to what is shown of `error`."""
    for log in logs:
        error.add_note(f"---- {log} ends:\n{tail(log)}")


@contextlib.contextmanager
def explained(logs: Callable[[], Iterable[Path]]) -> Iterator[None]:
    """Add the end of each log to an error of the body."""
    try:
        yield
    except Exception as error:
        explain(error, logs())
        raise
