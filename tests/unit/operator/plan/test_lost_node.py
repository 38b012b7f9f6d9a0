"""A claim is deleted only with every proof at once (spec/operator.md#N4 to N6)."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import operator_support as make
from bookie.ports.admin import Member, State
from bookie_operator.evidence.facts import BookieCase, NodeFacts, PersistentVolumeFacts
from bookie_operator.model.status import (
    BookieClusterStatus,
    BookieStatus,
    Departure,
    HistoryEntry,
    LeavingStatus,
    LostNode,
    Process,
)
from bookie_operator.model.values import format_time
from bookie_operator.plan import fleet
from bookie_operator.plan.actions import DeleteChild
from bookie_operator.plan.observation import DependentsLook, Leadership, Observation

LOST = "ledgers-zone-a-0"
LONG_AGO = format_time(make.NOW_MS - 3_600_000)
REPLACE = {"repair": {"stabilization": "6s", "lostNode": {"policy": "Replace", "after": "30m"}}}
ZONE = {"uid": "pod-2", "node": "", "is_ready": False, "phase": "Pending", "resource_version": "9"}


def lost(*, on: tuple[str, ...] = ("ledgers", "index"), **changes: Any) -> BookieCase:
    """The first bookie, its pod Pending; the disks of `on` are local, on a Node that was deleted."""
    volumes = []
    for volume in make.bookie_case().volumes:
        assert volume.recorded is not None
        recorded = volume.recorded.model_copy(update={"node": "node-a", "node_uid": "u", "hostname": "host-a"})
        tied = PersistentVolumeFacts(volume.recorded.pv_name, volume.recorded.pv_uid, hostnames=("host-a",))
        is_local = volume.name in on
        volumes.append(
            replace(
                volume,
                is_local_disk=is_local,
                report=None,
                recorded=recorded if is_local else volume.recorded,
                pv=tied if is_local else volume.pv,
            )
        )
    case = make.bookie_case(
        volumes=tuple(volumes),
        report=None,
        pod=make.pod(**ZONE),
        nodes={"node-a": None},
        member=Member("data.ledgers.zone-a.0", has_cookie=True, is_registered=False),
    )
    return replace(case, **changes)


def situation(case: BookieCase | None = None, others: tuple[BookieCase, ...] | None = None, **changes: Any) -> Any:
    entry = {
        "name": LOST,
        "bookie_id": "data.ledgers.zone-a.0",
        "pool": "zone-a",
        "state": "Missing",
        "verdict": "Unknown",
        "reason": "NodeLost",
        "since": LONG_AGO,
        "incarnation": 1,
        "has_lived": True,
        "processes": changes.pop("processes", ()),
        "leaving": changes.pop("leaving", None),
        "lost_node": changes.pop("before", LostNode(node="node-a", since=LONG_AGO)),
    }
    status = BookieClusterStatus(
        observed_generation=1,
        instance_id="instance",
        bookies=(BookieStatus(**entry),),
        history=changes.pop("history", ()),
    )
    cases = (case if case is not None else lost(), *(make.fleet()[1:] if others is None else others))
    spec = changes.pop("spec", REPLACE)
    children = make.rolled_out(**spec)
    return make.observation(cases, status=status, spec_changes=spec, children=children, **changes)


def deleted(seen: Observation) -> list[str]:
    return [f"{one.kind} {one.name} {one.uid}" for one in fleet.decide(seen).lost_nodes.actions]


ALL = [
    f"PersistentVolumeClaim ledgers-{LOST} claim-ledgers-1",
    f"PersistentVolumeClaim index-{LOST} claim-index-1",
    f"Pod {LOST} pod-2",
]


def test_with_every_proof_exactly_the_claims_of_that_node_go_and_then_the_pod() -> None:
    plan = fleet.decide(situation())

    assert deleted(situation()) == ALL, "the journal can follow, and stays"
    assert plan.lost_nodes.told[LOST].decided_at == format_time(make.NOW_MS), "stored before the first deletion"
    assert all(isinstance(one, DeleteChild) and one.resource_version for one in plan.lost_nodes.actions[2:])


@pytest.mark.parametrize("state", [one for one in Departure if one.is_near_its_end or one.is_gone])
def test_the_claims_of_a_bookie_that_was_proven_empty_stay_as_retention_says(state: Departure) -> None:
    leaving = LeavingStatus(state=state, since=LONG_AGO)

    assert deleted(situation(lost(is_leaving=True), leaving=leaving)) == []


def with_volume(**changes: Any) -> BookieCase:
    case = lost()
    return replace(case, volumes=(case.volumes[0], replace(case.volumes[1], **changes), case.volumes[2]))


def with_recorded(**unknown: str | int) -> BookieCase:
    """Nothing was known of the ledger volume's identity, or of its host, nor is now; or of its claim."""
    recorded = lost().volumes[1].recorded
    assert recorded is not None
    hostnames = ("",) if "hostname" in unknown else PV.hostnames
    pv = replace(PV, uid="" if "pv_uid" in unknown else PV.uid, hostnames=hostnames)
    return with_volume(recorded=recorded.model_copy(update=unknown), pv=pv)


