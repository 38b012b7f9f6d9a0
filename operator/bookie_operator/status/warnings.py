"""Warnings that last as long as their cause: every loss, every held state, every stall; with what was lost and what
happens next.

They are made from one status, not from a difference: so a warning that one operator did not send before it died is sent
in the next pass. The key has the beginning of the cause and how many times `REPEAT_MS` it has lasted, so that each
warning is sent once, by however many operators, and again before Kubernetes forgets it (an hour). At most
`REPEATED_MAX` bookies repeat theirs.
"""

from collections.abc import Iterator

from bookie_operator.evidence import reasons
from bookie_operator.model import names
from bookie_operator.model.status import BookieClusterStatus, BookieStatus, Condition
from bookie_operator.model.values import parse_time
from bookie_operator.plan.stages import HEALING, WITHOUT_DATA, Stage
from bookie_operator.status.events import ClusterEvent

REPEAT_MS = 50 * 60_000
REPEATED_MAX = 10
AWAY_MS = 60_000  # a pod that restarts is no news
BLOCKED_MS = 10 * 60_000  # nor is a bookie that waits for its turn to leave, or for a writer; nor a new image

# Reasons of Stalled for which each bookie has a warning of its own.
_SAID_BY_THE_BOOKIE = ("BookieHeld", "OrphanedBookies")
# Of other conditions than Stalled: what a person must know although the cluster goes on by itself.
_TOLD_REASONS = ("DirectoryFailed", "LedgersQuarantined", "LimitBelowNeed", "MassDeletionHeld", "RepairNoProgress")


def standing(status: BookieClusterStatus, now_ms: int) -> tuple[ClusterEvent, ...]:
    """Return everything that a person should know now, of each bookie, then of the cluster."""
    repeated = 0
    out: list[ClusterEvent] = []
    for entry in (*status.bookies, *status.orphans):
        found = tuple(_of_bookie(status, entry, now_ms))
        lasts = any(not event.key.endswith("+0") for event in found)
        repeated += lasts
        if not lasts or repeated <= REPEATED_MAX:
            out += found
    about_all = (*_of_deletion(status, now_ms), *_of_autorecovery(status, now_ms), *of_cluster(status, now_ms))
    return (*out, *about_all)


def _of_deletion(status: BookieClusterStatus, now_ms: int) -> Iterator[ClusterEvent]:
    """Return the warning about what goes with the resource, told before anything would (spec/operator.md#C2)."""
    one = status.deletion
    if one is None:
        return
    lost = f"{one.claims} claims of {one.bookies} bookies ({one.bytes} bytes)"
    text = (
        f"whoever deletes this BookieCluster deletes {lost}, and every ledger that only they hold. To keep them, set"
        " spec.lifecycle.deletionPolicy: Retain"
        if one.waiting_for is None
        else f"{lost} were said to go with this BookieCluster (spec.lifecycle.deletionPolicy). {one.going} would now."
        f" Waits for: {one.waiting_for}"
    )
    key = f"{one.waiting_for is None}-{one.since}+{_age(one.since, now_ms) // REPEAT_MS}"
    yield ClusterEvent("DeletionDeletesData", "", key, text, True)


def _of_autorecovery(status: BookieClusterStatus, now_ms: int) -> Iterator[ClusterEvent]:
    one = status.autorecovery
    if one is None or one.ready >= one.desired or _age(one.since, now_ms) < BLOCKED_MS:
        return
    why = f" ({one.message})" if one.message else ""
    text = (
        f"{one.ready} of {one.desired} pods of auto-recovery are ready, and not all have been since {one.since}{why}."
        " With none, what bookies lack stays missing until they fill it themselves"
    )
    key = f"{one.since}+{_age(one.since, now_ms) // REPEAT_MS}"
    yield ClusterEvent("AutoRecoveryDown", "", key, text, True)


