"""Checks fields that the API server takes whatever they say, and that a bookie, its client of the metadata store, a
kubelet or the API server itself refuses, once they stand in a pod: found before a bookie is stopped for them.

As with `spec.config`, a problem stops the roll-out and nothing else.
"""

import re
from collections.abc import Iterator, Mapping

from bookie.base.errors import BadInput
from bookie.base.units import MIB
from bookie.metadata import paths
from bookie_operator.model import pools
from bookie_operator.model.spec import BookieClusterSpec, Toleration
from bookie_operator.model.values import parse_duration, parse_quantity

# As container runtimes read it: [host[:port]/]path[:tag][@digest]. All is lower case but the host, the tag and the
# digest.
_HOST = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[-A-Za-z0-9]*[A-Za-z0-9])?)*|\[[0-9a-fA-F:]+\])"
_PART = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:{_HOST}(?::[0-9]+)?/)?{_PART}(?:/{_PART})*(?::[A-Za-z0-9_][-.A-Za-z0-9_]{{0,127}})?"
    r"(?:@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?"
)
_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_DOMAIN = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
_LABEL_KEY = re.compile(rf"(?:(?=[^/]{{1,253}}/){_DOMAIN}/)?{_NAME}")
_LABEL_VALUE = re.compile(rf"(?:{_NAME})?")
_CLASS = re.compile(rf"(?=.{{1,253}}\Z){_DOMAIN}")
IMAGE_RULE = "write host/path:tag or host/path@digest, the path in lower case and without blanks"
_KEY_RULE = "write letters, digits, '-', '_' and '.', at most 63, after a domain and '/' if it has one"
# What a container may ask for by a name without a domain.
_RESOURCE = re.compile(r"cpu|memory|ephemeral-storage|hugepages-[0-9]+(?:\.[0-9]+)?(?:[kMGTP]|[KMGTP]i)?")
_MEMORY_LEAST = 64 * MIB  # an idle bookie has about that
_SESSION_MS_MAX = 2**31 - 1  # ZooKeeper's protocol has 32 bits for it
_SIZE_MAX = 2**63 - 1  # Kubernetes rounds to whole bytes, and counts them in 64 bits
_GRACE_MS_MAX = (2**63 - 1) // 1_000_000  # kubelets count nanoseconds, in 64 bits


def is_image(text: str) -> bool:
    """Return True for what a container runtime takes as the name of an image."""
    return _IMAGE.fullmatch(text) is not None


def problems(spec: BookieClusterSpec) -> tuple[str, ...]:
    """Return one sentence for each such field, with what to write."""
    return tuple(_found(spec))


def _found(spec: BookieClusterSpec) -> Iterator[str]:
    if spec.image and not is_image(spec.image):
        yield f"spec.image: {spec.image!r} is not the name of an image, and no node could pull it: {IMAGE_RULE}"
    session = spec.metadata_service.session_timeout
    if not 1 <= parse_duration(session) <= _SESSION_MS_MAX:
        yield f"spec.metadataService.sessionTimeout: {session} is not between 1ms and 596h: write such as 30s"
    grace = spec.lifecycle.termination_grace
    if parse_duration(grace) > _GRACE_MS_MAX:
        yield f"spec.lifecycle.terminationGrace: {grace} is longer than a kubelet can count: write such as 5m"
    yield from _of_uri(spec.metadata_service.uri)
    yield from _of_selectors(spec)
    yield from pools.problems(spec, _of_tolerations)
    yield from pools.problems(spec, _of_resources)
    yield from _of_amounts("spec.autorecovery.resources.requests", spec.autorecovery.resources.requests)
    yield from _of_amounts("spec.autorecovery.resources.limits", spec.autorecovery.resources.limits)
    named = [volume for _, shape in spec.shapes() for _, volume in shape.storage.by_role()]
    for name, size in dict.fromkeys((volume.name, volume.size) for volume in named):
        if not 1 <= parse_quantity(size) <= _SIZE_MAX:
            yield f"spec.storage: volume {name} of {size} is a size that no disk has: write such as 100Gi"
    for name, kind in dict.fromkeys((volume.name, volume.storage_class_name) for volume in named):
        if kind and not _CLASS.fullmatch(kind):
            yield (
                f"spec.storage: volume {name}: storageClassName {kind!r} is not the name of a StorageClass: write lower"
                " case, digits, '-' and '.'"
            )


