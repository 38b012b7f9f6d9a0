"""Plays the operator for bookies that wait for a grant: late, twice, and with what it saw too long ago.

It grants only what a bookie reports as lost, as the real one does. What a bookie takes is for the bookie to decide; the
oracle sees what comes of it.
"""

import asyncio
import random
from collections import Counter

from bookie.base.errors import BookieError
from bookie.ports.admin import Grant, State, Verdict
from bookie.sim.cluster import BookieNode, SimCluster
from bookie.sim.node import NodeCrashed, ended


class Grants:
    """Looks at every bookie now and then, until `stop`. `counts`: grants by what became of them."""

    def __init__(self, cluster: SimCluster, random_: random.Random) -> None:
        self.counts: Counter[str] = Counter()
        self._cluster = cluster
        self._random = random_
        self._is_stopping = False
        self._kept: dict[str, Grant] = {}  # made from an earlier report, and not sent then
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks.append(self._cluster.simulation.loop.create_task(self._run(), name="grants"))

    async def stop(self, *, timeout_s: float) -> None:
        """Stop; call when every bookie is repaired, since nobody else would let one begin anew."""
        self._is_stopping = True
        await ended(self._tasks, timeout_s=timeout_s)

    async def _run(self) -> None:
        while not self._is_stopping:
            await asyncio.sleep(self._random.random() * 3)
            for bookie in self._cluster.bookies.values():
                if bookie.state is State.WAITING_GRANT:
                    try:
                        await self._grant(bookie)
                    except (NodeCrashed, BookieError) as error:
                        self.counts[f"grant: {type(error).__name__}"] += 1

    async def _grant(self, bookie: BookieNode) -> None:
        report = await bookie.report()
        if report.verdict is not Verdict.LOST:
            return
        kept = self._kept.pop(bookie.name, None)
        how = self._random.random()
        if kept is not None and how < 0.5:
            await bookie.send(kept)
            self.counts["old grant"] += 1
        elif how < 0.7:
            grant = bookie.grant_for(report)
            await bookie.send(grant)
            self.counts["grant"] += 1
            if how < 0.6:  # its answer was lost, or another operator does the same
                await bookie.send(grant)
        else:
            self._kept[bookie.name] = bookie.grant_for(report)
