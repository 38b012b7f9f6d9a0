"""Real bookies on machines of their own, and every fault that a machine can have: what `make soak` draws from.

Writers in another place note each acknowledged entry. A fault is begun, lasts, is lifted; the bookie that it hit must
then be whole again, by itself where its process lives, started again where it ended. At the end all is read back.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import chaos_disks
import chaos_network
import children
import local_support
import noted_support
import wait_support
from bookie.local import layout
from chaos_disks import LoopDisk
from chaos_network import Machine
from zookeeper_support import ZooKeeper

BOOKIES = 4  # one more than an ensemble
WHOLE_TIMEOUT_S = 300.0
SESSION_S = 6  # of the local layout; a fault may be shorter or longer
CLOCK = """
import time
_time, _time_ns = time.time, time.time_ns
def _offset_s():
    try:
        with open({path!r}) as file:
            return float(file.read() or 0)
    except (OSError, ValueError):
        return 0.0
time.time = lambda: _time() + _offset_s()
time.time_ns = lambda: _time_ns() + int(_offset_s() * 1e9)
"""


@dataclass(slots=True)
class ChaosBookie:
    """One bookie, its machine, its disk, its process."""

    plan: layout.LocalBookie
    machine: Machine
    disk: LoopDisk
    clock: Path
    process: subprocess.Popen[str] | None = None

    @property
    def name(self) -> str:
        return f"bookie-{self.plan.number}"

    def start(self) -> None:
        environment = f"PYTHONPATH={self.clock.parent}:{os.environ.get('PYTHONPATH', '')}"
        command = ["env", environment, *local_support.BOOKIE, "serve", "--config", str(self.plan.config)]
        with self.plan.log.open("ab") as talk:
            self.process = children.spawn([*self.machine.enter, *command], stderr=talk, stdout=subprocess.DEVNULL)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid  # `nsenter` and `env` become the bookie

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def end(self, *, kill: bool) -> None:
        if self.process is None:
            return
        if self.is_running():
            (self.process.kill if kill else self.process.terminate)()
        try:
            self.process.wait(timeout=120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def state(self) -> str:
        """What it says of itself on its own machine; empty while it does not answer."""
        admin = f"127.0.0.1:{self.plan.admin_port}"
        command = [*self.machine.enter, *local_support.BOOKIE, "integrity", "report", "--admin", admin, "--json"]
        told = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        with contextlib.suppress(ValueError):
            return str(json.loads(told.stdout).get("state", ""))
        return ""


class Chaos:
    """Use through `chaos`. `fault` begins, lifts and judges one drawn fault; `verify` reads everything back."""

    def __init__(self, folder: Path, zookeeper: ZooKeeper, bookies: list[ChaosBookie], seed: int) -> None:
        self.bookies = bookies
        self.zookeeper = zookeeper
        self.draw = random.Random(f"chaos {seed}")
        self.log = folder / "acknowledged"
        self._folder = folder
        self._writers: subprocess.Popen[str] | None = None

    @property
    def uri(self) -> str:
        return self.zookeeper.uri

    def start(self, rate_per_s: float) -> None:
        """Bookies first, then writers that note what was acknowledged."""
        for bookie in self.bookies:
            bookie.start()
        self._wait(lambda: all(bookie.state() == "SERVING" for bookie in self.bookies), "the fleet to serve")
        arguments = ["--metadata-service-uri", self.uri, "--log", str(self.log), "--rate", str(rate_per_s)]
        with (self._folder / "writers.log").open("ab") as talk:
            command = [*local_support.BOOKIE, "workload", "run", *arguments, "--kill-every-s", "7"]
            self._writers = children.spawn(command, stderr=talk, stdout=subprocess.DEVNULL)
        self._wait(lambda: self.acknowledged() > 100, "the first acknowledgements")

    def acknowledged(self) -> int:
        return noted_support.acknowledged(self.log)

    def fault(self, name: str | None = None) -> str:
        """Begin one, let it last, lift it, wait until the bookie is whole; return what was done."""
        bookie = self.draw.choice(self.bookies)
        name = self.draw.choice(tuple(FAULTS)) if name is None else name
        lasts_s = self.draw.choice((0.5, 2.0, SESSION_S * 0.7, SESSION_S * 2.0))
        before = self.acknowledged()
        began = time.monotonic()
        with FAULTS[name](self, bookie):
            self._let_pass(lasts_s)
        self._until_whole(bookie)
        return (
            f"{name} at {bookie.name} for {lasts_s:.1f} s, whole after {time.monotonic() - began - lasts_s:.1f} s,"
            f" {self.acknowledged() - before} entries acknowledged meanwhile"
        )

    def verify(self) -> dict[str, Any]:
        """End the writers, read everything back that they noted; return the verdict of `bookie workload verify`."""
        self._end_writing()
        return noted_support.verdict(self.uri, self.log)

    def end(self) -> None:
        self._end_writing()
        for bookie in self.bookies:
            bookie.end(kill=True)

    # ---- faults ------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def killed(self, bookie: ChaosBookie) -> Iterator[None]:
        """kill -9; back with its journal on or off, as drawn."""
        bookie.end(kill=True)
        lines = bookie.plan.config.read_text().splitlines(keepends=True)
        is_journaled = str(self.draw.random() < 0.5).lower()
        kept = [line for line in lines if not line.startswith("journalWriteData")]
        bookie.plan.config.write_text("".join(kept) + f"journalWriteData={is_journaled}\n")
        yield

    @contextlib.contextmanager
    def paused(self, bookie: ChaosBookie) -> Iterator[None]:
        """SIGSTOP: alive, silent, and back with everything it believed before."""
        os.kill(bookie.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(bookie.pid, signal.SIGCONT)

    @contextlib.contextmanager
    def cut_from_zookeeper(self, bookie: ChaosBookie) -> Iterator[None]:
        with self._cut(bookie, self.zookeeper.host):
            yield

    @contextlib.contextmanager
    def cut_from_writers(self, bookie: ChaosBookie) -> Iterator[None]:
        with self._cut(bookie, chaos_network.HERE):
            yield

    @contextlib.contextmanager
    def cut_from_all(self, bookie: ChaosBookie) -> Iterator[None]:
        others = [other.machine.address for other in self.bookies if other is not bookie]
        with contextlib.ExitStack() as stack:
            for address in (self.zookeeper.host, chaos_network.HERE, *others):
                stack.enter_context(self._cut(bookie, address))
            yield

    @contextlib.contextmanager
    def _cut(self, bookie: ChaosBookie, address: str) -> Iterator[None]:
        bookie.machine.cut_off(address)
        try:
            yield
        finally:
            bookie.machine.reach(address)

    @contextlib.contextmanager
    def zookeeper_frozen(self, bookie: ChaosBookie) -> Iterator[None]:
        with self.zookeeper.frozen():
            yield

    @contextlib.contextmanager
    def zookeeper_killed(self, bookie: ChaosBookie) -> Iterator[None]:
        self.zookeeper.stop()
        try:
            yield
        finally:
            self.zookeeper.start()

    @contextlib.contextmanager
    def disk_full(self, bookie: ChaosBookie) -> Iterator[None]:
        bookie.disk.fill()
        try:
            yield
        finally:
            bookie.disk.empty()

    @contextlib.contextmanager
    def disk_slow(self, bookie: ChaosBookie) -> Iterator[None]:
        """No sync ends while it lasts."""
        bookie.disk.freeze()
        try:
            yield
        finally:
            bookie.disk.thaw()

    @contextlib.contextmanager
    def disk_failing(self, bookie: ChaosBookie) -> Iterator[None]:
        """Every write is refused, for good; a person mends the disk and starts the bookie again."""
        bookie.disk.fail()
        try:
            yield
        finally:
            bookie.end(kill=True)
            bookie.disk.mend()

    @contextlib.contextmanager
    def clock_jumped(self, bookie: ChaosBookie) -> Iterator[None]:
        """The wall clock, by hours in either direction, and back."""
        bookie.clock.write_text(str(self.draw.choice((-86_400, -3600, 3600, 86_400 * 400))))
        try:
            yield
        finally:
            bookie.clock.write_text("0")

    @contextlib.contextmanager
    def memory_short(self, bookie: ChaosBookie) -> Iterator[None]:
        """Not a MiB more than it has now."""
        pages = int(Path(f"/proc/{bookie.pid}/statm").read_text(encoding="utf-8").split()[0])
        with self._limited(bookie, resource.RLIMIT_AS, pages * resource.getpagesize() + (1 << 20)):
            yield

    @contextlib.contextmanager
    def descriptors_short(self, bookie: ChaosBookie) -> Iterator[None]:
        """Not one file or connection more than it has now."""
        in_use = max(int(path.name) for path in Path(f"/proc/{bookie.pid}/fd").iterdir()) + 1
        with self._limited(bookie, resource.RLIMIT_NOFILE, in_use):
            yield

    @contextlib.contextmanager
    def _limited(self, bookie: ChaosBookie, what: int, limit: int) -> Iterator[None]:
        soft, hard = resource.prlimit(bookie.pid, what)
        resource.prlimit(bookie.pid, what, (limit, hard))
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(bookie.pid, what, (soft, hard))

    # ---- conditions --------------------------------------------------------------------------------------------------

    def _until_whole(self, bookie: ChaosBookie) -> None:
        last = ["nothing"]

        def is_whole() -> bool:
            if not bookie.is_running():  # it ended, which a fault may make it do: whoever watches it starts it again
                bookie.end(kill=True)
                bookie.start()
            last[0] = bookie.state()
            return last[0] == "SERVING"

        try:
            self._wait(is_whole, f"{bookie.name} to be whole")
        except AssertionError as error:
            raise AssertionError(f"{error}; it says {last[0]!r}: {children.tail(bookie.plan.log)}") from None

    def _let_pass(self, seconds: float) -> None:
        """The fault lasts so long; time is what is drawn here, and nothing is waited for."""
        until = time.monotonic() + seconds
        wait_support.wait_until(lambda: time.monotonic() >= until, "time to pass", timeout_s=seconds + 60)
        assert self._writers is not None
        assert self._writers.poll() is None, f"the writers ended: {children.tail(self._folder / 'writers.log')}"

    def _wait(self, is_true: Callable[[], bool], what: str) -> None:
        wait_support.wait_until(is_true, what, timeout_s=WHOLE_TIMEOUT_S)

    def _end_writing(self) -> None:
        if self._writers is not None:
            children.end(self._writers, timeout_s=60)
            self._writers = None


FAULTS: dict[str, Callable[[Chaos, ChaosBookie], contextlib.AbstractContextManager[None]]] = {
    "kill -9": Chaos.killed,
    "SIGSTOP": Chaos.paused,
    "cut from ZooKeeper": Chaos.cut_from_zookeeper,
    "cut from writers": Chaos.cut_from_writers,
    "cut from all": Chaos.cut_from_all,
    "ZooKeeper frozen": Chaos.zookeeper_frozen,
    "ZooKeeper killed": Chaos.zookeeper_killed,
    "disk full": Chaos.disk_full,
    "disk slow": Chaos.disk_slow,
    "disk failing": Chaos.disk_failing,
    "clock jumped": Chaos.clock_jumped,
    "memory short": Chaos.memory_short,
    "descriptors short": Chaos.descriptors_short,
}


@contextlib.contextmanager
def chaos(folder: Path, *, seed: int) -> Iterator[Chaos]:
    """Make machines, disks and a ZooKeeper in `folder` until the body ends. Needs root (`chaos_network.why_not`)."""
    with contextlib.ExitStack() as stack:
        network = stack.enter_context(chaos_network.network())
        keeper = network.machine(2)
        zookeeper = ZooKeeper(folder / "zookeeper", host=keeper.address, enter=keeper.enter)
        stack.callback(zookeeper.stop)
        zookeeper.start()
        bookies = [_bookie(folder, number, network, zookeeper.uri, stack) for number in range(1, BOOKIES + 1)]
        subprocess.run(
            [*local_support.BOOKIE, "cluster", "init", "--metadata-service-uri", zookeeper.uri],
            check=True,
            capture_output=True,
            timeout=120,
        )
        made = Chaos(folder, zookeeper, bookies, seed)
        stack.callback(made.end)
        yield made


def _bookie(
    folder: Path, number: int, network: chaos_network.Network, uri: str, stack: contextlib.ExitStack
) -> ChaosBookie:
    machine = network.machine(10 + number)
    disk = stack.enter_context(chaos_disks.loop_disk(folder, f"disk-{number}"))
    home, config = disk.place / "bookie", folder / f"bookie-{number}.conf"
    plan = layout.LocalBookie(number, 3181, 3182, 3183, home, config, folder / f"bookie-{number}.log")
    layout.write_config(plan, uri, journal_write_data=True, regeneration="gated")
    changes = {
        "bookieId": f"{machine.address}:3181",
        "advertisedAddress": machine.address,
        "listeningAddress": "",
        "openLedgerRereplicationGracePeriod": "2000",  # ledgers left open are recovered soon, else rounds are long
    }
    kept = [line for line in config.read_text().splitlines() if line.partition("=")[0] not in changes]
    config.write_text("\n".join([*kept, *(f"{key}={text}" for key, text in changes.items() if text)]) + "\n")
    clock = folder / f"clock-{number}"
    clock.mkdir()
    (clock / "sitecustomize.py").write_text(CLOCK.format(path=str(clock / "offset")))
    return ChaosBookie(plan, machine, disk, clock / "offset")


def why_not() -> str:
    """Return why no such fleet can be had here; empty when it can."""
    return chaos_network.why_not() or chaos_disks.why_not()
