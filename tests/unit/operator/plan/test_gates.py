"""Gates between a proven loss and a grant: each closed on its own, by its own sentence (spec/operator.md#G1 to G12)."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import OPERATOR_EPOCH_MAX, Member, MountProof, State
from bookie_operator.evidence.bookie import ROLLBACK
from bookie_operator.evidence.facts import BookieCase, Door, NodeFacts, PersistentVolumeFacts
from bookie_operator.model.operation import OperationStatus
from bookie_operator.model.status import (
    Approval,
    BookieClusterStatus,
    BookieStatus,
    HibernationState,
    HibernationStatus,
    HistoryEntry,
    Process,
    Suspicion,
)
from bookie_operator.model.values import format_time
from bookie_operator.plan import fleet, gates, repair, stages
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.plan.observation import Leadership, Observation
from bookie_operator.status import render

LOST = "ledgers-zone-a-0"


def remembered(case: BookieCase, **changes: Any) -> BookieStatus:
    known: dict[str, Any] = {
        "name": case.name,
        "bookie_id": case.bookie_id,
        "pool": case.pool,
        "state": "Serving",
        "verdict": "Healthy",
        "reason": "Serving",
        "since": format_time(make.NOW_MS - 60_000),
        "incarnation": 1,
        "processes": (),
    }
    return BookieStatus(**(known | changes))


def confirmed(case: BookieCase) -> BookieStatus:
    """What the status says of a bookie whose loss was seen often enough, long enough."""
    digest = stages.assess(case, None, now_ms=0, stabilization_ms=0).evidence.digest
    suspicion = Suspicion(evidence=digest, observations=3, since_ms=make.NOW_MS - 10_000)
    return remembered(case, state="Confirmed", suspicion=suspicion)


def situation(
    first: BookieCase | None = None,
    *,
    others: dict[str, BookieCase] | None = None,
    status: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    **changes: Any,
) -> Observation:
    first = first or make.lost_case()
    bookies = make.fleet(first, **(others or {}))
    entries = (confirmed(first), *(remembered(case) for case in bookies[1:]))
    known = BookieClusterStatus(observed_generation=1, bookies=entries, instance_id="instance")
    known = known.model_copy(update=status or {})
    return make.observation(bookies, status=known, spec_changes=spec, **changes)


def closed(plan: FleetPlan, bookie: str = LOST) -> list[str]:
    return [gate.name for gate in plan.closed[bookie]]


def test_a_confirmed_loss_with_all_gates_open_is_granted() -> None:
    plan = fleet.decide(situation())

    assert closed(plan) == []
    (send,) = plan.sends
    door = Door("10.0.0.1:3184", plan.observation.cluster.uid)
    assert (send.bookie, send.door, send.grant.new_incarnation) == (LOST, door, 2)
    assert (send.grant.report_evidence, send.grant.cookie_version, send.grant.epoch) == ("report-hash", 0, 7)


def test_the_same_observation_gives_the_same_grant() -> None:
    assert fleet.decide(situation()).sends == fleet.decide(situation()).sends


def test_g1_without_the_lease_nothing_is_granted() -> None:
    plan = fleet.decide(situation(leadership=Leadership("me", 7, is_held=False)))

    assert (closed(plan), plan.sends) == (["G1-Leader"], ())


def test_g1_an_operator_that_a_bookie_has_outlived_grants_nothing() -> None:
    assert closed(fleet.decide(situation(make.lost_case(operator_epoch_seen=8)))) == ["G1-Leader"]


def test_g2_another_instance_of_the_metadata_store_closes() -> None:
    assert closed(fleet.decide(situation(make.lost_case(instance_id="other")))) == ["G2-Metadata"]


def test_g2_the_expected_instance_of_the_spec_wins() -> None:
    service = {"uri": "zk://zookeeper:2181/ledgers", "expectedInstanceId": "precious"}

    assert closed(fleet.decide(situation(spec={"metadataService": service}))) == ["G2-Metadata"]


def test_g3_an_unconfirmed_loss_is_no_candidate() -> None:
    observation = situation()
    entries = tuple(entry.model_copy(update={"suspicion": None}) for entry in observation.cluster.status.bookies)
    status = observation.cluster.status.model_copy(update={"bookies": entries})

    plan = fleet.decide(make.observation(observation.bookies, status=status))

    assert (plan.closed, plan.sends) == ({}, ())


def test_g3_an_unproven_mount_is_never_a_candidate() -> None:
    lost = make.lost_case()
    volume = lost.volumes[0]
    assert volume.report is not None
    missing = replace(volume, report=make.changed(volume.report, proof=MountProof.MISSING))

    plan = fleet.decide(situation(replace(lost, volumes=(missing, *lost.volumes[1:]))))

    assert (plan.closed, plan.sends) == ({}, ())


def lost_sibling() -> BookieCase:
    whole = make.sibling("zone-b", 0)
    volumes = tuple(make.replaced(one) for one in whole.volumes)
    report = make.report(
        bookie_id=whole.bookie_id,
        pod_uid="pod-ledgers-zone-b-0",
        state=State.WAITING_GRANT,
        verdict=make.Verdict.LOST,
        volumes=tuple(one.report for one in volumes),
    )
    return replace(whole, volumes=volumes, report=report)


def test_g4_two_empty_bookies_are_one_too_many_for_an_ack_quorum_of_two() -> None:
    plan = fleet.decide(situation(others={"zone_b": lost_sibling()}))

    assert "G4-Tolerance" in closed(plan)
    assert plan.sends == ()


def test_g5_a_peer_that_is_down_is_waited_for() -> None:
    silent = replace(make.sibling("zone-b", 0), report=None, report_problem="no answer")

    plan = fleet.decide(situation(others={"zone_b": silent}))

    assert closed(plan) == ["G5-Peers"]


def silent(zone: str) -> BookieCase:
    return replace(make.sibling(zone, 0), report=None, report_problem="no answer")


def away(observation: Observation, **since_ms: int) -> Observation:
    """The same, when these bookies (`zone_b`, `zone_c`) were last seen serving so long ago."""
    entries = tuple(
        entry.model_copy(
            update={"state": "Unreachable", "away_since": format_time(make.NOW_MS - since_ms[_zone(entry)])}
        )
        if (_zone(entry) in since_ms)
        else entry
        for entry in observation.cluster.status.bookies
    )
    status = observation.cluster.status.model_copy(update={"bookies": entries})
    return make.observation(observation.bookies, status=status)


def _zone(entry: BookieStatus) -> str:
    return entry.pool.replace("-", "_")


def test_g5_opens_when_the_peer_stayed_away_longer_than_the_grace() -> None:
    observation = situation(others={"zone_b": silent("zone-b")})

    assert closed(fleet.decide(away(observation, zone_b=601_000))) == []


def test_g5_a_peer_that_is_long_gone_opens_nothing_for_another() -> None:
    observation = situation(others={"zone_b": silent("zone-b"), "zone_c": silent("zone-c")})

    plan = fleet.decide(away(observation, zone_b=601_000, zone_c=1_000))

    assert closed(plan) == ["G5-Peers"]
    assert "zone-c-0" in plan.closed[LOST][0].message
    assert "zone-b-0" not in plan.closed[LOST][0].message
    assert closed(fleet.decide(away(observation, zone_b=601_000, zone_c=601_000))) == []


def test_g6_an_old_volume_that_is_kept_is_better_than_a_copy() -> None:
    old = PersistentVolumeFacts("pv-ledgers-1", "pv-uid-ledgers-1", phase="Released", reclaim_policy="Retain")

    plan = fleet.decide(situation(old_volumes={old.name: old}))

    assert closed(plan) == ["G6-OldVolume"]
    assert "claimRef" in plan.closed[LOST][0].message


@pytest.mark.parametrize("change", [{"reclaim_policy": "Delete"}, {"uid": "pv-of-the-same-name"}])
def test_g6_a_volume_that_goes_away_or_is_another_one_holds_nobody(change: dict[str, Any]) -> None:
    old = replace(PersistentVolumeFacts("pv-ledgers-1", "pv-uid-ledgers-1", "Released", "Retain"), **change)

    assert closed(fleet.decide(situation(old_volumes={old.name: old}))) == []


def test_g6_opens_after_the_reattach_grace() -> None:
    old = PersistentVolumeFacts("pv-ledgers-1", "pv-uid-ledgers-1", "Released", "Retain")

    plan = fleet.decide(situation(old_volumes={old.name: old}, spec={"repair": {"reattachGrace": "5s"}}))

    assert closed(plan) == []


OUT_OF_SERVICE = NodeFacts("n-b", "node-uid", is_ready=False, is_out_of_service=True)


def on_a_machine(node: NodeFacts | None, *, policy: str = "Replace", nodes: bool = True, **old: Any) -> list[str]:
    """Return the closed gates of a bookie whose old ledger disk is kept, and was on machine `n-b`, which is `node`."""
    case = make.lost_case()
    where = {"node": "n-b", "node_uid": "node-uid", "hostname": "host-b"}
    volumes = tuple(
        replace(one, recorded=one.recorded.model_copy(update=where)) if one.recorded is not None else one
        for one in case.volumes
    )
    case = replace(case, volumes=volumes, nodes={"n-b": node} if nodes else {})
    kept = PersistentVolumeFacts("pv-ledgers-1", "pv-uid-ledgers-1", "Released", "Retain", hostnames=("host-b",))
    spec = {"repair": {"stabilization": "6s", "lostNode": {"policy": policy, "after": "30m"}}}
    return closed(fleet.decide(situation(case, old_volumes={kept.name: replace(kept, **old)}, spec=spec)))


@pytest.mark.parametrize("node", [None, OUT_OF_SERVICE], ids=["deleted", "out of service"])
def test_g6_a_machine_that_is_gone_and_was_waited_for_is_not_waited_for_again(node: NodeFacts | None) -> None:
    assert on_a_machine(node) == []


@pytest.mark.parametrize(
    "doubt",
    [
        {"node": NodeFacts("n-b", "node-uid")},
        {"node": NodeFacts("n-b", "node-uid", is_ready=False)},
        {"node": NodeFacts("n-b", "made-anew")},
        {"node": None, "nodes": False},
        {"node": None, "policy": "Wait"},
        {"node": None, "hostnames": ()},
        {"node": None, "hostnames": ("host-b", "host-c")},
    ],
    ids=["back", "silent", "made anew", "nobody may look", "policy Wait", "any host", "two hosts"],
)
def test_g6_waits_while_anything_may_reach_the_old_volume(doubt: dict[str, Any]) -> None:
    assert on_a_machine(**doubt) == ["G6-OldVolume"]


def test_g6_the_volume_that_a_person_named_for_replacement_is_not_asked_for() -> None:
    old = PersistentVolumeFacts("pv-ledgers-1", "pv-uid-ledgers-1", "Released", "Retain")
    case = make.lost_case()
    uids = {one.name: one.recorded.pvc_uid for one in case.volumes if one.recorded is not None}

    def asked(volume: str, *, of: str = "ledgers", bookie: str = case.name) -> list[str]:
        known = OperationStatus(claims=[uids[of]])
        target = {"bookie": bookie, "volume": volume}
        order = make.operation("disk", type="ReplaceVolume", target=target, status=known)
        return closed(fleet.decide(replace(situation(old_volumes={old.name: old}), operations=(order,))))

    assert asked("ledgers") == []
    assert asked("journal", of="journal") == ["G6-OldVolume"]
    assert asked("ledgers", of="journal") == ["G6-OldVolume"], "another claim had that name then"
    assert asked("ledgers", bookie="ledgers-zone-c-0") == ["G6-OldVolume"]


def test_g6_the_volume_that_a_person_confirmed_to_be_lost_is_not_asked_for() -> None:
    """Not in the word of one that never was in force, of another bookie's, or of another claim's."""
    old = PersistentVolumeFacts("pv-ledgers-1", "pv-uid-ledgers-1", "Released", "Retain")
    case = make.lost_case()
    uids = {one.name: one.recorded.pvc_uid for one in case.volumes if one.recorded is not None}

    def confirmed(phase: str, *, of: str = "ledgers", bookie: str = case.name) -> list[str]:
        known = OperationStatus(claims=[uids[of]], phase=phase)
        order = make.operation(
            "lost", type="ConfirmLoss", target={"bookie": bookie}, evidence="0" * 32, reason="R" * 20, status=known
        )
        return closed(fleet.decide(replace(situation(old_volumes={old.name: old}), operations=(order,))))

    assert confirmed("Complete") == []
    assert confirmed("Running") == []
    for phase in ("Queued", "Failed", "Expired"):
        assert confirmed(phase) == ["G6-OldVolume"]
    assert confirmed("Complete", of="journal") == ["G6-OldVolume"]
    assert confirmed("Complete", bookie="ledgers-zone-c-0") == ["G6-OldVolume"]


def test_g7_one_bookie_heals_at_a_time() -> None:
    healing = replace(
        make.sibling("zone-b", 0),
        report=make.report(
            bookie_id="data.ledgers.zone-b.0",
            pod_uid="pod-ledgers-zone-b-0",
            state=State.REPAIRING,
            verdict=make.Verdict.LOST,
        ),
    )

    plan = fleet.decide(situation(others={"zone_b": healing}, spec={"quorum": {"ackQuorum": 3}}))

    assert closed(plan) == ["G7-Concurrency"]


def history(count: int, *, ago_ms: int = 1_000, incarnation: int = 9) -> tuple[HistoryEntry, ...]:
    return tuple(
        HistoryEntry(
            grant_id=f"grant-{number}",
            bookie=f"bookie-{number}",
            incarnation=incarnation,
            profile="Full",
            granted_at=format_time(make.NOW_MS - ago_ms),
        )
        for number in range(count)
    )


def test_g8_the_brake_counts_one_day() -> None:
    assert closed(fleet.decide(situation(status={"history": history(3)}))) == ["G8-Brake"]
    assert closed(fleet.decide(situation(status={"history": history(3, ago_ms=25 * 3_600_000)}))) == []


def test_g8_another_grant_for_the_same_incarnation_is_the_same_regeneration() -> None:
    again = tuple(entry.model_copy(update={"bookie": LOST, "incarnation": 2}) for entry in history(3))

    once_a_day = {"repair": {"stabilization": "6s", "maxPerDay": 1}}

    assert closed(fleet.decide(situation(status={"history": again}, spec=once_a_day))) == []
    assert closed(fleet.decide(situation(status={"history": history(1)}, spec=once_a_day))) == ["G8-Brake"]


def test_g8_earlier_regenerations_of_the_same_bookie_count() -> None:
    earlier = tuple(
        entry.model_copy(update={"bookie": LOST, "incarnation": 7 + number}) for number, entry in enumerate(history(3))
    )

    assert closed(fleet.decide(situation(status={"history": earlier}))) == ["G8-Brake"]
    assert closed(fleet.decide(situation(status={"history": earlier[:2]}))) == []


def test_g8_an_operator_that_does_not_know_the_past_grants_nothing() -> None:
    plan = fleet.decide(situation(record_problem="the record is damaged"))

    assert "G8-Brake" in closed(plan)
    assert plan.sends == ()


def test_g9_manual_waits_for_an_approval_of_exactly_this_evidence() -> None:
    manual = {"repair": {"regeneration": "Manual"}}
    plan = fleet.decide(situation(spec=manual))
    digest = plan.fleet[0].evidence.digest
    observation = situation(spec=manual)

    def approved(words: str) -> Observation:
        cluster = replace(observation.cluster, annotations={"bookie.dev/approved-evidence": words})
        return replace(observation, cluster=cluster)

    assert closed(plan) == ["G9-Policy"]
    assert digest in plan.closed[LOST][0].message
    assert closed(fleet.decide(approved("evidence-of-yesterday"))) == ["G9-Policy"]
    assert closed(fleet.decide(approved(f"other, {digest}"))) == []


def test_g11_software_that_knows_no_limbo_gets_no_grant() -> None:
    assert closed(fleet.decide(situation(make.lost_case(capabilities=("regeneration",))))) == ["G11-Capability"]


def test_g12_an_id_that_is_registered_is_served_by_an_older_process() -> None:
    lost = replace(make.lost_case(), member=Member("data.ledgers.zone-a.0", has_cookie=True, is_registered=True))

    plan = fleet.decide(situation(lost))

    assert closed(plan) == ["G12-OldProcess"]
    assert plan.sends == ()


def test_every_gate_is_named_once_however_many_sentences_it_has() -> None:
    """The API server refuses a list with one name twice, and with it the whole status."""
    case = make.lost_case()
    old = {
        f"pv-{name}-1": PersistentVolumeFacts(f"pv-{name}-1", f"pv-uid-{name}-1", "Released", "Retain")
        for _, name in make.ROLES
    }

    plan = fleet.decide(situation(case, old_volumes=old))

    assert closed(plan) == ["G6-OldVolume"]
    assert all(name in plan.closed[LOST][0].message for _, name in make.ROLES)


def test_g11_a_pod_without_certificates_is_granted_nothing_in_clear() -> None:
    older = replace(make.lost_case(), pod=make.pod(LOST, uid="pod-2", is_ready=False, has_certificates=False))

    plan = fleet.decide(situation(older))

    assert (closed(plan), plan.sends) == (["G11-Capability"], ())
    assert "delete the pod" in plan.closed[LOST][0].message


def test_a_paused_cluster_grants_nothing_and_changes_only_its_disruption_budget() -> None:
    plan = fleet.decide(situation(spec={"lifecycle": {"paused": True, "terminationGrace": "2m"}}))

    assert closed(plan) == ["Paused"]
    assert [str(action) for action in plan.actions] == ["apply PodDisruptionBudget ledgers-bookies"]


def test_while_a_bookie_is_without_data_nobody_may_evict_another() -> None:
    assert fleet.decide(situation()).max_unavailable == 0
    assert fleet.decide(make.observation()).max_unavailable == 1


def test_of_two_candidates_the_longer_suspected_goes_first() -> None:
    second = lost_sibling()
    observation = situation(others={"zone_b": second}, spec={"quorum": {"ackQuorum": 3}})
    entries = tuple(
        confirmed(second).model_copy(
            update={"suspicion": confirmed(second).suspicion.model_copy(update={"since_ms": 0})}  # type: ignore[union-attr]
        )
        if entry.name == second.name
        else entry
        for entry in observation.cluster.status.bookies
    )
    status = observation.cluster.status.model_copy(update={"bookies": entries})

    plan = fleet.decide(make.observation(observation.bookies, status=status, spec_changes={"quorum": {"ackQuorum": 3}}))

    assert [send.bookie for send in plan.sends] == [second.name]
    assert closed(plan) == ["G7-Concurrency"]


def asked(first: BookieCase, previous: BookieStatus | None = None) -> list[str]:
    """The gates for a bookie that would not even be a candidate: they do not rely on being asked rightly."""
    candidate = stages.assess(first, previous, now_ms=make.NOW_MS, stabilization_ms=6_000)
    return [gate.name for gate in gates.closed(situation(), (candidate,), candidate)]


def test_gates_do_not_rely_on_being_asked_for_candidates_only() -> None:
    lost = make.lost_case()
    once = Suspicion(evidence=confirmed(lost).suspicion.evidence, observations=1, since_ms=make.NOW_MS)  # type: ignore[union-attr]

    assert asked(make.bookie_case()) == ["G3-Identity"]
    assert asked(lost, remembered(lost, suspicion=once)) == ["G3-Identity"]
    assert "G2-Metadata" in asked(replace(lost, report=None))
    assert "G2-Metadata" in asked(make.lost_case(metadata_reachable=False))


def test_a_gate_that_time_does_not_open_stalls_the_cluster() -> None:
    plan = fleet.decide(situation(spec={"repair": {"regeneration": "Manual"}}))

    stalled = render.render(plan).condition("Stalled")

    assert stalled is not None
    assert (stalled.status, stalled.reason) == ("True", "AwaitingApproval")
    assert "bookie.dev/approved-evidence" in stalled.message


# ---- a grant that is in the status already -----------------------------------------------------------------


def recorded(**changes: Any) -> dict[str, Any]:
    """A status whose lost bookie has the grant that a pass before has made, with `changes`."""
    before = situation()
    (send,) = fleet.decide(before).sends
    grant = send.grant.model_copy(update={"id": "recorded", **changes})
    first, *rest = before.cluster.status.bookies
    return {"bookies": (first.model_copy(update={"state": "Granted", "grant": grant}), *rest)}


def test_a_recorded_grant_is_sent_again_as_it_is() -> None:
    """spec/operator.md#K6: else the bookie would hear of two for one case."""
    (send,) = fleet.decide(situation(status=recorded())).sends

    assert send.grant.id == "recorded"


