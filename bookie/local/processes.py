"""Child processes of a local fleet: each writes to its own log, and none outlives this process."""

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from bookie.base import errors
from bookie.ports.time_limit import TimeLimit

log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG = 1
# A bookie flushes within 10 s; more means that it hangs.
_STOP_TIMEOUT_S = 15.0
_LOG_TAIL_BYTES = 2000


class Child:
    """One process. `name` is for people."""

    def __init__(self, name: str, log_path: Path, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self.log_path = log_path
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    def check(self) -> None:
        """Raise RefusedToStart with the end of the log when the process has ended."""
        if self._process.returncode is not None:
            raise errors.RefusedToStart(
                f"{self.name} ended with code {self._process.returncode} before it was ready; {self.log_path} ends:"
                f"\n{self.log_tail()}"
            )

    def log_tail(self) -> str:
        return self.log_path.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace")

    async def watch(self) -> None:
        """Wait for the process to end and print that it did. Restart nothing: whoever killed it meant it to die."""
        code = await self._process.wait()
        log.info("%s ended pid=%d code=%d", self.name, self.pid, code)

    async def stop(self) -> None:
        """Send SIGTERM, wait a while, then send SIGKILL."""
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            async with TimeLimit(_STOP_TIMEOUT_S):
                await self._process.wait()
        except TimeoutError:
            log.warning("%s did not stop within %d s, killing it pid=%d", self.name, _STOP_TIMEOUT_S, self.pid)
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()


async def start(
    name: str, command: Sequence[str], log_path: Path, *, environment: Mapping[str, str] | None = None
) -> Child:
    """Run `command`, with its output written to `log_path`; `environment` is added to ours."""
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with log_path.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=_die_with_parent,
            env={**os.environ, **(environment or {})},
        )
    return Child(name, log_path, process)


def _die_with_parent() -> None:
    """In the child: ask the kernel for SIGTERM when our parent ends, however it ends (Linux)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
