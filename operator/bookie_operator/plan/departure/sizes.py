"""How many bookies each StatefulSet runs while some leave (spec/operator.md#J1, J6, J10). Pure."""

from collections.abc import Iterator
from dataclasses import replace

from bookie_operator.model import names
from bookie_operator.model.assignment import BookiePool
from bookie_operator.model.status import Departure
from bookie_operator.plan.actions import (
    DeleteChild,
    ScalePool,
)
from bookie_operator.plan.departure import stateful_sets
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import Assessed


def to_run(
    seen: Observation, fleet: tuple[Assessed, ...]
) -> tuple[tuple[BookiePool, ...], tuple[ScalePool, ...], tuple[str, ...], frozenset[str]]:
    """Return (the pools as their StatefulSets are to run now, the numbers of those that nothing else applies, why some
    cannot grow, the pools whose StatefulSet must not be made anew now)."""
    by_name = {one.case.name: one for one in fleet}
    pools, scales, blocked, kept = [], [], [], []
    for pool in seen.pools:
        live_set, live = stateful_sets.set_of(seen, pool.name)
        mine = [by_name.get(names.pod(seen.cluster.name, pool.name, ordinal)) for ordinal in range(pool.replicas)]
        size = len(mine)
        while size > 0 and _has_no_pod(seen, mine[size - 1]):
            size -= 1
        stuck = next((one for one in mine[live:size] if _has_no_pod(seen, one)), None)
        if stuck is not None:
            size = stateful_sets.ordinal(stuck.case)
        # CRASH: made anew with that number it would end pods behind the gap whose bookies nobody proved empty.
        if live_set is None and any(_runs(seen, one) for one in mine[size:]):
            kept.append(pool.name)
        blocked += [_in_the_way(seen, one) for one in mine[size:] if one is not None and _is_in_the_way(one)]
        pools.append(replace(pool, replicas=size))
        if not pool.is_in_spec and live_set is not None and size != live:
            scales.append(ScalePool(*stateful_sets.version(live_set), size))
    return tuple(pools), tuple(scales), tuple(blocked), frozenset(kept)


def _runs(seen: Observation, one: Assessed | None) -> bool:
    """Return True for a bookie that has a pod, and may keep it."""
    return one is not None and one.case.pod is not None and not _has_no_pod(seen, one)


def _has_no_pod(seen: Observation, one: Assessed | None) -> bool:
    """Return True for a bookie that is to have no pod now: it is at the end of its leaving, or a retired claim has its
    name."""
    if one is None or (one.leaving is not None and one.leaving.rebuilds):
        return False  # who is rebuilt stays in the number of its StatefulSet, which is away meanwhile
    if _is_in_the_way(one):
        return True
    if one.leaving is None or not one.case.is_leaving:
        return one.leaving is not None and (one.leaving.state is Departure.FORGETTING or one.leaving.state.is_gone)
    if one.leaving.state is Departure.RETIRING:
        return one.leaving.never_lived or stateful_sets.is_lowered(seen, one.case)
    return one.leaving.state is Departure.FORGETTING or one.leaving.state.is_gone


def _is_in_the_way(one: Assessed) -> bool:
    """Return True when the bookie is wanted and its claims are those of one that left: a process that started on them
    would find data and no cookie, and hold itself."""
    is_wanted = one.case.is_desired and not one.case.is_leaving
    if one.leaving is not None and one.leaving.rebuilds:
        return False  # its claims go by themselves
    return is_wanted and one.case.pod is None and any(claim.retired_at for claim in stateful_sets.claims(one.case))


def _in_the_way(seen: Observation, one: Assessed) -> str:
    claims = ", ".join(claim.name for claim in stateful_sets.claims(one.case) if claim.retired_at)
    return (
        f"{one.case.name} cannot begin anew: it left the fleet, and its claims are kept ({claims}). Nothing in them is"
        f" needed: `kubectl -n {seen.cluster.namespace} delete pvc {claims.replace(', ', ' ')}`, or set"
        " spec.storage.retention.onScaleDown: Delete"
    )


def empty_sets(seen: Observation, fleet: tuple[Assessed, ...]) -> Iterator[DeleteChild]:
    """Return the StatefulSets of zones that are not in the spec and whose last bookie is gone."""
    for pool in seen.pools:
        live, replicas = stateful_sets.set_of(seen, pool.name)
        is_used = any(one.case.pool == pool.name and (one.case.is_desired or one.case.pod is not None) for one in fleet)
        if pool.is_in_spec or pool.replicas or is_used or replicas or live is None:
            continue
        if "deletionTimestamp" not in live["metadata"]:
            yield DeleteChild(
                "StatefulSet", *stateful_sets.version(live), "its pool is not in the spec, and its bookies left"
            )