@pytest.mark.parametrize(
    ("changes", "gate"),
    [
        ({"spec": {"lifecycle": {"paused": True, "terminationGrace": "2m"}}}, "Paused"),
        ({"leadership": Leadership("me", 7, is_held=False)}, "G1-Leader"),
        ({"others": {"zone_b": lost_sibling()}}, "G4-Tolerance"),
        ({"record_problem": "the record is damaged"}, "G8-Brake"),
    ],
)
def test_a_gate_that_closes_after_the_grant_was_recorded_keeps_it_back(changes: dict[str, Any], gate: str) -> None:
    """The bookie may not have heard of it yet, and what the gate stands for came meanwhile."""
    plan = fleet.decide(situation(status=recorded(), **changes))

    assert plan.sends == ()
    assert gate in closed(plan)


def test_a_grant_of_an_operator_that_died_is_sent_under_the_new_epoch() -> None:
    (send,) = fleet.decide(situation(status=recorded(epoch=6, issued_by="another"))).sends

    assert (send.grant.id, send.grant.epoch, send.grant.issued_by) == ("recorded", 7, "operator-1")


def test_a_grant_whose_time_is_over_is_made_anew() -> None:
    """spec/operator.md#K9."""
    (send,) = fleet.decide(situation(status=recorded(expires_at=format_time(make.NOW_MS)))).sends

    assert send.grant.id != "recorded"
    assert send.ttl_ms > 0


