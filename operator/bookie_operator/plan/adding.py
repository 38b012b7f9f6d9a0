"""Ledger volumes that bookies get which live already: who has them, and which pods are made with them now. Pure.

The spec names them (`added`), and a bookie takes them in by a restart, in its turn of the roll-out
(spec/operator.md#X15). Nothing is remembered: its pod says whether a bookie has them, its claims whether it has data
there.

A StatefulSet whose claim templates are more than the volumes of its pods makes no pods, but for the first few, and
takes none away: its controller ends at the first pod that it cannot give the volume. So the template follows whoever is
missing. CRASH: it is found anew in each pass, and a StatefulSet that is away is applied as it is to be then. A bookie
that has a volume is never made without it for long: its pod is held then, and the next pass makes another template.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model import names
from bookie_operator.plan import templates
from bookie_operator.plan.observation import Observation


def between(seen: Observation) -> Observation:
    """Return `seen` with the volumes that the pods of each pool are not to be made with now."""
    withheld = {pool.name: found for pool in seen.pools if (found := _withheld(seen, pool.name))}
    return replace(seen, cluster=replace(seen.cluster, withheld=withheld)) if withheld else seen


def _withheld(seen: Observation, pool: str) -> frozenset[str]:
    mine = [case for case in seen.bookies if case.pool == pool and case.is_ours]
    late = frozenset(
        name
        for name in seen.cluster.spec.of(pool).storage.added
        if any(case.pod is not None and not case.has_volume(name) for case in mine)
    )
    if not late:
        return late
    missing = [case for case in mine if _is_missing(case) and (case.is_desired or case.pod is not None)]
    turn = seen.cluster.status.rollout
    named = turn.step.bookie if turn is not None and turn.step is not None else ""
    if any(case.name == named or any(map(case.has_volume, late)) for case in missing):
        return frozenset()
    if any(case.lacks for case in mine):
        return frozenset()
    is_moving = bool(missing) or templates.is_left(seen, pool) or _is_resized(seen, pool)
    return late if is_moving else frozenset()


def why_later(seen: Observation) -> str:
    """Return which pools get volumes later, and why; "" when none does."""
    later = [f"{pool} get {', '.join(sorted(found))}" for pool, found in seen.cluster.withheld.items()]
    rest = "when all of it have their pods, nobody of it leaves, and its number does not change"
    return f"the bookies of {' and those of '.join(later)} {rest}" if later else ""


def _is_missing(case: BookieCase) -> bool:
    """Return True when its StatefulSet makes its pod anew, now or in a moment."""
    return case.pod is None or case.pod.is_terminating or case.pod.has_ended


def _is_resized(seen: Observation, pool: str) -> bool:
    live = seen.children.get(("StatefulSet", names.stateful_set(seen.cluster.name, pool)))
    wanted = next(one.replicas for one in seen.pools if one.name == pool)
    return live is not None and int(live["spec"].get("replicas") or 0) != wanted


def taken(seen: Observation) -> Mapping[str, str]:
    """Return, by name, the added volumes that a bookie may have data on, and one such bookie; "" where only the status
    says so. From then on there is no way back, since a bookie refuses fewer directories than its cookie has
    (spec/operator.md#X16)."""
    known = dict.fromkeys(name for name in seen.cluster.status.added_volumes if _is_named(seen, name))
    return dict.fromkeys(known, "") | dict(reversed([one for case in seen.bookies for one in _taken(seen, case)]))


def _taken(seen: Observation, case: BookieCase) -> Iterator[tuple[str, str]]:
    """Yield (volume, bookie) for those of one bookie, also where the spec does not name them any more."""
    if not case.is_ours or not any(pool.name == case.pool and pool.is_in_spec for pool in seen.pools):
        return
    mounted = case.pod.mounts or frozenset() if case.pod is not None else frozenset()
    names_of_spec = {volume.name for _, volume in seen.cluster.spec.of(case.pool).storage.by_role()}
    found = {volume.name for volume in case.volumes if volume.is_added} | (mounted - names_of_spec)
    claims = {one.name: one for one in (*(volume.claim for volume in case.volumes), *case.other_claims) if one}
    of_volume = {name: claims.get(names.claim(name, case.name)) for name in sorted(found)}
    new = [claim for claim in of_volume.values() if claim is None or claim.marks is None]
    # No pod begins before it has a node, and all its claims have a volume.
    is_placed = case.pod is None or bool(case.pod.node)
    has_begun = is_placed and all(claim is not None and bool(claim.pv_name) for claim in new)
    for name, claim in of_volume.items():
        if has_begun or (claim is not None and claim.marks is not None):
            yield name, case.name


def _is_named(seen: Observation, name: str) -> bool:
    """Return True while the spec or a StatefulSet has the volume."""
    shapes = (shape.storage.added for _, shape in seen.cluster.spec.shapes())
    sets = (live for (kind, _), live in seen.children.items() if kind == "StatefulSet")
    return any(name in added for added in shapes) or any(name in templates.volumes_of(live) for live in sets)
