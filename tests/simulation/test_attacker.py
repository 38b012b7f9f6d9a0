"""The attacker of `make attack` as an actor of the simulator: beside it, and under faults, every promise is kept."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest

import attack_frames
import seeds_support
from bookie.base.errors import BookieError
from bookie.base.ids import LedgerId
from bookie.ports import World
from bookie.ports.network import Address
from bookie.sim import faults, workload
from bookie.sim.cluster import PORT, SimCluster, SimSettings
from bookie.sim.injector import Injector
from bookie.sim.node import SimNode

SEEDS = 4
FAULTS_S = 20.0
BURST = 60
ANSWER_NS = 2_000_000_000


class Attacker:
    """Dials one bookie after the other, sends odd requests, reads some of the answers, and lets go."""

    def __init__(self, cluster: SimCluster, load: workload.Workload, draw: random.Random) -> None:
        self.sent = 0
        self.met: dict[str, int] = {}
        self._cluster, self._load, self._draw = cluster, load, draw
        self._node: SimNode = cluster.simulation.node("attacker", ())
        self._stops = False

    def start(self) -> None:
        self._node.spawn(self._run(self._node.begin()), "attacker")

    def stop(self) -> None:
        self._stops = True

    async def _run(self, world: World) -> None:
        while not self._stops:
            name = self._draw.choice(tuple(self._cluster.bookies))
            try:
                await self._visit(world, name)
            except BookieError as error:
                self.met[type(error).__name__] = self.met.get(type(error).__name__, 0) + 1
            await world.clock.sleep_until(world.clock.monotonic_ns() + self._draw.randrange(200_000_000))

    async def _visit(self, world: World, name: str) -> None:
        known = tuple(self._load.ledgers[-5:]) or (LedgerId(1),)
        frames = attack_frames.Frames(self._draw, known, claims=False)
        stream = await world.network.dial(Address(name, PORT), world.clock.monotonic_ns() + ANSWER_NS)
        try:
            version = self._draw.choice((2, 3))
            for _ in range(self._draw.randrange(1, 5)):
                stream.write([frames.next(version) for _ in range(self._draw.randrange(1, BURST))])
                self.sent += 1
                if self._draw.random() < 0.7:
                    # A machine without power says nothing, for ever.
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(ANSWER_NS / 1e9):
                            await stream.drained()
                            if not await stream.read():
                                return
        finally:
            stream.close()


@pytest.mark.parametrize("seed", [seeds_support.base_seed() + number for number in range(SEEDS)])
def test_a_fresh_seed_keeps_every_promise_beside_an_attacker(seed: int) -> None:
    draws = random.Random(f"attacked {seed}")
    swarm = faults.draw(draws)
    settings = SimSettings(bookies=4, journal_write_data=draws.random() < 0.5)
    # The wiretap reads the wire as honest requests; the oracle, and the reading of every ledger at the end, judge here.
    cluster = SimCluster(seed, settings, dials=faults.dials(swarm, seed), wiretap=False)
    load = workload.Workload(cluster, workload.draw(draws, bookies=4))
    injector = Injector(cluster, swarm, cluster.simulation.random("injector"), down_max=1)
    attacker = Attacker(cluster, load, draws)

    async def story(it: SimCluster) -> None:
        load.start()
        attacker.start()
        await injector.run(FAULTS_S)
        attacker.stop()
        await load.stop(timeout_s=600)
        await it.until_repaired(timeout_s=900)
        await workload.verify(it, load.ledgers)

    cluster.run(story, time_limit_s=7_200)

    print(
        f"seed {seed:#x}: {attacker.sent} bursts, met {attacker.met};"
        f" {cluster.oracle.entries_acknowledged} entries acknowledged"
    )
    assert attacker.sent
    assert not cluster.simulation.violations
