"""One volume goes only with every gate open (spec/operator.md#U13)."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import Member, State
from bookie_operator.evidence.facts import BookieCase, ClaimMarks
from bookie_operator.model.operation import BookieOperation, OperationPhase, OperationStatus
from bookie_operator.model.status import (
    BookieClusterStatus,
    BookieStatus,
    Departure,
    HistoryEntry,
    LeavingStatus,
    RolloutStatus,
    RolloutStep,
)
from bookie_operator.model.values import format_time
from bookie_operator.plan import fleet
from bookie_operator.plan.actions import StopBookie
from bookie_operator.plan.observation import Observation
from bookie_operator.plan.operations import Told

A, B = "ledgers-zone-a-0", "ledgers-zone-a-1"
LONG_AGO_MS, ASKED_MS = make.NOW_MS - 3_600_000, make.NOW_MS - 1_000
LONG_AGO = format_time(LONG_AGO_MS)
REFUSES = {"state": State.READ_ONLY, "read_only": True, "has_turn": True}
SPEC = {"rollout": {"strategy": "Manual", "soakSeconds": 10}}


def ready(case: BookieCase, **report: Any) -> BookieCase:
    """`case`, registered and ready for long."""
    assert case.pod is not None
    assert case.report is not None
    said = replace(case.report, **({"capabilities": ("turn", "aside")} | report))
    pod = replace(case.pod, ready_since_ms=LONG_AGO_MS, created_ms=LONG_AGO_MS, resource_version="5")
    member = Member(case.bookie_id, True, is_registered=True, is_writable=said.state is State.SERVING)
    return replace(case, pod=pod, report=said, member=member)


def asks(volume: str = "ledgers", **status: Any) -> BookieOperation:
    target = {"bookie": A, "volume": volume}
    known = OperationStatus(**status)
    return make.operation("disk", type="ReplaceVolume", target=target, created_ms=ASKED_MS, status=known)


def situation(
    first: BookieCase | None = None,
    *,
    operation: BookieOperation | None = None,
    status: BookieClusterStatus | None = None,
    **spec: Any,
) -> Observation:
    return make.observation(
        (first or ready(make.bookie_case()), *(ready(one) for one in make.fleet()[1:])),
        status=status or BookieClusterStatus(observed_generation=1, instance_id="instance"),
        spec_changes=SPEC | spec,
        children=make.rolled_out(**(SPEC | spec)),
        operations=(operation or asks(),),
    )


def failed(case: BookieCase) -> BookieCase:
    """Its ledger volume takes no writes."""
    assert case.report is not None
    path = next(volume.path for volume in case.report.volumes if volume.name == "ledgers")
    return ready(case, state=State.READ_ONLY, directories_failed=(f"{path}/current",), quarantined_count=2)


def with_claim(**changes: Any) -> BookieCase:
    """The first bookie, the claim of whose ledger volume is otherwise."""
    case = ready(make.bookie_case())
    volumes = []
    for one in case.volumes:
        assert one.claim is not None
        volumes.append(replace(one, claim=replace(one.claim, **changes)) if one.name == "ledgers" else one)
    return replace(case, volumes=tuple(volumes))


def ephemeral() -> BookieCase:
    """The first bookie, whose ledger volume goes with its pod."""
    case = ready(make.bookie_case())
    volumes = (replace(one, is_ephemeral=True) if one.name == "ledgers" else one for one in case.volumes)
    return replace(case, volumes=tuple(volumes))


def told(seen: Observation) -> Told:
    (found,) = fleet.decide(seen).operations
    return found


def test_with_every_gate_open_it_has_its_turn_and_flushes_first() -> None:
    action = fleet.decide(situation()).rollout.action

    assert isinstance(action, StopBookie)
    assert (action.bookie, action.may_delete, action.claim) == (A, False, None)
    assert told(situation()).status.claims == ("claim-ledgers-1",)


def test_the_claim_of_one_never_goes_with_the_pod_of_another_whose_turn_it_is() -> None:
    """B is in the middle of its turn when somebody asks for a volume of A: its pod ends, and nothing of A's."""
    first, second, *others = [ready(one) for one in make.fleet()]
    assert second.pod is not None
    turn = {"bookie": B, "pod_uid": second.pod.uid, "begun_at": format_time(ASKED_MS), "was_writable": True}
    status = BookieClusterStatus(
        observed_generation=1,
        instance_id="instance",
        rollout=RolloutStatus(inputs="", desired=4, updated=3, step=RolloutStep(**turn)),
    )
    behind = ready(replace(second, pod=replace(second.pod, revision="rev-0", inputs="v1-older")), **REFUSES)
    seen = situation(status=status, rollout={"soakSeconds": 10})

    action = fleet.decide(replace(seen, bookies=(first, behind, *others))).rollout.action

    assert isinstance(action, StopBookie)
    assert (action.bookie, action.may_delete, action.claim) == (B, True, None)


def test_a_volume_that_takes_no_writes_goes_without_a_flush() -> None:
    action = fleet.decide(situation(failed(with_claim(resource_version="8")))).rollout.action

    assert isinstance(action, StopBookie)
    assert action.claim is not None
    assert (action.door, action.claim.kind, action.claim.uid) == (None, "PersistentVolumeClaim", "claim-ledgers-1")
    assert action.claim.resource_version == "8"


def test_a_volume_stays_while_another_one_of_the_same_bookie_has_failed() -> None:
    """Perhaps a person named the wrong one, and what it has is all that is left."""
    seen = situation(failed(make.bookie_case()), operation=asks("journal"))

    assert fleet.decide(seen).rollout.action is None
    assert "cannot write to" in told(seen).status.message


