"""ConfirmLoss: claims go of a bookie that is held for empty or silent volumes, and for nothing else
(spec/operator.md#U14)."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import Aside, Contents, Member, MountProof, MountReport, State, StorageReport, Verdict
from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model.operation import OperationPhase, OperationStatus
from bookie_operator.model.status import BookieClusterStatus, BookieStatus, HibernationState, HibernationStatus
from bookie_operator.plan import fleet
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.plan.observation import Leadership
from bookie_operator.plan.stages import Stage

FIRST = "ledgers-zone-a-0"
REASON = "somebody formatted the disk on Tuesday"
NOT_YET = OperationStatus()
ASIDE = Aside(is_aside=True, why="its disk clicks", order_id="x", asked_ms=1)


def held(**report: Any) -> BookieCase:
    """The first bookie, whose ledger volume is empty behind its marked claim."""
    found = make.fleet()[0]
    assert found.report is not None
    said: dict[str, Any] = {"state": State.WAITING_GRANT, "verdict": Verdict.LOST, "data_port_open": False}
    case = replace(found, report=replace(found.report, **(said | report)), is_listed=True)
    member = Member(case.bookie_id, has_cookie=True, is_registered=False)
    return with_volume(replace(case, member=member), contents=Contents.EMPTY, sentinel=None)


def silent(**report: Any) -> BookieCase:
    """The first bookie, the disk of whose ledger volume does not answer."""
    return with_volume(held(state=State.HELD, verdict=Verdict.UNREADABLE, **report), contents=Contents.UNREADABLE)


def with_volume(case: BookieCase, index: int = 1, claim: dict[str, Any] | None = None, **report: Any) -> BookieCase:
    """`case`, one of whose volumes is reported otherwise, or has another claim."""
    assert case.report is not None
    one = case.volumes[index]
    assert one.claim is not None
    assert one.report is not None
    changed = replace(one, report=replace(one.report, **report), claim=replace(one.claim, **(claim or {})))
    volumes = tuple(changed if known.name == one.name else known for known in case.volumes)
    reports = tuple(known.report for known in volumes if known.report is not None)
    return replace(case, volumes=volumes, report=replace(case.report, volumes=reports))


def plan(
    case: BookieCase,
    *,
    evidence: str = "",
    noted: bool = True,
    asleep: HibernationStatus | None = None,
    **how: Any,
) -> FleetPlan:
    others = make.fleet()[1:]
    known_bookie = BookieStatus(
        name=FIRST,
        bookie_id=case.bookie_id,
        pool="zone-a",
        state="Held",
        verdict="Held",
        reason="WipedInPlace",
        since="2027-01-15T08:00:00Z",
        processes=(),
    )
    status = BookieClusterStatus(
        observed_generation=1, instance_id="instance", bookies=(known_bookie,), hibernation=asleep
    )
    bare = fleet.decide(make.observation((case, *others), status=status))
    digest = evidence or bare.fleet[0].evidence.digest or "0" * 32
    uids = tuple(one.claim.uid for one in case.volumes if one.claim is not None)
    known = OperationStatus(claims=uids) if noted else NOT_YET
    asked = make.operation("gone", type="ConfirmLoss", evidence=digest, reason=REASON, status=known)
    return fleet.decide(make.observation((case, *others), status=status, operations=(asked,), **how))


def deleted(found: FleetPlan) -> list[tuple[str, str, str]]:
    return [(one.kind, one.name, one.uid) for one in found.lost_nodes.actions]


def said(found: FleetPlan) -> tuple[OperationPhase | None, str]:
    (one,) = found.operations
    return one.status.phase, one.status.message


def report_of(case: BookieCase) -> StorageReport:
    assert case.report is not None
    return case.report


def claim_of(case: BookieCase) -> tuple[str, str]:
    claim = case.volumes[1].claim
    assert claim is not None
    return claim.name, claim.uid


def test_what_is_to_go_is_noted_before_the_first_of_it_goes() -> None:
    found = plan(held(), noted=False)

    assert deleted(found) == []
    assert found.operations[0].status.claims == (claim_of(held())[1],)


def test_exactly_the_empty_claim_goes_and_the_pod_when_that_is_on_its_way() -> None:
    name, uid = claim_of(held())
    going = with_volume(held(), claim={"is_terminating": True})

    assert deleted(plan(held())) == [("PersistentVolumeClaim", name, uid)]
    assert said(plan(held()))[0] is OperationPhase.RUNNING
    assert deleted(plan(going)) == [("Pod", FIRST, "pod-1")]


def test_the_claim_of_a_disk_that_does_not_answer_goes_and_then_the_pod() -> None:
    name, uid = claim_of(silent())
    going = with_volume(silent(), claim={"is_terminating": True})

    assert plan(silent(), noted=False).operations[0].status.claims == (uid,)
    assert deleted(plan(silent())) == [("PersistentVolumeClaim", name, uid)]
    assert deleted(plan(going)) == [("Pod", FIRST, "pod-1")]


@pytest.mark.parametrize(
    ("proof", "contents", "goes"),
    [
        (MountProof.SILENT, Contents.UNREADABLE, True),
        (MountProof.SILENT, Contents.EMPTY, False),
        (MountProof.SUSPECT, Contents.UNREADABLE, False),
        (MountProof.MISSING, Contents.UNREADABLE, False),
    ],
)
def test_a_disk_that_does_not_say_which_it_is_goes_and_a_missing_mount_never(
    proof: MountProof, contents: Contents, goes: bool
) -> None:
    case = with_volume(silent(), mount=MountReport(proof, reason="why"), contents=contents)

    assert bool(deleted(plan(case))) is goes
    assert (said(plan(case))[0] is OperationPhase.RUNNING) is goes


def test_a_silent_disk_beside_an_emptied_one_goes_with_it() -> None:
    both = with_volume(silent(), 0, contents=Contents.EMPTY, sentinel=None)

    assert [name for _, name, _ in deleted(plan(both))] == [f"journal-{FIRST}", f"ledgers-{FIRST}"]


def test_a_full_volume_that_only_the_pod_keeps_keeps_a_silent_one_too() -> None:
    found = plan(with_volume(silent(), 0, claim={"is_terminating": True}))

    assert deleted(found) == []
    assert "goes with the pod, and it is not empty" in said(found)[1]


def test_a_bookie_with_a_silent_disk_is_told_with_the_evidence_and_counts_as_away() -> None:
    (one, *_) = fleet.decide(make.observation((silent(), *make.fleet()[1:]))).fleet

    assert (one.stage, one.reason, one.counted) == (Stage.HELD, "UnreadableVolume", "Away")
    assert f"ConfirmLoss with evidence {one.evidence.digest}" in one.message


def test_a_claim_that_somebody_is_deleting_goes_with_its_pod() -> None:
    """ClaimTerminating: it never held data, and its bookie has a cookie."""
    case = with_volume(held(), claim={"is_terminating": True, "marks": None})
    case = replace(case, volumes=tuple(replace(one, recorded=None) for one in case.volumes))
    found = plan(case)

    assert found.fleet[0].evidence.finding.reason == "ClaimTerminating"
    assert deleted(found) == [("Pod", FIRST, "pod-1")]


IN_THE_WAY = {
    "other evidence": (held(), {"evidence": "0" * 32}, "and not 00000000"),
    "serving": (make.fleet()[0], {}, "not held for an empty volume"),
    "another volume is foreign": (
        with_volume(held(), 0, contents=Contents.FOREIGN, sentinel=None), {}, "ForeignVolume",
    ),
    "registered": (
        replace(held(), member=Member(held().bookie_id, has_cookie=True, is_registered=True)), {}, "is registered",
    ),
    "its port is open": (held(data_port_open=True), {}, "serves, or is registered"),
    "the bookie holds itself": (
        held(state=State.HELD, verdict=Verdict.SET_ASIDE, aside=ASIDE),
        {},
        "holds itself",
    ),
    "the bookie holds itself for a disk, and tells of none": (
        held(state=State.HELD, verdict=Verdict.UNREADABLE), {}, "holds itself",
    ),
    "a disk, and more": (
        replace(silent(), report=replace(report_of(silent()), verdict=Verdict.STALE)), {}, "holds itself",
    ),
    "a disk of another evidence": (silent(), {"evidence": "0" * 32}, "and not 00000000"),
    "a disk, and another volume is foreign": (
        with_volume(silent(), 0, contents=Contents.FOREIGN, sentinel=None), {}, "ForeignVolume",
    ),
    "the lease": (held(), {"leadership": Leadership("operator-1", 7, is_held=False)}, "lease"),
    "nobody listed": (held(), {"members_problem": "nobody answers"}, "nobody answers"),
    "not asked for": (replace(held(), is_leaving=True, is_rebuilt=True), {}, "leaves"),
}  # fmt: skip


@pytest.mark.parametrize(("case", "how", "word"), IN_THE_WAY.values(), ids=list(IN_THE_WAY))
def test_one_thing_in_the_way_keeps_every_claim_and_says_so(case: BookieCase, how: dict[str, Any], word: str) -> None:
    found = plan(case, **how)

    assert deleted(found) == []
    assert said(found)[0] is OperationPhase.QUEUED
    assert word in said(found)[1]


def test_while_the_cluster_is_paused_nothing_goes() -> None:
    found = plan(held(), spec_changes={"lifecycle": {"paused": True, "terminationGrace": "2m"}})

    assert deleted(found) == []
    assert "paused" in said(found)[1]


@pytest.mark.parametrize("state", [HibernationState.STOPPING, HibernationState.HIBERNATED, HibernationState.WAKING])
def test_a_fleet_that_sleeps_says_that_it_is_waited_for(state: HibernationState) -> None:
    asleep = HibernationStatus(state=state, since="2027-01-15T08:00:00Z")
    spec = {"lifecycle": {"hibernate": state is not HibernationState.WAKING, "terminationGrace": "2m"}}
    found = plan(held(), asleep=asleep, spec_changes=spec)

    assert deleted(found) == []
    assert said(found)[0] is OperationPhase.QUEUED
    assert "hibernates" in said(found)[1]


def test_it_is_done_when_the_claims_of_the_first_look_are_gone() -> None:
    found = plan(make.lost_case())

    assert plan(make.lost_case(), noted=False).operations[0].status.claims == ()
    assert said(found)[0] is OperationPhase.QUEUED, "these are not the ones that were noted"


def test_a_full_volume_that_only_the_pod_keeps_keeps_the_pod_and_the_empty_claim_too() -> None:
    """Somebody deleted the claim of the wrong volume: the kubelet holds it until the pod ends."""
    going = with_volume(held(), 0, claim={"is_terminating": True})
    first = going.volumes[0]
    assert first.pv is not None
    other = with_volume(held(), claim={"is_terminating": True})
    pv_going = replace(
        other,
        volumes=(
            replace(first, claim=other.volumes[0].claim, pv=replace(first.pv, is_terminating=True)),
            *other.volumes[1:],
        ),
    )

    for case in (going, with_volume(going, claim={"is_terminating": True}), pv_going):
        found = plan(case)
        assert deleted(found) == []
        assert "goes with the pod, and it is not empty" in said(found)[1]


def test_a_bookie_whose_other_volumes_go_with_its_pod_keeps_it() -> None:
    case = held()
    assert case.pod is not None
    assert case.report is not None
    uid, volumes = case.pod.uid, []
    for one in case.volumes:
        assert one.claim is not None
        assert one.report is not None
        assert one.report.mount is not None
        assert one.recorded is not None
        root = f"/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~empty-dir/{one.name}"
        report = replace(one.report, mount=replace(one.report.mount, root=root))
        recorded = one.recorded.model_copy(update={"pvc_uid": uid})
        claim = replace(one.claim, uid=uid, name="")
        volumes.append(replace(one, report=report, claim=claim, recorded=recorded, is_ephemeral=True))
    said_volumes = tuple(one.report for one in volumes if one.report is not None)

    found = plan(replace(case, volumes=tuple(volumes), report=replace(case.report, volumes=said_volumes)))

    assert deleted(found) == []
    assert "goes with the pod (kind Ephemeral)" in said(found)[1]
