"""Every loss and every held state is a Warning: what was lost, what happens next; told again with bounds."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import State
from bookie_operator.model import values
from bookie_operator.model.status import BookieClusterStatus, ClosedGate
from bookie_operator.plan import fleet
from bookie_operator.plan.children import Obstacle
from bookie_operator.status import render, warnings
from bookie_operator.status.events import ClusterEvent


def status(first: Any = None, **changes: Any) -> BookieClusterStatus:
    seen = make.observation(make.fleet(first), **({"children": make.rolled_out()} | changes))
    return render.render(fleet.decide(seen))


def told(found: BookieClusterStatus, after_ms: int = 0) -> list[ClusterEvent]:
    return list(warnings.standing(found, make.NOW_MS + after_ms))


def test_a_fleet_in_order_has_nothing_to_warn_of() -> None:
    assert told(status()) == []


def test_a_loss_warns_with_what_was_lost_and_what_comes_next() -> None:
    found = told(status(make.lost_case(), status=status()))

    assert [event.reason for event in found] == ["VolumeIdentityChanged"] * 3 + ["EmptyVolumeSuspected"]
    assert all(event.is_warning for event in found)
    assert "the bookie lost journal journal, ledgers ledgers, index index of incarnation 1" in found[-1].message
    assert "Next: the operator looks until it has seen this three times" in found[-1].message


def changed(**changes: Any) -> BookieClusterStatus:
    quiet = status()
    first = quiet.bookies[0].model_copy(update=changes)
    return quiet.model_copy(update={"bookies": (first, *quiet.bookies[1:])})


GATE = ClosedGate(name="G5-Peers", message="ledgers-zone-b-0 not serving")


@pytest.mark.parametrize(
    ("changes", "reason", "words"),
    [
        (
            {"state": "Confirmed", "gates": (GATE,)},
            "EmptyVolumeConfirmed",
            "the grant waits for G5-Peers: ledgers-zone-b-0",
        ),
        ({"state": "Confirmed"}, "EmptyVolumeConfirmed", "the operator grants a new life"),
        ({"state": "Held", "reason": "WipedInPlace"}, "BookieHeld", "until a person decides"),
        ({"state": "Held", "reason": "MountMissing"}, "MountNotProven", "MountMissing"),
        ({"state": "Held", "reason": "ForeignVolume"}, "ForeignVolume", "ForeignVolume"),
        ({"state": "Held", "reason": "StaleVolume"}, "StaleVolumeDetected", "StaleVolume"),
        ({"state": "Limbo"}, "UncleanShutdown", "its data is there"),
        ({"state": "Missing", "counted": "WithoutData"}, "VolumesLost", "as soon as its pod runs"),
        ({"state": "Missing", "away_since": "2027-01-15T07:00:00Z"}, "BookieDown", "presumed intact"),
        ({"state": "Unreachable", "away_since": "2027-01-15T07:00:00Z"}, "BookieDown", "presumed intact"),
    ],
)
def test_each_held_or_lost_state_warns(changes: dict[str, Any], reason: str, words: str) -> None:
    (event,) = told(changed(**changes))

    assert (event.reason, event.is_warning) == (reason, True)
    assert words in event.message


def test_a_pod_that_restarts_is_no_news() -> None:
    assert told(changed(state="Missing", away_since="2027-01-15T07:59:30Z")) == []


def test_an_orphan_that_is_not_there_warns_by_its_own_word() -> None:
    quiet = status()
    orphan = quiet.bookies[0].model_copy(
        update={"name": "java:3181", "state": "Missing", "seen_in": ("Cookie",), "away_since": "2027-01-15T07:00:00Z"}
    )

    (event,) = told(quiet.model_copy(update={"orphans": (orphan,)}))

    assert event.reason == "OrphanedBookie"


def test_what_lasts_is_told_again_before_kubernetes_forgets_it_and_not_in_between() -> None:
    held = changed(state="Held", reason="WipedInPlace")

    keys = [told(held, after_ms=minutes * 60_000)[0].key for minutes in (0, 1, 49, 50, 99, 100)]

    assert keys[0] == keys[1] == keys[2] != keys[3] == keys[4] != keys[5]


def test_of_many_that_last_only_a_few_repeat_themselves() -> None:
    quiet = status()
    many = [quiet.bookies[0].model_copy(update={"name": f"b{number}", "state": "Held"}) for number in range(50)]
    found = quiet.model_copy(update={"bookies": tuple(many)})

    assert len(told(found)) == 50
    assert len(told(found, after_ms=warnings.REPEAT_MS)) == warnings.REPEATED_MAX


def test_whatever_stalls_the_cluster_warns() -> None:
    plan = fleet.decide(make.observation(children=make.rolled_out()))
    for reason in ("RecordUnreadable", "PermissionMissing", "MetadataInitFailed", "NameConflict"):
        found = render.render(replace(plan, obstacles=(Obstacle(reason, "a sentence"),)))

        assert [(event.reason, event.message) for event in told(found)] == [(reason, "a sentence")]


def test_a_failed_directory_of_a_bookie_that_serves_warns() -> None:
    report = make.report(state=State.READ_ONLY, directories_failed=("/bookie/ledgers/a",))

    (event,) = told(status(make.bookie_case(report=report)))

    assert (event.reason, event.is_warning) == ("DirectoryFailed", True)


def test_a_memory_limit_that_is_too_small_and_a_held_mass_deletion_warn() -> None:
    small = {"resources": {"requests": {"memory": "256Mi"}, "limits": {"memory": "512Mi"}}}
    held = make.bookie_case(report=make.report(garbage_held_ledgers=120))

    found = told(status(held, spec_changes=small, children=make.rolled_out(**small)))

    assert [(event.reason, event.is_warning) for event in found] == [
        ("LimitBelowNeed", True),
        ("MassDeletionHeld", True),
    ]


def reasons(found: BookieClusterStatus, after_ms: int = 0) -> list[str]:
    return [event.reason for event in told(found, after_ms)]


def test_what_begins_is_told_however_many_repeat_themselves() -> None:
    old = changed(state="Held").bookies[0]
    many = [old.model_copy(update={"name": f"b{number}"}) for number in range(warnings.REPEATED_MAX + 5)]
    new = old.model_copy(update={"name": "new", "since": values.format_time(make.NOW_MS + warnings.REPEAT_MS)})

    found = told(status().model_copy(update={"bookies": (*many, new)}), after_ms=warnings.REPEAT_MS)

    assert len(found) == warnings.REPEATED_MAX + 1
    assert found[-1].target == "new"


def test_a_bookie_that_heals_or_has_never_lived_is_no_news() -> None:
    assert reasons(changed(state="Repairing", counted="WithoutData")) == []
    assert reasons(changed(state="Provisioning", has_lived=False, away_since="2027-01-15T07:00:00Z")) == []


def test_a_bookie_is_away_from_a_minute_on() -> None:
    away = changed(state="Missing", away_since=values.format_time(make.NOW_MS))

    assert reasons(away, warnings.AWAY_MS - 1) == []
    assert reasons(away, warnings.AWAY_MS) == ["BookieDown"]


def test_every_way_in_which_a_mount_is_not_proven_has_one_name() -> None:
    for reason in ("MountMissing", "MountSuspect", "SharedFilesystem"):
        assert reasons(changed(state="Held", reason=reason)) == ["MountNotProven"]


def test_a_bookie_that_is_held_for_another_reason_is_told_again() -> None:
    keys = {told(changed(state="Held", reason=reason))[0].key for reason in ("WipedInPlace", "EmptyButInitialized")}

    assert len(keys) == 2


def test_a_loss_names_every_volume_that_is_not_valid_and_all_where_none_is_known() -> None:
    first = status().bookies[0]
    volumes = [volume.model_copy(update={"contents": "Valid"}) for volume in first.volumes]
    half = (volumes[0].model_copy(update={"contents": "Regenerating"}), *volumes[1:])

    (some,), (every,) = (told(changed(state="Suspected", volumes=which)) for which in (half, tuple(volumes)))

    assert f"the bookie lost {half[0].role} {half[0].name} of incarnation 1 (" in some.message
    assert "the bookie lost all volumes of incarnation 1 (" in every.message


def conditioned(kind: str, value: str, reason: str) -> BookieClusterStatus:
    quiet = status()
    other = tuple(
        one.model_copy(update={"status": value, "reason": reason}) if one.type == kind else one
        for one in quiet.conditions
    )
    return quiet.model_copy(update={"conditions": other})


def test_what_the_bookies_own_warning_says_is_not_said_of_the_cluster_too() -> None:
    for reason in ("BookieHeld", "OrphanedBookies"):
        assert reasons(conditioned("Stalled", "True", reason)) == []


def test_ledgers_that_a_bookie_cannot_judge_warn() -> None:
    assert reasons(conditioned("StorageHealthy", "False", "LedgersQuarantined")) == ["LedgersQuarantined"]


@pytest.mark.parametrize(
    "found",
    [
        conditioned("Stalled", "True", "RecordUnreadable"),
        changed(state="Missing", away_since="2027-01-15T07:59:00Z"),
    ],
)
def test_what_lasts_of_the_cluster_and_of_a_bookie_that_is_away_is_told_again(found: BookieClusterStatus) -> None:
    first, soon, late = (told(found, after)[0].key for after in (0, warnings.REPEAT_MS - 60_001, warnings.REPEAT_MS))

    assert first == soon != late


def test_a_clock_that_is_behind_the_one_that_wrote_the_status_tells_it_once() -> None:
    held = changed(state="Held")

    assert told(held, after_ms=-90_000)[0].key == told(held)[0].key
