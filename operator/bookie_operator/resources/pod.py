"""The pod of a bookie: restricted profile, no token, nothing writable but its volumes and a small /tmp.

Identity reaches the process without a shell: the kubelet expands $(POD_NAME) and $(POD_INDEX) in the environment.
Startup and liveness ask for the service `process` only: a bookie that waits for a grant is alive
(spec/operator.md#K25).
"""

from typing import Any

from bookie_operator.model import names
from bookie_operator.model.cluster import Cluster
from bookie_operator.model.spec import Placement, PoolPlacement, Zone
from bookie_operator.model.values import parse_duration
from bookie_operator.resources import common, data_security, ephemeral, identity, memory, metadata_access, settings

# Seconds from start until the admin port must answer; nothing but inspection comes before it.
_STARTUP_SECONDS = 120
# More than any cluster has nodes: see `_shared`.
_DOMAINS_MIN = 1_000_000
_HOST = "kubernetes.io/hostname"


def spec(cluster: Cluster, pool: str, zone: Zone | None, image: str) -> dict[str, Any]:
    """Return the pod spec of one pool."""
    want = cluster.spec
    own: dict[str, Any] = {
        "terminationGracePeriodSeconds": parse_duration(want.lifecycle.termination_grace) // 1000,
        "containers": [_container(cluster, pool, zone, image)],
        "volumes": [
            {"name": "bookie-settings", "configMap": {"name": settings.name(cluster)}},
            {"name": "bookie-tmp", "emptyDir": {"sizeLimit": want.resources.tmp_size}},
            identity.volume(cluster),
            *metadata_access.volumes(want),
            *data_security.volumes(cluster),
            # No sizeLimit: the kubelet ends a pod that is over it, and what the volume has goes with the pod.
            *({"name": volume.name, "emptyDir": {}} for _, volume in want.storage.by_role() if volume.is_ephemeral),
        ],
    }
    return common_spec(cluster) | own | _placement(cluster, pool, zone)


