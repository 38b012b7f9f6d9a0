"""Events from the difference between two statuses (operators.md 2.6).

The key of an event is (reason, target, what makes it one of a kind: evidence, grant, incarnation, decile). The recorder
makes the object's name from it, so that the same event twice is one object: after a crash, or under two operators.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bookie_operator.model.status import BookieClusterStatus, BookieStatus, HistoryEntry
from bookie_operator.plan.stages import Stage


@dataclass(frozen=True, slots=True)
class Event:
    reason: str
    target: str  # a bookie, or "" for the cluster
    key: str
    message: str
    is_warning: bool = False


_HELD_EVENTS = {
    "MountMissing": "MountNotProven",
    "MountSuspect": "MountNotProven",
    "SharedFilesystem": "MountNotProven",
    "ForeignVolume": "ForeignVolume",
    "StaleVolume": "StaleVolumeDetected",
}


def between(before: BookieClusterStatus, after: BookieClusterStatus) -> tuple[Event, ...]:
    """What happened, oldest cause first."""
    return tuple(_all(before, after))


def _all(before: BookieClusterStatus, after: BookieClusterStatus) -> Iterator[Event]:
    for entry in after.bookies:
        yield from _of_bookie(before.bookie(entry.name), entry)
    known = {entry.grant_id: entry for entry in before.history}
    for done in after.history:
        yield from _of_history(known.get(done.grant_id), done)
    yield from _of_cluster(before, after)


def _of_bookie(before: BookieStatus | None, after: BookieStatus) -> Iterator[Event]:
    name, proof = after.name, after.evidence or after.pod_uid or after.since
    for volume in after.volumes:
        recorded = volume.recorded
        old = next((one for one in before.volumes if one.name == volume.name), None) if before is not None else None
        if recorded is None or volume.pvc_uid in (None, recorded.pvc_uid):
            continue
        if old is None or old.pvc_uid != volume.pvc_uid:
            text = f"claim {volume.claim} is another one (uid {volume.pvc_uid} instead of {recorded.pvc_uid})"
            yield Event("VolumeIdentityChanged", name, volume.pvc_uid or "", text)
    if before is not None and 0 < before.incarnation < after.incarnation:
        yield from _new_life(after)
    if before is not None and before.state == after.state:
        yield from _progress(before, after)
        return
    match after.state:
        case Stage.SUSPECTED.value:
            yield Event("EmptyVolumeSuspected", name, proof, after.message)
        case Stage.CONFIRMED.value:
            yield Event("EmptyVolumeConfirmed", name, proof, f"seen three times the same: {after.message}")
        case Stage.GRANTED.value if after.grant is not None:
            text = f"incarnation {after.grant.new_incarnation} granted (grant {after.grant.id}, {after.grant.profile})"
            yield Event("RegenerationGranted", name, after.grant.id, text)
        case Stage.FENCING.value:
            yield Event("FencingStarted", name, proof, "phase one: fencing open ledgers and marking them limbo")
        case Stage.REPAIRING.value:
            yield Event("RepairStarted", name, f"{after.incarnation}", "phase two: recover, copy, verify while serving")
        case Stage.LIMBO.value:
            yield Event("UncleanShutdown", name, after.pod_uid or proof, "repairs after an unclean stop", True)
        case Stage.HELD.value:
            reason = _HELD_EVENTS.get(after.reason, "BookieHeld")
            yield Event(reason, name, proof, f"{after.reason}: {after.message}", True)
        case _:
            return


def _new_life(after: BookieStatus) -> Iterator[Event]:
    """The states in between may pass faster than we look; the new incarnation says that they are behind us."""
    key = f"{after.incarnation}"
    took = f" in {after.progress.phase_one_ms} ms" if after.progress is not None else ""
    yield Event("FencingCompleted", after.name, key, f"open ledgers are fenced and in limbo{took}")
    yield Event("CookieRegenerated", after.name, key, f"incarnation {after.incarnation} is in the metadata store")


def _progress(before: BookieStatus, after: BookieStatus) -> Iterator[Event]:
    old, new = before.progress, after.progress
    if after.state != Stage.REPAIRING.value or new is None:
        return
    if new.percent // 10 > (old.percent // 10 if old is not None else 0):
        decile = new.percent // 10 * 10
        text = f"{new.percent}%: {new.entries} entries, {new.bytes} bytes copied"
        yield Event("RepairProgress", after.name, f"{after.incarnation}-{decile}", text)


def _of_history(before: HistoryEntry | None, after: HistoryEntry) -> Iterator[Event]:
    if before is not None and before.result == after.result:
        return
    if after.result == "Healed":
        text = f"{after.ledgers} ledgers, {after.entries} entries, {after.bytes} bytes; incarnation {after.incarnation}"
        yield Event("RepairCompleted", after.bookie, after.grant_id, text)
    if after.result == "Void":
        text = f"grant {after.grant_id} is void: it expired, or the facts changed"
        yield Event("RegenerationExpired", after.bookie, after.grant_id, text, True)


def _of_cluster(before: BookieClusterStatus, after: BookieClusterStatus) -> Iterator[Event]:
    stalled, old = after.condition("Stalled"), before.condition("Stalled")
    if stalled is None or stalled.status != "True":
        return
    if old is not None and old.status == "True" and old.reason == stalled.reason:
        return
    if stalled.reason in ("AckQuorumBreached", "BrakeTripped", "WrongMetadataStore", "SpecInvalid"):
        key = f"{stalled.observed_generation}-{stalled.last_transition_time}"
        yield Event(stalled.reason, "", key, stalled.message, True)
