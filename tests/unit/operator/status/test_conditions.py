"""Conditions say True and False of what was looked at only; what was not is Unknown, with the reason and how many."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import operator_judge_support as judge
import operator_support as make
from bookie.ports.admin import Member, State, Verdict
from bookie_operator.evidence.facts import LOOK_AGE_MS_MAX, BookieCase
from bookie_operator.model.status import BookieClusterStatus
from bookie_operator.plan import fleet
from bookie_operator.plan.observation import Observation
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
        ({"quarantined_count": 2}, "LedgersQuarantined"),
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
    found = render.forbidden(status(), 1, "GET /api/v1/pods: 403 forbidden", make.NOW_MS)

    assert statuses(found) == dict.fromkeys(conditions.TYPES, "Unknown") | {"Stalled": "True"}
    assert said(found, "Stalled")[1:] == ("PermissionMissing", "GET /api/v1/pods: 403 forbidden")
    assert (found.writable_replicas, found.summary, found.budget) == (None, "?/4", None)


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
        replace(case, report=replace(report, state=State.REPAIRING)),
        replace(case, report=replace(report, state=State.READ_ONLY)),
        replace(case, report=replace(report, state=State.HELD, verdict=make.Verdict.STALE, reason="old")),
        replace(case, report=replace(report, directories_failed=("/bookie/ledgers/a",))),
        replace(case, pod=replace(case.pod, is_terminating=True), report=None),
        replace(case, pod=replace(case.pod, revision="rev-0")),
    ]


STRANGERS = (
    (),
    (
        BookieCase(
            "java:3181", "java:3181", "", None, (), is_desired=False, is_ours=False, member=Member("j", True, False)
        ),
    ),
    (replace(make.sibling("zone-d", 0), is_desired=False),),
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


def test_a_silent_bookie_that_the_spec_does_not_ask_for_leaves_unknown_what_it_could_change() -> None:
    found = status((*make.fleet(), silent(replace(make.sibling("zone-d", 0), is_desired=False))), status=status())

    for kind in ("Stalled", "Degraded", "DataAtRisk", "RepairInProgress"):
        assert said(found, kind)[0] == "Unknown", kind
        assert "ledgers-zone-d-0" in said(found, kind)[2]
