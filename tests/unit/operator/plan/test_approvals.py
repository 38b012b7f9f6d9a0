"""What opens gates by a person's word, and everything that closes them again (spec/operator.md#U4)."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import operator_support as make
from bookie.ports.admin import Contents, Member, MountProof, State, Verdict
from bookie_operator.evidence.facts import BookieCase, ClaimFacts, PersistentVolumeFacts
from bookie_operator.model.operation import BookieOperation, OperationPhase, OperationStatus
from bookie_operator.model.status import (
    Approval,
    BookieClusterStatus,
    BookieStatus,
    GrantRecord,
    HistoryEntry,
    Process,
    Suspicion,
)
from bookie_operator.model.values import format_time
from bookie_operator.plan import fleet, stages
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.plan.observation import Leadership
from bookie_operator.status import render

FIRST, SECOND, THIRD, LAST = "ledgers-zone-a-0", "ledgers-zone-b-0", "ledgers-zone-a-1", "ledgers-zone-c-0"
REASON = "both disks of the rack burnt, there is no copy of them"
MANUAL = {"repair": {"stabilization": "6s", "regeneration": "Manual"}}


def lost(pool: str, ordinal: int) -> BookieCase:
    """Another bookie after all of its claims were replaced."""
    case = make.sibling(pool, ordinal)
    volumes = tuple(make.replaced(volume) for volume in case.volumes)
    assert case.report is not None
    report = replace(
        case.report,
        pod_uid=f"pod-{pool}-{ordinal}-2",
        state=State.WAITING_GRANT,
        verdict=Verdict.LOST,
        volumes=tuple(volume.report for volume in volumes if volume.report is not None),
    )
    pod = make.pod(case.name, uid=f"pod-{pool}-{ordinal}-2", is_ready=False)
    return replace(case, volumes=volumes, pod=pod, report=report)


def digest(case: BookieCase) -> str:
    return stages.assess(case, None, now_ms=0, stabilization_ms=0).evidence.digest


def remembered(case: BookieCase, **changes: Any) -> BookieStatus:
    evidence = digest(case)
    is_lost = case.report is not None and case.report.state is State.WAITING_GRANT
    suspicion = Suspicion(evidence=evidence, observations=3, since_ms=make.NOW_MS - 10_000) if is_lost else None
    known: dict[str, Any] = {
        "name": case.name,
        "bookie_id": case.bookie_id,
        "pool": case.pool,
        "state": "Confirmed" if is_lost else "Serving",
        "verdict": "LostVolume" if is_lost else "Healthy",
        "reason": "x",
        "since": format_time(make.NOW_MS - 60_000),
        "incarnation": 1,
        "processes": (),
        "suspicion": suspicion,
    }
    return BookieStatus(**(known | changes))


EMPTY = (make.lost_case(), lost("zone-b", 0))


def accept(*cases: BookieCase, **changes: Any) -> BookieOperation:
    named = [{"name": case.name, "evidence": digest(case)} for case in cases or EMPTY]
    wanted: dict[str, Any] = {"type": "AcceptLoss", "reason": REASON, "target": {"bookies": named}}
    return make.operation("give-up", **(wanted | changes))


def approve(case: BookieCase, **changes: Any) -> BookieOperation:
    wanted: dict[str, Any] = {"type": "ApproveRegeneration", "reason": REASON, "evidence": digest(case)}
    return make.operation("approve", **(wanted | {"bookie": case.name} | changes))


def plan(
    *found: BookieOperation,
    first: BookieCase = EMPTY[0],
    second: BookieCase = EMPTY[1],
    status: dict[str, Any] | None = None,
    entries: dict[str, dict[str, Any]] | None = None,
    others: dict[str, BookieCase] | None = None,
    spec: dict[str, Any] | None = None,
    **changes: Any,
) -> FleetPlan:
    cases = make.fleet(first, zone_b=second, **(others or {}))
    known = BookieClusterStatus(
        observed_generation=1,
        bookies=tuple(remembered(case, **(entries or {}).get(case.name, {})) for case in cases),
        instance_id="instance",
    ).model_copy(update=status or {})
    return fleet.decide(make.observation(cases, status=known, spec_changes=spec, operations=found, **changes))


def closed(found: FleetPlan, name: str = FIRST) -> list[str]:
    return [gate.name for gate in found.closed[name]]


def only(found: FleetPlan) -> tuple[OperationPhase | None, str]:
    (one,) = found.operations
    return one.status.phase, one.status.message


def test_without_a_word_as_many_empty_bookies_as_the_ack_quorum_wait() -> None:
    found = plan()

    assert (closed(found), closed(found, SECOND), found.sends) == (["G4-Tolerance"], ["G4-Tolerance"], ())
    assert "AcceptLoss" in found.closed[FIRST][0].message


def test_an_accepted_loss_grants_both_and_the_record_says_by_whose_word() -> None:
    found = plan(accept())

    assert sorted(send.bookie for send in found.sends) == [FIRST, SECOND]
    assert {send.grant.approval.operation for send in found.sends if send.grant.approval} == {"give-up"}
    history = render.render(found).history
    assert [entry.approval.reason if entry.approval else "" for entry in history] == [REASON, REASON]
    assert only(found)[0] is OperationPhase.RUNNING


def with_claim(case: BookieCase) -> BookieCase:
    marks = make.marks("old", "fs", incarnation=1)
    return replace(case, other_claims=(ClaimFacts("disk0-ledgers-zone-a-0", "old", make.NOW_MS - 9_000, marks=marks),))


def with_volume(case: BookieCase, **changes: Any) -> BookieCase:
    assert case.report is not None
    volumes = tuple(make.changed(one, **changes) for one in case.report.volumes)
    known = tuple(replace(one, report=told) for one, told in zip(case.volumes, volumes, strict=True))
    return replace(case, volumes=known, report=replace(case.report, volumes=volumes))


OLD = {"pv-ledgers-1": PersistentVolumeFacts("pv-ledgers-1", "pv-uid-ledgers-1", "Released", "Retain")}
DELETED = {"pv-ledgers-1": PersistentVolumeFacts("pv-ledgers-1", "pv-uid-ledgers-1", "Released", "Delete")}


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        # The old disks: by no time of waiting.
        ({"old_volumes": OLD}, "still exists (PersistentVolume pv-ledgers-1"),
        ({"old_volumes": OLD, "spec": {"repair": {"stabilization": "6s", "reattachGrace": "1s"}}}, "still exists"),
        ({"old_volumes": DELETED}, "still exists"),
        ({"can_read_volumes": False}, "cannot read PersistentVolumes"),
        ({"can_read_volumes": None}, "cannot read PersistentVolumes"),
        ({"first": with_claim(EMPTY[0])}, "disk0-ledgers-zone-a-0 holds data"),
        # The old processes, of each one named.
        ({"entries": {SECOND: {"processes": (Process(pod_uid="old", node="n"),)}}}, "uid old"),
        ({"entries": {SECOND: {"processes": None}}}, "never saw may still run"),
        (
            {"second": replace(EMPTY[1], member=Member(EMPTY[1].bookie_id, has_cookie=True, is_registered=True))},
            "is registered in the metadata store",
        ),
        # Another bookie that may have what these have not.
        ({"others": {"zone_c": replace(make.sibling("zone-c", 0), report=None)}}, f"{LAST} is Unreachable"),
        ({"others": {"zone_c": replace(make.sibling("zone-c", 0), pod=None, report=None)}}, f"{LAST} is Missing"),
        ({"others": {"zone_c": lost("zone-c", 0)}}, f"{LAST} is without its data too"),
        # What is not proven.
        ({"second": with_volume(EMPTY[1], proof=MountProof.MISSING)}, "not needed"),
        ({"second": replace(EMPTY[1], report=None)}, f"{SECOND} "),
        ({"entries": {SECOND: {"suspicion": None}}}, f"the loss of {SECOND} is not proven (Suspected"),
        ({"members_problem": "nobody lists"}, "nobody lists"),
        ({"record_problem": "the record is damaged"}, "the record is damaged"),
        ({"leadership": Leadership("me", 7, is_held=False)}, "lease"),
    ],
)
def test_whatever_may_bring_data_back_closes_it_for_every_bookie(changes: dict[str, Any], word: str) -> None:
    found = plan(accept(), **changes)

    assert found.sends == ()
    phase, text = only(found)
    assert phase is OperationPhase.QUEUED
    assert word in text


@pytest.mark.parametrize(
    "wrong",
    [
        accept(EMPTY[0]),
        accept(EMPTY[0], EMPTY[1], make.sibling("zone-c", 0)),
        accept(target={"bookies": [{"name": one.name, "evidence": "0123456789abcdef"} for one in EMPTY]}),
        accept(created_ms=make.NOW_MS - 25 * 3_600_000),
        accept(clusterRef={"name": "ledgers"}, status=OperationStatus(phase=OperationPhase.COMPLETE)),
    ],
    ids=["one is left out", "one too many", "other evidence", "too late", "over"],
)
def test_an_acceptance_of_another_loss_opens_nothing(wrong: BookieOperation) -> None:
    found = plan(wrong)

    assert closed(found) == ["G4-Tolerance"]
    assert found.sends == ()


@pytest.mark.parametrize(
    ("changes", "gate"),
    [
        ({"spec": MANUAL}, "G9-Policy"),
        ({"spec": {"lifecycle": {"paused": True, "terminationGrace": "2m"}}}, "Paused"),
        ({"spec": {"repair": {"stabilization": "6s", "maxPerDay": 0}}}, "G8-Brake"),
        ({"epoch": 1, "first": make.lost_case(operator_epoch_seen=5)}, "G1-Leader"),
    ],
)
def test_every_other_gate_stays_as_it_is(changes: dict[str, Any], gate: str) -> None:
    first = changes.get("first", EMPTY[0])

    found = plan(accept(first, EMPTY[1]), **changes)

    assert gate in closed(found)
    assert FIRST not in [send.bookie for send in found.sends]


def granted(operation: BookieOperation, case: BookieCase) -> dict[str, Any]:
    """What the status says of a bookie that this operation let go on."""
    approval = Approval(operation=operation.name, uid=operation.uid, type="AcceptLoss", reason=REASON)
    grant = GrantRecord(
        id="g",
        bookie_id=case.bookie_id,
        pod_uid="pod-2",
        evidence=digest(case),
        report_evidence="x",
        cookie_version=0,
        new_incarnation=2,
        profile="Full",
        epoch=7,
        issued_at=format_time(make.NOW_MS - 5_000),
        expires_at=format_time(make.NOW_MS + 60_000),
        issued_by="me",
        approval=approval,
    )
    return {"grant": grant}


def test_the_second_is_granted_while_the_first_heals_and_waits_for_its_copies() -> None:
    operation = accept()
    healing = make.lost_case(state=State.REPAIRING, incarnation=2)
    valid = with_volume(healing, contents=Contents.VALID, sentinel=make.sentinel(healing.bookie_id, 2))

    found = plan(operation, first=valid, entries={FIRST: granted(operation, EMPTY[0])})
    by_another = replace(operation, uid="another")
    none = plan(by_another, first=valid, entries={FIRST: granted(operation, EMPTY[0])})

    assert [send.bookie for send in found.sends] == [SECOND]
    assert only(found)[0] is OperationPhase.RUNNING
    assert none.sends == ()
    assert f"the loss of {FIRST} is not proven" in only(none)[1]


def test_a_life_that_began_by_another_word_is_not_covered() -> None:
    past = HistoryEntry(
        grant_id="g",
        bookie=FIRST,
        incarnation=2,
        profile="Full",
        granted_at=format_time(make.NOW_MS - 5_000),
        approval=Approval(operation="give-up", uid=accept().uid, type="AcceptLoss"),
        result="Healed",
    )
    whole = make.bookie_case()
    operation = accept(EMPTY[0], EMPTY[1], lost("zone-c", 0))
    same = {"second": EMPTY[1], "others": {"zone_c": lost("zone-c", 0)}, "status": {"history": (past,)}}

    now = plan(operation, first=whole, entries={FIRST: {"incarnation": 2}}, **same)
    later = plan(operation, first=whole, entries={FIRST: {"incarnation": 3}}, **same)

    assert sorted(send.bookie for send in now.sends) == [SECOND, LAST]
    assert later.sends == ()


def test_a_bookie_that_is_empty_once_more_is_not_covered_by_what_was_accepted() -> None:
    operation = accept()
    past = HistoryEntry(
        grant_id="g",
        bookie=FIRST,
        incarnation=2,
        profile="Full",
        granted_at=format_time(make.NOW_MS - 25 * 3_600_000),
        approval=Approval(operation="give-up", uid=operation.uid, type="AcceptLoss"),
        result="Healed",
    )
    again = make.lost_case(incarnation=2, pod_uid="pod-3")
    again = replace(again, pod=make.pod(uid="pod-3", is_ready=False))

    found = plan(operation, first=again, status={"history": (past,)})

    assert found.sends == ()
    assert f"the evidence of {FIRST}" in only(found)[1]


def test_one_empty_bookie_needs_no_acceptance() -> None:
    found = plan(accept(EMPTY[0]), second=make.sibling("zone-b", 0))

    assert [send.grant.approval for send in found.sends] == [None]


def test_an_approval_opens_g9_for_this_case_alone_and_is_recorded() -> None:
    case = make.lost_case()
    alone = {"second": make.sibling("zone-b", 0), "spec": MANUAL}

    without = plan(**alone)
    found = plan(approve(case), **alone)
    other = plan(approve(case, evidence="0123456789abcdef"), **alone)
    of_another = plan(approve(case, bookie=LAST), **alone)

    assert closed(without) == closed(other) == closed(of_another) == ["G9-Policy"]
    assert digest(case) in without.closed[FIRST][0].message
    (send,) = found.sends
    assert send.grant.approval is not None
    assert send.grant.approval.type == "ApproveRegeneration"
    assert only(other)[0] is OperationPhase.QUEUED
    assert "another case" in only(other)[1]


def test_an_approval_does_not_open_the_tolerance() -> None:
    assert closed(plan(approve(EMPTY[0]), spec=MANUAL)) == ["G4-Tolerance"]


@given(st.sets(st.sampled_from([0, 1, 2, 3])), st.sets(st.sampled_from([0, 1, 2, 3]), min_size=1))
def test_past_the_tolerance_only_exactly_what_is_empty_opens_anything(empty: set[int], named: set[int]) -> None:
    whole = make.fleet()
    gone = (EMPTY[0], lost("zone-a", 1), EMPTY[1], lost("zone-c", 0))
    cases = [gone[at] if at in empty else whole[at] for at in range(4)]
    operation = accept(*(cases[at] for at in sorted(named)))

    found = plan(operation, first=cases[0], second=cases[2], others={"zone_a_1": cases[1], "zone_c": cases[3]})

    if len(empty) > 1:
        assert bool(found.sends) == (named == empty)
    assert all(send.bookie in {gone[at].name for at in empty} for send in found.sends)
