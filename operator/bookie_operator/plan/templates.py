"""Volume claim templates, which Kubernetes never lets change: a StatefulSet is made anew around its pods instead.

The StatefulSet is deleted by uid and version, and its pods stay, without an owner; the next pass applies it with the
new templates, and it adopts them (spec/operator.md#X3). CRASH: between the two there are pods without a StatefulSet.
They run on, and whoever leads next finds the StatefulSet missing and applies it. Templates only say what claims are
made of, so no claim changes by this, and none goes.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from bookie_operator.model import names, values
from bookie_operator.model.spec import Zone
from bookie_operator.model.status import Departure
from bookie_operator.plan import expansion
from bookie_operator.plan.observation import Observation
from bookie_operator.resources import common, stateful_set
from bookie_operator.resources.common import Manifest


def settled(seen: Observation, manifest: Manifest) -> Manifest:
    """Return the StatefulSet `manifest` with the sizes that its claims have: a template follows the spec when every
    claim that is made of it has the new size, so that a growth that stops half way leaves the old one; and
    when no bookie of its pool leaves, as a StatefulSet that is away does not say who runs."""
    live = seen.children.get(("StatefulSet", manifest["metadata"]["name"]))
    if live is None:
        return manifest
    known = {one["metadata"]["name"]: one for one in live["spec"].get("volumeClaimTemplates") or ()}
    pool = manifest["metadata"]["labels"][names.LABEL_POOL]
    is_held, wanted = is_left(seen, pool), manifest["spec"].get("volumeClaimTemplates") or []
    templates = [
        _settled(one, known[name], is_held=is_held, is_grown=_is_grown(seen, pool, name, _size(one)))
        if (name := one["metadata"]["name"]) in known
        else one
        for one in wanted
    ]
    if templates == wanted:
        return manifest
    return common.marked(manifest | {"spec": manifest["spec"] | {"volumeClaimTemplates": templates}})


def _settled(template: Manifest, live: Manifest, *, is_held: bool, is_grown: bool) -> Manifest:
    """Return a claim template as it is to be now: another class or access mode comes at once, since no claim changes by
    it, but not while a bookie of the pool leaves."""
    if is_held and _shape(template) != _shape(live):
        return template | {"spec": live["spec"]}
    return _with_size(template, _size(live)) if is_held or not is_grown else template


def of_removed_zones(seen: Observation) -> Iterator[Manifest]:
    """Return the StatefulSets that are away while their pods run and their zones are not in the spec any more: without
    one a pod that ends is not made again, and its bookie cannot leave by proof (spec/operator.md#X3)."""
    for pool in seen.pools:
        name = names.stateful_set(seen.cluster.name, pool.name)
        if pool.is_in_spec or not pool.replicas or ("StatefulSet", name) in seen.children:
            continue
        # What the spec said of its nodes is gone with the zone; the revision of its pods says it, and so do its claims.
        zone = Zone(name=pool.name, node_selector={}) if pool.name != names.POOL_DEFAULT else None
        bare = stateful_set.stateful_set(seen.cluster.of(pool.name), pool.name, zone, pool.replicas, seen.image)
        yield common.marked(as_its_pods(seen, bare) or bare)


def brought_back(seen: Observation, manifests: Iterable[Manifest]) -> Iterator[Manifest]:
    """Return those of the StatefulSets `manifests` that are away, as their pods were made: for a spec that cannot be
    used, or must not be now (spec/operator.md#X3). Never one that was not there before."""
    for manifest in manifests:
        key = ("StatefulSet", manifest["metadata"]["name"])
        if key in seen.children or key in seen.strangers:
            continue
        found = as_its_pods(seen, manifest)
        if found is not None:
            yield common.marked(found)


def as_its_pods(seen: Observation, manifest: Manifest) -> Manifest | None:
    """Return the StatefulSet `manifest` with the template that its first pod was made from, so that what comes back is
    what ran; with its newest revision when it has no pod; None when nothing tells.

    Of pods with unlike volumes (plan/adding.py) the one with the most: a bookie that has a volume must not be made
    without it. Never with a volume that no claim template is for.
    """
    pool = manifest["metadata"]["labels"][names.LABEL_POOL]
    revisions = [case.pod.revision for case in seen.bookies if case.pool == pool and case.pod is not None]
    newest_first = [name for name, one in seen.templates.items() if _pool_of(one) == pool]
    found = [seen.templates[one] for one in (*revisions, *newest_first) if seen.templates.get(one)]
    claimed = volumes_of(manifest)
    fitting = [one for one in found if _claims_of(one) <= claimed]
    known = max(fitting, key=lambda one: len(_claims_of(one)), default=None)
    if known is None:
        return None
    template = {key: value for key, value in known.items() if not key.startswith("$")}  # "$patch", of the revision
    spec = manifest["spec"] | {"template": template}
    if claims := [
        one for one in spec.get("volumeClaimTemplates") or () if one["metadata"]["name"] in _claims_of(known)
    ]:
        spec["volumeClaimTemplates"] = claims
    return manifest | {"spec": spec}


def _claims_of(template: Manifest) -> frozenset[str]:
    """Return the names of the volumes of a pod template that are claims."""
    spec = template.get("spec") or {}
    return names.data_volumes(spec) - {one["name"] for one in spec.get("volumes") or () if "emptyDir" in one}


def _pool_of(template: Manifest) -> str | None:
    found: str | None = ((template.get("metadata") or {}).get("labels") or {}).get(names.LABEL_POOL)
    return found


def volumes_of(stateful_set: Manifest) -> frozenset[str]:
    """Return the names of its claim templates."""
    return frozenset(_by_name(stateful_set))


def why_anew(manifest: Manifest, live: Manifest) -> str:
    """Return why the StatefulSet must be made anew around its pods; "" when an apply is enough, or nothing is."""
    before, after = _by_name(live), _by_name(manifest)
    if before.keys() != after.keys():
        changed = ", ".join(sorted(before.keys() ^ after.keys()))
        return f"made anew around its pods: those that it makes next are to have other volumes ({changed})"
    grown = [name for name in after if name in before and not _is_same_size(after[name], before[name])]
    others = [name for name in after if name in before and _shape(after[name]) != _shape(before[name])]
    if others:
        return f"made anew around its pods: claims of {', '.join(others)} are to have another class or access mode"
    return f"made anew around its pods: claims of {', '.join(grown)} have another size" if grown else ""


def why_not(
    manifest: Manifest, live: Manifest, *, is_rebuilding: bool, added: Collection[str], taken: Mapping[str, str]
) -> str:
    """Return what keeps the templates of `live` from becoming those of `manifest`; "" when nothing does.
    `is_rebuilding`: the spec lets bookies be rebuilt for another class or access mode. `added`: the volumes that the
    spec adds to bookies which live; `taken`: those that a bookie may have data on (plan/adding.py)."""
    before, after = _by_name(live), _by_name(manifest)
    for name in (*before, *after):
        if name in added or (name in before and name in after):
            pass
        elif name in after:
            return f"volume {name} is in the spec and not in its claim templates: set `added: true` for it"
        elif name in taken:
            who = taken[name] or "a bookie"
            return f"volume {name} is not in the spec any more, and {who} may have data on it: put it back as it was"
        if name not in before or name not in after:
            continue
        if _shape(before[name]) != _shape(after[name]) and not is_rebuilding:
            return (
                f"the claim template of volume {name} has another class or access mode: set it back, or set"
                " spec.storage.layoutChange: RollingRebuild, or create another BookieCluster"
            )
    return ""


def _is_grown(seen: Observation, pool: str, volume: str, wanted: str) -> bool:
    claims = (
        None if one.claim is not None and expansion.is_kept(case, one.claim) else one.claim
        for case in seen.bookies
        if case.pool == pool and case.is_desired
        for one in case.volumes
        if one.name == volume
    )
    return all(expansion.is_done(claim, wanted) for claim in claims)


def is_left(seen: Observation, pool: str) -> bool:
    """Return True while a bookie of `pool` is to leave, leaves, or comes back from it."""
    for case in seen.bookies:
        entry = seen.cluster.status.bookie(case.name) if case.pool == pool else None
        stored = entry.leaving if entry is not None else None
        if case.is_rebuilt and (stored is None or stored.state is Departure.LEAVING):
            continue  # it begins only when the templates are as the spec says
        if case.pool == pool and (case.is_leaving or (stored is not None and not stored.state.is_gone)):
            return True
    return False


def _by_name(stateful_set: Manifest) -> dict[str, Manifest]:
    return {one["metadata"]["name"]: one for one in stateful_set["spec"].get("volumeClaimTemplates") or ()}


def _shape(template: Manifest) -> list[object]:
    spec = template["spec"]
    return [list(spec["accessModes"]), spec.get("storageClassName")]


def _size(template: Manifest) -> str:
    return str(template["spec"]["resources"]["requests"]["storage"])


def _is_same_size(one: Manifest, other: Manifest) -> bool:
    return _size(one) == _size(other) or values.is_same_quantity(_size(one), _size(other))


def _with_size(template: Manifest, size: str) -> Manifest:
    return template | {"spec": template["spec"] | {"resources": {"requests": {"storage": size}}}}
