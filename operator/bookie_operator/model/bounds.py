"""Checks fields that the API server takes whatever they say, and that a bookie, its client of the metadata store or a
kubelet refuses: found before a bookie is stopped for them.

As with `spec.config`, a problem stops the roll-out and nothing else.
"""

import re
from collections.abc import Iterator

from bookie_operator.model.spec import BookieClusterSpec
from bookie_operator.model.values import parse_duration, parse_quantity

# As container runtimes read it: [host[:port]/]path[:tag][@digest]. All is lower case but the host, the tag and the
# digest.
_HOST = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[-A-Za-z0-9]*[A-Za-z0-9])?)*|\[[0-9a-fA-F:]+\])"
_PART = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:{_HOST}(?::[0-9]+)?/)?{_PART}(?:/{_PART})*(?::[A-Za-z0-9_][-.A-Za-z0-9_]{{0,127}})?"
    r"(?:@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?"
)
_SESSION_MS_MAX = 2**31 - 1  # ZooKeeper's protocol has 32 bits for it
_SIZE_MAX = 2**63 - 1  # Kubernetes rounds to whole bytes, and counts them in 64 bits
_GRACE_MS_MAX = (2**63 - 1) // 1_000_000  # kubelets count nanoseconds, in 64 bits


def problems(spec: BookieClusterSpec) -> tuple[str, ...]:
    """Return one sentence for each such field, with what to write."""
    return tuple(_found(spec))


def _found(spec: BookieClusterSpec) -> Iterator[str]:
    if spec.image and not _IMAGE.fullmatch(spec.image):
        yield (
            f"spec.image: {spec.image!r} is not the name of an image, and no node could pull it: write host/path:tag or"
            " host/path@digest, the path in lower case and without blanks"
        )
    session = spec.metadata_service.session_timeout
    if not 1 <= parse_duration(session) <= _SESSION_MS_MAX:
        yield f"spec.metadataService.sessionTimeout: {session} is not between 1ms and 596h: write such as 30s"
    grace = spec.lifecycle.termination_grace
    if parse_duration(grace) > _GRACE_MS_MAX:
        yield f"spec.lifecycle.terminationGrace: {grace} is longer than a kubelet can count: write such as 5m"
    named = (volume for _, shape in spec.shapes() for _, volume in shape.storage.by_role())
    for name, size in dict.fromkeys((volume.name, volume.size) for volume in named):
        if not 1 <= parse_quantity(size) <= _SIZE_MAX:
            yield f"spec.storage: volume {name} of {size} is a size that no disk has: write such as 100Gi"
