"""How many clusters of one operator stop bookies of their own will at a time, and which come first. Pure.

With `rolling_max` clusters at most in the middle of a roll-out, one edit that goes to every cluster at once (an image
in a shared template) reaches the next cluster only when the one before is done. A cluster asks, by its stored status,
when nothing else keeps it from stopping a bookie; those labelled as canaries come first, then by namespace and name. It
has its turn, stored with the step of its first bookie, until its last bookie is in service again
(spec/operator.md#H4).

Who has the turn and is halted keeps it: the same edit would halt the next cluster too. The others say whom they wait
for; `rollout.paused` of that cluster gives the turn on. No cluster waits for one that waits itself (its own gates, a
window), and a repair, a bookie that is down, and an operation by a bookie's name never wait. This orders what is safe
anyway: each stop stands behind the gates of its own cluster, so that two that ask in one instant do no harm.
"""

from collections.abc import Iterable

from bookie_operator.model import names
from bookie_operator.model.cluster import parse_status
from bookie_operator.model.status import RolloutStatus
from bookie_operator.model.values import format_time
from bookie_operator.plan.observation import Contender, Observation
from bookie_operator.resources.common import Manifest


def contender(manifest: Manifest) -> Contender | None:
    """Return what a cluster's stored status says of its part; None for one that has none, or is being deleted."""
    metadata, spec = manifest["metadata"], manifest.get("spec") or {}
    known = parse_status(manifest.get("status")).rollout
    if known is None or "deletionTimestamp" in metadata:
        return None
    rollout, lifecycle = spec.get("rollout") or {}, spec.get("lifecycle") or {}
    is_resting = rollout.get("paused") or lifecycle.get("paused") or rollout.get("strategy") == "Manual"
    has_turn = known.step is not None or (known.turn_since is not None and not is_resting)
    if not has_turn and (is_resting or not known.asks_for_turn):
        return None
    return Contender(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        is_canary=(metadata.get("labels") or {}).get(names.LABEL_CANARY) == "true",
        since=known.turn_since or (known.step.begun_at if known.step is not None else "") if has_turn else "",
        waits_for=known.waiting_for or (known.failed.message if known.failed is not None else ""),
    )


def contenders(manifests: Iterable[Manifest]) -> tuple[Contender, ...]:
    return tuple(one for manifest in manifests if (one := contender(manifest)) is not None)


def closed(seen: Observation) -> str:
    """Return why this cluster, which could stop a bookie now, has to wait for others; "" when it need not."""
    known = seen.cluster.status.rollout
    if not seen.rolling_max or (known is not None and known.turn_since is not None):
        return ""
    if seen.others_problem:
        return f"whether another cluster rolls out is not known: {seen.others_problem}"
    if known is None or not known.asks_for_turn:
        return "it asks for the turn among the clusters of this operator"
    mine = (not seen.cluster.is_canary, seen.cluster.namespace, seen.cluster.name)
    ahead = [one for one in seen.others if one.since or (not one.is_canary, one.namespace, one.name) < mine]
    if len(ahead) < seen.rolling_max:
        return ""
    told = "; ".join(_told(one) for one in sorted(ahead, key=lambda one: not one.since)[: seen.rolling_max])
    return f"{seen.rolling_max} clusters at a time roll out, and others come first: {told}"


def remembered(
    seen: Observation, status: RolloutStatus, *, is_going_on: bool, is_begun: bool = False, is_waiting: bool = False
) -> RolloutStatus:
    """Return `status` with this cluster's turn: from its first step on, until nobody is left to be stopped or a person
    paused it. One that waits for a window gives it on; one that went back to what worked before does not, or the same
    edit would fail in the next cluster. `is_begun`: a bookie is being drained by an edit, which is a step as well;
    `is_waiting`: one that is to be waits for a window."""
    spec = seen.cluster.spec
    is_resting = spec.rollout.paused or spec.lifecycle.paused or status.window_opens_at is not None or is_waiting
    known = seen.cluster.status.rollout
    had = known.turn_since if known is not None else None
    is_unfinished = is_going_on or status.failed is not None
    has_turn = status.step is not None or is_begun or (bool(had) and is_unfinished and not is_resting)
    since = (had or format_time(seen.now_ms)) if seen.rolling_max and has_turn else None
    return status.model_copy(update={"turn_since": since})


def _told(one: Contender) -> str:
    if not one.since:
        return f"{one.namespace}/{one.name} asks too"
    waits = f", and waits for: {one.waits_for}" if one.waits_for else ""
    return f"{one.namespace}/{one.name} has its turn since {one.since}{waits}"
