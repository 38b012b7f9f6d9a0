"""The errors of the cluster tools: one family, so that a caller catches it in one place.

Each carries one sentence for a person. This module must never import another one of ours.
"""

from __future__ import annotations

from collections.abc import Sequence


class ClusterError(Exception):
    """Something about the cluster failed; the message is one sentence to act on."""


class NoClusterHere(ClusterError):
    """No cluster can be had on this machine at all; callers fall back (exit code 3)."""


class CommandFailed(ClusterError):
    """A command of ours ended badly.

    `argv` is what ran, `returncode` its exit code (negative: the signal that ended it), `stderr`
    the end of what it complained about.
    """

    def __init__(self, argv: Sequence[str], returncode: int, stderr: str) -> None:
        last_lines = "\n".join(stderr.strip().splitlines()[-12:])
        super().__init__(f"`{' '.join(argv)[:300]}` ended with {returncode}: {last_lines}")
        self.argv = tuple(argv)
        self.returncode = returncode
        self.stderr = stderr
