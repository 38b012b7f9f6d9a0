"""The Secrets with the operator's certificates, and how a pod sees its part. An authority's key is in the first only.

    bookie-operator-authorities   operator's namespace   one entry per cluster: its authority, keys included
    bookie-admin-certificates     cluster's namespace    per cluster NAME: NAME.tls.crt .tls.key .ca.crt .clients
    bookie-data-certificates      cluster's namespace    the same without .clients, of the data ports

Each cluster applies its entries under a field manager of its own, so that it never touches another's.
"""

import base64
import binascii
from dataclasses import dataclass
from typing import Any

from bookie_operator.model import names
from bookie_operator.model.cluster import Cluster
from bookie_operator.resources import common
from bookie_operator.resources.common import Manifest

FILES = ("tls.crt", "tls.key", "ca.crt", "clients")
DATA_FILES = ("tls.crt", "tls.key", "ca.crt")


@dataclass(frozen=True, slots=True)
class Purpose:
    """What an authority's certificates are for. Each has a field manager and entries of its own."""

    word: str  # in the authority's name
    secret: str  # with the certificates
    files: tuple[str, ...]
    ending: str  # of the field manager's name
    mark: str  # at the end of the authority's entry


ADMIN = Purpose("admin", names.ADMIN_CERTIFICATES, FILES, "", "")
DATA = Purpose("data", names.DATA_CERTIFICATES, DATA_FILES, "/data", "_data")


def manager(namespace: str, name: str, purpose: Purpose = ADMIN) -> str:
    """Return the field manager of one cluster's entries; at most 128 characters (a name is no longer than 30)."""
    return f"{names.MANAGER}/{namespace}/{name}{purpose.ending}"


def entry(cluster: Cluster, purpose: Purpose = ADMIN) -> str:
    """Return the key of a cluster's authority in the Secret. Another uid is another cluster, with another authority."""
    return f"{cluster.namespace}_{cluster.name}_{cluster.uid}{purpose.mark}"


def is_of(purpose: Purpose, key: str, namespace: str, name: str) -> bool:
    """Return True when `key` is the authority's entry of any cluster that had this name."""
    return key.startswith(f"{namespace}_{name}_") and key.endswith(DATA.mark) == (purpose is DATA)


def volume(cluster: Cluster) -> dict[str, Any]:
    """Return the volume of this cluster's files in the namespace's Secret; changes reach a running pod within a minute
    or two."""
    items = [{"key": f"{cluster.name}.{file}", "path": file} for file in FILES]
    secret = {"secretName": names.ADMIN_CERTIFICATES, "items": items, "defaultMode": 0o440}
    return {"name": names.ADMIN_VOLUME, "secret": secret}


def authorities(namespace: str, entries: dict[str, bytes], resource_version: str = "") -> Manifest:
    """Return the Secret of authorities. With `resource_version`, the API server refuses it if the Secret changed
    since."""
    return _secret(names.ADMIN_AUTHORITIES, namespace, entries, resource_version)


def certificates(cluster: Cluster, files: dict[str, bytes], purpose: Purpose = ADMIN) -> Manifest:
    """Return the Secret of certificates. Kubernetes deletes it with the last cluster of its namespace."""
    manifest = _secret(
        purpose.secret, cluster.namespace, {f"{cluster.name}.{file}": text for file, text in files.items()}
    )
    # Several clusters own it, so that none of them is its controller.
    manifest["metadata"]["ownerReferences"] = [common.owner(cluster, is_controller=False)]
    return manifest


def without_files(namespace: str, purpose: Purpose, resource_version: str) -> Manifest:
    """Return the Secret of certificates as a cluster applies it that has none of them any more."""
    return _secret(purpose.secret, namespace, {}, resource_version)


def data_authority(cluster: Cluster, bundle: bytes) -> Manifest:
    """Return the ConfigMap from which clients learn whom to trust. Not the cluster's child: prune leaves it alone."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": names.data_authority(cluster.name),
            "namespace": cluster.namespace,
            "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY},
            "ownerReferences": [common.owner(cluster, is_controller=False)],
        },
        "data": {"ca.crt": bundle.decode()},
    }


def files_of(cluster: Cluster, live: Manifest | None, purpose: Purpose = ADMIN) -> dict[str, bytes]:
    """Return this cluster's files as they stand in the Secret; b"" for a missing one or no base64."""
    return {file: decoded(live, f"{cluster.name}.{file}") for file in purpose.files}


def decoded(live: Manifest | None, key: str) -> bytes:
    text = ((live or {}).get("data") or {}).get(key) or ""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _secret(name: str, namespace: str, entries: dict[str, bytes], resource_version: str = "") -> Manifest:
    metadata: Manifest = {"name": name, "namespace": namespace, "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY}}
    if resource_version:
        metadata["resourceVersion"] = resource_version
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "data": {key: base64.b64encode(text).decode() for key, text in entries.items()},
    }