def test_a_grant_that_a_clock_ahead_dated_lives_no_longer_than_a_new_one() -> None:
    """spec/operator.md#K9."""
    (send,) = fleet.decide(situation(status=recorded(expires_at=format_time(make.NOW_MS + 86_400_000)))).sends

    assert send.grant.id == "recorded"
    assert send.ttl_ms == repair.GRANT_TTL_MS


@pytest.mark.parametrize("changes", [{"pod_uid": "pod-0"}, {"evidence": "evidence-of-yesterday"}])
def test_a_grant_for_another_pod_or_other_evidence_is_void(changes: dict[str, str]) -> None:
    """spec/operator.md#K5."""
    (send,) = fleet.decide(situation(status=recorded(**changes))).sends

    assert send.grant.id != "recorded"


# ---- each word of a gate -----------------------------------------------------------------------------------------


def gates_of(seen: Observation, *, accepted: Approval | None = None, **changes: Any) -> list[str]:
    """The gates that are closed for the first bookie of `seen`, once it is judged, with `changes` of that judgement."""
    candidate, *others = fleet.assess(seen)
    candidate = replace(candidate, **changes)
    return [gate.name for gate in gates.closed(seen, (candidate, *others), candidate, accepted=accepted)]


def test_g1_a_bookie_that_heard_of_this_very_operator_may_be_granted() -> None:
    assert closed(fleet.decide(situation(make.lost_case(operator_epoch_seen=7)))) == []


