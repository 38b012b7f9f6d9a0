"""Run other programs and hand back what they printed, or one readable error.

This module must never decide anything about clusters, and never run a string through a shell.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import kube_errors

LEASH = ("setpriv", "--pdeathsig", "KILL", "--") if shutil.which("setpriv") else ()
"""Runs a program so that the kernel ends it with us (setpriv(1), prctl(2) PR_SET_PDEATHSIG)."""


def run(
    *argv: str | Path,
    text_in: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_s: float | None = None,
    outlives_us: bool = False,
) -> str:
    """Run `argv` to its end and return its standard output.

    `env` is added to our own environment. When we are killed the program is killed too, so that
    it cannot go on beside the next run, unless it `outlives_us`. Raises CommandFailed when it ends with anything but
    zero, is not there (127), or takes longer than `timeout_s` (124).
    """
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words if outlives_us else [*LEASH, *words],
            input=text_in,
            stdin=subprocess.DEVNULL if text_in is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            env={**os.environ, **(env or {})},
            cwd=cwd,
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError:
        raise kube_errors.CommandFailed(words, 127, f"{words[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        complaint = f"no end after {timeout_s} s"
        raise kube_errors.CommandFailed(words, 124, complaint) from None
    if done.returncode != 0:
        raise kube_errors.CommandFailed(words, done.returncode, done.stderr or done.stdout)
    return done.stdout


def succeeds(*argv: str | Path, timeout_s: float = 30.0) -> bool:
    """Tell whether `argv` ends with zero; not there and too slow count as no."""
    try:
        run(*argv, timeout_s=timeout_s)
    except kube_errors.CommandFailed:
        return False
    return True


def lines(*argv: str | Path, timeout_s: float | None = None) -> Sequence[str]:
    """Return the lines that `argv` prints, without empty ones. Raises as `run` does."""
    return [line for line in run(*argv, timeout_s=timeout_s).splitlines() if line.strip()]


def pipe(producer: Sequence[str], consumer: Sequence[str]) -> None:
    """Feed what `producer` prints to `consumer`. Raises CommandFailed when either ends badly.

    Only for producers that complain in less than a pipe holds (64 KiB): it is read at the end.
    """
    with (
        subprocess.Popen(producer, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as source,
        subprocess.Popen(consumer, stdin=source.stdout, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as sink,
    ):
        assert source.stdout is not None
        assert source.stderr is not None
        source.stdout.close()  # so that the producer notices when the consumer ends first
        told, _ = sink.communicate()
        complaint = source.stderr.read()
    for argv, process, output in ((producer, source, complaint), (consumer, sink, told)):
        if process.returncode != 0:
            detail = output.decode(errors="replace")
            raise kube_errors.CommandFailed(argv, process.returncode, detail)
