"""Seeded self-sabotage in two levels, as FoundationDB does it: a spot is on or off in a run, then fires at random.

Spots that are on in the same run meet each other in few combinations, deeply, in place of all combinations shallowly.
"""

import random
from collections.abc import Callable

SPOT_ON_PERCENT = 25
FIRE_PERCENT = 10


class SimChaos:
    """bookie.ports.chaos.Chaos from a seed; `on_fire(name)` puts it into the trace."""

    def __init__(self, seed: str, *, is_on: bool, on_fire: Callable[[str], None]) -> None:
        self._seed = seed
        self._is_on = is_on
        self._random = random.Random(seed)
        self._spots: dict[str, bool] = {}
        self._on_fire = on_fire

    def sometimes(self, name: str) -> bool:
        if not self._is_on:
            return False
        if name not in self._spots:
            # Not from the running generator: which spots are on must not depend on who asks first.
            self._spots[name] = random.Random(f"{self._seed} {name}").randrange(100) < SPOT_ON_PERCENT
        if not self._spots[name] or self._random.randrange(100) >= FIRE_PERCENT:
            return False
        self._on_fire(name)
        return True