def _of_uri(uri: str) -> Iterator[str]:
    try:
        paths.parse_uri(uri)
    except BadInput as error:
        yield f"spec.metadataService.uri: {error}"
        return
    if re.search(r"\s", uri):
        yield f"spec.metadataService.uri: {uri!r} has a blank or a line's end in it: leave it out"


def _of_selectors(spec: BookieClusterSpec) -> Iterator[str]:
    placement = spec.placement
    if not _LABEL_KEY.fullmatch(placement.topology_key):
        yield f"spec.placement.topologyKey: {placement.topology_key!r} is not the name of a label: {_KEY_RULE}"
    for field, labels in (
        ("spec.placement.nodeSelector", placement.node_selector),
        *((f"spec.zones: nodeSelector of {zone.name}", zone.node_selector or {}) for zone in spec.zones or ()),
        *((f"spec.pools: nodeSelector of {pool.name}", pool.node_selector or {}) for pool in spec.pools or ()),
        ("spec.podTemplate.metadata.labels", spec.pod_template.metadata.labels),
    ):
        for key, value in labels.items():
            if not _LABEL_KEY.fullmatch(key):
                yield f"{field}: {key!r} is not the name of a label: {_KEY_RULE}"
            elif not _LABEL_VALUE.fullmatch(value):
                yield (
                    f"{field}: {key}: {value!r} cannot be the value of a label: write letters, digits, '-', '_' and"
                    " '.', at most 63, or nothing"
                )


def _of_tolerations(spec: BookieClusterSpec) -> Iterator[str]:
    for one in spec.placement.tolerations:
        if why := _why_not(one):
            yield f"spec.placement.tolerations: that of {one.key or 'every key'} {why}"


def _why_not(one: Toleration) -> str:
    """Return what the API server has against it; "" if nothing."""
    if one.key and not _LABEL_KEY.fullmatch(one.key):
        return f"has no name of a taint as key: {_KEY_RULE}"
    if not one.key and one.operator != "Exists":
        return "needs operator Exists: without a key nothing can be compared"
    if one.operator == "Exists" and one.value:
        return f"has operator Exists and the value {one.value!r}: take one of them out"
    if one.value and not _LABEL_VALUE.fullmatch(one.value):
        return f"has {one.value!r} as value, which no taint has: write letters, digits, '-', '_' and '.'"
    return ""


def _of_resources(spec: BookieClusterSpec) -> Iterator[str]:
    resources = spec.resources
    yield from _of_amounts("spec.resources.requests", resources.requests)
    yield from _of_amounts("spec.resources.limits", resources.limits)
    limit = resources.limits.get("memory")
    if limit is not None and parse_quantity(limit) < _MEMORY_LEAST:
        yield (
            f"spec.resources.limits.memory is {limit}, and no bookie starts in less than 64Mi: raise it, or leave it"
            " out: then the operator sets what a bookie may take"
        )
    if parse_quantity(resources.tmp_size) < 1:
        yield f"spec.resources.tmpSize: {resources.tmp_size} is no size: write such as 256Mi"


def _of_amounts(field: str, amounts: Mapping[str, str]) -> Iterator[str]:
    for name, amount in amounts.items():
        if not (_RESOURCE.fullmatch(name) or ("/" in name and _LABEL_KEY.fullmatch(name))):
            yield (
                f"{field}: {name!r} is no resource of a container: write cpu, memory, ephemeral-storage, or a device's"
                " name with its domain"
            )
        elif parse_quantity(amount) > _SIZE_MAX:
            yield f"{field}.{name}: {amount} is more than Kubernetes can count: write such as 2Gi"
