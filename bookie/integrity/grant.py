"""The bookie's half of the two-party grant: does this grant fit what is seen *now*? Pure; refusals are typed.

Everything the other party relied on is checked again against a fresh inspection (spec/operator.md#K7). The reasons are
stable words of the admin protocol; the sentences are for people.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.ids import BookieId, Incarnation
from bookie.ports.admin import OPERATOR_EPOCH_MAX, Grant, MountProof, Verdict, VolumeReport

_PROOFS = (MountProof.PROVEN, MountProof.SHARED, MountProof.UNCHECKED)


@dataclass(frozen=True, slots=True)
class Situation:
    """What a fresh inspection says. `age_ms`: since the grant was received, on this bookie's monotonic clock."""

    bookie_id: BookieId
    pod_uid: str
    is_waiting: bool
    verdict: Verdict | None
    volumes: tuple[VolumeReport, ...]
    evidence_hash: str
    cookie_version: int
    incarnation: Incarnation
    operator_epoch_seen: int
    age_ms: int = 0
    is_stale_repairable: bool = False  # the verdict is STALE, and every volume is this bookie's own by the cookie


def check(grant: Grant, now: Situation) -> None:
    """Raise GrantRefused with the first rule that `grant` breaks; if this returns, the grant may be acted on."""
    for is_refused, reason, text in _rules(grant, now):
        if is_refused:
            raise errors.GrantRefused(reason, f"grant {grant.grant_id}: {text}")


def next_incarnation(incarnation: Incarnation) -> Incarnation:
    return Incarnation(incarnation + 1)


def unproven(volumes: Iterable[VolumeReport]) -> list[str]:
    """Return the names of the volumes whose mounts are not proven: nothing may be made of what is seen there."""
    return [volume.name for volume in volumes if volume.mount.proof not in _PROOFS]


def _rules(grant: Grant, now: Situation) -> tuple[tuple[bool, str, str], ...]:
    not_proven = unproven(now.volumes)
    wanted = next_incarnation(now.incarnation)
    # Volumes that went back in time hold data, and the newer state may be on a disk somewhere: they are repaired only
    # under a grant whose sender says that he knows it (spec/operator.md#V11).
    is_allowed = now.verdict is Verdict.LOST or (
        now.verdict is Verdict.STALE and now.is_stale_repairable and grant.accepts_stale
    )
    return (
        (grant.bookie_id != now.bookie_id, "wrong_bookie", f"it is for {grant.bookie_id}, this is {now.bookie_id}"),
        (grant.pod_uid != now.pod_uid, "wrong_pod", f"it is for pod {grant.pod_uid!r}, this is {now.pod_uid!r}"),
        (
            not 0 <= grant.operator_epoch <= OPERATOR_EPOCH_MAX,
            "epoch_out_of_range",
            f"operator epoch {grant.operator_epoch} is not possible: epochs go from 0 to {OPERATOR_EPOCH_MAX}",
        ),
        (
            grant.operator_epoch < now.operator_epoch_seen,
            "old_epoch",
            f"it is of operator epoch {grant.operator_epoch}, but epoch {now.operator_epoch_seen} was seen already",
        ),
        (bool(not_proven), "mount_not_proven", f"the mount of {', '.join(not_proven)} is not proven"),
        (
            not now.is_waiting or not is_allowed,
            "not_waiting",
            f"this bookie waits for no grant (verdict {now.verdict.value if now.verdict else 'unknown'})",
        ),
        (
            grant.cookie_version != now.cookie_version,
            "cookie_changed",
            f"it names cookie version {grant.cookie_version}, the cookie is at {now.cookie_version}",
        ),
        (
            grant.new_incarnation != wanted,
            "wrong_incarnation",
            f"it names incarnation {grant.new_incarnation}, the next is {wanted}",
        ),
        (
            grant.evidence_hash != now.evidence_hash,
            "evidence_changed",
            "a fresh inspection gives other evidence than the grant names; look at the new report",
        ),
        (now.age_ms >= grant.ttl_ms, "expired", f"its {grant.ttl_ms} ms are over; give a new grant"),
    )
