"""Starts second processes of a bookie id: a bookie is thought dead, cut off or stopped, and made anew elsewhere, empty.

The old process comes back whenever it likes. In the end one of the two is the bookie, and the other has stopped by
itself; the oracle finds out if an entry that the old one acknowledged in between is lost. An episode counts as a loss
of the old one's data.
"""

import asyncio
import random
from collections import Counter

from bookie.base.ids import BookieId
from bookie.metadata import cookie, paths
from bookie.ports.time_limit import TimeLimit
from bookie.sim.cluster import ROOT, BookieNode, SimCluster
from bookie.sim.injector import Injector
from bookie.sim.metadata_store import KEEPER_HOST
from bookie.sim.node import Defect, ProcessEnd, ended

_PAUSE_S_MAX = 8.0
_AWAY_S_MAX = 30.0
_SETTLE_S_MAX = 240.0


class Twins:
    """Plays one episode after the other, until `stop`. `counts`: how they began and ended."""

    def __init__(self, cluster: SimCluster, injector: Injector, random_: random.Random) -> None:
        self.counts: Counter[str] = Counter()
        self._cluster = cluster
        self._injector = injector
        self._random = random_
        self._is_stopping = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks.append(self._cluster.simulation.loop.create_task(self._run(), name="twins"))

    async def stop(self, *, timeout_s: float) -> None:
        """Let the episode that is under way end. Raises Defect when that takes too long."""
        self._is_stopping.set()
        await ended(self._tasks, timeout_s=timeout_s)

    async def _run(self) -> None:
        while not self._is_stopping.is_set():
            await self._rest(_PAUSE_S_MAX)
            old = self._victim()
            if old is not None and not self._is_stopping.is_set():
                self._injector.leave_alone(old)
                try:
                    await self._episode(old)
                finally:
                    self._injector.left_alone.remove(old.name)

    def _victim(self) -> BookieNode | None:
        bookies = list(self._cluster.bookies.values())
        if sum(not bookie.is_running for bookie in bookies) >= self._injector.down_max:
            return None
        ready = [it for it in bookies if it.is_ready and self._injector.atlas.may_lose(it.name)]
        ready = [it for it in ready if it.name not in self._injector.left_alone]
        return self._random.choice(ready) if ready else None

    async def _episode(self, old: BookieNode) -> None:
        cluster = self._cluster
        self._injector.atlas.lost(old.name)
        life = self._incarnation(old.name)
        how = self._random.choice(("alive", "cut", "cut", "paused", "flapping"))
        self.counts[f"twin {how}"] += 1
        if how in ("cut", "flapping"):
            self._cut(old)
        elif how == "paused":
            old.node.pause()
        new = cluster.twin(old.name)
        await self._rest(_PAUSE_S_MAX)
        new.start()
        if how == "flapping":
            for _ in range(self._random.randint(1, 4)):
                await self._rest(_AWAY_S_MAX / 2)
                self._release(old)
                await self._rest(_PAUSE_S_MAX)
                self._cut(old)
        await self._rest(_AWAY_S_MAX)
        if how in ("cut", "flapping"):
            self._release(old)
        old.node.resume()
        await self._settle(old, new, life)

    async def _settle(self, old: BookieNode, new: BookieNode, life: int) -> None:
        """Wait until one of the two has stopped. Raises Defect when both go on although the new one is the bookie."""
        loop = self._cluster.simulation.loop
        deadline = loop.time() + _SETTLE_S_MAX
        while True:
            if self._incarnation(old.name) > life:  # the new one's life has begun: the old one must stop by itself
                self._cluster.bookies[old.name] = new
                if not old.is_running:
                    self.counts["twin took over"] += 1
                    break
            elif not new.is_running or (old.is_ready and self._holds(old)) or not old.is_running:
                new.crash(ProcessEnd.POWER_CUT)
                self.counts["twin gave up"] += 1
                break
            if loop.time() > deadline:
                raise Defect(f"two processes are bookie {old.name} for {_SETTLE_S_MAX:.0f} s")
            await asyncio.sleep(0.2)
        stays = self._cluster.bookies[old.name]
        if not stays.is_running:
            stays.start()

    def _holds(self, bookie: BookieNode) -> bool:
        """Return True while the metadata store holds the registration of this very process."""
        node = self._cluster.simulation.keeper.tree.nodes.get(paths.process(ROOT, BookieId(bookie.name)))
        assert bookie.process is not None
        record = bookie.process.boot.record
        return node is not None and record is not None and node.data == record.boot_id.encode()

    def _incarnation(self, name: str) -> int:
        stored = self._cluster.simulation.keeper.tree.get(paths.incarnation(ROOT, BookieId(name)))
        return cookie.load_incarnation(stored.data).incarnation

    def _cut(self, bookie: BookieNode) -> None:
        self._cluster.partition(bookie.machine, KEEPER_HOST)

    def _release(self, bookie: BookieNode) -> None:
        for source, target in ((bookie.machine, KEEPER_HOST), (KEEPER_HOST, bookie.machine)):
            self._cluster.release(source, target)

    async def _rest(self, seconds_max: float) -> None:
        """Wait for some time, or until `stop`."""
        try:
            async with TimeLimit(self._random.random() * seconds_max):
                await self._is_stopping.wait()
        except TimeoutError:
            return
