"""Gives the bookies what protects their data port (spec.security): mounted Secrets, and settings that name their files.

The kubelet brings the files, and new ones within a minute or two; of the user's Secrets the operator reads none.
"""

from typing import Any

from bookie_operator.model import names
from bookie_operator.model.cluster import Cluster
from bookie_operator.model.spec import BookieClusterSpec
from bookie_operator.resources import identity

_TLS = "org.apache.bookkeeper.tls.TLSContextFactory"
_SASL_BOOKIE = "org.apache.bookkeeper.sasl.SASLBookieAuthProviderFactory"
_SASL_CLIENT = "org.apache.bookkeeper.sasl.SASLClientProviderFactory"


def settings(spec: BookieClusterSpec) -> dict[str, str]:
    """Return the settings for a bookie (bookie/settings/table.py); none while everything is disabled."""
    return _tls(spec) | _sasl(spec)


def hosts(cluster: Cluster) -> tuple[str, ...]:
    """Return the names that the operator's certificate for the bookies has: all of their Service."""
    service = f"*.{names.headless_service(cluster.name)}.{cluster.namespace}.svc"
    return f"{service}.{cluster.spec.network.cluster_domain}", service


def volumes(cluster: Cluster) -> list[dict[str, Any]]:
    out = []
    for volume, secret, _ in _mounted(cluster.spec):
        source: dict[str, Any] = {"secretName": secret or names.DATA_CERTIFICATES, "defaultMode": 0o440}
        if secret is None:
            # Of this cluster alone: the Secret has those of the others in this namespace.
            source["items"] = [{"key": f"{cluster.name}.{file}", "path": file} for file in identity.DATA_FILES]
        out.append({"name": volume, "secret": source})
    return out


def mounts(spec: BookieClusterSpec) -> list[dict[str, Any]]:
    return [{"name": volume, "mountPath": path, "readOnly": True} for volume, _, path in _mounted(spec)]


def _mounted(spec: BookieClusterSpec) -> list[tuple[str, str | None, str]]:
    """Return (volume, Secret, directory) of what is switched on."""
    tls, authentication = spec.security.tls, spec.security.authentication
    out = [(names.TLS_VOLUME, tls.secret_name, names.TLS_DIR)] if tls.mode != "Disabled" else []
    if authentication.mode != "Disabled":
        out.append((names.SASL_VOLUME, authentication.secret_name, names.SASL_DIR))
    return out


def _tls(spec: BookieClusterSpec) -> dict[str, str]:
    want = spec.security.tls
    if want.mode == "Disabled":
        return {}
    return {
        "tlsProviderFactoryClass": _TLS,
        "tlsKeyStoreType": "PEM",
        "tlsKeyStore": f"{names.TLS_DIR}/tls.key",
        "tlsCertificatePath": f"{names.TLS_DIR}/tls.crt",
        "tlsTrustStoreType": "PEM",
        "tlsTrustStore": f"{names.TLS_DIR}/ca.crt",
        "tlsClientAuthentication": str(want.client_certificates).lower(),
        "tlsHostnameVerificationEnabled": str(want.verify_host_names or want.is_made_here).lower(),
        "tlsRequired": str(want.mode == "Required").lower(),
        # Of a fleet on its way to or from Required some bookies have no TLS, and repairs must reach those as well.
        "tlsPeersMayBePlain": str(want.mode == "Permissive").lower(),
    }


def _sasl(spec: BookieClusterSpec) -> dict[str, str]:
    mode = spec.security.authentication.mode
    if mode == "Disabled":
        return {}
    # Whoever proves himself is served by a bookie that asks for no proof as well: so bookies begin with it.
    out = {"clientAuthProviderFactoryClass": _SASL_CLIENT, "saslJaasFile": f"{names.SASL_DIR}/jaas.conf"}
    return out | ({"bookieAuthProviderFactoryClass": _SASL_BOOKIE} if mode == "Required" else {})
