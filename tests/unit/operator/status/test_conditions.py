"""Conditions say True and False of what was looked at only; what was not is Unknown, with the reason and how many."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import operator_judge_support as judge
import operator_support as make
from bookie.ports.admin import Member, MountProof, State, StorageReport, Verdict
from bookie_operator.evidence.facts import LOOK_AGE_MS_MAX, BookieCase
from bookie_operator.model.status import BookieClusterStatus, ClosedGate, Departure, FailedRollout, LeavingStatus
from bookie_operator.model.values import format_time
from bookie_operator.plan import fleet
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.plan.observation import DependentsLook, Observation
from bookie_operator.plan.stages import Assessed
from bookie_operator.status import conditions, render


def status(bookies: tuple[BookieCase, ...] | None = None, **changes: Any) -> BookieClusterStatus:
    return render.render(fleet.decide(look(bookies, **changes)))


def look(bookies: tuple[BookieCase, ...] | None = None, **changes: Any) -> Observation:
    return make.observation(bookies, **({"children": make.rolled_out()} | changes))


def said(found: BookieClusterStatus, kind: str) -> tuple[str, str, str]:
    one = found.condition(kind)
    assert one is not None
    return one.status, one.reason, one.message


def statuses(found: BookieClusterStatus) -> dict[str, str]:
    return {one.type: one.status for one in found.conditions}


def silent(case: BookieCase) -> BookieCase:
    return replace(case, report=None, report_problem="admin port 10.0.0.1:3182: UNAVAILABLE")


def test_of_a_fleet_without_pods_nothing_is_said_to_be_fine() -> None:
    found = status(tuple(make.unborn(case) for case in make.fleet()), members_problem="nobody answers", children={})

    assert [kind for kind, value in statuses(found).items() if value == "True"] == ["Reconciling"]
    for kind in ("Degraded", "DataAtRisk", "RepairInProgress", "StorageHealthy"):
        value, reason, message = said(found, kind)
        assert (value, reason) == ("Unknown", "NotSeen")
        assert "the operator saw none of 4 bookies" in message or "4 of 4 bookies" in message
    assert found.metadata is not None
    assert found.metadata.reachable is None
    assert (found.writable_replicas, found.limbo_bookies, found.held_bookies, found.unseen_bookies) == (None,) * 3 + (
        4,
    )


def test_an_operator_that_reaches_no_bookie_knows_nothing_of_them() -> None:
    found = status(tuple(silent(case) for case in make.fleet()), status=status(), members_problem="nobody answers")

    assert statuses(found) == {
        "Ready": "Unknown",
        "Reconciling": "False",
        "Stalled": "Unknown",
        "Available": "Unknown",
        "Degraded": "Unknown",
        "DataAtRisk": "Unknown",
        "RepairInProgress": "Unknown",
        "StorageHealthy": "Unknown",
        "UpToDate": "True",
        "VolumesExpanding": "False",
        "LimitedVisibility": "False",
        "MemoryBelowNeed": "False",
        "DeletionHeld": "Unknown",
        "Hibernated": "False",
    }
    assert "UNAVAILABLE" in said(found, "Ready")[2]
    assert (found.summary, found.phase) == ("0/4 (4 not seen)", "Unknown")


def test_one_silent_bookie_makes_unknown_what_it_could_change_and_nothing_else() -> None:
    found = status(make.fleet(silent(make.bookie_case())), status=status())

    assert said(found, "Ready")[0] == "True"
    assert said(found, "Available")[0] == "True"
    assert "ledgers-zone-a-0" in said(found, "Ready")[2]
    for kind in ("Stalled", "Degraded", "DataAtRisk", "RepairInProgress", "StorageHealthy"):
        assert said(found, kind)[0] == "Unknown", kind


def test_a_report_of_another_pod_or_of_long_ago_proves_nothing() -> None:
    old = make.bookie_case(report=make.report(inspection_age_ms=LOOK_AGE_MS_MAX + 60_000))
    other = make.bookie_case(report=make.report(pod_uid="the pod before"))

    assert said(status(make.fleet(old)), "StorageHealthy")[:2] == ("Unknown", "NotSeen")
    assert "16 minutes ago" in said(status(make.fleet(old)), "StorageHealthy")[2]
    assert said(status(make.fleet(other)), "StorageHealthy")[:2] == ("Unknown", "NotSeen")


def test_without_the_list_of_members_no_bookie_is_known_to_be_the_last() -> None:
    found = status(members_problem="the metadata store does not answer")

    for kind in ("Degraded", "DataAtRisk", "RepairInProgress"):
        assert said(found, kind)[0] == "Unknown"
        assert "does not answer" in said(found, kind)[2]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"directories_failed": ("/bookie/ledgers/a",)}, "DirectoryFailed"),
        ({"quarantined_count": 1}, "LedgersQuarantined"),
    ],
)
def test_what_a_serving_bookie_cannot_use_is_not_healthy(changes: dict[str, Any], reason: str) -> None:
    found = status(make.fleet(make.bookie_case(report=make.report(**changes))))

    assert said(found, "StorageHealthy")[:2] == ("False", reason)


def test_who_takes_no_writes_tells_why_in_the_status_of_its_fleet() -> None:
    full = "the disk of /bookie/journal was more than 95% full (diskUsageThreshold)"
    readers = tuple(
        replace(case, report=replace(case.report, state=State.READ_ONLY, read_only=True, reason=full))
        for case in make.fleet()
        if case.report is not None
    )

    found = status(readers)

    value, reason, message = said(found, "Ready")
    assert (value, reason) == ("False", "NotEnoughWritable")
    assert full in message
    assert all(full in entry.message for entry in found.bookies)


def test_paused_never_reads_rolled_out() -> None:
    paused = {"lifecycle": {"terminationGrace": "2m", "paused": True}}

    same = status(spec_changes=paused)
    edited = status(spec_changes=paused, image="bookie:other")

    assert said(same, "Reconciling")[:2] == ("Unknown", "Paused")
    assert said(edited, "Reconciling")[:2] == ("True", "Paused")
    assert said(edited, "UpToDate")[:2] == ("False", "Paused")
    assert "StatefulSet ledgers-zone-a" in said(edited, "UpToDate")[2]


def test_up_to_date_is_said_of_pods_that_exist_and_revisions_that_were_told() -> None:
    gone = make.fleet(make.bookie_case(pod=None, report=None))
    untold = {key: live | {"status": {}} for key, live in make.rolled_out().items()}
    unseen = {
        key: live
        | {"metadata": live["metadata"] | {"generation": 3}, "status": live["status"] | {"observedGeneration": 2}}
        for key, live in make.rolled_out().items()
        if key[0] == "StatefulSet"
    }

    assert said(status(gone), "UpToDate")[0] == "Unknown"
    assert said(status(children=untold), "UpToDate")[0] == "Unknown"
    assert said(status(children=make.rolled_out() | unseen), "UpToDate")[0] == "Unknown"
    assert said(status(), "UpToDate")[0] == "True"


def test_up_to_date_names_settings_that_change_nothing() -> None:
    idle = {"journalMaxGroupWaitMSec": "5", "journalMaxSizeMB": "512"}

    found = said(status(spec_changes={"config": idle}), "UpToDate")[2]

    assert "without meaning for these bookies: journalMaxGroupWaitMSec" in found
    assert "journalMaxSizeMB" not in found.split("without meaning")[1]
    assert "without meaning" not in said(status(), "UpToDate")[2]


def test_visibility_is_unknown_while_there_is_nothing_to_read() -> None:
    assert said(status(can_read_volumes=None), "LimitedVisibility")[0] == "Unknown"


def test_what_is_forbidden_to_read_makes_all_unknown_and_says_so() -> None:
    found = render.forbidden(status(), 1, "PermissionMissing", "GET /api/v1/pods: 403 forbidden", make.NOW_MS)

    assert statuses(found) == dict.fromkeys(conditions.TYPES, "Unknown") | {"Stalled": "True"}
    assert said(found, "Stalled")[1:] == ("PermissionMissing", "GET /api/v1/pods: 403 forbidden")
    assert (found.writable_replicas, found.summary, found.budget) == (None, "?/4", None)
    assert found.unseen_bookies == len(found.bookies)


def test_a_spec_that_cannot_be_used_leaves_nothing_said_to_be_fine() -> None:
    found = render.refused(status(), 2, "spec.replicas: too many", make.NOW_MS)

    assert [kind for kind, value in statuses(found).items() if value == "True"] == ["Stalled"]
    assert said(found, "StorageHealthy")[0] == "Unknown"


def test_what_kubernetes_says_stands_in_ready() -> None:
    young = make.unborn(make.bookie_case())
    quota = {"StatefulSet ledgers-zone-a": "pods is forbidden: exceeded quota: small"}
    crashing = replace(
        young, pod=make.pod(problem="CrashLoopBackOff: back-off (last exit code 3: no such host zookeeper)")
    )

    assert "exceeded quota: small" in said(status(make.fleet(young), said=quota), "Ready")[2]
    assert "no such host zookeeper" in said(status(make.fleet(crashing)), "Ready")[2]
    job = {"Job ledgers-metadata": "ImagePullBackOff: no such image"}
    waiting = status((), children={}, has_marked_claims=False, said=job)
    assert said(waiting, "Ready")[1] == "MetadataInitializing"
    assert "no such image" in said(waiting, "Ready")[2]


# ---- any fleet, any blindness ----------------------------------------------------------------------------------------


def variants(case: BookieCase) -> list[BookieCase]:
    assert case.report is not None
    assert case.pod is not None
    report = case.report
    return [
        case,
        make.unborn(case),
        replace(make.unborn(case), pod=replace(case.pod, phase="Pending", problem="Unschedulable: 0/3 nodes")),
        silent(case),
        replace(case, pod=None, report=None),
        replace(case, report=replace(report, pod_uid="another")),
        replace(case, report=replace(report, inspection_age_ms=LOOK_AGE_MS_MAX + 1)),
        replace(case, report=replace(report, metadata_reachable=False)),
        replace(case, report=replace(report, garbage_held_ledgers=-1)),
        replace(case, report=replace(report, state=State.REPAIRING)),
        replace(case, report=replace(report, state=State.READ_ONLY)),
        replace(case, report=replace(report, state=State.HELD, verdict=make.Verdict.STALE, reason="old")),
        replace(case, report=replace(report, directories_failed=("/bookie/ledgers/a",))),
        replace(case, pod=replace(case.pod, is_terminating=True), report=None),
        replace(case, pod=replace(case.pod, revision="rev-0")),
    ]


def late_report() -> StorageReport:
    """Of the bookie that the spec does not ask for, of long ago."""
    told = make.sibling("zone-d", 0).report
    assert told is not None
    return replace(told, inspection_age_ms=LOOK_AGE_MS_MAX + 1)


STRANGERS = (
    (),
    (
        BookieCase(
            "java:3181", "java:3181", "", None, (), is_desired=False, is_ours=False, member=Member("j", True, False)
        ),
    ),
    (replace(make.sibling("zone-d", 0), is_desired=False),),
    (replace(make.sibling("zone-d", 0), is_desired=False, report=late_report()),),
    (replace(make.sibling("zone-d", 0), is_desired=False, pod=None, report=None),),
)


@settings(deadline=None)
@given(data=st.data())
def test_no_condition_says_more_than_was_seen(data: st.DataObject) -> None:
    cases = tuple(data.draw(st.sampled_from(variants(case))) for case in make.fleet())
    seen = look(
        (*cases, *data.draw(st.sampled_from(STRANGERS))),
        status=data.draw(st.sampled_from([None, status()])),
        members_problem=data.draw(st.sampled_from(["", "nobody answers"])),
        can_read_volumes=data.draw(st.sampled_from([True, False, None])),
        children=data.draw(st.sampled_from([{}, make.rolled_out()])),
        spec_changes={"lifecycle": {"terminationGrace": "2m", "paused": data.draw(st.booleans())}},
    )

    found = render.render(fleet.decide(seen))

    assert judge.contradictions(seen, found) == []


def test_a_fleet_that_lost_everything_is_told_how_to_begin_anew() -> None:
    gone = tuple(replace(make.unborn(case), member=Member(case.bookie_id, True, False)) for case in make.fleet())

    value, reason, message = said(status(gone), "Stalled")

    assert (value, reason) == ("True", "AckQuorumBreached")
    assert "ConfigMap ledgers-record" in message


def repairing(case: BookieCase) -> BookieCase:
    """`case` after a loss that was given up: its new life has begun."""
    assert case.report is not None
    told = replace(case.report, state=State.REPAIRING, verdict=Verdict.RESUME, grant_id="grant-1")
    return replace(case, report=told)


def test_who_lives_anew_after_accepted_losses_is_asked_for_no_old_volume() -> None:
    """Seen on a real cluster: the advice stood on although no old volume could be taken back any more."""
    anew = {f"zone_{zone}": repairing(make.sibling(f"zone-{zone}", 0)) for zone in "bc"}

    value, reason, message = said(status(make.fleet(**anew)), "Stalled")

    assert (value, reason) == ("True", "AckQuorumBreached")
    assert "bring old volumes back" not in message
    assert "bookie ledger accept-loss" in message
    assert "AcceptLedgerLoss" in message
    assert message.index("Bring back") < message.index("AcceptLedgerLoss"), "what is given up comes last"
    assert "docs/RECOVERY.md" in message
    assert "delete" not in message, "it may be blocked for the moment alone"


@pytest.mark.parametrize("case", [make.lost_case(), repairing(make.bookie_case())], ids=["waits", "heals"])
def test_while_a_bookie_lacks_what_it_had_no_condition_calls_the_data_well(case: BookieCase) -> None:
    found = status(make.fleet(case))

    assert said(found, "Degraded")[:2] == ("True", "Repairing")
    assert said(found, "DataAtRisk")[:2] == ("True", "AtTolerance")
    assert said(found, "StorageHealthy")[:2] == ("False", "LostVolume")


def test_while_one_of_them_has_not_begun_anew_old_volumes_are_asked_for() -> None:
    message = said(status(make.fleet(make.lost_case(), zone_b=repairing(make.sibling("zone-b", 0)))), "Stalled")[2]

    assert "bring old volumes back" in message


def test_a_memory_limit_below_what_a_bookie_may_need_is_said_with_both_figures_and_what_to_try() -> None:
    small = {"requests": {"memory": "256Mi"}, "limits": {"memory": "512Mi"}}

    value, reason, message = said(status(spec_changes={"resources": small}), "MemoryBelowNeed")

    assert (value, reason) == ("True", "LimitBelowNeed")
    assert "512.0 MiB" in message
    assert "1.6 GiB" in message
    assert "raise the limit to 1" in message
    assert said(status(), "MemoryBelowNeed")[:2] == ("False", "LimitCoversNeed")


def holding(count: int) -> BookieCase:
    return make.bookie_case(report=make.report(garbage_held_ledgers=count))


def test_what_the_brake_on_mass_deletion_holds_is_said_with_what_to_do() -> None:
    found = status(make.fleet(holding(120)))

    value, reason, message = said(found, "DeletionHeld")
    assert (value, reason) == ("True", "MassDeletionHeld")
    assert "ledgers-zone-a-0 keeps 120 ledgers" in message
    assert "bookie node release-garbage" in message
    assert [one.garbage_held_ledgers for one in found.bookies] == [120, 0, 0, 0]


def test_that_nothing_is_held_is_said_only_when_every_bookie_has_looked() -> None:
    new = status(make.fleet(holding(-1)))
    away = status(make.fleet(silent(make.bookie_case())))

    assert said(status(), "DeletionHeld")[:2] == ("False", "NothingHeld")
    assert said(new, "DeletionHeld")[0] == said(away, "DeletionHeld")[0] == "Unknown"
    assert "ledgers-zone-a-0 did not look" in said(new, "DeletionHeld")[2]
    assert new.bookies[0].garbage_held_ledgers is None


@pytest.mark.parametrize(
    "case",
    [
        replace(make.bookie_case(), pod=None, report=None),
        replace(make.bookie_case(), pod=make.pod(is_terminating=True)),
    ],
    ids=["down", "stopping"],
)
def test_what_a_bookie_keeps_that_is_away_nobody_knows(case: BookieCase) -> None:
    found = said(status(make.fleet(replace(case, report=None))), "DeletionHeld")

    assert found[:2] == ("Unknown", "NotSeen")
    assert "ledgers-zone-a-0 did not look" in found[2]


def test_what_a_bookie_keeps_counts_whether_or_not_the_spec_asks_for_it() -> None:
    case = replace(make.sibling("zone-d", 0), is_desired=False)
    assert case.report is not None
    keeps, new = (replace(case, report=replace(case.report, garbage_held_ledgers=count)) for count in (5, -1))

    assert said(status((*make.fleet(), keeps)), "DeletionHeld")[:2] == ("True", "MassDeletionHeld")
    assert said(status((*make.fleet(), new)), "DeletionHeld")[:2] == ("Unknown", "NotSeen")
    assert said(status((*make.fleet(), case)), "DeletionHeld")[:2] == ("False", "NothingHeld")


# ---- what a person has to do -----------------------------------------------------------------------------------------


def judged(plan: FleetPlan, kind: str) -> tuple[str, str]:
    return next((one.status, one.reason) for one in conditions.of(plan) if one.type == kind)


def quiet() -> FleetPlan:
    return fleet.decide(look(status=status()))


def closed_by(gate: str) -> FleetPlan:
    return replace(quiet(), closed={"ledgers-zone-a-0": (ClosedGate(name="G5-Peers", message=""), gate_of(gate))})


def gate_of(name: str) -> ClosedGate:
    return ClosedGate(name=name, message="a person decides")


@pytest.mark.parametrize(
    ("make_plan", "reason"),
    [
        (lambda: replace(quiet(), rollout=replace(quiet().rollout, halted="no such image")), "RolloutHalted"),
        (lambda: replace(quiet(), leaving=replace(quiet().leaving, blocked=("claims are there",))), "RetiredClaims"),
        (lambda: replace(quiet(), expansion=replace(quiet().expansion, infeasible="too big")), "ExpansionInfeasible"),
        (lambda: closed_by("G2-Metadata"), "WrongMetadataStore"),
        (lambda: closed_by("G8-Brake"), "BrakeTripped"),
        (lambda: closed_by("G9-Policy"), "AwaitingApproval"),
        (lambda: closed_by("G11-Capability"), "BookieHeld"),
    ],
    ids=["halted", "blocked", "infeasible", "G2", "G8", "G9", "G11"],
)
def test_what_waits_for_a_person_stalls_the_fleet_and_is_not_ready(make_plan: Any, reason: str) -> None:
    plan = make_plan()

    assert judged(plan, "Stalled") == ("True", reason)
    assert judged(plan, "Ready") == ("False", "HumanNeeded")


def test_a_gate_that_time_opens_stalls_nothing() -> None:
    plan = closed_by("G7-Concurrency")

    assert judged(plan, "Stalled") == ("False", "Progressing")
    assert judged(plan, "Ready")[0] == "True"


def test_a_fleet_that_went_back_to_what_worked_is_ready_though_its_spec_waits_for_a_person() -> None:
    failed = FailedRollout(inputs="new", message="no such image", at=format_time(make.NOW_MS))
    plan = quiet()
    plan = replace(
        plan, rollout=replace(plan.rollout, status=plan.rollout.status.model_copy(update={"failed": failed}))
    )

    assert judged(plan, "Stalled") == ("True", "RolledBack")
    assert judged(plan, "Ready") == ("True", "Serving")


def extra(**changes: Any) -> BookieCase:
    """A bookie that the spec does not ask for, and that no pod of ours runs."""
    case = replace(make.sibling("zone-d", 0), is_desired=False, pod=None, report=None)
    return replace(case, **({"member": Member(case.bookie_id, True, False)} | changes))


@pytest.mark.parametrize(
    ("changes", "is_stalled"),
    [
        ({}, True),
        ({"is_ours": False}, False),  # another fleet's: nothing that this spec could name again
        ({"member": Member("data.ledgers.zone-d.0", True, True)}, False),  # somebody else runs it
    ],
    ids=["ours", "a stranger", "elsewhere"],
)
def test_a_bookie_of_ours_that_nobody_runs_or_asks_for_stalls(changes: dict[str, Any], is_stalled: bool) -> None:
    found = said(status((*make.fleet(), extra(**changes))), "Stalled")

    assert (found[1] == "OrphanedBookies") is is_stalled


def test_a_bookie_that_serves_though_the_spec_does_not_ask_for_it_stalls_nothing() -> None:
    serving = replace(make.sibling("zone-d", 0), is_desired=False)

    assert said(status((*make.fleet(), serving)), "Stalled")[:2] == ("False", "Progressing")


def test_only_a_fleet_that_lost_every_bookie_is_told_to_begin_anew() -> None:
    """Who followed that advice for two of four would delete what the others have."""
    message = said(status(make.fleet(make.lost_case(), zone_b=lost("zone-b"))), "Stalled")[2]

    assert "bring old volumes back" in message
    assert "delete" not in message


def lost(pool: str, ordinal: int = 0) -> BookieCase:
    """`sibling` after its claims were replaced: it waits for a grant."""
    case, gone = make.sibling(pool, ordinal), make.lost_case()
    assert gone.report is not None
    assert case.pod is not None
    report = replace(gone.report, bookie_id=case.bookie_id, pod_uid=case.pod.uid)
    return replace(case, volumes=gone.volumes, report=report, pod=replace(case.pod, is_ready=False))


def test_without_nodes_to_read_the_operator_says_so() -> None:
    assert said(status(can_read_nodes=False), "LimitedVisibility")[:2] == ("True", "NoNodeRead")
    assert said(status(can_read_nodes=True), "LimitedVisibility")[0] == "False"


# ---- who counts ------------------------------------------------------------------------------------------------------


def limbo(case: BookieCase) -> BookieCase:
    """`case` after an unclean stop: it serves, and reads again what that put in doubt."""
    assert case.report is not None
    return replace(case, report=replace(case.report, state=State.REPAIRING, verdict=Verdict.UNCLEAN))


def test_a_bookie_in_limbo_may_lack_copies_and_is_being_repaired() -> None:
    found = status(make.fleet(limbo(make.bookie_case())))

    assert found.bookies[0].state == "Limbo"
    assert said(found, "Degraded")[:2] == ("True", "Repairing")
    assert said(found, "RepairInProgress")[:2] == ("True", "Repairing")


def test_a_silent_bookie_that_the_spec_does_not_ask_for_leaves_unknown_what_it_could_change() -> None:
    found = status((*make.fleet(), silent(replace(make.sibling("zone-d", 0), is_desired=False))), status=status())

    for kind in ("Stalled", "Degraded", "DataAtRisk", "RepairInProgress"):
        assert said(found, kind)[0] == "Unknown", kind
        assert "ledgers-zone-d-0" in said(found, kind)[2]


@pytest.mark.parametrize("case", [lost("zone-d"), make.sibling("zone-d", 0)], ids=["lost", "away"])
def test_the_risk_counts_bookies_that_the_spec_does_not_ask_for(case: BookieCase) -> None:
    if case.report is not None and case.report.state is State.SERVING:
        case = replace(case, pod=None, report=None)
    found = status((*make.fleet(), replace(case, is_desired=False)))

    assert said(found, "DataAtRisk")[:2] == ("True", "AtTolerance")
    assert said(found, "Degraded")[0] == "True"


def test_a_report_of_another_pod_says_nothing_of_the_metadata_store() -> None:
    cut_off = replace(make.bookie_case(), report=make.report(pod_uid="before", metadata_reachable=True))
    others = {
        key: replace(case, report=replace(case.report, metadata_reachable=False))
        for key, case in zip(("zone_a_1", "zone_b", "zone_c"), make.fleet()[1:], strict=True)
        if case.report is not None
    }

    assert said(status(make.fleet(cut_off, **others)), "Ready")[:2] == ("False", "MetadataUnavailable")


def test_one_bookie_that_reaches_the_metadata_store_proves_that_it_can_be_reached() -> None:
    cut_off = make.bookie_case(report=make.report(metadata_reachable=False))

    assert said(status(make.fleet(cut_off)), "Ready")[:2] == ("True", "Serving")


def near_its_end(*, is_proven: bool, state: Departure = Departure.RETIRING) -> FleetPlan:
    """The last bookie is away, and about to be forgotten."""
    away = replace(make.sibling("zone-c", 0), pod=None, report=None)
    plan = fleet.decide(look(make.fleet(zone_c=away), status=status()))
    looks = [{"by": by, "at": format_time(make.NOW_MS), "references": 0} for by in ("a", "b")] if is_proven else []
    leaving = LeavingStatus.model_validate({"state": state, "since": format_time(make.NOW_MS), "looks": looks})
    return replace(plan, fleet=(*plan.fleet[:3], replace(plan.fleet[3], leaving=leaving)))


def test_a_bookie_whose_pod_was_taken_is_not_missed_only_when_that_was_proven() -> None:
    assert judged(near_its_end(is_proven=True), "Degraded") != ("True", "BookieDown")
    assert judged(near_its_end(is_proven=False), "Degraded") == ("True", "BookieDown")
    assert judged(near_its_end(is_proven=True, state=Departure.DRAINING), "Degraded") == ("True", "BookieDown")


def test_a_bookie_that_left_by_proof_is_asked_for_no_proof_of_its_volumes() -> None:
    case = replace(make.sibling("zone-d", 0), is_desired=False, pod=None, report=None, is_listed=True)
    claims = tuple(replace(one.claim, retired_at="2026-01-01T00:00:00Z") for one in case.volumes if one.claim)
    volumes = tuple(replace(one, claim=claim) for one, claim in zip(case.volumes, claims, strict=True))

    found = status((*make.fleet(), replace(case, volumes=volumes)))

    assert said(found, "StorageHealthy") == ("True", "Proven", "4 bookies looked at their volumes within 15 minutes")


def test_an_ensemble_may_count_on_a_bookie_that_the_spec_does_not_ask_for() -> None:
    gone = {key: make.unborn(case) for key, case in zip(("zone_b", "zone_c"), make.fleet()[2:], strict=True)}
    serving = replace(make.sibling("zone-d", 0), is_desired=False)

    assert said(status(make.fleet(**gone)), "Available")[:2] == ("False", "NotEnoughWritable")
    assert said(status((*make.fleet(**gone), serving)), "Available")[:2] == ("True", "EnsembleWritable")


def test_a_held_bookie_stalls_the_fleet_whether_or_not_the_spec_asks_for_it() -> None:
    case = make.sibling("zone-d", 0)
    assert case.report is not None
    held = replace(case, report=replace(case.report, state=State.HELD, verdict=Verdict.STALE), is_desired=False)

    assert said(status((*make.fleet(), held)), "Stalled")[:2] == ("True", "BookieHeld")


def test_what_was_not_seen_is_told_by_its_number_and_not_as_a_whole_fleet() -> None:
    assert "did not see 1 of 4 bookies" in said(status(make.fleet(silent(make.bookie_case()))), "Degraded")[2]


def test_a_bookie_that_sleeps_because_its_fleet_does_is_not_missed() -> None:
    plan = fleet.decide(look(make.fleet(zone_c=replace(make.sibling("zone-c", 0), pod=None, report=None))))
    asleep = replace(plan, hibernation=replace(plan.hibernation, off=frozenset({"ledgers-zone-c-0"})))

    assert judged(plan, "Degraded") == ("True", "BookieDown")
    assert judged(asleep, "Degraded")[1] != "BookieDown"


def test_where_no_ledger_depends_on_the_bookies_that_lost_their_data_nothing_is_breached() -> None:
    """Two of one node, which no ack quorum is on alone (spec/operator.md#N8)."""
    pair = ("ledgers-big-0", "ledgers-big-1")
    pools = [{"name": "big", "replicas": 6, "perNode": 2}]
    journaled = make.spec()["storage"] | {"journalWriteData": True}
    cases = tuple(lost("big", number) if number < 2 else make.sibling("big", number) for number in range(6))
    seen = look(cases, spec_changes={"replicas": None, "zones": None, "pools": pools, "storage": journaled})
    marks = tuple(
        (one.case.name, f"{one.case.pod.uid}/1/{make.NOW_MS}") for one in fleet.assess(seen)[:2] if one.case.pod
    )
    clean = DependentsLook(pair, marks, make.NOW_MS, make.NOW_MS, 0, "")

    proven, unproven = fleet.decide(replace(seen, dependents=(clean,))), fleet.decide(seen)

    assert judged(unproven, "Stalled") == judged(unproven, "DataAtRisk") == ("True", "AckQuorumBreached")
    assert judged(proven, "Stalled")[1] != "AckQuorumBreached"
    assert judged(proven, "DataAtRisk") == ("True", "AtTolerance")


def test_a_whole_fleet_whose_ack_quorum_survives_no_loss_is_not_at_risk() -> None:
    found = status(spec_changes={"quorum": {"ensembleSize": 3, "writeQuorum": 2, "ackQuorum": 1}})

    assert said(found, "DataAtRisk")[:2] == ("False", "WithinTolerance")


def test_a_repair_goes_on_from_its_marks_to_its_stamps() -> None:
    found = status(make.fleet(make.bookie_case(report=make.report(state=State.STAMPING))))

    assert said(found, "RepairInProgress")[:2] == ("True", "Fencing")


def test_of_a_bookie_that_stops_without_an_answer_nobody_knows_whether_it_repaired() -> None:
    stopping = replace(make.bookie_case(), pod=make.pod(is_terminating=True), report=None)

    assert said(status(make.fleet(stopping)), "RepairInProgress")[0] == "Unknown"


@pytest.mark.parametrize("changes", [{"directories_failed": ("/bookie/ledgers/a",)}, {"garbage_held_ledgers": 120}])
def test_what_another_pod_said_is_no_finding_of_this_one(changes: dict[str, Any]) -> None:
    found = status(make.fleet(make.bookie_case(report=make.report(pod_uid="the pod before", **changes))))

    assert said(found, "StorageHealthy")[0] == said(found, "DeletionHeld")[0] == "Unknown"


def test_volumes_of_another_fleet_are_not_ours_to_prove_and_those_of_our_own_are() -> None:
    elsewhere = extra(is_ours=False, member=Member("other", True, True))

    assert said(status((*make.fleet(), elsewhere)), "StorageHealthy")[:2] == ("True", "Proven")
    assert said(status((*make.fleet(), extra())), "StorageHealthy")[:2] == ("Unknown", "NotSeen")


def test_nobody_is_told_to_delete_a_pod_whose_volumes_go_with_it() -> None:
    plan = fleet.decide(look(make.fleet(make.bookie_case(report=make.report(directories_failed=("/ledgers",))))))
    first = plan.fleet[0]
    volumes = tuple(replace(one, is_ephemeral=True) for one in first.case.volumes)
    ephemeral = replace(first, case=replace(first.case, volumes=volumes))

    def told(one: Assessed) -> str:
        truths = conditions.of(replace(plan, fleet=(one, *plan.fleet[1:])))
        return next(each.message for each in truths if each.type == "StorageHealthy")

    assert "kubectl delete" in told(first)
    assert "BookieOperation Replace:" in told(ephemeral)
    assert "kubectl delete" not in told(ephemeral)


def test_a_volume_that_is_not_mounted_is_not_healthy() -> None:
    case = make.bookie_case()
    first = case.volumes[0]
    assert first.report is not None
    missing = replace(first, report=make.changed(first.report, proof=MountProof.MISSING))

    found = status(make.fleet(replace(case, volumes=(missing, *case.volumes[1:]))))

    assert said(found, "StorageHealthy")[:2] == ("False", "MountMissing")


def test_the_volumes_of_every_bookie_of_ours_are_to_be_proven_lately() -> None:
    """Of one that the spec does not ask for, and of one that leaves, as of the others."""
    case = make.sibling("zone-d", 0)
    assert case.report is not None
    late = replace(case, report=replace(case.report, inspection_age_ms=LOOK_AGE_MS_MAX + 60_000))

    for one in (replace(late, is_desired=False), replace(late, is_leaving=True)):
        value, reason, message = said(status((*make.fleet(), one)), "StorageHealthy")
        assert (value, reason) == ("Unknown", "NotSeen")
        assert "1 of 5" in message
        assert "16 minutes ago" in message
    just = replace(case, report=replace(case.report, inspection_age_ms=LOOK_AGE_MS_MAX), is_desired=False)
    assert said(status((*make.fleet(), just)), "StorageHealthy")[:2] == ("True", "Proven")


def test_who_looked_is_counted_without_another_fleet() -> None:
    elsewhere = extra(is_ours=False, member=Member("other", True, True))

    assert "4 bookies looked" in said(status((*make.fleet(), elsewhere)), "StorageHealthy")[2]


def test_a_bookie_that_leaves_is_no_more_of_the_fleet_that_is_wanted() -> None:
    found = status(make.fleet(zone_c=replace(make.sibling("zone-c", 0), is_leaving=True)))

    assert "of 3 bookies take writes" in said(found, "Ready")[2]


def test_a_fleet_of_which_only_former_pods_answered_was_not_seen() -> None:
    cases = tuple(
        replace(case, report=replace(case.report, pod_uid="the pod before"))
        for case in make.fleet()
        if case.report is not None
    )

    assert "saw none of 4 bookies" in said(status(cases), "Degraded")[2]
