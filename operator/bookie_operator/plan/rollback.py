"""The way back from a change of the spec that did not work: the pods are made of what worked before, and the spec is
left as its user wrote it (spec/operator.md#Q16).

Pure, and level-based: two records decide. `last_good`: what every bookie has been proven to serve with. `failed`: the
digest of the spec with which the bookie whose turn it was did not come back. While the spec still says exactly that, a
pass works with `effective` instead; so what failed is never tried again until its user changes the spec (or onFailure).
What a bookie cannot go back from by a restart is not rolled back: volumes, metadata store, ports, security, zones.
"""

import json
from dataclasses import replace

from pydantic import ValidationError

from bookie_operator.model import assignment
from bookie_operator.model.cluster import Cluster
from bookie_operator.model.spec import BookieClusterSpec
from bookie_operator.model.status import CHANGED_MAX, FailedRollout, LastGood
from bookie_operator.model.values import format_time
from bookie_operator.plan import ephemeral, revisions, rollout, stop_gates
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.rollout import Rollout
from bookie_operator.plan.stages import Assessed
from bookie_operator.resources import common, inputs

# Fields that go back, whole or the parts named; and the same as paths.
_PARTS: dict[str, set[str] | None] = {
    **dict.fromkeys(("image", "image_pull_policy", "image_pull_secrets", "placement", "resources", "config")),
    "pod_template": None,
    "lifecycle": {"termination_grace"},
    "repair": {"copy_rate"},
}
_PATHS = (
    *("spec.image", "spec.imagePullPolicy", "spec.imagePullSecrets", "spec.placement", "spec.resources", "spec.config"),
    *("spec.podTemplate", "spec.lifecycle.terminationGrace", "spec.repair.copyRate"),
)
# And what goes back of each pool of spec.pools, by its name.
_POOLS = "pools"
_OF_POOL = {"config", "resources", "tolerations", "node_selector"}
# Status and record are objects of Kubernetes, which have 1.5 MB.
_PARTS_CHARS_MAX = 100_000


def effective(cluster: Cluster) -> Cluster:
    """Return `cluster` with the spec that its pods are to be made of; `said` is what the user wrote, when that is
    another one."""
    known = cluster.status.rollout
    if known is None or known.failed is None or known.last_good is None:
        return cluster
    if cluster.spec.rollout.on_failure != "Rollback" or known.failed.inputs != _whole(cluster.spec):
        return cluster
    fields = cluster.spec.model_dump(mode="json")
    parts = json.loads(known.last_good.parts)
    shapes = parts.pop(_POOLS, {})
    if fields["pools"] is not None:
        fields["pools"] = [pool | shapes.get(pool["name"], {}) for pool in fields["pools"]]
    for field, value in parts.items():
        fields[field] = value if _PARTS.get(field) is None else fields[field] | value
    try:
        return replace(cluster, spec=BookieClusterSpec.model_validate(fields), said=cluster.spec)
    except ValidationError:
        return cluster  # of another release: it halts, as if nothing were known


def after(seen: Observation, fleet: tuple[Assessed, ...], rolled: Rollout) -> Rollout:
    """Return `rolled` with both records as they are after this pass."""
    known = seen.cluster.status.rollout
    good = known.last_good if known is not None else None
    anew = ephemeral.begun_anew(seen, fleet)
    rolled = replace(rolled, status=rolled.status.model_copy(update={"begun_anew": anew}))
    if seen.cluster.said is not None:
        assert known is not None
        return replace(rolled, status=rolled.status.model_copy(update={"last_good": good, "failed": known.failed}))
    if _is_proven(seen, fleet, rolled):
        good = _remembered(seen.cluster.spec)
    failed, why_not = None, ""
    if seen.cluster.spec.rollout.on_failure == "Rollback" and _has_failed(seen, fleet, rolled):
        why_not = _why_not(seen.cluster.spec, good)
        if not why_not:
            failed = _failure(seen, rolled, good)
    halted = f"{rolled.halted}; it is not rolled back: {why_not}" if why_not else rolled.halted
    status = rolled.status.model_copy(update={"last_good": good, "failed": failed})
    return replace(rolled, status=status, halted=halted, action=None if failed is not None else rolled.action)


def _is_proven(seen: Observation, fleet: tuple[Assessed, ...], rolled: Rollout) -> bool:
    """Return True when every bookie of the spec serves with exactly what the spec says."""
    desired = [one for one in fleet if one.case.is_desired]
    if rolled.is_going_on or rolled.halted or not desired:
        return False
    return all(
        not stop_gates.unproven(one)
        and (revisions.runs_what_is_said(seen, one.case) or revisions.has_taken_all(seen, one.case))
        for one in desired
    )