def test_g1_the_last_epoch_that_there_is_closes_nothing() -> None:
    last = Leadership("me", OPERATOR_EPOCH_MAX)

    assert gates_of(situation(make.lost_case(operator_epoch_seen=OPERATOR_EPOCH_MAX), leadership=last)) == []
    assert gates_of(situation(make.lost_case(operator_epoch_seen=OPERATOR_EPOCH_MAX + 1), leadership=last)) == [
        "G1-Leader"
    ]


def test_g2_who_does_not_say_which_store_it_reads_reads_another() -> None:
    assert gates_of(situation(make.lost_case(instance_id=""))) == ["G2-Metadata"]


def test_g2_without_the_list_of_members_losses_may_be_unknown() -> None:
    assert gates_of(situation(members_problem="nobody answers")) == ["G2-Metadata"]


def test_g3_what_was_seen_of_other_evidence_or_twice_is_not_enough() -> None:
    seen = situation()
    (known,) = (one.suspicion for one in fleet.assess(seen)[:1])
    assert known is not None

    assert gates_of(seen, suspicion=known) == []
    assert gates_of(seen, suspicion=known.model_copy(update={"evidence": "of yesterday"})) == ["G3-Identity"]
    assert gates_of(seen, suspicion=known.model_copy(update={"observations": 2})) == ["G3-Identity"]
    assert gates_of(seen, suspicion=None) == ["G3-Identity"]