def with_marks_of(claim_uid: str) -> BookieCase:
    """The marks on the ledger volume's claim (none for "") are of the claim with that uid."""
    claim = lost().volumes[1].claim
    assert claim is not None
    assert claim.marks is not None
    marks = replace(claim.marks, claim_uid=claim_uid) if claim_uid else None
    return with_volume(claim=replace(claim, marks=marks))


def other(**report: Any) -> tuple[BookieCase, ...]:
    first, *rest = make.fleet()[1:]
    return (replace(first, report=replace(first.report, **report)), *rest)  # type: ignore[type-var]


def holding() -> tuple[BookieCase, ...]:
    """The others, who keep ledgers that the metadata store has no more."""
    return tuple(replace(one, report=replace(one.report, garbage_held_ledgers=3)) for one in make.fleet()[1:])  # type: ignore[type-var]


def going() -> tuple[BookieCase, ...]:
    """The others; somebody deletes a claim of one, which holds it until its pod ends."""
    first, *rest = make.fleet()[1:]
    volumes = tuple(replace(one, claim=replace(one.claim, is_terminating=True)) for one in first.volumes)  # type: ignore[type-var]
    return (replace(first, volumes=volumes), *rest)


def ending(**report: Any) -> tuple[BookieCase, ...]:
    """The others; somebody deletes the pod of one, whose volumes stay."""
    first, *rest = other(**report)
    assert first.pod is not None
    return (replace(first, pod=replace(first.pod, is_terminating=True)), *rest)


def emptied() -> tuple[BookieCase, ...]:
    """The others, of whom one has lost its volumes."""
    first, *rest = make.fleet()[1:]
    case = make.lost_case()
    assert case.report is not None
    assert first.pod is not None
    report = replace(case.report, bookie_id=first.bookie_id, pod_uid=first.pod.uid)
    return (replace(first, volumes=case.volumes, report=report), *rest)


def brake() -> HistoryEntry:
    return HistoryEntry(
        grant_id="g", bookie="b", incarnation=2, profile="Full", granted_at=format_time(make.NOW_MS - 1_000)
    )


