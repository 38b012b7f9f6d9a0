"""What a running bookie can take needs no restart; whatever it cannot is rolled out as ever (spec/operator.md#Q17)."""

import asyncio
from pathlib import Path

import pytest

from bookie_operator.crash import CrashPoint
from bookie_operator.plan.live_settings import FIELDS
from operator_world_support import World
from rolling_support import AUTOMATIC, PODS, Watcher, die, run, said


@pytest.fixture
def fleet(world: World) -> World:
    """A fleet that rolls out by itself, of a release that takes settings as it runs."""
    world.live_keys = tuple(FIELDS)
    for pod in PODS:
        world.start_container(pod)
    world.edit(rollout=AUTOMATIC)
    run(world, passes=4)
    assert said(world, "UpToDate")[:2] == ("True", "Updated")
    return world


def in_force(world: World, key: str) -> set[str]:
    return {one.live[key] for one in world.bookies.values()}


def restart_for(world: World) -> set[str]:
    return {path for one in world.status().bookies for path in one.restart_for}


def taken(world: World) -> set[tuple[str, ...]]:
    return {one.taken_live for one in world.status().bookies}


def test_a_setting_that_bookies_take_as_they_run_restarts_nobody_and_is_there_after_a_restart(fleet: World) -> None:
    watcher = Watcher(fleet)

    fleet.edit(config={"logLevel": "DEBUG"}, repair={"stabilization": "6s", "copyRate": "8Mi"})
    run(fleet, passes=6)

    assert watcher.stops == []
    assert (in_force(fleet, "logLevel"), in_force(fleet, "copyRateBytesPerSecond")) == ({"DEBUG"}, {"8388608"})
    assert said(fleet, "UpToDate")[:2] == ("True", "Updated")
    assert taken(fleet) == {("spec.config.logLevel", "spec.repair.copyRate")}
    assert restart_for(fleet) == set()
    fleet.start_container(PODS[0])  # in its old pod it reads what that began with
    assert fleet.bookie(PODS[0]).live["logLevel"] == ""
    run(fleet, passes=3)
    assert in_force(fleet, "logLevel") == {"DEBUG"}
    fleet.kill(PODS[0])
    run(fleet, passes=2)
    assert "logLevel=DEBUG" in fleet.bookie(PODS[0]).settings
    assert fleet.wrong == []


def test_while_orders_do_not_arrive_nobody_is_restarted_for_it_and_the_status_says_what_is_missing(
    fleet: World,
) -> None:
    watcher = Watcher(fleet)
    fleet.settings_lost = 6 * len(PODS)

    fleet.edit(config={"logLevel": "DEBUG"})
    run(fleet, passes=6)

    assert watcher.stops == []
    assert said(fleet, "UpToDate")[0] == "False"
    assert "4 bookies have yet to take spec.config.logLevel" in said(fleet, "UpToDate")[2]
    fleet.settings_lost = 0
    run(fleet, passes=2)
    assert (in_force(fleet, "logLevel"), watcher.stops) == ({"DEBUG"}, [])


def test_taken_out_of_the_spec_the_default_is_back_without_a_restart(fleet: World) -> None:
    watcher = Watcher(fleet)
    fleet.edit(config={"logLevel": "DEBUG"})
    run(fleet, passes=6)

    fleet.edit(config={})
    run(fleet, passes=6)

    assert (watcher.stops, fleet.wrong) == ([], [])
    assert in_force(fleet, "logLevel") == {""}
    assert taken(fleet) == {()}


def test_beside_a_setting_that_needs_a_restart_each_goes_its_way(fleet: World) -> None:
    watcher = Watcher(fleet)

    fleet.edit(config={"logLevel": "DEBUG", "flushInterval": "5000"})
    run(fleet, passes=4)

    assert in_force(fleet, "logLevel") == {"DEBUG"}
    assert "spec.config.flushInterval" in restart_for(fleet)
    assert "spec.config.logLevel" not in restart_for(fleet)
    run(fleet, passes=8)
    assert (watcher.stops[:1], watcher.wrong, fleet.wrong) == (PODS[:1], [], [])


NO_BOOKIE_READS: dict[str, object] = {"security": {"tls": {"mode": "Disabled", "secretName": "later"}}}
TAKEN: dict[str, object] = {"config": {"logLevel": "DEBUG"}}


@pytest.mark.parametrize(("first", "then"), [(TAKEN, NO_BOOKIE_READS), (NO_BOOKIE_READS, TAKEN)])
def test_beside_a_field_that_no_bookie_reads_nobody_restarts_for_what_it_took(
    fleet: World, first: dict[str, object], then: dict[str, object]
) -> None:
    watcher = Watcher(fleet)

    for edit in (first, then):
        fleet.edit(**edit)
        run(fleet, passes=6)

    assert watcher.stops == []
    assert in_force(fleet, "logLevel") == {"DEBUG"}
    assert taken(fleet) == {("spec.config.logLevel",)}
    assert restart_for(fleet) == set()
    assert said(fleet, "UpToDate")[:2] == ("True", "Updated")


@pytest.mark.parametrize(
    "pause", [{"lifecycle": {"paused": True, "terminationGrace": "2m"}}, {"rollout": {"paused": True}}]
)
def test_paused_nobody_is_told(fleet: World, pause: dict[str, dict[str, object]]) -> None:
    fleet.edit(
        config={"logLevel": "DEBUG"},
        **{key: (AUTOMATIC if key == "rollout" else {}) | one for key, one in pause.items()},
    )
    run(fleet, passes=4)

    assert in_force(fleet, "logLevel") == {""}


def test_while_paused_a_value_that_was_set_back_and_is_still_in_force_is_not_called_up_to_date(fleet: World) -> None:
    """Its pod is of what the spec says again, and the bookie is not."""
    fleet.edit(config={"logLevel": "DEBUG"})
    run(fleet, passes=6)

    fleet.edit(config={}, rollout=AUTOMATIC | {"paused": True})
    run(fleet, passes=6)

    assert in_force(fleet, "logLevel") == {"DEBUG"}
    assert said(fleet, "UpToDate")[:2] == ("False", "Paused")
    assert "bookies have yet to take spec.config.logLevel" in said(fleet, "UpToDate")[2]
    fleet.edit(rollout=AUTOMATIC)
    run(fleet, passes=4)
    assert in_force(fleet, "logLevel") == {""}
    assert said(fleet, "UpToDate")[:2] == ("True", "Updated")


def test_a_value_that_no_bookie_could_use_is_refused_and_nobody_is_told(fleet: World) -> None:
    fleet.edit(config={"logLevel": "LOUD"})
    run(fleet, passes=4)

    assert said(fleet, "Stalled")[:2] == ("True", "SpecInvalid")
    assert in_force(fleet, "logLevel") == {""}


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 3, 5, 7])
def test_after_a_death_at_any_write_all_have_it(fleet: World, after: int, tmp_path: Path) -> None:
    watcher, crash = Watcher(fleet), CrashPoint(after, str(tmp_path), die)
    fleet.edit(config={"logLevel": "DEBUG"})

    crashes = asyncio.run(fleet.run(fleet.operator(crash), passes=8, crash=crash))

    assert crashes == 1
    assert (in_force(fleet, "logLevel"), watcher.stops, fleet.wrong) == ({"DEBUG"}, [], [])
