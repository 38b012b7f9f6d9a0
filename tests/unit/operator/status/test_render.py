"""Status and conditions: what they say of a quiet, a healing, a held and a refused cluster; events of each change."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import RepairStatus, State
from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model.status import BookieClusterStatus, BookieStatus, GrantRecord, LastGood
from bookie_operator.model.values import format_time
from bookie_operator.plan import fleet
from bookie_operator.plan.children import Obstacle
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.resources import inputs
from bookie_operator.status import conditions, events, render


def decide(bookies: tuple[BookieCase, ...] | None = None, **changes: Any) -> FleetPlan:
    return fleet.decide(make.observation(bookies, **({"children": make.rolled_out()} | changes)))


def status(bookies: tuple[BookieCase, ...] | None = None, **changes: Any) -> BookieClusterStatus:
    return render.render(decide(bookies, **changes))


def condition(found: BookieClusterStatus, kind: str) -> tuple[str, str]:
    one = found.condition(kind)
    assert one is not None
    return one.status, one.reason


def heal(**repair: Any) -> BookieCase:
    report = make.report(state=State.REPAIRING, verdict=make.Verdict.LOST)
    return make.bookie_case(report=report, repair=RepairStatus(phase="two", **repair))


def test_a_bookie_that_is_well_says_which_of_its_certificates_ends_and_another_says_what_is_worse() -> None:
    sentence = "port data, own certificate /c (CN=bookie): it ends 2026-12-24 10:00 UTC: replace the file"
    well = make.bookie_case(report=make.report(certificates_due=(sentence,)))

    report = make.report(state=State.HELD, verdict=make.Verdict.STALE, reason="old disk", certificates_due=(sentence,))
    held = make.bookie_case(report=report)

    assert status(make.fleet(well)).bookies[0].message == sentence
    assert status(make.fleet(make.bookie_case(report=make.report()))).bookies[0].message == ""
    assert condition(status(make.fleet(well)), "Ready") == ("True", condition(status(), "Ready")[1])
    assert status(make.fleet(held)).bookies[0].message == "old disk"


def test_a_quiet_cluster_is_ready_and_nothing_else() -> None:
    found = status()

    assert condition(found, "Ready") == ("True", "Serving")
    true = [one.type for one in found.conditions if one.status == "True"]
    assert true == ["Ready", "Available", "StorageHealthy", "UpToDate"]
    assert (found.summary, found.writable_replicas, found.healing, found.blocked_by) == ("4/4", 4, None, None)
    assert found.selector == "bookie.dev/cluster=ledgers,app.kubernetes.io/component=bookie"


def test_rendering_what_was_rendered_changes_nothing() -> None:
    first = status()

    again = status(status=first, now_ms=make.NOW_MS + 60_000)

    assert again == first


def test_the_stored_form_reads_back_as_itself() -> None:
    found = status(make.fleet(make.lost_case()))

    assert BookieClusterStatus.model_validate(found.dump()) == found


def test_times_of_conditions_move_only_when_they_flip() -> None:
    quiet = status()
    later = make.NOW_MS + 60_000

    lost = status(make.fleet(make.lost_case()), status=quiet, now_ms=later)

    def since(kind: str) -> str:
        one = lost.condition(kind)
        assert one is not None
        return one.last_transition_time

    assert since("Ready") == format_time(make.NOW_MS)
    assert since("DataAtRisk") == format_time(later)


def test_a_healing_cluster_stays_ready_and_says_what_it_heals() -> None:
    found = status(make.fleet(heal(entries_copied=43, entries_pending=57, ledgers_limbo=2, bytes_per_second=12.7)))

    assert condition(found, "Ready") == ("True", "Serving")
    assert condition(found, "Reconciling") == ("False", "Done")
    assert condition(found, "DataAtRisk") == ("True", "AtTolerance")
    assert condition(found, "RepairInProgress") == ("True", "Repairing")
    assert condition(found, "Degraded") == ("True", "Repairing")
    assert (found.healing, found.limbo_bookies, found.phase) == ("ledgers-zone-a-0 43%", 1, "Healing")
    assert found.budget is not None
    assert (found.budget.dataless, found.budget.effective_max_unavailable) == (1, 0)


def test_percent_is_of_entries_when_known_else_of_ledgers_and_full_only_when_done() -> None:
    assert render.percent(RepairStatus(entries_copied=1, entries_pending=3)) == 25
    assert render.percent(RepairStatus(ledgers_done=1, ledgers_pending=1)) == 50
    assert render.percent(RepairStatus(entries_copied=9, entries_pending=0)) == 99
    assert render.percent(RepairStatus(entries_pending=0)) == 0
    assert render.percent(RepairStatus(done=True)) == 100


def test_a_held_bookie_needs_a_person_and_says_which_volume() -> None:
    held = make.bookie_case(report=make.report(state=State.HELD, verdict=make.Verdict.STALE, reason="old disk"))

    found = status(make.fleet(held))

    assert condition(found, "Ready") == ("False", "HumanNeeded")
    assert condition(found, "Stalled") == ("True", "BookieHeld")
    assert condition(found, "StorageHealthy") == ("False", "StaleVolume")
    assert (found.held_bookies, found.blocked_by) == (1, "BookieHeld")
    stalled = found.condition("Stalled")
    assert stalled is not None
    assert "ledgers-zone-a-0: StaleVolume: old disk" in stalled.message


def test_a_fleet_that_never_lived_is_bootstrapping() -> None:
    young = tuple(make.unborn(case) for case in make.fleet())

    found = status(young)

    assert condition(found, "Ready") == ("False", "Bootstrapping")
    assert condition(found, "Reconciling") == ("True", "Bootstrapping")


def test_one_new_bookie_is_scaling_up() -> None:
    quiet = status()
    new = make.unborn(make.bookie_case())
    known = quiet.model_copy(update={"bookies": quiet.bookies[1:]})

    found = status(make.fleet(new), status=known)

    assert condition(found, "Reconciling") == ("True", "ScalingUp")


def known_but_for_the_first(quiet: BookieClusterStatus) -> BookieClusterStatus:
    """The status of a fleet that was whole before its first bookie, which nobody knows yet, was asked for."""
    assert quiet.rollout is not None
    rolled = quiet.rollout.model_copy(update={"last_good": LastGood(inputs="v1-0", rest="", marks="{}", parts="")})
    return quiet.model_copy(update={"bookies": quiet.bookies[1:], "rollout": rolled})


def test_a_fleet_in_service_that_gets_another_bookie_stays_ready() -> None:
    """Seen on a real cluster: each Replace, and each scale up, took Ready away until the newcomer served."""
    known = known_but_for_the_first(status())

    found = status(make.fleet(make.unborn(make.bookie_case())), status=known)

    assert condition(found, "Ready") == ("True", "Serving")
    ready = found.condition("Ready")
    assert ready is not None
    assert ready.message.startswith("3 of 4 bookies take writes; ledgers-zone-a-0: ")
    assert condition(found, "Reconciling") == ("True", "ScalingUp")


def test_a_newcomer_that_is_missing_hides_no_outage() -> None:
    known = known_but_for_the_first(status())
    away = {
        "zone_b": replace(make.sibling("zone-b", 0), pod=None, report=None),
        "zone_c": replace(make.sibling("zone-c", 0), pod=None, report=None),
    }

    found = status(make.fleet(make.unborn(make.bookie_case()), **away), status=known)

    assert condition(found, "Ready") == ("False", "NotEnoughWritable")


def test_a_fleet_that_was_never_whole_is_bootstrapping_until_it_is() -> None:
    found = status(make.fleet(make.unborn(make.bookie_case())))

    assert condition(found, "Ready") == ("False", "Bootstrapping")


def test_too_few_writable_bookies_are_not_ready() -> None:
    quiet = status()
    silent = {
        "zone_b": replace(make.sibling("zone-b", 0), pod=None, report=None),
        "zone_c": replace(make.sibling("zone-c", 0), pod=None, report=None),
    }

    found = status(make.fleet(**silent), status=quiet)

    assert condition(found, "Ready") == ("False", "NotEnoughWritable")
    assert condition(found, "Available") == ("False", "NotEnoughWritable")
    assert condition(found, "Degraded") == ("True", "BookieDown")


def test_a_metadata_store_that_nobody_reaches_is_not_ready() -> None:
    def cut(case: BookieCase) -> BookieCase:
        assert case.report is not None
        return replace(case, report=replace(case.report, metadata_reachable=False))

    found = status(tuple(cut(case) for case in make.fleet()))

    assert condition(found, "Ready") == ("False", "MetadataUnavailable")
    ready = found.condition("Ready")
    assert ready is not None
    assert "the log of each bookie says why" in ready.message, "a wrong certificate is told nowhere else"
    assert found.metadata is not None
    assert not found.metadata.reachable


def test_an_older_revision_is_a_rollout_with_the_next_thing_to_do() -> None:
    children = make.rolled_out()
    children[("StatefulSet", "ledgers-zone-a")]["status"] = {"updateRevision": "rev-2"}

    found = status(children=children)

    assert condition(found, "Reconciling") == ("True", "RolloutInProgress")
    assert condition(found, "UpToDate") == ("False", "Updating")
    up_to_date = found.condition("UpToDate")
    assert up_to_date is not None
    assert "kubectl delete pod ledgers-zone-a-0" in up_to_date.message


@pytest.mark.parametrize("edited", [False, True])
def test_what_the_operator_alone_makes_otherwise_is_no_rollout_that_anybody_may_wait_for(edited: bool) -> None:
    """After its upgrade the operator said Reconciling until the last pod ended, months later, and pipelines waited."""
    zones = make.cluster().spec.zones or []
    noted = {zone.name: inputs.digest(make.cluster().spec, zone) for zone in zones}
    cases = [(one, one.pod) for one in make.fleet()]
    bookies = tuple(replace(one, pod=pod and replace(pod, inputs=noted[one.pool])) for one, pod in cases)
    spec = {"image": "bookie:other"} if edited else {}
    children = make.rolled_out(**spec)
    children[("StatefulSet", "ledgers-zone-a")]["status"] = {"updateRevision": "rev-2"}

    found = status(bookies, children=children, spec_changes=spec)

    assert condition(found, "Reconciling") == (("True", "RolloutInProgress") if edited else ("False", "Done"))
    assert condition(found, "UpToDate") == ("False", "Updating")


def test_an_obstacle_stalls() -> None:
    plan = replace(decide(), obstacles=(Obstacle("PermissionMissing", "could not apply Service"),))

    found = render.render(plan)

    assert condition(found, "Stalled") == ("True", "PermissionMissing")
    assert condition(found, "Ready") == ("False", "HumanNeeded")


def test_missing_permission_to_read_volumes_is_shown() -> None:
    assert condition(status(can_read_volumes=False), "LimitedVisibility") == ("True", "NoPVRead")


def test_the_first_write_speaks_of_the_new_generation_and_promises_nothing() -> None:
    found = render.first(BookieClusterStatus(), 3, make.NOW_MS)

    assert found.observed_generation == 3
    assert {one.type: one.status for one in found.conditions if one.type != "Reconciling"} == dict.fromkeys(
        (kind for kind in conditions.TYPES if kind != "Reconciling"), "Unknown"
    )
    assert condition(found, "Reconciling")[0] == "True"


def test_the_first_write_for_an_edit_leaves_ready_as_it_was() -> None:
    found = render.first(status(), 2, make.NOW_MS)

    assert condition(found, "Ready") == ("True", "Serving")
    assert condition(found, "Reconciling")[0] == "True"


def test_a_refused_spec_keeps_what_is_known_and_says_why() -> None:
    quiet = status()

    found = render.refused(quiet, 2, "spec.replicas: too many", make.NOW_MS)

    assert condition(found, "Stalled") == ("True", "SpecInvalid")
    assert (found.bookies, found.blocked_by) == (quiet.bookies, "SpecInvalid")
    assert render.refused(found, 2, "spec.replicas: too many", make.NOW_MS + 5_000) == found


def test_the_instance_is_pinned_once_and_only_when_all_agree() -> None:
    other = make.sibling("zone-b", 0)
    assert other.report is not None
    split = replace(other, report=replace(other.report, instance_id="other"))

    assert status().instance_id == "instance"
    assert status(make.fleet(zone_b=split)).instance_id is None
    assert status(status=BookieClusterStatus(instance_id="pinned")).instance_id == "pinned"


def reasons(before: BookieClusterStatus, after: BookieClusterStatus) -> list[str]:
    return [event.reason for event in events.between(before, after)]


def test_a_quiet_pass_tells_nothing() -> None:
    quiet = status()

    assert reasons(quiet, status(status=quiet)) == []


def edited(before: BookieClusterStatus, **changes: Any) -> BookieClusterStatus:
    first = before.bookies[0].model_copy(update=changes)
    return before.model_copy(update={"bookies": (first, *before.bookies[1:])})


def test_each_stage_has_its_word() -> None:
    quiet = status()
    grant = GrantRecord(
        id="g",
        bookie_id="b",
        pod_uid="p",
        evidence="e",
        report_evidence="r",
        cookie_version=0,
        new_incarnation=2,
        profile="Full",
        epoch=1,
        issued_at="2027-01-15T08:00:00Z",
        expires_at="2027-01-15T08:05:00Z",
        issued_by="me",
    )
    words: dict[str, dict[str, Any]] = {
        "RegenerationGranted": {"state": "Granted", "grant": grant},
        "FencingStarted": {"state": "Fencing"},
        "RepairStarted": {"state": "Repairing"},
    }

    for word, changes in words.items():
        assert reasons(quiet, edited(quiet, **changes)) == [word]
    assert reasons(quiet, edited(quiet, state="Missing")) == []


def test_a_new_incarnation_tells_what_lies_behind_it() -> None:
    quiet = status()

    assert reasons(quiet, edited(quiet, incarnation=2)) == ["FencingCompleted", "CookieRegenerated"]


def test_progress_is_told_every_tenth() -> None:
    def at(copied: int) -> BookieStatus:
        return status(make.fleet(heal(entries_copied=copied, entries_pending=100 - copied))).bookies[0]

    def step(first: int, second: int) -> list[str]:
        quiet = status()
        before = quiet.model_copy(update={"bookies": (at(first),)})
        return reasons(before, quiet.model_copy(update={"bookies": (at(second),)}))

    assert step(11, 19) == []
    assert step(19, 35) == ["RepairProgress"]
