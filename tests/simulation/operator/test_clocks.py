"""The clock of the operator's node was ahead and is right again: nothing waits until it has come there once more
(spec/operator.md#K10). How a loss heals then is told in test_heal.py."""

import asyncio
import copy
import random

import pytest

from bookie_operator.model import dates
from bookie_operator.model.operation import OperationPhase
from bookie_operator.plan.repair import GRANT_TTL_MS
from meeting_support import Judge
from operator_world_support import World

DAY_MS = 24 * 3_600_000
HOUR_MS = 3_600_000
LAST = "ledgers-zone-a-1"  # of four: who leaves


@pytest.mark.parametrize("is_another", [False, True], ids=["one operator", "another one"])
@pytest.mark.parametrize("passes", [2, 11])
def test_a_bookie_leaves_and_its_claims_go_after_a_clock_was_set_back(
    world: World, passes: int, is_another: bool
) -> None:
    storage = copy.deepcopy(world.spec()["storage"]) | {"retention": {"onScaleDown": "Delete", "keepFor": "20s"}}
    world.edit(storage=storage, scaleDown={"proofInterval": "4s"})
    world.write(30, random.Random(1))
    judge = Judge(world)
    world.ahead_ms, world.says_time = 30 * DAY_MS, False
    operator = world.operator()
    world.edit(replicas=3)
    asyncio.run(world.run(operator, passes=passes))
    told = world.status().bookie(LAST)
    assert told is not None
    assert told.leaving is not None
    world.ahead_ms = 0

    asyncio.run(world.run(world.operator() if is_another else operator, passes=100))

    assert LAST not in {one["metadata"]["name"] for one in world.of_kind("Pod")}
    assert not [one for one in world.of_kind("PersistentVolumeClaim") if one["metadata"]["name"].endswith(LAST)]
    assert judge.wrong + world.wrong == []
    assert world.lost_entries() == []


def test_a_clock_that_was_set_back_is_written_down_once(world: World) -> None:
    world.ahead_ms, world.says_time = 30 * DAY_MS, False
    world.edit(replicas=3)
    asyncio.run(world.run(world.operator(), passes=3))
    world.ahead_ms = 0

    asyncio.run(world.run(world.operator(), passes=1))

    status = world.status()
    assert dates.none_ahead(status, world.now_ms) == status


def test_a_grant_of_a_clock_that_was_ahead_lives_five_minutes(world: World) -> None:
    world.ahead_ms, world.says_time = 30 * DAY_MS, False
    world.step_ms = 10_000
    world.refuse_grants = "evidence_changed"
    world.lose(LAST)
    asyncio.run(world.run(world.operator(), passes=20))
    assert f"grant/{LAST}" in world.writes
    world.ahead_ms, world.refuse_grants = 0, ""

    asyncio.run(world.run(world.operator(), passes=60, until_quiet=True))

    assert world.is_quiet()
    assert world.granted_for_ms == [GRANT_TTL_MS]


@pytest.mark.parametrize(("before_ms", "after_ms"), [(0, HOUR_MS), (-HOUR_MS, 0)], ids=["goes wrong", "is put right"])
@pytest.mark.parametrize("is_another", [False, True], ids=["one operator", "another one"])
def test_a_clock_that_is_put_ahead_proves_no_end_of_an_old_process(
    world: World, before_ms: int, after_ms: int, *, is_another: bool
) -> None:
    """What a ready node proves in four minutes it does not prove in one second that the clock calls an hour."""
    world.ahead_ms = before_ms
    operator = world.operator()
    world.lose(LAST, by_force=True)
    asyncio.run(world.run(operator, passes=6))

    world.ahead_ms = after_ms
    asyncio.run(world.run(world.operator() if is_another else operator, passes=4))

    told = world.status().bookie(LAST)
    assert told is not None
    assert [gate.name for gate in told.gates] == ["G12-OldProcess"]
    assert world.accepted == []


@pytest.mark.parametrize("kind", ["Restart", "Fence"])
def test_an_operation_that_a_clock_far_ahead_looks_at_is_carried_out(world: World, kind: str) -> None:
    world.ahead_ms = 30 * DAY_MS
    world.now_ms += 60_000
    world.ask("new", kind, target={"bookie": LAST}, expiresAfter="1h")

    asyncio.run(world.run(world.operator(), passes=40))

    assert world.operation("new").phase is OperationPhase.COMPLETE


def test_an_operation_expires_though_the_clock_of_the_operator_is_far_behind(world: World) -> None:
    world.ahead_ms = -30 * DAY_MS
    world.ask("old", "Restart", target={"bookie": LAST}, expiresAfter="1h")
    world.now_ms += DAY_MS
    world.writes.clear()

    asyncio.run(world.run(world.operator(), passes=3))

    assert world.operation("old").phase is OperationPhase.EXPIRED
    assert [one for one in world.writes if one.startswith("delete")] == []


def test_a_clock_far_ahead_expires_nothing_of_a_cluster_that_is_not_there_yet() -> None:
    world = World()
    world.ahead_ms = 30 * DAY_MS
    world.ask("early", "Restart", target={"bookie": LAST}, expiresAfter="1h")

    asyncio.run(world.run(world.operator(), passes=2))

    assert world.operation("early").phase is OperationPhase.QUEUED