def test_g5_nobody_is_waited_for_while_the_ack_quorum_survives_all_that_are_missing() -> None:
    quorum = {"quorum": {"ackQuorum": 3}}

    assert closed(fleet.decide(situation(others={"zone_b": silent("zone-b")}, spec=quorum))) == []


def test_g5_opens_at_the_moment_that_it_names() -> None:
    observation = situation(others={"zone_b": silent("zone-b")})

    assert closed(fleet.decide(away(observation, zone_b=599_000))) == ["G5-Peers"]
    assert closed(fleet.decide(away(observation, zone_b=600_000))) == []


def test_g5_one_that_was_put_to_sleep_is_waited_for_as_if_it_had_just_gone() -> None:
    """The time since it was last seen counts from when the fleet wakes (spec/operator.md#Z3)."""
    seen = situation(others={"zone_b": silent("zone-b")})
    asleep = HibernationStatus(state=HibernationState.STOPPING, since=format_time(make.NOW_MS - 3_600_000))
    status = seen.cluster.status.model_copy(update={"hibernation": asleep})

    assert gates_of(replace(seen, cluster=replace(seen.cluster, status=status))) == ["G5-Peers"]


def old_volume(name: str = "ledgers") -> dict[str, PersistentVolumeFacts]:
    return {f"pv-{name}-1": PersistentVolumeFacts(f"pv-{name}-1", f"pv-uid-{name}-1", "Released", "Retain")}


