"""Whether those that stay have room for what a leaving bookie moves to them. Pure.

A drain costs no safety, whatever room there is: its bookie keeps everything until it is proven empty, and a disk that
is full only turns its bookie read-only. But a drain that cannot end makes the others read-only on its way, one after
the other. So it begins only with room for all of it and a tenth more, and pauses when what is left does not fit any
more (spec/operator.md#J11). A bookie that does not tell its figures (an older release, a disk that it shares with
others) says nothing: then nothing is compared.
"""

from bookie.ports.admin import MountProof
from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model.status import LeavingStatus
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.stages import Assessed

# To begin, or to go on after a pause, so that a few writes do not pause it at once.
_MARGIN_PERCENT = 10
_GIB = 1 << 30


def lacks(seen: Observation, fleet: tuple[Assessed, ...], one: Assessed, stored: LeavingStatus | None = None) -> str:
    """Return why the others cannot take what this bookie has to move; "" when they can, or nobody can tell.

    `stored`: how far its drain is, None before it begins. What it holds is counted by its disks, whole, times the share
    of its ledgers that still name it.
    """
    used = _used(one.case)
    drain = one.case.drain
    is_draining = stored is not None and drain is not None and drain.is_draining
    left, total = (stored.ledgers_left, stored.ledgers_total) if stored is not None else (0, 0)
    if is_draining and drain is not None:
        left, total = drain.ledgers_left, drain.ledgers_total
    stay, where = _stay(seen, fleet, one)
    rooms = [_room(case) for case in stay]
    if used is None or not rooms or None in rooms:
        return ""
    need = used * left // total if total else used
    room = sum(one for one in rooms if one is not None)
    wanted = need if is_draining else need + need * _MARGIN_PERCENT // 100
    if wanted <= room:
        return ""
    return (
        f"{one.case.name} has {_told(need)} to move, and the {len(stay)} bookies that stay{where} have room for"
        f" {_told(room)} below their disk threshold: add bookies, or enlarge their volumes"
    )


def _stay(seen: Observation, fleet: tuple[Assessed, ...], one: Assessed) -> tuple[list[BookieCase], str]:
    """Return (who can take it, " in ZONE" where only its own zone can). While there are no more zones than a write
    quorum has bookies, each entry is in all of them, and another zone would have it twice."""
    stay = [
        other.case
        for other in fleet
        if other.case.name != one.case.name
        and other.case.is_ours
        and other.case.is_desired
        and not other.case.is_leaving
        and other.case.member is not None
        and other.case.member.is_writable
    ]
    own = [case for case in stay if case.zone == one.case.zone]
    zones = {case.zone for case in (*stay, one.case)}
    if own and len(zones) > 1 and len(zones) <= seen.cluster.spec.quorum.write_quorum:
        return own, f" in zone {one.case.zone}"
    return stay, ""


def _used(case: BookieCase) -> int | None:
    return case.report.ledger_bytes_used if _is_told(case) and case.report is not None else None


def _room(case: BookieCase) -> int | None:
    return case.report.ledger_bytes_room if _is_told(case) and case.report is not None else None


def _is_told(case: BookieCase) -> bool:
    """Return True when the figures are of disks that this bookie has for itself."""
    report = case.report
    if report is None or report.ledger_bytes_used < 0 or report.ledger_bytes_room < 0:
        return False
    ledgers = [volume for volume in report.volumes if volume.role == "ledgers"]
    return bool(ledgers) and all(volume.mount.proof is MountProof.PROVEN for volume in ledgers)


def _told(size: int) -> str:
    return f"{size / _GIB:.1f} GiB"
