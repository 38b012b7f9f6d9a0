"""The two Secrets behind the admin ports, and how a pod sees its part. An authority's key goes into the first only.

    bookie-operator-authorities   operator's namespace   one entry per cluster: its authority, keys included
    bookie-admin-certificates     cluster's namespace    per cluster NAME: NAME.tls.crt .tls.key .ca.crt .clients

Each cluster applies its entries under a field manager of its own, so that it never touches another's.
"""

import base64
import binascii
from typing import Any

from bookie_operator.model import names
from bookie_operator.model.cluster import Cluster
from bookie_operator.resources import common
from bookie_operator.resources.common import Manifest

FILES = ("tls.crt", "tls.key", "ca.crt", "clients")


def manager(namespace: str, name: str) -> str:
    """Return the field manager of one cluster's entries; at most 128 characters (a name is no longer than 30)."""
    return f"{names.MANAGER}/{namespace}/{name}"


def entry(cluster: Cluster) -> str:
    """Return the key of a cluster's authority in the Secret. Another uid is another cluster, with another authority."""
    return f"{cluster.namespace}_{cluster.name}_{cluster.uid}"


def volume(cluster: Cluster) -> dict[str, Any]:
    """Return the volume of this cluster's files in the namespace's Secret; changes reach a running pod within a minute
    or two."""
    items = [{"key": f"{cluster.name}.{file}", "path": file} for file in FILES]
    secret = {"secretName": names.ADMIN_CERTIFICATES, "items": items, "defaultMode": 0o440}
    return {"name": names.ADMIN_VOLUME, "secret": secret}


def authorities(namespace: str, entries: dict[str, bytes], resource_version: str = "") -> Manifest:
    """Return the Secret of authorities. With `resource_version`, the API server refuses it if the Secret changed
    since."""
    manifest = _secret(names.ADMIN_AUTHORITIES, namespace, entries)
    if resource_version:
        manifest["metadata"]["resourceVersion"] = resource_version
    return manifest


def certificates(cluster: Cluster, files: dict[str, bytes]) -> Manifest:
    """Return the Secret of certificates. Kubernetes deletes it with the last cluster of its namespace."""
    manifest = _secret(
        names.ADMIN_CERTIFICATES, cluster.namespace, {f"{cluster.name}.{file}": text for file, text in files.items()}
    )
    # Several clusters own it, so that none of them is its controller.
    manifest["metadata"]["ownerReferences"] = [common.owner(cluster, is_controller=False)]
    return manifest


def files_of(cluster: Cluster, live: Manifest | None) -> dict[str, bytes]:
    """Return this cluster's files as they stand in the Secret; b"" for a missing one or no base64."""
    return {file: decoded(live, f"{cluster.name}.{file}") for file in FILES}


def decoded(live: Manifest | None, key: str) -> bytes:
    text = ((live or {}).get("data") or {}).get(key) or ""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _secret(name: str, namespace: str, entries: dict[str, bytes]) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY}},
        "data": {key: base64.b64encode(text).decode() for key, text in entries.items()},
    }