def test_g6_the_volume_of_a_claim_that_was_not_replaced_is_no_old_one() -> None:
    lost = make.lost_case()
    still = make.volume_case("journal", "journal", report=lost.volumes[0].report)
    volumes = tuple(still if one.name == "journal" else one for one in lost.volumes)

    assert "G6-OldVolume" not in gates_of(situation(replace(lost, volumes=volumes), old_volumes=old_volume("journal")))


def test_g6_opens_at_the_end_of_the_grace_and_not_without_a_beginning() -> None:
    def after(grace: str, **changes: Any) -> list[str]:
        spec = {"repair": {"stabilization": "6s", "reattachGrace": grace}}
        return gates_of(situation(old_volumes=old_volume(), spec=spec), **changes)

    assert after("10s") == []
    assert after("11s") == ["G6-OldVolume"]
    assert "G6-OldVolume" in after("10s", suspicion=None)


def test_g6_a_claim_with_data_that_the_spec_does_not_name_any_more_closes() -> None:
    lost = make.lost_case()
    assert lost.volumes[0].claim is not None
    marked = replace(lost.volumes[0].claim, name="renamed-ledgers-zone-a-0", marks=make.marks("claim-renamed-1", "fs"))
    plain = replace(marked, marks=None)

    assert gates_of(situation(replace(lost, other_claims=(marked,)))) == ["G6-OldVolume"]
    assert gates_of(situation(replace(lost, other_claims=(plain,)))) == []


