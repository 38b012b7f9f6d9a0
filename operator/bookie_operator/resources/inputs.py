"""Notes on each pod what the spec said of it: a digest, and a fingerprint of each field that was said.

A pod of an older revision is one of two: its user changed the spec, or a newer operator renders the same spec otherwise
(or brings another default image). Only the first is rolled out; the second waits until the pod ends for another
reason. So this covers what the user said, never what the operator makes of it. What does not reach the pod (replicas,
quorums, gates, budgets) is left out.

The API server stores the defaults of the CRD in each object, so what the user did not say looks like what he said.
What equals DEFAULTS counts as not said; that table is frozen: when a release changes a default, the objects that have
the old one stay as they are, and so do their digests. A pod is compared by the scheme that its own note names
(spec/operator.md#Q14).
"""

import json
from collections.abc import Iterator, Mapping

from bookie_operator.model import kept
from bookie_operator.model.base import Model
from bookie_operator.model.spec import BookieClusterSpec, Zone
from bookie_operator.resources import common

# Fields of the spec, whole or the parts named.
REACHING: dict[str, bool | set[str]] = {
    **dict.fromkeys(("image", "image_pull_policy", "image_pull_secrets", "placement", "resources", "config"), True),
    **dict.fromkeys(("network", "security", "pod_template"), True),
    "storage": {"journal_write_data", "journal", "ledgers", "index"},
    "metadata_service": {"uri", "session_timeout", "security"},
    "repair": {"regeneration", "copy_rate"},
    "lifecycle": {"termination_grace"},
}
SCHEME = "v1"
# By path: the default of each field when it was introduced. Frozen: a line may be added with the field itself, and no
# line may change, or every bookie of every fleet is restarted by the upgrade of its operator. What is absent, an empty
# list and an empty map are never said and need no line.
DEFAULTS: Mapping[str, object] = {
    "spec.imagePullPolicy": "IfNotPresent",
    "spec.lifecycle.terminationGrace": "5m",
    "spec.metadataService.security.acls": True,
    "spec.metadataService.security.authentication": "SASL",
    "spec.metadataService.security.tls": "None",
    "spec.metadataService.sessionTimeout": "30s",
    "spec.network.clusterDomain": "cluster.local",
    "spec.network.ports.admin": 3182,
    "spec.network.ports.adminTls": 3184,
    "spec.network.ports.data": 3181,
    "spec.network.ports.metrics": 3183,
    "spec.placement.antiAffinity": "Required",
    "spec.placement.topologyKey": "topology.kubernetes.io/zone",
    "spec.placement.zoneSource": "Static",
    "spec.repair.regeneration": "Gated",
    "spec.resources.requests": {"cpu": "500m", "memory": "2Gi"},
    "spec.resources.tmpSize": "256Mi",
    "spec.security.authentication.mode": "Disabled",
    "spec.security.tls.clientCertificates": False,
    "spec.security.tls.mode": "Disabled",
    "spec.security.tls.verifyHostNames": False,
    "spec.storage.journalWriteData": True,
}
# By path: values that bookies take for the default, since only the operator tells them apart. A change between them is
# rolled out to nobody, nor are pods restarted whose notes, of an operator of before, still tell them apart.
_AS_DEFAULT: Mapping[str, tuple[object, ...]] = {"spec.repair.regeneration": ("Manual",)}
# Maps whose keys are fields of their own for a person who asks why a bookie restarts.
_BY_KEY = ("spec.config",)
# A volume grows under its pod: its size is no reason to end one.
_VOLUMES = tuple(f"spec.storage.{role}.volumes" for role in ("journal", "ledgers", "index"))
_CHANGED_SHOWN = 12
_FINGERPRINT_DIGITS = 8


def said(spec: BookieClusterSpec, zone: Zone | None) -> dict[str, object]:
    """Return, by path, every value that the user said and that a pod of `zone` depends on. The caller owns the dict."""
    return dict(_look_through(spec, zone))


