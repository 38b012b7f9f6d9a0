"""A fleet of real bookie processes under load, one of them killed at a time: what `make soak` does for long."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import children
import local_support
import noted_support
import wait_support
from bookie.base import errors
from bookie.ports.admin import State
from bookie.rpc import calls
from bookie.rpc.client import AdminClient
from local_support import LocalBookie, LocalFleet

BOOKIES = 4  # one more than an ensemble, so that a writer can do without the one that is repaired
READY_TIMEOUT_S = 240.0
GRACE = "openLedgerRereplicationGracePeriod=2000\n"  # ledgers left open are recovered soon, else rounds are long


@dataclasses.dataclass(slots=True)
class Round:
    """One kill: of whom, after how long under load, how it came back."""

    number: int
    bookie_id: str
    journal_before: bool
    journal_after: bool
    load_s: float
    back_s: float

    def __str__(self) -> str:
        words = {True: "with", False: "without"}
        return (
            f"round {self.number}: kill -9 {self.bookie_id} ({words[self.journal_before]} journal) after"
            f" {self.load_s:.1f} s, back ({words[self.journal_after]}) and repaired in {self.back_s:.1f} s"
        )


class Soak:
    """A fleet, its workload, and the kills. Use through `soaking`."""

    def __init__(self, fleet: LocalFleet, folder: Path, seed: int) -> None:
        self.fleet = fleet
        self.log = folder / "acknowledged"
        self.draw = random.Random(seed)
        self.rounds: list[Round] = []
        self._folder = folder
        self._own: dict[str, subprocess.Popen[str]] = {}
        self._journaled = {bookie.bookie_id: True for bookie in fleet.bookies}
        self._writers: subprocess.Popen[str] | None = None

    def start_writing(self, rate_per_s: float) -> None:
        """Writers that stay, writers that leave, writers that are killed: each notes what was acknowledged."""
        arguments = ["--metadata-service-uri", self.fleet.uri, "--log", str(self.log), "--rate", str(rate_per_s)]
        with (self._folder / "writers.log").open("ab") as talk:
            self._writers = children.spawn(
                [*local_support.BOOKIE, "workload", "run", *arguments, "--kill-every-s", "7"],
                stderr=talk,
                stdout=subprocess.DEVNULL,
            )
        self._wait(lambda: self.acknowledged() > 100, "the first acknowledgements")

    def acknowledged(self) -> int:
        return noted_support.acknowledged(self.log)

    def kill_one(self) -> Round:
        """Kill a bookie at a random moment, start it again with its journal on or off, wait until it is repaired."""
        bookie = self.draw.choice(self.fleet.bookies)
        before, after = self._journaled[bookie.bookie_id], self.draw.random() < 0.5
        load_s = self.draw.uniform(0.3, 2.5)
        self._let_pass(load_s)
        self._kill(bookie)
        config = Path(bookie.facts["config"])
        kept = [
            line for line in config.read_text().splitlines(keepends=True) if not line.startswith(("journalW", "open"))
        ]
        config.write_text("".join(kept) + f"journalWriteData={str(after).lower()}\n" + GRACE)
        began = time.monotonic()
        with Path(bookie.facts["log"]).open("ab") as talk:
            self._own[bookie.bookie_id] = children.spawn(
                [*local_support.BOOKIE, "serve", "--config", str(config)], stderr=talk
            )
        self._wait(lambda: self._is_whole(bookie), f"{bookie.bookie_id} to be repaired")
        self._journaled[bookie.bookie_id] = after
        done = Round(len(self.rounds) + 1, bookie.bookie_id, before, after, load_s, time.monotonic() - began)
        self.rounds.append(done)
        return done

    def verify(self) -> dict[str, Any]:
        """End the writers, read everything back that they noted; return the verdict of `bookie workload verify`."""
        self.end_writing()
        return noted_support.verdict(self.fleet.uri, self.log)

    def end_writing(self) -> None:
        if self._writers is not None:
            children.end(self._writers, timeout_s=60)
            self._writers = None

    def end(self) -> None:
        self.end_writing()
        for process in self._own.values():
            children.end(process, timeout_s=local_support.STOP_TIMEOUT_S)

    def _kill(self, bookie: LocalBookie) -> None:
        own = self._own.pop(bookie.bookie_id, None)
        if own is None:
            local_support.kill(bookie)
            return
        own.kill()
        own.communicate()

    def _is_whole(self, bookie: LocalBookie) -> bool:
        process = self._own[bookie.bookie_id]
        assert process.poll() is None, f"{bookie.bookie_id} ended: {children.tail(Path(bookie.facts['log']))}"
        with contextlib.suppress(errors.BookieError), AdminClient(bookie.admin) as admin:
            return admin.ask(calls.storage_report(fresh=True)).state is State.SERVING
        return False

    def _let_pass(self, seconds: float) -> None:
        """The load goes on for so long; time is what is drawn here, and nothing is waited for."""
        until = time.monotonic() + seconds
        wait_support.wait_until(lambda: time.monotonic() >= until, "time to pass", timeout_s=seconds + 60)
        assert self._writers is not None
        assert self._writers.poll() is None, children.tail(self._folder / "writers.log")

    def _wait(self, is_true: Callable[[], bool], what: str) -> None:
        wait_support.wait_until(is_true, what, timeout_s=READY_TIMEOUT_S)


@contextlib.contextmanager
def soaking(folder: Path, *, seed: int) -> Iterator[Soak]:
    """Run a fleet in `folder` until the body ends."""
    with local_support.fleet(folder / "data", folder / "fleet.log", bookies=BOOKIES) as fleet:
        soak = Soak(fleet, folder, seed)
        try:
            yield soak
        finally:
            soak.end()
