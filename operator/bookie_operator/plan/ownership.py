"""Whose cluster a BookieCluster is, when several operators run beside each other (spec/operator.md#I1 to I3); and
whose an object is that has the name of a child (spec/operator.md#I4). Pure.

An operator here is an installation: all processes that share one lease. Its name, `namespace/lease`, is stored in the
status of each cluster, and in the record, before it touches anything of that cluster. Another installation that finds
the name refuses, in words, and writes nothing to the cluster. Only a person hands a cluster over, by an annotation. No
time does: an operator that is silent may be in the middle of a grant.
"""

from dataclasses import dataclass

from bookie_operator.model import names
from bookie_operator.model.cluster import Cluster
from bookie_operator.resources.common import Manifest

_MADE_ONCE = ("Job", "ConfigMap")  # nothing of them can be changed: handing one over would not make it a child


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why this operator leaves a cluster alone. `is_conflict`: nobody asked for that by name."""

    owner: str
    message: str
    is_conflict: bool


def refusal(mine: str, asked: str, stored: str) -> Refusal | None:
    """Return why the operator `mine` must leave a cluster alone; None when it is its own. `asked`: the operator that
    the annotation names; `stored`: the one that the status, or the record, names; "" = none."""
    if asked and asked != mine:
        return Refusal(asked, f"annotation {names.OPERATOR} says that operator {asked} keeps it", False)
    if asked or not stored or stored == mine:
        return None
    return Refusal(
        stored,
        f"operator {stored} keeps this cluster, and operator {mine} finds it too: narrow what one of them watches"
        f" (chart values watch.namespaces, watch.selector); or hand it over: `kubectl annotate bookiecluster"
        f" {names.OPERATOR}={mine}`",
        True,
    )


def stranger(live: Manifest, cluster: Cluster) -> str:
    """Return why `live`, which has the name of a child of `cluster`, is none: it is not changed, and does not go with
    the cluster. "" for a child, also for one whose owner somebody took away (`kubectl delete --cascade=orphan`): it has
    the hash that it was applied with, and is of a cluster of this name."""
    kind, metadata = live["kind"], live["metadata"]
    controller = next((one for one in metadata.get("ownerReferences") or () if one.get("controller")), None)
    if controller is not None and controller.get("uid") == cluster.uid:
        return ""
    if controller is not None:
        return (
            f"{kind} {metadata['name']} belongs to {controller.get('kind')} {controller.get('name')} (uid"
            f" {controller.get('uid')}): rename this BookieCluster, or wait until the other is gone"
        )
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    was_child = names.APPLIED_HASH in annotations and labels.get(names.LABEL_CLUSTER, cluster.name) == cluster.name
    if was_child or (kind not in _MADE_ONCE and _is_given(live, cluster)):
        return ""
    return _sentence(live, cluster, may_be_given=kind not in _MADE_ONCE)


def shared_stranger(live: Manifest | None, cluster: Cluster) -> str:
    """The same of an object that has no controller, as several clusters may own it: the operator's own have its
    label."""
    if live is None or _is_given(live, cluster):
        return ""
    metadata = live["metadata"]
    is_labelled = (metadata.get("labels") or {}).get(names.LABEL_MANAGED_BY) == names.MANAGED_BY
    is_owned = any(
        one.get("kind") == names.KIND and one.get("apiVersion") == names.API_VERSION
        for one in metadata.get("ownerReferences") or ()
    )
    return "" if is_labelled or is_owned else _sentence(live, cluster, may_be_given=True)


def _is_given(live: Manifest, cluster: Cluster) -> bool:
    return bool((live["metadata"].get("annotations") or {}).get(names.ADOPT, "") == cluster.uid)


def _sentence(live: Manifest, cluster: Cluster, *, may_be_given: bool) -> str:
    kind, name = live["kind"], live["metadata"]["name"]
    said = (
        f"{kind} {name} is there already, and nothing says that this operator made it: it stays as it is. Delete it, or"
        " rename this BookieCluster"
    )
    if not may_be_given:
        return said
    return (
        f"{said}; or hand it over, so that it is changed and goes with the cluster: `kubectl -n {cluster.namespace}"
        f" annotate {kind.lower()} {name} {names.ADOPT}={cluster.uid}`"
    )
