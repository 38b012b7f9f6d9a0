"""Room on the disks that stay, in figures (spec/operator.md#J11)."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import DrainStatus, Member, MountProof
from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model.status import Departure, LeavingStatus
from bookie_operator.model.values import format_time
from bookie_operator.plan import room, stages
from bookie_operator.plan.stages import Assessed

GIB = 1 << 30
LEAVES, *STAY = "ledgers-zone-a-1", "ledgers-zone-a-0", "ledgers-zone-b-0", "ledgers-zone-c-0"


def told(case: BookieCase, used: int, free: int, proof: MountProof = MountProof.PROVEN) -> BookieCase:
    assert case.report is not None
    volumes = tuple(make.changed(one, proof=proof) for one in case.report.volumes)
    report = replace(
        case.report, volumes=volumes, ledger_bytes_used=used * GIB if used >= 0 else -1, ledger_bytes_room=free * GIB
    )
    member = Member(case.bookie_id, has_cookie=True, is_registered=True, is_writable=True)
    return replace(case, report=report, member=member, is_leaving=case.name == LEAVES)


def lacks(
    used: int,
    free: tuple[int, int, int],
    *,
    write_quorum: int = 3,
    left: tuple[int, int] | None = None,
    is_draining: bool = False,
    proof: MountProof = MountProof.PROVEN,
) -> str:
    """`free`: of the other one in its zone, and of those in two other zones, GiB. `left`: ledgers of how many."""
    rooms = dict(zip(STAY, free, strict=True)) | {LEAVES: 50}
    cases = tuple(told(one, used, rooms[one.name], proof) for one in make.fleet())
    seen = make.observation(cases, spec_changes={"quorum": {"writeQuorum": write_quorum, "ackQuorum": 2}})
    every: tuple[Assessed, ...] = tuple(
        stages.assess(one, None, now_ms=make.NOW_MS, stabilization_ms=6_000, healed=[]) for one in cases
    )
    one = next(one for one in every if one.case.name == LEAVES)
    stored = None
    if left is not None:
        stored = LeavingStatus(
            state=Departure.DRAINING, since=format_time(make.NOW_MS), ledgers_left=left[0], ledgers_total=left[1]
        )
        drain = DrainStatus(is_draining=is_draining, ledgers_left=left[0], ledgers_total=left[1])
        one = replace(one, case=replace(one.case, drain=drain))
    return room.lacks(seen, every, one, stored)


@pytest.mark.parametrize(
    ("used", "free", "is_enough"),
    [
        (100, (110, 0, 0), True),  # its own zone has room for a tenth more
        (100, (109, 500, 500), False),  # and other zones hold the same entries already
        (0, (0, 0, 0), True),
    ],
)
def test_a_bookie_leaves_only_while_those_that_stay_have_room(
    used: int, free: tuple[int, int, int], is_enough: bool
) -> None:
    assert (lacks(used, free) == "") == is_enough


def test_the_figures_are_said_with_what_to_try() -> None:
    why = lacks(100, (20, 500, 500))

    assert why == (
        f"{LEAVES} has 100.0 GiB to move, and the 1 bookies that stay in zone zone-a have room for 20.0 GiB below their"
        " disk threshold: add bookies, or enlarge their volumes"
    )


def test_with_more_zones_than_copies_every_zone_counts() -> None:
    assert lacks(100, (10, 60, 60), write_quorum=2) == ""
    assert "the 3 bookies that stay have room for 90.0 GiB" in lacks(100, (10, 40, 40), write_quorum=2)


def test_a_drain_that_has_begun_needs_room_for_the_rest_alone() -> None:
    assert lacks(100, (26, 0, 0), left=(1, 4), is_draining=True) == ""
    assert "25.0 GiB to move" in lacks(100, (24, 0, 0), left=(1, 4), is_draining=True)
    # Paused, it goes on with a tenth to spare, so that a few writes do not pause it again.
    assert lacks(100, (26, 0, 0), left=(1, 4)) != ""
    assert lacks(100, (28, 0, 0), left=(1, 4)) == ""


@pytest.mark.parametrize(
    "unknown", [{"used": -1, "free": (0, 0, 0)}, {"used": 100, "free": (0, 0, 0), "proof": MountProof.SHARED}]
)
def test_without_figures_of_its_own_disks_nothing_is_compared(unknown: dict[str, object]) -> None:
    assert lacks(**unknown) == ""  # type: ignore[arg-type]


@pytest.mark.parametrize("why", ["leaves", "takes no writes", "is not ours", "is not wanted", "is not seen"])
def test_one_that_does_not_stay_or_takes_no_writes_gives_no_room(why: str) -> None:
    """The one with the room is no help; the two others have none."""

    def changed(case: BookieCase) -> BookieCase:
        made = told(case, 100, {LEAVES: 50, STAY[0]: 500}.get(case.name, 10))
        assert made.member is not None
        read_only = replace(made.member, is_writable=False)
        changes: dict[str, dict[str, Any]] = {
            "leaves": {"is_leaving": True},
            "takes no writes": {"member": read_only},
            "is not ours": {"is_ours": False},
            "is not wanted": {"is_desired": False},
            "is not seen": {"member": None},
        }
        return replace(made, **changes[why]) if case.name == STAY[0] else made

    cases = tuple(map(changed, make.fleet()))
    seen = make.observation(cases)
    every = tuple(stages.assess(one, None, now_ms=make.NOW_MS, stabilization_ms=6_000, healed=[]) for one in cases)
    one = next(one for one in every if one.case.name == LEAVES)

    assert "the 2 bookies that stay have room for 20.0 GiB" in room.lacks(seen, every, one)
