"""What the status says of auto-recovery: how many of its pods are ready, and since when that is so or not."""

from bookie_operator.model import names
from bookie_operator.model.status import AutoRecoveryStatus
from bookie_operator.model.values import format_time
from bookie_operator.plan.fleet import FleetPlan

_MESSAGE_MAX = 512


def status(plan: FleetPlan) -> AutoRecoveryStatus | None:
    seen = plan.observation
    want, before = seen.cluster.spec.autorecovery, seen.cluster.status.autorecovery
    if not want.enabled:
        return None
    name = names.autorecovery(seen.cluster.name)
    live = seen.children.get(("Deployment", name)) or {}
    desired = 0 if seen.cluster.spec.lifecycle.hibernate else want.replicas
    # While it changes its pods there may be more of them than it keeps.
    ready = min(int((live.get("status") or {}).get("readyReplicas") or 0), desired)
    is_same = before is not None and (before.ready == before.desired) == (ready == desired)
    return AutoRecoveryStatus(
        desired=desired,
        ready=ready,
        since=before.since if before is not None and is_same else format_time(seen.now_ms),
        message=seen.said.get(f"Deployment {name}", "")[:_MESSAGE_MAX] or None if ready < desired else None,
    )
