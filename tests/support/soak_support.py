"""A fleet of real bookie processes under load, one of them killed at a time: what `make soak` does for long."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import children
import java_fleet_support
import local_support
import noted_support
import port_support
import wait_support
from bookie.base import errors
from bookie.ports.admin import State
from bookie.rpc import calls
from bookie.rpc.client import AdminClient
from local_support import LocalBookie, LocalFleet

BOOKIES = 4  # one more than an ensemble, so that a writer can do without the one that is repaired
READY_TIMEOUT_S = 240.0
SESSION_TIMEOUT_MS = "6000"  # of official ones: one that comes back waits so long for the session of its life before
GRACE = "openLedgerRereplicationGracePeriod=2000\n"  # ledgers left open are recovered soon, else rounds are long


WITH, WITHOUT, OFFICIAL = "with journal", "without journal", "official"


class Member(Protocol):
    """A bookie that is killed now and then. `how` it runs: WITH, WITHOUT or OFFICIAL."""

    bookie_id: str
    how: str

    def kill(self) -> None:
        """As if power had gone."""
        ...

    def start(self, draw: random.Random) -> None:
        """Start it again, in a way that is drawn."""
        ...

    def is_whole(self) -> bool:
        """Whether it serves. AssertionError when it has ended."""
        ...

    def end(self) -> None: ...


class OurMember:
    """One of ours: killed, it comes back with its journal on or off."""

    def __init__(self, bookie: LocalBookie) -> None:
        self.bookie_id = bookie.bookie_id
        self.how = WITH
        self._bookie = bookie
        self._own: subprocess.Popen[str] | None = None  # None: the fleet's own process runs

    def kill(self) -> None:
        if self._own is None:
            local_support.kill(self._bookie)
            return
        self._own.kill()
        self._own.communicate()

    def start(self, draw: random.Random) -> None:
        self.how = WITH if draw.random() < 0.5 else WITHOUT
        config, log = Path(self._bookie.facts["config"]), Path(self._bookie.facts["log"])
        kept = [
            line
            for line in config.read_text(encoding="utf-8").splitlines(keepends=True)
            if not line.startswith(("journalW", "open"))
        ]
        config.write_text(
            "".join(kept) + f"journalWriteData={str(self.how == WITH).lower()}\n" + GRACE, encoding="utf-8"
        )
        with log.open("ab") as talk:
            self._own = children.spawn([*local_support.BOOKIE, "serve", "--config", str(config)], stderr=talk)

    def is_whole(self) -> bool:
        assert self._own is not None
        ended = self._own.poll() is not None
        assert not ended, f"{self.bookie_id} ended: {children.tail(Path(self._bookie.facts['log']))}"
        with contextlib.suppress(errors.BookieError), AdminClient(self._bookie.admin) as admin:
            return admin.ask(calls.storage_report(fresh=True)).state is State.SERVING
        return False

    def end(self) -> None:
        if self._own is not None:
            children.end(self._own, timeout_s=local_support.STOP_TIMEOUT_S)


class OfficialMember:
    """An official Java bookie, in the same fleet."""

    how = OFFICIAL

    def __init__(self, uri: str, folder: Path, port: int) -> None:
        self.bookie_id = f"127.0.0.1:{port}"
        self._life = contextlib.ExitStack()
        self._start = functools.partial(
            java_fleet_support.bookies, uri, folder, 1, ports=[port], settings={"zkTimeout": SESSION_TIMEOUT_MS}
        )
        self._pids: list[int] = []
        self._begin()

    def kill(self) -> None:
        local_support.end(self._pids[-1], signal.SIGKILL)
        self._life.close()

    def start(self, draw: random.Random) -> None:
        self._begin()

    def is_whole(self) -> bool:
        return True  # `start` waits until it is registered

    def end(self) -> None:
        self._life.close()

    def _begin(self) -> None:
        self._life.enter_context(self._start(started=self._pids))


@dataclasses.dataclass(slots=True)
class Round:
    """One kill: of whom, after how long under load, how it came back."""

    number: int
    bookie_id: str
    how_before: str
    how_after: str
    load_s: float
    back_s: float

    def __str__(self) -> str:
        return (
            f"round {self.number}: kill -9 {self.bookie_id} ({self.how_before}) after {self.load_s:.1f} s, back"
            f" ({self.how_after}) and repaired in {self.back_s:.1f} s"
        )


class Soak:
    """A fleet, its workload, and the kills. Use through `soaking`."""

    def __init__(self, fleet: LocalFleet, members: Sequence[Member], folder: Path, seed: int) -> None:
        self.fleet = fleet
        self.log = folder / "acknowledged"
        self.draw = random.Random(seed)
        self.rounds: list[Round] = []
        self._folder = folder
        self._members = members
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
        """Kill a bookie at a random moment, start it again, wait until it is repaired."""
        member = self.draw.choice(self._members)
        before, load_s = member.how, self.draw.uniform(0.3, 2.5)
        self._let_pass(load_s)
        member.kill()
        began = time.monotonic()
        member.start(self.draw)
        self._wait(member.is_whole, f"{member.bookie_id} to be repaired")
        done = Round(len(self.rounds) + 1, member.bookie_id, before, member.how, load_s, time.monotonic() - began)
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

    def _let_pass(self, seconds: float) -> None:
        """The load goes on for so long; time is what is drawn here, and nothing is waited for."""
        until = time.monotonic() + seconds
        wait_support.wait_until(lambda: time.monotonic() >= until, "time to pass", timeout_s=seconds + 60)
        assert self._writers is not None
        assert self._writers.poll() is None, children.tail(self._folder / "writers.log")

    def _wait(self, is_true: Callable[[], bool], what: str) -> None:
        wait_support.wait_until(is_true, what, timeout_s=READY_TIMEOUT_S)


@contextlib.contextmanager
def soaking(folder: Path, *, seed: int, official: int = 0) -> Iterator[Soak]:
    """Run a fleet in `folder` until the body ends. `official`: so many of its bookies are Java's."""
    with (
        local_support.fleet(folder / "data", folder / "fleet.log", bookies=BOOKIES - official) as fleet,
        contextlib.ExitStack() as lives,
    ):
        members: list[Member] = [OurMember(bookie) for bookie in fleet.bookies]
        for member in members:
            lives.callback(member.end)
        for port in port_support.free_ports(official):
            members.append(OfficialMember(fleet.uri, folder, port))
            lives.callback(members[-1].end)
        soak = Soak(fleet, members, folder, seed)
        lives.callback(soak.end_writing)
        yield soak
