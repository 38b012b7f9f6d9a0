"""Makes a digest of what the spec says of one pod; on the pod, it tells whether the user has asked for another pod
since.

A pod of an older revision is one of two: its user changed the spec, or a newer operator renders the same spec otherwise
(or brings another default image). Only the first is rolled out; the second waits until the pod ends for another
reason. So this covers what the user said, never what the operator makes of it, and no default: a field that a newer
operator adds changes no digest. What does not reach the pod (replicas, quorums, gates, budgets) is left out.
"""

from bookie_operator.model.spec import BookieClusterSpec, Zone
from bookie_operator.resources import common

# Fields of the spec, whole or the parts named.
REACHING = {
    **dict.fromkeys(("image", "image_pull_policy", "image_pull_secrets", "placement", "resources", "config"), True),
    "network": True,
    "storage": {"journal_write_data", "journal", "ledgers", "index"},
    "metadata_service": {"uri", "session_timeout", "security"},
    "repair": {"regeneration", "copy_rate"},
    "lifecycle": {"termination_grace"},
}


def digest(spec: BookieClusterSpec, zone: Zone | None) -> str:
    """Return sixteen hex digits over everything in `spec` that a pod of `zone` depends on."""
    said = spec.model_dump(mode="json", exclude_defaults=True, include=REACHING)  # type: ignore[arg-type]
    own = zone.model_dump(mode="json", exclude_defaults=True) if zone is not None else None
    return common.digest([said, own])
