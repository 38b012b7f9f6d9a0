"""The oracle as the demo sees it: the `bookie workload` commands, wherever they run (here, or in a pod).

One process is followed for its samples; questions are commands of their own. It never knows what a fleet is.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import children

ANSWER_TIMEOUT_S = 600.0
STOP_TIMEOUT_S = 30.0


class OracleFailed(Exception):
    """A command of the oracle ended badly; the text is what it said."""


class Oracle:
    """`follow` prints samples as JSON lines; `command` + verb + arguments answers a question with JSON."""

    def __init__(
        self, follow: Sequence[str], command: Sequence[str], *, uri: str, log: str, talk: Path, restarts: bool = False
    ) -> None:
        """`restarts`: following may break and is begun again (a log stream of a pod); otherwise its end is an error."""
        self._follow, self._command = list(follow), list(command)
        self._uri, self._log, self._talk, self._restarts = uri, log, talk, restarts
        self._process: subprocess.Popen[str] | None = None
        self._closing = threading.Event()
        self._reader = threading.Thread(target=self._read, name="oracle", daemon=True)
        self.latest: dict[str, Any] = {}
        self.on_sample: Callable[[dict[str, Any]], None] = lambda sample: None

    def start(self) -> None:
        self._spawn()
        self._reader.start()

    def _spawn(self) -> None:
        with self._talk.open("ab") as talk:
            self._process = children.spawn(self._follow, stderr=talk)

    def _read(self) -> None:
        while not self._closing.is_set():
            assert self._process is not None
            assert self._process.stdout is not None
            for line in self._process.stdout:
                if line.startswith("{"):
                    self.latest = json.loads(line)
                    self.on_sample(self.latest)
            if not self._restarts or self.latest.get("stopped"):
                return
            self._closing.wait(1.0)
            if not self._closing.is_set():
                children.end(self._process, timeout_s=STOP_TIMEOUT_S)
                self._spawn()

    @property
    def has_ended(self) -> bool:
        """True when nobody will bring samples any more."""
        return not self._reader.is_alive()

    @property
    def acknowledged(self) -> int:
        return int(self.latest.get("acknowledged", 0))

    def ask(self, verb: str, *words: str, needs_uri: bool = True, needs_log: bool = True) -> dict[str, Any]:
        """Return the JSON answer of `bookie workload VERB`, whatever its exit code; {} when it printed nothing."""
        argv = [*self._command, verb, *words]
        argv += ["--metadata-service-uri", self._uri] if needs_uri else []
        argv += ["--log", self._log] if needs_log else []
        done = subprocess.run(argv, capture_output=True, text=True, timeout=ANSWER_TIMEOUT_S, check=False)
        with self._talk.open("a") as talk:
            talk.write(f"$ bookie workload {verb} {' '.join(words)} -> {done.returncode}\n{done.stderr}")
        if done.stdout.strip():
            answer: dict[str, Any] = json.loads(done.stdout)
            return answer
        if done.returncode != 0:
            raise OracleFailed(f"`bookie workload {verb}` ended with {done.returncode}: {done.stderr.strip()[-600:]}")
        return {}

    def stop_writing(self) -> None:
        """End the writers; their logs are whole on return."""
        self.ask("stop", "--json", needs_uri=False)

    def close(self) -> None:
        """End what is followed."""
        self._closing.set()
        process = self._process
        if process is not None and process.poll() is None:
            process.terminate()
        if self._reader.is_alive():
            self._reader.join(timeout=STOP_TIMEOUT_S)
        if process is not None:
            children.end(process, timeout_s=STOP_TIMEOUT_S)
