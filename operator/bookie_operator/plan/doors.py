"""Finds the admin port of a bookie. The pod's spec says whether the port has TLS, never the process that answers."""

from bookie_operator.evidence.facts import Door, PodFacts
from bookie_operator.model.cluster import Cluster


def of(cluster: Cluster, pod: PodFacts) -> Door:
    """Return the pod's admin port. A pod of a release without TLS has a plain port: the operator asks there, and never
    grants."""
    ports = cluster.spec.network.ports
    host = f"[{pod.ip}]" if ":" in pod.ip else pod.ip
    if pod.has_certificates:
        return Door(f"{host}:{ports.admin_tls}", cluster.uid)
    return Door(f"{host}:{ports.admin}")