@kept.by_identity
def _look_through(spec: BookieClusterSpec, zone: Zone | None) -> Mapping[str, object]:
    out: dict[str, object] = {}
    for field, reaching in REACHING.items():
        path = f"spec.{_alias(spec, field)}"
        out |= dict(_said(getattr(spec, field), path, reaching if isinstance(reaching, set) else None))
    if zone is not None:
        own = zone.dump()
        out |= {f"spec.zones[{zone.name}].{key}": value for key, value in own.items() if key != "name" and value}
    return out


@kept.by_identity
def digest(spec: BookieClusterSpec, zone: Zone | None) -> str:
    """Return `v1-` and sixteen hex digits over everything that was said of a pod of `zone`."""
    return f"{SCHEME}-{common.digest(_look_through(spec, zone))}"


def fingerprints(spec: BookieClusterSpec, zone: Zone | None) -> str:
    """Return JSON: by path, a few hex digits of each value that was said; no value itself stands there."""
    return json.dumps(_marks(spec, zone), separators=(",", ":"))


@kept.by_identity
def _marks(spec: BookieClusterSpec, zone: Zone | None) -> Mapping[str, str]:
    return {path: _fingerprint(value) for path, value in sorted(_look_through(spec, zone).items())}


def is_noted(note: str) -> bool:
    """Return True when `note`, of a pod, is a digest that this release can compare."""
    return note.startswith(f"{SCHEME}-")


def changed(marks: str, spec: BookieClusterSpec, zone: Zone | None) -> tuple[str, ...]:
    """Return the paths whose values are others than those in `marks`, `fingerprints` of another time; "spec" alone when
    `marks` cannot be read, or do not tell why the digest is another one; () when nothing is that a bookie reads."""
    try:
        before = json.loads(marks)
    except ValueError:
        before = None
    if not isinstance(before, dict):
        return ("spec",)
    unread = {path for path, values in _AS_DEFAULT.items() for one in values if before.get(path) == _fingerprint(one)}
    before = {path: mark for path, mark in before.items() if path not in unread}
    now = _marks(spec, zone)
    found = tuple(path for path in sorted({*before, *now}) if before.get(path) != now.get(path))
    return found or (() if unread else ("spec",))


def told(paths: tuple[str, ...]) -> str:
    """Return the paths as a person reads them, the first few of many."""
    more = f" and {len(paths) - _CHANGED_SHOWN} more" if len(paths) > _CHANGED_SHOWN else ""
    return f"{', '.join(paths[:_CHANGED_SHOWN])}{more}"


def _said(value: object, path: str, parts: set[str] | None = None) -> Iterator[tuple[str, object]]:
    if isinstance(value, Model):
        for field in type(value).model_fields:
            if parts is None or field in parts:
                yield from _said(getattr(value, field), f"{path}.{_alias(value, field)}")
        return
    plain = _plain(value)
    if path in _VOLUMES and isinstance(plain, list):
        plain = [{key: said for key, said in one.items() if key != "size"} for one in plain]
    if path in _BY_KEY and isinstance(plain, dict):
        yield from ((f"{path}.{key}", one) for key, one in plain.items())
    elif (plain not in (None, [], {}) or path in DEFAULTS) and plain not in _unsaid(path):
        yield path, plain


def _unsaid(path: str) -> tuple[object, ...]:
    return DEFAULTS.get(path), *_AS_DEFAULT.get(path, ())


def _alias(model: Model, field: str) -> str:
    return type(model).model_fields[field].alias or field


def _plain(value: object) -> object:
    """Return `value` as JSON."""
    match value:
        case Model():
            return value.dump()
        case tuple() | list():
            return [_plain(one) for one in value]
        case dict():
            return {str(key): _plain(one) for key, one in value.items()}
        case _:
            return getattr(value, "value", value)  # of an enumeration


def _fingerprint(value: object) -> str:
    return common.digest(value)[:_FINGERPRINT_DIGITS]
