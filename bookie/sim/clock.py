"""A node's clock: it drifts, starts at any time, and its wall time jumps."""

from dataclasses import dataclass

from bookie.base.units import NS_PER_MS
from bookie.sim.loop import SimLoop, SimProcess

WALL_START_MS = 1_750_000_000_000
PPM = 1_000_000


@dataclass(slots=True)
class Skew:
    """How wrong one machine's clock is. `drift_ppm` > 0 runs fast; `wall_offset_ms` may be changed at any time."""

    drift_ppm: int = 0
    wall_offset_ms: int = 0
    boot_ns: int = 0


class SimClock:
    """bookie.ports.clock.Clock over the loop's true time."""

    def __init__(self, loop: SimLoop, life: SimProcess, skew: Skew) -> None:
        self._loop = loop
        self._life = life
        self._skew = skew

    def monotonic_ns(self) -> int:
        now_ns = self._loop.now_ns
        return self._skew.boot_ns + now_ns + now_ns * self._skew.drift_ppm // PPM

    def wall_ms(self) -> int:
        return WALL_START_MS + self._loop.now_ns // NS_PER_MS + self._skew.wall_offset_ms

    def true_ns(self, monotonic_ns: int) -> int:
        """The true time at which this clock shows `monotonic_ns`, rounded up."""
        since_boot_ns = monotonic_ns - self._skew.boot_ns
        return -(-since_boot_ns * PPM // (PPM + self._skew.drift_ppm))

    async def sleep_until(self, deadline_ns: int) -> None:
        self._life.check()
        while (left_ns := self.true_ns(deadline_ns) - self._loop.now_ns) > 0:
            await self._loop.sleep_ns(left_ns)
