"""Events from the difference between two statuses (spec/operator.md#K20): they tell how a repair goes. `warnings` tells
of a problem, as long as it lasts.

The key of an event is (reason, target, what makes it one of a kind: evidence, grant, incarnation, decile). The recorder
makes the object's name from it, so that the same event twice is one object: after a crash, or under two operators.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bookie_operator.model.status import (
    BookieClusterStatus,
    BookieStatus,
    Departure,
    HibernationState,
    HistoryEntry,
    LeavingStatus,
)
from bookie_operator.plan.stages import Stage
from bookie_operator.resources import inputs


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
    for name in dict.fromkeys(one.name for one in (*before.bookies, *before.orphans, *after.bookies, *after.orphans)):
        yield from _of_leaving(before.bookie(name), after.bookie(name))
    yield from _of_rollout(before, after)
    yield from _of_eviction(before, after)
    yield from _of_hibernation(before, after)
    if before.expansion is None and after.expansion is not None:
        text = f"the volumes of {after.expansion.desired - after.expansion.done} bookies are to have other sizes"
        yield ClusterEvent("VolumeExpansionStarted", "", f"{after.observed_generation}", text)
    if before.expansion is not None and after.expansion is None:
        text = "every volume has the size that the spec says"
        yield ClusterEvent("VolumeExpansionCompleted", "", f"{after.observed_generation}", text)
    if before.rebuild is None and after.rebuild is not None:
        count = after.rebuild.desired - after.rebuild.done
        text = f"{count} bookies are to be rebuilt, one after the other: their claims are not as they are to be"
        yield ClusterEvent("RebuildStarted", "", f"{after.observed_generation}", text)
    if before.rebuild is not None and after.rebuild is None:
        text = "no bookie is to be rebuilt any more"
        yield ClusterEvent("RebuildEnded", "", f"{after.observed_generation}", text)
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
        why = f": {inputs.told(now.changed)} changed" if now.changed else ""
        text = f"the operator ends pod {now.pod_uid}, so that it comes back with what the spec says now{why}"
        yield ClusterEvent("RolloutStep", now.bookie, now.pod_uid, text)
    if had_turns and not has_turns and new.updated == new.desired:
        yield ClusterEvent("RolloutCompleted", "", key, f"{new.desired} pods run what the spec says")


def _of_hibernation(before: BookieClusterStatus, after: BookieClusterStatus) -> Iterator[ClusterEvent]:
    """Yield the events of a fleet that goes to sleep, sleeps and wakes up."""
    old, new = before.hibernation, after.hibernation
    was, now = old.state if old is not None else None, new.state if new is not None else None
    if was is now:
        return
    key = new.since if new is not None else old.since if old is not None else ""
    texts = {
        HibernationState.STOPPING: ("HibernationStarted", "all bookies refuse writes and flush; then their pods end"),
        HibernationState.HIBERNATED: ("HibernationCompleted", "no pod is left; claims, cookies and metadata are kept"),
        HibernationState.WAKING: ("WakingUp", "the bookies come back as they were"),
    }
    if now in texts:
        reason, text = texts[now]
        yield ClusterEvent(reason, "", key, text)
    elif now is None and was is HibernationState.WAKING:
        yield ClusterEvent("WokenUp", "", key, "every bookie has its pod again")


def _of_eviction(before: BookieClusterStatus, after: BookieClusterStatus) -> Iterator[ClusterEvent]:
    """Yield the events of a drain: a bookie prepares to leave, and may be evicted."""
    old, new = (one.eviction.turn if one.eviction is not None else None for one in (before, after))
    if new is None:
        return
    is_same = old is not None and old.pod_uid == new.pod_uid
    if not is_same:
        text = f"node {new.node} is drained: the operator prepares the bookie to leave it"
        yield ClusterEvent("BookieMakesRoom", new.bookie, f"{new.pod_uid}-{new.begun_at}", text)
    if new.is_open and not (is_same and old is not None and old.is_open):
        text = f"all gates are open: whoever drains node {new.node} may evict the bookie's pod"
        yield ClusterEvent("BookieEvictable", new.bookie, f"{new.pod_uid}-{new.begun_at}", text)


def _of_leaving(before: BookieStatus | None, after: BookieStatus | None) -> Iterator[ClusterEvent]:
    """Yield how a bookie leaves. Why it does not go on is a warning, as long as it lasts (`warnings`)."""
    old, new = before.leaving if before is not None else None, after.leaving if after is not None else None
    name = after.name if after is not None else before.name if before is not None else ""
    was, now = old.state if old is not None else None, new.state if new is not None else None
    if old is not None and new is None and was is not None and not was.is_gone and was is not Departure.LEAVING:
        yield ClusterEvent("DrainCancelled", name, old.since, "the spec asks for the bookie again: it stays")
    if new is None or was is now:
        yield from _drain_progress(name, old, new)
        return
    match new.state:
        case Departure.DRAINING if was in (None, Departure.LEAVING):
            yield ClusterEvent(
                "DrainStarted", name, new.since, "the bookie takes no writes, and moves its ledgers away"
            )
        case Departure.DRAINED:
            told = ", ".join(f"{look.by} at {look.at}" for look in new.looks)
            yield ClusterEvent("BookieDrained", name, new.since, f"no ledger names the bookie, by {told}")
        case Departure.FORGOTTEN:
            how = (
                "it never held data"
                if new.never_lived
                else "its cookie is deleted; its claims go or stay as storage.retention says"
            )
            how = "its claims are deleted, and a new bookie of its name begins" if new.rebuilds else how
            yield ClusterEvent("BookieRetired", name, new.since, f"the bookie left the fleet: {how}")
        case _:
            return


def _drain_progress(name: str, old: LeavingStatus | None, new: LeavingStatus | None) -> Iterator[ClusterEvent]:
    if old is None or new is None or not new.ledgers_total or new.state is not Departure.DRAINING:
        return
    done = 10 * (new.ledgers_total - new.ledgers_left) // new.ledgers_total
    if done > 10 * (new.ledgers_total - old.ledgers_left) // new.ledgers_total and old.ledgers_total:
        text = (
            f"{new.ledgers_left} of {new.ledgers_total} ledgers still name the bookie; {new.bytes_copied} bytes moved"
        )
        yield ClusterEvent("DrainProgress", name, f"{new.since}-{done}", text)


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
