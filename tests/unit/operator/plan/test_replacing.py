"""Who is replaced by name, whose turn it is, and what is told (spec/operator.md#U11)."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import Member
from bookie_operator import discover
from bookie_operator.evidence.facts import BookieCase, ClaimFacts, VolumeCase
from bookie_operator.model.operation import BookieOperation, OperationPhase, OperationStatus
from bookie_operator.model.status import BookieClusterStatus, Departure, LeavingStatus, PoolStatus
from bookie_operator.plan import fleet, rebuild, replacing, stop_gates
from bookie_operator.plan.stages import Assessed, Stage

A, B, C = (f"ledgers-zone-{zone}-0" for zone in "abc")
ASKED_MS = make.NOW_MS - 60_000


def case(name: str = A, *, created_ms: int = ASKED_MS - 1_000, uid: str = "old", **changes: Any) -> BookieCase:
    claim = ClaimFacts(f"ledgers-{name}", uid, created_ms)
    volume = VolumeCase("ledgers", "ledgers", False, False, claim.name, claim=claim)
    known = {"report": make.report()} | changes
    return BookieCase(name, f"data.{name}", name[8:14], name[8:14], (volume,), **known)


def asks(name: str = "swap", bookie: str = A, created_ms: int = ASKED_MS, **status: Any) -> BookieOperation:
    return make.operation(name, bookie=bookie, type="Replace", created_ms=created_ms, status=OperationStatus(**status))


def named(*found: BookieOperation, cases: "tuple[BookieCase, ...] | None" = None, **changes: Any) -> "tuple[str, ...]":
    return replacing.named(make.observation(cases or (case(A), case(B), case(C)), operations=found, **changes))


def turn(*names: str, cases: "tuple[BookieCase, ...] | None" = None) -> "list[str]":
    marked = rebuild.marked(make.cluster(), cases or (case(A), case(B), case(C)), names)
    return [one.name for one in marked if one.is_rebuilt and one.is_leaving]


@pytest.mark.parametrize(
    ("created_ms", "uid", "known", "is_asked"),
    [
        (ASKED_MS - 1, "old", (), True),
        (ASKED_MS, "old", (), True),  # times have seconds: of the same one it may be older
        (ASKED_MS + 1_000, "old", (), False),  # new already, though the status was lost
        (ASKED_MS - 1, "old", ("old",), True),
        (ASKED_MS - 1, "new", ("old",), False),  # by a clock that goes after: it was not there at the first look
    ],
)
def test_a_claim_is_replaced_once(created_ms: int, uid: str, known: "tuple[str, ...]", is_asked: bool) -> None:
    operation = asks(claims=known)

    assert replacing.is_asked_of(operation, case(created_ms=created_ms, uid=uid)) is is_asked


def volume(created_ms: int | None, uid: str = "old", name: str = "ledgers") -> VolumeCase:
    """A volume whose claim is this old; None: it has no claim."""
    claim = ClaimFacts(f"{name}-{A}", uid, created_ms) if created_ms is not None else None
    return VolumeCase(name, "ledgers", False, False, f"{name}-{A}", claim=claim)


@pytest.mark.parametrize(
    ("volumes", "is_asked"),
    [
        (
            (volume(ASKED_MS - 1), volume(ASKED_MS + 1_000, name="index")),
            True,
        ),  # one is made anew, the other is not yet
        ((volume(ASKED_MS + 1_000), volume(None, name="index")), False),
        ((volume(None), volume(ASKED_MS - 1, name="index")), True),
        ((volume(None),), False),
    ],
)
def test_a_bookie_is_replaced_while_one_of_its_claims_is_of_before(
    volumes: "tuple[VolumeCase, ...]", *, is_asked: bool
) -> None:
    one = replace(case(), volumes=volumes)

    assert replacing.is_asked_of(asks(), one) is is_asked
    assert named(asks(), cases=(one,)) == ((A,) if is_asked else ())


def test_names_come_in_the_order_of_creation_and_only_what_is_in_force_counts() -> None:
    late, early = asks("late", A, ASKED_MS), asks("early", B, ASKED_MS - 500)
    over = asks("over", C, phase=OperationPhase.COMPLETE)
    old = make.NOW_MS - 25 * 3_600_000
    expired = asks("expired", C, old)
    begun = asks("begun", C, old, started_at="2027-01-14T08:00:00Z")

    assert named(late, early, over) == (B, A)
    assert named(expired, cases=(case(C, created_ms=old),)) == ()
    assert named(begun, cases=(case(C, created_ms=old),)) == (C,)
    assert named(make.operation(bookie=A)) == (), "a Restart replaces nobody"
    assert named(late, cases=(case(A, is_desired=False),)) == ()
    assert named(late, cases=(case(A, is_ours=False),)) == (), "another cluster's bookie"
    assert named(late, early, asks("again", A, ASKED_MS + 1)) == (B, A), "each once"


def test_a_pause_takes_nothing_back() -> None:
    assert named(asks(), spec_changes={"lifecycle": {"paused": True}}) == (A,)


def test_one_at_a_time_in_the_order_that_was_asked_for() -> None:
    assert turn() == []
    assert turn(C, A) == [C]


def test_nobody_begins_while_another_leaves_and_who_leaves_for_good_is_not_rebuilt() -> None:
    assert turn(A, cases=(case(A), case(B, is_leaving=True))) == []
    assert turn(A, cases=(replace(case(A), is_leaving=True), case(B))) == []


def test_who_cannot_leave_keeps_nobody_from_it() -> None:
    assert turn(A, B, cases=(case(A, report=None), case(B))) == [B]


def assessed(name: str = A, state: Departure | None = None, *, rebuilds: bool = True, **changes: Any) -> Assessed:
    found = next(
        one for one in fleet.decide(make.observation(make.fleet())).fleet if one.case.name == name and one.case.pod
    )
    leaving = LeavingStatus(state=state, since="2027-01-15T08:00:00Z", rebuilds=rebuilds) if state else None
    return replace(found, case=replace(found.case, **changes), leaving=leaving)


def said(one: Assessed, *others: Assessed, operation: BookieOperation | None = None) -> "tuple[OperationPhase, str]":
    unproven = stop_gates.unproven(one, may_be_read_only=True)
    return replacing.tell((one, *others), operation or asks(created_ms=make.NOW_MS), one, unproven)


def test_what_is_told_says_what_it_waits_for() -> None:
    assert said(assessed(), assessed(B, Departure.DRAINING, is_leaving=True)) == (
        OperationPhase.QUEUED,
        f"waits for: {B} leaves first, or comes back from it",
    )
    assert said(assessed(is_leaving=True))[1].startswith(f"{A} leaves for good")
    waits = assessed(A, Departure.LEAVING, is_leaving=True, is_rebuilt=True)
    assert waits.leaving is not None
    waits = replace(waits, leaving=waits.leaving.model_copy(update={"waiting_for": "3 other bookies take writes"}))
    assert said(waits) == (OperationPhase.QUEUED, "waits for: 3 other bookies take writes")


@pytest.mark.parametrize("state", [one for one in Departure if one is not Departure.LEAVING])
def test_from_its_drain_on_it_runs_and_is_never_called_complete(state: Departure) -> None:
    young = asks(created_ms=0)
    one = assessed(A, state, is_leaving=True, is_rebuilt=True)

    assert said(one, operation=young) == (OperationPhase.RUNNING, f"the bookie is {state.value}")


def leaves(state: Departure, *, rebuilds: bool = True, **leaving: Any) -> Assessed:
    """A, on its way to come back as a new bookie, or for good."""
    one = assessed(A, state, rebuilds=rebuilds, is_leaving=True, is_rebuilt=rebuilds)
    assert one.leaving is not None
    return replace(one, leaving=one.leaving.model_copy(update=leaving))


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (leaves(Departure.DRAINING, ledgers_total=9, ledgers_left=4), "Draining, 4 of 9 ledgers left"),
        (
            leaves(Departure.DRAINING, ledgers_total=9, ledgers_left=4, minutes_left=0),
            "Draining, 4 of 9 ledgers left, about 0 minutes",
        ),
        (leaves(Departure.DRAINING, minutes_left=3), "Draining"),
        (leaves(Departure.DRAINED, ledgers_total=9), "Drained"),
        (leaves(Departure.DRAINED, waiting_for="a second look"), "Drained; waits for: a second look"),
    ],
)
def test_how_far_it_is_is_told_in_ledgers_and_minutes_while_it_drains(one: Assessed, words: str) -> None:
    assert said(one) == (OperationPhase.RUNNING, f"the bookie is {words}")


def test_who_leaves_for_good_is_not_told_as_being_replaced() -> None:
    for_good = leaves(Departure.DRAINING, rebuilds=False)

    assert said(for_good) == (OperationPhase.QUEUED, f"{A} leaves for good: the spec asks for fewer bookies")


def test_who_waits_to_be_retired_says_for_what() -> None:
    operation = make.operation("out", bookie=A, type="Retire", created_ms=make.NOW_MS)
    waits = leaves(Departure.LEAVING, rebuilds=False, waiting_for="a window")

    assert said(waits, operation=operation) == (OperationPhase.QUEUED, "waits for: a window")


def test_nobody_in_the_way_is_told_as_the_next_pass() -> None:
    back = replace(leaves(Departure.LEAVING), case=assessed().case)  # its leaving was taken back
    mate = assessed(B, Departure.FORGOTTEN)  # it comes back

    for one in (assessed(), back, leaves(Departure.LEAVING), assessed(is_leaving=True, is_rebuilt=True)):
        assert said(one) == (OperationPhase.QUEUED, "waits for: the next pass")
    assert said(assessed(is_leaving=True, is_rebuilt=True), mate)[1].startswith(f"waits for: {B} leaves first")
    assert said(back, mate)[1].startswith(f"waits for: {B} leaves first")
    assert said(back, assessed(B, is_leaving=True))[1].startswith(f"waits for: {B} leaves first")
    assert said(back, assessed(B)) == (OperationPhase.QUEUED, "waits for: the next pass")


def test_a_replacement_does_not_begin_when_another_of_its_zone_leaves_for_good() -> None:
    """That is what a retirement waits for: a replacement may expire meanwhile."""
    mate = assessed("ledgers-zone-a-1", Departure.DRAINING, rebuilds=False, is_leaving=True)

    assert said(assessed(), mate)[0] is OperationPhase.QUEUED


@pytest.mark.parametrize(
    "mate",
    [
        assessed("ledgers-zone-b-0", Departure.DRAINING, rebuilds=False, is_leaving=True),
        assessed("ledgers-zone-a-1", Departure.DRAINING, is_leaving=True, is_rebuilt=True),
        assessed("ledgers-zone-a-1", Departure.DRAINING, rebuilds=False),
        assessed("ledgers-zone-a-1", Departure.LEAVING, rebuilds=False, is_leaving=True),
        assessed("ledgers-zone-a-1", None, is_leaving=True),
    ],
    ids=["of another zone", "to come back", "taken back", "not begun", "not told to leave"],
)
def test_a_retirement_has_begun_only_with_the_one_that_leaves_for_it(mate: Assessed) -> None:
    operation = make.operation("out", bookie=A, type="Retire", created_ms=make.NOW_MS)

    assert said(assessed(), mate, operation=operation)[0] is OperationPhase.QUEUED


def test_it_is_complete_in_service_alone() -> None:
    member = Member("data.ledgers.zone-a.0", has_cookie=True, is_registered=True, is_writable=True)
    known = assessed()
    assert known.case.pod is not None
    pod = replace(known.case.pod, ready_since_ms=make.NOW_MS)
    one = replace(known, case=replace(known.case, pod=pod, member=member))
    young = asks(claims=("another",))
    assert not replacing.is_asked_of(young, one.case)

    assert said(one, operation=young)[0] is OperationPhase.COMPLETE
    assert said(replace(one, case=replace(one.case, member=None)), operation=young)[0] is OperationPhase.RUNNING
    assert said(replace(one, stage=Stage.REPAIRING), operation=young)[0] is OperationPhase.RUNNING
    assert said(one)[0] is OperationPhase.QUEUED, "its claims are those of before"


def test_who_is_to_be_retired_is_told_in_order_and_a_pause_takes_nothing_back() -> None:
    late = make.operation("late", bookie=A, type="Retire", created_ms=ASKED_MS)
    early = make.operation("early", bookie=B, type="Retire", created_ms=ASKED_MS - 500)
    over = make.operation("over", bookie=C, type="Retire", status=OperationStatus(phase=OperationPhase.COMPLETE))
    expired = make.operation("expired", bookie=C, type="Retire", created_ms=make.NOW_MS - 25 * 3_600_000)
    paused = make.cluster(lifecycle={"paused": True})

    swap = asks("swap", C)
    assert replacing.to_retire(paused, (late, early, over, expired, swap), make.NOW_MS) == (B, A)
    assert named(late, early) == (B, A), "where the spec asks for as many, both are replaced"


def test_who_is_retired_for_good_is_told_as_running_and_then_as_gone() -> None:
    operation = make.operation("out", bookie=A, type="Retire", created_ms=make.NOW_MS)
    for_good = assessed(A, Departure.DRAINING, rebuilds=False, is_leaving=True)

    assert said(for_good, operation=operation) == (OperationPhase.RUNNING, "the bookie is Draining")


@pytest.mark.parametrize(
    ("claims", "phase"), [(("uid",), OperationPhase.COMPLETE), ((), OperationPhase.FAILED)], ids=["was there", "never"]
)
def test_a_bookie_that_is_not_there_has_left_or_never_was(claims: "tuple[str, ...]", phase: OperationPhase) -> None:
    operation = make.operation("out", bookie="ledgers-zone-b-9", type="Retire", status=OperationStatus(claims=claims))

    (told,) = fleet.decide(make.observation(make.fleet(), operations=(operation,))).operations

    assert told.status.phase is phase, told


@pytest.mark.parametrize(
    ("bookie", "wanted"),
    [("ledgers-zone-b-0", [2, 1, 2]), ("ledgers-zone-b-9", [2, 2, 1]), ("other-zone-b-0", [2, 2, 1]), ("b", [2, 2, 1])],
)
def test_only_a_bookie_that_is_there_chooses_the_zone(bookie: str, wanted: "list[int]") -> None:
    pools = tuple(
        PoolStatus(name=f"zone-{zone}", stateful_set="", desired=2, current=2, ready=2, updated=2) for zone in "abc"
    )
    known = make.cluster(BookieClusterStatus(pools=pools), replicas=5)

    found = discover.pools(known, (), {}, {}, (bookie,))

    assert [pool.wanted for pool in found] == wanted


def test_a_bookie_that_the_spec_lost_sight_of_has_not_left_by_proof() -> None:
    """Somebody deleted its StatefulSet with its pods, say, after its zone was taken out: cookie and data are there."""
    orphan = replace(make.sibling("zone-b", 7), is_desired=False, pod=None, report=None)
    orphan = replace(orphan, member=Member(orphan.bookie_id, has_cookie=True, is_registered=False))
    status = OperationStatus(phase=OperationPhase.RUNNING, claims=("uid",), started_at="2027-01-14T08:00:00Z")
    operation = make.operation("out", bookie=orphan.name, type="Retire", status=status)

    (told,) = fleet.decide(make.observation((*make.fleet(), orphan), operations=(operation,))).operations

    assert told.status.phase is not OperationPhase.COMPLETE, told.status.message


def test_a_retirement_has_begun_when_the_highest_of_its_zone_leaves_for_it() -> None:
    """Else it may expire in the middle of that, and another bookie would leave instead."""
    operation = make.operation("out", bookie=A, type="Retire", created_ms=make.NOW_MS)
    highest = assessed("ledgers-zone-a-1", Departure.DRAINING, rebuilds=False, is_leaving=True)

    phase, words = said(assessed(), highest, operation=operation)

    assert (phase, "ledgers-zone-a-1" in words) == (OperationPhase.RUNNING, True), words
