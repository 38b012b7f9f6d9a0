"""Service, service account and disruption budget of a fleet."""

from bookie_operator.model import names
from bookie_operator.model.cluster import Cluster
from bookie_operator.resources import common


def headless(cluster: Cluster) -> common.Manifest:
    """Names for pods. Not-ready addresses too: a held bookie's admin port must be reachable (spec/operator.md#K24)."""
    network = cluster.spec.network
    families: dict[str, object] = {}
    if network.ip_family_policy is not None:
        families["ipFamilyPolicy"] = network.ip_family_policy
    if network.ip_families:
        families["ipFamilies"] = list(network.ip_families)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": common.metadata(cluster, names.headless_service(cluster.name), names.COMPONENT_BOOKIE),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": common.selector(cluster),
            "ports": [
                {"name": name, "port": port, "targetPort": name, "protocol": "TCP"}
                for name, port in network.ports.by_name()
            ],
            **families,
        },
    }


def service_account(cluster: Cluster) -> common.Manifest:
    """The bookies' account. It has no token, since bookies talk to no API server."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": common.metadata(cluster, names.service_account(cluster.name), names.COMPONENT_BOOKIE),
        "automountServiceAccountToken": False,
    }


def disruption_budget(
    cluster: Cluster, max_unavailable: int, evictable: str = "", *, expected: int = 0
) -> common.Manifest:
    """One budget over all zones, since two that match a pod make evictions fail. The caller passes `max_unavailable` 0
    while data is at risk. `evictable`: the one pod that the budget leaves out, so that it alone may be evicted.
    `expected`: how many pods there should be, while some have no controller that says so: Kubernetes counts such a pod
    as healthy and not as expected, and maxUnavailable would let one more go for each. 0: all have one."""
    outside = [{"key": names.LABEL_POD_NAME, "operator": "NotIn", "values": [evictable]}] if evictable else []
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": common.metadata(cluster, names.disruption_budget(cluster.name), names.COMPONENT_BOOKIE),
        "spec": {
            **({"minAvailable": expected - max_unavailable} if expected else {"maxUnavailable": max_unavailable}),
            "selector": {"matchLabels": common.selector(cluster), "matchExpressions": outside},
            # A pod that is not ready protects nothing by staying; but for the data that goes with it.
            "unhealthyPodEvictionPolicy": "IfHealthyBudget" if cluster.spec.has_ephemeral else "AlwaysAllow",
        },
    }