def test_a_volume_that_takes_no_writes_goes_once_the_registration_says_so() -> None:
    """Another cluster in the same metadata store, whose operator may stop a bookie now, reads nothing else."""
    late = failed(make.bookie_case())
    assert late.member is not None
    seen = situation(replace(late, member=replace(late.member, is_writable=True)))

    assert fleet.decide(seen).rollout.action is None
    assert told(seen).status.phase is OperationPhase.QUEUED
    assert "its registration does not say so yet" in told(seen).status.message


ENTRY = {
    "name": A,
    "bookie_id": "data.ledgers.zone-a.0",
    "pool": "zone-a",
    "state": "Serving",
    "verdict": "Healthy",
    "reason": "Serving",
    "since": LONG_AGO,
    "incarnation": 1,
    "has_lived": True,
}
LOSSES = tuple(
    HistoryEntry(
        bookie=B if number else "b",
        grant_id="g",
        profile="Partial",
        incarnation=2 + number,
        granted_at=LONG_AGO,
        result="Healed",
    )
    for number in range(9)
)

BRAKE = {"stabilization": "6s", "maxPerDay": 20, "maxPerDayPerZone": 1}
MARKS = ClaimMarks(1, claim_uid="another")


def known(**changes: Any) -> BookieClusterStatus:
    return BookieClusterStatus(
        observed_generation=1,
        instance_id="instance",
        bookies=(BookieStatus(**ENTRY, **changes),),
        history=LOSSES if not changes else (),
    )


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (situation(quorum={"ensembleSize": 3, "writeQuorum": 3, "ackQuorum": 1}), "the ack quorum is 1"),
        (situation(with_claim(uid="another")), "not the one that was proven"),
        (situation(with_claim(marks=None)), "not the one that was proven"),
        (situation(status=known()), "regenerations in 24 h"),
        (situation(status=known(), repair=BRAKE), "spec.repair.maxPerDayPerZone is 1"),
        (situation(with_claim(uid="another", marks=MARKS)), "not the one that was proven"),
        (situation(with_claim(marks=MARKS)), "not the one that was proven"),
        (situation(ephemeral()), "goes with its pod"),
        (situation(replace(ready(make.bookie_case()), report=None)), "must serve"),
        (situation(lifecycle={"paused": True}), "paused"),
        (
            situation(status=known(leaving=LeavingStatus(state=Departure.DRAINING, since=LONG_AGO))),
            "leaves, or comes back",
        ),
    ],
)
def test_while_one_gate_is_closed_it_waits_and_says_why(seen: Observation, words: str) -> None:
    plan = fleet.decide(seen)

    assert plan.rollout.action is None
    (found,) = plan.operations
    assert found.status.phase is OperationPhase.QUEUED
    assert words in found.status.message


def test_a_bookie_in_another_metadata_store_serves_copies_of_nobody() -> None:
    first, second, *rest = [ready(one) for one in make.fleet()]
    assert second.report is not None
    elsewhere = replace(second, report=replace(second.report, instance_id="another"))

    seen = replace(situation(), bookies=(first, elsewhere, *rest))

    assert f"{second.name} is not known to be in metadata store" in told(seen).status.message


@pytest.mark.parametrize(
    ("created_ms", "claims", "is_asked"),
    [
        (ASKED_MS, (), True),
        (ASKED_MS + 1_000, (), False),  # new already, though the status was lost
        (ASKED_MS - 1_000, ("claim-ledgers-1",), True),
        (ASKED_MS - 1_000, ("older",), False),  # by a clock that goes after
    ],
)
def test_a_claim_is_replaced_once(created_ms: int, claims: "tuple[str, ...]", is_asked: bool) -> None:
    seen = situation(with_claim(created_ms=created_ms), operation=asks(claims=claims))

    assert isinstance(fleet.decide(seen).rollout.action, StopBookie) is is_asked
    assert (told(seen).status.phase is OperationPhase.COMPLETE) is not is_asked


def test_a_claim_that_is_being_deleted_is_not_deleted_again() -> None:
    action = fleet.decide(situation(failed(with_claim(is_terminating=True)))).rollout.action

    assert isinstance(action, StopBookie)
    assert (action.door, action.claim) == (None, None)


def test_a_volume_that_the_bookie_does_not_have_is_told_with_those_that_it_has() -> None:
    status = told(situation(operation=asks("ledger"))).status

    assert status.phase is OperationPhase.FAILED
    assert "it has journal, ledgers, index" in status.message


@pytest.mark.parametrize("second", [ready, failed])
@pytest.mark.parametrize("kind", ["ReplaceVolume", "Restart"])
def test_nobody_is_stopped_while_the_claim_of_another_is_being_deleted(second: Any, kind: str) -> None:
    """With the first one's pod its volume goes, whatever ends that: two copies would be gone at once."""
    first, *others = make.fleet()
    target = {"bookie": others[0].name} | ({"volume": "ledgers"} if kind == "ReplaceVolume" else {})
    operation = make.operation("second", type=kind, target=target, created_ms=ASKED_MS, status=OperationStatus())
    rest = (second(others[0]), *(ready(one) for one in others[1:]))
    whole = replace(situation(operation=operation), bookies=(ready(first), *rest))
    going = replace(whole, bookies=(with_claim(is_terminating=True), *rest))

    assert isinstance(fleet.decide(whole).rollout.action, StopBookie) or (kind, second) == ("Restart", failed)
    assert fleet.decide(going).rollout.action is None
