"""How many bookies each pool has and is to have: by the pool's name and by what it had (decisions 0016, 0019).

A bookie's id is made of its pool and its number there. So the split must never depend on the order of `spec.zones`, and
an id that was given stays until its bookie has left by proof (spec/operator.md#J1), whatever was edited, deleted or
applied again. Who leaves is a function of what is there and of the spec alone: raised again, the number finds the same
bookies in place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bookie_operator.model import names
from bookie_operator.model.spec import BookieClusterSpec, Zone

POOL_SIZE_MAX = 150  # spec.replicas may not be more; nothing that was found may ask for more either


@dataclass(frozen=True, slots=True)
class BookiePool:
    """`replicas`: how many bookies it has. `wanted`: how many the spec asks for; those with higher numbers leave."""

    name: str
    zone: Zone | None
    replicas: int
    wanted: int
    is_in_spec: bool = True  # False: its zone, or the pool itself, was taken out of the spec


def assign(spec: BookieClusterSpec, held: Mapping[str, int], first: Sequence[str] = ()) -> tuple[BookiePool, ...]:
    """Return the pools of `spec` by name, then those that only `held` names. `held`: how many ids each pool has given;
    it keeps them.

    A pool of `spec.pools` says itself how many it is to have. Where `spec.replicas` asks for more, bookies come one by
    one to the smallest pool, of equals to the first by name.
    Where it asks for fewer, they leave one by one: from the pools of `first`, one for each mention, as long as another
    bookie stays there; then from the largest pool, of equals from the last by name. A zone or pool that is not in the
    spec is to have none.
    """
    zones = zones_by_pool(spec)
    sizes = {name: min(held.get(name, 0), POOL_SIZE_MAX) for name in sorted(zones)}
    if spec.pools is not None:
        wanted = {pool.name: pool.replicas for pool in spec.pools}
    else:
        wanted = _split(spec.size, sizes, first)
    known = (BookiePool(name, zones[name], max(size, wanted[name]), wanted[name]) for name, size in sizes.items())
    removed = (
        BookiePool(name, None, min(held[name], POOL_SIZE_MAX), 0, is_in_spec=False)
        for name in sorted(held.keys() - zones)
    )
    return (*known, *removed)


def zones_by_pool(spec: BookieClusterSpec) -> dict[str, Zone | None]:
    """Return every pool that `spec` names, with its zone, if it has one."""
    if spec.pools is not None:
        return {
            pool.name: Zone(name=pool.zone, node_selector=pool.node_selector) if pool.zone is not None else None
            for pool in spec.pools
        }
    return {zone.name: zone for zone in spec.zones} if spec.zones is not None else {names.POOL_DEFAULT: None}


def _split(replicas: int, sizes: Mapping[str, int], first: Sequence[str]) -> dict[str, int]:
    wanted = dict(sizes)
    for _ in range(replicas - sum(sizes.values())):
        wanted[min(wanted, key=lambda name: (wanted[name], name))] += 1
    for name in first:
        if sum(wanted.values()) > replicas and wanted.get(name, 0) > 1:
            wanted[name] -= 1
    for _ in range(sum(wanted.values()) - replicas):
        wanted[max(wanted, key=lambda name: (wanted[name], name))] -= 1
    return wanted