def test_g7_only_those_of_the_same_accepted_loss_heal_beside_each_other() -> None:
    ours = Approval(operation="lost", uid="uid-1", type="AcceptLoss")
    theirs = ours.model_copy(update={"uid": "uid-0"})
    sibling = make.sibling("zone-b", 0)
    assert sibling.report is not None
    healing = replace(sibling, report=replace(sibling.report, state=State.REPAIRING, verdict=make.Verdict.RESUME))
    (send,) = fleet.decide(situation()).sends

    def beside(approval: Approval | None, *, is_granted: bool = True) -> list[str]:
        seen = situation(others={"zone_b": healing})
        first, *others = fleet.assess(seen)
        grant = send.grant.model_copy(update={"approval": approval}) if is_granted else None
        others = [replace(one, grant=grant) if one.case.name == healing.name else one for one in others]
        return [gate.name for gate in gates.closed(seen, (first, *others), first, accepted=ours)]

    assert beside(ours) == []
    assert beside(theirs) == ["G7-Concurrency"]
    assert beside(None) == ["G7-Concurrency"]
    assert beside(None, is_granted=False) == ["G7-Concurrency"]


def test_g8_a_day_ends_after_24_hours() -> None:
    assert closed(fleet.decide(situation(status={"history": history(3, ago_ms=gates.DAY_MS)}))) == []


