"""Makes the bookie's properties file. The keys: bookie/settings/table.py. Values that differ per pod come by
environment."""

from collections.abc import Mapping

from bookie_operator.model import kept, names
from bookie_operator.model.cluster import Cluster
from bookie_operator.model.spec import BookieClusterSpec, Regeneration
from bookie_operator.model.values import parse_duration, parse_quantity
from bookie_operator.resources import common, data_security, ephemeral, metadata_access

# Whether a grant needs a person is the operator's business: the bookie waits for one either way, and nobody
# restarts when it changes.
_REGENERATION = {
    Regeneration.GATED: "gated",
    Regeneration.MANUAL: "gated",
    Regeneration.BOOKIE_LOCAL: "local",
}
# Of the termination grace this much is left to the kubelet; the bookie must be gone by then.
_SHUTDOWN_RESERVE_MS = 10_000


def directory(role: str, volume: str) -> str:
    """Return where a volume is mounted. The bookie takes the last component as the volume's name."""
    return f"{names.DATA_ROOT}/{role}/{volume}"


@kept.by_identity
def properties(spec: BookieClusterSpec) -> Mapping[str, str]:
    """Return all settings that every bookie of the cluster shares."""
    storage, ports = spec.storage, spec.network.ports
    out = ephemeral.settings(spec) | dict(sorted((spec.config or {}).items()))
    for key, role in (
        ("journalDirectories", "journal"),
        ("ledgerDirectories", "ledgers"),
        ("indexDirectories", "index"),
    ):
        directories = [directory(role, volume.name) for its_role, volume in storage.by_role() if its_role == role]
        if directories:
            out[key] = ",".join(directories)
    out |= {
        "bookiePort": str(ports.data),
        "adminPort": str(ports.admin),
        "metricsPort": str(ports.metrics),
        # Both families, whatever its name has: kubelets and the operator call a pod's first address, of either.
        "listeningAddress": "::",
        "metadataServiceUri": spec.metadata_service.uri,
        "zkTimeout": str(parse_duration(spec.metadata_service.session_timeout)),
        "journalWriteData": str(storage.journal_write_data).lower(),
        "regeneration": _REGENERATION[spec.repair.regeneration],
        "volumeProof": "kubernetes",
        "shutdownTimeoutMs": str(max(1000, parse_duration(spec.lifecycle.termination_grace) - _SHUTDOWN_RESERVE_MS)),
    }
    out |= metadata_access.settings(spec)
    out |= data_security.settings(spec)
    shared = [directory(role, volume.name) for role, volume in storage.by_role() if volume.shares_filesystem]
    if shared:
        out["allowSharedFilesystem"] = ",".join(shared)
    if storage.added:
        out["allowStorageExpansion"] = "true"
    if spec.repair.copy_rate is not None:
        out["copyRateBytesPerSecond"] = str(int(parse_quantity(spec.repair.copy_rate)))
    return out


def name(cluster: Cluster) -> str:
    """Return the name of the ConfigMap that a pod of the present revision reads."""
    return names.settings(cluster.name, common.digest(_data(cluster)))


def config_map(cluster: Cluster) -> common.Manifest:
    """Return the ConfigMap, immutable and named by its content: a container that restarts in its old pod reads what
    that pod began with, never half of an edit. It is removed when no pod, revision or StatefulSet names it any more
    (plan/prune.py)."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": common.metadata(cluster, name(cluster), names.COMPONENT_BOOKIE),
        "immutable": True,
        "data": _data(cluster),
    }


def _data(cluster: Cluster) -> dict[str, str]:
    lines = [f"{key}={value}" for key, value in properties(cluster.spec).items()]
    return {names.SETTINGS_FILE: "\n".join(lines) + "\n"}
