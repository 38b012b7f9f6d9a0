"""What happens within one process on one simulated machine."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from bookie.ports import World
from bookie.sim.node import SimNode, Simulation


def one_life(simulation: Simulation, tell: Callable[[World, SimNode], Coroutine[Any, Any, object]]) -> None:
    """Run `tell` in a process that begins, and ends in an orderly way once it is told."""

    async def director() -> None:
        node = simulation.node("bookie")
        world = node.begin()
        await node.do(tell(world, node))
        node.end()

    simulation.run(director())
