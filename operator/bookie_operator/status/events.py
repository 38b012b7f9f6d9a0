"""Events from the difference between two statuses (spec/operator.md#K20): they tell how a repair goes. `warnings` tells
of a problem, as long as it lasts.

The key of an event is (reason, target, what makes it one of a kind: evidence, grant, incarnation, decile). The recorder
makes the object's name from it, so that the same event twice is one object: after a crash, or under two operators.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bookie_operator.model.status import BookieClusterStatus, BookieStatus, HistoryEntry
from bookie_operator.plan.stages import Stage


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    reason: str
    target: str  # a bookie, or "" for the cluster
    key: str
    message: str
    is_warning: bool = False


def between(before: BookieClusterStatus, after: BookieClusterStatus) -> tuple[ClusterEvent, ...]:
    """Return the events, oldest cause first."""
    return tuple(_all(before, after))


def _all(before: BookieClusterStatus, after: BookieClusterStatus) -> Iterator[ClusterEvent]:
    for entry in after.bookies:
        yield from _of_bookie(before.bookie(entry.name), entry)
    yield from _of_rollout(before, after)
    known = {entry.grant_id: entry for entry in before.history}
    for done in after.history:
        yield from _of_history(known.get(done.grant_id), done)


def _of_rollout(before: BookieClusterStatus, after: BookieClusterStatus) -> Iterator[ClusterEvent]:
    """Yield the events of a roll-out: its beginning, each bookie, its end. A halt is a warning as long as it lasts."""
    old, new = before.rollout, after.rollout
    if old is None or new is None:
        return
    had_turns, has_turns = (one.step is not None or one.next is not None for one in (old, new))
    key = f"{new.inputs}-{after.observed_generation}"
    if has_turns and not had_turns:
        text = f"{new.desired - new.updated} of {new.desired} pods are to run what the spec says now"
        yield ClusterEvent("RolloutStarted", "", key, text)
    was, now = old.step, new.step
    if was is not None and (now is None or now.pod_uid != was.pod_uid):
        entry = after.bookie(was.bookie)
        is_back = entry is not None and entry.state in (Stage.SERVING.value, Stage.READ_ONLY.value)
        if entry is not None and is_back and entry.pod_uid not in (None, was.pod_uid):
            text = f"the bookie is back; {new.updated} of {new.desired} pods run what the spec says"
            yield ClusterEvent("BookieRolledOut", was.bookie, str(entry.pod_uid), text)
    if now is not None and (was is None or now.pod_uid != was.pod_uid):
        text = f"the operator ends pod {now.pod_uid}, so that it comes back with what the spec says now"
        yield ClusterEvent("RolloutStep", now.bookie, now.pod_uid, text)
    if had_turns and not has_turns and new.updated == new.desired:
        yield ClusterEvent("RolloutCompleted", "", key, f"{new.desired} pods run what the spec says")


def _of_bookie(before: BookieStatus | None, after: BookieStatus) -> Iterator[ClusterEvent]:
    name, proof = after.name, after.evidence or after.pod_uid or after.since
    if before is not None and 0 < before.incarnation < after.incarnation:
        yield from _new_life(after)
    if before is not None and before.state == after.state:
        yield from _progress(before, after)
        return
    match after.state:
        case Stage.GRANTED.value if after.grant is not None:
            what = f"grant {after.grant.id}, {after.grant.profile}"
            text = f"operator {after.grant.issued_by} granted incarnation {after.grant.new_incarnation} ({what})"
            yield ClusterEvent("RegenerationGranted", name, after.grant.id, text)
        case Stage.FENCING.value:
            text = "the bookie fences its open ledgers and marks them as in limbo (phase one)"
            yield ClusterEvent("FencingStarted", name, proof, text)
        case Stage.REPAIRING.value:
            text = "the bookie recovers, copies and verifies its entries while it serves (phase two)"
            yield ClusterEvent("RepairStarted", name, f"{after.incarnation}", text)
        case _:
            return


def _new_life(after: BookieStatus) -> Iterator[ClusterEvent]:
    """Return the events of a new life, found by the new incarnation, since Fencing and Stamping may pass between two
    looks."""
    key = f"{after.incarnation}"
    took = f" in {after.progress.phase_one_ms} ms" if after.progress is not None else ""
    yield ClusterEvent(
        "FencingCompleted", after.name, key, f"the bookie fenced its open ledgers and marked them as in limbo{took}"
    )
    by = f", granted by {after.granted_by}" if after.granted_by else ""
    yield ClusterEvent(
        "CookieRegenerated",
        after.name,
        key,
        f"the bookie wrote incarnation {after.incarnation} into the metadata store{by}",
    )


def _progress(before: BookieStatus, after: BookieStatus) -> Iterator[ClusterEvent]:
    old, new = before.progress, after.progress
    if after.state != Stage.REPAIRING.value or new is None:
        return
    if new.percent // 10 > (old.percent // 10 if old is not None else 0):
        decile = new.percent // 10 * 10
        text = f"{new.percent}%: the bookie has copied {new.entries} entries, {new.bytes} bytes"
        yield ClusterEvent("RepairProgress", after.name, f"{after.incarnation}-{decile}", text)


def _of_history(before: HistoryEntry | None, after: HistoryEntry) -> Iterator[ClusterEvent]:
    if before is not None and before.result == after.result:
        return
    if after.result == "Healed":
        text = (
            f"the bookie repaired {after.ledgers} ledgers and copied {after.entries} entries, {after.bytes} bytes; it"
            f" serves as incarnation {after.incarnation}"
        )
        yield ClusterEvent("RepairCompleted", after.bookie, after.grant_id, text)
    if after.result == "ByHand":
        text = f"{after.given_by} granted incarnation {after.incarnation}, and not this operator"
        yield ClusterEvent("RegenerationGrantedByHand", after.bookie, after.grant_id, text, True)
    if after.result == "Void":
        text = f"grant {after.grant_id} is void: it expired, or the facts changed. The operator looks anew"
        yield ClusterEvent("RegenerationExpired", after.bookie, after.grant_id, text, True)
