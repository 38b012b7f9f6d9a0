"""Builders for tests on the simulated world: a loop that is closed at the end, and single ports without a cluster."""

import functools
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from bookie.ports import Host, World
from bookie.sim import clock, disk, disk_image, entropy, loop, metadata_store, network, ordered_store
from bookie.sim.cluster import SimCluster

T = TypeVar("T")


class Machine:
    """One simulated machine with all ports, for tests that need no cluster. `begin` starts a process on it."""

    def __init__(self, seed: int = 1, *, name: str = "machine", volumes: tuple[str, ...] = ("/data",)) -> None:
        self.loop = loop.SimLoop(seed)
        self.random = random.Random(f"machine {seed}")
        self.name = name
        self.image = disk_image.Image(name)
        for path in volumes:
            self.image.add_volume(path)
        self.disk_faults = disk.DiskFaults()
        self.fabric = network.Fabric(self.loop, network.NetworkFaults(), random.Random(f"net {seed}"))
        self.keeper = metadata_store.Keeper(
            self.loop, self.fabric, metadata_store.MetadataFaults(), random.Random(f"zk {seed}")
        )
        self.life = self.loop.director
        self.disk: disk.SimDisk

    def begin(self, life: loop.SimProcess | None = None, *, name: str | None = None) -> World:
        """The world of a new process (in the director's life unless another is given)."""
        self.life = life or self.loop.director
        host = name or self.name
        node_clock = clock.SimClock(self.loop, self.life, clock.Skew())
        self.disk = disk.SimDisk(self.loop, self.life, self.image, self.disk_faults, self.random)
        return World(
            clock=node_clock,
            disk=self.disk,
            ordered_stores=ordered_store.SimOrderedStores(self.disk),
            network=network.SimNetwork(self.fabric, self.life, host, node_clock),
            metadata_stores=metadata_store.SimMetadataStores(self.keeper, self.life, host),
            entropy=entropy.SimEntropy(host),
            host=Host(name=host),
        )

    def power_cut(self, *, keeps_prefix: bool = True) -> None:
        """What is not synced meets its fate. Begin a new process afterwards."""
        self.image.power_cut(self.random, keeps_prefix=keeps_prefix)

    def run(self, story: Callable[[], Coroutine[Any, Any, T]], *, time_limit_s: float = 3600.0) -> T:
        """Run one story to its end; defects that nobody handled fail it too."""
        try:
            result = self.loop.run(story(), time_limit_s=time_limit_s)
            assert not self.loop.failures, self.loop.failures
            return result
        finally:
            self.loop.close()


def on_machine(story: Callable[[Machine], Coroutine[Any, Any, T]], *arguments: Any, **settings: Any) -> T:
    """Run one story on a machine made with these `arguments` and `settings`."""
    machine = Machine(*arguments, **settings)
    return machine.run(functools.partial(story, machine))


def on_cluster(
    story: Callable[[SimCluster], Coroutine[Any, Any, T]],
    seed: int | str,
    *,
    time_limit_s: float = 3600.0,
    **settings: Any,
) -> T:
    """Run one story on a whole simulated cluster made with these `settings`."""
    return SimCluster(seed, **settings).run(story, time_limit_s=time_limit_s)