def _of_bookie(status: BookieClusterStatus, entry: BookieStatus, now_ms: int) -> Iterator[ClusterEvent]:
    for volume in entry.volumes:
        recorded = volume.recorded
        if recorded is not None and volume.pvc_uid not in (None, recorded.pvc_uid):
            is_of_pod = volume.claim == names.ephemeral_volume(volume.name, entry.name)
            what = f"volume {volume.name} went with its pod" if is_of_pod else f"claim {volume.claim}"
            text = f"{what} was made anew (its uid is {volume.pvc_uid} and was {recorded.pvc_uid})"
            yield _warning("VolumeIdentityChanged", entry, f"{volume.pvc_uid}+0", text)
    if (blocked := _blocked(entry, now_ms)) is not None:
        yield blocked
    key = f"{entry.since}+{_age(entry.since, now_ms) // REPEAT_MS}"
    match entry.state:
        case Stage.SUSPECTED.value:
            yield _warning(
                "EmptyVolumeSuspected",
                entry,
                key,
                f"{_lost(entry)}. Next: the operator looks until it has seen this three times",
            )
        case Stage.CONFIRMED.value:
            waits = "; ".join(f"{gate.name}: {gate.message}" for gate in entry.gates)
            then = f"the grant waits for {waits}" if waits else "the operator grants a new life"
            text = f"the operator saw three times: {_lost(entry)}. Next: {then}"
            yield _warning("EmptyVolumeConfirmed", entry, key, text)
        case Stage.HELD.value:
            text = f"{entry.reason}: {entry.message}. Next: the operator waits until a person decides"
            known = reasons.TABLE.get(entry.reason)  # a status of another release may have other reasons
            yield _warning(known.event if known else "BookieHeld", entry, f"{entry.reason}-{key}", text)
        case Stage.LIMBO.value:
            yield _warning(
                "UncleanShutdown", entry, key, "the bookie repairs itself after an unclean stop; its data is there"
            )
        case _ if entry.counted == WITHOUT_DATA and entry.state not in {one.value for one in HEALING}:
            yield _warning(
                "VolumesLost", entry, key, f"{_lost(entry)}. Next: the operator looks as soon as its pod runs"
            )
        case _ if entry.leaving is not None and entry.leaving.state.is_near_its_end:
            return  # its pod goes because the spec says so
        case _ if entry.away_since is not None and entry.has_lived and _age(entry.away_since, now_ms) >= AWAY_MS:
            since = f"{entry.away_since}+{_age(entry.away_since, now_ms) // REPEAT_MS}"
            word = "BookieDown" if "Spec" in entry.seen_in else "OrphanedBookie"
            why = f"{entry.reason}: {entry.message}"
            text = f"the bookie has not served since {entry.away_since} ({why}). Its data is presumed intact"
            yield _warning(word, entry, since, text)
        case _:
            return


def _blocked(entry: BookieStatus, now_ms: int) -> ClusterEvent | None:
    """Return the warning about a bookie that does not go on leaving, after what passes by itself."""
    leaving = entry.leaving
    if leaving is None or leaving.waiting_for is None or _age(leaving.since, now_ms) < BLOCKED_MS:
        return None
    key = f"{leaving.since}+{_age(leaving.since, now_ms) // REPEAT_MS}"
    return _warning(
        "DrainBlocked", entry, key, f"the bookie is {leaving.state.value}, and waits: {leaving.waiting_for}"
    )


def _lost(entry: BookieStatus) -> str:
    """Return what was lost, by volume, and of which life."""
    gone = [f"{one.role} {one.name}" for one in entry.volumes if one.contents != "Valid"] or ["all volumes"]
    return f"the bookie lost {', '.join(gone)} of incarnation {entry.incarnation} ({entry.message or entry.reason})"


def of_cluster(status: BookieClusterStatus, now_ms: int) -> Iterator[ClusterEvent]:
    """Return one warning for each condition that a person must know of."""
    for condition in status.conditions:
        is_stalled = (condition.type, condition.status) == ("Stalled", "True")
        if condition.reason in _TOLD_REASONS or (is_stalled and condition.reason not in _SAID_BY_THE_BOOKIE):
            yield _of_condition(condition, now_ms)


def _of_condition(condition: Condition, now_ms: int) -> ClusterEvent:
    key = f"{condition.last_transition_time}+{_age(condition.last_transition_time, now_ms) // REPEAT_MS}"
    return ClusterEvent(condition.reason, "", key, condition.message, True)


def _warning(reason: str, entry: BookieStatus, key: str, text: str) -> ClusterEvent:
    return ClusterEvent(reason, entry.name, key, text, True)


def _age(since: str, now_ms: int) -> int:
    return max(0, now_ms - parse_time(since))