def test_g8_a_zone_counts_what_it_gave_up_as_well() -> None:
    gone = replace(make.sibling("zone-a", 7), is_desired=False)
    entry = history(1)[0].model_copy(update={"bookie": gone.name})
    seen = situation(status={"history": (entry,)}, spec={"repair": {"stabilization": "6s", "maxPerDayPerZone": 1}})

    assert gates_of(seen) == []
    assert gates_of(replace(seen, bookies=(*seen.bookies, gone))) == ["G8-Brake"]


def test_g9_where_bookies_decide_by_themselves_the_operator_grants_nothing_without_a_person() -> None:
    lifecycle = {"terminationGrace": "2m", "deletionProtection": False}
    local = {"repair": {"regeneration": "BookieLocal"}, "lifecycle": lifecycle}

    assert "G9-Policy" in gates_of(situation(spec=local))


def test_g9_a_longer_word_approves_nothing() -> None:
    seen = situation(spec={"repair": {"regeneration": "Manual"}})
    digest = fleet.assess(seen)[0].evidence.digest

    def approved(words: str) -> list[str]:
        return gates_of(
            replace(seen, cluster=replace(seen.cluster, annotations={"bookie.dev/approved-evidence": words}))
        )

    assert approved(digest) == []
    assert approved(f"{digest}0") == ["G9-Policy"]
    assert approved(digest[:-1]) == ["G9-Policy"]


def test_g11_software_that_cannot_keep_what_went_back_in_time_is_not_let_loose_on_it() -> None:
    seen = situation()
    evidence = replace(fleet.assess(seen)[0].evidence, profile=ROLLBACK)
    able = situation(make.lost_case(capabilities=(*gates.CAPABILITIES, gates.STALE_VOLUME)))

    assert gates_of(seen) == []
    assert "G11-Capability" in gates_of(seen, evidence=evidence)
    assert "G11-Capability" not in gates_of(able, evidence=evidence)


def test_g12_a_process_whose_end_nobody_saw_closes() -> None:
    seen = situation()
    live = "pod-2"

    assert gates_of(seen, processes=(Process(pod_uid=live),)) == []
    assert gates_of(seen, processes=(Process(pod_uid=live), Process(pod_uid="pod-1", node="node-a"))) == [
        "G12-OldProcess"
    ]
    assert gates_of(seen, processes=None) == ["G12-OldProcess"]