def _has_failed(seen: Observation, fleet: tuple[Assessed, ...], rolled: Rollout) -> bool:
    """Return True when the bookie whose turn it was does not come back with what the spec says. One that cannot flush,
    whose pod cannot be deleted or made, or that waits for data that it lost, is no proof against the spec; neither is
    another bookie that does not serve."""
    step, spec = rolled.status.step, seen.cluster.spec
    if not rolled.halted or not seen.leadership.is_held:
        return False
    # Whose pod would have taken its data with it has no turn: it left, and began anew (plan/ephemeral.py).
    turn, before = (step.bookie, step.pod_uid) if step is not None else (rolled.status.begun_anew, "")
    if turn is None or before in seen.hindrances:
        return False
    if spec.rollout.strategy == "Manual" or spec.rollout.paused or spec.lifecycle.paused:
        return False
    culprit = next((one for one in fleet if one.case.name == turn), None)
    if culprit is None or rolled.halted_by != turn or rollout.waits_for_data(culprit):
        return False
    if culprit.case.pod is None or culprit in revisions.older(seen, fleet):
        return False
    return culprit.case.pod.uid != before and revisions.runs_what_is_said(seen, culprit.case)


def _why_not(spec: BookieClusterSpec, good: LastGood | None) -> str:
    if good is None:
        return "nothing is known to have worked before"
    if good.inputs == _whole(spec):
        return "the same has worked before"
    if not good.parts:
        return "what worked before was too long to be kept"
    if good.rest != _rest(spec):
        return "fields changed with it that no restart takes back (volumes, metadata store, ports, security, zones)"
    return ""


def _failure(seen: Observation, rolled: Rollout, good: LastGood | None) -> FailedRollout:
    assert good is not None
    before = json.loads(good.marks)
    now = _marks(seen.cluster.spec)
    fields = tuple(path for path in sorted({*before, *now}) if before.get(path) != now.get(path))
    return FailedRollout(
        inputs=_whole(seen.cluster.spec),
        fields=fields[:CHANGED_MAX],
        message=rolled.halted[:512],
        at=format_time(seen.now_ms),
    )


def _remembered(spec: BookieClusterSpec) -> LastGood:
    include = {field: True if parts is None else parts for field, parts in _PARTS.items()}
    fields = spec.model_dump(mode="json", include=include)
    if spec.pools is not None:
        fields[_POOLS] = {pool.name: pool.model_dump(mode="json", include=_OF_POOL) for pool in spec.pools}
    parts = json.dumps(fields, separators=(",", ":"), sort_keys=True)
    return LastGood(
        inputs=_whole(spec),
        rest=_rest(spec),
        marks=json.dumps(_marks(spec), separators=(",", ":"), sort_keys=True),
        parts=parts if len(parts) <= _PARTS_CHARS_MAX else "",
    )


def _said(spec: BookieClusterSpec) -> dict[str, object]:
    """Return all that was said of any pod, by path."""
    out = inputs.said(spec, None)
    for zone in spec.zones or ():
        out |= inputs.said(spec, zone)
    for pool, zone_of_pool in assignment.zones_by_pool(spec).items() if spec.pools is not None else ():
        # What a pool has otherwise than all; None: what all have and it has not.
        own = inputs.said(spec.of(pool), zone_of_pool)
        out |= {
            f"spec.pools[{pool}]{path.removeprefix('spec')}": own.get(path)
            for path in sorted({*own, *out})
            if not path.startswith("spec.pools[") and own.get(path) != out.get(path)
        }
    return out


def _marks(spec: BookieClusterSpec) -> dict[str, str]:
    return {path: common.digest(value)[:8] for path, value in _said(spec).items()}


def _whole(spec: BookieClusterSpec) -> str:
    return f"{inputs.SCHEME}-{common.digest(_said(spec))}"


def _rest(spec: BookieClusterSpec) -> str:
    """Return the digest of what does not go back."""
    return common.digest({path: value for path, value in _said(spec).items() if not _goes_back(path)})


def _goes_back(path: str) -> bool:
    if path.startswith("spec.pools["):
        path = f"spec{path.partition(']')[2]}"
    return any(path == one or path.startswith(f"{one}.") for one in _PATHS)