def common_spec(cluster: Cluster) -> dict[str, Any]:
    """Return what the bookies' pod specs and the metadata Job's have in common."""
    out: dict[str, Any] = {
        "serviceAccountName": names.service_account(cluster.name),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": names.RUN_AS,
            "runAsGroup": names.RUN_AS,
            "fsGroup": names.RUN_AS,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    if cluster.spec.image_pull_secrets:
        out["imagePullSecrets"] = [{"name": secret.name} for secret in cluster.spec.image_pull_secrets]
    if cluster.spec.placement.tolerations:
        out["tolerations"] = [toleration.dump() for toleration in cluster.spec.placement.tolerations]
    return out


def container_security() -> dict[str, Any]:
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def _container(cluster: Cluster, pool: str, zone: Zone | None, image: str) -> dict[str, Any]:
    want = cluster.spec
    ports = want.network.ports
    resources = {"requests": ephemeral.requests(want), "limits": memory.limits(want)}
    return {
        "name": names.CONTAINER,
        "image": image,
        "imagePullPolicy": want.image_pull_policy,
        "terminationMessagePolicy": "FallbackToLogsOnError",  # its last words stand in Ready
        "command": ["bookie"],
        "args": ["serve", "--config", f"{names.SETTINGS_DIR}/{names.SETTINGS_FILE}"],
        "env": _environment(cluster, pool, zone),
        "ports": [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in ports.by_name()],
        "resources": resources,
        "securityContext": container_security(),
        "startupProbe": _probe(ports.admin, "process", period=2, failures=_STARTUP_SECONDS // 2),
        "livenessProbe": _probe(ports.admin, "process", period=10, failures=6),
        "readinessProbe": _probe(ports.admin, "serving", period=2, failures=2),
        "volumeMounts": [
            {"name": "bookie-settings", "mountPath": names.SETTINGS_DIR, "readOnly": True},
            {"name": "bookie-tmp", "mountPath": "/tmp"},
            {"name": names.ADMIN_VOLUME, "mountPath": names.ADMIN_TLS_DIR, "readOnly": True},
            *metadata_access.mounts(want),
            *data_security.mounts(want),
            *(
                {"name": volume.name, "mountPath": settings.directory(role, volume.name)}
                for role, volume in want.storage.by_role()
            ),
        ],
    }


def _environment(cluster: Cluster, pool: str, zone: Zone | None) -> list[dict[str, Any]]:
    """Return the environment. Order matters: $(NAME) sees only the variables before it."""

    def field(name: str, path: str) -> dict[str, Any]:
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}

    domain = f"{names.headless_service(cluster.name)}.{cluster.namespace}.svc.{cluster.spec.network.cluster_domain}"
    out = [
        field("POD_NAME", "metadata.name"),
        field("POD_NAMESPACE", "metadata.namespace"),
        field("POD_UID", "metadata.uid"),
        field("POD_INDEX", f"metadata.labels['{names.LABEL_POD_INDEX}']"),
        field("NODE_NAME", "spec.nodeName"),
        {"name": "BOOKIE_BOOKIE_ID", "value": names.bookie_id(cluster.namespace, cluster.name, pool, "$(POD_INDEX)")},
        {"name": "BOOKIE_ADVERTISED_ADDRESS", "value": f"$(POD_NAME).{domain}"},
        {"name": "BOOKIE_ADMIN_TLS_DIRECTORY", "value": names.ADMIN_TLS_DIR},
        {"name": "BOOKIE_ADMIN_TLS_PORT", "value": str(cluster.spec.network.ports.admin_tls)},
        # Also what `bookie` commands in this container look for: no port lets them in.
        {"name": "BOOKIE_ADMIN_SOCKET", "value": names.ADMIN_SOCKET},
    ]
    if cluster.spec.placement.zone_source == "PodLabel":
        out.append(field("BOOKIE_ZONE", "metadata.labels['topology.kubernetes.io/zone']"))
    elif zone is not None:
        out.append({"name": "BOOKIE_ZONE", "value": zone.name})
    if _node_max(cluster.spec.placement) > 1:
        out.append(field("BOOKIE_MACHINE", "spec.nodeName"))
    return out


def _probe(port: int, service: str, *, period: int, failures: int) -> dict[str, Any]:
    return {
        "grpc": {"port": port, "service": service},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def _placement(cluster: Cluster, pool: str, zone: Zone | None) -> dict[str, Any]:
    placement = cluster.spec.placement
    out: dict[str, Any] = {}
    node_selector = dict(placement.node_selector)
    if zone is not None:
        own = {placement.topology_key: zone.name} if zone.node_selector is None else zone.node_selector
        node_selector |= own
    if node_selector:
        out["nodeSelector"] = node_selector
    if placement.priority_class_name is not None:
        out["priorityClassName"] = placement.priority_class_name
    node_max = _node_max(placement)
    if node_max > 1:
        return out | _shared(cluster, pool, node_max)
    term = {"labelSelector": {"matchLabels": common.selector(cluster)}, "topologyKey": _HOST}
    if placement.anti_affinity == "Required":
        out["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    elif placement.anti_affinity == "Preferred":
        weighted = {"weight": 100, "podAffinityTerm": term}
        out["affinity"] = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}
    return out


def _node_max(placement: Placement) -> int:
    return placement.per_node if isinstance(placement, PoolPlacement) else 1


def _shared(cluster: Cluster, pool: str, node_max: int) -> dict[str, Any]:
    """Return what lets `node_max` bookies of one pool share a node, none of another pool beside them, and not one more
    (spec/operator.md#N7).

    A spread counts from the emptiest node. With fewer nodes than `minDomains` it counts from 0, so that its `maxSkew`
    is the most that a node may have, exactly.
    """
    others = {
        "matchLabels": common.selector(cluster),
        "matchExpressions": [{"key": names.LABEL_POOL, "operator": "NotIn", "values": [pool]}],
    }
    apart = [{"labelSelector": others, "topologyKey": _HOST}]
    spread = {
        "maxSkew": node_max,
        "minDomains": _DOMAINS_MIN,
        "topologyKey": _HOST,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": common.selector(cluster) | {names.LABEL_POOL: pool}},
    }
    return {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart}},
        "topologySpreadConstraints": [spread],
    }
