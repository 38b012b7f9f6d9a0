"""Draws from the seed which faults exist in a run and how often; and keeps the atlas of survivable damage.

A run in which every fault is rare meets few deep combinations; a run with only three kinds of faults meets all of
theirs. The atlas keeps injected damage within what the replication protocol survives, so that every violation that a
run reports is a defect of ours.
"""

import dataclasses
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from bookie.base.units import NS_PER_MS, NS_PER_US
from bookie.sim.clock import Skew
from bookie.sim.disk import DiskFaults
from bookie.sim.metadata_store import MetadataFaults
from bookie.sim.network import NetworkFaults

SKEW_WALL_MS = 300_000
SKEW_DRIFT_PPM = 50_000


@dataclass
class Dials:
    """The dials of the whole world. The default is calm: small latencies, no faults."""

    network: NetworkFaults = field(default_factory=NetworkFaults)
    metadata: MetadataFaults = field(default_factory=MetadataFaults)
    disk: Callable[[str], DiskFaults] = lambda name: DiskFaults()
    skew: Callable[[str], Skew] = lambda name: Skew()


@dataclass(frozen=True, slots=True)
class Swarm:
    """Which faults may happen in one run, by default none. Percentages are chances per tick of the fault injector."""

    power_cut_percent: int = 0
    kill_percent: int = 0
    partition_percent: int = 0
    hold_percent: int = 0
    wipe_percent: int = 0
    sync_failure_percent: int = 0
    full_percent: int = 0
    rot_percent: int = 0
    client_crash_percent: int = 0
    session_expiry_percent: int = 0
    reset_per_million: int = 0
    stall_per_million: int = 0
    lost_answer_per_million: int = 0
    lost_request_per_million: int = 0
    slow_disk_factor: int = 0
    disk_stall_per_million: int = 0
    is_skewed: bool = False
    chop_percent: int = 0
    lag_ms: int = 0  # how old a read of the metadata store may be
    has_twins: bool = False  # bookies are made again elsewhere while their old processes live

    def parts(self) -> list[str]:
        """Return the names of the faults that exist all the time, and not in single acts of the injector."""
        return [name for name in WORLDLY if getattr(self, name)]

    def without(self, names: frozenset[str]) -> "Swarm":
        """Return the swarm without these faults."""
        return dataclasses.replace(self, **{name: type(getattr(self, name))() for name in WORLDLY if name in names})

    def facts(self) -> str:
        """Return the faults that exist, for the first line of a trace."""
        return " ".join(f"{name}={getattr(self, name)}" for name in self.__slots__ if getattr(self, name))


# Faults that are not acts of the injector.
WORLDLY = (
    *("reset_per_million", "stall_per_million", "lost_answer_per_million", "lost_request_per_million"),
    *("slow_disk_factor", "disk_stall_per_million", "is_skewed", "chop_percent", "lag_ms", "has_twins"),
)


def draw(random_: random.Random) -> Swarm:
    """Draw the faults of a run: each exists in half of the runs, with an intensity that is drawn too."""

    def maybe(low: int, high: int, chance: float = 0.5) -> int:
        exists = random_.random() < chance
        value = random_.randint(low, high)  # drawn either way: one fault's absence moves no other's intensity
        return value if exists else 0

    def chopped() -> int:
        random_.random()  # once drawn for a fault that is gone: seeds keep their meaning
        return maybe(5, 80)

    return Swarm(
        power_cut_percent=maybe(1, 8),
        kill_percent=maybe(1, 8, 0.7),
        partition_percent=maybe(1, 10),
        hold_percent=maybe(1, 15),
        wipe_percent=maybe(1, 6, 0.3),
        sync_failure_percent=maybe(1, 4, 0.3),
        full_percent=maybe(1, 4, 0.3),
        rot_percent=maybe(1, 4, 0.2),
        client_crash_percent=maybe(1, 6),
        session_expiry_percent=maybe(1, 4, 0.3),
        reset_per_million=maybe(100, 20_000),
        stall_per_million=maybe(100, 5_000),
        lost_answer_per_million=maybe(1_000, 100_000),
        lost_request_per_million=maybe(1_000, 50_000),
        slow_disk_factor=maybe(2, 50, 0.3),
        disk_stall_per_million=maybe(100, 5_000, 0.3),
        is_skewed=random_.random() < 0.5,
        chop_percent=chopped(),
        lag_ms=maybe(5, 1_500),
        has_twins=random_.random() < 0.4,
    )


def accidents(random_: random.Random) -> Swarm:
    """Draw only the faults that BP-46 is about: bookies and volumes lost, messages late, applications gone."""
    return Swarm(
        power_cut_percent=random_.randint(0, 10),
        kill_percent=random_.randint(5, 25),
        hold_percent=random_.randint(5, 25),
        wipe_percent=random_.randint(0, 10),
        client_crash_percent=random_.randint(0, 20),
    )


def dials(swarm: Swarm, seed: int | str) -> Dials:
    """Return the dials that `swarm` asks for; those of each node's disk and clock are drawn apart."""

    def disk(name: str) -> DiskFaults:
        random_ = random.Random(f"{seed} disk {name}")
        factor = swarm.slow_disk_factor if swarm.slow_disk_factor and random_.random() < 0.4 else 1
        return DiskFaults(
            write_latency_ns=20 * NS_PER_US * factor,
            sync_latency_ns=NS_PER_MS * factor,
            stall_per_million=swarm.disk_stall_per_million,
            must_wait_percent=random_.choice((0, 20, 100)),
            are_looks_slow=random.Random(f"{seed} looks {name}").random() < 0.3,
            keeps_unflushed_batches=random_.random() < 0.5,
        )

    def skew(name: str) -> Skew:
        random_ = random.Random(f"{seed} skew {name}")
        if not swarm.is_skewed:
            return Skew()
        return Skew(
            drift_ppm=random_.randint(-SKEW_DRIFT_PPM, SKEW_DRIFT_PPM),
            wall_offset_ms=random_.randint(-SKEW_WALL_MS, SKEW_WALL_MS),
            boot_ns=random_.randrange(10**15),
        )

    return Dials(
        network=NetworkFaults(
            chop_percent=swarm.chop_percent,
            reset_per_million=swarm.reset_per_million,
            stall_per_million=swarm.stall_per_million,
        ),
        metadata=MetadataFaults(
            lost_request_per_million=swarm.lost_request_per_million,
            lost_answer_per_million=swarm.lost_answer_per_million,
            lag_ns=swarm.lag_ms * NS_PER_MS,
        ),
        disk=disk,
        skew=skew,
    )


class Atlas:
    """Permits one bookie at a time to lose data, unsynced or all of it, until that bookie reports that it is repaired.

    Argument: with an ack quorum of A every acknowledged entry is on A bookies; one of them losing it leaves A - 1 >= 1
    copies, and the next may lose its own only after the first has copied everything back. Clean power cuts in journal
    mode lose nothing that was acknowledged and need no permission.
    """

    def __init__(self) -> None:
        self.holder: str | None = None
        self.is_for_good = False  # the holder lost something that it does not know of

    def may_lose(self, bookie: str) -> bool:
        return self.holder in (None, bookie)

    def lost(self, bookie: str, *, for_good: bool = False) -> None:
        self.is_for_good |= for_good
        assert self.may_lose(bookie), f"{bookie} lost data while {self.holder} was not repaired"
        self.holder = bookie

    def repaired(self, bookie: str) -> None:
        if self.holder == bookie and not self.is_for_good:
            self.holder = None
