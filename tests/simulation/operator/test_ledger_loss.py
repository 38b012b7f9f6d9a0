"""AcceptLedgerLoss: ledgers that nobody can end are closed by a recorded act (spec/operator.md#U15)."""

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from bookie_operator.crash import CrashPoint
from bookie_operator.model.operation import OperationPhase
from operator_world_support import World
from rolling_support import PODS, die, run

LEDGERS = ["7", "8", "9", "10", "11", "12"]
WHY = "the rack burnt, and both disks with it"


def ask(world: World, **target: Any) -> None:
    world.now_ms += 60_000
    said = {"ledgers": LEDGERS, "givenUp": [PODS[0], PODS[2]]} | target
    world.ask("burnt", "AcceptLedgerLoss", target=said, reason=WHY)


def test_every_ledger_is_closed_once_by_the_ids_of_exactly_those_bookies(world: World) -> None:
    ask(world)
    run(world, passes=14)

    told = world.operation("burnt")
    assert told.phase is OperationPhase.COMPLETE, told
    assert [one.id for one in told.ledgers] == LEDGERS
    assert all("given up by BookieOperation data/burnt" in one.said for one in told.ledgers)
    ids = (world.bookie(PODS[0]).bookie_id, world.bookie(PODS[2]).bookie_id)
    assert {given_up for given_up, _ in world.ledgers_ended.values()} == {ids}
    assert sorted(ledger for ledger, _ in world.ledgers_asked) == sorted(LEDGERS)
    assert world.is_quiet(), world.status()


@pytest.mark.parametrize("write", range(1, 9))
def test_whichever_write_was_the_operators_last_all_are_closed(world: World, write: int, tmp_path: Path) -> None:
    ask(world)
    crash = CrashPoint(write, str(tmp_path), die)
    crashes = asyncio.run(world.run(world.operator(crash), passes=14, crash=crash))
    run(world, passes=14)

    assert crashes == 1
    assert world.operation("burnt").phase is OperationPhase.COMPLETE
    assert sorted(world.ledgers_ended) == sorted(LEDGERS)


def test_a_ledger_that_somebody_deleted_needs_no_end(world: World) -> None:
    world.ledgers_gone = {"8"}
    ask(world)
    run(world, passes=14)

    told = world.operation("burnt")
    assert told.phase is OperationPhase.COMPLETE, told
    assert [one.said for one in told.ledgers if one.id == "8"] == ["there is no such ledger"]
    assert told.message.startswith("5 of 6 ledgers are settled (there is no ledger 8);")
    assert [ledger for ledger, _ in world.ledgers_asked].count("8") == 1
    assert "8" not in world.ledgers_ended


@pytest.mark.slow
def test_one_that_may_still_be_answered_is_asked_for_once_a_minute_and_holds_no_other(world: World) -> None:
    world.ledgers_refused["8"] = "bookie data.ledgers.zone-a.0 answers for this ledger"
    ask(world)
    run(world, passes=130)

    told = world.operation("burnt")
    assert (told.phase, [one.id for one in told.ledgers]) == (OperationPhase.RUNNING, [x for x in LEDGERS if x != "8"])
    assert "5 of 6 ledgers are settled. bookie data.ledgers.zone-a.0 answers" in told.message
    at = [when for ledger, when in world.ledgers_asked if ledger == "8"]
    assert 2 <= len(at) <= 4
    assert min(later - earlier for earlier, later in itertools.pairwise(at)) >= 60_000

    world.ledgers_refused.clear()
    run(world, passes=70)
    assert world.operation("burnt").phase is OperationPhase.COMPLETE


def test_a_name_that_no_bookie_has_ends_nothing(world: World) -> None:
    ask(world, givenUp=[PODS[0], "ledgers-zone-b-9"])
    run(world, passes=6)

    told = world.operation("burnt")
    assert told.phase is OperationPhase.QUEUED
    assert "no bookie of this cluster is called ledgers-zone-b-9" in told.message
    assert world.ledgers_asked == []


def test_while_the_cluster_is_paused_nothing_is_given_up(world: World) -> None:
    world.edit(lifecycle={"paused": True, "terminationGrace": "2m"})
    ask(world)
    run(world, passes=6)

    assert world.operation("burnt").phase is OperationPhase.QUEUED
    assert world.ledgers_asked == []


def test_a_status_that_somebody_lost_closes_nothing_twice(world: World) -> None:
    ask(world)
    run(world, passes=14)
    ended = dict(world.ledgers_ended)
    world.objects[("BookieOperation", "burnt")].pop("status")
    operator = world.operator()
    asyncio.run(world.run(operator, passes=14))

    assert world.operation("burnt").phase is OperationPhase.COMPLETE
    assert world.ledgers_ended == ended, "the record of who gave up what is the first one"


@pytest.mark.slow
def test_what_is_refused_slowly_starves_no_other_and_holds_no_pass_after_the_other(world: World) -> None:
    """Each attempt at a ledger takes 20 s: a recovery that runs into time-outs."""
    world.ledger_takes_ms = 20_000
    for ledger in LEDGERS[:4]:
        world.ledgers_refused[ledger] = "bookie x is registered and may still answer"
    ask(world)
    run(world, passes=150)

    assert {ledger for ledger, _ in world.ledgers_asked} == set(LEDGERS)
    at = [when for _, when in world.ledgers_asked]
    assert min(later - earlier for earlier, later in itertools.pairwise(at)) >= 40_000, "and a rest as long"


@pytest.mark.slow
def test_consent_ends_with_its_time_whatever_was_refused_until_then(world: World) -> None:
    world.ledgers_refused["8"] = "bookie data.ledgers.zone-b.0 answers for this ledger"
    ask(world, ledgers=["7", "8"])
    run(world, passes=14)
    world.now_ms += 24 * 3_600_000
    run(world, passes=3)
    world.ledgers_refused.clear()
    run(world, passes=70)

    told = world.operation("burnt")
    assert told.phase is OperationPhase.FAILED
    assert "not settled within 24h: 8." in told.message
    assert list(world.ledgers_ended) == ["7"]


@pytest.mark.parametrize("how", ["delete", "pause"])
def test_an_operation_that_is_taken_back_meanwhile_ends_no_further_ledger(world: World, how: str) -> None:
    operator = world.operator()
    ask(world)
    while not world.ledgers_ended:
        asyncio.run(world.run(operator, passes=1))
    if how == "delete":
        world.objects.pop(("BookieOperation", "burnt"))
    else:
        world.edit(lifecycle={"paused": True, "terminationGrace": "2m"})
    asyncio.run(world.run(operator, passes=10))

    assert len(world.ledgers_ended) == 1
