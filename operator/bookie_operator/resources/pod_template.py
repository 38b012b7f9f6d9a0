"""Lays the user's pod template over the operator's, and says what in it cannot be.

Lists whose items have a key are joined by it, ours first, so that order never depends on the user's; what we set stays
as we set it, whatever the overlay says. So `merged` is safe for any overlay, and `problems` only explains: while there
is one, no StatefulSet is applied (plan/children.py), and the running fleet keeps its template.
"""

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from bookie_operator.model import names, reserved
from bookie_operator.model.cluster import Cluster
from bookie_operator.resources.common import Manifest

FIELD = "spec.podTemplate"

# Items of these lists are the same when these fields are equal, as for the API server's apply.
KEYS: dict[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "volumes": ("name",),
    "env": ("name",),
    "imagePullSecrets": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "ports": ("containerPort", "protocol"),
    "hostAliases": ("ip",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
}
# Left out by a user, these say the same as this.
_KEY_DEFAULTS = {"protocol": "TCP"}
# Ours and the user's both count.
_JOINED = (
    "tolerations",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
# The user's word counts: nothing of ours depends on it.
_REPLACED = (
    "spec.serviceAccountName",
    "spec.automountServiceAccountToken",
    "spec.enableServiceLinks",
    "spec.securityContext.fsGroupChangePolicy",
)
# Never the user's, whether we set it or not; and what to use instead.
_OWN_POD = {
    **dict.fromkeys(reserved.POD_SPEC_OWN, ""),
    "terminationGracePeriodSeconds": "spec.lifecycle.terminationGrace",
    "ephemeralContainers": "",
    "hostnameOverride": "",
    "os": "",
    "overhead": "",
    "priority": "spec.placement.priorityClassName",
    "resources": "spec.resources",
    "schedulingGates": "",
    "serviceAccount": f"{FIELD}.spec.serviceAccountName",
}
_OWN_CONTAINER = {
    "image": "spec.image",
    "imagePullPolicy": "spec.imagePullPolicy",
    "resources": "spec.resources",
    **dict.fromkeys(("startupProbe", "livenessProbe", "readinessProbe"), ""),
    **dict.fromkeys(("command", "args", "workingDir", "stdin", "stdinOnce", "tty"), ""),
    **dict.fromkeys(("lifecycle", "restartPolicy", "restartPolicyRules", "resizePolicy"), ""),
    **dict.fromkeys(("terminationMessagePath", "terminationMessagePolicy", "volumeDevices"), ""),
    "envFrom": "env, with each variable named",
}
# Of securityContext: whoever changes these takes its volumes from the bookie, or the restricted profile from the pod.
_OWN_SECURITY = ("runAsUser", "runAsGroup", "runAsNonRoot", "privileged", "procMount", "windowsOptions")
# What is wrong with items of these lists is said with their name or path.
_TOLD_BY_NAME = ("env", "volumes", "volumeMounts")
_OWN_VARIABLES = ("BOOKIE_", "POD_")
_CONTROLLER_LABELS = (
    "controller-revision-hash",
    "pod-template-hash",
    "statefulset.kubernetes.io/pod-name",
    names.LABEL_POD_INDEX,
)
# Where else a conflict is settled than in the pod template.
_INSTEAD = {
    "spec.nodeSelector": "spec.placement.nodeSelector and spec.zones",
    "spec.priorityClassName": "spec.placement.priorityClassName",
    "spec.imagePullSecrets": "spec.imagePullSecrets",
    "spec.affinity": "spec.placement.antiAffinity",
}


def overlay(cluster: Cluster) -> Manifest:
    """Return what the user wants of the pods, shaped as a pod template."""
    return cluster.spec.pod_template.dump()


def merged(ours: Manifest, theirs: Manifest) -> Manifest:
    """Return `ours` with all of `theirs` that does not contradict it. Neither is changed; ours come first."""
    out: Manifest = _merged(ours, theirs, "")
    return out


def _merged(ours: Any, theirs: Any, path: str) -> Any:
    name = path.rpartition(".")[2]
    if isinstance(ours, dict) and isinstance(theirs, dict):
        both = {key: _merged(own, theirs[key], _at(path, key)) if key in theirs else own for key, own in ours.items()}
        return both | {key: value for key, value in theirs.items() if key not in ours}
    if isinstance(ours, list) and isinstance(theirs, list):
        if name in KEYS:
            asked = {key: one for one in theirs if (key := key_of(name, one)) is not None}
            first = [_merged(own, asked.pop(key_of(name, own) or (), own), path) for own in ours]
            return [*first, *asked.values()]
        if name in _JOINED:
            return [*ours, *(one for one in theirs if one not in ours)]
    return theirs if path in _REPLACED else ours


def key_of(name: str, item: object) -> tuple[object, ...] | None:
    """Return what tells `item` of the list `name` from its others; None when it does not say it."""
    if not isinstance(item, dict):
        return None
    found = tuple(item.get(field, _KEY_DEFAULTS.get(field)) for field in KEYS[name])
    return found if all(isinstance(one, str | int) for one in found) else None


def problems(cluster: Cluster, ours: Manifest) -> tuple[str, ...]:
    """Return one sentence for each part of the user's pod template that cannot be laid over `ours`, the pod template of
    one zone as the operator makes it."""
    theirs = overlay(cluster)
    return tuple(
        dict.fromkeys(
            (
                *_of_metadata(cluster, theirs.get("metadata") or {}),
                *_of_pod(cluster, ours["spec"], theirs.get("spec") or {}),
                *_lost(theirs, merged(ours, theirs), ""),
            )
        )
    )


def _of_metadata(cluster: Cluster, metadata: Manifest) -> Iterator[str]:
    for part in ("labels", "annotations"):
        for key in metadata.get(part) or {}:
            if key.startswith(reserved.RESERVED_KEYS):
                yield f"{FIELD}.metadata.{part}: {key} is the operator's: choose another name"
            elif part == "labels" and key in _CONTROLLER_LABELS:
                yield f"{FIELD}.metadata.labels: {key} is the StatefulSet controller's: remove it"
    is_told_by_label = cluster.spec.placement.zone_source == "PodLabel"
    if is_told_by_label and "topology.kubernetes.io/zone" in (metadata.get("labels") or {}):
        yield (
            f"{FIELD}.metadata.labels: topology.kubernetes.io/zone tells each bookie its zone"
            " (spec.placement.zoneSource: PodLabel) and would be the same for all: remove it"
        )


def _of_pod(cluster: Cluster, ours: Manifest, theirs: Manifest) -> Iterator[str]:
    yield from _owned(theirs, _OWN_POD, f"{FIELD}.spec")
    yield from _of_security(theirs.get("securityContext"), f"{FIELD}.spec.securityContext", "the whole pod")
    claimed = {volume.name for _, volume in cluster.spec.storage.by_role()}
    our_volumes = {volume["name"] for volume in ours["volumes"]} | claimed
    for name, volume in _named(theirs, "volumes"):
        if name in our_volumes or name.startswith(reserved.RESERVED_VOLUMES):
            yield f"{FIELD}.spec.volumes: {name} is the name of a volume of the operator: choose another one"
        yield from _of_claim(cluster, name, volume)
    for name, container in (*_named(theirs, "containers"), *_named(theirs, "initContainers")):
        where = f"{FIELD}.spec, container {name}"
        for mount in _items(container, "volumeMounts") + _items(container, "volumeDevices"):
            if (volume_name := mount.get("name")) in our_volumes or str(volume_name).startswith(
                reserved.RESERVED_VOLUMES
            ):
                yield f"{where}: volume {volume_name} is the bookie's own, and nobody else mounts it: remove the mount"
    for name, _ in _named(theirs, "initContainers"):
        if name == names.CONTAINER:
            yield f"{FIELD}.spec.initContainers: {name} is the name of the bookie's container: choose another one"
    for name, container in _named(theirs, "containers"):
        if name == names.CONTAINER:
            yield from _of_bookie(ours["containers"][0], container)


def _of_bookie(ours: Manifest, theirs: Manifest) -> Iterator[str]:
    where = f"{FIELD}.spec, container {names.CONTAINER}"
    yield from _owned(theirs, _OWN_CONTAINER, where)
    yield from _of_security(theirs.get("securityContext"), f"{where}, securityContext", "the bookie")
    own_variables = {entry["name"] for entry in ours["env"]}
    for name, _ in _named(theirs, "env"):
        if name in own_variables or name.startswith(_OWN_VARIABLES):
            yield f"{where}: the variable {name} is the operator's: remove it, and use spec.config for settings"
    # Also above and below our paths: a mount there would hide a volume, or lie in it.
    own_paths = [mount["mountPath"] for mount in ours["volumeMounts"]] + [names.DATA_ROOT]
    for mount in _items(theirs, "volumeMounts"):
        path = _normal(str(mount.get("mountPath")))
        if any(_is_within(path, own) or _is_within(own, path) for own in own_paths):
            yield f"{where}: the mount at {path} hides or enters a volume of the operator: choose another path"


def _of_security(context: object, where: str, whose: str) -> Iterator[str]:
    if not isinstance(context, dict):
        return
    for name in _OWN_SECURITY:
        if name in context:
            yield f"{where}.{name} is the operator's, for {whose}: remove it"
    if isinstance(context.get("capabilities"), dict) and context["capabilities"].get("add"):
        yield f"{where}.capabilities.add: a bookie needs none: remove it, or give it to a container of your own"


def _of_claim(cluster: Cluster, name: str, volume: Manifest) -> Iterator[str]:
    source = volume.get("persistentVolumeClaim")
    claim = str(source.get("claimName")) if isinstance(source, dict) else ""
    if any(claim.startswith(f"{one.name}-{cluster.name}-") for _, one in cluster.spec.storage.by_role()):
        yield f"{FIELD}.spec.volumes: {name} is the claim {claim} of a bookie: nothing else may mount it. Remove it"


def _owned(theirs: Mapping[str, object], owned: Mapping[str, str], where: str) -> Iterator[str]:
    for name, instead in owned.items():
        if name in theirs:
            yield f"{where}: {name} is the operator's: remove it" + (f" and use {instead}" if instead else "")


def _lost(theirs: Any, result: Any, path: str) -> Iterator[str]:
    """Yield a sentence for each place where `result`, the merged template, is not as `theirs` asked for; and for each
    key that is said twice or not at all."""
    name = path.rpartition(".")[2]
    if isinstance(theirs, dict) and isinstance(result, dict):
        for key, value in theirs.items():
            if not ((path == "spec" and key in _OWN_POD) or key.startswith(reserved.RESERVED_KEYS)):
                yield from _lost(value, result.get(key), _at(path, key))
    elif isinstance(theirs, list) and isinstance(result, list) and name in KEYS:
        yield from _bad_keys(theirs, name, path)
        known = {key: one for one in result if (key := key_of(name, one)) is not None}
        for one in theirs if name not in _TOLD_BY_NAME else ():
            if (found := key_of(name, one)) is not None:
                is_bookie = path == "spec.containers" and found == (names.CONTAINER,)
                yield from _lost(_but(one, _OWN_CONTAINER) if is_bookie else one, known[found], path)
    elif theirs != result and name not in _JOINED:
        yield _conflict(path)


def _bad_keys(items: list[Any], name: str, path: str) -> Iterator[str]:
    keys = [key_of(name, one) for one in items]
    if None in keys:
        yield f"{FIELD}.{path}: an item has no {KEYS[name][0]}: give it one"
    for key in dict.fromkeys(key for key in keys if key is not None and keys.count(key) > 1):
        yield f"{FIELD}.{path}: {'/'.join(map(str, key))} stands there twice: keep one"


def _conflict(path: str) -> str:
    if path.rpartition(".")[2] in _OWN_SECURITY:
        return f"{FIELD}.{path} is the operator's, for the whole pod: remove it"
    instead = next((field for start, field in _INSTEAD.items() if path.startswith(start)), "")
    return f"{FIELD}.{path} is set by the operator to something else: remove it" + (
        f" and use {instead}" if instead else ""
    )


def _named(parent: Manifest, key: str) -> list[tuple[str, Manifest]]:
    return [(str(one.get("name")), one) for one in _items(parent, key)]


def _items(parent: Manifest, key: str) -> list[Manifest]:
    found = parent.get(key)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _but(item: Any, keys: Mapping[str, str]) -> Any:
    return {key: value for key, value in item.items() if key not in keys} if isinstance(item, dict) else item


def _at(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _normal(path: str) -> str:
    """Return `path` as the container's runtime takes it: absolute, without dots and doubled slashes."""
    return posixpath.normpath(f"/{path.lstrip('/')}")


def _is_within(path: str, parent: str) -> bool:
    return path == parent or parent == "/" or path.startswith(f"{parent}/")
