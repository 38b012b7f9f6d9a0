"""What pods get whose volumes are directories of the node's disk (kind Ephemeral; spec/operator.md#X13).

The kubelet ends pods when its node's disk is nearly full, and what an ephemeral volume has goes with the pod. So the
scheduler is told how much they need, and the bookie stops taking writes long before the kubelet acts.
"""

from bookie_operator.model.spec import BookieClusterSpec
from bookie_operator.model.values import format_quantity, parse_quantity

_KEY = "ephemeral-storage"
# Kubelets end pods when less than 15 % is left where images are, and 10 % elsewhere (their defaults); the rest is for
# what is on its way, and for the other pods of the node.
USAGE_THRESHOLD = "0.80"


def requests(spec: BookieClusterSpec) -> dict[str, str]:
    """Return the container's requests: the user's, and the sizes of ephemeral volumes if the user gave none."""
    given = dict(spec.resources.requests)
    sizes = [parse_quantity(volume.size) for _, volume in spec.storage.by_role() if volume.is_ephemeral]
    if not sizes or _KEY in given:
        return given
    return given | {_KEY: format_quantity(sum(sizes[1:], sizes[0]))}


def settings(spec: BookieClusterSpec) -> dict[str, str]:
    """Return the settings that a bookie with ephemeral volumes has unless the user says otherwise."""
    return {"diskUsageThreshold": USAGE_THRESHOLD} if spec.storage.is_ephemeral else {}