PV = PersistentVolumeFacts("pv-ledgers-1", "pv-uid-ledgers-1", hostnames=("host-a",))
GONE = Process(pod_uid="pod-1", node="node-c", node_uid="u", gone_since=LONG_AGO)
DOUBTS: dict[str, dict[str, Any]] = {
    "policy": {"spec": {"repair": {"stabilization": "6s", "lostNode": {"policy": "Wait"}}}},
    "timer": {"before": LostNode(node="node-a", since=format_time(make.NOW_MS - 60_000))},
    "another node's timer": {"before": LostNode(node="node-x", since=LONG_AGO)},
    "node is there": {"case": lost(nodes={"node-a": NodeFacts("node-a", "u", is_ready=False)})},
    "node came back": {"case": lost(nodes={"node-a": NodeFacts("node-a", "another")})},
    "node unread": {"case": lost(nodes={})},
    "tainted and ready": {"case": lost(nodes={"node-a": NodeFacts("node-a", "u", is_out_of_service=True)})},
    "pod has a node": {"case": lost(pod=make.pod(**(ZONE | {"node": "node-b"})))},
    "pod is going": {"case": lost(pod=make.pod(**ZONE, is_terminating=True))},
    "old process": {"processes": (GONE,)},
    "unknown processes": {"processes": None},
    "registered": {"case": lost(member=Member("data.ledgers.zone-a.0", has_cookie=True, is_registered=True))},
    "members": {"members_problem": "nobody answers"},
    "a claim without marks": {"case": with_marks_of("")},
    "a claim with another's marks": {"case": with_marks_of("x")},
    "a claim that nobody recorded": {"case": with_recorded(pvc_uid="another", incarnation=0)},
    "volume unread": {"case": with_volume(pv=None)},
    "another volume": {"case": with_volume(pv=replace(PV, uid="x"))},
    "volume anywhere": {"case": with_volume(pv=replace(PV, hostnames=()))},
    "volume on another host": {"case": with_volume(pv=replace(PV, hostnames=("host-a", "host-b")))},
    "another is away": {"others": other(state=State.WAITING_GRANT)},
    "another is empty": {"others": emptied()},
    "another is in limbo": {"others": other(state=State.REPAIRING)},
    "another's claim": {"others": going()},
    "another's pod is going": {"others": ending()},
    "the store was emptied": {"others": holding()},
    "no volume's uid": {"case": with_recorded(pv_uid="")},
    "no host known": {"case": with_recorded(hostname="")},
    "another store": {"others": other(instance_id="x")},
    "brake": {"history": (brake(),), "spec": {"repair": REPLACE["repair"] | {"maxPerDay": 1}}},
    "lease": {"leadership": Leadership("operator-1", 7, is_held=False)},
    "paused": {"spec": REPLACE | {"lifecycle": {"paused": True, "terminationGrace": "2m"}}},
    "ack quorum": {"spec": REPLACE | {"quorum": {"ensembleSize": 3, "writeQuorum": 3, "ackQuorum": 1}}},
    "no orphan": {"case": lost(is_desired=False)},
}


def test_after_a_clock_was_set_back_the_time_to_wait_begins_anew_and_not_in_the_future() -> None:
    seen = situation(before=LostNode(node="node-a", since=format_time(make.NOW_MS + 86_400_000)))
    entry = fleet.decide(seen).lost_nodes.told[LOST]

    assert deleted(seen) == []
    assert entry.since == format_time(make.NOW_MS)


@given(st.sets(st.sampled_from(sorted(DOUBTS)), max_size=4))
def test_no_claim_is_deleted_while_one_proof_is_missing(doubts: set[str]) -> None:
    changes: dict[str, Any] = {}
    for doubt in sorted(doubts):
        changes |= {key: value for key, value in DOUBTS[doubt].items() if key not in changes}

    assert (deleted(situation(**changes)) == ALL) is not bool(doubts)
    assert deleted(situation(**changes)) in (ALL, [])


@pytest.mark.parametrize("doubt", DOUBTS)
def test_each_proof_counts_alone(doubt: str) -> None:
    assert deleted(situation(**DOUBTS[doubt])) == []


def test_beside_one_that_is_without_its_data_the_look_must_be_about_this_bookie_too() -> None:
    """Two bookies may share a node: what no ledger depends on is both together (spec/operator.md#N8)."""
    pools = [
        {"name": f"zone-{one}", "zone": f"zone-{one}", "replicas": 1 + (one == "a"), "perNode": 2} for one in "abc"
    ]
    storage = {**make.spec()["storage"], "journalWriteData": True}
    shared = REPLACE | {"replicas": None, "zones": None, "pools": pools, "storage": storage}
    of = situation(others=other(state=State.WAITING_GRANT), spec=shared)
    (question,) = [one for one in fleet.questions(of) if LOST in one.bookies]
    look = DependentsLook(question.bookies, question.marks, make.NOW_MS, make.NOW_MS)
    (another,) = set(question.bookies) - {LOST}

    assert deleted(situation(spec=shared)) == ALL, "alone it is one loss"
    assert deleted(replace(of, dependents=(look,))) == ALL
    assert deleted(replace(of, dependents=(replace(look, bookies=(another,)),))) == []
    of = situation(others=ending(state=State.WAITING_GRANT), spec=shared, dependents=(look,))
    assert deleted(of) == ALL, "the pod of one without its data takes nothing away"


DECIDED = LostNode(node="node-a", since=LONG_AGO, decided_at=LONG_AGO, pod_uid="pod-2")


