"""Where the admin port of a bookie is. Which kind is told by its pod's spec, never by who answers."""

from bookie_operator.evidence.facts import Door, PodFacts
from bookie_operator.model.cluster import Cluster


def of(cluster: Cluster, pod: PodFacts) -> Door:
    """A pod of before has a plain port only: it is looked at there, without a secret, and never granted anything."""
    ports = cluster.spec.network.ports
    if pod.has_certificates:
        return Door(f"{pod.ip}:{ports.admin_tls}", cluster.uid)
    return Door(f"{pod.ip}:{ports.admin}")
