"""How many bookies each pool has: by the pool's name, and never fewer than it already had (decision 0016).

A bookie's id is made of its pool and its number there. So the split must never depend on the order of `spec.zones`, and
never take an id away that may hold data, whatever was edited, deleted or applied again.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from bookie_operator.model import names
from bookie_operator.model.spec import BookieClusterSpec, Zone

POOL_SIZE_MAX = 150  # spec.replicas may not be more; nothing that was found may ask for more either


@dataclass(frozen=True, slots=True)
class BookiePool:
    name: str
    zone: Zone | None
    replicas: int


def assign(spec: BookieClusterSpec, held: Mapping[str, int]) -> tuple[BookiePool, ...]:
    """Return the pools of `spec` by name. `held`: how many ids each pool has had; it keeps them. Further bookies of
    `spec.replicas` go, one by one, to the smallest pool; of equal pools to the first by name."""
    zones = {zone.name: zone for zone in spec.zones} if spec.zones is not None else {names.POOL_DEFAULT: None}
    sizes = {name: min(held.get(name, 0), POOL_SIZE_MAX) for name in sorted(zones)}
    for _ in range(spec.replicas - sum(sizes.values())):
        smallest = min(sizes, key=lambda name: (sizes[name], name))
        sizes[smallest] += 1
    return tuple(BookiePool(name, zones[name], size) for name, size in sizes.items())
