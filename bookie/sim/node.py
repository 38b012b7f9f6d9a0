"""The parts of a simulated world and its machines, for a whole cluster, or for a test of one storage engine.

`Simulation` owns the loop, the network, the metadata service, the trace and each random stream of one seed. A `SimNode`
is a machine: its disks and its clock outlive its processes; each process gets a new `World` and a new `SimProcess`.
"""

import asyncio
import enum
import logging
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from bookie.ports import Host, World
from bookie.sim.clock import SimClock, Skew
from bookie.sim.disk import DiskFaults, SimDisk
from bookie.sim.disk_image import Image
from bookie.sim.entropy import SimEntropy
from bookie.sim.faults import Dials
from bookie.sim.loop import LIFE, SimFuture, SimLoop, SimProcess
from bookie.sim.metadata_store import Keeper, SimMetadataStores
from bookie.sim.network import Fabric, SimNetwork
from bookie.sim.ordered_store import SimOrderedStores
from bookie.sim.trace import Trace

T = TypeVar("T")


class NodeCrashed(Exception):
    """The node's process is gone, so that the director awaits its result in vain."""


class Defect(Exception):
    """The simulation met something that must not happen. The text names all of it."""


class ProcessEnd(enum.Enum):
    """How a process ends."""

    EXIT = "stop"  # by itself
    KILL = "kill"  # kill -9: the operating system keeps what was written, synced or not
    POWER_CUT = "power cut"


class _NoteHandler(logging.Handler):
    """Puts the product's own log lines into the trace, on the node and at the moment where they happened."""

    def __init__(self, simulation: "Simulation") -> None:
        super().__init__()
        self._simulation = simulation

    def emit(self, record: logging.LogRecord) -> None:
        life = LIFE.get()
        name = life.name if life is not None else "director"
        self._simulation.trace.note(self._simulation.loop.now_ns, name, record.getMessage())


class Simulation:
    """Everything that is shared between the nodes of one run."""

    def __init__(self, seed: int | str, *, dials: Dials | None = None, keep_trace: bool = False) -> None:
        self.seed = seed
        self.dials = dials or Dials()
        self.trace = Trace(keep=keep_trace)
        self.loop = SimLoop(seed)
        self.fabric = Fabric(self.loop, self.dials.network, self.random("network"), self.event)
        self.keeper = Keeper(self.loop, self.fabric, self.dials.metadata, self.random("metadata"), self.event)
        self.nodes: dict[str, SimNode] = {}
        self.violations: list[str] = []

    def random(self, purpose: str) -> random.Random:
        """Return the random stream of `purpose`: one for each, so that one more draw for a purpose moves no draw of
        another."""
        return random.Random(f"{self.seed} {purpose}")

    def event(self, node: str, what: str, facts: str = "") -> None:
        self.trace.event(self.loop.now_ns, node, what, facts)

    def violation(self, text: str) -> None:
        """Note a broken promise. The run goes on; `run` raises at its end."""
        self.violations.append(f"at {self.loop.time():.6f} s: {text}")
        self.event("director", "violation", text)

    def node(self, name: str, volumes: tuple[str, ...] = ("/data",)) -> "SimNode":
        """Return the machine of that name, built on first use."""
        if name not in self.nodes:
            self.nodes[name] = SimNode(self, name, volumes)
        return self.nodes[name]

    async def until(self, condition: Callable[[], bool], what: str, *, timeout_s: float = 120.0) -> None:
        """Let the others run until `condition` holds. Raises Defect, naming `what`, when it does not in time."""
        deadline_ns = self.loop.now_ns + int(timeout_s * 1e9)
        while not condition():
            if self.loop.now_ns >= deadline_ns:
                raise Defect(f"not in {timeout_s:.0f} s: {what}")
            await self.loop.sleep_ns(10_000_000)

    def run(self, story: Coroutine[Any, Any, T], *, time_limit_s: float = 3600.0) -> T:
        """Run one story to its end and close everything. Raises Defect for violations that checkers found and for
        errors that nobody handled."""
        logger, handler = logging.getLogger("bookie"), _NoteHandler(self)
        level = logger.level
        if self.trace.keep:
            logger.addHandler(handler)
            logger.setLevel(logging.INFO)
        try:
            result = self.loop.run(story, time_limit_s=time_limit_s)
            self.raise_defects()
            return result
        finally:
            if self.trace.keep:
                logger.removeHandler(handler)
                logger.setLevel(level)
            self.loop.close()

    def raise_defects(self) -> None:
        found = self.violations + self.loop.failures
        if found:
            raise Defect(f"seed {self.seed}: " + "; ".join(found[:10]))

    def digest(self) -> str:
        """Return a digest, equal for two runs exactly when they did the same: events, scheduling and all random draws
        of the loop."""
        return f"{self.trace.digest()}-{self.loop.fingerprint:012x}-{self.loop.steps}"


