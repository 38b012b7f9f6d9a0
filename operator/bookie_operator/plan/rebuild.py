"""Which bookies are rebuilt: because their claims are not what the spec says (class, access mode, or a smaller size,
spec/operator.md#X7), or because a person named them (replacing.py).

Pure, and level-based: claims are compared with the spec as both are now. A bookie whose claims differ leaves by proof
and comes back under its name as one that never held data; `leaving.py` does both, and holds the turn: one bookie leaves
at a time, whoever asks. So setting the spec back is enough to end it, and what was rebuilt already is rebuilt back only
because its claims differ then.

What the spec does not name (no class, no access mode) is not compared: the cluster's default may be any.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bookie_operator.evidence.facts import BookieCase, ClaimFacts, VolumeCase
from bookie_operator.model.cluster import Cluster
from bookie_operator.model.spec import BookieClusterSpec
from bookie_operator.model.status import Departure, RebuildStatus
from bookie_operator.model.storage import VolumeSpec
from bookie_operator.model.values import format_quantity, parse_quantity
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import Assessed
from bookie_operator.resources.common import Manifest

ROLLING = "RollingRebuild"


@dataclass(frozen=True, slots=True)
class Rebuild:
    """How far the fleet is. `status` None: nothing is to be rebuilt."""

    status: RebuildStatus | None = None

    @property
    def is_going_on(self) -> bool:
        return self.status is not None


def differences(spec: BookieClusterSpec, case: BookieCase) -> tuple[str, ...]:
    """Return one sentence for each claim of a bookie that another class, access mode or smaller size is said of.
    `spec`: as it is for its pool."""
    return tuple(sentence for volume in case.volumes for sentence in differs(spec, volume))


def differs(spec: BookieClusterSpec, volume: VolumeCase) -> tuple[str, ...]:
    """Return the same of one volume."""
    wanted = next((one for _, one in spec.storage.by_role() if one.name == volume.name), None)
    return tuple(_of_claim(volume.claim, wanted)) if volume.claim is not None and wanted is not None else ()


def _of_claim(claim: ClaimFacts, wanted: VolumeSpec) -> Iterator[str]:
    # What a claim does not tell is no difference: a rebuild moves all data of a bookie.
    if wanted.storage_class_name and claim.storage_class and claim.storage_class != wanted.storage_class_name:
        yield f"claim {claim.name} is of class {claim.storage_class}, and the spec says {wanted.storage_class_name}"
    if wanted.access_mode and claim.access_modes and claim.access_modes != (wanted.access_mode,):
        yield f"claim {claim.name} is {', '.join(claim.access_modes)}, and the spec says {wanted.access_mode}"
    # The request, not what the volume has: drivers round up, and a static volume may be much larger.
    if claim.size is not None and claim.size.requested > parse_quantity(wanted.size):
        yield f"claim {claim.name} asks for {format_quantity(claim.size.requested)}, and the spec says {wanted.size}"


def is_template_of(spec: BookieClusterSpec, stateful_set: Manifest) -> bool:
    """Return True when claims that `stateful_set` makes now are of the class and access mode that the spec names."""
    wanted = {volume.name: volume for _, volume in spec.storage.by_role()}
    for template in stateful_set["spec"].get("volumeClaimTemplates") or ():
        volume, had = wanted.get(template["metadata"]["name"]), template["spec"]
        if volume is None:
            return False
        if volume.storage_class_name is not None and had.get("storageClassName") != volume.storage_class_name:
            return False
        if volume.access_mode is not None and list(had["accessModes"]) != [volume.access_mode]:
            return False
    return True


def is_to_be_rebuilt(spec: BookieClusterSpec, case: BookieCase) -> bool:
    """Return True for a bookie of the spec whose claims differ, where the spec lets bookies be rebuilt for that."""
    is_ours = case.is_desired and case.is_ours and (case.is_rebuilt or not case.is_leaving)
    return spec.storage.layout_change == ROLLING and is_ours and bool(differences(spec.of(case.pool), case))


def marked(
    cluster: Cluster,
    cases: tuple[BookieCase, ...],
    named: Sequence[str] = (),
    anew: Sequence[str] = (),
    drained: Sequence[str] = (),
) -> tuple[BookieCase, ...]:
    """Return `cases` in which the one bookie whose turn it is to be rebuilt is to leave. Who began goes on; nobody
    begins while another bookie is to leave for good (spec/operator.md#X7). `named`: whom people asked to replace,
    oldest first. `anew`: whose volumes go with pods that are to end (plan/ephemeral.py); `drained`: those of them that
    leave a drained node, and wait for nobody who has not begun."""
    to_rebuild = [case for case in cases if _is_named(case, (*named, *anew)) or is_to_be_rebuilt(cluster.spec, case)]
    begun = [case for case in to_rebuild if _has_begun(cluster, case)]
    is_busy = any(_has_left_service(cluster, case) for case in cases)
    if any(case.is_leaving for case in cases):
        to_rebuild = [case for case in to_rebuild if case.name in drained]
    first = [] if is_busy else sorted(to_rebuild, key=lambda case: _rank(case, (*named, *drained)))
    turn = next((case.name for case in (*begun, *first)), "")
    return tuple(replace(case, is_leaving=True, is_rebuilt=True) if case.name == turn else case for case in cases)


def _is_named(case: BookieCase, named: Sequence[str]) -> bool:
    # Who leaves for good needs no new claims.
    return case.name in named and case.is_desired and case.is_ours and not case.is_leaving


def _rank(case: BookieCase, named: Sequence[str]) -> tuple[int, int]:
    """Sorts by whose turn comes first. Who does not serve and has other claims than the spec says comes first: the
    others wait until it does, and it may need these claims for that. Who is named and does not serve comes last: it
    could not leave, and must not keep others from it."""
    serves = case.report is not None and case.report.state.serves
    if case.name not in named:
        return (2 if serves else 0), 0
    return (1 if serves else 3), named.index(case.name)


def _has_begun(cluster: Cluster, case: BookieCase) -> bool:
    entry = cluster.status.bookie(case.name)
    stored = entry.leaving if entry is not None else None
    return stored is not None and stored.rebuilds and stored.state is not Departure.LEAVING


def _has_left_service(cluster: Cluster, case: BookieCase) -> bool:
    """Return True while a bookie leaves, for good or to come back, and has begun to."""
    entry = cluster.status.bookie(case.name)
    stored = entry.leaving if entry is not None else None
    if stored is None or stored.state is Departure.LEAVING:
        return False
    return stored.rebuilds or (case.is_leaving and not stored.state.is_gone)


def progress(seen: Observation, fleet: tuple[Assessed, ...], anew: Sequence[str] = ()) -> Rebuild:
    """Return how far the fleet is, after it was decided who leaves. `anew`: as for `marked`."""
    mine = [one for one in fleet if one.case.is_desired and one.case.is_ours and _stays(one)]
    behind = [
        one
        for one in mine
        if is_to_be_rebuilt(seen.cluster.spec, one.case) or one.case.name in anew or _is_under_way(one)
    ]
    if not behind:
        return Rebuild()
    turn = next((one for one in behind if _is_under_way(one)), None)
    leaving = turn.leaving if turn is not None else None
    minutes = leaving.minutes_left if leaving is not None else None
    return Rebuild(
        RebuildStatus(
            desired=len(mine),
            done=len(mine) - len(behind),
            bookie=turn.case.name if turn is not None else None,
            waiting_for=leaving.waiting_for if leaving is not None else _why_nobody(fleet),
            minutes_left=minutes * len(behind) if minutes is not None else None,
        )
    )


def _stays(one: Assessed) -> bool:
    return one.case.is_rebuilt or not one.case.is_leaving


def _is_under_way(one: Assessed) -> bool:
    return one.leaving is not None and one.leaving.rebuilds


def _why_nobody(fleet: tuple[Assessed, ...]) -> str | None:
    names = [one.case.name for one in fleet if one.case.is_leaving]
    return f"{names[0]} leaves first" if names else None
