"""One living bookie under attack: what it costs, whether it answers, and what it must never say of honest entries.

Two oracles. Budget: bytes of memory, open files, the time of an honest add and a read, the growth of its log, sampled
beside the attack. Safety: entries that an honest client had acknowledged before the attack are read all the time, and
are always there, with their bytes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import attack_frames
import hostile_support
from bookie.base.errors import Status
from bookie.base.ids import EntryId, LedgerId
from bookie.base.units import MIB
from bookie.wire.messages import AddRequest, ReadRequest, Request, Response
from client_session import ClientSession

DEADLINE_S = 60.0
SAMPLE_S = 0.25
PROBE_LEDGER = LedgerId(2**49)
KEY = bytes(20)


class Broken(AssertionError):
    """A promise that the attack broke; the text says which. `told`: the end of the bookie's log, where it is known."""

    told = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Budget:
    """What a bookie may cost, however it is attacked. `log_bytes_per_s`: of lines that a stranger causes."""

    memory_bytes: int = 1024 * MIB
    answer_s: float = 20.0
    log_bytes_per_s: int = 64 * 1024


@dataclasses.dataclass(slots=True)
class Cost:
    """What it did cost, at the most."""

    memory_bytes: int = 0
    files: int = 0
    answer_s: float = 0.0
    log_bytes: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return (
            f"memory {self.memory_bytes / MIB:.0f} MiB, {self.files} open files, slowest honest answer"
            f" {1000 * self.answer_s:.0f} ms, {self.log_bytes / 1024:.0f} KiB of log in {self.seconds:.0f} s"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Honest:
    """Entries acknowledged before the attack: sealed bytes by entry id, on every bookie under attack."""

    ledger_id: LedgerId
    bodies: tuple[bytes, ...]


class Honour:
    """An honest connection, kept throughout: asks one request, waits for its answer."""

    def __init__(self, port: int) -> None:
        self._session: ClientSession[int] = ClientSession()
        self._stream = hostile_support.connected(port)
        self._numbers = itertools.count()

    def close(self) -> None:
        self._stream.close()

    def ask(self, request: Request) -> Response:
        number = next(self._numbers)
        self._stream.sendall(b"".join(self._session.send(request, number)))
        while True:
            chunk = self._stream.recv(1 << 16)
            if not chunk:
                raise Broken("the bookie closed the connection of a client that behaves")
            for asked, response in self._session.receive(chunk):
                if asked == number:
                    return response


class Target:
    """Use through `watched`. `check` raises Broken as soon as a promise is."""

    def __init__(self, pid: int, port: int, log: Path, honest: Honest, budget: Budget) -> None:
        self.pid, self.port, self.honest = pid, port, honest
        self.cost = Cost()
        self._log, self._budget = log, budget
        self._log_before = log.stat().st_size
        self._began_s = time.monotonic()
        self._broken: str | None = None
        self._ends = threading.Event()
        self._asked_s: float | None = None
        self._watcher = threading.Thread(target=self._watch, name="watcher")
        self._prober = threading.Thread(target=self._probe, name="prober")

    def start(self) -> None:
        self._watcher.start()
        self._prober.start()

    def stop(self) -> None:
        self._ends.set()
        self._watcher.join(DEADLINE_S)
        self._prober.join(DEADLINE_S)

    def check(self) -> None:
        """Raises Broken."""
        if self._broken is not None:
            raise Broken(self._broken)

    def connect(self) -> socket.socket:
        """A connection of the attacker's. Raises Broken when the bookie does not listen any more."""
        try:
            return hostile_support.connected(self.port)
        except ConnectionRefusedError as error:
            self.check()
            raise Broken(f"nobody listens on port {self.port} any more: {error}") from error

    # ---- the oracles -------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._ends.wait(SAMPLE_S) and self._broken is None:
            try:
                memory, files = hostile_support.resident_bytes(self.pid), hostile_support.files_of(self.pid)
            except (FileNotFoundError, ProcessLookupError, ValueError, IndexError):
                self._broken = f"the bookie ended: its process {self.pid} is gone"
                return
            cost, asked_s = self.cost, self._asked_s
            waited_s = time.monotonic() - asked_s if asked_s is not None else 0.0
            cost.seconds = time.monotonic() - self._began_s
            cost.memory_bytes, cost.files = max(cost.memory_bytes, memory), max(cost.files, files)
            cost.answer_s = max(cost.answer_s, waited_s)
            cost.log_bytes = self._log.stat().st_size - self._log_before
            if memory > self._budget.memory_bytes:
                self._broken = (
                    f"the bookie holds {memory / MIB:.0f} MiB, its budget is {self._budget.memory_bytes / MIB:.0f}"
                )
            if waited_s > self._budget.answer_s:
                self._broken = f"an honest request has waited {waited_s:.0f} s for its answer"
            if cost.log_bytes > self._budget.log_bytes_per_s * (cost.seconds + 10):
                self._broken = f"strangers caused {cost.log_bytes} bytes of log in {cost.seconds:.0f} s"

    def _probe(self) -> None:
        try:
            with contextlib.closing(Honour(self.port)) as honour:
                for number in itertools.count():
                    if self._ends.wait(0.05):
                        return
                    self._asked_s = time.monotonic()
                    self._probe_once(honour, number)
                    self._asked_s = None
        except (Broken, OSError) as error:
            if not self._ends.is_set():
                self._broken = self._broken or f"a client that behaves was not served: {error}"

    def _probe_once(self, honour: Honour, number: int) -> None:
        body = attack_frames.sealed(PROBE_LEDGER, EntryId(number), b"probe")
        added = honour.ask(AddRequest(0, 3, PROBE_LEDGER, EntryId(number), KEY, body))
        if added.status is not Status.EOK:
            raise Broken(f"an honest add was answered {added.status.name}")
        entry_id = EntryId(number % len(self.honest.bodies))
        read = honour.ask(ReadRequest(0, 3, self.honest.ledger_id, entry_id))
        if read.status is not Status.EOK or bytes(read.body) != self.honest.bodies[entry_id]:  # type: ignore[union-attr]
            raise Broken(
                f"acknowledged entry {entry_id} of {self.honest.ledger_id}: {read.status.name}, or other bytes"
            )


@contextlib.contextmanager
def watched(pid: int, port: int, log: Path, honest: Honest, budget: Budget) -> Iterator[Target]:
    """Watch a bookie until the body ends. Raises Broken at the end, if a promise was broken meanwhile."""
    target = Target(pid, port, log, honest, budget)
    target.start()
    try:
        yield target
    finally:
        target.stop()
    target.check()