@pytest.mark.parametrize(
    ("before", "decided_at"),
    [
        (DECIDED, LONG_AGO),
        (DECIDED.model_copy(update={"pod_uid": "pod-1"}), LONG_AGO),  # somebody deleted the pod that waits
        (DECIDED.model_copy(update={"decided_at": None}), format_time(make.NOW_MS)),
    ],
)
def test_a_decision_keeps_its_time_until_it_is_carried_out(before: LostNode, decided_at: str) -> None:
    found = situation(before=before)

    assert fleet.decide(found).lost_nodes.told[LOST].decided_at == decided_at
    assert deleted(found) == ALL


def test_a_decision_about_another_node_is_none_about_this_one() -> None:
    spec = {"repair": REPLACE["repair"] | {"lostNode": {"policy": "Replace", "after": "0s"}}}
    found = situation(before=DECIDED.model_copy(update={"node": "node-x"}), spec=spec)

    told = fleet.decide(found).lost_nodes.told[LOST]

    assert (told.node, told.since, told.decided_at) == ("node-a", *[format_time(make.NOW_MS)] * 2)


def test_the_other_claims_of_a_decision_go_although_one_has_been_made_anew() -> None:
    """The operator died after the first deletion, and the StatefulSet made that claim again."""
    claim = lost().volumes[1].claim
    assert claim is not None
    anew = with_volume(claim=replace(claim, uid="claim-new", marks=None), pv=None)

    assert deleted(situation(anew, before=DECIDED)) == ALL[1:]


def test_what_goes_already_is_not_deleted_again() -> None:
    """A finalizer of somebody else keeps it: told, and not asked for in each pass."""
    claim = lost().volumes[1].claim
    assert claim is not None
    held = situation(with_volume(claim=replace(claim, is_terminating=True)), before=DECIDED)

    assert deleted(held) == ALL[1:]
    assert "is being deleted, and something holds it" in str(fleet.decide(held).lost_nodes.told[LOST].waiting_for)


def test_the_pod_of_a_decision_stays_while_no_claim_of_it_went_and_the_decision_holds_no_more() -> None:
    before = DECIDED.model_copy(update={"claims": (f"ledgers-{LOST}",)})
    closed = situation(before=before, spec=DOUBTS["policy"]["spec"])
    gone = with_volume(claim=None, pv=None)

    assert deleted(closed) == []
    assert deleted(situation(gone, before=before, spec=DOUBTS["policy"]["spec"])) == [ALL[2]]
    is_going = replace(gone, pod=make.pod(**ZONE, is_terminating=True))
    assert deleted(situation(is_going, before=before)) == [], "it is asked to go once"


def test_the_pod_of_a_decision_that_was_not_finished_goes_too() -> None:
    """The operator died after the claims; the pod took the new ones, which are younger, and is held."""
    before = LostNode(node="node-a", since=LONG_AGO, claims=(f"ledgers-{LOST}",), decided_at=LONG_AGO, pod_uid="pod-2")
    case = with_volume(claim=None, pv=None)
    alone = replace(case, volumes=(case.volumes[0], case.volumes[1]), nodes={"node-a": NodeFacts("node-a", "back")})

    assert deleted(situation(alone, before=before)) == [ALL[2]]
    taken = {"pod": make.pod(uid="pod-2", node="node-b", is_ready=False, resource_version="9")}
    report = make.bookie_case().report
    assert report is not None
    held = replace(report, pod_uid="pod-2", state=State.HELD, volumes=report.volumes[:2])
    assert deleted(situation(replace(alone, **taken, report=held), before=before)) == [ALL[2]]
    assert deleted(situation(replace(alone, **taken), before=before)) == [], "it may serve, for all that is known"
    assert deleted(situation(alone, before=before.model_copy(update={"pod_uid": "another"}))) == []
    assert deleted(situation(alone, before=before.model_copy(update={"decided_at": None}))) == []
    for held in (
        situation(alone, before=before, spec=REPLACE | {"lifecycle": {"paused": True, "terminationGrace": "2m"}}),
        situation(alone, before=before, leadership=Leadership("operator-1", 7, is_held=False)),
    ):
        assert deleted(held) == []
        (told,) = [one for one in fleet.decide(held).fleet if one.case.name == LOST]
        assert "it waits for: " in told.message
    after = situation(alone, before=before.model_copy(update={"waiting_for": "spec.lifecycle.paused is true"}))
    assert fleet.decide(after).lost_nodes.told[LOST].waiting_for is None
