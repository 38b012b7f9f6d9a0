"""The bookie's properties file. Keys are the bookie's own (cli/settings); what differs per pod comes by environment."""

from bookie_operator.model import names
from bookie_operator.model.cluster import Cluster
from bookie_operator.model.spec import BookieClusterSpec, Regeneration
from bookie_operator.model.values import parse_duration, parse_quantity
from bookie_operator.resources import common

_REGENERATION = {
    Regeneration.GATED: "gated",
    Regeneration.MANUAL: "manual",
    Regeneration.BOOKIE_LOCAL: "local",
}
# Of the termination grace this much is left to the kubelet; the bookie must be gone by then.
_SHUTDOWN_RESERVE_MS = 10_000


def directory(role: str, volume: str) -> str:
    """Where a volume is mounted. The bookie takes the last component as the volume's name."""
    return f"{names.DATA_ROOT}/{role}/{volume}"


def properties(spec: BookieClusterSpec) -> dict[str, str]:
    """All settings that every bookie of the cluster shares."""
    storage, ports = spec.storage, spec.network.ports
    out = dict(sorted((spec.config or {}).items()))
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
        "listeningAddress": "0.0.0.0",
        "metadataServiceUri": spec.metadata_service.uri,
        "zkTimeout": str(parse_duration(spec.metadata_service.session_timeout)),
        "journalWriteData": str(storage.journal_write_data).lower(),
        "regeneration": _REGENERATION[spec.repair.regeneration],
        "volumeProof": "kubernetes",
        "shutdownTimeoutMs": str(max(1000, parse_duration(spec.lifecycle.termination_grace) - _SHUTDOWN_RESERVE_MS)),
    }
    shared = [directory(role, volume.name) for role, volume in storage.by_role() if volume.shares_filesystem]
    if shared:
        out["allowSharedFilesystem"] = ",".join(shared)
    if spec.repair.copy_rate is not None:
        out["copyRateBytesPerSecond"] = str(int(parse_quantity(spec.repair.copy_rate)))
    return out


def config_map(cluster: Cluster) -> common.Manifest:
    lines = [f"{key}={value}" for key, value in properties(cluster.spec).items()]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": common.metadata(cluster, names.settings(cluster.name), names.COMPONENT_BOOKIE),
        "data": {names.SETTINGS_FILE: "\n".join(lines) + "\n"},
    }
