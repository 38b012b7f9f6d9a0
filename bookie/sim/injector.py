"""The fault injector of one run: breaks things at random, as often as the swarm says, within the atlas.

It acts only from outside: on power, processes, links, volumes and sessions. It mends later what it breaks, and `heal`
mends the rest.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from bookie.ports.admin import State
from bookie.sim.cluster import BookieNode, SimCluster
from bookie.sim.disk_image import VolumeImage
from bookie.sim.faults import Atlas, Swarm
from bookie.sim.metadata_store import KEEPER_HOST
from bookie.sim.node import ProcessEnd

KILL, POWER_CUT = ProcessEnd.KILL, ProcessEnd.POWER_CUT
TICK_S = 0.5
DOWN_S_MAX = 20.0
HELD_S_MAX = 20.0
ARMED_S_MAX = 10.0


class Injector:
    """Injects faults as a task of the director. `down_max`: how many bookies may be down at the same time.

    `without`: acts that are left out, by their names in `acts`. Every act has draws of its own, so that the others stay
    what they were.
    """

    def __init__(
        self,
        cluster: SimCluster,
        swarm: Swarm,
        random_: random.Random,
        *,
        down_max: int,
        without: frozenset[str] = frozenset(),
    ) -> None:
        self.cluster = cluster
        self.swarm = swarm
        self.without = without
        self.acts: list[str] = []  # what was done: the kind and the number of the tick
        self.random = random.Random(random_.getrandbits(64))  # of the act under way
        self._pace = random_
        self._ticks = 0
        self.atlas = Atlas()
        self.down_max = down_max
        self.counts: Counter[str] = Counter()
        self.left_alone: list[str] = []  # bookies that somebody else stops and starts
        self._is_breaking = False
        self._restart_at: dict[str, float] = {}
        self._release_at: list[tuple[float, str, str]] = []
        self._room_at: list[tuple[float, VolumeImage, int]] = []
        self._calm_at: dict[str, float] = {}  # until when every sync of a bookie fails
        self._disarm_at: dict[str, float] = {}  # until when a bookie may crash in the middle of a disk operation

    async def run(self, duration_s: float) -> None:
        """Break and mend for `duration_s`, then mend everything."""
        loop = self.cluster.simulation.loop
        end = loop.time() + duration_s
        self._is_breaking = True
        while loop.time() < end:
            self._mend(loop.time())
            self._break(loop.time())
            await asyncio.sleep(TICK_S * (0.5 + self._pace.random()))
        self.heal()

    def heal(self) -> None:
        """Release all links, start all bookies, make the dials calm."""
        simulation = self.cluster.simulation
        self._is_breaking = False
        self.cluster.heal()
        self._release_at.clear()
        self.make_room()
        network, metadata = simulation.dials.network, simulation.dials.metadata
        network.reset_per_million = network.stall_per_million = 0
        metadata.lost_answer_per_million = metadata.lost_request_per_million = metadata.lag_ns = 0
        for bookie in self.cluster.bookies.values():
            bookie.node.disk_faults.stall_per_million = 0
            self._calm(bookie)
            self._disarm(bookie)
            if not bookie.is_running and bookie.name not in self.left_alone:
                bookie.start()
        self._restart_at.clear()

    def kill(self, name: str) -> None:
        """Kill one bookie now if the atlas allows it and `run` runs; it comes back as after any other fault."""
        if self._is_breaking:
            self._crash(self.cluster.simulation.loop.time(), KILL, among=(name,))

    def leave_alone(self, bookie: BookieNode) -> None:
        """From now on somebody else stops and starts this bookie."""
        self.left_alone.append(bookie.name)
        self._disarm(bookie)

    # ---- mending --------------------------------------------------------------------------------------------------

    def _mend(self, now: float) -> None:
        self.make_room(now)
        for name in [name for name, at in self._restart_at.items() if at <= now]:
            del self._restart_at[name]
            self._calm(self.cluster.bookies[name])
            if name not in self.left_alone and not self.cluster.bookies[name].is_running:
                self.cluster.bookies[name].start()
                loses_data = not self.cluster.settings.journal_write_data
                if self.random.random() < 0.2 and (not loses_data or self.atlas.may_lose(name)):
                    if loses_data:
                        self.atlas.lost(name)
                    self._arm(now, self.cluster.bookies[name], self.random.choice((KILL, POWER_CUT)))
        for held in [held for held in self._release_at if held[0] <= now]:
            self._release_at.remove(held)
            self.cluster.release(held[1], held[2])
        for bookie in self.cluster.bookies.values():
            if not bookie.is_running and bookie.name not in (*self._restart_at, *self.left_alone):
                self._restart_at[bookie.name] = now + self.random.random() * DOWN_S_MAX  # it gave up by itself
            if self._calm_at.get(bookie.name, now) < now:
                self._calm(bookie)
            if self._disarm_at.get(bookie.name, now) < now:
                self._disarm(bookie)
            is_well = bookie.state in (State.SERVING, State.READ_ONLY) and bookie.name not in self.left_alone
            if is_well and not self._is_threatened(bookie):
                self.atlas.repaired(bookie.name)

    def _calm(self, bookie: BookieNode) -> None:
        """Let syncs succeed again."""
        self._calm_at.pop(bookie.name, None)
        bookie.node.disk_faults.sync_fails_per_million = 0

    def _is_threatened(self, bookie: BookieNode) -> bool:
        """True while a fault of this bookie's disks may still cost it its data."""
        volumes = list(bookie.node.image.volumes.values())
        is_armed = bookie.name in self._disarm_at
        return is_armed or bookie.name in self._calm_at or any(full[1] in volumes for full in self._room_at)

    def make_room(self, now: float = float("inf")) -> None:
        """Give the volumes whose fill ends by `now`, by default all filled ones, their size back. Called before a
        volume is replaced, since the new one gets the size of the old one."""
        for full in [full for full in self._room_at if full[0] <= now]:
            self._room_at.remove(full)
            full[1].total_bytes = full[2]

    # ---- breaking -------------------------------------------------------------------------------------------------

    def _break(self, now: float) -> None:
        swarm = self.swarm
        self._ticks += 1
        acts: tuple[tuple[str, int, Callable[[float], bool]], ...] = (
            ("power-cut", swarm.power_cut_percent, partial(self._crash, how=POWER_CUT)),
            ("kill", swarm.kill_percent, partial(self._crash, how=KILL)),
            ("wipe", swarm.wipe_percent, self._wipe),
            ("sync-failure", swarm.sync_failure_percent, self._fail_syncs),
            ("full", swarm.full_percent, self._fill),
            ("rot", swarm.rot_percent, self._rot),
            ("partition", swarm.partition_percent, partial(self._hold, both_ways=True)),
            ("hold", swarm.hold_percent, self._hold),
            ("client-crash", swarm.client_crash_percent, self._crash_client),
            ("session-expiry", swarm.session_expiry_percent, self._expire),
        )
        for kind, percent, act in acts:
            chance, seed, name = self._pace.randrange(100), self._pace.getrandbits(64), f"{kind}-{self._ticks}"
            if chance < percent and name not in self.without:
                self.random = random.Random(seed)
                if act(now):
                    self.acts.append(name)

    def _crash_client(self, now: float) -> bool:
        if not self.cluster.clients:
            return False
        client = self.cluster.clients[self.random.choice(sorted(self.cluster.clients))]
        if client.node.life is None:
            return False
        self.counts["client crash"] += 1
        client.crash()
        return True

    def _expire(self, now: float) -> bool:
        keeper = self.cluster.simulation.keeper
        if not keeper.sessions:
            return False
        self.counts["session expiry"] += 1
        keeper.end_session(self.random.choice(sorted(keeper.sessions)))
        return True

    def _crash(self, now: float, how: ProcessEnd, *, among: Sequence[str] = ()) -> bool:
        victim = self._victim(loses_data=not self.cluster.settings.journal_write_data, among=among)
        if victim is not None:
            if self.random.random() < 0.5:
                self._arm(now, victim, how)
                return True
            self.counts[how.value] += 1
            victim.crash(how)
            self._restart_at[victim.name] = now + self.random.random() * DOWN_S_MAX
        return victim is not None

    def _arm(self, now: float, bookie: BookieNode, how: ProcessEnd) -> None:
        """Let a bookie crash in the middle of one of its next disk operations, if it does so many soon."""

        def note() -> None:
            self._disarm_at.pop(bookie.name, None)
            self.counts[f"{how.value} in a disk operation"] += 1

        self._disarm_at[bookie.name] = now + ARMED_S_MAX
        bookie.crash_at_operation(1 + self.random.randrange(self.random.choice((3, 30, 300))), how, note)

    def _disarm(self, bookie: BookieNode) -> None:
        if self._disarm_at.pop(bookie.name, None) is not None and bookie.is_running:
            bookie.crash_at_operation(0, KILL, lambda: None)

    def _wipe(self, now: float) -> bool:
        victim = self._victim(loses_data=True)
        if victim is not None:
            self.counts["wipe"] += 1
            victim.crash(POWER_CUT)
            self.make_room()
            lost = [path for path in victim.volumes if self.random.random() < 0.5] or list(victim.volumes)
            victim.wipe(*lost)
            self._restart_at[victim.name] = now + self.random.random() * DOWN_S_MAX
        return victim is not None

    def _fail_syncs(self, now: float) -> bool:
        """Let every sync of one bookie fail for a while: the next one stops the bookie, unclean, and it is restarted
        later."""
        victim = self._victim(loses_data=True)
        if victim is not None:
            self.counts["sync failure"] += 1
            self._calm_at[victim.name] = now + self.random.random() * DOWN_S_MAX
            victim.node.disk_faults.sync_fails_per_million = 1_000_000
        return victim is not None

    def _fill(self, now: float) -> bool:
        """Leave a volume room for a few more entries only, for a while. The bookie may turn read-only, or stop."""
        victim = self._victim(loses_data=True)
        if victim is not None:
            volume = victim.node.image.volumes[self.random.choice(victim.volumes)]
            if any(full[1] is volume for full in self._room_at):
                return False
            self.counts["full"] += 1
            self._room_at.append((now + self.random.random() * DOWN_S_MAX, volume, volume.total_bytes))
            volume.total_bytes = volume.used_bytes + self.random.randrange(20_000)
        return victim is not None

    def _rot(self, now: float) -> bool:
        """Flip one bit of one entry log. Nobody notices until it is read, so from now on no other bookie may lose
        data."""
        victim = self._victim(loses_data=True)
        if victim is not None and victim.node.image.rot(self.random, ".log") is not None:
            self.counts["rot"] += 1
            self.atlas.lost(victim.name, for_good=True)
        return victim is not None

    def _victim(self, *, loses_data: bool, among: Sequence[str] = ()) -> BookieNode | None:
        """Return a running bookie (`among` these, if any are named) that may be taken down now; None when the atlas
        forbids it."""
        bookies = list(self.cluster.bookies.values())
        if sum(not bookie.is_running for bookie in bookies) >= self.down_max:
            return None
        running = [bookie for bookie in bookies if bookie.is_running and bookie.name not in self.left_alone]
        running = [it for it in running if not among or it.name in among]
        allowed = [it for it in running if not loses_data or self.atlas.may_lose(it.name)]
        if not allowed:
            return None
        victim = self.random.choice(allowed)
        if loses_data:
            self.atlas.lost(victim.name)
        return victim

    def _hold(self, now: float, *, both_ways: bool = False) -> bool:
        """Hold all bytes from one machine to another for a while."""
        bookies = [bookie.machine for bookie in self.cluster.bookies.values()]
        machines = [*bookies, *sorted(self.cluster.clients), KEEPER_HOST]
        one, other = self.random.sample(machines, 2)
        for source, target in ((one, other), (other, one))[: 1 + both_ways]:
            self.counts["hold"] += 1
            self.cluster.hold(source, target)
            self._release_at.append((now + self.random.random() * HELD_S_MAX, source, target))
        return True