async def ended(tasks: Sequence["asyncio.Task[None]"], *, timeout_s: float) -> None:
    """Wait until `tasks` have ended. Raises Defect naming those that do not end in time, and what a task raised."""
    _, pending = await asyncio.wait(tasks, timeout=timeout_s)
    if pending:
        names = " ".join(sorted(task.get_name() for task in pending))
        raise Defect(f"not ended within {timeout_s:.0f} s: {names}")
    for task in tasks:
        task.result()


class SimNode:
    """One machine. `begin` starts a process on it, `end` ends it in one of three ways."""

    def __init__(self, simulation: Simulation, name: str, volumes: tuple[str, ...]) -> None:
        self.simulation = simulation
        self.name = name
        self.image = Image(name)
        for path in volumes:
            self.image.add_volume(path)
        self.random = simulation.random(f"node {name}")
        self.disk_faults: DiskFaults = simulation.dials.disk(name)
        self.skew: Skew = simulation.dials.skew(name)
        self.starts = 0
        self.pod_uid = ""  # of the pod whose container the next process is; "": each process is a pod of its own
        self.life: SimProcess | None = None
        self.world: World
        self.disk: SimDisk
        self._network: SimNetwork
        self._calls: list[SimFuture] = []

    def begin(self) -> World:
        """Start a process: a new life and a world over what the disks hold."""
        assert self.life is None, f"{self.name} runs already"
        simulation, loop = self.simulation, self.simulation.loop
        self.starts += 1
        self.life = life = loop.begin_life(self.name)
        simulation.fabric.power_on(self.name)
        clock = SimClock(loop, life, self.skew)
        self.disk = SimDisk(loop, life, self.image, self.disk_faults, self.random)
        self._network = SimNetwork(simulation.fabric, life, self.name, clock)
        seed = f"{simulation.seed} {self.name} {self.starts}"
        self.world = World(
            clock=clock,
            disk=self.disk,
            ordered_stores=SimOrderedStores(self.disk),
            network=self._network,
            metadata_stores=SimMetadataStores(simulation.keeper, life, self.name),
            entropy=SimEntropy(f"entropy {seed}"),
            host=Host(name=self.name, pod_uid=self.pod_uid or f"pod-{self.name}-{self.starts}"),
        )
        self.simulation.event(self.name, "start", f"life={self.starts}")
        return self.world

    def end(self, how: ProcessEnd = ProcessEnd.KILL) -> None:
        """End the process. Any code may call this, also in the middle of one of the process's disk operations."""
        if self.life is None:
            return
        life, self.life = self.life, None
        self.simulation.loop.end_life(life)
        keeps_prefix = self.disk_faults.keeps_unflushed_batches
        if how is ProcessEnd.POWER_CUT:
            self.image.power_cut(self.random, keeps_prefix=keeps_prefix)
            self.simulation.fabric.power_off(self.name)
        else:
            self.image.process_ended(self.random, keeps_prefix=keeps_prefix)
        self._network.process_ended(silently=how is ProcessEnd.POWER_CUT)
        self.simulation.event(self.name, how.value)
        for future in self._calls:
            if not future.done():
                future.set_exception(NodeCrashed(self.name))
        self._calls.clear()

    def pause(self) -> None:
        """Pause the process as SIGSTOP does, until `resume`; its connections stay, its sessions end."""
        assert self.life is not None, f"{self.name} does not run"
        self.simulation.event(self.name, "pause")
        self.simulation.loop.pause_life(self.life)

    def resume(self) -> None:
        """Let a paused process go on, as SIGCONT does; do nothing if it has ended."""
        if self.life is not None:
            self.simulation.event(self.name, "resume")
            self.simulation.loop.resume_life(self.life)

    def spawn(self, coroutine: Coroutine[Any, Any, Any], name: str = "") -> None:
        """Run a task on this node that nobody waits for."""
        assert self.life is not None, f"{self.name} does not run"
        self.simulation.loop.spawn(self.life, coroutine, name)

    async def do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run `coroutine` on this node and wait for its result from outside. Raises NodeCrashed when the node ends."""
        if self.life is None:
            coroutine.close()
            raise NodeCrashed(self.name)
        future = self.simulation.loop.create_future()
        self._calls.append(future)
        task = self.simulation.loop.spawn(self.life, coroutine)

        def finished(done: Any) -> None:
            if future.done():
                _ = done.cancelled() or done.exception()
            elif done.cancelled():
                future.cancel()
            elif (error := done.exception()) is not None:
                future.set_exception(error)
            else:
                future.set_result(done.result())

        task.add_done_callback(finished)
        try:
            result: T = await future
            return result
        finally:
            if future in self._calls:
                self._calls.remove(future)
            if not task.done():
                task.cancel()

    def crash_at_operation(self, operation: int, how: ProcessEnd = ProcessEnd.POWER_CUT) -> None:
        """End the current process in the middle of its `operation`-th disk operation from now."""
        self.disk.crash_at_operation = self.disk.operations + operation
        self.disk.on_crash = lambda: self.end(how)
