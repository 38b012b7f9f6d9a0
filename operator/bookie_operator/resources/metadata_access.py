"""Lets the pods of a cluster prove themselves to ZooKeeper (metadataService.security): by a mounted Secret, and
settings that name its files. The operator never reads that Secret.
"""

import re
from typing import Any

from bookie_operator.model import names
from bookie_operator.model.spec import BookieClusterSpec

_SNAKE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def settings(spec: BookieClusterSpec) -> dict[str, str]:
    """Return the settings for a bookie (bookie/settings/table.py); none without security."""
    want = spec.metadata_service.security
    if want is None:
        return {}
    out: dict[str, str] = {}
    if want.authentication == "SASL":
        out["zkJaasFile"] = _file("jaas.conf")
    elif want.authentication == "Digest":
        out["zkDigestFile"] = _file("digest")
    if want.acls and want.authentication != "None":
        out["zkEnableSecurity"] = "true"
    if want.tls != "None":
        out |= {"zkTlsEnabled": "true", "zkTlsTrustStore": _file("ca.crt")}
    if want.tls == "Mutual":
        out |= {"zkTlsKeyStore": _file("tls.key"), "zkTlsCertificatePath": _file("tls.crt")}
    return out


def environment(spec: BookieClusterSpec) -> list[dict[str, Any]]:
    """Return the settings as environment variables, for a container without a settings file."""
    return [{"name": f"BOOKIE_{_SNAKE.sub('_', key).upper()}", "value": value} for key, value in settings(spec).items()]


def volumes(spec: BookieClusterSpec) -> list[dict[str, Any]]:
    want = spec.metadata_service.security
    if want is None:
        return []
    return [{"name": names.METADATA_VOLUME, "secret": {"secretName": want.secret_name, "defaultMode": 0o440}}]


def mounts(spec: BookieClusterSpec) -> list[dict[str, Any]]:
    if spec.metadata_service.security is None:
        return []
    return [{"name": names.METADATA_VOLUME, "mountPath": names.METADATA_DIR, "readOnly": True}]


def _file(key: str) -> str:
    return f"{names.METADATA_DIR}/{key}"
